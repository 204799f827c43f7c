"""The same batched networks in torch, on CPU or GPU: an MLP and the convolutional net of the paper.

All runs share one graph: parameters carry a leading axis for the run, layers are batched matrix
products, and one backward pass of the summed losses gives every run its own gradient. Convolutions
are matrix products over gathered patches, or grouped convolutions. Needs torch and NumPy only.
Source: spec 04 section 5.1.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from counterplay.contribution.training.draws import Keys, fold
from counterplay.contribution.training.networks import Network, Params, uniform_params
from counterplay.core.validation import check_choice, check_positive_int, check_real


class TorchNetwork(Network):
    """Shared parts of the torch networks: moving arrays, gradients, predictions in chunks."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)
        # evaluation is split so that about this many numbers are in flight at once
        self.chunk = 1 << (26 if self.device.type == "cpu" else 30)

    def forward(self, params: Params, x: Any, keys: Keys | None) -> Any:
        """Return logits ``(R, b, classes)``; dropout is on when ``keys`` are given."""
        raise NotImplementedError

    def footprint(self) -> int:
        """Return the numbers per point that a forward pass holds."""
        raise NotImplementedError

    def gradients(
        self, params: Params, x: Any, y: Any, weight: Any, keys: Keys
    ) -> tuple[NDArray[np.float64], Params]:
        """Automatic differentiation of the sum of all runs' losses."""
        leaves = [p.detach().requires_grad_(True) for p in params]
        with torch.enable_grad():
            logits = self.forward(leaves, x, keys)
            losses = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), y.flatten(), reduction="none"
            )
            per_run = (losses.view(y.shape) * weight).sum(dim=1)
            grads = torch.autograd.grad(per_run.sum(), leaves)
        return per_run.detach().double().cpu().numpy(), list(grads)

    def correct(self, params: Params, x: Any, y: Any) -> NDArray[np.bool_]:
        """Compare the largest logit with the label, a bounded number of points at a time."""
        runs, points = y.shape
        width = max(1, self.chunk // max(1, runs * self.footprint()))
        parts = []
        with torch.no_grad():
            for start in range(0, points, width):
                piece = slice(start, start + width)
                logits = self.forward(params, x[:, piece], None)
                parts.append(logits.argmax(dim=-1) == y[:, piece])
        return np.asarray(torch.cat(parts, dim=1).cpu().numpy())

    def losses(self, params: Params, pool: Any, index: Any, y: Any) -> NDArray[np.float64]:
        """Negative log-probability of the label, a bounded number of points at a time."""
        runs, points = y.shape
        width = max(1, self.chunk // max(1, runs * self.footprint()))
        parts = []
        with torch.no_grad():
            for start in range(0, points, width):
                piece = slice(start, start + width)
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
    inputs, hidden, classes:
        Layer sizes.
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
    channels, hidden:
        Widths of the convolutions and of the dense layer.
    dropout:
        Rates after pooling and after the dense layer. Masks are hashed from keys and positions,
        so a run has the same masks alone or in a batch, on any device.
    conv:
        ``"patches"`` (matrix products over gathered patches) or ``"grouped"``.
    device:
        ``"cpu"``, ``"cuda"``, ...

    Examples
    --------
    >>> from counterplay.contribution.training.draws import run_keys
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
        conv: Literal["patches", "grouped"] = "patches",
        device: str = "cpu",
    ) -> None:
        super().__init__(device)
        self.side = check_positive_int(side, "side")
        self.classes = check_positive_int(classes, "classes")
        self.channels, self.hidden = channels, hidden
        self.dropout = tuple(check_real(p, "dropout", low=0.0, high=0.99) for p in dropout)
        self.conv = check_choice(conv, "conv", ("patches", "grouped"))
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
        """Convolutions in channels-last layout, pooling, dense layers."""
        w1, b1, w2, b2, w3, b3, w4, b4 = params
        runs, points = x.shape[:2]
        image = x.reshape(runs, points, self.side, self.side, 1)
        convolve = _patch_conv if self.conv == "patches" else _grouped_conv
        image = convolve(image, w1, b1).relu()
        image = convolve(image, w2, b2).relu()
        half = image[:, :, : 2 * self.pooled, : 2 * self.pooled]
        half = half.reshape(runs, points, self.pooled, 2, self.pooled, 2, self.channels[1])
        flat = half.amax(dim=(3, 5)).reshape(runs, points, self.flat)
        flat = _drop(flat, self.dropout[0], keys, 1)
        hidden = torch.baddbmm(b3, flat, w3).relu()
        hidden = _drop(hidden, self.dropout[1], keys, 2)
        return torch.baddbmm(b4, hidden, w4)

    def footprint(self) -> int:
        """Return the size of the gathered patches of the second convolution."""
        return (self.side - 4) ** 2 * 9 * self.channels[0]


def _patch_conv(x: Any, weight: Any, bias: Any) -> Any:
    """3x3 convolution as one matrix product per run: ``(R, b, h, w, c) -> (R, b, h-2, w-2, o)``."""
    runs, points, height, width, channels = x.shape
    h, w = height - 2, width - 2
    shifted = [x[:, :, i : i + h, j : j + w] for i in range(3) for j in range(3)]
    patches = torch.cat(shifted, dim=-1).reshape(runs, points * h * w, 9 * channels)
    return torch.baddbmm(bias, patches, weight).reshape(runs, points, h, w, weight.shape[-1])


def _grouped_conv(x: Any, weight: Any, bias: Any) -> Any:
    """The same convolution through ``conv2d`` with one group per run."""
    runs, points, height, width, channels = x.shape
    out = weight.shape[-1]
    kernel = weight.reshape(runs, 3, 3, channels, out).permute(0, 4, 3, 1, 2)
    kernel = kernel.reshape(runs * out, channels, 3, 3)
    image = x.permute(1, 0, 4, 2, 3).reshape(points, runs * channels, height, width)
    result = torch.nn.functional.conv2d(image, kernel, bias.reshape(-1), groups=runs)
    result = result.reshape(points, runs, out, height - 2, width - 2)
    return result.permute(1, 0, 3, 4, 2).contiguous()


def _drop(x: Any, rate: float, keys: Keys | None, layer: int) -> Any:
    """Inverted dropout with a mask hashed from (key, position): the same on every device."""
    if keys is None or rate == 0.0:
        return x
    words = (fold(keys, layer) & np.uint64(0x7FFFFFFF)).astype(np.int64)
    key = torch.from_numpy(words.astype(np.int32)).to(x.device)
    size = x[0].numel()
    bits = torch.arange(size, dtype=torch.int32, device=x.device)[None, :] ^ key[:, None]
    bits = _hash32(bits)
    keep = (bits & 0x7FFFFFFF) >= int(rate * 2**31)
    return x * keep.view(x.shape).to(x.dtype).div_(1.0 - rate)


def _hash32(x: Any) -> Any:
    """A 32-bit integer hash with wrap-around arithmetic (lowbias32), in place."""
    x ^= (x >> 16) & 0xFFFF
    x *= 0x7FEB352D
    x ^= (x >> 15) & 0x1FFFF
    x *= -0x7B935975  # 0x846ca68b as a signed number
    x ^= (x >> 16) & 0xFFFF
    return x
