"""Two ways to pick a rule from past data: as if nobody moved, and as if everything were known.

Neither is a learner of the protocol. The first is the practitioner's default and is gamed; the
second needs the agents' abilities, which nobody has, and serves as a skyline.
Source: spec 02 section 3.7.
"""

from __future__ import annotations

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.agents import Agents
from counterplay.strategic.classes import HypothesisClass
from counterplay.strategic.predictors import UnionPredictor


class OracleERM:
    """Pick the rule with the fewest mistakes after everybody has moved; needs the radii.

    Parameters
    ----------
    hypotheses:
        The catalogue.

    Attributes
    ----------
    member_:
        Number of the rule, the first among equals.
    losses_:
        Share of mistakes of every rule.

    Examples
    --------
    >>> from counterplay.strategic import ThresholdClass
    >>> people = Agents(X=[[0.0], [1.0], [2.0]], y=[0, 0, 1], radius=0.5)
    >>> OracleERM(ThresholdClass([1.0, 1.5, 2.0])).fit(people).member_
    2

    References
    ----------
    Spec 02 section 3.7.
    """

    member_: int
    losses_: FloatArray

    def __init__(self, hypotheses: HypothesisClass) -> None:
        self.hypotheses = hypotheses

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hypotheses!r})"

    def fit(self, agents: Agents) -> OracleERM:
        """Count the mistakes of every rule and keep the best."""
        if len(agents) == 0:
            raise InvalidInputError("agents must not be empty")
        wrong = np.zeros(self.hypotheses.n, dtype=np.int64)
        for block in agents.blocks(max(1, 4_000_000 // self.hypotheses.n)):
            wrong += self._mistakes(block).sum(axis=0)
        self.losses_ = wrong / len(agents)
        self.member_ = int(np.argmin(wrong))
        return self

    def _mistakes(self, agents: Agents) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        return agents.losses(self.hypotheses)

    @property
    def predictor_(self) -> UnionPredictor:
        """The chosen rule."""
        return UnionPredictor(self.hypotheses, [self.member_])


class NonStrategicERM(OracleERM):
    """Pick the rule with the fewest mistakes on features as they are, as if nobody moved.

    This is what fitting on past data does. After deployment people move, and it accepts gamers.

    Parameters
    ----------
    hypotheses:
        The catalogue.

    Attributes
    ----------
    member_, losses_:
        As in :class:`OracleERM`.

    Examples
    --------
    The threshold 1.5 is perfect on honest data, and accepts the person at 1 who moves by 0.5.

    >>> from counterplay.strategic import ThresholdClass
    >>> people = Agents(X=[[0.0], [1.0], [2.0]], y=[0, 0, 1], radius=0.5)
    >>> naive = NonStrategicERM(ThresholdClass([1.0, 1.5, 2.0])).fit(people)
    >>> naive.member_, round(naive.predictor_.loss(people), 3)
    (1, 0.333)

    References
    ----------
    Spec 02 section 3.7.
    """

    def _mistakes(self, agents: Agents) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        wrong: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = self.hypotheses.predict(
            agents.X
        ) != (agents.y[:, None] > 0)
        return wrong
