"""A short slice of the campaigns against everything that comes from outside, with a fixed seed."""

from __future__ import annotations

import pytest

from fuzz import flips, kills, states, stores
from fuzz.tally import Tried, failures, table


def clean(rows: list[Tried]) -> None:
    found = failures(rows)
    assert not found, f"{table(rows)}\n" + "\n".join(map(str, found[:10]))


def test_hostile_states() -> None:
    rows = states.run(n=400, seed=1)
    clean(rows)
    assert sum(row.verdict == "refused" for row in rows) > 300


@pytest.mark.claim("26.17")
def test_single_changed_bytes() -> None:
    """The first 3 of the 500 for every class; ``python -m tests.fuzz flips`` runs all of them."""
    rows = flips.run(n=3)
    clean(rows)
    assert {row.group for row in rows} == set(flips.SUBJECTS)
    assert sum(row.verdict == "refused" for row in rows) > len(rows) / 2


@pytest.mark.filterwarnings("ignore::counterplay.errors.CounterplayWarning")
def test_every_valid_state_is_accepted() -> None:
    for subject in states.all_subjects():
        subject.use(subject.read(subject.text))


def test_bit_flips_of_a_store() -> None:
    rows = stores.run(n=60, seed=1)
    clean(rows)
    assert any(row.verdict == "refused" for row in rows)


def test_sweeps_that_are_killed() -> None:
    clean(kills.run(n=3, seed=1))


def test_hostile_replies() -> None:
    pytest.importorskip("flwr")
    from fuzz import replies

    clean(replies.run(n=25, seed=1))
