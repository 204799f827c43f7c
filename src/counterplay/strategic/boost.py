"""From a small expected error to a small error with high probability.

Run the learner, test its output on fresh agents, and take the first output that passes. The
validation agents can never be reused for another predictor, because how they would have responded
to it was not observed.

Source: Lemma A.1, Theorem 2.6, "Confidence boosting", "Algorithms", see
docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from counterplay.core.seeds import RandomState, generator
from counterplay.core.stats import Interval, clopper_pearson
from counterplay.core.validation import check_open_fraction, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.strategic import bounds
from counterplay.strategic.applicants import ObliviousGame
from counterplay.strategic.predictors import Predictor


class ConfidenceBoost:
    """Repeat a learner with small expected error until an output passes a test on fresh agents.

    Parameters
    ----------
    make_learner:
        Function of a random generator that returns a fresh learner with a method ``output()``.
    T:
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
    Guarantee: P(error <= 8 eps) >= 1 - delta after at most R (T + m0) agents with
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
    >>> boost = ConfidenceBoost(make, T=4991, eps=0.025, delta=0.1, random_state=0)
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
        T: int,
        eps: float,
        delta: float,
        random_state: RandomState = None,
    ) -> None:
        self.make_learner = make_learner
        self.T = check_positive_int(T, "T")
        self.eps = check_open_fraction(eps, "eps")
        self.delta = check_open_fraction(delta, "delta")
        self.random_state = random_state

    def __repr__(self) -> str:
        return f"ConfidenceBoost(T={self.T}, eps={self.eps:g}, delta={self.delta:g})"

    @property
    def repetitions(self) -> int:
        """Runs at most."""
        return bounds.boost_repetitions(self.delta)

    @property
    def validation_size(self) -> int:
        """Fresh agents per validation."""
        return bounds.boost_validation_size(self.eps, self.delta)

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
            played = len(game.play_on(learner, self.T))
            fresh = game.next_agents(self.validation_size)
            if played < self.T or len(fresh) < self.validation_size:
                raise InvalidInputError(
                    f"run {run} needs {self.T + self.validation_size} fresh agents but the "
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
