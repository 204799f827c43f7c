"""GuardedShadow: nobody does more work than alone, whichever labeling is the right one.

Each agent's baseline runs as a shadow that passes every question whose answer the others' answers
imply. Only stuck questions are put, and others where free answers have made up for them.
Source: docs/theory/24-campaign.md, Theorem 24.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState
from counterplay.core.validation import IntArray, check_int
from counterplay.core.version_space import VersionSpace
from counterplay.errors import InvalidInputError, NotRealizableError, ProtocolError
from counterplay.labeling.algorithm import Query, QueryAlgorithm, State, expected, run_costs
from counterplay.labeling.gbs import label_masses, smaller_sides
from counterplay.labeling.model import Members, PoolProblem

Order = tuple[int, ...] | Literal["best", "interleaved"]
_MOST_ORDERED = 4


@checked
class GuardedShadow(QueryAlgorithm):
    """Protocol under which no agent makes more queries than alone, whichever labeling is right.

    Use it when parties must not lose in any single campaign; :class:`B2IR` guarantees this in
    expectation only, for a slightly smaller total.

    Parameters
    ----------
    baseline:
        What every agent would run alone; it must be deterministic.
    order:
        ``"interleaved"`` puts the question that splits the labelings best, a tuple of agents serves
        one after the other, ``"best"`` takes the smallest expected total of all these (up to four
        agents, otherwise interleaved).

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> problem = instances.threshold_example()
    >>> GuardedShadow(GBS(tie_break=[1, 3, 6])).expected_costs(problem).astype(float).tolist()
    [1.0, 1.0]

    References
    ----------
    Theorem 24.3, see docs/theory/24-campaign.md.
    """

    def __init__(
        self,
        baseline: QueryAlgorithm,
        order: tuple[int, ...] | Literal["best", "interleaved"] = "best",
    ) -> None:
        if not baseline.deterministic:
            raise InvalidInputError(f"the baseline must be deterministic, got {baseline!r}")
        self.baseline = baseline
        named = order if isinstance(order, str) else tuple(check_int(a, "order") for a in order)
        self.order: Order = named
        self._best: dict[int, tuple[PoolProblem, tuple[int, ...], Order]] = {}

    @checked
    def start(
        self, problem: PoolProblem, coalition: Members = None, random_state: RandomState = None
    ) -> GuardedState:
        """Begin a run."""
        members = problem.check_coalition(coalition)
        order = self._order(problem, members)
        return GuardedState(problem, members, self.baseline, order)

    @checked
    def cost_matrix(self, problem: PoolProblem, coalition: Members = None) -> NDArray[Any]:
        """Queries of each agent for each target, by running the protocol on it."""
        members = problem.check_coalition(coalition)
        return self._costs(problem, members, self._order(problem, members))

    def __repr__(self) -> str:
        return f"GuardedShadow({self.baseline!r}, order={self.order!r})"

    def _costs(self, problem: PoolProblem, members: tuple[int, ...], order: Order) -> NDArray[Any]:
        fixed = GuardedShadow(self.baseline, order)
        return np.stack([run_costs(fixed, problem, h, members) for h in range(problem.N)])

    def _order(self, problem: PoolProblem, members: tuple[int, ...]) -> Order:
        """The order for a problem; the best one is searched once."""
        if self.order != "best":
            if self.order != "interleaved" and sorted(self.order) != sorted(members):
                raise InvalidInputError(f"order must name the agents {members}, got {self.order}")
            return self.order
        if len(members) > _MOST_ORDERED:
            return "interleaved"
        known = self._best.get(id(problem))
        if known is None or known[0] is not problem or known[1] != members:
            choices: list[Order] = ["interleaved", *permutations(members)]
            totals = [
                float(expected(problem, self._costs(problem, members, order)).sum())
                for order in choices
            ]
            known = problem, members, choices[int(np.argmin(np.round(totals, 12)))]
            self._best[id(problem)] = known
        return known[2]


class GuardedState(State):
    """A run of :class:`GuardedShadow`."""

    def __init__(
        self,
        problem: PoolProblem,
        members: tuple[int, ...],
        baseline: QueryAlgorithm,
        order: Order,
    ) -> None:
        self.problem, self.members, self.order = problem, members, order
        self._space: VersionSpace = problem.version_space()
        self._shadows = {i: baseline.start(problem, (i,)) for i in members}
        self._passed = dict.fromkeys(members, 0)
        self._put = dict.fromkeys(members, 0)
        columns = np.unique(np.concatenate([problem.agents[i] for i in members]))
        self._columns: IntArray = columns.astype(np.int64)
        self._asked: Query | None = None
        self._pass_implied()

    @property
    def rows(self) -> IntArray:
        """Rows that agree with every answer so far."""
        return self._space.alive

    def next_query(self) -> Query | None:
        """The allowed question that splits the labelings best; None when all are known."""
        if self._asked is None:
            self._asked = self._choose()
        return self._asked

    def update(self, x: int, y: int) -> None:
        """Take an answer; every shadow passes what it implies."""
        query = self.next_query()
        if query is None or query[1] != x:
            raise ProtocolError(f"column {x} was not asked; answer the column of next_query()")
        try:
            self._space.observe_mask(self.problem.H[:, x] == y)
        except NotRealizableError:
            raise NotRealizableError(
                f"label {y} of point {x} (agent {query[0]}) contradicts every labeling that is "
                "still possible; check the label or use a larger class",
                item=x,
            ) from None
        self._put[query[0]] += 1
        self._asked = None
        self._pass_implied()

    def _pass_implied(self) -> None:
        """Feed the shadows every answer that all remaining labelings agree on."""
        labels = self.problem.H[self._space.alive]
        same = (labels == labels[0]).all(axis=0)
        self._open = self._columns[~same[self._columns]]
        for i, shadow in self._shadows.items():
            while (query := shadow.next_query()) is not None and same[query[1]]:
                shadow.update(query[1], int(labels[0, query[1]]))
                self._passed[i] += 1

    def _choose(self) -> Query | None:
        if not self._open.size:
            return None
        agents: Sequence[int] = self.members
        if isinstance(self.order, tuple):
            agents = [i for i in self.order if self._shadows[i].next_query() is not None][:1]
        candidates: list[Query] = []
        for i in agents:
            stuck = self._shadows[i].next_query()
            if stuck is None:
                continue
            candidates.append((i, stuck[1]))
            if self._put[i] + 1 <= self._passed[i]:  # free answers have made up for it
                mine = np.intersect1d(self._open, self.problem.agents[i])
                candidates += [(i, int(x)) for x in mine if x != stuck[1]]
        alive = self._space.alive
        weights = self.problem.prior[alive].astype(np.float64)
        points = np.array([x for _, x in candidates])
        masses = label_masses(
            self.problem.H[alive][:, points], weights / weights.sum(), self.problem.n_classes
        )
        split = np.round(smaller_sides(masses), 12)
        # largest smaller side, then the least loaded agent, then the numbers
        ranked = min(
            range(len(candidates)),
            key=lambda c: (-split[c], self._put[candidates[c][0]], candidates[c]),
        )
        return candidates[ranked]
