"""A stack of row vectors that is one torch tensor, for rules that work on tensors directly."""

from __future__ import annotations

import numpy as np
import torch

from counterplay.core.validation import BoolArray, FloatArray
from counterplay.defection.engine.arrays import Array


class TorchStack:
    """Row vectors as one ``(M, d)`` torch tensor on any device.

    Use it to feed a server rule with gradients that are tensors, without copying them.

    Parameters
    ----------
    rows:
        One vector per row.

    Guarantees
    ----------
    Inner products are computed and returned in double precision; combinations have the precision
    of the rows.

    Examples
    --------
    >>> import torch
    >>> TorchStack(torch.tensor([[3.0, 4.0], [0.0, 2.0]])).gram()[0].tolist()
    [25.0, 8.0]

    References
    ----------
    Spec 05 section 2.5.
    """

    __slots__ = ("_gram", "tensor")

    def __init__(self, rows: Array) -> None:
        self.tensor = rows
        self._gram: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.tensor)

    def gram(self) -> FloatArray:
        """Return all inner products of rows, computed once."""
        if self._gram is None:
            double = self.tensor.double()
            self._gram = (double @ double.T).cpu().numpy()
        return np.asarray(self._gram)

    def combine(self, coefficients: FloatArray) -> Array:
        """Return the combination of the rows with these coefficients."""
        return self.tensor.new_tensor(np.asarray(coefficients)) @ self.tensor

    def inner(self, vector: Array) -> FloatArray:
        """Return the inner product of every row with ``vector``."""
        return np.asarray((self.tensor.double() @ vector.double()).cpu().numpy())

    def dot(self, first: Array, second: Array) -> float:
        """Return the inner product of two vectors."""
        return float(first.double() @ second.double())

    def rows(self, mask: BoolArray) -> TorchStack:
        """Return the stack of the rows where ``mask`` is true."""
        chosen = torch.from_numpy(np.flatnonzero(mask)).to(self.tensor.device)
        return TorchStack(self.tensor[chosen])
