"""Networks under a group: invariance, gradients, estimators."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

torch = pytest.importorskip("torch")

from counterplay.errors import InvalidInputError  # noqa: E402
from counterplay.invariance import AugmentedClassifier, OrbitVoteClassifier, groups  # noqa: E402
from counterplay.invariance.errors import ShapeError  # noqa: E402
from counterplay.invariance.torch import (  # noqa: E402
    AugmentCollate,
    InvariantModule,
    TorchClassifier,
)

GROUP = groups.d4((4, 4))


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(16, 12), torch.nn.BatchNorm1d(12), torch.nn.ReLU(), torch.nn.Linear(12, 3)
    )


def convolutions() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16, 3)
    )


@pytest.mark.claim("22.25")
@pytest.mark.parametrize("how", ["mean", "logsumexp", "canonical"])
@pytest.mark.parametrize("training", [True, False])
def test_logits_do_not_change_under_the_group(how: str, training: bool) -> None:
    torch.manual_seed(1)
    x = torch.randn(20, 16)
    net = InvariantModule(network(), GROUP, how).train(training)
    wanted = net(x)
    for g in range(8):
        moved = torch.as_tensor(GROUP.act(g, x.numpy()))
        assert (net(moved) - wanted).abs().max() <= 1e-5


@pytest.mark.claim("22.25")
def test_images_signs_matrices_and_sets() -> None:
    torch.manual_seed(1)
    pictures = torch.randn(5, 2, 4, 4)
    net = InvariantModule(convolutions(), groups.d4((4, 4, 2))).eval()
    for turn in range(4):
        turned = torch.rot90(pictures, turn, (2, 3))
        assert (net(turned) - net(pictures)).abs().max() <= 1e-5
    last = InvariantModule(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(32, 3)),
                           groups.d4((4, 4, 2)), channels_last=True)  # fmt: skip
    rows = pictures.permute(0, 2, 3, 1)
    flat = InvariantModule(last.module[1], groups.d4((4, 4, 2)))
    assert torch.allclose(last(rows), flat(rows.reshape(5, -1)), atol=1e-6)
    plane = torch.randn(6, 2)
    turned = plane @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    for group, other in ((groups.sign_flips(2), -plane), (groups.plane_rotations(4), turned)):
        net = InvariantModule(torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh()), group)
        assert (net(other) - net(plane)).abs().max() <= 1e-5
    sets = torch.randn(7, 6)
    net = InvariantModule(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh()),
                          groups.set_permutations(3, 2))  # fmt: skip
    shuffled = sets.reshape(7, 3, 2)[:, [2, 0, 1]].reshape(7, 6)
    assert torch.equal(net(shuffled), net(sets))
    with pytest.raises(ShapeError, match="moves 6 numbers"):
        net(torch.randn(2, 5))
    with pytest.raises(InvalidInputError, match="does not act on tensors"):
        InvariantModule(network(), groups.image_jitter((4, 4)))


@pytest.mark.claim("22.25")
def test_gradient_is_that_of_the_explicit_mean() -> None:
    torch.manual_seed(1)
    x = torch.randn(6, 16)
    base = torch.nn.Linear(16, 3)
    InvariantModule(base, GROUP)(x).square().sum().backward()
    found = base.weight.grad.clone()
    base.zero_grad()
    images = [base(torch.as_tensor(GROUP.act(g, x.numpy()))) for g in range(8)]
    torch.stack(images).mean(dim=0).square().sum().backward()
    assert torch.allclose(found, base.weight.grad, atol=1e-5)


@pytest.mark.claim("22.25")
def test_microbatches_and_state() -> None:
    x = torch.randn(9, 16)
    net = InvariantModule(network(), GROUP).eval()
    small = InvariantModule(network(), GROUP, microbatch=5).eval()
    small.load_state_dict(net.state_dict())
    assert torch.allclose(small(x), net(x), atol=1e-6)


@pytest.mark.claim("22.25")
def test_classifier_clones_pickles_and_repeats_itself() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 16)).astype(np.float32)
    y = np.array(["a", "b", "c"])[(X.reshape(-1, 4, 4).mean(axis=(1, 2)) * 3).astype(int) % 3]
    collate = AugmentCollate(GROUP, random_state=1)
    model = TorchClassifier(InvariantModule(network(), GROUP), epochs=2, batch_size=20,
                            random_state=0, collate=collate)  # fmt: skip
    first, second = clone(model).fit(X, y), clone(model).fit(X, y)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    again = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(again.predict(X), first.predict(X))
    square = TorchClassifier(torch.nn.Sequential(torch.nn.Flatten(), network()), epochs=2,
                             random_state=0)  # fmt: skip
    flat = TorchClassifier(network(), epochs=2, random_state=0).fit(X, y)
    np.testing.assert_allclose(
        square.fit(X.reshape(-1, 4, 4), y).predict_proba(X.reshape(-1, 4, 4)),
        flat.predict_proba(X), atol=1e-5,
    )  # fmt: skip
    for wrapper in (AugmentedClassifier, OrbitVoteClassifier):
        wrapped = wrapper(TorchClassifier(network(), epochs=1, random_state=0), GROUP).fit(X, y)
        assert set(wrapped.predict(X)) <= {"a", "b", "c"}
    with pytest.raises(InvalidInputError, match="module must be a torch module"):
        TorchClassifier("net").fit(X, y)
