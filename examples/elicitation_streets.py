"""The walk through a district that two different people want, shown as real trips.

West Oakland (OpenStreetMap) if COUNTERPLAY_DATA holds west_oakland.osm.bz2, otherwise a made-up
city; docs/areas/elicitation.md says where to get the extract. `read_street_map` reads any other
extract in OSM XML (https://wiki.openstreetmap.org/wiki/OSM_XML) as a graph for walkers.
"""

from __future__ import annotations

import bz2
import os
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import networkx as nx
import numpy as np

from counterplay.elicitation import (
    LinearPreferenceUser,
    MultiObjectiveMDP,
    PolytopeElicitor,
    answered_by,
    expand_and_compress,
    instances,
    plan,
)

METRES_PER_MINUTE = 80.0
TRAFFIC = {
    "primary": 0.9,
    "secondary": 0.7,
    "tertiary": 0.5,
    "unclassified": 0.3,
    "residential": 0.2,
    "service": 0.1,
    "living_street": 0.05,
    "track": 0.05,
}  # share of a street's length that counts as "among cars"; paths of their own: 0
NOT_ON_FOOT = ("motorway", "trunk", "construction", "proposed", "raceway")


def read_street_map(path: Path) -> nx.MultiDiGraph:
    """Streets between junctions, with minutes, metres among cars and traffic lights passed."""
    opener = bz2.open if path.suffix == ".bz2" else open
    with opener(path, "rb") as file:
        root = ElementTree.parse(file).getroot()
    nodes = {int(node.attrib["id"]): node for node in root.iter("node")}
    streets = [(line(way), tags(way)) for way in root.iter("way") if open_to_walkers(tags(way))]
    uses = Counter(node for points, _ in streets for node in points if node in nodes)
    graph = nx.MultiDiGraph()
    for points, words in streets:
        for part in between_junctions(points, nodes, uses):
            data = street(words, [nodes[node] for node in part])
            graph.add_edge(part[0], part[-1], **data)
            graph.add_edge(part[-1], part[0], **data)
    largest = max(nx.strongly_connected_components(graph), key=lambda part: (len(part), min(part)))
    return graph.subgraph(largest).copy()


def tags(element: ElementTree.Element) -> dict[str, str]:
    return {tag.attrib["k"]: tag.attrib["v"] for tag in element.iter("tag")}


def line(way: ElementTree.Element) -> list[int]:
    return [int(point.attrib["ref"]) for point in way.iter("nd")]


def open_to_walkers(words: dict[str, str]) -> bool:
    kind = words.get("highway", "")
    closed = words.get("area") == "yes" or words.get("access") == "private"
    allowed = words.get("foot") != "no" and kind.removesuffix("_link") not in NOT_ON_FOOT
    return bool(kind) and not closed and allowed


def between_junctions(points: list[int], nodes: dict, uses: Counter[int]) -> list[list[int]]:
    """Split a way at junctions; points outside the extract end a part."""
    parts: list[list[int]] = [[]]
    for node in points:
        if node not in nodes:
            parts.append([])
            continue
        parts[-1].append(node)
        if uses[node] > 1 and len(parts[-1]) > 1:
            parts.append([node])
    return [part for part in parts if len(part) > 1]


def street(words: dict[str, str], points: list[ElementTree.Element]) -> dict[str, object]:
    """What walking along it costs; at a light one waits half a minute every second time."""
    kind = words["highway"].removesuffix("_link")
    metres = length(np.array([(float(p.attrib["lon"]), float(p.attrib["lat"])) for p in points]))
    signs = [tags(point).get("highway") for point in points[1:]]
    data: dict[str, object] = {
        "name": words.get("name", kind),
        "time": metres / METRES_PER_MINUTE,
        "traffic": metres * TRAFFIC.get(kind, 0.0),
        "signals": float(sum(sign in ("traffic_signals", "stop") for sign in signs)),
    }
    return data | ({"congestion": 0.5, "delay": 0.5} if "traffic_signals" in signs else {})


def length(places: np.ndarray) -> float:
    """Metres along longitudes and latitudes, on the sphere."""
    longitude, latitude = np.radians(places).T
    middle = np.cos((latitude[1:] + latitude[:-1]) / 2)
    return float(6_371_000 * np.hypot(np.diff(longitude) * middle, np.diff(latitude)).sum())


def district() -> MultiObjectiveMDP:
    """The real district if its extract is there, otherwise a made-up city."""
    folder = os.environ.get("COUNTERPLAY_DATA", "")
    extract = Path(folder) / "west_oakland.osm.bz2"
    if folder and extract.exists():
        return MultiObjectiveMDP.from_road_graph(
            read_street_map(extract),
            1556168378,
            436645490,
            30,
            objectives=["time", "traffic", "signals"],
            costs=["time", "traffic", "signals"],
            forward_only=True,  # streets of different length: every trip must arrive
        )
    goals = ["time", "scenery", "safety"]
    city = instances.city()
    return MultiObjectiveMDP.from_road_graph(
        city, (5, 0), (1, 7), 18, objectives=goals, costs=["time"]
    )


def main() -> None:
    walks = district()
    print(walks)
    people = {"in a hurry": [1.0, 0.0, 0.1], "second goal first": [0.1, 1.0, 0.1]}
    for name, weights in people.items():
        person = LinearPreferenceUser(np.array(weights), eps=1e-4)
        result = answered_by(PolytopeElicitor(walks, random_state=0), person)
        best = float(plan(walks, person.w).scalar_values[0])
        regret = max(0.0, 1 - float(result.value @ person.w) / best)
        print(f"\n{name}: {result.n_queries} questions, true regret {100 * regret:.2f} %")
        trips = expand_and_compress(walks, result.policy)
        print(trips.describe(max_steps=6))
        assert regret <= result.regret_certificate + 1e-9
    trips.plot().figure.savefig("elicitation_streets.png")


if __name__ == "__main__":
    main()
