"""Checks of the common contract, for people who write their own learner, game, session or report.

Each function raises ``AssertionError`` with one sentence when the contract is broken, and returns
None otherwise. Call them from your own tests; the library's tests call the same functions. For
estimators use ``sklearn.utils.estimator_checks.check_estimator``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from counterplay.core.play import Game, Learner, play
from counterplay.core.report import Report
from counterplay.core.session import Session
from counterplay.core.transcript import Transcript
from counterplay.errors import InvalidInputError, ProtocolError

__all__ = ["check_game", "check_learner", "check_report", "check_session"]


def check_learner(make: Callable[[], Learner], make_game: Callable[[], Game[Transcript]]) -> None:
    """Check a learner: it plays its game, the same seed plays the same, and so does a copy.

    Parameters
    ----------
    make:
        Returns a new learner; give it a fixed ``random_state``.
    make_game:
        Returns a new game that the learner can play, short and with an end.

    Examples
    --------
    >>> from counterplay.strategic import StrategicHalving, instances
    >>> instance = instances.threshold_line(8)
    >>> check_learner(lambda: StrategicHalving(instance.hypotheses), instance.adversary)

    References
    ----------
    docs/extending.md, "Contracts".
    """
    name = type(make()).__name__
    assert isinstance(make(), Learner), f"{name} does not subclass counterplay.core.play.Learner"
    first, second = (play(make(), make_game(), random_state=0).text() for _ in range(2))
    assert first == second, f"{name} plays differently with the same seeds"
    learner = make()
    twin = copy.deepcopy(learner)
    one, two = (play(player, make_game(), random_state=0).text() for player in (learner, twin))
    assert one == two, f"a copy of {name} plays differently"


def check_game(make: Callable[[], Game[Transcript]], make_learner: Callable[[], Learner]) -> None:
    """Check a game: it gives a transcript that can be read, repeats itself, and names mistakes.

    Parameters
    ----------
    make:
        Returns a new game that ends by itself.
    make_learner:
        Returns a new learner for it, with a fixed ``random_state``.

    Examples
    --------
    >>> from counterplay.strategic import StrategicHalving, instances
    >>> instance = instances.threshold_line(8)
    >>> check_game(instance.adversary, lambda: StrategicHalving(instance.hypotheses))

    References
    ----------
    docs/extending.md, "Contracts".
    """
    game, name = make(), type(make()).__name__
    assert isinstance(game, Game), f"{name} does not subclass counterplay.core.play.Game"
    assert game.rounds is not None, f"{name} has no end; give the check a game that ends"
    transcript = play(make_learner(), game, random_state=0)
    assert isinstance(transcript, Transcript), f"{name} returns no Transcript"
    assert len(transcript) <= game.rounds, f"{name} played more rounds than it has"
    check_report(transcript)
    again = play(make_learner(), make(), random_state=0)
    assert again.text() == transcript.text(), f"{name} repeats itself differently with one seed"
    try:
        play(game, make_learner())  # type: ignore[arg-type]
    except InvalidInputError:
        return
    raise AssertionError(f"{name} accepts swapped arguments")


def check_session(make: Callable[[], Session], answer: Callable[[Any], Any]) -> None:
    """Check a session: asking is free, events grow by answers, the end is an end.

    Parameters
    ----------
    make:
        Returns a new session.
    answer:
        Gives an answer to a question; the session must end within 10,000 answers.

    Examples
    --------
    >>> class Once(Session):
    ...     events = ()
    ...     def ask(self):
    ...         return None if self.events else "ready?"
    ...     def tell(self, answer):
    ...         if self.events:
    ...             raise ProtocolError("nothing is asked")
    ...         self.events = (answer,)
    ...     def result(self):
    ...         return self.events
    >>> check_session(Once, lambda question: "yes")

    References
    ----------
    docs/extending.md, "Contracts".
    """
    session, name = make(), type(make()).__name__
    assert isinstance(session, Session), (
        f"{name} does not subclass counterplay.core.session.Session"
    )
    for _ in range(10_000):
        question = session.ask()
        assert repr(session.ask()) == repr(question), f"{name} asks something else when asked again"
        session.result()
        if question is None:
            break
        before = len(session.events)
        session.tell(answer(question))
        assert len(session.events) > before, f"{name} does not record the answer as an event"
    else:
        raise AssertionError(f"{name} did not end within 10,000 answers")
    try:
        session.tell(answer(None))
    except (ProtocolError, InvalidInputError):
        return
    raise AssertionError(f"{name} accepts an answer although nothing is asked")


def check_report(report: Report) -> None:
    """Check a report: text, table, dictionary for JSON, page for notebooks, picture.

    Parameters
    ----------
    report:
        The report.

    Examples
    --------
    >>> check_report(Transcript({"loss": [0.0, 1.0]}, {"learner": "Hedge"}))

    References
    ----------
    docs/extending.md, "Contracts".
    """
    import pandas as pd

    name = type(report).__name__
    assert isinstance(report, Report), f"{name} does not subclass counterplay.core.report.Report"
    assert report.summary().strip(), f"the summary of {name} is empty"
    assert isinstance(report.to_frame(), pd.DataFrame), f"{name}.to_frame() is no data frame"
    content = report.to_dict()
    assert content["summary"] == report.summary(), f"{name}.to_dict() has another summary"
    json.dumps(content, allow_nan=False)
    assert "<table" in report._repr_html_(), f"{name} shows no table in a notebook"
    if type(report).plot is not Report.plot:
        from matplotlib.axes import Axes

        assert isinstance(report.plot(), Axes), f"{name}.plot() returns no matplotlib axes"
