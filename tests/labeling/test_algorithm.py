from __future__ import annotations

import pytest

from counterplay.labeling import B2IR, GBS, PoolProblem


@pytest.mark.claim("06.29")
def test_contradicting_label_names_point_and_agent() -> None:
    problem = PoolProblem.from_labelings([[0, 0], [0, 1]], agents=[[0], [1]])
    state = B2IR(GBS()).start(problem)
    agent, x = state.next_query() or (0, 0)
    with pytest.raises(ValueError, match=rf"label 7 of point {x} \(agent {agent}\)"):
        state.update(x, 7)
