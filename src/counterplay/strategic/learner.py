"""What a learner is here, and the common part of those that keep the rules still possible.

A version-space learner publishes members of its version space (or unions of them) and removes, with
one of the filters, the rules that a round contradicts.

Source: "The mistake filter", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.play import Learner
from counterplay.core.seeds import RandomState, generator
from counterplay.core.setting import Setting
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_choice
from counterplay.core.version_space import VersionSpace
from counterplay.errors import (
    InformationError,
    InvalidInputError,
    NotRealizableError,
    ProtocolError,
)
from counterplay.strategic.classes import HypothesisClass
from counterplay.strategic.filters import mistake_filter, safe_filter
from counterplay.strategic.predictors import AllNegative, Predictor, UnionPredictor
from counterplay.strategic.settings import BLIND, Feedback

Filter = Literal["mistake", "safe"]
OnEmpty = Literal["raise", "stop", "restart"]


class StrategicLearner(Learner):
    """A strategy for publishing rules; subclass it to bring your own.

    A round is one call of :meth:`act` (for applicants: from features, or None, to a
    :class:`Predictor`; on a graph: from :class:`Seen` to one label per node) and one of
    :meth:`observe` with the :class:`Feedback` that the setting allows.

    Attributes
    ----------
    needs:
        The poorest setting the learner can work in.
    on_graph:
        Whether it plays on manipulation graphs.
    ball_only:
        Whether it reasons with distances and needs agents with radii.
    deterministic:
        Whether its next rule follows from the past.
    conservative:
        Whether it changes on mistakes only.
    bound_in_expectation:
        Whether :meth:`mistake_bound` bounds an expectation.
    open_problem:
        Why no version for poorer settings exists, where that is unknown to science.
    """

    needs: Setting = BLIND
    on_graph: ClassVar[bool] = False
    ball_only: bool = False
    deterministic: ClassVar[bool] = False
    conservative: ClassVar[bool] = False
    bound_in_expectation: ClassVar[bool] = False
    open_problem: ClassVar[str] = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(needs={self.needs.name!r})"

    @property
    def remaining(self) -> int | None:
        """Number of rules still possible, if the learner keeps a version space."""
        return None

    def mistake_bound(self, rounds: int | None = None) -> float | None:
        """Return the guaranteed number of mistakes on realizable sequences, if there is one."""
        return None

    def copy(self) -> Self:
        """An independent copy in the same state."""
        return copy.deepcopy(self)


@checked(arrays=True)
@dataclass(frozen=True)
class Marginals:
    """The law of the rule a learner is about to publish, as far as adversaries may know it.

    Parameters
    ----------
    members:
        ``(n,)`` probability that each rule is part of the published union.
    all_negative:
        Probability that nobody is accepted.

    Examples
    --------
    >>> from counterplay.strategic import MWMR
    >>> from counterplay.strategic.lab import ThresholdClass
    >>> MWMR(ThresholdClass([1.0, 2.0]), random_state=0).marginals().members
    array([0.5, 0.5])
    """

    members: FloatArray
    all_negative: float = 0.0


class VersionSpaceLearner(StrategicLearner):
    """Base of the learners with a version space; subclass ``_choose`` to bring your own.

    Parameters
    ----------
    hypotheses:
        The catalogue.
    filter:
        ``"mistake"`` removes rules after mistakes only, as in the theorems; ``"safe"`` uses all the
        information of every round, see :func:`safe_filter`.
    radius_range:
        What is known about all radii, used by the safe filter.
    on_empty:
        What to do when no rule explains the data: ``"raise"`` an error, ``"stop"`` learning, or
        ``"restart"`` with the whole catalogue.
    random_state:
        Seed of the learner's coins.
    """

    ball_only = True

    def __init__(
        self,
        hypotheses: HypothesisClass,
        *,
        filter: Filter = "mistake",
        radius_range: tuple[float, float] = (0.0, math.inf),
        on_empty: OnEmpty = "raise",
        random_state: RandomState = None,
    ) -> None:
        self.hypotheses = hypotheses
        self.filter: Filter = check_choice(filter, "filter", ("mistake", "safe"))
        self.radius_range = _check_range(radius_range)
        self.on_empty: OnEmpty = check_choice(on_empty, "on_empty", ("raise", "stop", "restart"))
        self.random_state = random_state
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.version_space = VersionSpace(self.hypotheses.n)
        self.mistakes = 0
        self.restarts = 0
        self.stopped = False
        self._rng = generator(self.random_state)
        self._published: Predictor | None = None
        self._row: FloatArray | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hypotheses!r}, {self.version_space!r})"

    @property
    def remaining(self) -> int:
        """Number of rules still possible."""
        return len(self.version_space)

    @property
    def alive(self) -> IntArray:
        """Numbers of the rules still possible."""
        return self.version_space.alive

    def marginals(self) -> Marginals:
        """Return the law of the next published rule; default: ask :meth:`preview`."""
        members = np.zeros(self.hypotheses.n)
        published = self.preview()
        if isinstance(published, UnionPredictor):
            members[published.members] = 1.0
        return Marginals(members, all_negative=float(isinstance(published, AllNegative)))

    def preview(self) -> Predictor:
        """Return the next published rule without publishing it, for deterministic learners."""
        if not self.deterministic:
            raise InformationError(
                f"{type(self).__name__} draws its rules at random; nobody can know the next one"
            )
        return self._choose(None)

    def act(self, seen: Any = None) -> Predictor:
        """Return the rule of this round; ``seen`` is x where the setting reveals it first."""
        self._published = self._choose(seen)
        return self._published

    def resume(self, published: Predictor) -> None:
        """Go to the point of a round after ``published`` was published, for fast simulation."""
        self._published, self._row = published, None

    @abstractmethod
    def _choose(self, x: Any) -> Predictor:
        """Return the rule to publish; ``x`` is None unless the setting reveals it."""

    def observe(self, feedback: Feedback) -> None:
        """Remove the rules that the round contradicts."""
        if self._published is None:
            raise ProtocolError("observe was called before act")
        self.mistakes += feedback.mistake
        if self.stopped or (self.filter == "mistake" and not feedback.mistake):
            self.version_space.tick()
        else:
            self._learn(feedback)
        self._published, self._row = None, None

    def _learn(self, feedback: Feedback) -> None:
        row, rho = self._row_and_rho(feedback)
        self.remove(self.surviving(row, rho, feedback.y, feedback.yhat), feedback)

    def surviving(self, row: FloatArray, rho: float, y: int, yhat: int) -> BoolArray:
        """Return which of the alive rules survive, given their distances."""
        if self.filter == "mistake":
            return mistake_filter(row, rho, y, yhat)
        return safe_filter(row, rho, y, yhat, *self.radius_range)

    def _row_and_rho(self, feedback: Feedback) -> tuple[FloatArray, float]:
        """Return the distances of the alive rules and of the published one, from one table."""
        assert self._published is not None
        alive = self.version_space.alive
        if self._row is None:
            if feedback.x is None:
                raise InformationError(
                    f"{type(self).__name__} needs the features x after the round; the setting "
                    "hides them"
                )
            self._row = self.hypotheses.distances(np.asarray(feedback.x)[None], alive)[0]
        if not isinstance(self._published, UnionPredictor):
            return self._row, float(self._published.distance(np.asarray(feedback.x)[None])[0])
        position = np.searchsorted(alive, self._published.members)
        return self._row, float(self._row[position].min())

    def remove(self, keep: BoolArray, feedback: Feedback) -> None:
        """End the round with the alive rules marked by ``keep``, minding an empty result."""
        try:
            self.version_space.observe_alive(keep)
        except NotRealizableError as error:
            self._handle_empty(error, feedback)

    def _handle_empty(self, error: NotRealizableError, feedback: Feedback) -> None:
        now = self.version_space.round + 1
        if self.on_empty == "raise":
            raise NotRealizableError(
                f"round {now}: no rule of the catalogue explains the label {feedback.y} after the "
                f"decision {feedback.yhat}; a label is wrong, the distances are wrong, or no rule "
                "is perfect (see on_empty)",
                round=now,
                item=feedback.x,
            ) from error
        if self.on_empty == "stop":
            self.stopped = True
            self.version_space.tick()
            return
        self.restarts += 1
        self.version_space = VersionSpace(self.hypotheses.n)
        self.version_space.tick(now)


def _check_range(radius_range: tuple[float, float]) -> tuple[float, float]:
    low, high = (float(value) for value in radius_range)
    if not 0.0 <= low <= high:
        raise InvalidInputError(f"radius_range must be 0 <= low <= high, got ({low:g}, {high:g})")
    return low, high
