"""Street maps of OpenStreetMap as road networks.

An extract in OSM XML becomes a directed multigraph: one edge per street between two junctions, with
what a trip along it costs. :func:`from_road_graph` turns that into a decision process.
Source: spec 08 section 9.1; https://wiki.openstreetmap.org/wiki/OSM_XML.
"""

from __future__ import annotations

import bz2
import gzip
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from xml.etree import ElementTree

import numpy as np

from counterplay.core.validation import check_choice
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import networkx as nx

Mode: TypeAlias = Literal["walk", "bike", "drive"]

_SPEED = {"walk": 4.8, "bike": 15.0}  # km/h; cars: by kind of street unless maxspeed is tagged
_DRIVE = {
    "motorway": 100.0,
    "trunk": 80.0,
    "primary": 60.0,
    "secondary": 50.0,
    "tertiary": 50.0,
    "unclassified": 40.0,
    "residential": 30.0,
    "living_street": 10.0,
    "service": 15.0,
}
_TRAFFIC = {
    "motorway": 1.0,
    "trunk": 1.0,
    "primary": 0.9,
    "secondary": 0.7,
    "tertiary": 0.5,
    "unclassified": 0.3,
    "residential": 0.2,
    "service": 0.1,
    "living_street": 0.05,
    "track": 0.05,
}  # share of a street's length that counts as "among cars"; paths of their own: 0
_NOT_ON_FOOT = ("motorway", "trunk", "construction", "proposed", "raceway")
_NOT_BY_BIKE = (*_NOT_ON_FOOT, "steps")
_WAIT = 0.5  # minutes at a red light, every second time


def read_street_map(path: str | Path, *, mode: Mode = "walk") -> nx.MultiDiGraph[Any]:
    """Read an OpenStreetMap extract as a road network.

    Use it with a file from any OSM export (``.osm``, ``.osm.bz2`` or ``.osm.gz``), then
    :func:`from_road_graph` with the junctions one wants to travel between.

    Parameters
    ----------
    path:
        File in OSM XML.
    mode:
        ``"walk"``, ``"bike"`` or ``"drive"``: which streets may be used, how fast, and whether
        one-way streets bind.

    Returns
    -------
    networkx.MultiDiGraph
        Nodes are OSM ids of junctions and ends of streets, with ``pos`` (longitude, latitude).
        Edges have ``name``, ``kind``, ``length`` (m), ``time`` (min), ``traffic`` (m among cars),
        ``signals`` (traffic lights and stop signs passed), and, where there is a light,
        ``congestion`` and ``delay`` (half of the time, half a minute). Only the largest part in
        which every junction can be reached from every other is kept.

    Examples
    --------
    >>> read_street_map("no such file.osm")
    Traceback (most recent call last):
    counterplay.errors.InvalidInputError: there is no street map at no such file.osm
    """
    import networkx as nx

    check_choice(mode, "mode", ("walk", "bike", "drive"))
    nodes, ways = _read(Path(path))
    streets = [way for way in ways if way.open_to(mode)]
    uses = Counter(node for way in streets for node in way.nodes if node in nodes)
    graph: nx.MultiDiGraph[Any] = nx.MultiDiGraph()
    for way in streets:
        for part in _between_junctions(way.nodes, nodes, uses):
            data = _edge(way, [nodes[node] for node in part], mode)
            for direction in way.directions(mode):
                ends = (part[0], part[-1])[::direction]
                graph.add_edge(*ends, **data)
    if not graph:
        raise InvalidInputError(f"{path} has no street that is open to {mode}")
    largest = max(nx.strongly_connected_components(graph), key=lambda part: (len(part), min(part)))
    graph.remove_nodes_from([node for node in graph if node not in largest])
    for node in graph:
        graph.nodes[node]["pos"] = nodes[node].place
    return graph


@dataclass(frozen=True)
class _Node:
    place: tuple[float, float]
    """Longitude and latitude."""
    light: bool
    stop: bool


