"""The shipped checks pass what keeps the contract and name what breaks it."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from counterplay.core.play import Game, Learner
from counterplay.core.report import Report
from counterplay.core.session import Session
from counterplay.core.transcript import Transcript
from counterplay.errors import ProtocolError
from counterplay.testing import check_game, check_learner, check_report, check_session


class Guess(Learner):
    """Guesses the next coin by a coin of its own."""

    def __init__(self, random_state: int | None = 0) -> None:
        self.rng = np.random.default_rng(random_state)

    def act(self, seen=None):
        return int(self.rng.integers(2))

    def observe(self, feedback):
        self.last = feedback


class Coins(Game[Transcript]):
    """Five coins to guess; ``fixed`` makes it ignore the seed of play."""

    rounds = 5

    def __init__(self, fixed: bool = True) -> None:
        self.fixed = fixed
        self.rows: list[tuple[int, int]] = []

    def start(self, rounds, random_state):
        self.rng = np.random.default_rng(random_state if self.fixed else None)
        self.rows = []

    def arrive(self, learner):
        self.coin = int(self.rng.integers(1000))
        return True

    def respond(self, action):
        self.rows.append((self.coin, action))
        return self.coin

    def transcript(self, learner):
        table = np.array(self.rows)
        return Transcript({"coin": table[:, 0], "guess": table[:, 1]})


class Questions(Session):
    """Two questions; flags break one rule each."""

    def __init__(self, restless: bool = False, forgetful: bool = False, open_end: bool = False):
        self.restless, self.forgetful, self.open_end = restless, forgetful, open_end
        self.counter = itertools.count()
        self.told: tuple[str, ...] = ()
        self.asked = 0

    @property
    def events(self):
        return () if self.forgetful else self.told

    def ask(self):
        if len(self.told) == 2:
            return None
        return next(self.counter) if self.restless else len(self.told)

    def tell(self, answer):
        if self.ask() is None and not self.open_end:
            raise ProtocolError("nothing is asked")
        self.told = (*self.told, answer)

    def result(self):
        return self.told


class Table(Report):
    """A report whose text may be empty."""

    def __init__(self, text: str = "three rows") -> None:
        self.text = text

    def summary(self):
        return self.text

    def to_frame(self):
        return pd.DataFrame({"x": [1.0, float("nan"), 3.0]})


def test_what_keeps_the_contract_passes():
    check_learner(Guess, Coins)
    check_game(Coins, Guess)
    check_session(Questions, lambda question: "yes")
    check_report(Table())


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_learner(lambda: Guess(None), Coins), "plays differently"),
        (lambda: check_learner(object, Coins), "does not subclass"),
        (lambda: check_game(lambda: Coins(fixed=False), Guess), "repeats itself differently"),
        (lambda: check_session(lambda: Questions(restless=True), str), "asks something else"),
        (lambda: check_session(lambda: Questions(forgetful=True), str), "does not record"),
        (lambda: check_session(lambda: Questions(open_end=True), str), "although nothing is asked"),
        (lambda: check_report(Table(" ")), "summary of Table is empty"),
    ],
)
def test_what_breaks_it_is_named(check, message: str):
    with pytest.raises(AssertionError, match=message):
        check()


def test_html_of_a_report_is_escaped_and_nan_is_none():
    report = Table("<script>")
    assert "<script>" not in report._repr_html_()
    assert report.to_dict()["rows"][1] == {"x": None}
