"""What an operator is told before anything is promised."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.tradeoff import (
    impossibility_report,
    instances,
    required_rate,
)


def test_impossibility_report_says_what_would_have_been_enough() -> None:
    world, _ = instances.impossibility_worlds(10_000)
    report = impossibility_report(world.l1, world.l2)
    assert not report.possible
    assert report.check.c == pytest.approx(1 / 16)
    assert report.violators == (1,)
    assert report.needed_budget == pytest.approx(10_000 / 32)
    assert 10_000**report.needed_alpha == pytest.approx(10_000 / 32)
    assert np.allclose(report.rate_needed, required_rate(world.l2, 100.0))
    enough = impossibility_report(world.l1, world.l2, delta=1.0, alpha=report.needed_alpha + 1e-9)
    assert enough.possible
    assert "possible: every expert keeps the budget" in enough.summary()
    assert "a budget of 312.5" in report.summary()
    assert list(report.to_frame().columns[:2]) == ["primary", "secondary"]
    assert report.plot().get_ylabel().startswith("largest excess")
