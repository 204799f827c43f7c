from __future__ import annotations

import pytest

from counterplay.labeling import GBS, instances
from counterplay.labeling.lab import compute_equilibria


def test_coalitions_of_three() -> None:
    problem = instances.identical_pools(k=3, m=7)
    table = compute_equilibria(problem, GBS(assignment="uniform"))
    assert table.total((0, 1, 2)) == pytest.approx(3)
    assert (0, 1, 2) in table.stable
    gap, shares = table.least_core
    assert shares.sum() == pytest.approx(3)
    assert gap <= 1e-9
    assert not table.core_is_empty
    assert "core: not empty" in table.summary()
    assert len(table.to_frame()) == 7


@pytest.mark.claim("24.19")
def test_one_agent_alone() -> None:
    table = compute_equilibria(instances.identical_pools(k=1), GBS())
    assert (table.least_core[0], table.least_core[1].tolist()) == (0.0, [3.0])
    assert table.stable == ()
    assert not table.core_is_empty
    assert "core: not empty" in table.summary()
