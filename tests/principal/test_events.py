from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.principal import (
    Decision,
)
from counterplay.principal.bounds import net_events
from counterplay.principal.lab import (
    Always,
    Bins,
    Context,
    EventFamilies,
    MostLikely,
    NetPoint,
)


def test_families_are_partitions_with_the_promised_sizes():
    rng = np.random.default_rng(0)
    families = [Always(), MostLikely(), Bins(2, 5), NetPoint(0.5), Decision(rng.random((4, 3)))]
    events = EventFamilies(families, 3)
    assert events.n_events == 1 + 3 + 5 + 6 + 4
    seen = set()
    for x in rng.dirichlet(np.ones(3), size=2000):
        active = events.active(x)
        assert len(active) == len(set(active)) == 5
        assert [events.family(event) for event in active] == [f.name for f in families]
        assert events.active(x) == active
        seen.update(active)
    assert len(seen) <= events.n_events


def test_functions_and_contexts_are_families():
    def coarse(forecast, context):
        return bool(forecast[0] > 0.5), context

    events = EventFamilies([coarse, Context(3, of=len, name="length")], 2)
    assert events.n_events is None
    assert not events.context_free
    active = events.active(np.array([0.7, 0.3]), "ab")
    assert [events.label(event) for event in active] == ["coarse: (True, 'ab')", "length: 2"]


def test_bin_edges_and_labels():
    bins = Bins(0, 4)
    assert [bins.key(np.array([p, 1 - p]), None) for p in (0.0, 0.25, 0.999, 1.0)] == [0, 1, 3, 3]
    assert bins.describe(3) == "[0.75,1)"
    with pytest.raises(InvalidInputError, match="outcome"):
        EventFamilies([Bins(3)], 3)
    with pytest.raises(InvalidInputError, match="1/eta"):
        NetPoint(0.3)
    with pytest.raises(InvalidInputError, match="names"):
        Decision([[0, 1], [1, 0]], actions=["a"])


@pytest.mark.parametrize(("n", "count"), [(2, 11), (3, 66), (5, 1001), (10, 92378)])
def test_number_of_net_points(n, count):
    assert net_events(n, 0.1) == count == NetPoint(0.1).n_events(n)
    if n <= 3:
        family = NetPoint(0.1)
        rng = np.random.default_rng(0)
        seen = {family.key(x, None) for x in rng.dirichlet(np.full(n, 0.7), size=20_000)}
        assert len(seen) == count


def test_nearest_net_point():
    family = NetPoint(0.25)
    rng = np.random.default_rng(0)
    points = [(a, b, 4 - a - b) for a in range(5) for b in range(5 - a)]
    for x in rng.dirichlet(np.ones(3), size=300):
        distances = [max(abs(x - np.array(point) / 4)) for point in points]
        found = np.array(family.key(x, None)) / 4
        assert max(abs(x - found)) == pytest.approx(min(distances))
    assert family.describe((1, 1, 2)) == "(0.25, 0.25, 0.5)"
