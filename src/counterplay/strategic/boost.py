"""From a small expected error to a small error with high probability.

Run the learner, test its output on fresh agents, and take the first output that passes. The
validation agents can never be reused for another predictor, because how they would have responded
to it was not observed. :class:`UnionSamplingClassifier` does so with union sampling, and knows
beforehand how many agents it takes.

Source: Lemma A.1, Theorem 2.6, "Confidence boosting", "Algorithms", see
docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.stats import Interval, clopper_pearson
from counterplay.core.validation import check_choice, check_int, check_open_fraction
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.strategic import bounds
from counterplay.strategic.applicants import ObliviousGame
from counterplay.strategic.bounds.finite import Constant
from counterplay.strategic.classes import HypothesisClass
from counterplay.strategic.metrics import Points
from counterplay.strategic.predictors import Predictor, UnionPredictor
from counterplay.strategic.union_sampling import UnionSamplingLearner

if TYPE_CHECKING:
    import pandas as pd


@checked
class ConfidenceBoost:
    """Repeat a learner with small expected error until an output passes a test on fresh agents.

    Parameters
    ----------
    make_learner:
        Function of a random generator that returns a fresh learner with a method ``output()``.
    rounds:
        Rounds after which the learner's expected error is at most ``eps``.
    eps:
        Error of the output (see Notes).
    delta:
        Probability of missing it.
    random_state:
        Seed of the learners.

    Attributes
    ----------
    predictor_:
        The output.
    accepted_:
        Whether it passed the test; if no run did, the last output is returned.
    runs_:
        Runs it took.
    agents_used_:
        Agents it took.
    validation_losses_:
        Share of mistakes on the fresh agents, per run.
    validation_interval_:
        Exact 95 % interval for the error of the output, from its validation agents.

    Notes
    -----
    Guarantee: P(error <= 8 eps) >= 1 - delta after at most R (rounds + m0) agents with
    R = ceil(log2(2/delta)) and m0 = ceil(3 ln(4R/delta) / (2 eps)) (Lemma A.1). No agent is
    used twice.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.strategic import Agents, ApplicantStream, LinearClass
    >>> from counterplay.strategic.lab import UnionSamplingLearner
    >>> rng = np.random.default_rng(0)
    >>> rules = LinearClass(rng.normal(size=(64, 3)), rng.normal(size=64))
    >>> people = Agents.from_target(rules, rng.normal(size=(4000, 3)), radius=0.4, target=3)
    >>> def make(rng):
    ...     return UnionSamplingLearner(rules, random_state=rng)
    >>> boost = ConfidenceBoost(make, rounds=4991, eps=0.025, delta=0.1, random_state=0)
    >>> _ = boost.fit(ApplicantStream(people, "features_after", random_state=1))
    >>> boost.accepted_, boost.predictor_.loss(people) <= 0.2
    (True, True)

    References
    ----------
    Lemma A.1, Theorem 2.6, "Confidence boosting", see docs/theory/02-strategic-finite.md.
    """

    predictor_: Predictor
    accepted_: bool
    runs_: int
    agents_used_: int
    validation_losses_: list[float]
    validation_interval_: Interval

    def __init__(
        self,
        make_learner: Callable[[np.random.Generator], Any],
        rounds: int,
        eps: float,
        delta: float,
        random_state: RandomState = None,
    ) -> None:
        self.make_learner = make_learner
        self.rounds = check_int(rounds, "rounds", low=1, high=10_000_000)
        self.eps = check_open_fraction(eps, "eps")
        self.delta = check_open_fraction(delta, "delta")
        self.random_state = random_state

    def __repr__(self) -> str:
        return f"ConfidenceBoost(rounds={self.rounds}, eps={self.eps:g}, delta={self.delta:g})"

    @property
    def repetitions(self) -> int:
        """Runs at most."""
        return bounds.boost_repetitions(self.delta)

    @property
    def validation_size(self) -> int:
        """Fresh agents per validation."""
        return bounds.boost_validation_size(self.eps, self.delta)

    @checked
    def fit(self, game: ObliviousGame) -> ConfidenceBoost:
        """Run, validate, and stop at the first output whose validation loss is at most 4 eps."""
        rng = generator(self.random_state)
        self.validation_losses_ = []
        self.accepted_ = False
        game.start()
        start = game.used
        for run in range(1, self.repetitions + 1):
            learner = self.make_learner(rng.spawn(1)[0])
            game.check(learner)
            played = len(game.play_on(learner, self.rounds))
            fresh = game.next_agents(self.validation_size)
            if played < self.rounds or len(fresh) < self.validation_size:
                raise InvalidInputError(
                    f"run {run} needs {self.rounds + self.validation_size} fresh agents but the "
                    f"game ended after {game.used - start}; use an ApplicantStream"
                )
            self.predictor_ = learner.output()
            loss = self.predictor_.loss(fresh)
            self.validation_losses_.append(loss)
            self.runs_ = run
            wrong = round(loss * len(fresh))
            self.validation_interval_ = clopper_pearson(wrong, len(fresh))
            if loss <= 4 * self.eps:
                self.accepted_ = True
                break
        self.agents_used_ = game.used - start
        return self


@checked
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
            f"up to {self.repetitions} runs with {self.rounds:,} applicants and "
            f"{self.validation:,} more to check the result, {self.total:,} in all; a learner that "
            f"ends with a single rule needs at least {self.single_rule_cost:,.0f} on some "
            "populations"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as a one-row frame."""
        import pandas as pd

        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return pd.DataFrame([{**fields, "total": self.total, "single_rule": self.single_rule_cost}])


@checked
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

    @checked
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
            self.agents_used_ = run.agents_used_
            self.validation_interval_ = run.validation_interval_
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
