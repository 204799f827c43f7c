"""Any torch module: loss and gradient are those of autograd on the module itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from counterplay.core.draws import run_keys  # noqa: E402  # needs torch
from counterplay.errors import InvalidInputError  # noqa: E402
from counterplay.federated import (  # noqa: E402
    FedAvg,
    Federation,
    LocalParties,
    LocalWork,
    ParameterSpace,
    Sites,
    train,
)
from counterplay.federated.layers import LayeredObjective  # noqa: E402
from counterplay.federated.modules import torch_objective  # noqa: E402
from counterplay.federated.sites import party_rows  # noqa: E402

P, CLASSES = 6, 6


class Twice(torch.nn.Sequential):
    """Its own forward, which a walk over the layers would miss."""

    def forward(self, x: Any) -> Any:
        return 2.0 * super().forward(x) + 0.1 * x


class Spare(torch.nn.Module):
    """One of its parameters is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = torch.nn.Linear(P, CLASSES), torch.nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.used(x)


class Recurrent(torch.nn.Module):
    """Layers for which torch has no rule to map them over parties."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.last = torch.nn.LSTM(2, 4, batch_first=True), torch.nn.Linear(4, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.last(self.cell(x.reshape(len(x), 3, 2))[0][:, -1])


class Branching(torch.nn.Module):
    """A forward that looks at its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = torch.nn.Linear(P, CLASSES), torch.nn.Linear(P, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.one(x) if x.sum() > 0 else self.other(x)


class OwnDropout(torch.nn.Module):
    """Drops out by itself, as in torch's tutorials: no Dropout layer to be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.nn.Linear(P, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.last(torch.nn.functional.dropout(x, 0.5, training=self.training))


def two() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(P, P), torch.nn.ReLU(), torch.nn.Linear(P, CLASSES))


def tied() -> Any:
    net = two()
    net[2].weight = net[0].weight
    return net


def frozen() -> Any:
    net = two()
    net[0].requires_grad_(False)
    return net


def hooked() -> Any:
    net = two()
    net[0].register_forward_hook(lambda module, args, out: out * 0.5)
    return net


KINDS = {
    "plain": two,
    "tied": tied,
    "frozen": frozen,
    "own forward": lambda: Twice(torch.nn.Linear(P, P), torch.nn.Tanh(), torch.nn.Linear(P, P)),
    "hook": hooked,
    "batch norm": lambda: torch.nn.Sequential(torch.nn.BatchNorm1d(P), *two()),
    "group norm": lambda: torch.nn.Sequential(torch.nn.GroupNorm(2, P), *two()),
    "dropout": lambda: torch.nn.Sequential(torch.nn.Linear(P, P), torch.nn.Dropout(0.5), *two()),
    "unused": Spare,
    "recurrent": Recurrent,
    "branching": Branching,
    "own dropout": OwnDropout,
}


def make(kind: str) -> Any:
    torch.manual_seed(0)
    return KINDS[kind]().double()


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(12, P)), rng.integers(0, CLASSES, 12)


@pytest.mark.claim("23.22")
@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradient_are_those_of_the_module(kind: str) -> None:
    module, (X, y) = make(kind), rows()
    objective = torch_objective(module, dtype="float64", warm_start=True)
    put = objective.backend.put
    w = put(np.repeat(objective.start(run_keys(0, 1)), 2, axis=0))
    x, labels, weight = put(np.stack([X, X])), put(np.stack([y, y])), put(np.full((2, 12), 1 / 12))
    loss, _, gradient = objective.gradients(w, x, labels, weight)
    module.eval()
    exact = torch.nn.functional.cross_entropy(module(put(X)), put(y))
    trained = [p for p in module.parameters() if p.requires_grad]
    slopes = torch.autograd.grad(exact, trained, allow_unused=True)
    flat = [torch.zeros_like(p) if g is None else g for p, g in zip(trained, slopes)]
    expected = torch.cat([g.flatten() for g in flat])
    assert ParameterSpace.of_module(module).size == objective.size == len(expected)
    assert abs(float(loss[1]) - exact.item()) <= 1e-14
    assert torch.allclose(gradient[1], expected, rtol=0.0, atol=1e-14)


def test_only_an_unchanged_stack_of_layers_takes_the_fast_path() -> None:
    fast = {kind for kind in KINDS if isinstance(torch_objective(make(kind)), LayeredObjective)}
    assert fast == {"plain"}


@pytest.mark.claim("23.22")
@pytest.mark.parametrize("kind", KINDS)
def test_twenty_rounds_keep_frozen_and_tied_parameters_right(kind: str) -> None:
    module = make(kind)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    data = {"a": rows(1), "b": rows(2)}
    history = train(LocalParties(module, data, threshold=0.0), FedAvg(), step_size=0.5, rounds=20)
    space = ParameterSpace.of_module(module)
    old = {name: value.numpy() for name, value in before.items()}
    assert history.w is not None
    new = space.rebuild(history.w, old) | dict(history.buffers)
    assert list(new) == list(old)
    for name, value in old.items():
        if name not in space.shapes and name not in space.tied and name not in history.buffers:
            assert np.array_equal(new[name], value)  # frozen
    assert bool(history.buffers) is (kind == "batch norm")
    for alias, name in space.tied.items():
        assert np.array_equal(new[alias], new[name])
    module.load_state_dict({name: torch.from_numpy(np.array(v)) for name, v in new.items()})
    module.eval()
    for name, (X, y) in data.items():
        out = module(torch.from_numpy(X))
        loss = float(torch.nn.functional.cross_entropy(out, torch.from_numpy(y)))
        assert history.final_losses[name] == pytest.approx(loss, abs=1e-12)


@pytest.mark.parametrize("kind", ["tied", "frozen", "own forward"])
def test_seeds_at_once_give_the_model_of_one_federation(kind: str) -> None:
    module = make(kind)
    parts = [rows(1), rows(2)]
    X, y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    sites = Sites.from_agents(X, y, np.repeat([0, 1], 12))
    objective = torch_objective(module, dtype="float64", warm_start=True)
    record = Federation(objective, sites, eps=0.0).train(
        FedAvg(), run_keys(0, 2), step_size=0.5, rounds=10
    )
    history = train(
        LocalParties(module, dict(zip("ab", parts)), threshold=0.0),
        FedAvg(),
        step_size=0.5,
        rounds=10,
    )
    assert np.abs(record.w - history.w).max() <= 1e-12


def test_what_would_not_run_is_refused() -> None:
    backward = two()
    backward[0].weight.register_hook(lambda gradient: gradient * 2)
    backward[0].register_full_backward_hook(lambda *_: None)
    with pytest.raises(InvalidInputError, match="backward hook"):
        torch_objective(backward)
    replaced = two()
    replaced.forward = lambda x: x
    with pytest.raises(InvalidInputError, match="forward of Sequential was replaced"):
        torch_objective(replaced)
    with pytest.raises(InvalidInputError, match="every parameter of the module is frozen"):
        torch_objective(two().requires_grad_(False))


def test_labels_beyond_the_scores_of_a_module_are_refused() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.0))
    objective = torch_objective(module)
    assert type(objective).__name__ == "TorchModule"
    rows = np.ones((2, 4))
    assert party_rows(objective, rows, [0, 2])[1].tolist() == [0, 2]
    with pytest.raises(InvalidInputError, match="class numbers from 0 to 2, got 3"):
        party_rows(objective, rows, [0, 3])
    with pytest.raises(InvalidInputError, match=r"does not take rows of shape \(5,\)"):
        party_rows(torch_objective(module), np.ones((2, 5)), [0, 1])
    own = torch_objective(module, loss=lambda out, y: out[:, 0] * y)  # labels mean what they like
    assert party_rows(own, rows, [0, 7])[1].tolist() == [0, 7]


def test_what_runs_otherwise_in_training_mode_is_seen() -> None:
    found = {kind for kind in KINDS if getattr(torch_objective(make(kind)), "stateful", False)}
    assert found == {"batch norm", "dropout", "own dropout", "recurrent"}


def test_a_forward_that_drops_out_by_itself_does_so_in_local_steps() -> None:
    module, data = make("own dropout"), {"a": rows(1), "b": rows(2)}
    ends = {}
    for training in (True, False):
        module.last.weight.data.zero_()
        module.last.bias.data.zero_()
        if not training:  # the same model without its dropout
            module = torch.nn.Sequential(module.last, torch.nn.Identity())
        work = LocalWork(2)
        parties = LocalParties(module, data, threshold=0.0, work=work)
        ends[training] = train(parties, FedAvg(), step_size=0.5, rounds=1).w
    moved = ends[True].reshape(-1)[: P * CLASSES].reshape(CLASSES, P)
    plain = ends[False].reshape(-1)[: P * CLASSES].reshape(CLASSES, P)
    assert np.abs(moved - plain).max() > 0.01


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (lambda: torch.nn.LazyLinear(2), "weight has no shape yet"),
        (lambda: torch.nn.Sequential(torch.nn.Linear(P, 1)), r"returns one score"),
        (lambda: torch.nn.Linear(P, 1), r"returns one score.*loss='log_loss'"),
        (lambda: torch.nn.Sequential(torch.nn.Linear(P, 2), torch.nn.Flatten(0)), r"\(2,\)"),
        (lambda: torch.nn.GRU(P, 2), "one line of scores per row, got tuple"),
        (lambda: "logistic", "torch module or an objective, got 'logistic'"),
    ],
)
def test_a_module_that_does_not_score_classes_is_refused_in_one_sentence(
    module: Any, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        train(LocalParties(module(), {"a": rows()}, threshold=0.1), FedAvg(), step_size=0.1)
