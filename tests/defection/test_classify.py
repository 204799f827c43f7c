"""Which departures harmed the final model."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.defection import (
    FedAvg,
    FederationGame,
    Server,
    classify_defections,
    instances,
    play,
)


def test_classification_of_departures() -> None:
    benign = instances.benign_example()
    run = play(
        Server(FedAvg(), benign.w0, step_size=0.5),
        FederationGame(benign.problem, benign.eps),
        rounds=99,
    )
    assert not any(d.harmful for d in classify_defections(run).defections)
    bad = instances.uniform_fails_family(4.0, 1 / 16)
    etas = np.concatenate([[10.0], np.full(299, 1 / 64)])
    run = play(
        Server(FedAvg(), bad.w0, step_size=etas), FederationGame(bad.problem, bad.eps), rounds=300
    )
    report = classify_defections(run)
    assert {d.agent: d.harmful for d in report.defections} == {0: False, 1: True}
    assert report.defections[1].round == 2
    forced = play(
        Server(FedAvg(), bad.w0, step_size=etas),
        FederationGame(bad.problem, bad.eps, forced_to_stay=[1]),
        rounds=300,
    )
    change = run.loss.mean() - forced.loss.mean()
    assert report.defections[1].mean_loss_change == pytest.approx(change, abs=1e-12)
