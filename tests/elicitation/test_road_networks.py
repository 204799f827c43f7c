"""Road networks."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from counterplay.elicitation import (
    LinearPreferenceUser,
    MultiObjectiveMDP,
    PolytopeElicitor,
    answered_by,
    expand_and_compress,
    instances,
    plan,
)
from counterplay.errors import InvalidInputError

OBJECTIVES = ["time", "scenery", "safety"]


def roads() -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph()
    graph.add_edge("home", "work", time=20.0, scenery=0.1, congestion=0.1, delay=60.0)
    graph.add_edge("home", "work", time=60.0, scenery=0.5)  # the subway, a parallel edge
    graph.add_edge("home", "lake", time=25.0, scenery=1.0)
    graph.add_edge("lake", "work", time=15.0, scenery=0.8)
    graph.add_edge("home", "dead end", time=1.0, scenery=0.0)
    return graph


def test_values_are_what_one_computes_by_hand() -> None:
    mdp = MultiObjectiveMDP.from_road_graph(
        roads(), "home", "work", 3, objectives=["time", "scenery"], costs=["time"]
    )
    best = plan(mdp, [[1.0, 0.0], [0.0, 1.0]])
    fast = mdp.original_value(best.values[0])
    assert fast.tolist() == pytest.approx([20 + 0.1 * 60, 0.1])
    scenic = mdp.original_value(best.values[1])
    assert scenic.tolist() == pytest.approx([40.0, 1.8])
    text = expand_and_compress(mdp, best.policies[0]).describe()
    assert "90 %: home > work" in text
    assert "10 %: home > jam home-work > work" in text
    assert "time 80" in text


def test_time_is_never_saved_by_a_dead_end() -> None:
    graph = nx.MultiDiGraph()
    graph.add_edge("home", "trap", time=1.0)
    graph.add_edge("home", "work", time=50.0)
    mdp = MultiObjectiveMDP.from_road_graph(
        graph, "home", "work", 4, objectives=["time"], costs=["time"]
    )
    best = plan(mdp, [[1.0]])
    assert mdp.original_value(best.values[0])[0] == pytest.approx(50.0)


def test_undirected_and_simple_graphs_work() -> None:
    graph = nx.Graph()
    graph.add_edge(0, 1, time=2.0)
    graph.add_edge(1, 2, time=3.0)
    mdp = MultiObjectiveMDP.from_road_graph(graph, 0, 2, 4, objectives=["time"], costs=["time"])
    assert mdp.original_value(plan(mdp, [[1.0]]).values[0])[0] == pytest.approx(5.0)


def test_shortest_times_agree_with_dijkstra() -> None:
    graph = instances.city(5, 6, highway=False)
    for _, _, data in graph.edges(data=True):
        data["congestion"] = 0.0
    mdp = MultiObjectiveMDP.from_road_graph(
        graph, (0, 0), (4, 5), 14, objectives=OBJECTIVES, costs=["time"]
    )
    fastest = mdp.original_value(plan(mdp, [[1.0, 0.0, 0.0]]).values[0])[0]
    assert fastest == pytest.approx(
        nx.dijkstra_path_length(graph, (0, 0), (4, 5), weight="time"), abs=1e-9
    )


def test_commuters_with_different_tastes_get_different_trips() -> None:
    mdp = MultiObjectiveMDP.from_road_graph(
        instances.city(), (6, 0), (0, 7), 20, objectives=OBJECTIVES, costs=["time"]
    )
    times = []
    for w in ([1.0, 0.05, 0.05], [0.1, 1.0, 0.1]):
        user = LinearPreferenceUser(np.array(w), 1e-3)
        result = answered_by(PolytopeElicitor(mdp, random_state=0), user)
        best = float(plan(mdp, user.w).scalar_values[0])
        assert best - result.value @ user.w <= result.regret_certificate * best + 1e-9
        times.append(mdp.original_value(result.value)[0])
    assert times[0] < times[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": "moon"}, "source 'moon' is not a node"),
        ({"target": "dead end", "source": "work"}, "no way from 'work' to 'dead end'"),
        ({"costs": ["noise"]}, "costs names 'noise'"),
        ({"horizon": 0}, "horizon must be at least 1"),
    ],
)
def test_bad_input_is_named(change: dict, words: str) -> None:
    arguments = {"source": "home", "target": "work", "horizon": 3, "costs": ["time"]} | change
    with pytest.raises(InvalidInputError, match=words):
        MultiObjectiveMDP.from_road_graph(roads(), objectives=["time", "scenery"], **arguments)


def test_congestion_must_be_a_probability() -> None:
    graph = roads()
    graph.add_edge("home", "work", time=1.0, congestion=1.5)
    with pytest.raises(InvalidInputError, match=r"congestion 1\.5, which is no probability"):
        MultiObjectiveMDP.from_road_graph(
            graph, "home", "work", 3, objectives=["time"], costs=["time"]
        )


def test_forward_only_trips_always_arrive() -> None:
    graph = nx.MultiDiGraph()
    graph.add_edge("a", "b", time=0.1)
    graph.add_edge("b", "a", time=0.1)
    graph.add_edge("b", "c", time=10.0)
    lazy = MultiObjectiveMDP.from_road_graph(
        graph, "a", "c", 4, objectives=["time"], costs=["time"]
    )
    assert lazy.original_value(plan(lazy, [[1.0]]).values[0])[0] < 1.0  # to and fro, never there
    mdp = MultiObjectiveMDP.from_road_graph(
        graph, "a", "c", 4, objectives=["time"], costs=["time"], forward_only=True
    )
    assert mdp.original_value(plan(mdp, [[1.0]]).values[0])[0] == pytest.approx(10.1)
    with pytest.raises(InvalidInputError, match="the longest trip takes 2 steps"):
        MultiObjectiveMDP.from_road_graph(
            graph, "a", "c", 1, objectives=["time"], costs=["time"], forward_only=True
        )
