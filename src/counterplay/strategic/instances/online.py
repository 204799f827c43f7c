"""Online instances: a catalogue together with the adversary that makes a bound tight.

Source: Proposition 2.D, Example 2.1, see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import check_int, check_positive_int, check_size
from counterplay.strategic.box_classes import ThresholdClass
from counterplay.strategic.classes import DistanceTableClass, HypothesisClass
from counterplay.strategic.finite_classes import FiniteMetricClass
from counterplay.strategic.game import CatalogueGame
from counterplay.strategic.instances.adversaries import (
    HalvingAdversary,
    MWMRAdversary,
    OnlineAdversary,
    StarAdversary,
)

MOST_RULES = 3000


@checked
@dataclass(frozen=True)
class OnlineInstance:
    """A catalogue and the adversary that goes with it.

    Parameters
    ----------
    name:
        Name of the instance.
    hypotheses:
        The catalogue.

    Examples
    --------
    >>> star_instance(4)
    OnlineInstance(name='star', hypotheses=FiniteMetricClass(n=4, points=5))
    """

    name: str
    hypotheses: HypothesisClass
    _adversary: Callable[..., CatalogueGame] = field(repr=False)

    def adversary(self, **options: Any) -> CatalogueGame:
        """Return a new adversary; options are those of the adversary's class."""
        return self._adversary(self.hypotheses, **options)


@checked
def threshold_line(n: int) -> OnlineInstance:
    """Return n thresholds on a line with an adversary that forces floor(log2 n) mistakes.

    Every agent stands at 0, so the distances are 1..n; the adversary answers so that the larger
    part of the rules survives each mistake.

    Parameters
    ----------
    n:
        Number of thresholds.

    Examples
    --------
    >>> from counterplay.strategic import StrategicHalving, play
    >>> instance = threshold_line(1000)
    >>> play(StrategicHalving(instance.hypotheses), instance.adversary()).mistakes
    9
    """
    check_size(check_positive_int(n, "n"), 1_000_000, "rules")
    return OnlineInstance("threshold line", ThresholdClass(np.arange(1, n + 1)), HalvingAdversary)


@checked
def star_instance(n: int) -> OnlineInstance:
    """Return n singletons on the leaves of a star, where seeing x first is worth n - 2 mistakes.

    Point 0 is the centre at distance 1 from every leaf; leaves are at distance 2 from each other.
    Rule i accepts leaf i + 1 only. The adversary knows the published rule in advance.

    Parameters
    ----------
    n:
        Number of leaves and rules.

    Examples
    --------
    >>> from counterplay.strategic import play
    >>> from counterplay.strategic.lab import SequentialElimination
    >>> instance = star_instance(7)
    >>> play(SequentialElimination(instance.hypotheses), instance.adversary(), rounds=6).mistakes
    6

    References
    ----------
    Example 2.1, see docs/theory/02-strategic-finite.md.
    """
    return OnlineInstance("star", star_rules(check_positive_int(n, "n")), StarAdversary)


def star_rules(n: int) -> FiniteMetricClass:
    """Return n singletons on the leaves of a star."""
    check_size(n, MOST_RULES, "rules, whose distances are a table,")
    dist = np.full((n + 1, n + 1), 2.0)
    dist[0, :] = dist[:, 0] = 1.0
    np.fill_diagonal(dist, 0.0)
    leaves = np.eye(n, n + 1, k=1, dtype=np.bool_)
    return FiniteMetricClass(dist, leaves, check_metric=False)


@checked
def online_lb_instance(n: int) -> OnlineInstance:
    """Return the instance on which every learner without x errs n - 1 times, given time.

    Points: 0 is the origin, 1..n the basis vectors e_i, n+1..2n the points 0.9 e_i; rule i accepts
    e_i only. The adversary sees the law of the next rule and sends an agent at 0.9 e_i for the
    likeliest i. The distances are a literal table ("Radii exactly on a distance" in
    docs/theory/02-strategic-finite.md).

    Parameters
    ----------
    n:
        Number of rules, at least 2.

    Examples
    --------
    >>> from counterplay.strategic import MWMR, play
    >>> instance = online_lb_instance(8)
    >>> learner = MWMR(instance.hypotheses, random_state=0)
    >>> play(learner, instance.adversary(mode="lazy"), rounds=500).mistakes
    7

    References
    ----------
    Theorem 2.3, see docs/theory/02-strategic-finite.md.
    """
    check_size(check_int(n, "n", low=2), MOST_RULES, "rules, whose distances are a table,")
    e, near = slice(1, n + 1), slice(n + 1, 2 * n + 1)
    dist = np.zeros((2 * n + 1, 2 * n + 1))
    dist[0, e], dist[0, near] = 1.0, 0.9
    dist[e, 0], dist[near, 0] = 1.0, 0.9
    dist[e, e] = math.sqrt(2.0)
    dist[near, near] = 0.9 * math.sqrt(2.0)
    dist[e, near] = dist[near, e] = math.sqrt(1.81)
    index = np.arange(n)
    dist[1 + index, n + 1 + index] = dist[n + 1 + index, 1 + index] = 0.1
    np.fill_diagonal(dist, 0.0)
    positive = np.zeros((n, 2 * n + 1), dtype=np.bool_)
    positive[index, 1 + index] = True
    return OnlineInstance(
        "online lower bound",
        FiniteMetricClass(dist, positive, check_metric=False),
        OnlineAdversary,
    )


@checked
def mwmr_worst_case(n: int, rounds: int) -> OnlineInstance:
    """Return the exact worst case of MWMR in a number of rounds: an adversary with the optimal k.

    With t rounds and m rules left, exactly k(t, m) rules are wrong on the agent; k comes from the
    dynamic programme of :func:`counterplay.strategic.lab.mwmr_worst_mistakes`.

    Parameters
    ----------
    n:
        Number of rules.
    rounds:
        Number of rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.strategic import MWMR, play
    >>> from counterplay.strategic.lab import mwmr_worst_mistakes
    >>> instance = mwmr_worst_case(16, 16)
    >>> runs = [play(MWMR(instance.hypotheses, random_state=i), instance.adversary()).mistakes
    ...         for i in range(200)]
    >>> abs(np.mean(runs) - mwmr_worst_mistakes(16, 16)[-1]) < 0.5
    np.True_
    """
    make = partial(MWMRAdversary, rounds=check_positive_int(rounds, "rounds"))
    return OnlineInstance("worst case of MWMR", DistanceTableClass(n), make)
