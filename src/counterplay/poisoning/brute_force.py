"""The exact attackable region on a small finite domain, by trying every clean poison set.

The reference for every closed form and certificate of this area. Source:
docs/theory/10-poisoning.md, "Ordered and worst ERM".
"""

from __future__ import annotations

from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, IntArray, check_int, check_labels01
from counterplay.errors import InvalidInputError
from counterplay.poisoning.model import check_learner, check_positions, fresh

_MAX_POISONS = 1 << 20


@checked
def brute_force_region(
    learner: Any,
    h_star: ArrayLike,
    S_idx: ArrayLike,
    *,
    points: ArrayLike | None = None,
    budget: int | None = None,
    multiset_cap: int = 1,
) -> BoolArray:
    """Exact attackable region on a finite domain by trying every clean poison set.

    Use it as the reference for everything else; up to about 14 points.

    Parameters
    ----------
    learner:
        A deterministic learner. It gets positions 0..k-1, or rows of ``points``.
    h_star:
        Label row of the target on the k points of the domain.
    S_idx:
        Positions of the training points (with repetitions if you like).
    points:
        Coordinates of the domain, for learners on the line or in space.
    budget:
        Largest poison set.
    multiset_cap:
        Copies of each point that may be added; above 1 for learners that react to repetitions
        (then seen points may be added, too).

    Examples
    --------
    >>> from counterplay.core.finite_class import FiniteClass
    >>> from counterplay.poisoning.lab import OrderedERM
    >>> brute_force_region(OrderedERM(FiniteClass.singletons(4)), [0, 0, 0, 1], [0])
    array([False,  True,  True,  True])
    """
    check_learner(learner)
    target = check_labels01(h_star, "h_star").astype(np.uint8)
    if target.ndim != 1:
        raise InvalidInputError(f"h_star must be one row of labels, got shape {target.shape}")
    seen = check_positions(S_idx, len(target), "S_idx")
    domain = np.arange(len(target)) if points is None else np.asarray(points)
    region = np.zeros(len(target), dtype=np.bool_)
    for extra in _poisons(len(target), seen, budget, check_int(multiset_cap, "cap", low=1)):
        rows = np.concatenate([seen, extra]).astype(np.int64)
        model = fresh(learner).fit(domain[rows], target[rows])
        region |= np.asarray(model.predict(domain)).astype(np.uint8) != target
        if region.all():
            break
    return region


def _poisons(k: int, seen: IntArray, budget: int | None, cap: int) -> Any:
    if cap > 1:
        if (cap + 1) ** k > _MAX_POISONS:
            raise InvalidInputError(f"{(cap + 1) ** k} poison sets are too many; use fewer points")
        for counts in product(range(cap + 1), repeat=k):
            if budget is None or sum(counts) <= budget:
                yield np.repeat(np.arange(k), counts)
        return
    unseen = np.setdiff1d(np.arange(k), seen)
    most = unseen.size if budget is None else min(budget, unseen.size)
    total = sum(comb(unseen.size, size) for size in range(most + 1))
    if total > _MAX_POISONS:
        raise InvalidInputError(f"{total} poison sets are too many; use fewer points or a budget")
    for size in range(most + 1):
        for extra in combinations(unseen.tolist(), size):
            yield np.array(extra, dtype=np.int64)
