"""Two silos whose own separators are perfect at home and wrong for a fifth of the other.

Source: Figure D.1; docs/theory/05-defection.md, "Two silos (Figure D.1)".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplay.core.validation import FloatArray, IntArray

RED_ANGLES = (-80.0, -20.0, 0.0, 20.0, 40.0)


@dataclass(frozen=True, eq=False)
class TwoSilos:
    """Points on the circle with labels, per silo, and the normals of the max-margin separators.

    Examples
    --------
    >>> two_silo_cartoon().error(20.0, "red")
    0.2
    """

    red: FloatArray
    red_labels: IntArray
    blue: FloatArray
    blue_labels: IntArray
    normals: tuple[float, float, float]
    """Angles of the normals in degrees: red, blue, union."""

    def error(self, normal: float, silo: str) -> float:
        """Return the share of wrong labels of the homogeneous separator with this normal."""
        direction = np.array([np.cos(np.deg2rad(normal)), np.sin(np.deg2rad(normal))])
        points, labels = (
            (self.red, self.red_labels) if silo == "red" else (self.blue, self.blue_labels)
        )
        return float((np.where(points @ direction > 0.0, 1, -1) != labels).mean())


def two_silo_cartoon() -> TwoSilos:
    """Return two silos: errors 0 at home, 0.2 abroad, 0.1 on average, 0 for the joint separator.

    Examples
    --------
    >>> silos = two_silo_cartoon()
    >>> red, blue, union = silos.normals
    >>> [silos.error(red, "red"), silos.error(red, "blue"), silos.error(union, "blue")]
    [0.0, 0.2, 0.0]

    References
    ----------
    Figure D.1; docs/theory/05-defection.md, "Two silos (Figure D.1)".
    """
    red, labels = _both_sides(np.array(RED_ANGLES))
    blue, _ = _both_sides(-np.array(RED_ANGLES))
    # The max-margin normal of points on an arc is the middle of the arc.
    middle = (min(RED_ANGLES) + max(RED_ANGLES)) / 2
    return TwoSilos(red, labels, blue, labels, (middle, -middle, 0.0))


def _both_sides(degrees: FloatArray) -> tuple[FloatArray, IntArray]:
    """Each label-normalised point once as it is and once at the antipode with label -1."""
    angles = np.deg2rad(degrees)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    both = np.vstack([points, -points])
    labels = np.repeat([1, -1], len(points))
    both.setflags(write=False)
    labels.setflags(write=False)
    return both, labels
