"""Ten heterogeneous parties on digits, three of them asked per round: the table of chapter 23."""

from __future__ import annotations

from typing import Any

import pytest

from counterplay.defection import heterogeneous_split
from counterplay.federated import FedAvg, LayeredObjective, LocalParties, LocalWork, SafeStep, train
from federated.worlds import SampleOnly

EPS, DELTA = 0.2, 0.02
OPTIONS: dict[str, Any] = {"step_size": 0.5, "rounds": 400}


def parties(seed: int, **more: Any) -> LocalParties:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    site = heterogeneous_split(X, y, n_agents=10, own_fraction=0.9, random_state=seed).agent_of_row
    data = {f"site {m}": (X[site == m] / 16.0, y[site == m]) for m in range(10)}
    return LocalParties(LayeredObjective([64, 32, 10]), data, threshold=EPS, **more)


def safe() -> SafeStep:
    return SafeStep(DELTA, cap=0.2)


@pytest.mark.claim("23.20")
def test_cuts_with_urgent_parties_keep_everybody_for_fewer_answers() -> None:
    full = train(parties(0), safe(), random_state=0, **OPTIONS)
    for seed in range(2):
        run = train(parties(seed), safe(), fraction=0.3, random_state=seed, **OPTIONS)
        assert run.status == "converged"
        assert run.left == {}
        assert run.final_losses.max() - EPS <= 2 * DELTA
        assert run.guarantee == "curvature estimated"
        assert run.answers <= 0.8 * full.answers
    rule = SampleOnly(safe())
    old = train(parties(0), rule, fraction=0.3, random_state=0, **OPTIONS)
    assert old.status == "converged"
    assert old.final_losses.max() - EPS > 5 * DELTA  # a false claim


@pytest.mark.claim("23.21")
def test_ordinary_clients_are_kept_without_a_promise() -> None:
    some = parties(1, work=LocalWork(5, 32))
    run = train(some.ordinary(), safe(), fraction=0.3, random_state=1, **OPTIONS)
    assert run.left == {}
    assert run.final_losses.max() - EPS <= 0.08
    assert run.guarantee == "updates only: none"
    plain = train(some, FedAvg(), fraction=0.3, random_state=1, **OPTIONS)
    assert len(plain.left) >= 4


@pytest.mark.claim("23.21")
def test_without_any_loss_the_first_line_says_that_nobody_is_protected() -> None:
    some = parties(1, work=LocalWork(5, 32)).ordinary()
    answers = {
        name: (lambda a, f=f: {k: v for k, v in f(a).items() if k != "loss"})
        for name, f in (some.answers or {}).items()
    }
    mute = LocalParties(some.model, some.data, EPS, work=some.work, answers=answers)
    run = train(mute, safe(), fraction=0.3, rounds=5, step_size=0.5, random_state=0)
    first = run.summary().splitlines()[0]
    assert first.startswith("No party sent a loss: nobody is protected")
    assert run.guarantee == "none"
    plain = train(parties(1, work=some.work), FedAvg(), rounds=5, step_size=0.5, random_state=0)
    assert len(plain.rounds) == 5
