"""Regret notions: how much is lost on the primary loss, and how far the harm is above its rate.

All three regrets are clipped at 1 by definition; pass ``clip=False`` for plots and slope fits.
Source: docs/theory/09-tradeoff.md, "Setting".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, IntArray, check_fraction, check_probabilities
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.model import check_active, check_loss_matrix, check_path


@checked
def primary_regret(l1: ArrayLike, P: ArrayLike, *, clip: bool = True) -> float:
    """Return how much more primary loss the learner has than the best single expert.

    Parameters
    ----------
    l1:
        Primary losses, shape ``(T, K)``.
    P:
        Distribution of the played expert in every round, shape ``(T, K)``, or one realised path
        of expert numbers, shape ``(T,)``.
    clip:
        Whether to return at least 1, as in the definition.

    Examples
    --------
    >>> import numpy as np
    >>> l1 = np.array([[0.0, 1.0]] * 10)
    >>> primary_regret(l1, np.full((10, 2), 0.5))
    5.0
    """
    losses = check_loss_matrix(l1, "primary")
    regret = float(played_losses(losses, P).sum() - losses.sum(axis=0).min())
    return max(regret, 1.0) if clip else regret


@checked
def secondary_regret(l2: ArrayLike, P: ArrayLike, c: float, *, clip: bool = True) -> float:
    """Return how far the learner's secondary loss is above ``c * T``.

    Parameters
    ----------
    l2:
        Secondary losses, shape ``(T, K)``.
    P:
        Distribution of the played expert, or a realised path; see ``primary_regret``.
    c:
        Tolerated secondary loss per round.
    clip:
        Whether to return at least 1, as in the definition.

    Examples
    --------
    >>> import numpy as np
    >>> secondary_regret(np.full((10, 2), 0.5), np.zeros(10, dtype=int), c=0.25)
    2.5
    """
    losses = check_loss_matrix(l2, "secondary")
    rate = check_fraction(c, "c")
    regret = float(played_losses(losses, P).sum() - rate * len(losses))
    return max(regret, 1.0) if clip else regret


@checked
def sleeping_regret(
    l1: ArrayLike, P: ArrayLike, active: ArrayLike, *, clip: bool = True
) -> FloatArray:
    """Return, for every expert, the regret to it summed over the rounds in which it was active.

    Parameters
    ----------
    l1:
        Primary losses, shape ``(T, K)``.
    P:
        Distribution of the played expert, or a realised path; see ``primary_regret``.
    active:
        Which experts were active in every round, boolean, shape ``(T, K)``.
    clip:
        Whether to return at least 1, as in the definition.

    Examples
    --------
    >>> import numpy as np
    >>> l1 = np.array([[0.0, 1.0]] * 10)
    >>> active = np.ones((10, 2), dtype=bool)
    >>> active[4:, 0] = False  # the good expert was there for four rounds only
    >>> sleeping_regret(l1, np.ones(10, dtype=int), active).tolist()
    [4.0, 1.0]
    """
    losses = check_loss_matrix(l1, "primary")
    mask = check_active(active, *losses.shape)
    return sleeping_sums(losses, played_losses(losses, P), mask, clip=clip)


def sleeping_sums(
    losses: FloatArray, played: FloatArray, active: NDArray[np.bool_], *, clip: bool
) -> FloatArray:
    """The sleeping regrets, given the losses of the learner in every round."""
    regret: FloatArray = played @ active - np.einsum("th,th->h", losses, active)
    return np.maximum(regret, 1.0) if clip else regret


def played_losses(losses: FloatArray, P: ArrayLike) -> FloatArray:
    """Return the learner's loss in every round: expected for marginals, realised for a path."""
    array = np.asarray(P)
    if array.ndim == 1:
        path = check_path(array, losses.shape[1])
        if path.size != len(losses):
            raise InvalidInputError(
                f"the path has {path.size} rounds but there are {len(losses)} rows of losses"
            )
        realised: FloatArray = losses[np.arange(len(losses)), path]
        return realised
    marginals = check_probabilities(array, "P")
    if marginals.shape != losses.shape:
        raise InvalidInputError(f"P must have shape {losses.shape}, got {marginals.shape}")
    expected: FloatArray = np.einsum("th,th->t", marginals, losses)
    return expected


@checked
def stints(path: ArrayLike) -> tuple[IntArray, IntArray]:
    """Return starts and lengths of the maximal runs on the same expert.

    Examples
    --------
    >>> starts, lengths = stints([2, 2, 0, 0, 0, 2])
    >>> starts.tolist(), lengths.tolist()
    ([0, 2, 5], [2, 3, 1])
    """
    array = check_path(path)
    if array.ndim != 1:
        raise InvalidInputError("stints needs one path, of shape (T,)")
    starts = np.concatenate([[0], np.flatnonzero(np.diff(array)) + 1])
    return starts, np.diff(np.append(starts, array.size))


@checked
def count_switches(paths: ArrayLike) -> Any:
    """Return how often the expert changes, for one path or for each row of several.

    Examples
    --------
    >>> count_switches([2, 2, 0, 0, 0, 2])
    2
    """
    array = check_path(paths)
    changes = np.count_nonzero(np.diff(array, axis=-1), axis=-1)
    return int(changes) if array.ndim == 1 else changes


@checked
def rounds_since_switch(paths: ArrayLike) -> IntArray:
    """Return how many rounds each path has been on its current expert, zero at a switch.

    Examples
    --------
    >>> rounds_since_switch([2, 2, 0, 0, 0, 2]).tolist()
    [0, 1, 0, 1, 2, 0]
    """
    array = check_path(paths)
    rounds = np.arange(array.shape[-1])
    changed = np.ones(array.shape, dtype=bool)
    changed[..., 1:] = array[..., 1:] != array[..., :-1]
    result: IntArray = rounds - np.maximum.accumulate(np.where(changed, rounds, 0), axis=-1)
    return result
