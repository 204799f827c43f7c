"""Linear oracles."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from counterplay.elicitation import (
    CallableOracle,
    PolytopeElicitor,
)
from counterplay.elicitation.lab import (
    PointSetOracle,
    PolytopeOracle,
)
from counterplay.errors import InvalidInputError


def test_oracles_agree_on_the_same_set() -> None:
    rng = np.random.default_rng(1)
    points = rng.random((30, 3))
    table = PointSetOracle(points)
    planner = CallableOracle(
        lambda w: (int((points @ w).argmax()), points[int((points @ w).argmax())]), 3, table.scale
    )
    W = rng.normal(size=(40, 3))
    a, b = table.argmax(W)[1], planner.argmax(W)[1]
    assert a == pytest.approx(b, abs=1e-12)
    assert ((a * W).sum(axis=1) >= 0).all()
    assert table.n_calls == planner.n_calls == 40


def test_polytope_oracle_maximises() -> None:
    rng = np.random.default_rng(2)
    A, b = rng.random((6, 3)), np.ones(6)
    oracle = PolytopeOracle(A, b)
    feasible = rng.dirichlet(np.ones(3), size=2000) / (A @ np.eye(3)).max()
    inside = feasible[(feasible @ A.T <= b).all(axis=1)]
    for w in rng.normal(size=(20, 3)):
        value = oracle.argmax(w)[1][0]
        assert (A @ value <= b + 1e-7).all()
        assert value @ w >= (inside @ w).max() - 1e-9


def test_ties_go_to_the_lowest_row() -> None:
    assert PointSetOracle([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).argmax([[1.0, 0.0]])[0] == [0]


def test_a_bare_data_frame_is_refused_with_the_way_out() -> None:
    frame = pd.DataFrame({"km": [1.0, 2.0], "price": [3.0, 4.0]})
    with pytest.raises(InvalidInputError, match=r"give Catalogue\(frame, benefits="):
        PolytopeElicitor(frame).ask()
