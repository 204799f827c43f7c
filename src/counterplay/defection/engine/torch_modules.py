"""Any torch module as an objective: agents and seeds through ``torch.func`` in one pass.

Plain stacks of ``Linear`` layers use the faster batched products of ``LayeredObjective``; anything
else is mapped over stacked parameters with ``vmap``, with its own ``forward`` and forward hooks.
Frozen parameters keep the module's values and are not part of the vector; a parameter with two
names is one. Modules run in evaluation mode: dropout is
off and batch normalisation uses its stored statistics, so that a loss is a function of the
parameters. Needs torch and NumPy only.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from counterplay.core.draws import Keys
from counterplay.defection.engine.arrays import Array, Precision, TorchArrays
from counterplay.defection.engine.layers import LayeredObjective
from counterplay.defection.engine.losses import row_loss
from counterplay.defection.engine.objective import Objective
from counterplay.errors import InvalidInputError

_ACTIVATIONS = {torch.nn.ReLU: "relu", torch.nn.Tanh: "tanh", torch.nn.Sigmoid: "sigmoid"}
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
        replaced on the object are refused.
    loss:
        Name of a loss, or a function of outputs and labels that returns one loss per row.
    dtype, device:
        Precision and place of all computations.
    warm_start:
        Start from the module's own parameters instead of fresh ones for every seed.

    Examples
    --------
    >>> type(torch_objective(torch.nn.Sequential(torch.nn.Linear(4, 2)))).__name__
    'TorchLayers'
    >>> type(torch_objective(torch.nn.Bilinear(2, 2, 2))).__name__
    'TorchModule'
    """
    _check_untouched(module)
    plain = _plain_layers(module) if isinstance(loss, str) else None
    if plain is not None and isinstance(loss, str):
        sizes, names, bias = plain
        return TorchLayers(module, sizes, names, bias, loss, TorchArrays(dtype, device), warm_start)
    return TorchModule(module, loss, TorchArrays(dtype, device), warm_start)


def _plain_layers(module: torch.nn.Module) -> tuple[list[int], list[str], list[bool]] | None:
    """Return widths, activations and biases if the module is Linear layers and activations."""
    if type(module) is not torch.nn.Sequential or not _is_ordinary(module):
        return None
    layers = list(module)
    while layers and type(layers[0]) is torch.nn.Flatten:
        layers.pop(0)
    linear: list[Any] = layers[0::2]
    between: list[Any] = layers[1::2]
    if not linear or len(linear) != len(between) + 1:
        return None
    if any(type(m) is not torch.nn.Linear for m in linear):
        return None
    if any(type(m) not in _ACTIVATIONS for m in between):
        return None
    sizes = [linear[0].in_features, *(m.out_features for m in linear)]
    return sizes, [_ACTIVATIONS[type(m)] for m in between], [m.bias is not None for m in linear]


def _is_ordinary(module: torch.nn.Module) -> bool:
    """Whether all parameters are trained and distinct, and nothing was changed from outside."""
    every = list(module.named_parameters(remove_duplicate=False))
    if len({id(p) for _, p in every}) < len(every) or not all(p.requires_grad for _, p in every):
        return False
    return not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def _check_untouched(module: torch.nn.Module) -> None:
    """Refuse what would not run: losses and gradients are those of copies of the module."""
    hooks = ("_backward_hooks", "_backward_pre_hooks", "_post_accumulate_grad_hooks")
    for name, part in (*module.named_modules(), *module.named_parameters()):
        called = name or type(part).__name__
        if any(getattr(part, kind, None) for kind in hooks):
            raise InvalidInputError(
                f"{called} has a backward hook, which would not run here; remove it, or put what "
                "it does into the loss"
            )
        if isinstance(part, torch.nn.Module) and "forward" in vars(part):
            raise InvalidInputError(
                f"the forward of {called} was replaced on the object, which would not run here; "
                "make a subclass with that forward"
            )


class TorchLayers(LayeredObjective):
    """A ``Sequential`` of ``Linear`` layers, trained by batched products."""

    def __init__(
        self,
        module: torch.nn.Module,
        sizes: list[int],
        activations: list[str],
        bias: list[bool],
        loss: str,
        backend: TorchArrays,
        warm_start: bool = False,
    ) -> None:
        super().__init__(sizes, activations, bias=bias, loss=loss, backend=backend)
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
        self.template = copy.deepcopy(module).eval().to(device=backend.device, dtype=backend.dtype)
        trained = _trained(self.template)
        self.named = [(name, p.shape) for name, p in trained]
        self.size = sum(shape.numel() for _, shape in self.named)
        if not self.size:
            raise InvalidInputError("the module has no parameters to train")
        self.buffers = dict(self.template.named_buffers())
        self.classes = 0
        self.row_loss = loss if callable(loss) else _named_loss(loss, backend)

    def start(self, keys: Keys) -> NDArray[np.float64]:
        """Draw fresh parameters with ``reset_parameters``, or repeat the module's own."""
        if self.warm_start:
            return _own(self.module, keys)
        return np.stack([_fresh(self.module, int(key)) for key in keys])

    def _named(self, w: Array) -> dict[str, Array]:
        """Split ``(B, d)`` into the module's parameters; views, each its own leaf."""
        found, at = {}, 0
        for name, shape in self.named:
            piece = w[:, at : at + shape.numel()]
            found[name] = piece.reshape(w.shape[0], *shape).detach()
            at += shape.numel()
        return found

    def _forward(self, params: dict[str, Array], x: Array) -> Array:
        def single(own: dict[str, Array], rows: Array) -> Array:
            return torch.func.functional_call(self.template, (own, self.buffers), (rows,))

        return torch.func.vmap(single)(params, x)

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


def _named_loss(name: str, backend: TorchArrays) -> TorchLoss:
    """Return the loss of one row by its name, differentiable by torch."""
    if name == "cross_entropy":
        return lambda out, y: torch.nn.functional.cross_entropy(out, y, reduction="none")
    values = row_loss(name)
    return lambda out, y: values(backend, out, y)[0]


def _trained(module: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Return the parameters that are not frozen, each once."""
    return [(name, p) for name, p in module.named_parameters() if p.requires_grad]


def _flat(module: torch.nn.Module) -> NDArray[np.float64]:
    vector = torch.nn.utils.parameters_to_vector(p for _, p in _trained(module))
    return np.asarray(vector.detach().cpu().double().numpy())


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
