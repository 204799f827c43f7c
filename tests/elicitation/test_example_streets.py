"""The street-map reader of the example, on a real extract where there is one."""

from __future__ import annotations

import bz2
import importlib.util
import os
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from counterplay.elicitation import (
    LinearPreferenceUser,
    MultiObjectiveMDP,
    PolytopeElicitor,
    answered_by,
    expand_and_compress,
    plan,
)

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("streets", ROOT / "examples/elicitation_streets.py")
assert _spec is not None
assert _spec.loader is not None
streets = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(streets)
read_street_map = streets.read_street_map
OBJECTIVES = ["time", "traffic", "signals"]
EXTRACT = Path(os.environ.get("COUNTERPLAY_DATA", "")) / "west_oakland.osm.bz2"

MAP = """<?xml version='1.0' encoding='UTF-8'?>
<osm version="0.6">
  <node id="1" lat="0.0" lon="0.0"/>
  <node id="2" lat="0.0" lon="0.01"><tag k="highway" v="traffic_signals"/></node>
  <node id="3" lat="0.0" lon="0.02"/>
  <node id="4" lat="0.01" lon="0.01"/>
  <way id="10"><nd ref="1"/><nd ref="2"/><nd ref="3"/>
    <tag k="highway" v="secondary"/><tag k="name" v="Main Street"/><tag k="maxspeed" v="30 mph"/>
    <tag k="oneway" v="yes"/></way>
  <way id="11"><nd ref="1"/><nd ref="4"/><nd ref="3"/><tag k="highway" v="footway"/></way>
  <way id="12"><nd ref="3"/><nd ref="99"/><tag k="highway" v="residential"/></way>
  <way id="13"><nd ref="2"/><nd ref="4"/><tag k="highway" v="service"/>
    <tag k="access" v="private"/></way>
  <way id="14"><nd ref="3"/><nd ref="1"/><tag k="highway" v="residential"/></way>
</osm>
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.osm"
    path.write_text(MAP)
    return path


def test_edges_run_between_junctions_with_length_time_and_signals(small: Path) -> None:
    graph = read_street_map(small)
    assert sorted(graph) == [1, 3]  # 2 and 4 are points on a street, 99 is outside
    assert graph.number_of_edges() == 6  # three streets, both ways on foot
    main = next(d for _, _, d in graph.edges(data=True) if d["name"] == "Main Street")
    degrees = 2 * np.pi * 6_371_000 / 360
    assert main["time"] == pytest.approx(0.02 * degrees / 80, rel=1e-9)  # 4.8 km/h is 80 m a minute
    assert (main["signals"], main["traffic"]) == (1.0, pytest.approx(0.014 * degrees))
    assert (main["congestion"], main["delay"]) == (0.5, 0.5)


def test_packed_files_are_read(small: Path, tmp_path: Path) -> None:
    packed = tmp_path / "small.osm.bz2"
    packed.write_bytes(bz2.compress(MAP.encode()))
    assert nx.utils.graphs_equal(read_street_map(packed), read_street_map(small))


@pytest.mark.skipif(not EXTRACT.is_file(), reason=f"COUNTERPLAY_DATA does not hold {EXTRACT.name}")
def test_walkers_in_a_real_district_get_the_walk_they_want() -> None:
    graph = read_street_map(EXTRACT)
    assert graph.number_of_nodes() == 49
    assert {d["name"] for *_, d in graph.edges(data=True)} >= {"Goss Street", "9th Street"}
    mdp = MultiObjectiveMDP.from_road_graph(
        graph,
        1556168378,
        436645490,
        30,
        objectives=OBJECTIVES,
        costs=OBJECTIVES,
        forward_only=True,
    )
    fastest = mdp.original_value(plan(mdp, [[1.0, 0.0, 0.0]]).values[0])[0]
    path = nx.dijkstra_path(graph, 1556168378, 436645490, weight="time")
    steps = [min(graph[a][b].values(), key=lambda d: d["time"]) for a, b in zip(path, path[1:])]
    moving = sum(step["time"] for step in steps)
    waiting = sum(step.get("congestion", 0.0) * step.get("delay", 0.0) for step in steps)
    assert moving <= fastest <= moving + waiting + 1e-9
    among_cars = []
    for w in ([1.0, 0.0, 0.1], [0.1, 1.0, 0.1]):
        user = LinearPreferenceUser(np.array(w), 1e-4)
        result = answered_by(PolytopeElicitor(mdp, random_state=0), user)
        best = float(plan(mdp, user.w).scalar_values[0])
        assert best - result.value @ user.w <= result.regret_certificate * best + 1e-9
        among_cars.append(mdp.original_value(result.value)[1])
        shown = expand_and_compress(mdp, result.policy)
        assert len(shown) <= 4
        assert np.allclose(shown.value, result.value, rtol=1e-10)
    assert among_cars[1] < among_cars[0]
