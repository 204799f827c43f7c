"""Strategic Halving: learn from agents who game you, when you see them before you decide.

Every rule is ranked by how far the agent must move to be accepted by it. Publishing the median one
halves the candidates at each mistake, whatever the agents' unknown abilities are: a false positive
shows that the perfect rule is farther, a false negative that it is closer.

Source: Algorithm 2.1, Theorem 2.1, "Safe filter, exact solver, baselines", see
docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState
from counterplay.core.validation import check_choice
from counterplay.errors import InformationError
from counterplay.strategic.bounds import halving_mistakes
from counterplay.strategic.classes import HypothesisClass
from counterplay.strategic.learner import Filter, OnEmpty, VersionSpaceLearner
from counterplay.strategic.metrics import Points
from counterplay.strategic.predictors import (
    AllNegative,
    MedianMapPredictor,
    PositiveSet,
    Predictor,
    UnionPredictor,
    median_positions,
    median_rank,
)
from counterplay.strategic.settings import FEATURES_AFTER, FEATURES_FIRST


@checked
class StrategicHalving(VersionSpaceLearner):
    """Publish the rule of median distance; at most floor(log2 n) mistakes.

    Use it when you see each agent's features before you decide which rule to show her (setting
    ``"features_first"``). Nothing needs to be known about the agents' abilities.

    Parameters
    ----------
    hypotheses:
        The catalogue of n rules.
    median:
        ``"lower"`` or ``"upper"`` median for an even number of rules; the guarantee is the same.
    filter:
        ``"mistake"`` removes rules after mistakes only, as in the theorems; ``"safe"`` uses all the
        information of every round. The guarantee holds for both.
    radius_range:
        What is known about all radii, for the safe filter.
    on_empty:
        What to do when no rule explains the data: ``"raise"`` an error, ``"stop"`` learning, or
        ``"restart"`` with the whole catalogue.
    random_state:
        Not used: the learner is deterministic.

    Notes
    -----
    Guarantee: on every realizable sequence at most floor(log2 n) mistakes (Theorem 2.1), and
    no learner can do better in the worst case. Each mistake leaves at most half of the rules.

    Examples
    --------
    An adversary forces exactly floor(log2 100) = 6 mistakes, not one more.

    >>> from counterplay.strategic import instances, play
    >>> instance = instances.threshold_line(100)
    >>> play(StrategicHalving(instance.hypotheses), instance.adversary()).mistakes
    6

    References
    ----------
    Algorithm 2.1, Theorem 2.1, see docs/theory/02-strategic-finite.md.
    """

    needs = FEATURES_FIRST
    deterministic: ClassVar[bool] = True
    conservative: ClassVar[bool] = True  # of its version space, see Theorem 2.2

    def __init__(
        self,
        hypotheses: HypothesisClass,
        *,
        median: Literal["lower", "upper"] = "lower",
        filter: Filter = "mistake",
        radius_range: tuple[float, float] = (0.0, math.inf),
        on_empty: OnEmpty = "raise",
        random_state: RandomState = None,
    ) -> None:
        self.median: Literal["lower", "upper"] = check_choice(median, "median", ("lower", "upper"))
        super().__init__(
            hypotheses,
            filter=filter,
            radius_range=radius_range,
            on_empty=on_empty,
            random_state=random_state,
        )

    def mistake_bound(self, rounds: int | None = None) -> float:
        """Return floor(log2 n)."""
        return float(halving_mistakes(self.hypotheses.n))

    def frozen(self) -> MedianMapPredictor:
        """Return the map from x to the median rule of the current version space."""
        return MedianMapPredictor(self.hypotheses, self.alive, self.median)

    def _choose(self, x: Any) -> UnionPredictor:
        if x is None:
            raise InformationError("StrategicHalving needs the features x before it publishes")
        alive = self.alive
        self._row = self.hypotheses.distances(np.asarray(x)[None], alive)[0]
        position = median_positions(self._row[None], self.median)
        return UnionPredictor(self.hypotheses, alive[position])

    def block_ranks(self, size: int, count: int) -> Any:
        """Return the rank of the published rule in each of ``count`` rounds."""
        return np.full(count, median_rank(size, self.median))


@checked
class MajorityHalving(VersionSpaceLearner):
    """Classic Halving as a baseline: publish the majority vote of the rules still possible.

    It does not know that agents move. On some instances the majority accepts nobody for ever, so it
    errs in every round; use :class:`StrategicHalving` instead.

    Parameters
    ----------
    hypotheses:
        A catalogue over a finite space.

    Examples
    --------
    200 mistakes in 200 rounds, where sequential elimination makes 9.

    >>> from counterplay.strategic import instances, play
    >>> instance = instances.star_instance(10)
    >>> play(MajorityHalving(instance.hypotheses), instance.adversary(), rounds=200).mistakes
    200

    References
    ----------
    Example 2.1, "Safe filter, exact solver, baselines", see docs/theory/02-strategic-finite.md.
    """

    needs = FEATURES_AFTER
    deterministic: ClassVar[bool] = True
    conservative: ClassVar[bool] = True

    def __init__(self, hypotheses: HypothesisClass) -> None:
        hypotheses.positive_sets()  # raises for classes without a finite space
        super().__init__(hypotheses)

    def _choose(self, x: Any) -> Predictor:
        """Accept the points that more than half of the rules left accept."""
        votes = self.hypotheses.positive_sets()[self.alive]
        points: Points = np.flatnonzero(2 * votes.sum(axis=0) > votes.shape[0])
        if points.size == 0:
            return AllNegative(votes.shape[1])
        assert self.hypotheses.metric is not None
        return PositiveSet(self.hypotheses.metric, points, votes.shape[1])
