"""Machine learning when the data plays back.

Data comes from people and organisations who react. Each subpackage treats one such situation as a
game between a learner and its data source, gives the learner that provably does well in it, and
shows on your own data how much there is to win. Start with the subpackage of your problem::

    from counterplay import tradeoff      # one metric to win, one harm budget to keep
"""

__version__ = "0.1.0"
