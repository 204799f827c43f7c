"""The data sets that the benchmarks need beyond those that come with scikit-learn.

    COUNTERPLAY_DATA=FOLDER python benchmarks/needed_tables.py

Prints which of them are not here and where they come from. A benchmark without its table takes a
bundled one instead and names it, or says that it was left out.
"""

from __future__ import annotations

from counterplay.datasets import list_datasets
from counterplay.datasets.catalogue import CATALOGUE

NEEDED: dict[str, tuple[str, ...]] = {
    "adult": ("consortium",),
    "bank_marketing": ("people",),
    "elec2": ("people",),
    "emnist_balanced": ("symmetry",),
    "flusight": ("offers",),
    "german_credit": ("audit",),
    "give_me_some_credit": ("people", "recourse", "moves"),
    "heloc": ("consortium", "moves", "recourse"),
    "mnist": ("symmetry",),
    "sms_spam": ("poisoning",),
    "spambase": ("poisoning",),
    "taiwan": ("audit", "moves", "people"),
    "train_tickets": ("people",),
}


def missing() -> list[str]:
    """Return one line for every needed data set that is not here."""
    here = {entry.name: entry.available for entry in list_datasets()}
    return [
        f"{name} is not here; needed by {', '.join(scripts)}; source: {CATALOGUE[name].source}"
        for name, scripts in NEEDED.items()
        if not here[name]
    ]


def main() -> None:
    """Print what is missing."""
    lines = missing()
    if lines:
        print("Set COUNTERPLAY_DATA to a folder with these data sets (docs/data.md):")
    print(*lines or ["all data sets that the benchmarks need are here"], sep="\n")


if __name__ == "__main__":
    main()
