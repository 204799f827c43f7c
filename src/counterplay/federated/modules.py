"""Any torch module as an objective: parties and seeds through ``torch.func`` in one pass.

A module runs through ``torch.func.functional_call``, mapped over stacked parameters with ``vmap``:
its own ``forward``, forward hooks, tied weights and frozen parameters are what they are in torch.
An unchanged ``Sequential`` of ``Linear`` layers uses the faster batched products of
``LayeredObjective``. Modules run in evaluation mode: dropout is off and batch normalisation uses
its stored statistics, so that a loss is a function of the parameters. The local steps of one party
run in training mode (:meth:`TorchModule.train_steps`). Needs torch and NumPy only.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from counterplay.core.draws import Keys
from counterplay.core.validation import shorten
from counterplay.errors import InvalidInputError
from counterplay.federated.arrays import Array, Precision, TorchArrays
from counterplay.federated.layers import ONE_SCORE, LayeredObjective
from counterplay.federated.losses import row_loss
from counterplay.federated.objective import Objective
from counterplay.federated.parameters import ParameterSpace

_ACTIVATIONS = {torch.nn.ReLU: "relu", torch.nn.Tanh: "tanh", torch.nn.Sigmoid: "sigmoid"}
_BACKWARD = ("_backward_hooks", "_backward_pre_hooks", "_post_accumulate_grad_hooks")
TorchLoss = Callable[[Array, Array], Array]
"""``(outputs (n, C), labels (n,)) -> losses (n,)``."""


def torch_objective(
    module: torch.nn.Module,
    *,
    loss: str | TorchLoss = "cross_entropy",
    dtype: Precision = "float32",
    device: str = "cpu",
    warm_start: bool = False,
) -> Objective:
    """Return the fastest objective for a torch module.

    Parameters
    ----------
    module:
        Maps a batch of rows to one score per class. Backward hooks and a ``forward`` that was
        replaced on the object are refused: losses and gradients are those of copies.
    loss:
        Name of a loss, or a function of outputs and labels that returns one loss per row.
    dtype:
        Precision of all computations.
    device:
        Place of all computations.
    warm_start:
        Start from the module's own parameters instead of fresh ones for every seed.

    Examples
    --------
    >>> type(torch_objective(torch.nn.Sequential(torch.nn.Linear(4, 2)))).__name__
    'TorchLayers'
    >>> type(torch_objective(torch.nn.Bilinear(2, 2, 2))).__name__
    'TorchModule'
    """
    if not isinstance(module, torch.nn.Module):
        raise InvalidInputError(
            f"the model must be a torch module or an objective, got {shorten(module, 60)}; "
            "LayeredObjective([columns, classes]) is logistic regression"
        )
    _check_untouched(module)
    backend = TorchArrays(dtype, device)
    if isinstance(loss, str) and _is_plain(module):
        return TorchLayers(module, loss, backend, warm_start)
    return TorchModule(module, loss, backend, warm_start)


def _check_untouched(module: torch.nn.Module) -> None:
    """Refuse what would not run on copies of the module."""
    for name, part in (*module.named_modules(), *module.named_parameters()):
        called = name or type(part).__name__
        if any(getattr(part, kind, None) for kind in _BACKWARD):
            raise InvalidInputError(
                f"{called} has a backward hook, which would not run here; remove it, or put what "
                "it does into the loss"
            )
        if isinstance(part, torch.nn.Module) and "forward" in vars(part):
            raise InvalidInputError(
                f"the forward of {called} was replaced on the object, which would not run here; "
                "make a subclass with that forward"
            )


def _trains_otherwise(part: torch.nn.Module) -> bool:
    """Whether the part looks at ``training``: dropout, running statistics, or code of the user's.

    Every method of its class is read, not the names of known classes: ``F.dropout(x, training=
    self.training)`` in a forward counts as much as a ``Dropout`` layer.
    """
    own = [kind for kind in type(part).__mro__ if issubclass(kind, torch.nn.Module)]
    methods = [f for kind in own if kind is not torch.nn.Module for f in vars(kind).values()]
    return any("training" in f.__code__.co_names for f in methods if hasattr(f, "__code__"))


def _layers(module: torch.nn.Module) -> list[Any]:
    """The parts of a ``Sequential`` after leading ``Flatten``s."""
    parts = list(module) if type(module) is torch.nn.Sequential else []
    while parts and type(parts[0]) is torch.nn.Flatten:
        parts.pop(0)
    return parts


def _is_plain(module: torch.nn.Module) -> bool:
    """Whether the module is Linear layers and activations in turn, unchanged, all trained."""
    parts = _layers(module)
    if len(parts) % 2 == 0 or any(type(part) is not torch.nn.Linear for part in parts[0::2]):
        return False
    if any(type(part) not in _ACTIVATIONS for part in parts[1::2]):
        return False
    every = list(module.parameters())
    distinct = {id(p) for _, p in module.named_parameters(remove_duplicate=False)}
    names = len(list(module.named_parameters(remove_duplicate=False)))
    if len(distinct) < names or not all(p.requires_grad for p in every):
        return False
    return not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


class TorchLayers(LayeredObjective):
    """An unchanged ``Sequential`` of ``Linear`` layers, trained by batched products."""

    def __init__(
        self, module: torch.nn.Module, loss: str, backend: TorchArrays, warm_start: bool = False
    ) -> None:
        parts = _layers(module)
        linear = parts[0::2]
        super().__init__(
            [linear[0].in_features, *(m.out_features for m in linear)],
            [_ACTIVATIONS[type(m)] for m in parts[1::2]],
            bias=[m.bias is not None for m in linear],
            loss=loss,
            backend=backend,
        )
        self.module, self.warm_start = module, warm_start

    def start(self, keys: Keys) -> NDArray[np.float64]:
        """Draw fresh parameters, or repeat the module's own."""
        return _own(self.module, keys) if self.warm_start else super().start(keys)


