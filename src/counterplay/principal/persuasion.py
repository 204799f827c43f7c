"""Persuasion games: the Principal commits to what she will reveal about the state.

A policy is a signal scheme, the probability of every signal in every state; an action of the Agent
is a map from the signals in use to strategies. The geometry of the binary case (which strategy is
best at which belief, and the concave closure of her value) gives the classical optimal scheme.
Source: "Geometry of persuasion", see docs/theory/07-principal.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.validation import FloatArray, IntArray, check_float_array, check_fraction
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.principal.games import (
    PrincipalAgentGame,
    check_forecasts,
    check_names,
    check_utility_range,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ACTIONS = 4096
_MOST_TABLES = 4096


@checked
class Scheme:
    """A signal scheme: ``matrix[s, y]`` is the probability of signal s in state y.

    Columns sum to one. Signals are labelled by strategies; a signal may be obeyed or not. Schemes
    are immutable and can be compared and hashed.

    Examples
    --------
    >>> scheme = Scheme([[4 / 7, 0.0], [3 / 7, 1.0]])
    >>> scheme.signal_probabilities([0.7, 0.3]).round(3).tolist()
    [0.4, 0.6]
    >>> scheme.posteriors([0.7, 0.3])[1].round(3).tolist()
    [0.5, 0.5]
    """

    def __init__(self, matrix: ArrayLike) -> None:
        array = check_float_array(matrix, "scheme", ndim=2).copy()
        if array.min(initial=0.0) < -1e-9 or (np.abs(array.sum(axis=0) - 1) > 1e-9).any():
            raise InvalidInputError(
                "a scheme must have non-negative entries and columns (one per state) that sum to 1"
            )
        np.clip(array, 0.0, 1.0, out=array)
        array += 0.0  # turns -0.0 into 0.0, so that equal schemes have equal bytes
        array.setflags(write=False)
        self.matrix = array
        self.support = tuple(int(s) for s in np.flatnonzero(array.max(axis=1) > 0.0))
        self._key = (array.shape, array.tobytes())

    def signal_probabilities(self, prior: ArrayLike) -> FloatArray:
        """Return the probability of every signal under a prior."""
        return np.asarray(self.matrix @ self._prior(prior))

    def posteriors(self, prior: ArrayLike) -> FloatArray:
        """Return the posterior after every signal; NaN after signals that never occur."""
        joint = self.matrix * self._prior(prior)
        total = joint.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(total > 0, joint / np.where(total > 0, total, 1), np.nan))

    def _prior(self, prior: ArrayLike) -> FloatArray:
        found = check_forecasts(prior, self.matrix.shape[1])
        if len(found) != 1:
            raise InvalidInputError("give one prior at a time")
        return np.asarray(found[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scheme) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        rows = ", ".join(
            f"{s}: [" + " ".join(f"{p:.4g}" for p in self.matrix[s]) + "]" for s in self.support
        )
        return f"Scheme({rows})"


@checked
class DisclosureGame(PrincipalAgentGame):
    """Persuasion with any finite number of states.

    Parameters
    ----------
    u:
        ``u[s, y]`` in [0, 1]: what strategy s is worth to the Agent in state y.
    v:
        ``v[s]`` or ``v[s, y]`` in [0, 1]: what it is worth to the Principal.
    strategy_names:
        Optional labels.

    Examples
    --------
    >>> game = DisclosureGame(u=[[1, 0, 0], [0, 1, 0], [0, 0, 1]], v=[0.0, 0.5, 1.0])
    >>> game.n_states, game.n_actions(game.full_disclosure())
    (3, 27)

    References
    ----------
    "Geometry of persuasion", Proposition 7.H, see docs/theory/07-principal.md.
    """

    value_range = (0.0, 1.0)

    def __init__(
        self, u: ArrayLike, v: ArrayLike, *, strategy_names: Sequence[str] | None = None
    ) -> None:
        self.u = check_float_array(u, "u", ndim=2)
        values = check_float_array(v, "v")
        if values.ndim == 1:
            values = np.repeat(values[:, None], self.u.shape[1], axis=1)
        if values.shape != self.u.shape or 0 in self.u.shape:
            raise InvalidInputError(
                f"u must have shape (strategies, states) and v one row per strategy, got "
                f"{self.u.shape} and {np.shape(v)}"
            )
        self.v = values
        check_utility_range(self.u, "u", 0.0, 1.0)
        check_utility_range(self.v, "v", 0.0, 1.0)
        self.n_strategies, self.n_states = self.u.shape
        self.strategy_names = check_names(strategy_names, self.n_strategies, "strategy_names")
        self._memory: dict[Scheme, tuple[FloatArray, FloatArray]] = {}

    def check_policy(self, policy: Any) -> Scheme:
        """Return the scheme; arrays of shape (strategies, states) are accepted, too."""
        scheme = policy if isinstance(policy, Scheme) else Scheme(policy)
        if scheme.matrix.shape != self.u.shape:
            raise InvalidInputError(
                f"a scheme must have shape {self.u.shape} (signals are labelled by strategies), "
                f"got {scheme.matrix.shape}"
            )
        return scheme

    def maps(self, scheme: Scheme) -> IntArray:
        """Return all actions under ``scheme``: maps from its signals to strategies, one per row."""
        count = self.n_strategies ** len(scheme.support)
        if count > _MOST_ACTIONS:
            raise InvalidInputError(
                f"a scheme with {len(scheme.support)} signals has {count} response maps; use at "
                "most two or three signals per scheme"
            )
        choices = product(range(self.n_strategies), repeat=len(scheme.support))
        return np.array(list(choices), dtype=np.int64)

    def _tables(self, scheme: Scheme) -> tuple[FloatArray, FloatArray]:
        found = self._memory.get(scheme)
        if found is None:
            if len(self._memory) >= _MOST_TABLES:
                self._memory.clear()
            found = self._memory[scheme] = self._build_tables(scheme)
        return found

    def _build_tables(self, scheme: Scheme) -> tuple[FloatArray, FloatArray]:
        maps = self.maps(scheme)
        tables = []
        for worth in (self.u, self.v):
            total = np.zeros((len(maps), self.n_states))
            for position, signal in enumerate(scheme.support):
                total += scheme.matrix[signal] * worth[maps[:, position]]
            total.setflags(write=False)
            tables.append(total)
        return tables[0], tables[1]

    def agent_utility(self, policy: Any) -> FloatArray:
        """Return U of every response map in every state."""
        return self._tables(policy)[0]

    def principal_utility(self, policy: Any) -> FloatArray:
        """Return V of every response map in every state."""
        return self._tables(policy)[1]

    def strategy_label(self, s: int) -> str:
        """Return the name of a strategy."""
        return self.strategy_names[s] if self.strategy_names else str(s)

    def action_label(self, policy: Any, action: int) -> str:
        """Return the map as "signal->strategy" pairs."""
        chosen = self.maps(policy)[action]
        return ", ".join(
            f"{self.strategy_label(s)}->{self.strategy_label(int(t))}"
            for s, t in zip(policy.support, chosen)
        )

    def policy_label(self, policy: Any) -> str:
        """Return the signals in use with their probabilities per state."""
        return "; ".join(
            f"{self.strategy_label(s)}:" + "/".join(f"{p:.3g}" for p in policy.matrix[s])
            for s in policy.support
        )

    def full_disclosure(self) -> Scheme:
        """Signal the Agent's best strategy of the true state."""
        best = self.u.argmax(axis=0)
        matrix = np.zeros_like(self.u)
        matrix[best, np.arange(self.n_states)] = 1.0
        return Scheme(matrix)

    def no_disclosure(self, signal: int = 0) -> Scheme:
        """Always send the same signal."""
        matrix = np.zeros_like(self.u)
        matrix[signal] = 1.0
        return Scheme(matrix)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(strategies={self.n_strategies}, states={self.n_states})"


