"""The exact value of tiny games: how many mistakes are unavoidable.

The state is the version space under :func:`safe_filter`. With x first the adversary picks x, the
learner a distance, the adversary the outcome; with x afterwards the learner picks a set of accepted
points before x is known. An oracle for tests, and for understanding small examples.

Source: Proposition 2.J, see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from itertools import product

import numpy as np

from counterplay.core.bits import mask_to_int
from counterplay.core.finite_class import FiniteClass
from counterplay.core.setting import Setting
from counterplay.core.validation import BoolArray, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.strategic.filters import safe_filter
from counterplay.strategic.finite_classes import FiniteMetricClass
from counterplay.strategic.graphs.graph_game import GraphApplicants
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph
from counterplay.strategic.learner import StrategicLearner
from counterplay.strategic.settings import (
    FEATURES_AFTER,
    FEATURES_AFTER_GRAPH,
    FEATURES_FIRST,
    FEATURES_FIRST_GRAPH,
    applicant_setting,
    graph_setting,
)

_MAX_POINTS, _MAX_RULES = 14, 16
_MOST_NODES = 12


def minimax_mistakes(
    hypotheses: FiniteMetricClass | FiniteClass,
    setting: Setting | str,
    *,
    graph: ManipulationGraph | None = None,
) -> int:
    """Return the minimax number of mistakes of a tiny realizable game, exactly.

    Parameters
    ----------
    hypotheses:
        At most 16 rules on at most 14 points with distances, or rules on the nodes of a graph.
    setting:
        ``"features_first"`` or ``"features_after"``; with a graph the same with the graph known.
    graph:
        The manipulation graph, of at most 12 nodes, if the rules are on its nodes.

    Notes
    -----
    Best deterministic learner against the worst adaptive adversary. Seeing x first never hurts:
    value(x first) <= floor(log2 n) and <= value(x afterwards) <= n - 1.

    Examples
    --------
    Five singletons on a star: one mistake if x is seen first, four if it is seen afterwards.

    >>> from counterplay.strategic import instances
    >>> star = instances.star_instance(5).hypotheses
    >>> minimax_mistakes(star, "features_first"), minimax_mistakes(star, "features_after")
    (1, 4)

    On a graph the direction of the arcs matters:

    >>> [minimax_mistakes(i.hypotheses, "features_after, graph known", graph=i.graph) for i in
    ...  (instances.star_singletons(3), instances.star_singletons(3, directed=True))]
    [2, 1]
    """
    if isinstance(hypotheses, FiniteClass):
        if graph is None:
            raise InvalidInputError("rules on the nodes of a graph need graph=")
        return _minimax_on_graph(hypotheses, graph, graph_setting(setting))
    if graph is not None:
        raise InvalidInputError("rules with distances have no graph; leave graph= out")
    catalogue = hypotheses
    if catalogue.size > _MAX_POINTS or catalogue.n > _MAX_RULES:
        raise InvalidInputError(
            f"the solver handles at most {_MAX_POINTS} points and {_MAX_RULES} rules, got "
            f"{catalogue.size} and {catalogue.n}"
        )
    chosen = applicant_setting(setting)
    if chosen not in (FEATURES_FIRST, FEATURES_AFTER):
        raise InvalidInputError(
            "the solver knows the settings 'features_first' and 'features_after', got "
            f"{chosen.name!r}"
        )
    solver = _Game(catalogue)
    everything = (1 << catalogue.n) - 1
    value = solver.value_x_first if chosen == FEATURES_FIRST else solver.value_x_after
    return int(value(everything))


class _Game:
    """Memoised recursion over version spaces, written as bit sets."""

    def __init__(self, catalogue: FiniteMetricClass) -> None:
        self.table = catalogue.table
        self.metric = catalogue.metric.table
        self.size, self.n = self.table.shape
        self.value_x_first = lru_cache(maxsize=None)(self._value_x_first)
        self.value_x_after = lru_cache(maxsize=None)(self._value_x_after)
        self.survivors = lru_cache(maxsize=None)(self._survivors)
        self.published = self._published_distances()

    def _published_distances(self) -> list[tuple[float, ...]]:
        """Return the distances of all points to every set of accepted points."""
        rows = set()
        for subset in range(1 << self.size):
            points = [i for i in range(self.size) if subset >> i & 1]
            d = self.metric[:, points].min(axis=1) if points else np.full(self.size, np.inf)
            rows.add(tuple(d.tolist()))
        return sorted(rows)

    def _survivors(self, x: int, rho: float) -> tuple[tuple[int, int], ...]:
        """Return (mistake, rules kept) for every outcome possible at distance ``rho``."""
        outcomes = []
        for y in (0, 1):
            for yhat in (0, 1):
                if (rho == 0 and yhat == 0) or (math.isinf(rho) and yhat == 1):
                    continue
                keep: BoolArray = safe_filter(self.table[x], rho, y, yhat)
                outcomes.append((int(y != yhat), mask_to_int(keep)))
        return tuple(outcomes)

    def _worst(self, space: int, x: int, rho: float, after: bool) -> float:
        """Return the adversary's best outcome; a mistake that teaches nothing counts infinite."""
        worst = 0.0
        value = self.value_x_after if after else self.value_x_first
        for mistake, keep in self.survivors(x, rho):
            rest = space & keep
            if rest == 0 or (rest == space and not mistake):
                continue
            worst = max(worst, math.inf if rest == space else mistake + value(rest))
        return worst

    def _value_x_first(self, space: int) -> float:
        distances = [sorted({*self.metric[x].tolist(), math.inf}) for x in range(self.size)]
        return max(
            min(self._worst(space, x, rho, after=False) for rho in distances[x])
            for x in range(self.size)
        )

    def _value_x_after(self, space: int) -> float:
        best = math.inf
        for row in self.published:
            worst = 0.0
            for x in range(self.size):
                worst = max(worst, self._worst(space, x, row[x], after=True))
                if worst >= best:
                    break
            best = min(best, worst)
        return best


