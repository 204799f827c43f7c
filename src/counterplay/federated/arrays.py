"""One set of formulas for NumPy and torch: where arrays live and how they get there.

The formulas of the engine use what both libraries share (``@``, slices, ``exp``, ``maximum``). A
backend knows the rest: precision, device, copying in and out, and the processor's treatment of
subnormal numbers, which slow the training of small networks down by an order of magnitude.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import check_choice, shorten
from counterplay.errors import InvalidInputError, MissingDependencyError

Array = Any
"""A NumPy array or a torch tensor."""
Precision = Literal["float32", "float64"]
ONE_THREAD = 1e8


@checked
class NumpyArrays:
    """Arrays in NumPy; needs no other package.

    Use it for small models on the CPU.

    Parameters
    ----------
    dtype:
        Precision of the numbers.

    Examples
    --------
    >>> NumpyArrays("float32")
    NumpyArrays('float32')

    References
    ----------
    "Torch modules", see docs/theory/23-training.md.
    """

    name = "numpy"
    on_cpu = True

    def __init__(self, dtype: Precision = "float64") -> None:
        self.dtype = check_choice(dtype, "dtype", ("float32", "float64"))

    def __repr__(self) -> str:
        return f"NumpyArrays({self.dtype!r})"

    @property
    def xp(self) -> Any:
        """The library."""
        return np

    def put(self, array: NDArray[Any]) -> Array:
        """Return the array in the backend's precision; integers and booleans stay what they are."""
        kind = self.dtype if array.dtype.kind == "f" else array.dtype
        return np.ascontiguousarray(array, dtype=kind)

    def fetch(self, array: Array) -> NDArray[Any]:
        """Return a NumPy array."""
        return np.asarray(array)

    def double(self, array: Array) -> Array:
        """Return the array in double precision."""
        return array.astype(np.float64, copy=False)

    def empty(self, shape: tuple[int, ...]) -> Array:
        """Return an uninitialised array in the backend's precision."""
        return np.empty(shape, dtype=self.dtype)

    def full(self, shape: tuple[int, ...], value: float) -> Array:
        """Return a constant array in the backend's precision."""
        return np.full(shape, value, dtype=self.dtype)

    def arange(self, n: int) -> Array:
        """Return ``0, ..., n - 1``."""
        return np.arange(n)

    def one_hot(self, y: Array, classes: int) -> Array:
        """Return indicators of the labels as numbers, in a new last axis."""
        return (y[..., None] == np.arange(classes)).astype(self.dtype)

    def log_softmax(self, out: Array) -> Array:
        """Return log-probabilities along the last axis."""
        shifted = out - out.max(axis=-1, keepdims=True)
        shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return shifted

    def affine(self, x: Array, weights: Array, bias: Array | None) -> Array:
        """Return ``x @ weights^T + bias`` for every entry of the first axis."""
        out = x @ weights.swapaxes(1, 2)
        if bias is not None:
            out += bias
        return out

    def repeat(self, array: Array, k: int) -> Array:
        """Repeat each entry of the first axis ``k`` times."""
        return np.repeat(array, k, axis=0)

    def fast_floats(self, work: float = 0.0) -> contextlib.AbstractContextManager[None]:
        """Do nothing: NumPy has no switch for subnormal numbers."""
        return contextlib.nullcontext()