@checked
class PersuasionGame(DisclosureGame):
    """Persuasion with a binary state and a Principal who only cares about the strategy.

    Parameters
    ----------
    u:
        ``u[s, y]`` in [0, 1] for y in {0, 1}.
    v:
        ``v[s]`` in [0, 1].
    strategy_names:
        Names of the strategies, for summaries.

    Examples
    --------
    >>> from counterplay.principal.instances import prosecutor_game
    >>> from counterplay.principal.lab import PersuasionGeometry
    >>> round(PersuasionGeometry(prosecutor_game()).v_star(0.3), 6)
    0.6

    References
    ----------
    "Geometry of persuasion", see docs/theory/07-principal.md.
    """

    def __init__(
        self, u: ArrayLike, v: ArrayLike, *, strategy_names: Sequence[str] | None = None
    ) -> None:
        if np.ndim(u) == 2 and np.shape(u)[1] != 2:
            raise InvalidInputError(
                f"PersuasionGame needs two states, got {np.shape(u)[1]}; use DisclosureGame and "
                "ObedienceOracle for more"
            )
        if np.ndim(v) != 1:
            raise InvalidInputError("v must be one number per strategy, independent of the state")
        super().__init__(u, v, strategy_names=strategy_names)

    @property
    def strategy_values(self) -> FloatArray:
        """The Principal's value of every strategy."""
        return self.v[:, 0]


