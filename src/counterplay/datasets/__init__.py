"""Real data behind one interface: bundled with scikit-learn, in a local folder, or downloaded.

``load(name)`` gives what scikit-learn ships and always works. ``fetch(name)`` looks into the folder
named by the environment variable ``COUNTERPLAY_DATA``, then into the download cache, then, where an
official address is known, on the network. Both return a :class:`Dataset`, or ``(X, y)`` with
``return_X_y=True``.

Labels follow the convention of the library: 1 is the outcome the people in the data want (the
loan repaid, the mail delivered, the tumour benign). Each data set says what its 1 means, and tables
keep the raw frame next to the numbers. ``list_datasets()`` tells what is available here.
"""

from counterplay.datasets.bundled import load
from counterplay.datasets.dataset import Dataset, DatasetInfo
from counterplay.datasets.fetching import fetch, list_datasets

__all__ = ["Dataset", "DatasetInfo", "fetch", "list_datasets", "load"]
