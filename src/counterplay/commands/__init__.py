"""One module per command of the command line, each with a Typer ``app``.

A module imports little at the top: heavy parts are imported inside the function that needs them.
"""
