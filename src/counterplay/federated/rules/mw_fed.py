"""MW-FED: parties that are far from their target get more weight, and more of the work.

With parties that leave when satisfied and no margin, everybody who is still there has always been
up-weighted, so the rule is plain FedAvg. The margin ``gap`` makes it slow down parties that get
near their target. Rounding the work to whole numbers is where naive code goes wrong:
``floor(k w_i / sum(w))`` is 0 for 20 equal weights, so weights are kept as logarithms.
Source: Algorithm C.2 in docs/theory/04-contribution.md, Proposition 5.I in
docs/theory/05-defection.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.draws import Keys, fold, run_keys, uniforms
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_positive_int,
    check_real,
)
from counterplay.errors import InvalidInputError
from counterplay.federated.reports import Decision, Reports, RuleState

Rounding = Literal["floor", "nearest", "largest_remainder", "sigma"]
ROUNDINGS: tuple[Rounding, ...] = ("floor", "nearest", "largest_remainder", "sigma")


@checked
@dataclass(frozen=True)
class MWFed:
    """Multiplicative weights on the parties: they grow while a party misses its target.

    Use it as the baseline that reacts to losses but cannot predict them, or, with ``work``, to
    spare satisfied parties.

    Parameters
    ----------
    gap : float
        Margin of the up-weighting test ``F_m >= eps_m + gap``; a natural choice is the ``delta``
        of the other rules. With 0 the rule equals :class:`FedAvg` when parties leave once
        satisfied. Targets of another kind (accuracies) come in through :meth:`judge`.
    growth : float
        Factor of an up-weighted party; 1 is federated averaging.
    work : int, optional
        Average number of local steps per party and round. They are then shared out by weight
        (some parties may get none), and updates are averaged by the steps behind them. Default:
        everybody does the same work, and updates are averaged by the weights themselves.
    rounding : {"largest_remainder", "floor", "nearest", "sigma"}
        How shares of the work become whole numbers, see ``rounded_loads``.
    min_share : float
        Share of an equal load that nobody falls below.
    seed : int
        Seed of ``rounding="sigma"``.

    Guarantees
    ----------
    ``gap=0`` reproduces FedAvg under parties that leave when satisfied (Proposition 5.I). Weights
    are kept as logarithms: they neither overflow nor vanish.

    Examples
    --------
    >>> from counterplay.federated.stack import NumpyStack
    >>> reports = Reports(np.array([1.0, 3.0]), NumpyStack([[1.0], [2.0]]), np.zeros(2))
    >>> rule, state = MWFed(gap=2.0, growth=3.0), RuleState()
    >>> [rule.decide(reports, 1.0, state).step.round(9).tolist() for _ in range(2)]
    [[-1.5], [-1.75]]

    References
    ----------
    Algorithm C.2 in docs/theory/04-contribution.md; Blum, Haghtalab, Phillips, Shao (2021).
    """

    gap: float = 0.0
    growth: float = 1.1
    work: int | None = None
    rounding: Rounding = "largest_remainder"
    min_share: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_real(self.gap, "gap", low=0.0)
        check_real(self.growth, "growth", low=1.0)
        check_choice(self.rounding, "rounding", ROUNDINGS)
        check_real(self.min_share, "min_share", low=0.0, high=1.0)
        check_int(self.seed, "seed", low=0)
        if self.work is not None:
            check_positive_int(self.work, "work")

    @checked
    def decide(self, reports: Reports, step_size: float, state: RuleState) -> Decision:
        """Average by the work done or by the weights, which grow where the loss is too large."""
        M = len(reports.loss)
        done = self.local_steps(reports.ids, state) if reports.steps is None else reports.steps
        if state.round > 0:
            self.judge(reports.ids, reports.loss >= reports.eps + self.gap, state)
        state.round += 1
        if done is None:
            weights = state.recall(reports.ids, np.zeros(M))
            shares = np.exp(weights - weights.max())
        else:
            shares = done.astype(np.float64)
        total = float(shares.sum())
        step = reports.moves.combine(reports.bounded(shares * (-step_size / max(total, 1e-300))))
        return Decision(step, "running", 0, np.zeros(M, dtype=bool))

    def judge(self, ids: IntArray, missing: BoolArray, state: RuleState) -> None:
        """Raise the weights of the parties that miss their target, whatever it is measured in."""
        state.store(ids, self.raised(state.recall(ids, np.zeros(len(ids))), missing))

    def raised(self, log_weights: FloatArray, missing: BoolArray) -> FloatArray:
        """Return the logarithms of the weights after a round in which some miss their target."""
        return log_weights + math.log(self.growth) * missing

    def loads(self, log_weights: FloatArray, work: float, keys: Keys | None = None) -> IntArray:
        """Share out ``work`` units per party by weight: ``(..., M)`` for many runs at once.

        Examples
        --------
        >>> MWFed(growth=4.0).loads(np.log([[4.0, 1.0, 1.0]]), 64).tolist()
        [[128, 32, 32]]
        """
        ideal = ideal_loads(log_weights, float(work * log_weights.shape[-1]), self.min_share)
        return rounded_loads(ideal, self.rounding, keys)

    def local_steps(self, ids: IntArray, state: RuleState) -> IntArray | None:
        """Local steps that the parties ``ids`` should take next; None if that is not its task."""
        if self.work is None:
            return None
        weights = state.recall(ids, np.zeros(len(ids)))
        keys = fold(run_keys(self.seed, 1), state.round + 1)
        return np.asarray(self.loads(weights[None], self.work, keys)[0])


def ideal_loads(log_weights: FloatArray, total: float, min_share: float = 0.0) -> FloatArray:
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


def rounded_loads(ideal: FloatArray, rounding: Rounding, keys: Keys | None = None) -> IntArray:
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


def _largest_remainder(ideal: FloatArray, whole: FloatArray) -> IntArray:
    missing = np.rint(ideal.sum(axis=-1) - whole.sum(axis=-1)).astype(np.int64)
    order = np.argsort(-(ideal - whole), axis=-1, kind="stable")
    rank = np.argsort(order, axis=-1, kind="stable")
    return np.asarray(whole + (rank < missing[..., None]), dtype=np.int64)
