"""From few mistakes to a small error: stop when a predictor has survived long enough.

A learner that changes only when it errs and errs at most B times has at most B + 1 predictors. One
that survives s = ceil(ln((B+1)/delta)/eps) independent agents in a row has error at most eps with
probability 1 - delta. What survives must be one fixed predictor: for StrategicHalving it is the map
from x to the median rule, not the rule of any round (Theorem 2.2).

Source: Lemma A.2, Theorem 2.2, see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import copy
from typing import Any

from counterplay.core.arguments import checked
from counterplay.core.validation import check_int, check_open_fraction
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.strategic.bounds import survivor_length, survivor_rounds
from counterplay.strategic.game import StrategicGame
from counterplay.strategic.learner import StrategicLearner
from counterplay.strategic.predictors import Predictor
from counterplay.strategic.settings import Feedback
from counterplay.strategic.transcript import StrategicTranscript, join_transcripts


@checked
class LongestSurvivor:
    """Run a conservative learner until one of its predictors has survived long enough.

    Use it to turn StrategicHalving or SequentialElimination into one predictor with error at most
    eps with probability 1 - delta, for independent agents.

    Parameters
    ----------
    learner:
        A conservative learner with a mistake bound and a method ``frozen()`` that returns the fixed
        predictor of its current state.
    eps:
        Error of the output (see Notes).
    delta:
        Probability of missing it.
    mistakes:
        Mistake bound B; default: the learner's own.

    Attributes
    ----------
    predictor_:
        The survivor (the current predictor if the game ended before). With
        StrategicHalving a :class:`MedianMapPredictor`, usable only where x is known before the rule
        is shown.
    rounds_:
        Rounds it took.
    mistakes_:
        Mistakes it took.
    certified_:
        Whether the survivor survived long enough; False only if the game ended before.
    transcript_:
        The rounds.

    Notes
    -----
    Guarantee: at most (B + 1) s rounds, and then error at most eps with probability 1 - delta
    (Lemma A.2, with B + 1 instead of B: Lemma A.2).

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.strategic import Agents, ApplicantStream, LinearClass, StrategicHalving
    >>> rng = np.random.default_rng(0)
    >>> rules = LinearClass(rng.normal(size=(256, 4)), rng.normal(size=256))
    >>> people = Agents.from_target(rules, rng.normal(size=(5000, 4)), radius=0.3, target=9)
    >>> search = LongestSurvivor(StrategicHalving(rules), eps=0.05, delta=0.1)
    >>> _ = search.fit(ApplicantStream(people, "features_first", random_state=0))
    >>> search.rounds_ <= 810, search.predictor_.loss(people) <= 0.05
    (True, True)

    References
    ----------
    Lemma A.2, Theorem 2.2, see docs/theory/02-strategic-finite.md.
    """

    predictor_: Predictor
    rounds_: int
    mistakes_: int
    certified_: bool
    transcript_: StrategicTranscript

    def __init__(
        self, learner: StrategicLearner, eps: float, delta: float, mistakes: int | None = None
    ) -> None:
        self.learner = learner
        self.eps = check_open_fraction(eps, "eps")
        self.delta = check_open_fraction(delta, "delta")
        if not learner.conservative or not hasattr(learner, "frozen"):
            raise InvalidInputError(
                f"{type(learner).__name__} changes its rule without a mistake, so nothing survives;"
                " use StrategicHalving, SequentialElimination or make_conservative"
            )
        if getattr(learner, "filter", "mistake") == "safe":
            raise InvalidInputError(
                "the safe filter also learns from correct rounds; use 'mistake'"
            )
        bound = learner.mistake_bound() if mistakes is None else mistakes
        if bound is None:
            raise InvalidInputError("the learner has no mistake bound; pass mistakes=")
        self.mistakes = check_int(int(bound), "mistakes", low=0)

    def __repr__(self) -> str:
        return (
            f"LongestSurvivor({type(self.learner).__name__}, eps={self.eps:g}, "
            f"delta={self.delta:g}, mistakes={self.mistakes})"
        )

    @property
    def length(self) -> int:
        """Rounds that the survivor must survive."""
        return survivor_length(self.mistakes, self.eps, self.delta)

    @checked
    def fit(self, game: StrategicGame) -> LongestSurvivor:
        """Play until a predictor has survived; agents must be independent."""
        game.check(self.learner)
        game.start(0, None)
        limit = survivor_rounds(self.mistakes, self.eps, self.delta)
        parts: list[StrategicTranscript] = []
        streak = played = 0
        while streak < self.length and played < limit:
            part = game.play_on(self.learner, self.length - streak)
            parts.append(part)
            played += len(part)
            rounds = part.mistake_rounds
            streak = len(part) - 1 - int(rounds[-1]) if rounds.size else streak + len(part)
            if len(part) == 0:
                break  # no more agents
        self.transcript_ = join_transcripts(parts)
        self.rounds_, self.mistakes_ = played, self.transcript_.mistakes
        self.certified_ = streak >= self.length
        if not self.certified_ and played >= limit:
            raise NotRealizableError(
                f"no predictor survived {self.length} agents within {limit} rounds: the learner "
                f"made {self.mistakes_} mistakes instead of at most {self.mistakes}",
                round=played,
            )
        self.predictor_ = self.learner.frozen()  # type: ignore[attr-defined]  # see __init__
        return self


@checked
def make_conservative(learner: StrategicLearner) -> StrategicLearner:
    """Wrap a deterministic learner so that it forgets every round without a mistake.

    The wrapped learner changes on mistakes only and has the same mistake bound, which
    :class:`LongestSurvivor` needs.

    Parameters
    ----------
    learner:
        A deterministic learner.

    Examples
    --------
    >>> from counterplay.strategic import StrategicHalving, instances, play
    >>> instance = instances.threshold_line(32)
    >>> halving = StrategicHalving(instance.hypotheses, filter="safe")
    >>> play(make_conservative(halving), instance.adversary()).mistakes
    5

    References
    ----------
    Lemma A.2, see docs/theory/02-strategic-finite.md.
    """
    if not learner.deterministic:
        raise InvalidInputError(
            f"{type(learner).__name__} is randomised; only deterministic learners can be made "
            "conservative"
        )
    return _Conservative(learner)


class _Conservative(StrategicLearner):
    """Restores the state of a learner after every correct round."""

    conservative = True
    deterministic = True

    def __init__(self, learner: StrategicLearner) -> None:
        self.learner = learner
        self.hypotheses = getattr(learner, "hypotheses", None)
        self.needs = learner.needs
        self.ball_only = learner.ball_only

    def __repr__(self) -> str:
        return f"make_conservative({self.learner!r})"

    @property
    def remaining(self) -> int | None:
        """Number of rules still possible."""
        return self.learner.remaining

    def mistake_bound(self, rounds: int | None = None) -> float | None:
        """Return the bound of the wrapped learner."""
        return self.learner.mistake_bound(rounds)

    def frozen(self) -> Predictor:
        """Return the fixed predictor of the current state, if the wrapped learner has one."""
        found: Predictor = self.learner.frozen()  # type: ignore[attr-defined]  # duck-typed
        return found

    def act(self, seen: Any = None) -> Predictor:
        """Publish what the wrapped learner publishes."""
        shared = {id(self.hypotheses): self.hypotheses}
        self._before = copy.deepcopy(self.learner, shared)
        rule: Predictor = self.learner.act(seen)
        return rule

    def observe(self, feedback: Feedback) -> None:
        """Learn from a mistake; forget a correct round."""
        if feedback.mistake:
            self.learner.observe(feedback)
        else:
            self.learner = self._before
