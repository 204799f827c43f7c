"""Studies: claims as experiments, with figures.

An area describes its experiments in ``counterplay.studies.AREA`` (see :mod:`.study`). The engine
around it is small: :mod:`.registry` finds the areas, :mod:`.plan` turns a study into cells,
:mod:`.runner` executes the missing ones on one of the :mod:`.backends`, :mod:`.store` keeps them
in SQLite, :mod:`.results` turns stored cells into verdicts and figures. From a shell::

    counterplay run tradeoff/switch-tax
"""
