"""Adversaries that know the learner's law and force as many mistakes as theory says.

They never see coins that are still to be thrown; the lazy ones fix the perfect rule last.

Source: Proposition 2.D, Example 2.1, see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray, IntArray, check_choice, check_int
from counterplay.errors import InformationError, InvalidInputError
from counterplay.strategic.classes import DistanceTableClass, HypothesisClass
from counterplay.strategic.finite_classes import FiniteMetricClass
from counterplay.strategic.game import CatalogueGame, Reaction
from counterplay.strategic.learner import StrategicLearner
from counterplay.strategic.mwmr import worst_case_table
from counterplay.strategic.predictors import Predictor
from counterplay.strategic.settings import FEATURES_AFTER, FEATURES_FIRST


class _Adversary(CatalogueGame):
    """An agent at a point of the space whose radius and label may be chosen after the rule."""

    _x: Any

    def _answer(self, predictor: Predictor, radius: float, y: int) -> Reaction:
        point = np.asarray(self._x)[None]
        distance = float(predictor.distance(point)[0])
        accepted = distance <= radius
        moved = accepted and distance > 0
        report = predictor.nearest(point)[0] if moved else point[0]
        return Reaction(y=y, yhat=int(accepted), report=report, moved=moved)


@checked
class HalvingAdversary(_Adversary):
    """Keeps the larger half of the thresholds alive: floor(log2 n) mistakes, whatever is published.

    Parameters
    ----------
    hypotheses:
        Thresholds 1..n on a line, see :func:`threshold_line`.

    Examples
    --------
    >>> from counterplay.strategic import StrategicHalving, instances, play
    >>> line = instances.threshold_line(33).hypotheses
    >>> play(StrategicHalving(line, median="upper"), HalvingAdversary(line)).mistakes
    5
    """

    def __init__(self, hypotheses: HypothesisClass) -> None:
        self.setting = FEATURES_FIRST
        self.hypotheses = hypotheses
        self._x = np.zeros(1)
        self._row = hypotheses.distances(self._x[None])[0]
        self._left: FloatArray = self._row

    def __repr__(self) -> str:
        return f"HalvingAdversary({self.hypotheses!r})"

    @property
    def rounds(self) -> int:
        """No more rounds than rules."""
        return self.hypotheses.n

    def restart(self, random_state: RandomState = None) -> None:
        """Begin with all rules alive."""
        self._left = self._row

    def next_agent(self, learner: StrategicLearner) -> Any | None:
        """Send the agent at 0 as long as two rules are alive."""
        return self._x if self._left.size > 1 else None

    def react(self, predictor: Predictor) -> Reaction:
        """Answer so that the larger part of the rules survives the mistake."""
        rho = float(predictor.distance(self._x[None])[0])
        farther, closer = self._left[self._left > rho], self._left[self._left < rho]
        if farther.size >= closer.size:
            self._left = farther
            return self._answer(predictor, rho, 0)
        self._left = closer
        # a rule that accepts nobody is out of reach: half a step less than infinity is none
        radius = rho - 0.5 if np.isfinite(rho) else float(self.hypotheses.n)
        return self._answer(predictor, radius, 1)


@checked
class StarAdversary(_Adversary):
    """Knows the next rule of a deterministic learner and makes it err on the star.

    Parameters
    ----------
    hypotheses:
        Singletons on the leaves of a star, see :func:`star_instance`.

    Examples
    --------
    >>> from counterplay.strategic import instances, play
    >>> from counterplay.strategic.lab import SequentialElimination
    >>> star = instances.star_instance(12).hypotheses
    >>> play(SequentialElimination(star), StarAdversary(star), rounds=40).mistakes
    11

    References
    ----------
    Example 2.1, see docs/theory/02-strategic-finite.md.
    """

    def __init__(self, hypotheses: FiniteMetricClass) -> None:
        self.setting = FEATURES_AFTER
        self.hypotheses = hypotheses
        self.start()

    def __repr__(self) -> str:
        return f"StarAdversary({self.hypotheses!r})"

    def restart(self, random_state: RandomState = None) -> None:
        """Begin with all leaves alive."""
        self._live = np.ones(self.hypotheses.n, dtype=np.bool_)

    def next_agent(self, learner: StrategicLearner) -> Any:
        """Choose the agent against the rule that is about to be published."""
        if not hasattr(learner, "preview"):
            raise InformationError(
                f"{type(learner).__name__} has no preview(); this adversary needs a deterministic "
                "learner whose next rule is known"
            )
        accepted = learner.preview().accepted_points()
        self._x, self._radius, self._y = self._choose(accepted)
        return self._x

    def _choose(self, accepted: np.ndarray[Any, np.dtype[np.bool_]]) -> tuple[int, float, int]:
        if accepted[0]:
            return 0, 0.0, 0
        leaves = np.flatnonzero(accepted[1:])
        if leaves.size == 0:
            return 0, 1.0, 1
        dead = leaves[~self._live[leaves]]
        if dead.size:
            return int(dead[0]) + 1, 0.0, 0
        if self._live.sum() == 1:
            return 0, 1.0, 1  # only the perfect rule is left: it is right about everybody
        self._live[leaves[0]] = False
        return int(leaves[0]) + 1, 0.0, 0

    def react(self, predictor: Predictor) -> Reaction:
        """Let the chosen agent respond."""
        return self._answer(predictor, self._radius, self._y)


@checked
class OnlineAdversary(_Adversary):
    """Sends the agent on whom the learner is likeliest to err, knowing its law but not its coins.

    Parameters
    ----------
    hypotheses:
        See :func:`online_lb_instance`.
    mode:
        ``"lazy"`` fixes the radius of a round after the rule is drawn and keeps every target
        possible as long as it can: n - 1 mistakes for every learner. ``"fixed"`` plays for one
        target chosen in advance (Proposition 2.B: a secret random order then errs only (n-1)/2
        times).
    target:
        The perfect rule in mode ``"fixed"``.

    Examples
    --------
    With a fixed target j, MWMR errs exactly j times: then the likeliest rule is the perfect one.

    >>> from counterplay.strategic import MWMR, instances, play
    >>> catalogue = instances.online_lb_instance(16).hypotheses
    >>> adversary = OnlineAdversary(catalogue, mode="fixed", target=5)
    >>> play(MWMR(catalogue, random_state=0), adversary, rounds=3000).mistakes
    5

    References
    ----------
    Theorem 2.3, see docs/theory/02-strategic-finite.md.
    """

    def __init__(
        self,
        hypotheses: FiniteMetricClass,
        mode: Literal["lazy", "fixed"] = "lazy",
        target: int | None = None,
    ) -> None:
        self.setting = FEATURES_AFTER
        self.hypotheses = hypotheses
        self.mode = check_choice(mode, "mode", ("lazy", "fixed"))
        n = hypotheses.n
        if (mode == "fixed") != (target is not None):
            raise InvalidInputError("pass target= with mode='fixed', and only then")
        self.target = None if target is None else check_int(target, "target", low=0, high=n - 1)
        self.start()

    def __repr__(self) -> str:
        target = "" if self.target is None else f", target={self.target}"
        return f"OnlineAdversary({self.hypotheses!r}, mode={self.mode!r}{target})"

    def restart(self, random_state: RandomState = None) -> None:
        """Begin with all targets possible."""
        self.possible = np.ones(self.hypotheses.n, dtype=np.bool_)

    def next_agent(self, learner: StrategicLearner) -> Any:
        """Choose the agent from the law of the next rule."""
        if not hasattr(learner, "marginals"):
            raise InformationError(
                f"{type(learner).__name__} has no marginals(); this adversary needs its law"
            )
        law = learner.marginals()
        n = self.hypotheses.n
        likely = 1.0 / (2 * (n + 2))
        self._probed: int | None = None
        if law.all_negative >= likely:
            self._x, self._radius, self._y = 0, 1.0, 1
        else:
            self._probed = int(np.argmax(law.members))
            self._x, self._y = n + 1 + self._probed, 0
        return self._x

    def react(self, predictor: Predictor) -> Reaction:
        """Let the agent respond; in lazy mode her radius is fixed only now."""
        if self._probed is None:
            return self._answer(predictor, self._radius, self._y)
        i = self._probed
        if self.mode == "fixed":
            return self._answer(predictor, 0.0 if i == self.target else 0.1, 0)
        last = self.possible[i] and self.possible.sum() == 1
        if last:
            return self._answer(predictor, 0.0, 0)
        reaction = self._answer(predictor, 0.1, 0)
        if reaction.yhat:
            self.possible[i] = False
        return reaction


@checked
class MWMRAdversary(_Adversary):
    """Plays the optimal number of wrong rules against MWMR in every round.

    Parameters
    ----------
    hypotheses:
        A :class:`DistanceTableClass` with n rules.
    rounds:
        Number of rounds.
    target:
        The rule that stays perfect; default: the last one.

    Examples
    --------
    >>> from counterplay.strategic import MWMR, play
    >>> from counterplay.strategic.lab import DistanceTableClass
    >>> catalogue = DistanceTableClass(4)
    >>> game = play(MWMR(catalogue, random_state=0), MWMRAdversary(catalogue, rounds=10))
    >>> len(game), game.mistakes <= 3
    (10, True)
    """

    def __init__(
        self, hypotheses: DistanceTableClass, rounds: int, target: int | None = None
    ) -> None:
        self.setting = FEATURES_AFTER
        self.hypotheses = hypotheses
        self._rounds = check_int(rounds, "rounds", low=1)
        n = hypotheses.n
        last = n - 1 if target is None else check_int(target, "target", low=0, high=n - 1)
        self.target = last
        self._plan: IntArray = worst_case_table(n, rounds)[1]
        self.start()

    def __repr__(self) -> str:
        return f"MWMRAdversary({self.hypotheses!r}, rounds={self._rounds})"

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return self._rounds

    def restart(self, random_state: RandomState = None) -> None:
        """Begin with all rounds left."""
        self._left = self._rounds

    def next_agent(self, learner: StrategicLearner) -> Any:
        """Make k of the m rules left wrong, the perfect one farthest away."""
        alive = getattr(learner, "alive", None)
        if alive is None:
            raise InformationError("this adversary needs a learner with a version space")
        order = np.concatenate([alive[alive != self.target], [self.target]])
        row = np.full(self.hypotheses.n, float(self.hypotheses.n + 1))
        row[order] = np.arange(1, order.size + 1)
        self._x = row
        self._wrong = int(self._plan[self._left, order.size])
        self._left -= 1
        return row

    def react(self, predictor: Predictor) -> Reaction:
        """Accept whoever publishes one of the k nearest rules; all of them are wrong."""
        return self._answer(predictor, float(self._wrong), 0)
