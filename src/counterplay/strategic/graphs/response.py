"""What people do on a manipulation graph, and how good a rule is after they have done it.

Source: "Setting" (response, induced label, strategic loss, Stackelberg regret), see
docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    IntArray,
    check_float_array,
    check_int,
    check_labels01,
    shorten,
)
from counterplay.errors import InvalidInputError
from counterplay.strategic.features import ByName, Names, numbers, wanted_rows
from counterplay.strategic.graphs.manipulation_graph import (
    LocalGraph,
    ManipulationGraph,
    check_nodes,
)
from counterplay.tables import FittedModel, Labels, Table

Tie: TypeAlias = "Literal['uniform', 'first'] | Callable[[IntArray], int]"


@checked
def respond(
    labels: ArrayLike,
    x: int,
    graph: ManipulationGraph,
    tie: Tie = "first",
    random_state: RandomState = None,
) -> int:
    """Where an agent at node ``x`` ends up when node z is accepted iff ``labels[z]``.

    Examples
    --------
    >>> graph = ManipulationGraph.from_lists([[1, 2], [], []])
    >>> respond([0, 0, 1], 0, graph), respond([1, 1, 1], 0, graph), respond([0, 0, 0], 0, graph)
    (2, 0, 0)
    """
    accepted = np.asarray(labels, dtype=np.bool_)
    if tie not in ("first", "uniform") and not callable(tie):
        raise InvalidInputError(f"tie must be 'uniform', 'first' or a callable, got {tie!r}")
    if accepted.shape != (graph.n,):
        raise InvalidInputError(f"labels must be one per node ({graph.n}), got {accepted.shape}")
    x = check_int(x, "x", low=0, high=graph.n - 1)
    if accepted[x]:
        return int(x)
    options = graph.neighbors(x)
    options = options[accepted[options]]
    if options.size == 0:
        return int(x)
    if tie == "first":
        return int(options[0])
    if tie == "uniform":
        return int(generator(random_state).choice(options))
    chosen = int(tie(options))
    if chosen not in options:
        raise InvalidInputError(f"the tie rule chose node {chosen}, which is no accepted one")
    return chosen


@checked
def induced_predictions(
    model: Any,
    X: Any,
    graph: ManipulationGraph | LocalGraph | None = None,
    *,
    positive: Any = None,
) -> BoolArray:
    """Whether each person is accepted after moving: max of the rule over N[x].

    ``model`` is a fitted classifier or a function from feature rows to 0/1. The columns of a frame
    are matched by name with those the model was fitted on and the graph was built with.
    ``positive`` is the class people want; it may be left out when the model's classes are 0 and 1.

    Examples
    --------
    >>> line = ManipulationGraph.from_lists([[1], []], features=[[0.0], [1.0]])
    >>> induced_predictions(lambda Z: Z[:, 0] >= 1, [[0.0], [1.0]], line)
    array([ True,  True])
    """
    table = Table.of(X)
    wanted = _wanted(model, positive)
    if graph is None and hasattr(model, "predict"):
        fitted = FittedModel.of(model)
        return fitted.accepts(fitted.table(table), wanted)
    rule = accept_function(model, table.names, wanted)
    if graph is None:
        return rule(numbers(table))
    points, pointers, position = graph.bag_points(table)
    accepted = rule(points)
    result: BoolArray = np.logical_or.reduceat(accepted[position], pointers[:-1])
    return result


@checked
def strategic_accuracy(
    model: Any,
    X: Any,
    y: Any,
    *,
    graph: ManipulationGraph | LocalGraph | None = None,
    sample_weight: Any = None,
    positive: Any = None,
) -> float:
    """Share of people treated right after they have moved; their label does not move with them.

    Use it to compare rules on people who can move along a graph.

    Parameters
    ----------
    model:
        A rule: a fitted classifier, or a function from rows to decisions.
    X:
        True features of the people.
    y:
        Their true labels.
    graph:
        Who can turn into whom; None if nobody moves.
    sample_weight:
        Weight of each person.
    positive:
        The class people want; may be left out when labels are 0 and 1 or True and False.

    Examples
    --------
    >>> line = ManipulationGraph.from_lists([[1], []], features=[[0.0], [1.0]])
    >>> rule = lambda Z: Z[:, 0] >= 1
    >>> strategic_accuracy(rule, [[0.0], [1.0]], [0, 1], graph=line)
    0.5

    References
    ----------
    "Setting", see docs/theory/03-strategic-infinite.md.
    """
    table = Table.of(X, y, sample_weight=sample_weight)
    if table.labels is None:
        raise InvalidInputError("y is needed: one label per row")
    wanted = _wanted(model, positive, table.labels)
    truth = wanted_rows(table.labels, wanted)
    right = induced_predictions(model, table, graph, positive=wanted) == truth
    return float(np.average(right, weights=table.weights))


@checked
def stackelberg_regret(
    losses: ArrayLike,
    nodes: Sequence[int],
    y: ArrayLike,
    cls: FiniteClass,
    graph: ManipulationGraph,
) -> float:
    """Losses made minus those of the best rule, each rule with its own best responses.

    Examples
    --------
    >>> line = ManipulationGraph.from_lists([[1], []])
    >>> rules = FiniteClass.from_matrix([[0, 1], [0, 0]])
    >>> stackelberg_regret([1, 1], [0, 1], [1, 1], rules, line)
    2.0
    """
    where, labels = check_nodes(nodes, graph.n), check_labels01(y).astype(np.bool_)
    made = check_float_array(losses, "losses", ndim=1)
    if not where.shape == labels.shape == made.shape:
        raise InvalidInputError(
            f"losses, nodes and y must have one entry per person, got shapes {made.shape}, "
            f"{where.shape} and {labels.shape}"
        )
    induced = graph.induced(cls.labels)[:, where]
    best = int((induced != labels).sum(axis=1).min(initial=where.size))
    return float(made.sum() - best)


def _wanted(model: Any, positive: Any, labels: Labels | None = None) -> Any:
    """Return the wanted class: the user's, the model's own, or 1; ask where it is not clear."""
    if positive is None:
        positive = getattr(model, "positive_", None)
    if hasattr(model, "predict") and (fitted := FittedModel.of(model)).classes:
        return fitted.positive(positive, labels)
    if labels is not None:
        wanted_rows(labels, positive)  # asks for the wanted one of two words
    return positive


def accept_function(
    model: Any, names: Names = None, positive: Any = None
) -> Callable[[NDArray[np.float64]], BoolArray]:
    """Turn a fitted classifier or a 0/1 function into a boolean function of feature rows.

    ``names`` are those of the rows' columns; a classifier gets them in the order of its own.
    ``positive`` is its wanted class.
    """
    predict = getattr(model, "predict", None)
    if isinstance(model, type) or (predict is None and not callable(model)):
        raise InvalidInputError(
            f"a fitted classifier or a function is needed, got {shorten(model, 100)}"
        )
    rule = model if predict is None else ByName(model, names).predict
    classes = getattr(model, "classes_", None)
    wanted = 1 if classes is None else _wanted(model, positive)

    def accept(Z: NDArray[np.float64]) -> BoolArray:
        labels = np.asarray(rule(Z))
        if labels.shape != (len(Z),):
            raise InvalidInputError(
                f"the rule returned shape {labels.shape} for {len(Z)} rows; expected one label each"
            )
        if classes is None and (
            labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all()
        ):
            raise InvalidInputError("the rule returned labels other than 0 and 1")
        return np.asarray(labels == wanted, dtype=np.bool_)

    return accept
