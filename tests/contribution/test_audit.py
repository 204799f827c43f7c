"""Audits and prices by hand."""

from __future__ import annotations

import pytest

from counterplay.contribution import (
    LinearGame,
    envy_report,
    instances,
    stability_report,
)
from counterplay.contribution.lab import (
    Tolerances,
    is_feasible,
    price_ratio,
)
from counterplay.errors import InvalidInputError


def test_reports_by_hand() -> None:
    game = LinearGame([[1, 0.5], [0.5, 1]], 1.0)
    assert is_feasible(game, [1, 1])
    assert not is_feasible(game, [1, 0])
    report = stability_report(game, [1.0, 0.75])
    assert report.gap == pytest.approx([0.375, 0.25])
    assert report.worst_party == 0
    assert not report.is_stable
    assert report.withdrawable_share == pytest.approx(0.625 / 1.75)
    assert report.reducible_fraction == pytest.approx([0.625, 2 / 3])
    assert "party 0" in report.summary()
    assert report.to_frame().shape == (2, 4)
    assert "misses" in stability_report(game, [0.1, 0.1]).summary()
    stable = stability_report(game, [2 / 3, 2 / 3])
    assert stable.is_stable
    assert "nobody" in stable.summary()
    envy = envy_report(instances.identical_linear_pair(), [0.7, 0.3])
    assert envy.margin[0, 1] == pytest.approx(0)
    assert envy.borderline == ((0, 1),)
    assert list(envy.graph(["a", "b"]).edges) == [("a", "b")]
    assert envy.to_frame(["a", "b"]).iloc[0].tolist()[:2] == ["a", "b"]
    assert "party 0" in envy.summary()
    assert envy.plot() is not None
    strict = Tolerances(u=1e-9, theta=0.5)  # a difference of 0.4 counts as equal
    assert envy_report(instances.identical_linear_pair(), [0.7, 0.3], strict).is_envy_free


def test_prices() -> None:
    assert price_ratio(0.0, 0.0) == 1.0
    assert price_ratio(2.0, 1.0) == 2.0
    with pytest.raises(InvalidInputError):
        price_ratio(-1.0, 1.0)
