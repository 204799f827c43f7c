"""The game: an agent arrives, a rule is published, she moves, and the learner is told its share.

The runner owns the information contract: it passes on what the setting reveals and hides the rest,
so that a learner cannot see too much even by accident, and it refuses to run a learner in a setting
that reveals less than the learner needs.
Source: Protocol prot:interaction-finite, spec 02 section 2.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from counterplay.core.seeds import RandomState, spawn
from counterplay.core.transcript import Transcript
from counterplay.core.validation import IntArray, check_int
from counterplay.errors import InformationError, ProtocolError
from counterplay.strategic.predictors import Mixture, Predictor
from counterplay.strategic.settings import Feedback, Setting, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Learner(ABC):
    """A strategy for publishing rules; subclass it to bring your own.

    A round is one call of :meth:`publish` and one of :meth:`observe`. The class attribute ``needs``
    names the poorest setting the learner can work in, ``ball_only`` says that it reasons with
    distances and needs agents with radii, ``conservative`` that it changes on mistakes only.
    """

    needs: ClassVar[Setting] = Setting.BOT_BOT
    deterministic: ClassVar[bool] = False
    conservative: ClassVar[bool] = False
    ball_only: ClassVar[bool] = False
    bound_in_expectation: ClassVar[bool] = False

    @abstractmethod
    def publish(self, x: Any = None) -> Predictor | Mixture:
        """Return the rule of this round; ``x`` is None unless the setting reveals it first."""

    @abstractmethod
    def observe(self, feedback: Feedback) -> None:
        """Learn from the end of the round."""

    @property
    def remaining(self) -> int | None:
        """Number of rules still possible, if the learner keeps a version space."""
        return None

    def mistake_bound(self, rounds: int | None = None) -> float | None:
        """Return the guaranteed number of mistakes on realizable sequences, if there is one."""
        return None


@dataclass(frozen=True)
class Reaction:
    """What happened to the agent of a round; the runner decides what the learner sees of it.

    Parameters
    ----------
    y, yhat:
        True label and decision, 0 or 1.
    delta:
        What the agent reported.
    moved:
        Whether she left her own point.

    Examples
    --------
    >>> Reaction(y=0, yhat=1, delta=3, moved=True).yhat
    1

    References
    ----------
    Spec 02 section 2.3.
    """

    y: int
    yhat: int
    delta: Any = None
    moved: bool = False


class Environment(ABC):
    """Where agents come from: a list, a distribution, or an adversary."""

    setting: Setting

    def start(self, random_state: RandomState = None) -> None:  # noqa: B027  a hook, not a duty
        """Begin a new game."""

    @abstractmethod
    def arrive(self, learner: Learner) -> Any | None:
        """Return the features of the next agent, or None to end the game.

        Adversaries may look at the learner here (its law, never its coins to come).
        """

    @abstractmethod
    def react(self, predictor: Predictor) -> Reaction:
        """Let the agent respond to the published rule."""

    @property
    def length(self) -> int | None:
        """Number of agents, None if there is no end."""
        return None

    @property
    def has_balls(self) -> bool:
        """Whether the agents have radii, not arbitrary manipulation sets."""
        return True


@dataclass(frozen=True)
class StrategicTranscript(Transcript):
    """Rounds of a strategic game: labels, decisions, who moved, how many rules remain.

    Columns are ``y``, ``yhat``, ``mistake``, ``moved`` and, for learners with a version space,
    ``alive`` (after the round; -1 otherwise).

    Examples
    --------
    >>> from counterplay.strategic import StrategicHalving, instances, play
    >>> instance = instances.threshold_line(8)
    >>> game = play(StrategicHalving(instance.hypotheses), instance.adversary())
    >>> game.mistakes
    3
    >>> game.version_space_sizes
    array([4, 2, 1])

    References
    ----------
    Spec 02 section 2.2.
    """

    @property
    def mistakes(self) -> int:
        """Number of wrong decisions."""
        return int(np.count_nonzero(self["mistake"]))

    @property
    def mistake_rounds(self) -> IntArray:
        """Rounds with a wrong decision, counted from 0."""
        return np.flatnonzero(self["mistake"]).astype(np.int64)

    @property
    def version_space_sizes(self) -> IntArray:
        """Number of rules left after each round."""
        return self["alive"]

    def summary(self) -> str:
        """Return one line: who played, where, and how many mistakes were made."""
        text = (
            f"{self.meta.get('learner', 'learner')} in setting {self.meta.get('setting', '?')}: "
            f"{self.mistakes} mistakes in {len(self)} rounds"
        )
        if self.meta.get("bound") is not None:
            text += f" (guarantee: at most {self.meta['bound']:.4g}"
            text += " in expectation)" if self.meta.get("bound_in_expectation") else ")"
        if len(self) and self["alive"][-1] >= 0:
            text += f", {int(self['alive'][-1])} of {self.meta.get('rules', '?')} rules left"
        return text

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw mistakes so far against the guarantee, over the rounds."""
        from counterplay.core.figures import PALETTE, THEORY, axes_or_new, figure_style

        with figure_style():
            ax = axes_or_new(ax)
            rounds = np.arange(1, len(self) + 1)
            ax.step(rounds, np.cumsum(self["mistake"]), where="post", color=PALETTE[0])
            if self.meta.get("bound") is not None:
                ax.axhline(float(self.meta["bound"]), label="guarantee", **THEORY)
                ax.legend()
            ax.set_xlabel("round")
            ax.set_ylabel("mistakes so far")
            ax.set_title(f"{self.meta.get('learner', '')}, {self.meta.get('setting', '')}")
        return ax


