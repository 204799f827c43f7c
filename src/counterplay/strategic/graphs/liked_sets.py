"""Best sets of at most k items per person from counts of clicks, over all such sets at once.

For the class of all neighbourhoods of at most k items the proxy loss splits into one decision per
person and item: an item pays for itself when its share of the person's clicks exceeds 1/(2k).

Source: Lemma B.3 and theorem B.5, Proposition 3.F, see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import IntArray
from counterplay.errors import NotRealizableError
from counterplay.strategic.bounds import log_sauer


def liked_sets(
    who: IntArray, item: IntArray, n_people: int, n_items: int, k: int, *, exactly: bool
) -> tuple[NDArray[np.int64], float]:
    """Indicator matrix (people, items) and ln of the number of candidate models.

    ``item`` is -1 where nothing was clicked. ``exactly``: the smallest sets that explain every
    click; otherwise those of least proxy loss, smaller sets first on ties.
    """
    hit = item >= 0
    counts = np.bincount(who[hit] * n_items + item[hit], minlength=n_people * n_items).reshape(
        n_people, n_items
    )
    visits = np.bincount(who, minlength=n_people)
    size = n_people * log_sauer(min(k, n_items), n_items)
    if exactly:
        _check_explained(counts, visits, k)
        return (counts > 0).astype(np.int64), size
    worth = 2 * k * counts > visits[:, None]  # its clicks against its cost in the degree term
    if n_items > k:  # keep the k most clicked ones, first item on ties
        order = np.argsort(-counts, axis=1, kind="stable")
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(n_items)[None, :], axis=1)
        worth &= rank < k
    return worth.astype(np.int64), size


def _check_explained(counts: IntArray, visits: IntArray, k: int) -> None:
    many = np.flatnonzero((counts > 0).sum(axis=1) > k)
    if many.size:
        raise NotRealizableError(
            f"person {many[0]} clicked on {int((counts[many[0]] > 0).sum())} items, more than k={k}"
        )
    mixed = np.flatnonzero((counts.sum(axis=1) > 0) & (counts.sum(axis=1) < visits))
    if mixed.size:
        raise NotRealizableError(
            f"person {mixed[0]} clicked on something once and on nothing another time, although "
            "everything was shown; give slates, or use mode='agnostic'"
        )
