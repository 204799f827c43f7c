"""The attackable region over the range of one feature."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.poisoning import (
    IntervalTarget,
    LabelledSet,
    UnionOfIntervals,
    line_region,
)
from counterplay.poisoning.lab import (
    HardMarginSVM,
)


def test_region_over_the_range_of_the_feature() -> None:
    rng = np.random.default_rng(11)
    target = IntervalTarget([0.2, 0.4, 0.6, 0.9], closed=False)
    X = rng.random(15)
    S = LabelledSet(X, target(X))
    region = line_region(UnionOfIntervals(), target, S, n_points=801)
    exact = UnionOfIntervals.attackable_region(target, S, region.points)
    assert np.array_equal(region.attackable, exact)
    inside = [((region.points >= a) & (region.points <= b)) for a, b in region.pieces()]
    assert np.array_equal(np.any(inside, axis=0), exact)
    assert region.to_frame().attackable.mean() == region.rate
    axes = region.plot()
    assert len(axes.patches) == len(region.pieces())
    with pytest.raises(InvalidInputError, match="no certificate"):
        line_region(HardMarginSVM(), target, LabelledSet([0.1, 0.9], [0, 1]))