@dataclass(frozen=True)
class _Way:
    nodes: tuple[int, ...]
    tags: dict[str, str]

    def open_to(self, mode: Mode) -> bool:
        kind = self.tags.get("highway", "")
        if not kind or self.tags.get("area") == "yes" or self.tags.get("access") == "private":
            return False
        if mode == "drive":
            return kind.removesuffix("_link") in _DRIVE
        allowed = self.tags.get("foot" if mode == "walk" else "bicycle") != "no"
        closed = _NOT_ON_FOOT if mode == "walk" else _NOT_BY_BIKE
        return allowed and kind.removesuffix("_link") not in closed

    def directions(self, mode: Mode) -> tuple[int, ...]:
        """1 along the way, -1 against it."""
        oneway = self.tags.get("oneway", "no")
        if self.tags.get("junction") == "roundabout" and oneway == "no":
            oneway = "yes"
        free = mode == "walk" or (mode == "bike" and self.tags.get("oneway:bicycle") == "no")
        if free or oneway in ("no", "false", "0"):
            return (1, -1)
        return (-1,) if oneway in ("-1", "reverse") else (1,)


def _read(path: Path) -> tuple[dict[int, _Node], list[_Way]]:
    if not path.is_file():
        raise InvalidInputError(f"there is no street map at {path}")
    opener: Any = {".bz2": bz2.open, ".gz": gzip.open}.get(path.suffix, open)
    try:
        with opener(path, "rb") as file:
            root = ElementTree.parse(file).getroot()
    except (ElementTree.ParseError, OSError, EOFError) as error:
        raise InvalidInputError(f"{path} is no OSM XML file: {error}") from None
    nodes = {}
    for node in root.iter("node"):
        sign = _tags(node).get("highway", "")
        place = (float(node.attrib["lon"]), float(node.attrib["lat"]))
        nodes[int(node.attrib["id"])] = _Node(place, sign == "traffic_signals", sign == "stop")
    ways = [
        _Way(tuple(int(point.attrib["ref"]) for point in way.iter("nd")), _tags(way))
        for way in root.iter("way")
    ]
    return nodes, ways


def _tags(element: ElementTree.Element) -> dict[str, str]:
    return {tag.attrib["k"]: tag.attrib["v"] for tag in element.iter("tag")}


def _between_junctions(
    line: tuple[int, ...], nodes: dict[int, _Node], uses: Counter[int]
) -> list[list[int]]:
    """Split a way at junctions; points outside the extract end a part."""
    parts: list[list[int]] = []
    part: list[int] = []
    for node in line:
        if node not in nodes:
            parts.append(part)
            part = []
            continue
        part.append(node)
        if uses[node] > 1 and len(part) > 1:
            parts.append(part)
            part = [node]
    return [p for p in [*parts, part] if len(p) > 1]


def _edge(way: _Way, points: list[_Node], mode: Mode) -> dict[str, Any]:
    places = np.array([point.place for point in points])
    metres = _length(places)
    kind = way.tags["highway"].removesuffix("_link")
    light = any(point.light for point in points[1:])
    data = {
        "name": way.tags.get("name", kind),
        "kind": kind,
        "length": metres,
        "time": metres / 1000 / _speed(way, kind, mode) * 60,
        "traffic": metres * _TRAFFIC.get(kind, 0.0),
        "signals": float(sum(point.light or point.stop for point in points[1:])),
    }
    return data | ({"congestion": 0.5, "delay": _WAIT} if light else {})


def _speed(way: _Way, kind: str, mode: Mode) -> float:
    if mode != "drive":
        return _SPEED[mode]
    tagged = way.tags.get("maxspeed", "").split()
    if tagged and tagged[0].isdigit() and int(tagged[0]) > 0:
        return float(tagged[0]) * (1.609344 if tagged[-1] == "mph" else 1.0)
    return _DRIVE[kind]


def _length(places: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Length in metres along longitudes and latitudes, on the sphere."""
    longitude, latitude = np.radians(places).T
    middle = np.cos((latitude[1:] + latitude[:-1]) / 2)
    steps = np.hypot(np.diff(longitude) * middle, np.diff(latitude))
    return float(6_371_000 * steps.sum())
