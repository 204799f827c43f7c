"""The convex chain in the plane: 2m points whose mirror images cannot be told from a second chain.

Angles grow by a factor 7 per step, so the first ones are far below rounding in world coordinates;
everything exact happens in local coordinates (v1 along the boundary, v2 away from it).
Source: docs/theory/10-poisoning.md, "Theorem 10.2: half-spaces are not robustly learnable"
(appendix I.2 of the thesis).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.validation import FloatArray, IntArray, check_positive_int
from counterplay.poisoning.model import LinearTarget


def chain_angles(m: int) -> FloatArray:
    """Angles beta_0, ..., beta_{2m}: beta_0 = 7^{-2m} pi/6, each 7 times the one before.

    Examples
    --------
    >>> float(chain_angles(3)[-1] / np.pi * 6)
    1.0
    """
    n = check_positive_int(m, "m")
    return np.asarray(np.pi / 6 * 7.0 ** np.arange(-2 * n, 1), dtype=np.float64)


def local_chain(m: int) -> FloatArray:
    """Points x_0, ..., x_{2m} in local coordinates; x_0 is the origin."""
    beta = chain_angles(m)[:-1]
    step = 1 / (2 * m)
    moves = step * np.column_stack([np.cos(beta), np.sin(beta)])
    return np.vstack([np.zeros(2), np.cumsum(moves, axis=0)])


def axis_point(m: int, i: int) -> float:
    """First coordinate b_i of the point z_i where the reflection line meets the boundary."""
    beta = chain_angles(m)[: i + 1]
    step = 1 / (2 * m)
    share = (np.cos(beta[i - 1]) + np.cos(beta[i])) / (np.sin(beta[i - 1]) + np.sin(beta[i]))
    return float(step * np.cos(beta).sum() - step * share * np.sin(beta).sum())


def reflect_chain(points: FloatArray, m: int, i: int) -> FloatArray:
    """Reflect local points in the line through z_i and x_i."""
    z = np.array([axis_point(m, i), 0.0])
    direction = local_chain(m)[i] - z
    unit = direction / np.linalg.norm(direction)
    moved = points - z
    reflected: FloatArray = z + 2 * (moved @ unit)[:, None] * unit - moved
    return reflected


@dataclass(frozen=True)
class Chain:
    """One placed chain: 2m points labelled s, above the boundary line through o.

    Parameters
    ----------
    m:
        Half the number of points.
    o:
        Origin of the local coordinates, on the boundary.
    theta:
        Angle of the boundary's normal.
    s:
        Label of the chain.
    scale:
        World coordinates are divided by it (to fit into the unit disc).

    Examples
    --------
    >>> chain = Chain(m=3, o=(0.5, 1.0), theta=0.3, s=1, scale=6.5)
    >>> chain.X.shape, bool((chain.target(chain.X) == 1).all())
    ((6, 2), True)
    """

    m: int
    o: tuple[float, float]
    theta: float
    s: int
    scale: float = 1.0

    @cached_property
    def local(self) -> FloatArray:
        """Points x_1, ..., x_{2m} in local coordinates."""
        return local_chain(self.m)[1:]

    @cached_property
    def X(self) -> FloatArray:
        """The points in world coordinates."""
        return self.to_world(self.local)

    @property
    def target(self) -> LinearTarget:
        """The half-plane that labels the chain s."""
        u = np.array([np.cos(self.theta), np.sin(self.theta)])
        return LinearTarget(u, -float(u @ np.asarray(self.o)) / self.scale)

    def _frame(self) -> FloatArray:
        sin, cos = np.sin(self.theta), np.cos(self.theta)
        return np.array([[sin, -cos], [(2 * self.s - 1) * cos, (2 * self.s - 1) * sin]])

    def to_world(self, local: ArrayLike) -> FloatArray:
        """Map local to world coordinates."""
        world: FloatArray = (np.asarray(self.o) + np.asarray(local) @ self._frame()) / self.scale
        return world

    def to_local(self, X: ArrayLike) -> FloatArray:
        """Map world to local coordinates."""
        moved = np.asarray(X, dtype=np.float64) * self.scale - np.asarray(self.o)
        local: FloatArray = moved @ self._frame().T
        return local

    def reflected(self, i: int) -> FloatArray:
        """Local coordinates of the chain reflected at its point number i (from 0)."""
        return reflect_chain(self.local, self.m, i + 1)

    def index_of(self, X: ArrayLike) -> IntArray:
        """Number of each world point on the chain (from 0), -1 for other points."""
        points = np.asarray(X, dtype=np.float64).reshape(-1, 2)
        same = (points[:, None, :] == self.X[None, :, :]).all(axis=2)
        return np.where(same.any(axis=1), same.argmax(axis=1), -1).astype(np.int64)

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}
