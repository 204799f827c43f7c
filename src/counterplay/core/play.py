"""The grammar of repeated games: a learner acts, the game responds, the learner observes.

The game owns the situation and the information: it decides what a learner sees before it acts and
what it is told afterwards, so that a learner cannot see too much even by accident, and it refuses
learners that need more than it reveals. ``play`` is the same loop for every area.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from counterplay.core.seeds import RandomState
from counterplay.core.transcript import Transcript
from counterplay.core.validation import check_int
from counterplay.errors import InvalidInputError, ProtocolError

T_co = TypeVar("T_co", bound=Transcript, covariant=True)


class Learner(ABC):
    """Our side of a repeated game; subclass it to bring your own.

    A round is one call of :meth:`act` and one of :meth:`observe`. What the learner sees and what
    it is told is up to the game; hidden facts are None.

    Examples
    --------
    >>> class Stubborn(Learner):
    ...     def act(self, seen=None):
    ...         return 1
    ...     def observe(self, feedback):
    ...         pass
    >>> Stubborn().act()
    1
    """

    def begin(self, rounds: int) -> None:  # noqa: B027  a hook, not a duty
        """Hear that a game of at most ``rounds`` rounds starts; most learners just go on."""

    @abstractmethod
    def act(self, seen: Any = None) -> Any:
        """Return the action of this round; ``seen`` is what the game reveals before it."""

    @abstractmethod
    def observe(self, feedback: Any) -> None:
        """Learn from what the game tells at the end of the round."""


class Game(ABC, Generic[T_co]):
    """A situation that is played round by round; :func:`play` drives it.

    In each round the game lets the other side :meth:`arrive`, shows the learner what is
    :meth:`seen`, and turns the learner's action into feedback (:meth:`respond`).
    """

    @property
    def rounds(self) -> int | None:
        """Number of rounds until the game ends by itself; None if it has no end."""
        return None

    def check(self, learner: Learner) -> None:
        """Raise :class:`~counterplay.errors.InformationError` if ``learner`` needs more."""

    def start(self, rounds: int, random_state: RandomState) -> None:
        """Begin a new game of at most ``rounds`` rounds."""

    @abstractmethod
    def arrive(self, learner: Learner) -> bool:
        """Bring the next round; False ends the game.

        An adversary may look at the learner here (its law, never its coins to come).
        """

    def seen(self) -> Any:
        """What the learner sees before it acts; None where that is nothing."""
        return None

    @abstractmethod
    def respond(self, action: Any) -> Any:
        """Let the other side respond to ``action``; return what the learner is told."""

    @abstractmethod
    def transcript(self, learner: Learner) -> T_co:
        """What happened since the start."""

    def play_fast(self, learner: Learner, rounds: int, random_state: RandomState) -> T_co | None:
        """Play many rounds at once; None where there is no such way for this learner."""
        return None


def play(
    learner: Learner,
    game: Game[T_co],
    *,
    rounds: int | None = None,
    random_state: RandomState = None,
    fast: bool = False,
) -> T_co:
    """Play a repeated game and return its transcript.

    The learner keeps its state, so it can go on in another game afterwards.

    Parameters
    ----------
    learner:
        Acts in every round.
    game:
        The situation: who is on the other side, and what is revealed when.
    rounds:
        Number of rounds; default: until the game ends.
    random_state:
        Seed of the game's coins. The learner has its own.
    fast:
        Decide many rounds at once where the game and the learner allow it. The law of the result is
        the same; where the docstring of the game does not say more, the coins are not.

    Raises
    ------
    InformationError
        When the learner needs more than the game reveals.
    ProtocolError
        When the game has no end and ``rounds`` is not given.

    Examples
    --------
    >>> from counterplay.strategic import StrategicHalving, instances
    >>> instance = instances.threshold_line(8)
    >>> play(StrategicHalving(instance.hypotheses), instance.adversary()).mistakes
    3

    References
    ----------
    docs/extending.md, "The grammar".
    """
    check_players(learner, game)
    game.check(learner)
    total = game.rounds if rounds is None else check_int(rounds, "rounds", low=0)
    if total is None:
        raise ProtocolError("this game has no end; say how many rounds to play")
    if fast and (transcript := game.play_fast(learner, total, random_state)) is not None:
        return transcript
    game.start(total, random_state)
    learner.begin(total)
    for _ in range(total):
        if not game.arrive(learner):
            break
        learner.observe(game.respond(learner.act(game.seen())))
    return game.transcript(learner)


def check_players(learner: Any, game: Any) -> None:
    """Raise one sentence if the arguments of :func:`play` are swapped or of the wrong kind."""
    if isinstance(learner, Game) and isinstance(game, Learner):
        raise InvalidInputError("the arguments are swapped; write play(learner, game)")
    if not isinstance(learner, Learner):
        raise InvalidInputError(
            f"the first argument of play must be a learner (with act and observe), "
            f"got {type(learner).__name__}"
        )
    if not isinstance(game, Game):
        raise InvalidInputError(
            f"the second argument of play must be a game, got {type(game).__name__}"
        )
