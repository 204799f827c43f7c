"""Front doors: one object per situation, with the plan before and the numbers after.

:class:`StrategicHalvingClassifier` goes with a live system that sees each applicant first;
:class:`UnionSamplingClassifier` with one that sees features only after submission.

Source: "Algorithms", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.report import Report
from counterplay.core.seeds import RandomState
from counterplay.core.stats import Interval
from counterplay.core.validation import check_choice, check_open_fraction
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.strategic import bounds
from counterplay.strategic.applicants import ObliviousGame
from counterplay.strategic.boost import ConfidenceBoost
from counterplay.strategic.bounds.finite import Constant
from counterplay.strategic.classes import HypothesisClass
from counterplay.strategic.halving import StrategicHalving
from counterplay.strategic.learner import Filter, OnEmpty
from counterplay.strategic.metrics import Points
from counterplay.strategic.predictors import MedianMapPredictor, UnionPredictor
from counterplay.strategic.settings import Feedback
from counterplay.strategic.union_sampling import UnionSamplingLearner

if TYPE_CHECKING:
    import pandas as pd


class StrategicHalvingClassifier:
    """Strategic Halving for a live system: ask for a rule, show it, report what happened.

    Parameters
    ----------
    hypotheses:
        The catalogue of n rules.
    median:
        See :class:`StrategicHalving`.
    filter:
        See :class:`StrategicHalving`.
    radius_range:
        See :class:`StrategicHalving`.
    on_empty:
        See :class:`StrategicHalving`.

    Notes
    -----
    Guarantee: at most floor(log2 n) mistakes on realizable applicants. After ``streak`` rounds
    without a mistake, :meth:`certified_error` bounds the error of the median map for independent
    applicants.

    Examples
    --------
    >>> from counterplay.strategic.lab import ThresholdClass
    >>> desk = StrategicHalvingClassifier(ThresholdClass([1.0, 2.0, 3.0, 4.0]))
    >>> rule = desk.partial_fit_round([0.0])
    >>> rule.members
    array([1])
    >>> desk.observe(y=0, report=[2.0])  # she moved to 2 and was accepted, wrongly
    >>> desk.remaining, desk.mistakes
    (2, 1)

    References
    ----------
    Theorem 2.1, Algorithm 2.1, "Algorithms", see docs/theory/02-strategic-finite.md.
    """

    def __init__(
        self,
        hypotheses: HypothesisClass,
        *,
        median: Literal["lower", "upper"] = "lower",
        filter: Filter = "mistake",
        radius_range: tuple[float, float] = (0.0, math.inf),
        on_empty: OnEmpty = "raise",
    ) -> None:
        self.learner = StrategicHalving(
            hypotheses,
            median=median,
            filter=filter,
            radius_range=radius_range,
            on_empty=on_empty,
        )
        self.streak = 0
        self._published: UnionPredictor | None = None
        self._x: Any = None

    def __repr__(self) -> str:
        return f"StrategicHalvingClassifier({self.learner.hypotheses!r}, {self.remaining} left)"

    @property
    def remaining(self) -> int:
        """Number of rules still possible."""
        return self.learner.remaining

    @property
    def mistakes(self) -> int:
        """Mistakes so far."""
        return self.learner.mistakes

    @property
    def predictor(self) -> MedianMapPredictor:
        """The map from features to the rule that would be shown now."""
        return self.learner.frozen()

    def partial_fit_round(self, x: Any) -> UnionPredictor:
        """Return the rule to publish for an applicant with features ``x``."""
        self._x = np.asarray(x)
        published = self.learner.act(self._x)
        assert isinstance(published, UnionPredictor)
        self._published = published
        return published

    def observe(self, y: int, *, yhat: int | None = None, report: Any = None) -> None:
        """Report the true label and the decision, directly or through the reported features."""
        if self._published is None:
            raise ProtocolError("observe was called before partial_fit_round")
        if yhat is None:
            if report is None:
                raise InvalidInputError("pass the decision yhat or the reported features")
            reported = np.asarray(report)[None]
            accepted = self._published.hypotheses.accepts(reported, self._published.members)
            yhat = int(accepted.any())
        feedback = Feedback(y=int(y), yhat=int(yhat), x=self._x, report=report)
        self.learner.observe(feedback)
        self.streak = 0 if feedback.mistake else self.streak + 1
        self._published = None

    def certified_error(self, delta: float = 0.05) -> float:
        """Return an error bound for the current median map, valid with probability 1 - delta.

        It needs independent applicants and the filter ``"mistake"``, and must be asked for at a
        time fixed by the streak, not by its value.
        """
        check_open_fraction(delta, "delta")
        if self.learner.filter != "mistake":
            raise InvalidInputError("the certificate needs filter='mistake'")
        if self.streak == 0:
            return 1.0
        b = bounds.halving_mistakes(self.learner.hypotheses.n)
        return min(1.0, math.log((b + 1) / delta) / self.streak)

    def summary(self) -> str:
        """Return where things stand."""
        n = self.learner.hypotheses.n
        return (
            f"{self.mistakes} mistakes (guarantee: at most {bounds.halving_mistakes(n)}), "
            f"{self.remaining} of {n} rules left, {self.streak} rounds without a mistake"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the state as a one-row frame."""
        import pandas as pd

        n = self.learner.hypotheses.n
        return pd.DataFrame(
            [
                {
                    "rules": n,
                    "remaining": self.remaining,
                    "mistakes": self.mistakes,
                    "bound": bounds.halving_mistakes(n),
                    "streak": self.streak,
                }
            ]
        )


