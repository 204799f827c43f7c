"""The trained arrays of a model as one vector, and back.

Names are those of ``named_parameters()``: a parameter with two names (tied weights) is one, frozen
parameters are none, buffers are none. Whatever is not in the space stays as it is, except aliases,
which get the values of the array they are tied to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_int, shorten
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import torch

Arrays = Mapping[str, NDArray[Any]]


@checked
@dataclass(frozen=True)
class ParameterSpace:
    """Named arrays as one float64 vector.

    Parameters
    ----------
    shapes:
        Shape of every trained array, by name, in the order of the vector.
    tied:
        Further names of trained arrays, with the name that is in ``shapes``.

    Examples
    --------
    >>> space = ParameterSpace({"a": (2,), "b": (1, 2)}, tied={"c": "b"})
    >>> model = {"a": np.zeros(2), "b": np.ones((1, 2)), "c": np.ones((1, 2)), "seen": np.array(3)}
    >>> space.flatten(model).tolist()
    [0.0, 0.0, 1.0, 1.0]
    >>> {name: part.tolist() for name, part in space.rebuild(np.arange(4.0), model).items()}
    {'a': [0.0, 1.0], 'b': [[2.0, 3.0]], 'c': [[2.0, 3.0]], 'seen': 3}

    References
    ----------
    "Torch modules", see docs/theory/23-training.md.
    """

    shapes: Mapping[str, tuple[int, ...]]
    tied: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.shapes:
            raise InvalidInputError("shapes needs at least one array")
        for name, shape in self.shapes.items():
            for width in shape:
                check_int(width, f"the shape of {shorten(name, 40)}", low=0, high=2**48)

    @classmethod
    def of_module(cls, module: torch.nn.Module) -> ParameterSpace:
        """Return the space of the trained parameters of a torch module.

        Examples
        --------
        >>> import torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        >>> net[1].weight = net[0].weight
        >>> net[0].bias.requires_grad_(False)[0].item() is None
        False
        >>> ParameterSpace.of_module(net)
        ParameterSpace(shapes={'0.weight': (2, 2), '1.bias': (2,)}, tied={'1.weight': '0.weight'})
        """
        trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not trained:
            frozen = any(True for _ in module.parameters())
            why = "every parameter of the module is frozen" if frozen else "it has no parameters"
            raise InvalidInputError(f"{why}; nothing can be trained")
        first = {id(p): name for name, p in trained}
        every = module.named_parameters(remove_duplicate=False)
        tied = {name: first[id(p)] for name, p in every if first.get(id(p), name) != name}
        return cls({name: tuple(p.shape) for name, p in trained}, tied)

    @classmethod
    def of_arrays(
        cls, arrays: Arrays, names: Collection[str], tied: Mapping[str, str] | None = None
    ) -> ParameterSpace:
        """Return the space of these arrays of a model, in the model's order."""
        return cls({key: tuple(arrays[key].shape) for key in arrays if key in names}, tied or {})

    @property
    def size(self) -> int:
        """Length of the vector."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def flatten(self, arrays: Arrays) -> FloatArray:
        """Return the arrays as one vector; one that is missing, misshapen or not real is named."""
        if not hasattr(arrays, "keys") or not hasattr(arrays, "__getitem__"):
            raise InvalidInputError(f"arrays must be arrays by name, got {shorten(arrays, 100)}")
        parts = []
        for key, shape in self.shapes.items():
            if key not in arrays:
                raise InvalidInputError(f"there is no array {key!r}")
            value = np.asarray(arrays[key])
            if value.shape != shape:
                raise InvalidInputError(
                    f"the array {key!r} has shape {value.shape}, expected {shape}"
                )
            if value.dtype.kind not in "iuf":
                raise InvalidInputError(f"the array {key!r} holds {value.dtype}, not real numbers")
            parts.append(value.astype(np.float64, copy=False).ravel())
        return np.concatenate(parts)

    def split(self, vector: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the vector as arrays by name."""
        parts, start = {}, 0
        for key, shape in self.shapes.items():
            size = int(np.prod(shape))
            parts[key] = vector[start : start + size].reshape(shape)
            start += size
        return parts

    def rebuild(self, vector: FloatArray, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """Return the model with these values, in its own dtypes; the rest stays as it is."""
        new = dict(arrays)
        for key, part in self.split(vector).items():
            new[key] = part.astype(np.asarray(arrays[key]).dtype)
        return new | {alias: new[source] for alias, source in self.tied.items() if alias in new}