class TorchModule(Objective):
    """Any module, mapped over stacked parameters."""

    def __init__(
        self,
        module: torch.nn.Module,
        loss: str | TorchLoss,
        backend: TorchArrays,
        warm_start: bool = False,
    ) -> None:
        self.module, self.backend, self.warm_start = module, backend, warm_start
        self.template = _copy(module).eval().to(device=backend.device, dtype=backend.dtype)
        self.space = ParameterSpace.of_module(self.template)
        self.size, self.classes = self.space.size, 0
        self.named, self.one_score = isinstance(loss, str), loss != "cross_entropy"
        self.stateful = any(map(_trains_otherwise, self.template.modules()))
        self._mapped = True  # until a part turns out to have no rule for vmap
        self.convex = self.named and type(module) is torch.nn.Linear
        self.row_loss = loss if callable(loss) else _named_loss(loss, backend)

    def rows(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the rows; the first ones tell how many classes the module scores.

        A loss of the user's own may read labels in any way, so they are not counted then.
        """
        if self.named and not self.classes and len(X):
            try:
                with torch.no_grad():
                    scores = self.template(self.backend.put(X[:1]))
            except (RuntimeError, ValueError, TypeError, IndexError) as error:
                raise InvalidInputError(
                    f"the module does not take rows of shape {X.shape[1:]}: {shorten(error)}"
                ) from None
            self.classes = _classes(scores, self.one_score)
        return X

    def start(self, keys: Keys) -> NDArray[np.float64]:
        """Draw fresh parameters with ``reset_parameters``, or repeat the module's own."""
        if self.warm_start:
            return _own(self.module, keys)
        return np.stack([_fresh(self.module, int(key)) for key in keys])

    def _named(self, w: Array) -> dict[str, Array]:
        """Split ``(B, d)`` into the trained parameters; views, each its own leaf."""
        found, at = {}, 0
        for name, shape in self.space.shapes.items():
            size = int(np.prod(shape))
            found[name] = w[:, at : at + size].reshape(w.shape[0], *shape).detach()
            at += size
        return found

    def _forward(self, params: dict[str, Array], x: Array) -> Array:
        def single(own: dict[str, Array], rows: Array) -> Array:
            return torch.func.functional_call(self.template, own, (rows,), tie_weights=True)

        if self._mapped:
            try:
                return torch.func.vmap(single)(params, x)
            except RuntimeError:  # recurrent layers, or a forward that branches on its rows
                self._mapped = False
        alone = [
            single({name: p[b] for name, p in params.items()}, rows) for b, rows in enumerate(x)
        ]
        return torch.stack(alone)

    def outputs(self, w: Array, x: Array) -> Array:
        """Return the scores of every row."""
        with torch.no_grad():
            return self._forward(self._named(w), x)

    def _losses(self, out: Array, y: Array, weight: Array) -> Array:
        per_row = self.row_loss(out.flatten(0, 1), y.flatten())
        if per_row.shape != y.flatten().shape:
            raise InvalidInputError(
                f"loss must return one number per row, got shape {tuple(per_row.shape)}"
            )
        return (per_row.reshape(y.shape) * weight).sum(-1)

    def evaluate(self, w: Array, x: Array, y: Array, weight: Array) -> tuple[Array, Array]:
        """Return loss and accuracy."""
        out = self.outputs(w, x)
        with torch.no_grad():
            return self._losses(out, y, weight), self.accuracy(out, y, weight)

    def gradients(self, w: Array, x: Array, y: Array, weight: Array) -> tuple[Array, Array, Array]:
        """Return loss, accuracy and gradients: one backward pass of the summed losses."""
        params = {name: p.requires_grad_(True) for name, p in self._named(w).items()}
        with torch.enable_grad():
            out = self._forward(params, x)
            loss = self._losses(out, y, weight)
            grads = torch.autograd.grad(loss.sum(), list(params.values()), allow_unused=True)
        flat = [
            (torch.zeros_like(p) if g is None else g).flatten(1)
            for g, p in zip(grads, params.values())
        ]
        return loss.detach(), self.accuracy(out.detach(), y, weight), torch.cat(flat, dim=1)

    def train_steps(
        self, w: Array, x: Array, y: Array, step_size: float, work: Any, batches: Any
    ) -> tuple[Array, dict[str, NDArray[Any]]]:
        """Local steps of one party ``w (1, d)`` in training mode; the template stays as it is.

        The draws of dropout follow from the minibatches, so they are the same on any transport.
        """
        length = step_size / work.steps if work.rescale else step_size
        buffers = {name: value.clone() for name, value in self.template.named_buffers()}
        start, total = w, torch.zeros_like(w)
        self.template.train()
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0 if batches is None else int(np.sum(batches)))
                for k in range(work.steps):
                    rows = slice(None) if batches is None else self.backend.put(batches[0, 0, k])
                    total = total + self._train_gradient(w, x[rows], y[rows], buffers)
                    w = start - length * total
        finally:
            self.template.eval()
        found = {name: self.backend.fetch(value) for name, value in buffers.items()}
        return (total / work.steps if work.rescale else total), found

    def _train_gradient(self, w: Array, x: Array, y: Array, buffers: dict[str, Array]) -> Array:
        """The gradient of one training step; running statistics are changed in place."""
        params = {name: p[0].requires_grad_(True) for name, p in self._named(w).items()}
        with torch.enable_grad():
            out = torch.func.functional_call(
                self.template, params | buffers, (x,), tie_weights=True
            )
            loss = self.row_loss(out, y).mean()
            grads = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
        flat = [
            (torch.zeros_like(p) if g is None else g).flatten()
            for g, p in zip(grads, params.values())
        ]
        return torch.cat(flat)[None]

    def buffers(self) -> dict[str, NDArray[Any]]:
        """Return the running statistics of the template."""
        return {n: self.backend.fetch(v.clone()) for n, v in self.template.named_buffers()}

    def load_buffers(self, buffers: Mapping[str, NDArray[Any]]) -> None:
        """Replace running statistics, and frozen parameters where given, of the template."""
        frozen = [(n, p) for n, p in self.template.named_parameters() if not p.requires_grad]
        with torch.no_grad():
            for name, value in (*self.template.named_buffers(), *frozen):
                if name in buffers:
                    value.copy_(torch.from_numpy(np.array(buffers[name])))


