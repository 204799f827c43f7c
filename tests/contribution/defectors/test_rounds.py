"""Training on pooled points with FedAvg and MW-FED, together and alone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contribution.digits import COHORT, KEYS, NET, START, largest_difference
from counterplay.contribution.defectors.rounds import Adam
from counterplay.contribution.lab import DigitsNetwork, PooledTraining, noisy_digits
from counterplay.core.draws import run_keys
from counterplay.errors import InvalidInputError
from counterplay.federated import FedAvg, MWFed, TorchArrays
from counterplay.federated.rules.mw_fed import ROUNDINGS

MW = MWFed(growth=4.0)


@pytest.mark.claim("04.28")
def test_growth_one_is_federated_averaging() -> None:
    plain = PooledTraining(FedAvg(), rounds=8).fit(NET, COHORT, START)
    assert (plain.drawn == 64).all()
    for rounding in ROUNDINGS:
        rule = MWFed(growth=1.0, rounding=rounding)
        mw = PooledTraining(rule, rounds=8).fit(NET, COHORT, START)
        assert (mw.accuracy == plain.accuracy).all()
        assert (mw.drawn == plain.drawn).all()
        assert largest_difference(mw.w, plain.w) == 0.0


def test_a_round_by_hand() -> None:
    """One step of Adam on the pooled points of one run, party by party."""
    after = PooledTraining(rounds=1, batch_size=8, step_size=0.1).fit(NET, COHORT, START).w
    r, slopes = 2, []
    for party in range(4):
        points = COHORT.draw(party, 0, 8)[[r]]
        weight = np.full((1, 8), 1 / 8, dtype=np.float32)
        first = START[[r]].astype(np.float32)
        slopes.append(NET.gradient(first, COHORT.X[points], COHORT.y[points], weight))
    mean = np.mean(slopes, axis=0)
    expected = START[r] - 0.1 * mean[0] / (abs(mean[0]) + 1e-8)  # the first step of Adam
    known = abs(mean[0]) > 1e-6
    assert largest_difference(after[r, known], expected[known]) <= 1e-4


def test_adam_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    w, slopes = rng.normal(size=(3, 5)), rng.normal(size=(6, 3, 5))
    rates = np.array([[0.1], [0.01], [0.5]])
    ours, adam = w, Adam(rates)
    for slope in slopes:
        ours = adam.step(ours, slope)
    for r in range(3):
        theirs = torch.tensor(w[r], requires_grad=True)
        optimizer = torch.optim.Adam([theirs], lr=float(rates[r, 0]))
        for slope in slopes:
            theirs.grad = torch.tensor(slope[r])
            optimizer.step()
        assert ours[r] == pytest.approx(theirs.detach().numpy(), abs=1e-12)


@pytest.mark.claim("04.29")
def test_every_round_draws_the_promised_number_of_points() -> None:
    history = PooledTraining(MW, rounds=30).fit(NET, COHORT, START)
    assert (history.drawn.sum(axis=2) == 64 * 4).all()
    assert history.drawn.min() < 64 < history.drawn.max()


@pytest.mark.claim("04.30")
def test_weights_follow_accuracy_and_spare_the_threshold() -> None:
    rule = MWFed(growth=3.0)
    history = PooledTraining(rule, rounds=10, threshold=0.3).fit(NET, COHORT, START)
    growth = np.diff(history.log_weights, axis=1)
    assert growth == pytest.approx(np.log(3.0) * (history.accuracy[:, 1:] < 0.3))
    # put the threshold exactly on an accuracy that occurs: that party must not be up-weighted
    exact = float(history.accuracy[0, 1, 0])
    again = PooledTraining(MW, rounds=1, threshold=exact).fit(NET, COHORT, START)
    assert again.accuracy[0, 1, 0] == exact
    assert again.log_weights[0, 1, 0] == 0.0
    assert again.satisfied[0, 1, 0]
    above = PooledTraining(MW, rounds=1, threshold=exact + 1e-9).fit(NET, COHORT, START)
    assert above.log_weights[0, 1, 0] == pytest.approx(np.log(4.0))


@pytest.mark.claim("04.35")
@pytest.mark.parametrize(
    "training",
    [
        PooledTraining(rounds=6),
        PooledTraining(MW, rounds=6, eval_points=40),
        PooledTraining(MWFed(growth=4.0, rounding="sigma"), rounds=6),
    ],
    ids=["FedAvg", "MWFed", "sigma"],
)
def test_batched_run_equals_single_run(training: PooledTraining) -> None:
    together = training.fit(NET, COHORT, START)
    for r in (0, 3):
        alone = training.fit(NET, COHORT.take([r]), START[[r]])
        assert (alone.accuracy[0] == together.accuracy[r]).all()
        assert (alone.drawn[0] == together.drawn[r]).all()
        assert largest_difference(alone.w, together.w[[r]]) <= 1e-6


@pytest.mark.claim("04.35")
def test_numpy_and_torch_train_the_same_networks() -> None:
    pytest.importorskip("torch")
    twin = DigitsNetwork(TorchArrays())
    training = PooledTraining(MW, rounds=10)
    ours = training.fit(NET, COHORT, START)
    theirs = training.fit(twin, COHORT, twin.start(KEYS))
    assert (ours.drawn == theirs.drawn).all()
    assert largest_difference(ours.w, twin.backend.fetch(theirs.w)) <= 1e-5


def test_any_torch_module_can_be_trained() -> None:
    torch = pytest.importorskip("torch")
    from counterplay.federated.modules import torch_objective

    class Residual(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.out = torch.nn.Linear(64, 64), torch.nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(x + self.inner(x).tanh())

    model = torch_objective(Residual())
    training = PooledTraining(MW, rounds=15)
    together = training.fit(model, COHORT, model.start(KEYS))
    assert together.accuracy[:, -1].mean() > together.accuracy[:, 0].mean() + 0.2
    alone = training.fit(model, COHORT.take([1]), model.start(KEYS[[1]]))
    assert (alone.drawn[0] == together.drawn[1]).all()


def test_training_alone_uses_own_data_only() -> None:
    other = replace(COHORT, y=COHORT.y.copy())
    other.y[COHORT.train[:, 1].ravel()] = 0  # spoil the training labels of party 1
    training = PooledTraining(rounds=5, batch_size=256)
    honest = training.fit_alone(NET, COHORT, START).accuracy.reshape(4, 4, 6)
    spoiled = training.fit_alone(NET, other, START).accuracy.reshape(4, 4, 6)
    assert (honest[:, [0, 2, 3]] == spoiled[:, [0, 2, 3]]).all()
    assert (honest[:, 1] != spoiled[:, 1]).any()


class Counting(DigitsNetwork):
    """The network, counting how often it is asked for gradients and for outputs."""

    gradients_asked = outputs_asked = 0

    def step_gradient(self, *arguments: Any) -> Any:
        self.gradients_asked += 1
        return super().step_gradient(*arguments)

    def outputs(self, *arguments: Any) -> Any:
        self.outputs_asked += 1
        return super().outputs(*arguments)


@pytest.mark.claim("04.41")
def test_runs_together_share_every_pass_through_the_network() -> None:
    keys, rounds = run_keys(0, 6), 5
    cohort, start = noisy_digits(keys, size=120, train=80), NET.start(keys)
    training = PooledTraining(rounds=rounds, batch_size=8)

    def passes(groups: list[list[int]]) -> tuple[int, int]:
        net = Counting()
        for group in groups:
            training.fit(net, cohort.take(group), start[group])
        return net.gradients_asked, net.outputs_asked

    assert passes([list(range(6))]) == (rounds, rounds + 1)  # one step, one look per round
    assert passes([[r] for r in range(6)]) == (6 * rounds, 6 * (rounds + 1))


def test_bad_trainings() -> None:
    with pytest.raises(InvalidInputError, match="batch_size"):
        PooledTraining(batch_size=0)
    with pytest.raises(InvalidInputError, match="step_size"):
        PooledTraining(step_size=-1.0)


def test_imports_with_numpy_alone(tmp_path: Path) -> None:
    """The training runs must load on a machine that has NumPy (and torch) only."""
    source = Path(__file__).parents[3] / "src"
    script = f"""
import sys, types
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {{"scipy", "sklearn", "pandas", "numba", "networkx"}}:
            raise ImportError(name)
sys.meta_path.insert(0, Block())
sys.path.insert(0, {str(source)!r})
package = types.ModuleType("counterplay.contribution")
package.__path__ = [{str(source / "counterplay" / "contribution")!r}]
sys.modules["counterplay.contribution"] = package
import counterplay.contribution.defectors as t
print(t.PooledTraining(rounds=2).rounds)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "2", done.stderr