def play(
    learner: Learner,
    environment: Environment,
    rounds: int | None = None,
    *,
    setting: Setting | str | None = None,
    random_state: RandomState = None,
) -> StrategicTranscript:
    """Play a strategic game and return its transcript.

    Use it to try a learner on applicants of your own (:class:`Applicants`), on a distribution
    (:class:`ApplicantStream`) or against an adversary of :mod:`counterplay.strategic.instances`.
    The learner keeps its state, so a game can be continued with another environment.

    Parameters
    ----------
    learner:
        Publishes a rule in every round.
    environment:
        Supplies the agents and lets them respond.
    rounds:
        Number of rounds; default: until the environment ends.
    setting:
        What the learner sees; default: the environment's setting.
    random_state:
        Seed of the environment's coins and of published mixtures.

    Notes
    -----
    The learner is told what the setting reveals and nothing else; a learner that needs more is
    refused with :class:`~counterplay.errors.InformationError`.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.strategic import Agents, Applicants, LinearClass, StrategicHalving, play
    >>> rng = np.random.default_rng(0)
    >>> rules = LinearClass(rng.normal(size=(64, 3)), rng.normal(size=64))
    >>> people = Agents.from_target(rules, rng.normal(size=(500, 3)), radius=0.5, target=7)
    >>> game = play(StrategicHalving(rules), Applicants(people, setting="x_delta"))
    >>> game.mistakes <= 6
    True

    References
    ----------
    Protocol prot:interaction-finite, spec 02 section 2.2.
    """
    chosen = check_match(learner, environment, setting)
    total = environment.length if rounds is None else check_int(rounds, "rounds", low=0)
    if total is None:
        raise ProtocolError("this environment has no end; say how many rounds to play")
    coins, draws = spawn(random_state, 2)
    environment.start(coins)
    return play_rounds(learner, environment, chosen, total, draws)


def play_rounds(
    learner: Learner,
    environment: Environment,
    setting: Setting,
    rounds: int,
    draws: np.random.Generator | None = None,
) -> StrategicTranscript:
    """Play up to ``rounds`` rounds of a game that has started."""
    log: list[tuple[int, int, bool, bool, int]] = []
    for _ in range(rounds):
        x = environment.arrive(learner)
        if x is None:
            break
        feedback, moved = _play_round(learner, environment, setting, x, draws)
        learner.observe(feedback)
        alive = -1 if learner.remaining is None else learner.remaining
        log.append((feedback.y, feedback.yhat, feedback.mistake, moved, alive))
    return make_transcript(learner, setting, np.array(log, dtype=np.int64).reshape(-1, 5))


def check_match(
    learner: Learner, environment: Environment, setting: Setting | str | None
) -> Setting:
    """Return the setting of the game, or raise if the learner cannot play it."""
    chosen = environment.setting if setting is None else Setting.of(setting)
    require(chosen, learner.needs, type(learner).__name__)
    if learner.ball_only and not environment.has_balls:
        raise InformationError(
            f"{type(learner).__name__} reasons with distances, but these agents have manipulation "
            "sets that are no balls; use SequentialElimination or DeltaOnlyElimination"
        )
    return chosen


def _play_round(
    learner: Learner,
    environment: Environment,
    setting: Setting,
    x: Any,
    draws: np.random.Generator | None,
) -> tuple[Feedback, bool]:
    """Publish, let the agent respond, and return what the setting lets the learner see."""
    published = learner.publish(x if "x" in setting.before else None)
    if isinstance(published, Mixture):
        published = published.sample(draws)
    reaction = environment.react(published)
    feedback = Feedback(
        y=reaction.y,
        yhat=reaction.yhat,
        x=x if "x" in setting.after else None,
        delta=reaction.delta if "delta" in setting.after else None,
    )
    return feedback, reaction.moved


def make_transcript(learner: Learner, setting: Setting, log: IntArray) -> StrategicTranscript:
    """Return the transcript for rows of (y, yhat, mistake, moved, alive)."""
    rules = getattr(learner, "hypotheses", None)
    columns = {
        "y": log[:, 0].astype(np.int8),
        "yhat": log[:, 1].astype(np.int8),
        "mistake": log[:, 2].astype(np.bool_),
        "moved": log[:, 3].astype(np.bool_),
        "alive": log[:, 4].copy(),
    }
    meta = {
        "learner": type(learner).__name__,
        "setting": setting.value,
        "rules": None if rules is None else rules.n,
        "bound": learner.mistake_bound(log.shape[0]),
        "bound_in_expectation": learner.bound_in_expectation,
    }
    return StrategicTranscript(columns, meta)


def join_transcripts(parts: Sequence[StrategicTranscript]) -> StrategicTranscript:
    """Return the transcript of a game that was played in several parts."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0].columns}
    return StrategicTranscript(columns, parts[-1].meta)


def run_protocol(
    environment: Environment,
    learner: Learner,
    T: int | None = None,
    setting: Setting | str | None = None,
    rng: RandomState = None,
) -> StrategicTranscript:
    """Play ``T`` rounds; the same game as :func:`play` with the theory's order of arguments.

    Parameters
    ----------
    environment, learner:
        Who plays.
    T:
        Number of rounds; default: until the environment ends.
    setting:
        What the learner sees; default: the environment's setting.
    rng:
        Seed of the environment's coins and of published mixtures.

    Examples
    --------
    >>> from counterplay.strategic import SequentialElimination, instances, run_protocol
    >>> instance = instances.star_instance(10)
    >>> learner = SequentialElimination(instance.hypotheses)
    >>> run_protocol(instance.adversary(), learner, T=20).mistakes
    9

    References
    ----------
    Protocol prot:interaction-finite, spec 02 section 2.2.
    """
    return play(learner, environment, T, setting=setting, random_state=rng)
