"""The best score that people can show within a budget: what a model sees when everybody moves.

Where the price of an accepted move answers for one cut, the best shown score answers for all cuts
at once: at budget r exactly those are accepted whose best shown score passes the cut.

Source: "Best shown score", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from counterplay.core.validation import BoolArray, FloatArray, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.strategic.asking import Changes, destinations
from counterplay.strategic.cheapest import check_moves
from counterplay.strategic.fold import Asked
from counterplay.strategic.move_solvers import solver_of
from counterplay.strategic.moves import Moves, check_budgets
from counterplay.tables.cells import shown

CLOSE = 1e-9  # bounds of additive scores that differ by rounding only


@dataclass(frozen=True, eq=False)
class Shown:
    """Best shown scores per person and budget, with certified upper bounds.

    Made by `best_shown`; ``low, high = best_shown(...)`` takes it apart.

    Parameters
    ----------
    low
        ``(n, K)`` the model's own response at a destination within the budget.
    high
        ``(n, K)`` certified upper bounds; equal to ``low`` where the search is closed.
    budget
        The budgets.
    response_method
        What the scores are: ``"decision_function"``, or ``"predict_proba"`` of the wanted class.
    positive
        The wanted class; scores grow towards it.
    method
        How they were found.
    people
        The data, as a frame.
    changes
        Changed cells per budget.
    """

    low: FloatArray
    high: FloatArray
    budget: FloatArray
    response_method: str
    positive: Any
    method: str
    people: pd.DataFrame = field(repr=False)
    changes: list[Changes] = field(repr=False)

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.low, self.high))

    @property
    def exact(self) -> BoolArray:
        """Where the bounds agree."""
        return np.asarray(self.low == self.high, dtype=bool)

    def destination(self, k: int) -> pd.DataFrame:
        """Return where everybody goes at the k-th budget."""
        return destinations(self.people, np.arange(len(self.people)), self.changes[k])


def best_shown(
    model: Any, X: Any, moves: Moves, budget: Any, *, positive: Any = None, nodes: int = 4000
) -> Shown:
    """Return the best score that every person can show within each budget.

    Use it to choose a cut for people who move: at a budget exactly those are accepted whose best
    shown score passes the cut.

    Parameters
    ----------
    model
        Fitted classifier with two classes and a score.
    X
        The people, as in `cheapest_moves`.
    moves
        What people can change, and what it costs.
    budget
        A number, or several.
    positive
        The class people want; may be left out if the classes are 0/1 or False/True.
    nodes
        Most boxes opened per person and budget against tree ensembles.

    Notes
    -----
    Guarantee: ``low <= best score within the budget <= high``, and ``low`` is the model's own
    score of ``destination``, see proposition 20.C.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterplay.strategic import Change
    >>> people = pd.DataFrame({"late": [0.0, 1.0, 3.0, 4.0]})
    >>> model = LogisticRegression().fit(people, [1, 1, 0, 0])
    >>> moves = Moves({"late": Change("down", step=1, cost=2.0, per="unit", low=0)})
    >>> low, high = best_shown(model, people, moves, [0, 2, 5])
    >>> (low.round(1) + 0.0).tolist()
    [[2.0, 2.0, 2.0], [1.0, 2.0, 2.0], [-1.0, 0.0, 1.0], [-2.0, -1.0, 0.0]]
    """
    if not isinstance(moves, Moves):
        raise InvalidInputError(f"moves must be Moves, got {shown(moves)}")
    budgets = check_budgets(budget)
    check_positive_int(nodes, "nodes")
    return shown_scores(Asked(model, X, positive), moves, budgets, nodes)


def shown_scores(asked: Asked, moves: Moves, budgets: FloatArray, nodes: int) -> Shown:
    """Return best shown scores for a model that was read already."""
    method = asked.response_method
    check_moves(asked.frame, moves)
    n = len(asked.frame)
    own = asked.respond(asked.frame)
    solver = solver_of(asked, moves, float(budgets.max()))
    low, high = np.empty((n, budgets.size)), np.empty((n, budgets.size))
    found = solver.best(budgets, nodes)
    for k, candidate in enumerate(found):
        if budgets[k] == 0:  # nobody moves
            low[:, k] = high[:, k] = own
            continue
        goals = destinations(asked.frame, np.arange(n), candidate.changes)
        low[:, k] = np.maximum(own, asked.respond(goals))
        if solver.opened is None:
            roof = candidate.upper
        else:
            near = CLOSE * (1 + np.abs(candidate.lower))
            closed = candidate.upper - candidate.lower <= near
            roof = solver.opened.response(candidate.upper + near, method)
            roof = np.where(closed, low[:, k], roof)
        high[:, k] = np.maximum(roof, low[:, k])
    changes = [c.changes for c in found]
    return Shown(low, high, budgets, method, asked.positive, solver.method, asked.frame, changes)