@checked
class PersuasionGeometry:
    """Intervals, concave closure and optimal schemes of a binary persuasion game.

    Parameters
    ----------
    game:
        A :class:`PersuasionGame`. Every strategy must be strictly best at some belief
        (Assumption 7.3).
    prune:
        Drop strategies that never are, with a warning, instead of raising.

    Attributes
    ----------
    strategies:
        Strategies in the order of the beliefs at which they are best.
    edges:
        The interval ends 0 = e_0 < e_1 < ... < e_n = 1.
    C:
        Smallest interval length.
    c1:
        Smallest difference of neighbouring slopes.
    extreme:
        Points (mu, value, strategy) of the concave closure v*, as three arrays.

    Examples
    --------
    >>> from counterplay.principal.instances import prosecutor_game
    >>> from counterplay.principal.lab import PersuasionGeometry
    >>> geometry = PersuasionGeometry(prosecutor_game())
    >>> geometry.edges.tolist(), geometry.C, geometry.c1
    ([0.0, 0.5, 1.0], 0.5, 2.0)
    >>> geometry.optimal_scheme(0.3).matrix[:, 0].round(4).tolist()     # if innocent
    [0.5714, 0.4286]

    References
    ----------
    E. Kamenica, M. Gentzkow, "Bayesian persuasion", AER 101 (2011).
    """

    def __init__(self, game: PersuasionGame, *, prune: bool = False) -> None:
        if not isinstance(game, PersuasionGame):
            raise InvalidInputError("PersuasionGeometry needs a PersuasionGame")
        self.game = game
        self.strategies, self.edges = _upper_envelope(game.u)
        missing = sorted(set(range(game.n_strategies)) - set(self.strategies.tolist()))
        if missing:
            names = ", ".join(game.strategy_label(s) for s in missing)
            message = f"strategies that are never strictly best for the Agent: {names}"
            if not prune:
                raise InvalidInputError(f"{message}; drop them or pass prune=True")
            warnings.warn(f"dropped {message}", AssumptionWarning, stacklevel=2)
        slopes = game.u[self.strategies, 1] - game.u[self.strategies, 0]
        self.C = float(np.diff(self.edges).min())
        self.c1 = float(np.diff(slopes).min()) if slopes.size > 1 else 1.0
        self.extreme = self._extreme_points()

    def _extreme_points(self) -> tuple[FloatArray, FloatArray, IntArray]:
        v = self.game.strategy_values[self.strategies]
        left_better = v[:-1] >= v[1:]
        inner = np.where(left_better, self.strategies[:-1], self.strategies[1:])
        labels = np.concatenate([self.strategies[:1], inner, self.strategies[-1:]])
        return upper_hull(self.edges, self.game.strategy_values[labels], labels)

    def __repr__(self) -> str:
        return f"PersuasionGeometry(edges={self.edges.round(4).tolist()}, C={self.C:.4g})"

    def s_star(self, mu: float) -> int:
        """Return the Agent's best strategy at belief ``mu``, ties in the Principal's favour."""
        belief = check_fraction(mu, "mu")
        right = int(np.searchsorted(self.edges[1:-1], belief, side="right"))
        left = int(np.searchsorted(self.edges[1:-1], belief, side="left"))
        pair = self.strategies[left], self.strategies[right]
        v = self.game.strategy_values
        return int(pair[0] if v[pair[0]] >= v[pair[1]] else pair[1])

    def v_star(self, mu: float) -> float:
        """Return the Principal's optimal value at prior ``mu``: the concave closure."""
        return float(np.interp(check_fraction(mu, "mu"), self.extreme[0], self.extreme[1]))

    def optimal_scheme(self, mu: float) -> Scheme:
        """Return the optimal scheme at prior ``mu``; it leaves the Agent indifferent (unstable)."""
        return split_scheme(self.game, self.extreme, check_fraction(mu, "mu"))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the Agent's lines, their upper envelope, v(s*(mu)) and its concave closure."""
        grid = np.linspace(0.0, 1.0, 801)
        lines = np.outer(1 - grid, self.game.u[:, 0]) + np.outer(grid, self.game.u[:, 1])
        with figure_style():
            axes = axes_or_new(ax)
            axes.plot(grid, lines, color="#bbbbbb", linewidth=0.8)
            axes.plot(grid, lines.max(axis=1), color=PALETTE[0], label="Agent: best utility")
            for s, low, high in zip(self.strategies, self.edges, self.edges[1:]):
                axes.hlines(self.game.strategy_values[s], low, high, color=PALETTE[2], linewidth=3)
            axes.plot([], [], color=PALETTE[2], linewidth=3, label="Principal: v(s*)")
            axes.plot(*self.extreme[:2], "o-", color=PALETTE[1], label="Principal: v* (persuasion)")
            axes.set_xlabel("belief that the state is 1")
            axes.set_ylabel("utility")
            axes.legend()
        return axes


