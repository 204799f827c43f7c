"""The benchmark: one option that is provably worth a fair share of the best one.

Among the best options of the single objectives, keep the one the user prefers. Switching needs a
strict preference, so the loss does not add up over the comparisons.
Source: Algorithm 8.1, step 1; Lemma 8.1; docs/theory/08-elicitation.md, "Benchmark and basis
(Algorithm 8.1)".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray
from counterplay.elicitation.comparisons import Answer, Procedure, Query, User
from counterplay.elicitation.oracles import LinearOracle
from counterplay.elicitation.sessions import ProcedureSession, answered_by
from counterplay.elicitation.showroom import Showroom
from counterplay.errors import InfeasibleError


@dataclass(frozen=True, eq=False)
class Benchmark:
    """The benchmark option and how it was found."""

    index: int
    """Objective whose best option it is."""
    item: Any
    value: FloatArray
    n_queries: int


@checked
def find_benchmark(oracle: LinearOracle, user: User) -> Benchmark:
    """Find an option worth at least ``v*/k - eps`` to the user, with k-1 questions.

    Parameters
    ----------
    oracle:
        The options.
    user:
        Anyone with ``compare``.

    Returns
    -------
    Benchmark
        With ``x = <w*, value> >= max_j <w*, V^{e_j}> - eps >= v*/k - eps``; hence ``v*/x <= 2k``
        whenever ``eps <= v*/(2k)`` (Lemma 8.1).

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser, instances
    >>> from counterplay.elicitation.lab import MDPOracle
    >>> oracle = MDPOracle(instances.linear_dependence())
    >>> find_benchmark(oracle, LinearPreferenceUser([1, 1, 1], eps=1e-3)).index
    1
    """
    items, values = single_objective_best(oracle)
    session = ProcedureSession(lambda: benchmark_procedure(Showroom(oracle), items, values))
    found: Benchmark = answered_by(session, user)
    return found


def single_objective_best(oracle: LinearOracle) -> tuple[list[Any], FloatArray]:
    """Return the best item of each single objective, in one batched call."""
    items, values = oracle.argmax(np.eye(oracle.k))
    if not values.any():
        raise InfeasibleError(
            "every option has value 0 in every objective, so there is no benchmark"
        )
    return items, values


def benchmark_procedure(
    showroom: Showroom, items: list[Any], values: FloatArray
) -> Procedure[Benchmark]:
    """Compare the best so far with each single-objective option: k-1 questions."""
    best = 0
    for j in range(1, len(items)):
        answer = yield Query(
            showroom.option(items[best], values[best]),
            showroom.option(items[j], values[j]),
            reason=(
                f"one option is best for {showroom.objective_name(best)}, the other for "
                f"{showroom.objective_name(j)}; the one you prefer becomes the yardstick"
            ),
            purpose="benchmark",
        )
        if answer is Answer.SECOND:
            best = j
    return Benchmark(best, items[best], values[best], len(items) - 1)
