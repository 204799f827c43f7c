"""The same batched networks in torch, on CPU or GPU: an MLP and the convolutional net of the paper.

All runs share one graph: parameters carry a leading axis for the run, layers are batched matrix
products, and one backward pass of the summed losses gives every run its own gradient. Nothing here
waits for the device: results stay there until they are fetched. Needs torch and NumPy only.
Source: "The experiment of the chapter", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from counterplay.contribution.training.networks import Network, Params, uniform_params
from counterplay.core.draws import Keys, fold
from counterplay.core.validation import check_positive_int, check_real


class TorchNetwork(Network):
    """Shared parts of the torch networks: moving arrays, gradients, predictions in chunks."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)
        # evaluation is split so that about this many numbers are in flight at once
        self._shared: list[tuple[NDArray[Any], Any]] = []
        self.chunk = 1 << (26 if self.device.type == "cpu" else 32)

    @abstractmethod
    def forward(self, params: Params, x: Any, keys: Keys | None) -> Any:
        """Return logits ``(R, b, classes)``; dropout is on when ``keys`` are given."""

    @abstractmethod
    def footprint(self) -> int:
        """Return the numbers per point that a forward pass holds."""

    def gradients(
        self, params: Params, x: Any, y: Any, weight: Any, keys: Keys
    ) -> tuple[Any, Params]:
        """Automatic differentiation of the sum of all runs' losses."""
        leaves = [p.detach().requires_grad_(True) for p in params]
        with torch.enable_grad():
            logits = self.forward(leaves, x, keys)
            losses = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), y.flatten(), reduction="none"
            )
            per_run = (losses.view(y.shape) * weight).sum(dim=1)
            grads = torch.autograd.grad(per_run.sum(), leaves)
        return per_run.detach(), list(grads)

    def correct(self, params: Params, x: Any, y: Any) -> Any:
        """Compare the largest logit with the label, a bounded number of points at a time."""
        parts = []
        with torch.no_grad():
            ready = self.evaluation_params(params)
            for piece in self.pieces(*y.shape):
                logits = self.forward(ready, x[:, piece], None)
                parts.append(logits.argmax(dim=-1) == y[:, piece])
        return torch.cat(parts, dim=1)

    def evaluation_params(self, params: Params) -> Params:
        """Return the parameters in the precision of evaluation."""
        return params

    def pieces(self, runs: int, points: int) -> list[slice]:
        """Cut the points into equal pieces that fit the memory."""
        width = max(1, self.chunk // max(1, runs * self.footprint()))
        width = -(-points // -(-points // width))
        return [slice(start, start + width) for start in range(0, points, width)]

    def losses(self, params: Params, pool: Any, index: Any, y: Any) -> NDArray[np.float64]:
        """Negative log-probability of the label, a bounded number of points at a time."""
        parts = []
        with torch.no_grad():
            for piece in self.pieces(*y.shape):
                logits = self.forward(params, pool[index[:, piece]], None)
                label = y[:, piece]
                loss = torch.nn.functional.cross_entropy(
                    logits.flatten(0, 1), label.flatten(), reduction="none"
                )
                parts.append(loss.view(label.shape))
        return np.asarray(torch.cat(parts, dim=1).double().cpu().numpy())

    def put(self, array: NDArray[Any]) -> Any:
        """Move to the device: float32 or int64."""
        kind = np.float32 if array.dtype.kind == "f" else np.int64
        return torch.from_numpy(np.require(array, kind, ["C", "W"])).to(self.device)

    def share(self, array: NDArray[Any]) -> Any:
        """Move to the device once; the last two arrays (points and labels) are remembered."""
        for known, moved in self._shared:
            if known is array:
                return moved
        self._shared = [*self._shared[-1:], (array, self.put(array))]
        return self._shared[-1][1]

    def fetch(self, array: Any) -> NDArray[Any]:
        """Copy to the CPU."""
        return np.asarray(array.detach().cpu().numpy())

    def repeat(self, array: Any, k: int) -> Any:
        """Repeat along the first axis."""
        return array.repeat_interleave(k, dim=0)


class TorchMLP(TorchNetwork):
    """One hidden layer with ReLU, the torch twin of :class:`MLP` (same initial weights).

    Parameters
    ----------
    inputs:
        Numbers per point.
    hidden:
        Width of the hidden layer.
    classes:
        Number of labels.
    device:
        ``"cpu"``, ``"cuda"``, ...
    """

    def __init__(
        self, inputs: int = 64, hidden: int = 64, classes: int = 10, *, device: str = "cpu"
    ) -> None:
        super().__init__(device)
        self.shape = tuple(check_positive_int(n, "layer size") for n in (inputs, hidden, classes))

    def init(self, keys: Keys) -> Params:
        """Return the same initial weights as :class:`MLP`."""
        i, h, c = self.shape
        drawn = uniform_params(keys, [(i, h), (1, h), (h, c), (1, c)], [i, i, h, h])
        return [self.put(p) for p in drawn]

    def forward(self, params: Params, x: Any, keys: Keys | None) -> Any:
        """Two batched affine maps."""
        w1, b1, w2, b2 = params
        hidden = torch.baddbmm(b1, x, w1).relu()
        return torch.baddbmm(b2, hidden, w2)

    def footprint(self) -> int:
        """Return the largest layer."""
        return max(self.shape)


class TorchCNN(TorchNetwork):
    """Two 3x3 convolutions, max-pooling, two dense layers, dropout: the network of the experiment.

    Parameters
    ----------
    side:
        Height and width of the images; points are flat vectors of ``side * side`` pixels.
    classes:
        Number of labels.
    channels:
        Widths of the two convolutions.
    hidden:
        Width of the dense layer.
    dropout:
        Rates after pooling and after the dense layer. Masks are hashed from keys and positions,
        so a run has the same masks alone or in a batch, on any device.
    half:
        Whether predictions are made in half precision. Its numbers are as fine as those that a
        GPU's matrix units multiply in any case (ten bits), and half as long in memory. Training
        is not affected.
    device:
        ``"cpu"``, ``"cuda"``, ...

    Examples
    --------
    >>> from counterplay.core.draws import run_keys
    >>> sum(p[0].numel() for p in TorchCNN().init(run_keys(0, 1)))
    1204655
    """

    def __init__(
        self,
        side: int = 28,
        classes: int = 47,
        channels: tuple[int, int] = (32, 64),
        hidden: int = 128,
        dropout: tuple[float, float] = (0.25, 0.5),
        *,
        half: bool = False,
        device: str = "cpu",
    ) -> None:
        super().__init__(device)
        self.side = check_positive_int(side, "side")
        self.classes = check_positive_int(classes, "classes")
        self.channels, self.hidden = channels, hidden
        self.dropout = tuple(check_real(p, "dropout", low=0.0, high=0.99) for p in dropout)
        self.half = half
        self.pooled = (side - 4) // 2
        self.flat = self.pooled**2 * channels[1]

    def init(self, keys: Keys) -> Params:
        """Return uniform weights within ``1/sqrt(fan-in)``."""
        a, b = self.channels
        h, c = self.hidden, self.classes
        shapes = [(9, a), (1, a), (9 * a, b), (1, b), (self.flat, h), (1, h), (h, c), (1, c)]
        fans = [9, 9, 9 * a, 9 * a, self.flat, self.flat, h, h]
        return [self.put(p) for p in uniform_params(keys, shapes, fans)]

    def forward(self, params: Params, x: Any, keys: Keys | None) -> Any:
        """Two convolutions with pooling, two dense layers, dropout after each pair."""
        w1, b1, w2, b2, w3, b3, w4, b4 = params
        runs, points = x.shape[:2]
        image = first_convolution(x, w1, b1, self.side).relu_()
        image = convolve_and_pool(image, w2)
        # the bias and the rectifier commute with the maximum: apply them to a quarter of the data
        image = (image + b2.view(runs, 1, 1, 1, -1)).relu_()
        flat, scale = dropped(image.view(runs, points, self.flat), self.dropout[0], keys, 1)
        hidden = torch.baddbmm(b3, flat, w3, alpha=scale).relu_()
        hidden, scale = dropped(hidden, self.dropout[1], keys, 2)
        return torch.baddbmm(b4, hidden.to(w4.dtype), w4, alpha=scale)

    def evaluation_params(self, params: Params) -> Params:
        """Return all but the last layer in half precision if asked to."""
        return [p.half() for p in params[:6]] + params[6:] if self.half else params

    def footprint(self) -> int:
        """Return the numbers per point of the largest layers."""
        return (self.side - 2) ** 2 * self.channels[0] + (self.side - 4) ** 2 * self.channels[1]


def first_convolution(x: Any, weight: Any, bias: Any, side: int) -> Any:
    """3x3 convolution of flat grey images: ``(R, b, side^2) -> (R, b, side-2, side-2, o)``.

    The nine pixels of a patch, a one for the bias and zeros up to a multiple of eight are one row,
    so that the product needs no separate addition and its rows are aligned for tensor cores.
    """
    runs, points = x.shape[:2]
    windows = x.reshape(runs, points, side, side).unfold(2, 3, 1).unfold(3, 3, 1)
    h = side - 2
    rows = torch.empty((runs, points, h, h, 16), dtype=weight.dtype, device=weight.device)
    rows[..., :9].view(runs, points, h, h, 3, 3).copy_(windows)
    rows[..., 9] = 1.0
    rows[..., 10:] = 0.0
    unused = weight.new_zeros(runs, 6, weight.shape[-1])
    table = torch.cat([weight, bias, unused], dim=1)
    product = torch.bmm(rows.view(runs, points * h * h, 16), table)
    return product.view(runs, points, h, h, weight.shape[-1])


def dropped(x: Any, rate: float, keys: Keys | None, layer: int) -> tuple[Any, float]:
    """Set a share ``rate`` of the entries to zero; return also the factor that makes up for it.

    The mask is hashed from (key, position): a run has the same mask alone or in a batch, on every
    device. Rates are rounded to multiples of 1/256, one hash serves four entries.
    """
    threshold = round(256 * rate)
    if keys is None or threshold == 0:
        return x, 1.0
    words = (fold(keys, layer) & np.uint64(0x7FFFFFFF)).astype(np.int32)
    key = torch.from_numpy(words).to(x.device, non_blocking=True)
    size = x[0].numel()
    position = torch.arange((size + 3) // 4, dtype=torch.int32, device=x.device)
    bits = _hash32(position[None, :] ^ key[:, None])
    keep = bits.view(torch.uint8)[:, :size] >= threshold
    return x * keep.reshape(x.shape), 256.0 / (256 - threshold)


def convolve_and_pool(x: Any, weight: Any) -> Any:
    """3x3 convolution without bias, then the maximum of 2x2 squares.

    One call per run, queued without waiting, on the channels-last memory of the batch: no patches
    are written to memory.
    """
    kernels = _kernels(weight, x.shape[-1])
    results = []
    for image, kernel in zip(x.unbind(0), kernels.unbind(0)):
        convolved = torch.nn.functional.conv2d(image.permute(0, 3, 1, 2), kernel)
        half = torch.nn.functional.max_pool2d(convolved, 2)
        results.append(half.permute(0, 2, 3, 1))
    return torch.stack(results)


def _kernels(weight: Any, channels: int) -> Any:
    """Weights as ``(R, out, in, 3, 3)`` whose memory is channels-last for each run."""
    runs, _, out = weight.shape
    ordered = weight.reshape(runs, 3, 3, channels, out).permute(0, 4, 1, 2, 3).contiguous()
    return ordered.permute(0, 1, 4, 2, 3)


def _hash32(x: Any) -> Any:
    """A 32-bit integer hash with wrap-around arithmetic (lowbias32), in place."""
    x ^= (x >> 16) & 0xFFFF
    x *= 0x7FEB352D
    x ^= (x >> 15) & 0x1FFFF
    x *= -0x7B935975  # 0x846ca68b as a signed number
    x ^= (x >> 16) & 0xFFFF
    return x
