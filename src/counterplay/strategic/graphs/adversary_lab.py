"""The adversary lab: worst cases by exhaustive search on tiny instances.

Use it to see how many mistakes a learner really makes in the worst case, and what any learner must
make. Source: spec 03, sections 4.3 and 6 (checks 8 and 9).
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import BoolArray, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.strategic.graphs.environment import GraphGame, GraphLearner, Mode
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph

_MOST_NODES = 12


def worst_case_mistakes_on_graph(
    learner: GraphLearner,
    hypotheses: FiniteClass,
    graph: ManipulationGraph,
    mode: Mode,
    *,
    most: int = 200,
) -> int:
    """Most mistakes any realizable sequence of agents can cause, over all tie-breaks.

    Only rounds with a mistake matter for a conservative learner, so the search follows those.

    Examples
    --------
    >>> from counterplay.core.online import SOA
    >>> from counterplay.strategic import Red2OnlineFI, graph_instances
    >>> instance = graph_instances.binary_code_instance(4, 1)
    >>> learner = Red2OnlineFI(SOA(instance.hypotheses))
    >>> worst_case_mistakes_on_graph(learner, instance.hypotheses, instance.graph, Mode.FI)
    2
    """
    check_positive_int(most, "most")
    induced = graph.induced(hypotheses.labels)
    everything = np.ones(len(hypotheses), dtype=np.bool_)
    return _search(learner, everything, induced, graph, GraphGame(graph, mode), most)


def _search(
    learner: GraphLearner,
    alive: BoolArray,
    induced: BoolArray,
    graph: ManipulationGraph,
    game: GraphGame,
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
    learner: GraphLearner, graph: ManipulationGraph, game: GraphGame, x: int, y: int
) -> list[GraphLearner]:
    """The learner after each way in which agent (x, y) makes it err."""
    trial = learner.copy()
    rule = np.asarray(trial.publish(game.announce(x), graph.n), dtype=np.bool_)
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
        state.observe(game.reveal(x, int(v), int(rule[v]), y, state.mode))
        results.append(state)
    return results


def minimax_mistakes(hypotheses: FiniteClass, graph: ManipulationGraph, mode: Mode) -> int:
    """Fewest mistakes the best deterministic learner can guarantee: the value of the game.

    Supports FI and PMF_X (features revealed before, or after, the decision).

    Examples
    --------
    >>> from counterplay.strategic import graph_instances
    >>> [minimax_mistakes(i.hypotheses, i.graph, Mode.PMF_X) for i in
    ...  (graph_instances.star_singletons(3), graph_instances.star_singletons(3, directed=True))]
    [2, 1]
    """
    if mode not in (Mode.FI, Mode.PMF_X):
        raise InvalidInputError("the minimax solver knows the modes FI and PMF_X")
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
        if mode is Mode.FI:
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
