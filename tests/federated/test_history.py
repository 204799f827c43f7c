"""What a reader of the history is told, also about parties that are gone."""

from __future__ import annotations

import numpy as np

from counterplay.federated.gauges import PartyGauge, RoundGauge, most_parallel
from counterplay.federated.history import FederationHistory


def rounds() -> tuple[RoundGauge, ...]:
    first = PartyGauge("north", 1, 0.5, 0.2), PartyGauge("south", 2, 0.21, 0.2)
    second = PartyGauge("north", 1, 0.25, 0.2), PartyGauge("south", 2, event="left")
    return RoundGauge(1, first, "running"), RoundGauge(2, second, "running")


def test_a_party_that_left_is_not_forgotten() -> None:
    told = FederationHistory(rounds(), "max_rounds").summary()
    assert "Left: south (round 2)." in told
    assert "Largest distance to a target: 0.05 (north)." in told
    assert "Unknown at the final model: south (since round 1)." in told


def test_a_leaver_that_was_asked_at_the_end_counts() -> None:
    final = {"north": 0.25, "south": 0.9}
    history = FederationHistory(rounds(), "max_rounds", final=final, notes=("Mind the gap.",))
    lines = history.summary().splitlines()
    assert lines[0] == "Mind the gap."
    assert "Largest distance to a target: 0.7 (south, who left in round 2)." in lines
    assert history.final_losses.to_dict() == final


def test_reasons_are_kept_and_silence_is_no_refusal() -> None:
    bad = (
        PartyGauge("north", 1, event="unusable reply: no"),
        PartyGauge("south", 2, event="no reply"),
    )
    history = FederationHistory((RoundGauge(1, bad, "no_usable_answer"),), "no_usable_answer")
    assert history.refused == {"north": ["round 1: unusable reply: no"]}
    assert history.dropped == {"north": [1], "south": [1]}
    assert "north: round 1: unusable reply: no." in history.summary()


def test_most_parallel_rows() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 0.0], [-2.0, 0.1], [0.0, 1.0]])
    pair = most_parallel(rows @ rows.T)
    assert pair is not None
    assert pair[:2] == (0, 2)
    assert most_parallel(np.zeros((2, 2))) is None
