"""How MW-FED splits the work of a round: multiplicative weights, kept as logarithms.

Rounding is where naive code goes wrong: ``floor(k w_i / sum(w))`` is 0 for 20 equal weights.
Source: Algorithm C.2 (MW-FED), see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.draws import Keys, uniforms
from counterplay.core.validation import check_choice
from counterplay.errors import InvalidInputError

Rounding = Literal["floor", "nearest", "largest_remainder", "sigma"]
ROUNDINGS: tuple[Rounding, ...] = ("floor", "nearest", "largest_remainder", "sigma")
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def ideal_loads(log_weights: Floats, total: float, min_share: float = 0.0) -> Floats:
    """Return ``total * w_i / sum(w)`` per agent (last axis), exact for equal weights.

    ``min_share`` keeps every agent at that share of an equal load, so that a satisfied agent that
    falls behind later is noticed quickly.

    Examples
    --------
    >>> ideal_loads(np.zeros(20), 20.0).tolist() == [1.0] * 20
    True
    """
    gaps = log_weights[..., None, :] - log_weights[..., :, None]
    loads = total / np.exp(np.minimum(gaps, 700.0)).sum(axis=-1)
    if min_share > 0.0:
        k = log_weights.shape[-1]
        loads = (1.0 - min_share) * loads + min_share * total / k
    return np.asarray(loads)


def rounded_loads(ideal: Floats, rounding: Rounding, keys: Keys | None = None) -> Ints:
    """Round loads to whole numbers.

    ``floor`` is the text of the algorithm and loses work; ``nearest`` keeps it on average;
    ``largest_remainder`` keeps the total of every round exactly; ``sigma`` rounds up at random with
    the right mean (needs ``keys``).

    Examples
    --------
    >>> rounded_loads(np.array([1.6, 1.6, 0.4, 0.4]), "floor").tolist()
    [1, 1, 0, 0]
    >>> rounded_loads(np.array([1.6, 1.6, 0.4, 0.4]), "largest_remainder").tolist()
    [2, 2, 0, 0]
    """
    check_choice(rounding, "rounding", ROUNDINGS)
    near = np.rint(ideal)
    whole = np.where(abs(ideal - near) < 1e-9 * np.maximum(1.0, near), near, np.floor(ideal))
    if rounding == "floor":
        return np.asarray(whole, dtype=np.int64)
    if rounding == "nearest":
        return np.asarray(np.floor(ideal + 0.5 + 1e-12), dtype=np.int64)
    if rounding == "sigma":
        if keys is None:
            raise InvalidInputError("rounding 'sigma' needs keys: one random key per run")
        draw = uniforms(keys, ideal.shape[-1])
        return np.asarray(whole + (draw < ideal - whole), dtype=np.int64)
    return _largest_remainder(ideal, whole)


def _largest_remainder(ideal: Floats, whole: Floats) -> Ints:
    missing = np.rint(ideal.sum(axis=-1) - whole.sum(axis=-1)).astype(np.int64)
    order = np.argsort(-(ideal - whole), axis=-1, kind="stable")
    rank = np.argsort(order, axis=-1, kind="stable")
    return np.asarray(whole + (rank < missing[..., None]), dtype=np.int64)