@checked
class TorchArrays:
    """Tensors in torch, on the CPU or a GPU.

    Use it for networks, and with ``device="cuda"`` on a GPU. Needs the extra ``federated``.

    Parameters
    ----------
    dtype:
        Precision of the numbers.
    device:
        Where the tensors are: ``"cpu"``, ``"cuda"`` or another device of torch.

    Examples
    --------
    >>> TorchArrays("float64")  # doctest: +SKIP
    TorchArrays('float64', 'cpu')

    References
    ----------
    "Torch modules", see docs/theory/23-training.md.
    """

    name = "torch"

    def __init__(self, dtype: Precision = "float32", device: str = "cpu") -> None:
        if find_spec("torch") is None:
            raise MissingDependencyError.for_extra("torch", "federated")
        import torch

        try:
            self.device = torch.device(device)
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise InvalidInputError(
                f"torch cannot compute on device={shorten(device, 60)}: {shorten(str(error), 150)}"
            ) from None
        check_choice(dtype, "dtype", ("float32", "float64"))
        self.dtype = torch.float32 if dtype == "float32" else torch.float64

    def __repr__(self) -> str:
        return f"TorchArrays({str(self.dtype).removeprefix('torch.')!r}, {str(self.device)!r})"

    @property
    def on_cpu(self) -> bool:
        """Whether tensors share memory with NumPy arrays."""
        return bool(self.device.type == "cpu")

    @property
    def xp(self) -> Any:
        """The library."""
        import torch

        return torch

    def put(self, array: NDArray[Any]) -> Array:
        """Move to the device in the backend's precision."""
        tensor = self.xp.from_numpy(np.require(array, requirements=["C", "W"]))
        kind = self.dtype if array.dtype.kind == "f" else tensor.dtype
        return tensor.to(device=self.device, dtype=kind)

    def fetch(self, array: Array) -> NDArray[Any]:
        """Copy to a NumPy array."""
        return np.asarray(array.detach().cpu().numpy())

    def double(self, array: Array) -> Array:
        """Return the tensor in double precision."""
        return array.double()

    def empty(self, shape: tuple[int, ...]) -> Array:
        """Return an uninitialised tensor in the backend's precision."""
        return self.xp.empty(shape, dtype=self.dtype, device=self.device)

    def full(self, shape: tuple[int, ...], value: float) -> Array:
        """Return a constant tensor in the backend's precision."""
        return self.xp.full(shape, value, dtype=self.dtype, device=self.device)

    def arange(self, n: int) -> Array:
        """Return ``0, ..., n - 1``."""
        return self.xp.arange(n, device=self.device)

    def one_hot(self, y: Array, classes: int) -> Array:
        """Return indicators of the labels as numbers, in a new last axis."""
        return (y[..., None] == self.arange(classes)).to(self.dtype)

    def log_softmax(self, out: Array) -> Array:
        """Return log-probabilities along the last axis."""
        return self.xp.log_softmax(out, dim=-1)

    def affine(self, x: Array, weights: Array, bias: Array | None) -> Array:
        """Return ``x @ weights^T + bias`` for every entry of the first axis."""
        if bias is None:
            return self.xp.bmm(x, weights.mT)
        return self.xp.baddbmm(bias, x, weights.mT)

    def repeat(self, array: Array, k: int) -> Array:
        """Repeat each entry of the first axis ``k`` times."""
        return array.repeat_interleave(k, dim=0)

    def fast_floats(self, work: float = 0.0) -> contextlib.AbstractContextManager[None]:
        """Treat subnormal numbers as zero inside the block, as before it afterwards.

        Passes over less than ``ONE_THREAD`` multiplications run on one thread: handing them out
        costs more than they take.
        """
        return _fast(self.xp, self.device.type == "cpu" and work < ONE_THREAD)


Backend = NumpyArrays | TorchArrays


@contextlib.contextmanager
def _fast(torch: Any, one_thread: bool) -> Iterator[None]:
    """Without subnormal numbers, and on one thread where asked; as before afterwards."""
    threads = torch.get_num_threads()
    if one_thread:
        torch.set_num_threads(1)
    try:
        with flushed_subnormals(torch):
            yield
    finally:
        if one_thread:
            torch.set_num_threads(threads)


@contextlib.contextmanager
def flushed_subnormals(torch: Any) -> Iterator[None]:
    """Treat subnormal numbers as zero inside the block, then restore the mode before it.

    The switch is torch's and belongs to the whole thread: code that runs later would silently lose
    numbers below 2e-308. ``torch`` is the module: only callers who use it pay for its import.
    """
    before = subnormals_kept()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(not before)


def subnormals_kept() -> bool:
    """Return whether the processor computes with subnormal numbers, as it should.

    Examples
    --------
    >>> subnormals_kept()
    True
    """
    smallest = np.array([5e-324])
    return bool((smallest * 1.0 != 0.0)[0])
