"""The network of the EMNIST experiment for many runs at once, as fast as a GPU allows.

``torch_objective(module)`` trains any module, and this one at about half the speed. Here one
backward pass of the summed losses gives every run its own gradient, no patch of the second
convolution is written to memory, dropout is hashed from the keys of the runs, and nothing waits for
the device. Needs torch and NumPy only.
Source: "The experiment of the chapter", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from counterplay.core.draws import Keys, fold, uniforms
from counterplay.federated.arrays import TorchArrays
from counterplay.federated.objective import Objective

_INIT = 101


class EmnistNetwork(Objective):
    """Two 3x3 convolutions, max-pooling, two dense layers, dropout after each pair.

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
        self.backend: TorchArrays = TorchArrays("float32", device)
        self.side, self.classes, self.channels = side, classes, channels
        self.dropout, self.half = dropout, half
        (a, b), h, c = channels, hidden, classes
        self.flat = ((side - 4) // 2) ** 2 * b
        self.shapes = [(9, a), (1, a), (9 * a, b), (1, b), (self.flat, h), (1, h), (h, c), (1, c)]
        self.fans = [9, 9, 9 * a, 9 * a, self.flat, self.flat, h, h]
        self.ends = np.cumsum([rows * columns for rows, columns in self.shapes]).tolist()
        self.size = self.ends[-1]
        # evaluation is split so that about this many numbers are in flight at once
        self.chunk = 1 << (26 if self.backend.on_cpu else 32)

    def start(self, keys: Keys) -> NDArray[np.float64]:
        """Return uniform weights within ``1/sqrt(fan-in)``."""
        parts = []
        for layer, ((rows, columns), fan) in enumerate(zip(self.shapes, self.fans)):
            draw = uniforms(fold(keys, _INIT, layer), rows * columns)
            parts.append((2.0 * draw - 1.0) / np.sqrt(fan))
        return np.concatenate(parts, axis=1)

    def arrays(self, w: Any) -> list[Any]:
        """Return the parameters ``(R, d)`` as one array per layer and run; views."""
        starts = [0, *self.ends]
        return [
            w[:, a:b].view(len(w), *shape) for a, b, shape in zip(starts, self.ends, self.shapes)
        ]

    def forward(self, params: list[Any], x: Any, keys: Keys | None) -> Any:
        """Return logits ``(R, b, classes)``; dropout is on when ``keys`` are given."""
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

    def outputs(self, w: Any, x: Any) -> Any:
        """Return the scores of every row, a bounded number of rows at a time."""
        params = self.arrays(w)
        if self.half:  # all but the last layer
            params = [p.half() for p in params[:6]] + params[6:]
        runs, points = x.shape[:2]
        per_point = (self.side - 2) ** 2 * self.channels[0]
        per_point += (self.side - 4) ** 2 * self.channels[1]
        width = max(1, self.chunk // (runs * per_point))
        width = -(-points // -(-points // width))  # equal pieces
        with torch.no_grad():
            return torch.cat(
                [self.forward(params, part, None) for part in x.split(width, dim=1)], dim=1
            )

    def evaluate(self, w: Any, x: Any, y: Any, weight: Any) -> tuple[Any, Any]:
        """Return loss and accuracy."""
        out = self.outputs(w, x)
        return (_row_losses(out, y) * weight).sum(dim=1), self.accuracy(out, y, weight)

    def gradients(self, w: Any, x: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
        """Return loss, accuracy and gradients, without dropout."""
        out, loss, gradient = self._backward(w, x, y, weight, None)
        return loss, self.accuracy(out, y, weight), gradient

    def step_gradient(self, w: Any, x: Any, y: Any, weight: Any, keys: Keys) -> Any:
        """Return the gradients with dropout."""
        return self._backward(w, x, y, weight, keys)[2]

    def _backward(self, w: Any, x: Any, y: Any, weight: Any, keys: Keys | None) -> Any:
        """Automatic differentiation of the sum of all runs' losses."""
        leaves = [p.detach().requires_grad_(True) for p in self.arrays(w)]
        with torch.enable_grad():
            out = self.forward(leaves, x, keys)
            loss = (_row_losses(out, y) * weight).sum(dim=1)
            slopes = torch.autograd.grad(loss.sum(), leaves)
        return out.detach(), loss.detach(), torch.cat([g.flatten(1) for g in slopes], dim=1)


def _row_losses(out: Any, y: Any) -> Any:
    losses = torch.nn.functional.cross_entropy(out.flatten(0, 1), y.flatten(), reduction="none")
    return losses.view(y.shape)


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