def worst_case_mistakes_on_graph(
    learner: StrategicLearner,
    hypotheses: FiniteClass,
    graph: ManipulationGraph,
    setting: Setting | str,
    *,
    most: int = 200,
) -> int:
    """Most mistakes any realizable sequence of agents can cause, over all tie-breaks.

    Only rounds with a mistake matter for a conservative learner, so the search follows those.

    Examples
    --------
    >>> from counterplay.core.online import SOA
    >>> from counterplay.strategic import instances
    >>> from counterplay.strategic.lab import Red2OnlineFI
    >>> instance = instances.binary_code_instance(4, 1)
    >>> learner = Red2OnlineFI(SOA(instance.hypotheses))
    >>> worst_case_mistakes_on_graph(
    ...     learner, instance.hypotheses, instance.graph, "features_first, graph known")
    2
    """
    check_positive_int(most, "most")
    induced = graph.induced(hypotheses.labels)
    everything = np.ones(len(hypotheses), dtype=np.bool_)
    return _search(
        learner, everything, induced, graph, GraphApplicants(graph, [], [], setting=setting), most
    )


def _search(
    learner: StrategicLearner,
    alive: BoolArray,
    induced: BoolArray,
    graph: ManipulationGraph,
    game: GraphApplicants,
    most: int,
) -> int:
    if most == 0:
        raise InvalidInputError("more mistakes than the search allows; raise `most`")
    worst = 0
    for x in range(graph.n):
        for y in (0, 1):
            left = alive & (induced[:, x] == bool(y))
            if not left.any():
                continue
            for after_learner in _mistakes(learner, graph, game, x, y):
                deeper = _search(after_learner, left, induced, graph, game, most - 1)
                worst = max(worst, 1 + deeper)
    return worst


def _mistakes(
    learner: StrategicLearner, graph: ManipulationGraph, game: GraphApplicants, x: int, y: int
) -> list[StrategicLearner]:
    """The learner after each way in which agent (x, y) makes it err."""
    trial = learner.copy()
    rule = np.asarray(trial.act(game.announce(x)), dtype=np.bool_)
    if rule[x]:
        places = [x]
    else:
        options = graph.neighbors(x)
        places = options[rule[options]].tolist() or [x]
    results = []
    for v in places:
        if int(rule[v]) == y:
            continue
        state = trial.copy()
        state.observe(game.reveal(x, int(v), int(rule[v]), y, state.needs))
        results.append(state)
    return results


def _minimax_on_graph(hypotheses: FiniteClass, graph: ManipulationGraph, setting: Setting) -> int:
    """Fewest mistakes the best deterministic learner on a known graph can guarantee."""
    if setting not in (FEATURES_FIRST_GRAPH, FEATURES_AFTER_GRAPH):
        raise InvalidInputError(
            "on graphs the solver knows the settings 'features_first, graph known' and "
            f"'features_after, graph known', got {setting.name!r}"
        )
    if graph.n > _MOST_NODES:
        raise InvalidInputError(f"the minimax solver handles at most {_MOST_NODES} nodes")
    induced = graph.induced(hypotheses.labels)
    rules = [np.array(bits, dtype=np.bool_) for bits in product((0, 1), repeat=graph.n)]
    outcomes = [graph.induced(rule[None, :])[0] for rule in rules]
    distinct = np.unique(np.array(outcomes), axis=0)
    masks = [_mask(induced[:, x]) for x in range(graph.n)]
    full = (1 << len(hypotheses)) - 1

    @cache
    def value(alive: int) -> int:
        if alive & (alive - 1) == 0:  # a single rule is left: it makes no mistakes
            return 0
        if setting == FEATURES_FIRST_GRAPH:
            return max((_fi_node(alive, x) for x in range(graph.n)), default=0)
        return min(_after_rule(alive, rule) for rule in distinct)

    def _fi_node(alive: int, x: int) -> int:
        yes, no = alive & masks[x], alive & ~masks[x]
        if not yes or not no:
            return 0
        return 1 + min(value(yes), value(no))

    def _after_rule(alive: int, accepted: BoolArray) -> int:
        worst = 0
        for x in range(graph.n):
            wrong = alive & ~masks[x] if accepted[x] else alive & masks[x]
            if wrong:
                if wrong == alive:
                    return 10**6  # repeating this rule errs for ever
                worst = max(worst, 1 + value(wrong))
        return worst

    return value(full)


def _mask(column: BoolArray) -> int:
    return sum(1 << i for i, bit in enumerate(column.tolist()) if bit)
