"""Losses and gradients of the engine agree with torch's own differentiation, batch by batch."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.draws import run_keys
from counterplay.errors import InvalidInputError
from counterplay.federated import (
    LayeredObjective,
    LocalWork,
    NumpyArrays,
    TorchArrays,
    local_work,
    party_batches,
)
from counterplay.federated.losses import MARGIN, row_loss
from counterplay.federated.sites import minibatches

torch = pytest.importorskip("torch")

from counterplay.federated.modules import TorchModule, torch_objective  # noqa: E402  # needs torch

RNG = np.random.default_rng(5)


def problem(B: int, n: int, p: int, C: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = RNG.normal(size=(B, n, p))
    y = RNG.integers(0, C, size=(B, n))
    weight = RNG.uniform(size=(B, n))
    weight[:, -2:] = 0.0  # padding
    return x, y, weight / weight.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "identity"])
@pytest.mark.parametrize("loss", ["cross_entropy", *MARGIN])
def test_numpy_gradients_match_central_differences(activation: str, loss: str) -> None:
    model = LayeredObjective([3, 4, 3], activation, loss=loss, penalty=0.1)
    x, y, weight = problem(2, 6, 3, 3)
    w = RNG.normal(size=(2, model.size))
    value, accuracy, gradient = model.gradients(w, x, y, weight)
    assert np.allclose(value, model.evaluate(w, x, y, weight)[0], atol=1e-14)
    assert np.allclose(accuracy, model.evaluate(w, x, y, weight)[1], atol=1e-14)
    h = 1e-6
    for j in range(model.size):
        up, down = w.copy(), w.copy()
        up[:, j] += h
        down[:, j] -= h
        slope = model.evaluate(up, x, y, weight)[0] - model.evaluate(down, x, y, weight)[0]
        assert np.allclose(slope / (2 * h), gradient[:, j], atol=2e-6)


def test_padding_does_not_count() -> None:
    model = LayeredObjective([3, 4, 3])
    x, y, weight = problem(2, 6, 3, 3)
    w = RNG.normal(size=(2, model.size))
    changed = x.copy()
    changed[:, -2:] = 17.0
    for a, b in zip(model.gradients(w, x, y, weight), model.gradients(w, changed, y, weight)):
        assert np.allclose(a, b, atol=1e-15)


@pytest.mark.parametrize("loss", ["cross_entropy", "log_loss"])
def test_all_backends_and_torch_autograd_agree(loss: str) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 4))
    layers = torch_objective(net, loss=loss, dtype="float64")
    mapped = TorchModule(net.double(), loss, TorchArrays("float64"))
    numpy = LayeredObjective([5, 7, 4], "tanh", loss=loss)
    x, y, weight = problem(3, 9, 5, 4)
    w = RNG.normal(size=(3, numpy.size))
    expected = numpy.gradients(w, x, y, weight)
    for model in (layers, mapped):
        put = model.backend.put
        found = model.gradients(put(w), put(x), put(y), put(weight))
        for a, b in zip(expected, found):
            assert np.allclose(a, model.backend.fetch(b), atol=1e-12)


def test_convolutions_are_mapped_over_agents() -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 3)
    )
    model = torch_objective(net, dtype="float64")
    assert isinstance(model, TorchModule)
    w = model.start(run_keys(0, 2))
    x, y = RNG.normal(size=(2, 5, 1, 4, 4)), RNG.integers(0, 3, size=(2, 5))
    weight = np.full((2, 5), 0.2)
    put = model.backend.put
    loss, _, gradient = model.gradients(put(w), put(x), put(y), put(weight))
    for b in range(2):
        torch.nn.utils.vector_to_parameters(torch.from_numpy(w[b]), net.double().parameters())
        own = torch.nn.functional.cross_entropy(net(put(x[b])), put(y[b]))
        grads = torch.autograd.grad(own, list(net.parameters()))
        flat = torch.cat([g.flatten() for g in grads])
        assert abs(own.item() - float(loss[b])) < 1e-12
        assert torch.allclose(flat, gradient[b], atol=1e-12)


def test_fresh_parameters_depend_on_the_key_only() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(8, 3))
    state = torch.random.get_rng_state()
    first = torch_objective(net).start(run_keys(0, 3))
    second = torch_objective(net).start(run_keys(0, 3)[1:])
    assert np.array_equal(first[1:], second)
    assert not np.array_equal(first[0], first[1])
    assert torch.equal(state, torch.random.get_rng_state())
    own = torch_objective(net, warm_start=True).start(run_keys(0, 1))
    flat = torch.nn.utils.parameters_to_vector(net.parameters()).detach().double()
    assert np.array_equal(own[0], flat.numpy())


def test_flushing_is_undone() -> None:
    tiny = np.array([5e-324])
    backend = TorchArrays()
    with backend.fast_floats():
        assert (tiny * 1.0 == 0.0).all()
    assert (tiny * 1.0 > 0.0).all()
    with pytest.raises(RuntimeError), backend.fast_floats():
        raise RuntimeError
    assert (tiny * 1.0 > 0.0).all()


@pytest.mark.parametrize("rescale", [True, False])
def test_local_steps_follow_the_definition(rescale: bool) -> None:
    model = LayeredObjective([4, 5, 3])
    X, y = RNG.normal(size=(20, 4)), RNG.integers(0, 3, size=20)
    w = RNG.normal(size=model.size)
    asked = LocalWork(5, 6, rescale)
    order = party_batches(3, party=2, round=7, rows=20, work=asked)
    assert order is not None
    work = local_work(model, (X, y), w, step_size=0.3, work=asked, batches=order)
    local = w.copy()
    for rows in order:
        part = (X[rows][None], y[rows][None], np.full((1, 6), 1 / 6))
        local -= (0.3 / 5 if rescale else 0.3) * model.gradients(local[None], *part)[2][0]
    assert np.allclose(work.update, (w - local) / 0.3, atol=1e-13)
    full = model.gradients(w[None], X[None], y[None], np.full((1, 20), 0.05))
    assert np.allclose(work.gradient, full[2][0], atol=1e-13)
    assert work.loss == pytest.approx(float(full[0][0]), abs=1e-14)
    assert work.accuracy == pytest.approx(float(full[1][0]), abs=1e-14)


def test_one_full_step_is_the_gradient() -> None:
    model = LayeredObjective([4, 5, 3])
    X, y = RNG.normal(size=(20, 4)), RNG.integers(0, 3, size=20)
    work = local_work(model, (X, y), RNG.normal(size=model.size), step_size=0.3)
    assert work.gradient is not None
    assert np.array_equal(work.update, work.gradient)


def test_batches_do_not_depend_on_the_company() -> None:
    keys = run_keys(4, 6)
    sizes = np.array([10, 100, 1000])
    many = minibatches(keys, 3, sizes, 4, 8)
    assert many.shape == (6, 3, 4, 8)
    assert (many.max(axis=(0, 2, 3)) < sizes).all()
    assert np.array_equal(many[2:3], minibatches(keys[2:3], 3, sizes, 4, 8))
    assert np.array_equal(many[2, 1], party_batches(4, 1, 3, 100, LocalWork(4, 8), run=2))
    assert not np.array_equal(many[0, 0], minibatches(keys[:1], 4, sizes, 4, 8)[0, 0])


def test_single_output_margin_loss_is_the_logistic_loss() -> None:
    out, y = np.array([[[2.0], [-1.0], [0.0]]]), np.array([[1, 1, 0]])
    loss, slope = row_loss("log_loss")(NumpyArrays(), out, y)
    sign = np.array([1.0, 1.0, -1.0])
    margin = sign * out[0, :, 0]
    assert np.allclose(loss[0], np.log1p(np.exp(-margin)), atol=1e-15)
    assert np.allclose(slope[0, :, 0], -sign / (1 + np.exp(margin)), atol=1e-15)


class Doubled(torch.nn.Sequential):  # type: ignore[misc]  # torch is imported late
    """A Sequential with a forward of its own."""

    def forward(self, x: object) -> object:
        return 2.0 * super().forward(x) + 0.1


def stack() -> torch.nn.Sequential:
    torch.manual_seed(0)
    first, second, last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 3)
    return torch.nn.Sequential(first, torch.nn.Tanh(), second, torch.nn.Tanh(), last).double()


def unusual(kind: str) -> torch.nn.Module:
    module = stack()
    if kind == "F2 tied":
        module[2].weight = module[0].weight
    elif kind == "F3 frozen":
        module[0].requires_grad_(False)
        module[4].bias.requires_grad_(False)
    elif kind == "F4 forward":
        return Doubled(*module)
    elif kind == "F4 hook":
        module[2].register_forward_hook(lambda part, given, out: 3.0 * out)
    elif kind == "F4 pre-hook":
        module[0].register_forward_pre_hook(lambda part, given: (given[0] + 1.0,))
    return module


UNUSUAL = ["plain", "F2 tied", "F3 frozen", "F4 forward", "F4 hook", "F4 pre-hook"]


@pytest.mark.parametrize("kind", UNUSUAL)
def test_loss_and_gradient_are_those_of_the_module(kind: str) -> None:
    module = unusual(kind)
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(20, 4)), rng.integers(0, 3, 20)
    trained = [p for p in module.parameters() if p.requires_grad]
    w = torch.nn.utils.parameters_to_vector(trained).detach().numpy()
    loss = torch.nn.functional.cross_entropy(module(torch.from_numpy(X)), torch.from_numpy(y))
    expected = np.concatenate([g.numpy().ravel() for g in torch.autograd.grad(loss, trained)])
    work = local_work(torch_objective(module, dtype="float64"), (X, y), w, step_size=0.1)
    assert work.loss == pytest.approx(loss.item(), abs=1e-12)
    assert work.gradient is not None
    assert np.abs(work.gradient - expected).max() <= 1e-12
    fresh = torch_objective(module, dtype="float64").start(run_keys(0, 2))
    own = torch_objective(module, dtype="float64", warm_start=True).start(run_keys(0, 2))
    assert fresh.shape == own.shape == (2, len(w))
    assert np.array_equal(own[1], w)


@pytest.mark.parametrize("kind", ["module", "parameter", "forward"])
def test_what_cannot_run_on_copies_is_refused(kind: str) -> None:
    module = stack()
    if kind == "module":
        module[2].register_full_backward_hook(lambda part, inner, outer: None)
    elif kind == "parameter":
        module[2].weight.register_hook(lambda gradient: 2.0 * gradient)
    else:
        module.forward = lambda x: x  # type: ignore[method-assign]
    words = "forward of Sequential" if kind == "forward" else "2.* has a backward hook"
    with pytest.raises(InvalidInputError, match=words):
        torch_objective(module)


def test_a_frozen_layer_keeps_its_values_in_the_simulator() -> None:
    from counterplay.defection import DefectionSimulator

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    y, site = (X[:, 0] > 0).astype(int), np.arange(80) % 2
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    module[0].requires_grad_(False)
    X = X.astype(np.float32)
    simulator = DefectionSimulator(module, X, y, site, threshold=0.0, warm_start=True)
    objective = simulator.objective
    assert objective.size == 5  # the last layer: the first cannot move
    rows = torch.from_numpy(X)
    out = objective.outputs(torch.zeros(1, 5) + 1.0, rows[None])[0, :, 0]
    expected = torch.relu(module[0](rows)).sum(dim=1) + 1.0  # all weights and the bias are 1
    assert torch.allclose(out, expected, atol=1e-5)