@dataclass(frozen=True)
class SamplePlan(Report):
    """How many agents a guarantee needs, known before the first one arrives.

    Parameters
    ----------
    n:
        Number of rules.
    eps:
        Error of the output (see Notes).
    delta:
        Probability of missing it.
    repetitions:
        Runs of the learner, at most.
    rounds:
        Agents per run.
    validation:
        Fresh agents to test the output of a run.

    Examples
    --------
    >>> from counterplay.strategic.lab import DistanceTableClass
    >>> model = UnionSamplingClassifier(
    ...     DistanceTableClass(64), eps=0.2, delta=0.1, constant="refined")
    >>> plan = model.plan()
    >>> plan.repetitions, plan.rounds, plan.validation, plan.total
    (5, 4991, 318, 26545)
    """

    n: int
    eps: float
    delta: float
    repetitions: int
    rounds: int
    validation: int

    @property
    def total(self) -> int:
        """Agents needed at most."""
        return self.repetitions * (self.rounds + self.validation)

    @property
    def single_rule_cost(self) -> float:
        """Agents that any learner with one single rule as output needs on some population."""
        return bounds.proper_lower_bound(self.n, self.eps) if self.n >= 3 else 0.0

    def summary(self) -> str:
        """Return the plan in words."""
        return (
            f"{self.n} rules, error at most {self.eps:g} with probability {1 - self.delta:g}: "
            f"up to {self.repetitions} runs of {self.rounds:,} applicants and "
            f"{self.validation:,} to validate each, {self.total:,} in all; a single rule as output "
            f"would need at least {self.single_rule_cost:,.0f} on some populations"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as a one-row frame."""
        import pandas as pd

        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return pd.DataFrame([{**fields, "total": self.total, "single_rule": self.single_rule_cost}])


class UnionSamplingClassifier:
    """Learn a union of two rules with error at most eps, knowing beforehand what it takes.

    The front door for platforms that see features only after submission: it plans the number of
    applicants, runs :class:`UnionSamplingLearner` and, with ``boost=True``, validates the outcome
    on fresh applicants.

    Parameters
    ----------
    hypotheses:
        The catalogue.
    eps:
        Error of the output.
    delta:
        Probability of missing it (with ``boost``; without it ``eps`` bounds the expected error).
    constant:
        ``"thesis"`` for the theorem's constant 320, ``"refined"`` for 5 (ours).
    boost:
        Whether to validate on fresh agents and repeat if needed.
    random_state:
        Seed of the learner.

    Attributes
    ----------
    predictor_:
        The union of two rules.
    members_:
        Their numbers.
    accepted_:
        See :class:`ConfidenceBoost`; ``accepted_`` is None without boosting.
    validation_interval_:
        See :class:`ConfidenceBoost`.
    agents_used_:
        See :class:`ConfidenceBoost`.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.strategic import Agents, ApplicantStream, LinearClass
    >>> rng = np.random.default_rng(0)
    >>> rules = LinearClass(rng.normal(size=(64, 3)), rng.normal(size=64))
    >>> people = Agents.from_target(rules, rng.normal(size=(4000, 3)), radius=0.4, target=3)
    >>> model = UnionSamplingClassifier(
    ...     rules, eps=0.2, delta=0.1, constant="refined", random_state=0)
    >>> model.plan().total
    26545
    >>> _ = model.fit(ApplicantStream(people, "features_after", random_state=1))
    >>> model.accepted_, model.predictor_.loss(people) <= 0.2
    (True, True)

    References
    ----------
    Theorem 2.6, Algorithm 2.2, "Confidence boosting", see docs/theory/02-strategic-finite.md.
    """

    predictor_: UnionPredictor
    accepted_: bool | None
    agents_used_: int
    validation_interval_: Interval | None

    def __init__(
        self,
        hypotheses: HypothesisClass,
        *,
        eps: float,
        delta: float = 0.05,
        constant: Constant = "thesis",
        boost: bool = True,
        random_state: RandomState = None,
    ) -> None:
        self.hypotheses = hypotheses
        self.eps = check_open_fraction(eps, "eps")
        self.delta = check_open_fraction(delta, "delta")
        self.constant: Constant = check_choice(constant, "constant", ("thesis", "refined"))
        self.boost = bool(boost)
        self.random_state = random_state

    def __repr__(self) -> str:
        return (
            f"UnionSamplingClassifier(eps={self.eps:g}, delta={self.delta:g}, "
            f"constant={self.constant!r}, boost={self.boost})"
        )

    def plan(self) -> SamplePlan:
        """Return how many applicants it takes, before the first one arrives."""
        n = self.hypotheses.n
        if not self.boost:
            rounds = bounds.union_sampling_rounds(n, self.eps, self.constant)
            return SamplePlan(n, self.eps, self.delta, 1, rounds, 0)
        inner = self.eps / 8
        return SamplePlan(
            n,
            self.eps,
            self.delta,
            bounds.boost_repetitions(self.delta),
            bounds.union_sampling_rounds(n, inner, self.constant),
            bounds.boost_validation_size(inner, self.delta),
        )

    def fit(self, game: ObliviousGame) -> UnionSamplingClassifier:
        """Learn from the applicants of a game."""
        plan = self.plan()
        if self.boost:
            run = ConfidenceBoost(
                lambda rng: UnionSamplingLearner(self.hypotheses, random_state=rng),
                plan.rounds,
                self.eps / 8,
                self.delta,
                self.random_state,
            ).fit(game)
            assert isinstance(run.predictor_, UnionPredictor)
            self.predictor_, self.accepted_ = run.predictor_, run.accepted_
            self.agents_used_, self.validation_interval_ = (
                run.agents_used_,
                run.validation_interval_,
            )
        else:
            learner = UnionSamplingLearner(self.hypotheses, random_state=self.random_state)
            game.check(learner)
            game.start()
            start = game.used
            game.play_on(learner, plan.rounds)
            self.predictor_, self.accepted_ = learner.output(), None
            self.agents_used_, self.validation_interval_ = game.used - start, None
        self.members_ = np.unique(self.predictor_.members)
        return self

    def predict(self, X: Points) -> NDArray[np.int8]:
        """Decide on reported features: 1 if one of the two rules accepts them, else 0."""
        if not hasattr(self, "predictor_"):
            raise ProtocolError("fit the classifier before it decides")
        accepted = self.hypotheses.accepts(self.hypotheses.check_points(X), self.members_)
        return np.asarray(accepted.any(axis=1), dtype=np.int8)
