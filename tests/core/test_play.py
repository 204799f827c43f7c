"""One loop for all repeated games: what is refused, what is passed on."""

from __future__ import annotations

import pytest

from counterplay.core.play import play
from counterplay.errors import InvalidInputError, ProtocolError
from test_testing import Coins, Guess


def test_swapped_or_strange_arguments_are_one_sentence():
    with pytest.raises(InvalidInputError, match=r"write play\(learner, game\)"):
        play(Coins(), Guess())
    with pytest.raises(InvalidInputError, match=r"must be a learner .* got int"):
        play(3, Coins())
    with pytest.raises(InvalidInputError, match="must be a game, got str"):
        play(Guess(), "coins")


def test_a_game_without_end_needs_rounds():
    class Endless(Coins):
        rounds = None

    with pytest.raises(ProtocolError, match="say how many rounds"):
        play(Guess(), Endless())
    assert len(play(Guess(), Endless(), rounds=7)) == 7


def test_a_game_may_end_early_and_learners_hear_the_length():
    class Short(Coins):
        def arrive(self, learner):
            return super().arrive(learner) and len(self.rows) < 2

    class Listener(Guess):
        def begin(self, rounds):
            self.heard = rounds

    learner = Listener()
    assert len(play(learner, Short())) == 2
    assert learner.heard == 5


def test_the_fast_way_is_taken_when_there_is_one():
    class Fast(Coins):
        def play_fast(self, learner, rounds, random_state):
            return None if rounds == 1 else "fast"

    assert play(Guess(), Fast(), fast=True) == "fast"
    assert len(play(Guess(), Fast(), fast=True, rounds=1)) == 1
    assert len(play(Guess(), Fast())) == 5
