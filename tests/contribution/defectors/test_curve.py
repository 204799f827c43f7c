"""Lone defectors in training."""

from __future__ import annotations

import pytest

from contribution.digits import COHORT, NET, START
from counterplay.contribution.lab import (
    DefectionCurve,
    PooledTraining,
    default_defectors,
    defection_curve,
    noisy_digits,
    pretrain,
    pretraining_digits,
)
from counterplay.core.draws import run_keys
from counterplay.core.stats import mean_interval
from counterplay.errors import InvalidInputError
from counterplay.federated import FedAvg, MWFed

RUNS = 40


@pytest.fixture(scope="module")
def curves() -> dict[str, DefectionCurve]:
    """The digits experiment, paired: same data, defectors and seeds for both algorithms."""
    keys = run_keys(2024, RUNS)
    cohort, start = noisy_digits(keys), pretrain(NET, *pretraining_digits(2024), keys, steps=25)
    return {
        type(rule).__name__: defection_curve(
            PooledTraining(rule), NET, cohort, start, fractions=(0.05, 0.01)
        )
        for rule in (FedAvg(), MWFed(growth=4.0))
    }


@pytest.mark.claim("04.32")
@pytest.mark.parametrize("level", [0, 1])
def test_defectors_fare_worse_under_mw_fed(curves: dict[str, DefectionCurve], level: int) -> None:
    plain, mw = curves["FedAvg"], curves["MWFed"]
    assert (plain.defector == mw.defector).all()
    difference = plain.at[level, :, -1].astype(float) - mw.at[level, :, -1]
    assert difference.mean() > 0.15
    assert mean_interval(difference).low > 0


@pytest.mark.claim("04.32")
def test_the_gap_is_carried_by_hard_parties(curves: dict[str, DefectionCurve]) -> None:
    for level in (0, 1):
        gap = {
            group: curves["FedAvg"].rate(parties=parties)[level]
            - curves["MWFed"].rate(parties=parties)[level]
            for group, parties in {"hard": (0, 1), "easy": (2, 3)}.items()
        }
        assert gap["hard"] > gap["easy"] + 0.1
    shares = curves["MWFed"].drawn[0] / curves["MWFed"].drawn[0].sum(axis=1, keepdims=True)
    assert shares[:, :2].sum(axis=1).mean() > 0.85  # hard parties do the work


def test_curve_object(curves: dict[str, DefectionCurve]) -> None:
    curve = curves["FedAvg"]
    frame = curve.to_frame()
    assert list(frame["kind"]) == ["at", "at", "by", "by"]
    assert ((frame["low"] <= frame["rate"]) & (frame["rate"] <= frame["high"])).all()
    assert (curve.by[:, :, -1] >= curve.at[:, :, -1]).all()
    assert curve.free_riding_margin(0.0) == 0.01
    assert curve.free_riding_margin(1.1) == 1.0
    easiest = int(curve.defector.max())
    assert curve.free_riding_margin(0.5, parties=(easiest,)) <= curve.free_riding_margin(0.99)
    assert curve.plot() is not None
    assert set(default_defectors(noisy_digits(run_keys(0, 30), size=12, train=10)).tolist()) <= {
        0,
        1,
        2,
        3,
    }
    with pytest.raises(InvalidInputError, match="defector among"):
        curve.rate(parties=(9,))
    with pytest.raises(InvalidInputError, match="one party for each"):
        defection_curve(PooledTraining(rounds=1), NET, COHORT, START, defector=[0])
