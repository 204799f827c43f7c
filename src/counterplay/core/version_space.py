"""Version spaces: the hypotheses still possible, when the others went, and how much mass is left.

A version space only shrinks, so one elimination time per hypothesis stores its whole history:
``VS_t`` is reconstructed for every past round t in O(n). Masses are summed side by side, never as
total minus the other side, which would lose small masses.
Source: "Numerics of GBS", see docs/theory/06-labeling.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.bits import as_indices, mask_to_int, unpack_rows
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_int,
    check_positive_int,
    check_size,
)
from counterplay.core.weights import Weights, check_weights
from counterplay.errors import InvalidInputError, NotRealizableError, ProtocolError

_MOST = 20_000_000
_NEVER = np.iinfo(np.int64).max


@checked
@dataclass(frozen=True)
class Observation:
    """One entry of a version space's history: what was seen and how many hypotheses went."""

    round: int
    point: int | None
    label: int | None
    removed: int


@checked
class VersionSpace:
    """The hypotheses consistent with what was seen so far.

    Use it with a :class:`FiniteClass` to observe labelled points, or with just a number of
    hypotheses when the elimination rule is your own (distances in strategic classification).
    Each ``observe*`` call is one round. Copies are O(1) and independent.

    Parameters
    ----------
    space:
        A class, or the number of hypotheses.
    weights:
        Weights of the hypotheses; default: those of the class, else none (every one counts 1).
        Object arrays of ints or Fractions give exact masses.
    exact:
        Keep integer and Fraction ``weights`` exact.

    Raises
    ------
    NotRealizableError
        When an observation would remove the last hypothesis. The version space stays as it was.

    Examples
    --------
    >>> vs = VersionSpace(FiniteClass.thresholds([1, 2, 3, 4]))
    >>> vs.observe(1, 1)   # point 1 (the number 2) has label 1: two thresholds of five remain
    3
    >>> vs.alive, vs.elim_time
    (array([0, 1]), array([2, 2, 2, 2, 2]))
    >>> vs.at_round(0)
    array([0, 1, 2, 3, 4])
    """

    __slots__ = ("_alive", "_elim", "_history", "_round", "_weights", "hypotheses", "n")

    def __init__(
        self,
        space: FiniteClass | int,
        weights: ArrayLike | None = None,
        *,
        exact: bool = False,
    ) -> None:
        self.hypotheses = space if isinstance(space, FiniteClass) else None
        self.n = len(space) if isinstance(space, FiniteClass) else check_positive_int(space, "n")
        check_size(self.n, _MOST, "hypotheses")
        self._weights: Weights | None = None
        if weights is not None:
            self._weights = check_weights(weights, exact=exact)
            if self._weights.size != self.n:
                raise InvalidInputError(f"got {self._weights.size} weights for {self.n} hypotheses")
        elif self.hypotheses is not None:
            self._weights = self.hypotheses.weights
        self._alive: IntArray = np.arange(self.n, dtype=np.int64)
        self._elim: IntArray = np.full(self.n, _NEVER, dtype=np.int64)
        self._round = 0
        self._history: tuple[Any, Observation] | None = None  # linked list, shared by copies
        self._freeze()

    # State.

    def __len__(self) -> int:
        return int(self._alive.size)

    def __contains__(self, member: object) -> bool:
        return isinstance(member, int | np.integer) and bool(self._elim[int(member)] == _NEVER)

    def __repr__(self) -> str:
        return f"VersionSpace({len(self)} of {self.n} hypotheses after {self._round} rounds)"

    @property
    def alive(self) -> IntArray:
        """Indices of the remaining hypotheses, increasing, read-only."""
        return self._alive

    @property
    def mask(self) -> BoolArray:
        """Boolean mask of the remaining hypotheses."""
        alive: BoolArray = self._elim == _NEVER
        return alive

    @property
    def round(self) -> int:
        """How many rounds were observed."""
        return self._round

    @property
    def elim_time(self) -> IntArray:
        """First round tau with h not in VS_{tau-1}; one more than the rounds so far if alive.

        A hypothesis removed in round t has t + 1, so VS_{tau-1} = {h : elim_time[h] > tau} for
        tau = 1..T. Rounds count from 1.
        """
        return np.minimum(self._elim, self._round + 1)

    @property
    def history(self) -> tuple[Observation, ...]:
        """What was observed, oldest first; rounds that only passed are left out."""
        entries = []
        node = self._history
        while node is not None:
            node, entry = node
            entries.append(entry)
        return tuple(reversed(entries))

    def key(self) -> int:
        """The remaining hypotheses as a Python int: a hashable name of the state."""
        return mask_to_int(self.mask)

    def at_round(self, t: int) -> IntArray:
        """Indices of VS_t, the version space after round t (t = 0: all hypotheses)."""
        t = check_int(t, "t", low=0, high=self._round)
        return np.flatnonzero(self._elim > t + 1).astype(np.int64)

    def epochs(self) -> list[tuple[int, IntArray]]:
        """How long each version space lasted: (rounds, members) for VS_0 to VS_{T-1}.

        The number of rounds is the weight of VS_{tau-1} when tau is uniform on the T rounds.

        Examples
        --------
        >>> vs = VersionSpace(3)
        >>> _ = vs.tick(), vs.observe_mask([True, False, True]), vs.tick()
        >>> [(rounds, members.tolist()) for rounds, members in vs.epochs()]
        [(2, [0, 1, 2]), (1, [0, 2])]
        """
        times = self._elim[self._elim <= self._round]
        starts = [0, *(int(time) - 1 for time in np.unique(times))]
        ends = [*starts[1:], self._round]
        return [(b - a, self.at_round(a)) for a, b in zip(starts, ends) if b > a]

    # Changes.

    def observe(self, point: int, label: int) -> int:
        """Keep the hypotheses that give ``label`` to ``point``; return how many went."""
        labels = self._column(point)
        label = check_int(label, "label", low=0, high=1)
        keep = labels[self._alive] == bool(label)
        return self._shrink(keep, int(point), label)

    def observe_many(self, points: Any, labels: ArrayLike) -> int:
        """Observe labelled points one after the other, one round each; return how many went."""
        index = as_indices(points, self._class().n_points, "points")
        y = np.atleast_1d(np.asarray(labels))
        if y.shape != index.shape:
            raise InvalidInputError(f"got {index.size} points but {y.size} labels")
        return sum(self.observe(int(x), int(label)) for x, label in zip(index, y))

    def observe_mask(self, keep: ArrayLike) -> int:
        """Keep the hypotheses whose entry in ``keep`` (length n) is true; return how many went."""
        mask = np.asarray(keep, dtype=np.bool_)
        if mask.shape != (self.n,):
            raise InvalidInputError(f"keep must have length {self.n}, got shape {mask.shape}")
        return self._shrink(mask[self._alive])

    def observe_alive(self, keep: ArrayLike) -> int:
        """Like :meth:`observe_mask`, with ``keep`` aligned to :attr:`alive`."""
        mask = np.asarray(keep, dtype=np.bool_)
        if mask.shape != self._alive.shape:
            raise InvalidInputError(f"keep must have length {len(self)}, got shape {mask.shape}")
        return self._shrink(mask)

    def tick(self, rounds: int = 1) -> None:
        """Let rounds pass in which nothing was learned."""
        self._round += check_int(rounds, "rounds", low=0)

    def copy(self) -> VersionSpace:
        """An independent copy in O(1): arrays are shared and replaced, never written to."""
        other = object.__new__(VersionSpace)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def restrict(self, keep: ArrayLike) -> VersionSpace:
        """Return a copy in which only the given hypotheses (mask or indices) stay alive."""
        mask = np.zeros(self.n, dtype=np.bool_)
        mask[as_indices(keep, self.n, "keep")] = True
        other = self.copy()
        other.observe_mask(mask)
        return other

    def updated(self, point: int, label: int) -> VersionSpace:
        """Return a copy that has observed one labelled point."""
        other = self.copy()
        other.observe(point, label)
        return other

    # Masses.

    @property
    def weights(self) -> Weights:
        """Weights of all hypotheses, unnormalised (ones if none were given)."""
        return np.ones(self.n, dtype=np.int64) if self._weights is None else self._weights

    def mass(self, members: Any = None) -> Any:
        """Total weight of the remaining hypotheses, or of the given ones among them."""
        index = self._alive
        if members is not None:
            index = index[np.isin(index, as_indices(members, self.n, "members"))]
        return _plain(self.weights[index].sum())

    def side_masses(self, points: Any = slice(None)) -> tuple[Weights, Weights]:
        """Weight of the remaining hypotheses that say 0, and that say 1, at each point.

        Both sides are summed directly. Exact weights give exact sums.

        Examples
        --------
        >>> vs = VersionSpace(FiniteClass.singletons(2), weights=[10**30, 1], exact=True)
        >>> zero, one = vs.side_masses()
        >>> zero[0], one[0]
        (1, 1000000000000000000000000000000)
        """
        index = as_indices(points, self._class().n_points, "points")
        rows = self._class().labels[np.ix_(self._alive, index)]
        weights = self.weights[self._alive]
        if weights.dtype != object:
            return weights @ ~rows, weights @ rows
        sides = []
        for side in (~rows, rows):
            sums = [weights[side[:, j]].sum() if side[:, j].any() else 0 for j in range(index.size)]
            array: Weights = np.empty(index.size, dtype=object)
            array[:] = sums
            sides.append(array)
        return sides[0], sides[1]

    def posterior(self) -> Weights:
        """Weights of the remaining hypotheses divided by their sum, aligned to :attr:`alive`."""
        weights = self.weights[self._alive]
        total = weights.sum()
        if not total > 0:
            raise ProtocolError(
                "the remaining hypotheses have weight 0; give them positive weights"
            )
        one: Any = Fraction(1) if weights.dtype == object else 1.0
        posterior: Weights = weights * one / total
        return posterior

    def entropy(self) -> float:
        """Entropy of the posterior in bits."""
        p: FloatArray = self.posterior().astype(np.float64)
        p = p[p > 0]
        return float(max(0.0, -(p * np.log2(p)).sum()))

    # What is already decided.

    def disagreement(self) -> BoolArray:
        """Mask of the points whose label is still open."""
        return self._class().disagreement(self._alive)

    def determined(self) -> tuple[BoolArray, BoolArray]:
        """Mask of the points whose label is implied, and the label row of one survivor."""
        row = unpack_rows(self._class().packed[self._alive[0]], self._class().n_points)
        return ~self.disagreement(), row

    # Helpers.

    def _class(self) -> FiniteClass:
        if self.hypotheses is None:
            raise ProtocolError("this version space knows no labels; build it from a FiniteClass")
        return self.hypotheses

    def _column(self, point: int) -> BoolArray:
        known = self._class()
        index = check_int(point, "point", low=0, high=known.n_points - 1)
        return known.labels[:, index]

    def _shrink(self, keep: BoolArray, point: int | None = None, label: int | None = None) -> int:
        now = self._round + 1
        removed = int(keep.size - np.count_nonzero(keep))
        if removed == keep.size:
            what = f"label {label} of point {point}" if point is not None else "the observation"
            raise NotRealizableError(
                f"{what} in round {now} contradicts all {keep.size} remaining hypotheses; "
                "check the label or use a larger class",
                round=now,
                item=point,
            )
        if removed:
            elim = self._elim.copy()
            elim[self._alive[~keep]] = now + 1
            self._alive, self._elim = self._alive[keep], elim
            self._freeze()
        if removed or point is not None:
            self._history = (self._history, Observation(now, point, label, removed))
        self._round = now
        return removed

    def _freeze(self) -> None:
        self._alive.setflags(write=False)
        self._elim.setflags(write=False)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
