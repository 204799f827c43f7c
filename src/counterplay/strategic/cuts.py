"""One cut for a range of budgets: the least worst regret, with a certificate between the budgets.

A cut that is right if nobody moves is wrong if everybody does, and the other way round. The cut
here loses as little as possible against the best cut of each budget, whatever the budget is. Best
shown scores only grow with the budget, so errors at two neighbouring budgets bound everything
between them.

Source: "One cut for a range of budgets", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_choice
from counterplay.errors import InvalidInputError

Objective = Literal["regret", "individual", "expected", "decisions"]
OBJECTIVES = ("regret", "individual", "expected", "decisions")
FLAT = 1e-3  # cuts whose objective is within this of the best are called as good


@dataclass(frozen=True, eq=False)
class CutProblem:
    """The best scores people can show, per budget, and what errors with them cost.

    Parameters
    ----------
    budgets
        Budgets in rising order.
    low
        Scores that everybody can show for certain, ``(people, budgets)``.
    high
        Scores that nobody can exceed; equal to ``low`` where they are exact.
    qualified
        True labels.
    weights
        Weight of each person.
    prices
        What a false positive and a false negative cost.
    """

    budgets: FloatArray
    low: FloatArray
    high: FloatArray
    qualified: BoolArray
    weights: FloatArray
    prices: tuple[float, float] = (1.0, 1.0)

    def column(self, k: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return certain and possible scores at one budget, and both error weights per person."""
        share = self.weights / self.weights.sum()
        fp = self.prices[0] * share * ~self.qualified
        fn = self.prices[1] * share * self.qualified
        return self.low[:, k], self.high[:, k], fp, fn

    def errors(self, cut: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return FP and FN of a cut per budget, at most; then both at least."""
        share = self.weights / self.weights.sum()
        fp = self.prices[0] * share * ~self.qualified
        fn = self.prices[1] * share * self.qualified
        sure, maybe = self.low >= cut, self.high >= cut
        return fp @ maybe, fn @ ~sure, fp @ sure, fn @ ~maybe

    def least(self) -> tuple[FloatArray, FloatArray]:
        """Return the least loss of any cut per budget, and between neighbouring budgets.

        Both are lower bounds where scores are brackets: unqualified people show what is certain,
        qualified ones what is possible. Between budgets k and k + 1 the unqualified show what they
        can at k and the qualified what they can at k + 1.
        """
        at = [self._least(k, k) for k in range(self.budgets.size)]
        between = [self._least(k, k + 1) for k in range(self.budgets.size - 1)]
        return np.array(at), np.array(between)

    def _least(self, first: int, second: int) -> float:
        low, _, fp, fn = self.column(first)
        high = self.high[:, second]
        shown = np.where(self.qualified, high, low)
        order = np.argsort(shown, kind="stable")
        # Cut above the first j people: their false negatives, the others' false positives.
        losses = fp.sum() + np.concatenate(([0.0], np.cumsum((fn - fp)[order])))
        ties = np.concatenate(([False], shown[order[1:]] == shown[order[:-1]], [False]))
        return float(losses[~ties].min())

    def regret(self, cut: float) -> FloatArray:
        """Return the loss of a cut over the best cut of each budget (at most)."""
        fp, fn, _, _ = self.errors(cut)
        return fp + fn - self.least()[0]

    def certified(self, cut: float) -> FloatArray:
        """Return what the regret cannot exceed between neighbouring budgets."""
        fp, fn, _, _ = self.errors(cut)
        return fp[1:] + fn[:-1] - self.least()[1]


@dataclass(frozen=True)
class Cut:
    """A cut and what it guarantees on the sample.

    Parameters
    ----------
    cut
        Accepted are scores of at least this.
    worst
        Its objective: the worst regret at the given budgets, or the loss that was minimised.
    low
        Least cut whose objective is within 0.001 of the best (in units of the larger price).
    high
        Largest such cut.
    """

    cut: float
    worst: float
    low: float
    high: float


def cut_over_budgets(
    low: FloatArray,
    high: FloatArray,
    y: ArrayLike,
    budget: ArrayLike,
    objective: Objective = "regret",
    *,
    value: FloatArray | None = None,
    sample_weight: FloatArray | None = None,
    shares: FloatArray | None = None,
) -> Cut:
    """Return the cut on best shown scores that is best over several budgets.

    Parameters
    ----------
    low
        Best scores shown for certain, ``(people, budgets)``.
    high
        Bounds on them from above.
    y
        True labels, 1 or True for the qualified.
    budget
        Budgets in rising order.
    objective
        ``"regret"``: least worst regret over the budgets. ``"individual"``: least loss if everybody
        has the worst of the budgets for the decision. ``"expected"``: least mean loss, budgets
        weighted by ``shares``.
    value
        What decisions are worth, ``[[tn, fp], [fn, tp]]``.
    sample_weight
        Weight of each person.
    shares
        Share of people with each budget, for ``"expected"``.

    Notes
    -----
    Guarantee: no cut has a smaller objective on the sample, see proposition 20.D; the certificate
    between the budgets is `CutProblem.certified`. Ties go to the middle of the widest gap.

    Examples
    --------
    >>> scores = np.array([0.0, 1.0, 2.0, 3.0])[:, None] + [0.0, 1.0]
    >>> found = cut_over_budgets(scores, scores, [0, 0, 1, 1], [0.0, 1.0])
    >>> found.worst, 1 < found.cut <= 3
    (0.25, True)
    """
    check_choice(objective, "objective", OBJECTIVES[:3])
    qualified = np.asarray(y).astype(bool)
    weights = np.ones(qualified.size) if sample_weight is None else sample_weight
    shown = CutProblem(
        np.asarray(budget, float), low, high, qualified, weights, error_prices(value)
    )
    return best_cut(shown, objective, shares)


def error_prices(value: FloatArray | None) -> tuple[float, float]:
    """Return what a false positive and a false negative cost, given what decisions are worth.

    Examples
    --------
    >>> error_prices(np.array([[0.0, -5.0], [0.0, 1.0]]))
    (5.0, 1.0)
    """
    if value is None:
        return 1.0, 1.0
    fp, fn = float(value[0, 0] - value[0, 1]), float(value[1, 1] - value[1, 0])
    if not (fp >= 0 and fn >= 0 and fp + fn > 0):
        raise InvalidInputError(
            "value says that an error is worth more than a right decision: a cut needs tn >= fp "
            f"and tp >= fn in [[tn, fp], [fn, tp]]; got tn - fp = {fp:g}, tp - fn = {fn:g}"
        )
    return fp, fn


def best_cut(
    shown: CutProblem, objective: Objective | Literal["worst"], shares: FloatArray | None = None
) -> Cut:
    """Return the cut of least objective over all cuts between shown scores.

    ``"worst"`` is the largest loss over the budgets instead of the largest regret.
    """
    values, place_low, place_high = _places(shown)
    worst = np.full(values.size + 1, -np.inf)
    if (
        objective == "individual"
    ):  # the unqualified have the largest budget, the qualified the least
        _, _, fp, fn = shown.column(0)
        worst = _falling(fp, place_high[:, -1], values.size) + _rising(
            fn, place_low[:, 0], values.size
        )
    elif objective == "expected":
        assert shares is not None
        worst[:] = 0.0
        for k, share in enumerate(shares):
            worst += share * _losses(shown, k, place_low, place_high, values.size)
    else:
        least = np.zeros(shown.budgets.size) if objective == "worst" else shown.least()[0]
        for k in range(shown.budgets.size):  # a running maximum: cuts x budgets need not fit
            losses = _losses(shown, k, place_low, place_high, values.size)
            np.maximum(worst, losses - least[k], out=worst)
    best = float(worst.min())
    scale = max(shown.prices)
    pick = _widest(worst <= best + 1e-13 * scale, values)
    flat = np.flatnonzero(worst <= best + FLAT * scale)
    ends = [_between(values, int(j)) for j in (flat[0], flat[-1])]
    return Cut(_between(values, pick), best, ends[0], ends[1])


def _places(shown: CutProblem) -> tuple[FloatArray, IntArray, IntArray]:
    """Return all different scores in order, and the place of each person's scores among them."""
    both = np.concatenate((shown.low.ravel(), shown.high.ravel()))
    values, place = np.unique(both, return_inverse=True)
    low, high = np.split(place.reshape(-1), 2)
    return values, low.reshape(shown.low.shape), high.reshape(shown.high.shape)


def _losses(
    shown: CutProblem, k: int, place_low: IntArray, place_high: IntArray, size: int
) -> FloatArray:
    """Return the largest possible loss at budget k of the cut below each place, and above all."""
    _, _, fp, fn = shown.column(k)
    return _falling(fp, place_high[:, k], size) + _rising(fn, place_low[:, k], size)


def _falling(weights: FloatArray, place: IntArray, size: int) -> FloatArray:
    """Return, for the cut below each place, the weight at or above it."""
    mass = np.bincount(place, weights=weights, minlength=size)
    return np.concatenate((np.cumsum(mass[::-1])[::-1], [0.0]))


def _rising(weights: FloatArray, place: IntArray, size: int) -> FloatArray:
    """Return, for the cut below each place, the weight below it."""
    mass = np.bincount(place, weights=weights, minlength=size)
    return np.concatenate(([0.0], np.cumsum(mass)))


def _widest(good: BoolArray, values: FloatArray) -> int:
    """Return the place of a good cut: in the widest run of gaps between scores.

    Neighbouring good gaps count as one; accepting or rejecting everybody only if nothing else.
    """
    inner = np.flatnonzero(good[1:-1]) + 1
    if not inner.size:
        return int(np.argmax(good))
    width = values[inner] - values[inner - 1]
    return int(inner[int(np.argmax(width))])


def _between(values: FloatArray, place: int) -> float:
    """Return a float above value ``place - 1`` and at most value ``place``."""
    if place == 0:
        return -np.inf
    if place == values.size:
        return np.inf
    below, above = float(values[place - 1]), float(values[place])
    middle = below / 2 + above / 2
    return middle if below < middle <= above else above


def bootstrap_regret(
    shown: CutProblem,
    cut: float,
    rng: np.random.Generator,
    confidence: float = 0.95,
    draws: int = 200,
) -> tuple[float, float]:
    """Return the interval of the worst regret of a cut over draws of people.

    The cut stays; in every draw the best cut of each budget is found anew.
    """
    n = shown.qualified.size
    share, even = shown.weights / shown.weights.sum(), np.full(n, 1 / n)
    budgets = [_tabled(shown, k, cut) for k in range(shown.budgets.size)]
    worst, taken, summed = np.empty(draws), np.empty(n), np.zeros(n + 1)
    for draw in range(draws):  # one at a time and in place: the table may be long
        times = rng.multinomial(n, even).astype(np.float64)
        regrets = []
        for own, everybody, order, step, ends in budgets:
            np.multiply(np.take(times, order, out=taken), step, out=taken)
            np.cumsum(taken, out=summed[1:])
            best = times @ everybody + summed[ends].min()
            regrets.append(times @ own - best)
        worst[draw] = max(regrets) / (times @ share)
    tail = (1 - confidence) / 2
    low_end, high_end = np.quantile(worst, [tail, 1 - tail])
    return float(low_end), float(high_end)


def _tabled(
    shown: CutProblem, k: int, cut: float
) -> tuple[FloatArray, FloatArray, IntArray, FloatArray, BoolArray]:
    """Return each person's loss at the cut and if all are accepted, and the steps from cut to cut.

    The steps are in the order in which a rising cut rejects people; the last entry says where a cut
    can lie, that is not between equal scores.
    """
    low, high, fp, fn = shown.column(k)
    own = np.where(shown.qualified, fn * (low < cut), fp * (high >= cut))
    best = np.where(shown.qualified, high, low)
    order = np.argsort(best, kind="stable")
    ties = np.concatenate(([False], best[order[1:]] == best[order[:-1]], [False]))
    return own, fp, order, (fn - fp)[order], ~ties
