"""The game of two losses: recorded streams of losses, or a secondary loss that reacts to the play.

Losses fixed in advance do not depend on the play, so the exact law of the learner gives every
expectation without simulation (``fast=True``). A secondary loss that reacts is played round by
round, or along drawn paths if the learner never looks at it.
Source: docs/theory/09-tradeoff.md, "Setting".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.online.chain import Int32Array
from counterplay.core.play import Game, Learner
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, FloatArray, check_fraction, check_int
from counterplay.errors import AssumptionWarning, InvalidInputError, ProtocolError
from counterplay.tradeoff.learner import BicriteriaLearner, Losses
from counterplay.tradeoff.model import (
    AdaptiveSecondary,
    CallableSecondary,
    check_active,
    check_loss_matrix,
    check_losses,
)
from counterplay.tradeoff.oracle import OracleRun
from counterplay.tradeoff.plan import Plan
from counterplay.tradeoff.transcript import LossTranscript, rows_of

Secondary: TypeAlias = (
    ArrayLike | AdaptiveSecondary | Callable[[int, NDArray[np.integer[Any]]], ArrayLike]
)


@checked
class LossStream(Game[LossTranscript]):
    """Rounds in which every expert has a primary and a secondary loss.

    Play it with a learner of two losses. ``play(learner, stream, fast=True)`` computes all
    expectations exactly for losses fixed in advance, draws ``replicates`` paths at once, and
    leaves the learner as it is; one path is the very path of a play round by round. With
    ``fast=True`` the coins of the paths come from ``random_state``, by default the learner's own.

    Parameters
    ----------
    l1:
        Primary losses, shape ``(T, K)``, in [0, 1].
    l2:
        Secondary losses of the same shape, or losses that react to the play: an
        ``AdaptiveSecondary`` or a function ``l2(t, actions[:t])`` that returns the losses of round
        ``t``.
    c:
        Tolerated secondary loss per round; by default that of the learner's oracle.
    active:
        Activity of every expert, shape ``(T, K)``, for learners whose oracle is outside.
    replicates:
        Number of paths to draw with ``fast=True``. Expectations do not need any (0 is fine), except
        for losses that react.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.tradeoff import play
    >>> from counterplay.tradeoff import EpochLearner
    >>> l1 = np.tile([[0.0, 1.0]], (100, 1))
    >>> stream = LossStream(l1, np.full((100, 2), 0.1), c=0.1, replicates=0)
    >>> round(play(EpochLearner(horizon=100, K=2, B=10), stream, fast=True).primary_regret(), 2)
    23.51

    References
    ----------
    "Setting", see docs/theory/09-tradeoff.md.
    """

    def __init__(
        self,
        l1: ArrayLike,
        l2: Secondary,
        *,
        c: float | None = None,
        active: ArrayLike | None = None,
        replicates: int = 1,
    ) -> None:
        self.adaptive: AdaptiveSecondary | None = None
        self.l2: FloatArray | None = None
        if isinstance(l2, AdaptiveSecondary) or callable(l2):
            self.l1 = check_loss_matrix(l1, "primary")
            K = self.l1.shape[1]
            self.adaptive = l2 if isinstance(l2, AdaptiveSecondary) else CallableSecondary(l2, K)
            if self.adaptive.K != K:
                raise InvalidInputError(
                    f"the secondary loss has {self.adaptive.K} experts, expected {K}"
                )
        else:
            self.l1, self.l2 = check_losses(l1, l2)
        self.c = None if c is None else check_fraction(c, "c")
        self.active = None if active is None else check_active(active, *self.l1.shape)
        self.replicates = check_int(replicates, "replicates", low=0)
        self._path: Int32Array = np.empty(0, dtype=np.int32)
        self._t = 0  # rounds played
        self._losses: list[FloatArray] = []
        self._active: list[BoolArray] = []
        self._before = 0  # rounds the learner had seen at the start

    def __repr__(self) -> str:
        T, K = self.l1.shape
        return f"LossStream({T} rounds, {K} experts, c={self.c})"

    @property
    def rounds(self) -> int:
        """Number of rows of losses."""
        return len(self.l1)

    def check(self, learner: Learner) -> None:
        """Refuse anything but a learner of two losses for as many experts."""
        if not isinstance(learner, BicriteriaLearner):
            raise InvalidInputError(
                f"a loss stream is played by a learner of two losses, not {type(learner).__name__};"
                " wrap a learner over experts: EpochLearner(horizon, K, B=1, learner=...)"
            )
        if self.l1.shape[1] != learner.K:
            raise InvalidInputError(
                f"the learner was built for {learner.horizon} rounds and {learner.K} experts, "
                f"but the losses have shape {self.l1.shape}; build it with matching horizon and K"
            )
        if self.adaptive is not None and learner.oracle is not None:
            warnings.warn(
                "an adaptive secondary loss decides here who is active, so the primary pseudo "
                "losses are adaptive, too, and the guarantees do not apply",
                AssumptionWarning,
                stacklevel=3,
            )

    def start(self, rounds: int, random_state: RandomState) -> None:
        """Begin with the first row; only one path is played round by round."""
        self._check_rounds(rounds)
        if self.replicates != 1:
            raise InvalidInputError(
                "replicates must be 1 in a play round by round: pass fast=True, which is possible "
                "for a fresh learner that does not react to adaptive losses"
            )
        self._path, self._t = np.empty(rounds, dtype=np.int32), 0
        self._losses, self._active = [], []

    def arrive(self, learner: Learner) -> bool:
        """Fix the losses of the round from the actions before it."""
        assert isinstance(learner, BicriteriaLearner)
        t = self._t
        if t == 0:
            self._before = learner.rounds
        self._active.append(learner.active.copy() if self.active is None else self.active[t])
        if self.adaptive is not None:
            self._losses.append(self.adaptive.losses(t, self._path[:t]))
        return True

    def seen(self) -> BoolArray | None:
        """Who may be played, where the oracle is outside."""
        return None if self.active is None else self.active[self._t]

    def respond(self, action: int) -> Losses:
        """Reveal the losses of all experts."""
        t = self._t
        if len(self._active) != t + 1:
            raise ProtocolError("no round is open; use play(learner, stream)")
        self._path[t] = action
        self._t += 1
        following = None
        if self.active is not None and t + 1 < len(self.active):
            following = self.active[t + 1]
        return Losses(self.l1[t], self._losses[t] if self.l2 is None else self.l2[t], following)

    def transcript(self, learner: Learner) -> LossTranscript:
        """What happened, with regrets along the path that was played."""
        assert isinstance(learner, BicriteriaLearner)
        T, path = self._t, self._path[: self._t]
        secondary = np.array(self._losses) if self.l2 is None else self.l2[:T]
        suffered = secondary[np.arange(T), path][None, :]
        active = np.array(self._active)
        activity = None
        if learner.oracle is not None or self.active is not None:
            activity = learner._history(active, self._before)
        return self._result(
            learner, self.l1[:T], secondary, path[None, :], activity=activity, suffered=suffered
        )

    def play_fast(
        self, learner: Learner, rounds: int, random_state: RandomState
    ) -> LossTranscript | None:
        """Use the exact law of the play; None for a learner that has begun, or that reacts."""
        assert isinstance(learner, BicriteriaLearner)
        if learner.rounds or (self.adaptive is not None and learner.uses_secondary):
            return None
        self._check_rounds(rounds)
        learner.begin(rounds)
        rng = generator(learner.random_state if random_state is None else random_state)
        l1 = self.l1[:rounds]
        if self.adaptive is not None:
            plan = learner._plan(l1, l1, None)
            paths = plan.sample(max(1, self.replicates), rng)
            suffered = self.adaptive.played(paths)
            return self._result(learner, l1, None, paths, plan=plan, suffered=suffered)
        assert self.l2 is not None
        l2 = self.l2[:rounds]
        activity = learner._activity(l2, None if self.active is None else self.active[:rounds])
        plan = learner._plan(l1, l2, activity)
        none = np.empty((0, rounds), dtype=np.int32)
        paths = plan.sample(self.replicates, rng) if self.replicates else none
        return self._result(learner, l1, l2, paths, plan=plan, activity=activity)

    def _check_rounds(self, rounds: int) -> None:
        if not 1 <= rounds <= len(self.l1):
            raise InvalidInputError(
                f"rounds must be between 1 and {len(self.l1)}, the length of the stream"
            )

    def _result(
        self,
        learner: BicriteriaLearner,
        l1: FloatArray,
        l2: FloatArray | None,
        paths: Int32Array,
        *,
        plan: Plan | None = None,
        activity: OracleRun | None = None,
        suffered: FloatArray | None = None,
    ) -> LossTranscript:
        oracle = learner.oracle
        reacts = self.adaptive is not None and learner.uses_secondary
        holds = plan is not None or (self._before == 0 and not reacts)
        return LossTranscript(
            rows_of(l1, l2, paths, activity, suffered),
            {"learner": repr(learner)},
            l1=l1,
            l2=l2,
            paths=paths,
            plan=plan,
            activity=activity,
            suffered=suffered,
            c=self.c if self.c is not None or oracle is None else oracle.c,
            threshold=None if oracle is None else oracle.threshold,
            guarantees=learner.guarantees(activity) if holds else {},
        )
