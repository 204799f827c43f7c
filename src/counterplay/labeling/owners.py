"""Who owns which rows of a pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from counterplay.errors import InvalidInputError
from counterplay.tables import Labels
from counterplay.tables.cells import first_missing, shown
from counterplay.tables.table import check_groups, check_same_rows


def read_owners(owners: Any, pool: Any, n: int) -> tuple[list[str], list[Any]]:
    """Return the names of the parties, all different, and the rows of each.

    ``owners`` has one owner per row (numbers or texts), one list of rows per party, or a mapping of
    names to rows; only lists of rows may overlap.
    """
    names, rows = _named_rows(owners, pool, n)
    check_names(names)
    return names, rows


def check_names(names: Sequence[Any]) -> None:
    """Refuse parties that could not be told apart, or not be written down."""
    for name in names:
        if not isinstance(name, str) or not 1 <= len(name) <= 200:
            raise InvalidInputError(
                f"the name of a party must have 1 to 200 characters, got {shown(name)}"
            )
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InvalidInputError(
            f"two parties are called {shown(twice)}, one by a number and one by a text; rename one"
        )


def _named_rows(owners: Any, pool: Any, n: int) -> tuple[list[str], list[Any]]:
    if isinstance(owners, Mapping):
        try:
            return [str(name) for name in owners], [list(owned) for owned in owners.values()]
        except TypeError:
            raise InvalidInputError(
                f"owners must map each party to a list of its rows, got {shown(owners)}"
            ) from None
    if isinstance(owners, list | tuple) and owners and all(map(_is_list, owners)):
        return [f"party {i + 1}" for i in range(len(owners))], list(owners)
    check_same_rows(pool, owners, "pool", "owners")
    _check_all_owned(owners)
    parties = Labels.of(check_groups(owners, n, "owners"), what="owners")
    numbered = not any(isinstance(party, str) for party in parties.classes)
    names = [f"party {party}" if numbered else str(party) for party in parties.classes]
    return names, [np.flatnonzero(parties.codes == code) for code in range(len(names))]


def _check_all_owned(owners: Any) -> None:
    try:
        missing = first_missing(pd.Series(owners))
    except (TypeError, ValueError):
        raise InvalidInputError(f"owners must be one per row, got {shown(owners)}") from None
    if missing is not None:
        raise InvalidInputError(f"row {missing} has no owner; give every row an owner or drop it")


def _is_list(entry: Any) -> bool:
    if not isinstance(entry, list | tuple | range | np.ndarray | pd.Index):
        return False
    try:
        return np.ndim(entry) == 1
    except ValueError:  # ragged, or a list that holds itself
        return False