def _upper_envelope(u: FloatArray) -> tuple[IntArray, FloatArray]:
    """Strategies that are strictly best somewhere in [0, 1], in order, and the interval ends."""
    slopes, heights = u[:, 1] - u[:, 0], u[:, 0]
    hull: list[int] = []
    for s in np.lexsort((-heights, slopes)).tolist():
        if hull and slopes[hull[-1]] == slopes[s]:
            continue  # parallel and not higher
        while hull and _meets(slopes, heights, hull[-1], s) <= _begins(slopes, heights, hull):
            hull.pop()
        if not hull or _meets(slopes, heights, hull[-1], s) < 1.0 - 1e-12:
            hull.append(s)
    inner = [_meets(slopes, heights, a, b) for a, b in zip(hull, hull[1:])]
    return np.array(hull, dtype=np.int64), np.array([0.0, *inner, 1.0])


def _meets(slopes: FloatArray, heights: FloatArray, a: int, b: int) -> float:
    return float((heights[a] - heights[b]) / (slopes[b] - slopes[a]))


def _begins(slopes: FloatArray, heights: FloatArray, hull: list[int]) -> float:
    """Belief at which the last strategy of the hull becomes best, at least (just above) zero."""
    start = 0.0 if len(hull) < 2 else _meets(slopes, heights, hull[-2], hull[-1])
    return max(start, 0.0) + 1e-12


def upper_hull(
    x: FloatArray, value: FloatArray, label: IntArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Upper hull of points sorted by x; points on a segment are dropped."""
    kept: list[int] = []
    for i in range(x.size):
        while len(kept) >= 2:
            a, b = kept[-2], kept[-1]
            turn = (x[b] - x[a]) * (value[i] - value[a]) - (value[b] - value[a]) * (x[i] - x[a])
            if turn < -1e-15:
                break
            kept.pop()
        kept.append(i)
    return x[kept], value[kept], label[kept]


def split_scheme(
    game: PersuasionGame, hull: tuple[FloatArray, FloatArray, IntArray], mu: float
) -> Scheme:
    """Scheme whose posteriors are the two hull points around ``mu`` (equation 7.5, with limits)."""
    k, chance = split_chances(hull, mu)
    low, high = int(hull[2][k]), int(hull[2][k + 1])
    matrix = np.zeros((game.n_strategies, 2))
    if low == high:  # both posteriors carry the same strategy: nothing to reveal
        matrix[low] = 1.0
    else:
        matrix[low], matrix[high] = chance, 1.0 - chance
    return Scheme(matrix)


def split_chances(
    hull: tuple[FloatArray, FloatArray, IntArray], mu: float
) -> tuple[int, FloatArray]:
    """Segment k of the hull around ``mu`` and p(lower signal | y) for y = 0, 1."""
    x = hull[0]
    k = min(max(int(np.searchsorted(x, mu, side="right")) - 1, 0), x.size - 2)
    low, high = float(x[k]), float(x[k + 1])
    width = high - low
    # tau = (high - mu) / width; p(low|1) = tau low / mu and p(low|0) = tau (1 - low) / (1 - mu)
    given_one = 0.0 if low == 0.0 else (high - mu) / width * low / mu
    given_zero = 1.0 if high == 1.0 else (high - mu) / width * (1.0 - low) / (1.0 - mu)
    return k, np.clip(np.array([given_zero, given_one]), 0.0, 1.0)
