"""The exact value of tiny games: how many mistakes are unavoidable.

The state is the version space, under :func:`safe_filter` where radii are unknown. With x first the
adversary picks x, the learner a decision, the adversary the outcome; with x afterwards the learner
picks a whole rule before x is known. An oracle for tests, and for understanding small examples.

Source: Proposition 2.J, see docs/theory/02-strategic-finite.md; Proposition 3.H, see
docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from counterplay.core.arguments import checked
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


@checked
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
        known = graph_setting(setting)
        if known not in (FEATURES_FIRST_GRAPH, FEATURES_AFTER_GRAPH):
            raise InvalidInputError(
                "on graphs the solver knows the settings 'features_first, graph known' and "
                f"'features_after, graph known', got {known.name!r}"
            )
        if graph.n > _MOST_NODES:
            raise InvalidInputError(f"the minimax solver handles at most {_MOST_NODES} nodes")
        first = known == FEATURES_FIRST_GRAPH
        return _graph_game(hypotheses, graph).value(len(hypotheses), first=first)
    if graph is not None:
        raise InvalidInputError("rules with distances have no graph; leave graph= out")
    if hypotheses.size > _MAX_POINTS or hypotheses.n > _MAX_RULES:
        raise InvalidInputError(
            f"the solver handles at most {_MAX_POINTS} points and {_MAX_RULES} rules, got "
            f"{hypotheses.size} and {hypotheses.n}"
        )
    chosen = applicant_setting(setting)
    if chosen not in (FEATURES_FIRST, FEATURES_AFTER):
        raise InvalidInputError(
            "the solver knows the settings 'features_first' and 'features_after', got "
            f"{chosen.name!r}"
        )
    return _catalogue_game(hypotheses).value(hypotheses.n, first=chosen == FEATURES_FIRST)


@dataclass(frozen=True)
class _Game:
    """A tiny game: what may be published, and what each decision about an agent can lead to.

    Attributes
    ----------
    published:
        Every rule as one choice per point: all that matters for an agent there.
    choices:
        Per point, the choices that some rule makes there.
    outcomes:
        ``outcomes(x, choice)`` lists (mistake, rules that survive) as bit sets.
    """

    published: Sequence[tuple[float, ...]]
    choices: Sequence[Sequence[float]]
    outcomes: Callable[[int, float], tuple[tuple[int, int], ...]]

    def value(self, n: int, *, first: bool) -> int:
        """Minimax mistakes with n rules: memoised recursion over version spaces."""
        outcomes = cache(self.outcomes)

        @cache
        def value(space: int) -> float:
            points = range(len(self.choices))
            if first:
                return max(min(worst(space, x, c) for c in self.choices[x]) for x in points)
            best = math.inf
            for rule in self.published:
                most = 0.0
                for x in points:
                    most = max(most, worst(space, x, rule[x]))
                    if most >= best:
                        break
                best = min(best, most)
            return best

        def worst(space: int, x: int, choice: float) -> float:
            """The adversary's best outcome; a mistake that teaches nothing counts infinite."""
            most = 0.0
            for mistake, keep in outcomes(x, choice):
                rest = space & keep
                if rest and (mistake or rest != space):
                    most = max(most, math.inf if rest == space else mistake + value(rest))
            return most

        return int(value((1 << n) - 1))


def _catalogue_game(catalogue: FiniteMetricClass) -> _Game:
    """A choice is the distance of the agent to the published rule; her radius is unknown."""
    metric, size = catalogue.metric.table, catalogue.size
    rows = {(math.inf,) * size}
    for subset in range(1, 1 << size):
        points = [i for i in range(size) if subset >> i & 1]
        rows.add(tuple(metric[:, points].min(axis=1).tolist()))

    def outcomes(x: int, rho: float) -> tuple[tuple[int, int], ...]:
        return tuple(
            (int(y != yhat), mask_to_int(safe_filter(catalogue.table[x], rho, y, yhat)))
            for y, yhat in product((0, 1), repeat=2)
            if not (rho == 0 and yhat == 0) and not (math.isinf(rho) and yhat == 1)
        )

    choices = [sorted({*metric[x].tolist(), math.inf}) for x in range(size)]
    return _Game(sorted(rows), choices, outcomes)


def _graph_game(hypotheses: FiniteClass, graph: ManipulationGraph) -> _Game:
    """A choice is whether the agent is accepted after her move, along known arcs."""
    masks = [mask_to_int(column) for column in graph.induced(hypotheses.labels).T]
    everything = (1 << len(hypotheses)) - 1
    rules = np.array(list(product((0, 1), repeat=graph.n)), dtype=np.bool_)
    published = np.unique(graph.induced(rules), axis=0)

    def outcomes(x: int, accepted: float) -> tuple[tuple[int, int], ...]:
        yes = masks[x]
        return (int(not accepted), yes), (int(accepted), everything & ~yes)

    return _Game([tuple(row) for row in published.tolist()], [(0, 1)] * graph.n, outcomes)


@checked
def worst_case_mistakes(
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
    >>> from counterplay.strategic.lab import SOA
    >>> from counterplay.strategic import instances
    >>> from counterplay.strategic.lab import Red2OnlineFI
    >>> instance = instances.binary_code_instance(4, 1)
    >>> learner = Red2OnlineFI(SOA(instance.hypotheses))
    >>> worst_case_mistakes(
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
