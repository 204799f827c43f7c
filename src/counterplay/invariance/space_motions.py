"""Point sets in three or more dimensions, moved and turned freely.

The frame is that of principal axes, pointing to where third moments are positive; the last axis
makes it a rotation. Near-equal variances or vanishing third moments leave it open: such sets are
flagged, because no continuous choice exists.
Source: docs/theory/22-symmetry.md, "Continuous groups"; Puny et al. (2022), "Frame averaging for
invariant and equivariant network design"; Dym et al. (2024), "Equivariant frames and the
impossibility of continuous canonicalization".
"""

from __future__ import annotations

import numpy as np

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, FloatArray, check_int
from counterplay.invariance.motions import PointMotions, random_turn, sorted_points

_SAME = 1e-6  # relative gap below which two variances, or a third moment and 0, are the same
_FLAT = 1e-12  # relative variance below which there is no extent along an axis


class SpaceMotions(PointMotions):
    """Unordered points in space, turned and shifted (and scaled) freely; never listed.

    Rows are flattened (n_points, dimension). Sets without a frame of principal axes are ambiguous.

    Parameters
    ----------
    n_points:
        Points of a set.
    dimension:
        Numbers of a point.
    scale:
        Whether sizes do not matter either.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> motions = groups.space_motions(4)
    >>> x = np.random.default_rng(0).normal(size=(1, 12))
    >>> moved = motions.sample(x, 1, 0)[0]
    >>> bool(np.abs(motions.canonical(moved) - motions.canonical(x)).max() < 1e-9)
    True
    """

    def __init__(self, n_points: int, dimension: int = 3, scale: bool = False) -> None:
        super().__init__(n_points, scale)
        self.dimension = check_int(dimension, "dimension", low=2, high=64)

    def _forms(self, points: FloatArray) -> tuple[FloatArray, BoolArray]:
        z = points.reshape(len(points), -1, self.dimension)
        z = z - z.mean(axis=1, keepdims=True)
        size = np.sqrt((z**2).sum(axis=2).mean(axis=1))
        size = np.where(size > 0, size, 1.0)
        if self.scale:
            z, size = z / size[:, None, None], np.ones(len(z))
        unit = z / size[:, None, None]
        variances, axes = np.linalg.eigh(np.einsum("nki,nkj->nij", unit, unit) / z.shape[1])
        variances, axes = variances[:, ::-1], axes[:, :, ::-1]  # the longest axis first
        third = ((unit @ axes) ** 3).mean(axis=1)
        axes = axes * np.where(third < 0, -1.0, 1.0)[:, None, :]
        axes[:, :, -1] *= np.linalg.det(axes)[:, None]  # turns only, no mirror images
        extended = variances > _FLAT * np.maximum(variances[:, :1], 1e-300)
        gaps = (variances[:, :-1] - variances[:, 1:]) / np.maximum(variances[:, :1], 1e-300)
        unsure = (gaps < _SAME) | (np.abs(third[:, :-1]) < _SAME)
        lost = (unsure & extended[:, :-1]).any(axis=1)
        return sorted_points(z @ axes, size).reshape(points.shape), np.asarray(lost)

    def _turns(self, points: FloatArray, count: int, random_state: RandomState) -> FloatArray:
        rng = generator(random_state)
        z = points.reshape(len(points), -1, self.dimension)
        z = z - z.mean(axis=1, keepdims=True)
        turns = [random_turn(self.dimension, rng) for _ in range(count)]
        return np.stack([(z @ turn.T).reshape(points.shape) for turn in turns])
