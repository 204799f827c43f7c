"""Quantile probing: see agents first, and still end with one fixed rule of the catalogue.

StrategicHalving gives a map from features to rules; if a single rule must be published in the end,
its last rule may be bad. Probing the 1st, 2nd, 4th, .. nearest or farthest rule removes a constant
share of the wrong ones whatever their number is, so a rule drawn at a random time is good.

Source: "Quantile probing", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import IntArray
from counterplay.errors import InformationError
from counterplay.strategic.predictors import UnionPredictor
from counterplay.strategic.settings import FEATURES_FIRST
from counterplay.strategic.union_sampling import UnionSamplingLearner


@checked
class QuantileProbe(UnionSamplingLearner):
    """Publish the j-th nearest or j-th farthest rule, j = 1, 2, 4, ..; output one fixed rule.

    Use it when features are seen first (setting ``"features_first"``), agents are independent, and
    one rule of the catalogue must be fixed in the end.

    Parameters
    ----------
    hypotheses:
        The catalogue of n rules.
    output:
        ``"random_time"`` (what the guarantee covers) or ``"last"``.
    filter:
        ``"mistake"`` removes rules after mistakes only, as in the theorems; ``"safe"`` uses all the
        information of every round.
    radius_range:
        What is known about all radii, for the safe filter.
    on_empty:
        What to do when no rule explains the data: ``"raise"`` an error, ``"stop"`` learning, or
        ``"restart"`` with the whole catalogue.
    random_state:
        Seed of the draws.

    Notes
    -----
    Guarantee: with independent realizable agents the expected error of the output is at most
    4 (floor(log2 n) + 1) ln(n) / T. Whatever number k of rules is wrong for an agent, some j in
    (k/2, k] is probed with probability 1/(2L) and then j rules go.

    Examples
    --------
    >>> from counterplay.strategic import ApplicantStream, bounds, instances, play
    >>> instance = instances.ProperInstance(16, eps=0.01, target=5)
    >>> probe = QuantileProbe(instance.hypotheses, random_state=0)
    >>> stream = ApplicantStream(instance, "features_first", random_state=1)
    >>> _ = play(probe, stream, rounds=5546, fast=True)
    >>> instance.output_loss(probe) <= bounds.quantile_probe_error(16, 5546)
    True
    """

    needs = FEATURES_FIRST
    output_size: ClassVar[int] = 1

    def _choose(self, x: Any) -> UnionPredictor:
        if x is None:
            raise InformationError("QuantileProbe needs the features x before it publishes")
        alive = self.alive
        self._row = self.hypotheses.distances(np.asarray(x)[None], alive)[0]
        rank = int(self.block_ranks(alive.size, 1)[0])
        position = np.argpartition(self._row, rank)[rank]
        return UnionPredictor(self.hypotheses, alive[[position]])

    def block_ranks(self, size: int, count: int) -> IntArray:
        """Return the rank of the published rule in each round."""
        j = 2 ** self._rng.integers(size.bit_length(), size=count)
        nearest = self._rng.random(count) < 0.5
        return np.where(nearest, j - 1, size - j)