def _copy(module: torch.nn.Module) -> torch.nn.Module:
    """A copy of the module; one that cannot be copied, or is not ready, is refused."""
    for name, p in (*module.named_parameters(), *module.named_buffers()):
        if torch.nn.parameter.is_lazy(p):
            raise InvalidInputError(
                f"{name} has no shape yet; call the module once on a batch of rows first"
            )
    try:
        return copy.deepcopy(module)
    except Exception as error:
        raise InvalidInputError(f"the module cannot be copied: {shorten(error)}") from None


def _classes(scores: Any, one_score: bool) -> int:
    """How many classes the module tells apart, from its scores of one row."""
    if not isinstance(scores, torch.Tensor) or scores.ndim != 2 or len(scores) != 1:
        got = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise InvalidInputError(
            f"the module must return one line of scores per row, got {got} for one row; "
            "a loss of your own takes other outputs"
        )
    if scores.shape[1] == 1 and not one_score:
        raise InvalidInputError(ONE_SCORE)
    return max(2, int(scores.shape[1]))


def _named_loss(name: str, backend: TorchArrays) -> TorchLoss:
    """Return the loss of one row by its name, differentiable by torch."""
    if name == "cross_entropy":
        return lambda out, y: torch.nn.functional.cross_entropy(out, y, reduction="none")
    values = row_loss(name)
    return lambda out, y: values(backend, out, y)[0]


def _flat(module: torch.nn.Module) -> NDArray[np.float64]:
    trained = [p.detach().flatten() for p in module.parameters() if p.requires_grad]
    return np.asarray(torch.cat(trained).cpu().double().numpy())


def _own(module: torch.nn.Module, keys: Keys) -> NDArray[np.float64]:
    """Return the module's own parameters, once per key."""
    return np.tile(_flat(module), (len(keys), 1))


def _fresh(module: torch.nn.Module, key: int) -> NDArray[np.float64]:
    """Return newly drawn parameters; torch's own random state is left alone."""
    new = copy.deepcopy(module).cpu()
    owners: list[Any] = [
        m for m in new.modules() if any(p.requires_grad for p in m.parameters(recurse=False))
    ]
    for owner in owners:
        if not hasattr(owner, "reset_parameters"):
            raise InvalidInputError(
                f"{type(owner).__name__} has no reset_parameters(); give it one or pass "
                "warm_start=True to start from the module's own parameters"
            )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key % 2**63)
        for owner in owners:
            owner.reset_parameters()
    return _flat(new)
