"""Agents with linear models: mean Huber or squared loss of each agent's residuals.

All agents are evaluated by one matrix product. With more parameters than rows in total these are
the problems on which the theory applies: the rows of different agents are independent.
Source: docs/theory/05-defection.md, "Theorem 5.2: ADA-GD reaches the relaxed target (repaired)".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_float_array,
    check_real,
    shorten,
)
from counterplay.defection.problem import FederatedProblem, _frozen
from counterplay.defection.smoothing import huber_tau, huber_tau_slope
from counterplay.errors import InvalidInputError


@checked
class LinearModelProblem(FederatedProblem):
    """``F_m(w) = mean_j phi(a_mj . w - b_mj)`` with Huber or squared ``phi``.

    Use it for linear regressions of several sites, and as the test bed of the theory.

    Parameters
    ----------
    A : array of shape (M, n, d) or list of arrays of shape (n_m, d)
        Rows of every agent.
    b : array of shape (M, n) or list of arrays, optional
        Targets. Give either ``b`` or ``w_star``.
    w_star : array of shape (d,), optional
        Common optimum; the targets are then ``A w_star``.
    loss : {"huber", "squared"}
        ``phi``; squared is ``x^2 / 2``.
    tau : float
        Where Huber's function turns linear.
    name : str
        For summaries.

    Guarantees
    ----------
    ``H = max_m |A_m|^2 / n_m`` and, for Huber, ``L = tau * max_m mean_j |a_mj|`` are exact upper
    bounds and set as ``problem.H`` and ``problem.L``.

    Examples
    --------
    >>> problem = LinearModelProblem([[[1.0, 0.0]], [[0.0, 2.0]]], w_star=[0.0, 0.0], tau=1.0)
    >>> problem.losses(np.array([3.0, 0.25])).tolist(), problem.H
    ([2.5, 0.125], 4.0)

    References
    ----------
    "Setting", Proposition 5.H, Theorem 5.2, see docs/theory/05-defection.md.
    """

    def __init__(
        self,
        A: ArrayLike | Sequence[ArrayLike],
        b: ArrayLike | Sequence[ArrayLike] | None = None,
        *,
        w_star: ArrayLike | None = None,
        loss: Literal["huber", "squared"] = "huber",
        tau: float = 1.0,
        name: str = "linear models",
    ) -> None:
        if (
            isinstance(A, str | bytes | Mapping)
            or not hasattr(A, "__iter__")
            or getattr(A, "ndim", 1) == 0
        ):
            raise InvalidInputError(f"A must be the rows of every agent, got {shorten(A, 100)}")
        parts = [check_float_array(a, f"A[{m}]", ndim=2) for m, a in enumerate(A)]  # type: ignore[arg-type]  # rows of an array are arrays
        if not parts or len({a.shape[1] for a in parts}) > 1 or min(map(len, parts)) == 0:
            raise InvalidInputError("A needs rows of one common length for every agent")
        self.loss = check_choice(loss, "loss", ("huber", "squared"))
        self.tau = check_real(tau, "tau", low=0.0, open_low=True) if loss == "huber" else math.inf
        counts = np.array([len(a) for a in parts])
        super().__init__(
            len(parts), parts[0].shape[1], w_star=w_star, name=name, **self._constants(parts)
        )
        self.counts = counts
        self.A = _frozen(_padded(parts), "A")
        self.b = _frozen(self._targets(b), "b")
        self._flat = self.A.reshape(-1, self.dimension)
        mask = np.arange(self.A.shape[1]) < counts[:, None]
        self._weights = mask / counts[:, None]

    def _constants(self, parts: list[FloatArray]) -> dict[str, Any]:
        H = max(np.linalg.norm(a, 2) ** 2 / len(a) for a in parts)
        if self.loss == "squared":
            return {"H": float(H)}
        return {"H": float(H), "L": self.tau * max(_mean_norm(a) for a in parts)}

    def _targets(self, b: ArrayLike | Sequence[ArrayLike] | None) -> FloatArray:
        if (b is None) == (self.w_star is None):
            raise InvalidInputError("give exactly one of b (targets) and w_star (common optimum)")
        if b is None:
            return np.asarray(self.A @ np.asarray(self.w_star))
        values = [check_float_array(x, f"b[{m}]", ndim=1) for m, x in enumerate(b)]  # type: ignore[arg-type]  # rows of an array are arrays
        if [len(x) for x in values] != self.counts.tolist():
            raise InvalidInputError("b needs one target for every row of A, agent by agent")
        return _padded([x[:, None] for x in values])[:, :, 0]

    @property
    def A_list(self) -> list[FloatArray]:
        """The rows of every agent, without padding."""
        return [a[:n] for a, n in zip(self.A, self.counts)]

    def _residuals(self, w: FloatArray) -> FloatArray:
        return (self._flat @ self.as_point(w)).reshape(self.b.shape) - self.b

    def _phi(self, x: FloatArray) -> FloatArray:
        return 0.5 * x * x if self.loss == "squared" else huber_tau(x, self.tau)

    def _slope(self, x: FloatArray) -> FloatArray:
        return x if self.loss == "squared" else huber_tau_slope(x, self.tau)

    def oracle(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return losses and gradients of all agents at ``w``."""
        x = self._residuals(w)
        F = (self._phi(x) * self._weights).sum(axis=1)
        G = (self._slope(x) * self._weights)[:, None, :] @ self.A
        return F, G[:, 0, :]

    def losses(self, w: FloatArray) -> FloatArray:
        """Return the loss of every agent at ``w``."""
        return np.asarray((self._phi(self._residuals(w)) * self._weights).sum(axis=1))

    def gradients(self, w: FloatArray, ids: IntArray | None = None) -> FloatArray:
        """Return the gradients of the agents ``ids`` at ``w``."""
        if ids is None or np.array_equal(ids, np.arange(self.n_agents)):
            return self.oracle(w)[1]
        x = self.A[ids] @ self.as_point(w) - self.b[ids]
        return np.asarray(((self._slope(x) * self._weights[ids])[:, None, :] @ self.A[ids])[:, 0])

    def local_gradients(
        self,
        points: FloatArray,
        ids: IntArray,
        batch_size: int | None = None,
        rng: np.random.Generator | None = None,
    ) -> FloatArray:
        """Return (minibatch) gradients of agents at their own points, all at once."""
        A, b, weights = self.A[ids], self.b[ids], self._weights[ids]
        if batch_size is not None:
            rng = np.random.default_rng() if rng is None else rng
            size = min(int(batch_size), int(self.counts.min()))
            keys = np.where(weights > 0, rng.random(weights.shape), np.inf)
            rows = np.argpartition(keys, size - 1, axis=1)[:, :size]
            A = np.take_along_axis(A, rows[:, :, None], axis=1)
            b = np.take_along_axis(b, rows, axis=1)
            weights = np.full(b.shape, 1.0 / size)
        x = (A @ points[:, :, None])[:, :, 0] - b
        return np.asarray(((self._slope(x) * weights)[:, None, :] @ A)[:, 0])


def _mean_norm(rows: FloatArray) -> float:
    return float(np.linalg.norm(rows, axis=1).mean())


def _padded(parts: list[FloatArray]) -> FloatArray:
    longest = max(len(a) for a in parts)
    return np.stack([np.pad(a, ((0, longest - len(a)), (0, 0))) for a in parts])
