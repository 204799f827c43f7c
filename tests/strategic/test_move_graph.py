"""Finite moves and manipulation graphs are one model."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from counterplay.errors import InvalidInputError
from counterplay.strategic import Action, Change, ManipulationGraph, Moves, Switch, cheapest_moves

HOMES = ["rent", "own", "free"]
NODES = pd.DataFrame(
    list(itertools.product(range(4), range(3), HOMES)), columns=["late", "cards", "home"]
)


def random_moves(rng: np.random.Generator) -> Moves:
    """Return moves of two whole numbers and a category whose prices need not be metric."""
    ways = [(a, b) for a in HOMES for b in HOMES if a != b and rng.random() < 0.7]
    return Moves(
        {
            "late": Change(rng.choice(["up", "down", "both"]), rng.uniform(0.2, 2), 1, "unit"),
            "cards": Change("both", tuple(rng.uniform(0.2, 2, 2)), 1, "unit"),
            "home": Switch({way: rng.uniform(0.1, 3) for way in ways or [("rent", "own")]}),
        },
        reference=NODES,
        combine=rng.choice(["sum", "euclid", "max"]),
    )


@pytest.mark.claim("20.17")
def test_the_graph_is_the_moves_restricted_to_its_nodes() -> None:
    rng = np.random.default_rng(0)
    hot = np.column_stack([NODES[["late", "cards"]], *(NODES["home"] == h for h in HOMES)])
    for _ in range(200):
        moves, budget = random_moves(rng), float(rng.uniform(0.2, 4))
        nodes = NODES.sample(frac=rng.uniform(0.5, 1), random_state=int(rng.integers(1000)))
        graph = moves.graph(nodes, budget)
        price = moves.price(nodes, nodes, pairwise=True)
        assert (graph.dense == ((price > 0) & (price <= budget))).all()
        w = rng.normal(size=(50, 5))
        labels = (hot[nodes.index] @ w.T + rng.normal(size=50) > 0).T  # 50 linear rules
        reach = price <= budget
        assert (graph.induced(labels) == ((labels @ reach.T) > 0)).all()


@pytest.mark.claim("20.17")
def test_the_graph_induces_the_labels_that_cheapest_moves_find() -> None:
    rng = np.random.default_rng(1)
    prepare = make_column_transformer((OneHotEncoder(), ["home"]), remainder="passthrough")
    model = make_pipeline(prepare, LogisticRegression())
    model.fit(NODES, rng.integers(0, 2, len(NODES)))
    for _ in range(12):
        moves, budget = random_moves(rng), float(rng.uniform(0.2, 4))
        graph = moves.graph(NODES, budget)
        model[-1].coef_ = rng.normal(size=(1, 5))
        model[-1].intercept_ = rng.normal(size=1)
        labels = model.predict(NODES)
        plan = cheapest_moves(model, NODES, moves, budget=budget)
        assert plan.exact.all()
        assert (graph.induced(labels) == np.isfinite(plan.upper)).all()


@pytest.mark.claim("20.15")
def test_actions_are_moves() -> None:
    X = np.array([[3.0, 0.0], [6.0, 0.0], [6.0, 1.0]])
    actions = [
        Action("close a card", column=0, change=-1, cost=1.0, low=5),
        Action("raise income", column=1, change=1, cost=1.0),
    ]
    moves = Moves.from_actions(actions, reference=X)
    assert moves.price([[3.0, 0.0]], [[3.0, 1.0]]).item() == 1.0
    assert np.isinf(moves.price([[3.0, 0.0]], [[2.0, 0.0]]).item())  # below the limit
    graph = ManipulationGraph.from_actions(X, actions, budget=1.0)
    points = graph.features
    assert points is not None
    price = moves.price(points, points, pairwise=True)
    rows = graph.node_of(X)
    assert (graph.dense[rows] == ((price > 0) & (price <= 1.0))[rows]).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Moves.from_actions(
                [Action("a", 0, 1, cost=1.0), Action("b", 0, 2, cost=1.0)], reference=[[1.0], [2.0]]
            ),
            "a column takes one action up and one down",
        ),
        (lambda: Moves.from_actions([], reference=[[1.0]]), "actions must not be empty"),
        (
            lambda: Moves({"late": Change("up", per="unit")}).graph(NODES, 1.0),
            "needs a step or grid for 'late'",
        ),
        (
            lambda: Moves({"late": Change("up", step=1, per="unit")}).graph(NODES, -1.0),
            "budget must be",
        ),
    ],
)
def test_what_is_no_graph_is_refused(build: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_links_hold_on_the_graph() -> None:
    from counterplay.strategic import NotAbove

    nodes = pd.DataFrame(list(itertools.product(range(3), range(3))), columns=["late60", "late90"])
    moves = Moves(
        {c: Change("down", step=1, per="unit", low=0) for c in nodes},
        links=[NotAbove("late90", "late60")],
    )
    graph = moves.graph(nodes, 2.0)
    price = moves.price(nodes, nodes, pairwise=True)
    assert (graph.dense == ((price > 0) & (price <= 2.0))).all()
    assert not graph.dense[nodes.index[(nodes.late60 == 2) & (nodes.late90 == 2)][0]][
        nodes.index[(nodes.late60 == 1) & (nodes.late90 == 2)][0]
    ]
