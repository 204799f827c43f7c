"""Losses of one row with their slopes, in closed form, for any number of classes.

Margin losses with several outputs are summed over the classes (one against the rest), as
scikit-learn's ``SGDClassifier`` does. Source: docs/theory/05-defection.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from counterplay.errors import UnknownNameError
from counterplay.federated.arrays import Array, Backend

RowLoss = Callable[[Backend, Array, Array], tuple[Array, Array]]
"""``(backend, outputs (..., n, C), labels (..., n)) -> (losses (..., n), slopes (..., n, C))``."""


def cross_entropy(backend: Backend, out: Array, y: Array) -> tuple[Array, Array]:
    """Negative log-probability of the label under softmax."""
    target = backend.one_hot(y, out.shape[-1])
    logp = backend.log_softmax(out)
    slope = backend.xp.exp(logp)
    slope -= target
    return -(logp * target).sum(-1), slope


def signs(backend: Backend, out: Array, y: Array) -> Array:
    """Return +1 where the output should be positive and -1 elsewhere."""
    if out.shape[-1] == 1:
        return 2.0 * backend.one_hot(y, 2)[..., 1:] - 1.0
    return 2.0 * backend.one_hot(y, out.shape[-1]) - 1.0


def margin_loss(backend: Backend, out: Array, y: Array, *, name: str) -> tuple[Array, Array]:
    """A function of the margin, summed over the outputs."""
    sign = signs(backend, out, y)
    value, slope = MARGIN[name](backend.xp, sign * out)
    return value.sum(-1), sign * slope


def _log(xp: Any, m: Array) -> tuple[Array, Array]:
    small = xp.exp(-abs(m))
    value = xp.log1p(small) + abs(m) * (m < 0)
    slope = -xp.where(m >= 0, small, small * 0 + 1) / (1.0 + small)
    return value, slope


def _hinge(xp: Any, m: Array) -> tuple[Array, Array]:
    inside = m < 1.0
    return (1.0 - m) * inside, -1.0 * inside


def _squared_hinge(xp: Any, m: Array) -> tuple[Array, Array]:
    gap = (1.0 - m) * (m < 1.0)
    return gap * gap, -2.0 * gap


def _modified_huber(xp: Any, m: Array) -> tuple[Array, Array]:
    value, slope = _squared_hinge(xp, m)
    far = m < -1.0
    return xp.where(far, -4.0 * m, value), xp.where(far, slope * 0 - 4.0, slope)


MARGIN: dict[str, Callable[[Any, Array], tuple[Array, Array]]] = {
    "log_loss": _log,
    "hinge": _hinge,
    "squared_hinge": _squared_hinge,
    "modified_huber": _modified_huber,
}


def row_loss(name: str) -> RowLoss:
    """Return the loss with this name: ``cross_entropy`` or one of the margin losses."""
    if name == "cross_entropy":
        return cross_entropy
    if name not in MARGIN:
        raise UnknownNameError.among("loss", name, ["cross_entropy", *MARGIN])
    return partial(margin_loss, name=name)
