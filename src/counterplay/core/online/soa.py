"""The standard optimal algorithm: keep the side with the larger Littlestone dimension."""

from __future__ import annotations

from counterplay.core.arguments import checked
from counterplay.core.bits import Words
from counterplay.core.dimensions.littlestone import LittlestoneSolver
from counterplay.core.finite_class import FiniteClass
from counterplay.core.online.copyable import VersionSpaceLearner


@checked
class SOA(VersionSpaceLearner):
    """Standard optimal algorithm of a finite class; fewest worst-case mistakes of all learners.

    Use it on classes with small Littlestone dimension, also very large ones when the dimension is
    small; otherwise :class:`Halving` is cheaper. Copies share one solver, so that questions about
    the same version space are answered once.

    Parameters
    ----------
    hypotheses:
        The class.
    tie:
        Label predicted when both labels leave the same Littlestone dimension.
    solver:
        A solver of the same class to share; default: a new one.

    Notes
    -----
    Makes at most Ldim(H) mistakes on every sequence realised by a member of the class, and no
    deterministic learner has a smaller guarantee.

    Examples
    --------
    Twelve singletons: Halving may err log2(12) times, SOA once.

    >>> learner = SOA(FiniteClass.singletons(12))
    >>> truth = FiniteClass.singletons(12).labels[7]
    >>> sum(learner.update(x, int(truth[x])) for x in range(12)), learner.mistake_bound
    (1, 1)

    References
    ----------
    Littlestone (1988), "Learning quickly when irrelevant attributes abound".
    """

    __slots__ = ("_answers", "_solver")

    def __init__(
        self,
        hypotheses: FiniteClass,
        *,
        tie: int = 0,
        solver: LittlestoneSolver | None = None,
    ) -> None:
        super().__init__(hypotheses, tie=tie)
        self._solver = LittlestoneSolver(hypotheses) if solver is None else solver
        self._answers: dict[int, int] = {}

    @property
    def mistake_bound(self) -> int:
        """Ldim(H)."""
        return self._solver.dimension()

    def dimension(self) -> int:
        """Littlestone dimension of the remaining hypotheses; -1 when dead."""
        return self._solver.dimension(self._alive)

    def _decide(self, words: Words) -> int:
        one = self._solver.dimension(self._alive & words)
        zero = self._solver.dimension(self._alive & ~words)
        return self.tie if one == zero else int(one > zero)

    def _decide_point(self, point: int) -> int:
        if point not in self._answers:
            self._answers[point] = self._decide(self.hypotheses.columns[point])
        return self._answers[point]

    def _forget(self) -> None:
        self._answers = {}
