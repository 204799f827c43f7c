"""Contract cases of counterplay.datasets."""

from counterplay.datasets import Dataset, DatasetInfo, fetch, load

CASES = {
    "Dataset": {
        "make": lambda: load("iris"),
        "run": lambda data: (data.pair(), data.to_frame()),
        "bad": {
            "no labels": lambda: Dataset("laptops", "catalogue").pair(),
            "no table": lambda: Dataset("mnist", "images").to_frame(),
        },
    },
    "DatasetInfo": {
        "make": lambda: DatasetInfo("iris", "table", 150, "Flowers.", True, "bundled"),
    },
    "fetch": {
        "no_case": "needs files or a network; tests/datasets covers it with a local server",
    },
    "list_datasets": {"args": {"folder": "."}},
    "load": {
        "args": {"name": "digits", "return_X_y": True},
        "bad": {
            "unknown name": lambda: load("digit"),
            "not bundled": lambda: load("mnist"),
            "bundled name given to fetch": lambda: fetch("digits"),
        },
    },
}
