"""Trips through a road network as a decision process.

Every edge is an action. Its attributes are what the trip pays or costs. Edges with a congestion
probability may lead into a jam, which costs extra and then ends at the same place.
Source: docs/theory/08-elicitation.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from counterplay.core.validation import FloatArray, check_positive_int
from counterplay.elicitation.mdp import MultiObjectiveMDP, add_do_nothing
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import networkx as nx


def read_road_graph(
    graph: nx.MultiDiGraph[Any],
    source: Any,
    target: Any,
    horizon: int,
    *,
    objectives: Sequence[str],
    costs: Sequence[str],
    congestion: str,
    delay: str,
    delayed: str | None,
    forward_only: bool,
) -> MultiObjectiveMDP:
    """Return the process of a trip; see :meth:`MultiObjectiveMDP.from_road_graph`."""
    import networkx as nx

    steps = check_positive_int(horizon, "horizon")
    for name, node in (("source", source), ("target", target)):
        if node not in graph:
            raise InvalidInputError(f"the {name} {node!r} is not a node of the road network")
    unknown = [name for name in costs if name not in objectives]
    if unknown:
        raise InvalidInputError(f"costs names {unknown[0]!r}, which is not among the objectives")
    directed = graph if graph.is_directed() else graph.to_directed()
    if not nx.has_path(directed, source, target):
        raise InvalidInputError(f"there is no way from {source!r} to {target!r}")
    if forward_only:
        directed = _forward(directed, source, target, costs[0] if costs else None)
        _check_longest(directed, congestion, steps)
    objective = delayed or (costs[0] if costs else None)
    network = _Network(directed, tuple(objectives), congestion, delay, objective)
    network.walk(source, target)
    return network.process(steps, tuple(costs))


def _forward(graph: Any, source: Any, target: Any, weight: str | None) -> Any:
    """The part of the graph whose edges come closer to the target."""
    import networkx as nx

    left = nx.single_source_dijkstra_path_length(
        graph.reverse(copy=False), target, weight=weight or (lambda *_: 1)
    )
    onwards = nx.MultiDiGraph()
    onwards.add_nodes_from([source, target])
    for tail, head, data in graph.edges(data=True):
        if head in left and left[head] < left[tail]:
            onwards.add_edge(tail, head, **data)
    return onwards.subgraph(nx.descendants(onwards, source) | {source}).copy()


def _check_longest(onwards: Any, congestion: str, horizon: int) -> None:
    """Raise unless the longest trip fits into the horizon."""
    import networkx as nx

    jams = any(data.get(congestion, 0.0) for *_, data in onwards.edges(data=True))
    longest = nx.dag_longest_path_length(nx.DiGraph(onwards.edges()))
    needed = longest * (2 if jams else 1)
    if horizon < needed:
        raise InvalidInputError(
            f"the longest trip takes {needed} steps, jams included, but the horizon is {horizon}; "
            "raise it"
        )


@dataclass
class _Network:
    """States are nodes and jams; collects transitions and rewards."""

    graph: Any
    objectives: tuple[str, ...]
    congestion: str
    delay: str
    delayed: str | None
    states: list[Any] = field(default_factory=list)
    rows: list[list[tuple[FloatArray, dict[int, float]]]] = field(default_factory=list)
    stuck: list[int] = field(default_factory=list)
    target: int = -1
    _number: dict[Any, int] = field(default_factory=dict)

    def walk(self, source: Any, target: Any) -> None:
        """Collect everything that can be reached from the source."""
        self._state(source)
        self.target = self._state(target)
        position = 0
        while position < len(self.states):
            state = self.states[position]
            if position == self.target:
                self.rows[position] = [(np.zeros(len(self.objectives)), {position: 1.0})]
            elif not isinstance(state, _Jam):
                self._leave(position, state)
            position += 1

    def _state(self, key: Any) -> int:
        if key not in self._number:
            self._number[key] = len(self.states)
            self.states.append(key)
            self.rows.append([])
        return self._number[key]

    def _leave(self, position: int, node: Any) -> None:
        for _, head, key, data in _edges(self.graph, node):
            amounts = np.array([float(data.get(name, 0.0)) for name in self.objectives])
            chance = float(data.get(self.congestion, 0.0))
            if not 0 <= chance <= 1:
                raise InvalidInputError(
                    f"the edge {node!r} -> {head!r} has {self.congestion} {chance:g}, "
                    "which is no probability"
                )
            arrival = self._state(head)
            if chance == 0:
                self.rows[position].append((amounts, {arrival: 1.0}))
                continue
            jam = self._state(_Jam(node, head, key))
            extra = np.zeros(len(self.objectives))
            if self.delayed is not None:
                extra[self.objectives.index(self.delayed)] = float(data.get(self.delay, 0.0))
            self.rows[jam] = [(extra, {arrival: 1.0})]
            self.rows[position].append((amounts, {arrival: 1.0 - chance, jam: chance}))
        if not self.rows[position]:
            self.stuck.append(position)

    def process(self, horizon: int, costs: tuple[str, ...]) -> MultiObjectiveMDP:
        """Return the decision process."""
        cost_columns = [self.objectives.index(name) for name in costs]
        largest = np.zeros(len(self.objectives))
        for options in self.rows:
            for amounts, _ in options:
                largest = np.maximum(largest, amounts)
        for position in self.stuck:  # a dead end costs as much as possible, for ever
            worst = np.where(np.isin(np.arange(len(largest)), cost_columns), largest, 0.0)
            self.rows[position] = [(worst, {position: 1.0})]
        n, a = len(self.states), max(len(options) for options in self.rows)
        rewards = np.zeros((n, a, len(self.objectives)))
        mask = np.zeros((n, a), dtype=bool)
        row, column, data = [], [], []
        for s, options in enumerate(self.rows):
            for action, (amounts, successors) in enumerate(options):
                rewards[s, action], mask[s, action] = amounts, True
                for successor, probability in successors.items():
                    row.append(s * a + action)
                    column.append(successor)
                    data.append(probability)
        process = MultiObjectiveMDP(
            sparse.csr_array((data, (row, column)), shape=(n * a, n)),
            rewards,
            H=horizon,
            action_mask=mask,
            costs=cost_columns,
            rescale=True,
            objective_names=self.objectives,
            state_names=tuple(str(state) for state in self.states),
        )
        return add_do_nothing(process)


@dataclass(frozen=True)
class _Jam:
    """Being stuck on one edge."""

    tail: Any
    head: Any
    key: Any

    def __str__(self) -> str:
        return f"jam {self.tail}-{self.head}"


def _edges(graph: Any, node: Any) -> list[tuple[Any, Any, Any, dict[str, Any]]]:
    if graph.is_multigraph():
        return list(graph.out_edges(node, keys=True, data=True))
    return [(tail, head, 0, data) for tail, head, data in graph.out_edges(node, data=True)]
