"""The common contract, for the public names that need Flower."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("flwr")

from counterplay.defection.flower import RationalClient
from counterplay.federated import FedAvg, FederationHistory, SafeStep, flower
from counterplay.federated.gauges import PartyGauge, RoundGauge

MAKE = {
    "RuleStrategy": lambda: flower.RuleStrategy(FedAvg(), step_size=0.5),
    "RationalClient": lambda: RationalClient(0.5),
    "InProcessGrid": lambda: flower.InProcessGrid(max, 2),  # type: ignore[arg-type]
    "PartyGauge": lambda: PartyGauge("north", 1, 0.5, 0.25),
    "RoundGauge": lambda: RoundGauge(1, (MAKE["PartyGauge"](),), "running"),
    "FederationHistory": lambda: FederationHistory((MAKE["RoundGauge"](),), "max_rounds", 0.1),
}


@pytest.mark.parametrize("name", flower.__all__)
def test_public_names_are_documented_with_an_example(name: str) -> None:
    doc = inspect.getdoc(getattr(flower, name))
    assert doc
    assert ">>>" in doc
    assert inspect.isfunction(getattr(flower, name)) or name in MAKE


@pytest.mark.parametrize("name", MAKE)
def test_objects_say_what_they_are(name: str) -> None:
    thing = MAKE[name]()
    assert repr(thing).startswith(name)
    assert " at 0x" not in repr(thing)


@pytest.mark.parametrize("name", ["PartyGauge", "RoundGauge", "FederationHistory"])
def test_records_are_frozen_and_survive_pickling(name: str) -> None:
    record = MAKE[name]()
    assert repr(pickle.loads(pickle.dumps(record))) == repr(record)
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.status = "converged"


def test_history_has_summary_frame_and_figure() -> None:
    history = MAKE["FederationHistory"]()
    assert "1 round" in history.summary()
    assert history.to_frame()["gap"].tolist() == [0.25]
    assert history.plot() is not None


def test_a_strategy_can_be_started_twice() -> None:
    app = flower.InProcessGrid(
        lambda message, context: flower.report(
            message, loss=1.0, gradient=[np.ones(2)], threshold=0.1
        ),
        2,
    )
    strategy = flower.RuleStrategy(SafeStep(0.1, cap="step_size"), step_size=0.5)
    from flwr.app import ArrayRecord

    runs = [strategy.start(app, ArrayRecord([np.zeros(2)]), num_rounds=3) for _ in range(2)]
    first, second = (run.arrays["0"].numpy() for run in runs)
    assert np.array_equal(first, second)
    assert len(strategy.history_.rounds) == 3


def test_a_party_starts_without_heavy_packages() -> None:
    """Flower starts a process for every message of a party."""
    heavy = "('torch', 'pandas', 'sklearn', 'matplotlib', 'scipy.stats')"
    code = (
        f"import sys, counterplay.defection.flower; print([m for m in {heavy} if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == "[]", run.stdout + run.stderr
