"""How little a round reveals: the laws and divergences behind the information lower bounds.

Given a negative agent and a published union of k of the n basis rules, the observation is which of
the k she went to, or none. Its law depends on whether the perfect rule is among the k. The average
over all targets is the benchmark; the divergences from it sum to about ln(1/p) per round, so that
about n/(eps ln(n/eps)) rounds are needed.

Source: Theorem 2.7, Theorem 2.8, Theorem 2.9 and corollary 2.1, see
docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_float_array,
    check_int,
    check_open_fraction,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

Case = Literal["conservative", "blind", "non_ball"]


@checked
def kl_table(n: int, k: int, p: float, case: Case = "conservative") -> pd.DataFrame:
    """Return the laws of a round and the divergences that the lower bounds use.

    One row per law: the benchmark (average over all targets), the law with the perfect rule among
    the k published ones, and without it. Columns: probability of going to each other published
    rule (``other``), to the perfect one (``target``), of staying (``stay``), the divergence of the
    benchmark from the law (``kl``) and the proof's bound on it (``bound``).

    Parameters
    ----------
    n:
        Number of rules.
    k:
        Number of published rules, 1..n (the case ``"blind"``: 1..n-1).
    p:
        Smoothing: share of agents who can reach the perfect rule; eps/(16 n^2) in the proofs.
    case:
        ``"conservative"`` (Theorem 2.7), ``"blind"`` (Theorem 2.8, where only accept
        or reject is seen) or ``"non_ball"`` (Theorem 2.9 and corollary 2.1).

    Examples
    --------
    >>> table = kl_table(10, 3, p=1e-6)
    >>> bool((table["kl"] <= table["bound"]).all())
    True

    References
    ----------
    Theorem 2.7, Theorem 2.9 and corollary 2.1, see docs/theory/02-strategic-finite.md.
    """
    import pandas as pd

    check_int(n, "n", low=2)
    check_choice(case, "case", ("conservative", "blind", "non_ball"))
    check_int(k, "k", low=1, high=n - 1 if case == "blind" else n)
    p = check_open_fraction(p, "p")
    rows = {"conservative": _conservative_rows, "blind": _blind_rows, "non_ball": _non_ball_rows}
    return pd.DataFrame(rows[case](n, k, p)).set_index("law")


def _conservative_rows(n: int, k: int, p: float) -> list[dict[str, float | str]]:
    each = (n * k - 1 + p * (k + 1)) / (n * k * (k + 1))
    stay = (n + 1 - p * (k + 1)) / (n * (k + 1))
    inside = (1 / k, p / k, (1 - p) / k)
    outside = (1 / (k + 1), 1 / (k + 1), 1 / (k + 1))
    bound_in = np.log(1 / p) / (k + 1) + 2 * p / (k + 1)
    return _rows(n, k, (each, each, stay), inside, outside, bound_in, (n + 1) / (n**2 * (k + 1)))


def _non_ball_rows(n: int, k: int, p: float) -> list[dict[str, float | str]]:
    each = (n * k - 1) * (1 - p) / (n * k * (k + 1)) + p / n
    stay = (n + 1) * (1 - p) / (n * (k + 1)) + (n - k) * p / n
    inside = ((1 - p) / k, p, (1 - p) / k)
    outside = ((1 - p) / (k + 1), (1 - p) / (k + 1), p + (1 - p) / (k + 1))
    bound_in = np.log(1 / p) / (k + 1) + 2 * p
    return _rows(n, k, (each, each, stay), inside, outside, bound_in, 1 / (n * k))


def _blind_rows(n: int, k: int, p: float) -> list[dict[str, float | str]]:
    """Only accept/reject is seen: Bernoulli laws, k rules inside and n - k outside."""
    mean = k / n
    inside, outside = (k - 1) * (1 - p) / (n - 1) + p, k * (1 - p) / (n - 1)
    total = 2 / n * np.log(1 / p)  # bounds k KL(inside) + (n - k) KL(outside) together
    weighted = k * bernoulli_kl(mean, inside) + (n - k) * bernoulli_kl(mean, outside)
    nan = float("nan")
    return [
        _row("benchmark", mean, nan, 1 - mean, 0.0, 0.0),
        _row("inside", inside, nan, 1 - inside, bernoulli_kl(mean, inside), nan),
        _row("outside", outside, nan, 1 - outside, bernoulli_kl(mean, outside), nan),
        _row("weighted sum", nan, nan, nan, weighted, total),
    ]


def _rows(
    n: int,
    k: int,
    mean: tuple[float, float, float],
    inside: tuple[float, float, float],
    outside: tuple[float, float, float],
    bound_in: float,
    bound_out: float,
) -> list[dict[str, float | str]]:
    weight = np.array([k - 1, 1, 1])
    logs = [float((weight * mean) @ np.log(np.divide(mean, law))) for law in (inside, outside)]
    rows = [
        _row("benchmark", *mean, 0.0, 0.0),
        _row("inside", *inside, logs[0], bound_in),
    ]
    if k < n:
        rows.append(_row("outside", *outside, logs[1], bound_out))
    return rows


def _row(
    law: str, other: float, target: float, stay: float, kl: float, bound: float
) -> dict[str, float | str]:
    return {"law": law, "other": other, "target": target, "stay": stay, "kl": kl, "bound": bound}


@checked
def kl_divergence(p: ArrayLike, q: ArrayLike) -> float:
    """Return the divergence sum p ln(p/q) of two laws on the same points, in nats.

    Examples
    --------
    >>> round(kl_divergence([0.5, 0.5], [0.25, 0.75]), 4)
    0.1438
    """
    a, b = check_float_array(p, "p", ndim=1), check_float_array(q, "q", ndim=1)
    if a.shape != b.shape:
        raise InvalidInputError(f"p and q must have the same length, got {a.size} and {b.size}")
    return float(rel_entr(a, b).sum())


@checked
def bernoulli_kl(p: float, q: float) -> float:
    """Return the divergence of two Bernoulli laws, in nats.

    Examples
    --------
    >>> round(bernoulli_kl(0.5, 0.25), 4)
    0.1438
    """
    p = check_real(p, "p", low=0.0, high=1.0)
    check_real(q, "q", low=0.0, high=1.0)
    return kl_divergence([p, 1 - p], [q, 1 - q])


@checked
@dataclass(frozen=True)
class LinearBanditEnv:
    """The bandit that rounds without any feedback reduce to.

    An arm is a non-empty set of rules; its reward is -1 with probability ``w . a`` and 0 otherwise,
    with w = (1-p)/(n-1) everywhere except p at the target. Minus the reward has the same law as the
    decision on a negative agent of the smoothed :class:`BlindInstance` when the arm is published.

    Parameters
    ----------
    n:
        Number of rules.
    target:
        The perfect rule.
    p:
        Probability of the target's own point.

    Examples
    --------
    >>> LinearBanditEnv(5, target=2, p=0.001).mean([1, 0, 1, 0, 0]).round(5)
    np.float64(0.25075)

    References
    ----------
    Theorem 2.8, see docs/theory/02-strategic-finite.md.
    """

    n: int
    target: int
    p: float

    def __post_init__(self) -> None:
        check_int(self.n, "n", low=2, high=10_000_000)
        check_int(self.target, "target", low=0, high=self.n - 1)
        check_open_fraction(self.p, "p")

    @property
    def weights(self) -> FloatArray:
        """The parameter w."""
        w = np.full(self.n, (1 - self.p) / (self.n - 1))
        w[self.target] = self.p
        return w

    def mean(self, arm: ArrayLike) -> float:
        """Return the probability of the reward -1."""
        return np.float64(self._check(arm) @ self.weights)

    def pull(self, arm: ArrayLike, size: int = 1, random_state: RandomState = None) -> IntArray:
        """Return ``size`` independent rewards of an arm, each -1 or 0."""
        check_size(check_positive_int(size, "size"), 50_000_000, "rewards")
        hits = generator(random_state).random(size) < self.mean(arm)
        return -hits.astype(np.int64)

    def _check(self, arm: ArrayLike) -> FloatArray:
        a = check_float_array(arm, "arm")
        if a.shape != (self.n,) or not np.isin(a, (0, 1)).all() or not a.any():
            raise InvalidInputError(f"an arm is {self.n} zeros and ones, not all zero")
        return a
