"""Layers of the convolutional network for many runs at once: convolutions, pooling, dropout.

Images are ``(R, b, h, w, c)`` with one run per entry of the first axis, and every run has its own
weights. A convolution of all runs is one convolution per run, queued without waiting (no patches
are written to memory), one grouped convolution, or a matrix product over gathered patches. All
three give the same numbers.
Source: "The experiment of the chapter", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch

from counterplay.core.draws import Keys, fold

Convolution = Literal["each", "grouped", "patches"]
CONVOLUTIONS: tuple[Convolution, ...] = ("each", "grouped", "patches")


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


def convolve_and_pool(x: Any, weight: Any, how: Convolution) -> Any:
    """3x3 convolution without bias, then the maximum of 2x2 squares."""
    if how == "patches":
        return _pooled(_patch_convolution(x, weight))
    return _grouped(x, weight) if how == "grouped" else _one_by_one(x, weight)


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


def _pooled(x: Any) -> Any:
    """Maximum of 2x2 squares, in channels-last layout: ``(R, b, h, w, c)`` to half the side."""
    runs, points, h, w, channels = x.shape
    image = x.reshape(runs * points, h, w, channels).permute(0, 3, 1, 2)
    half = torch.nn.functional.max_pool2d(image, 2).permute(0, 2, 3, 1)
    return half.reshape(runs, points, h // 2, w // 2, channels)


def _patch_convolution(x: Any, weight: Any) -> Any:
    """One matrix product per run: ``(R, b, h, w, c) -> (R, b, h-2, w-2, o)``."""
    runs, points, height, width, channels = x.shape
    h, w = height - 2, width - 2
    shifted = [x[:, :, i : i + h, j : j + w] for i in range(3) for j in range(3)]
    patches = torch.cat(shifted, dim=-1).reshape(runs, points * h * w, 9 * channels)
    return torch.bmm(patches, weight).reshape(runs, points, h, w, weight.shape[-1])


def _grouped(x: Any, weight: Any) -> Any:
    """One call of ``conv2d`` with a group per run."""
    runs, points, height, width, channels = x.shape
    out = weight.shape[-1]
    kernel = _kernels(weight, channels).reshape(runs * out, channels, 3, 3)
    image = x.permute(1, 0, 4, 2, 3).reshape(points, runs * channels, height, width)
    result = torch.nn.functional.conv2d(image, kernel, groups=runs)
    half = torch.nn.functional.max_pool2d(result, 2)
    half = half.reshape(points, runs, out, *half.shape[2:])
    return half.permute(1, 0, 3, 4, 2).contiguous()


def _one_by_one(x: Any, weight: Any) -> Any:
    """One call of ``conv2d`` per run, on the channels-last memory of the batch."""
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
