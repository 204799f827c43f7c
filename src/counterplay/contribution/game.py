"""The common shape of every data-sharing game: contributions in, utilities out, targets to reach.

``k`` parties choose contributions ``theta >= 0``. Party ``i`` wants utility ``u_i(theta) >= mu_i``
and wants to pay as little as possible. Utilities never fall when anybody contributes more.
Source: "Setting", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_float_array, check_int
from counterplay.errors import InfeasibleError, InvalidInputError

TIE = 1e-12
"""Integer strategies: a utility this close below the target counts as reaching it."""

_MAX_LEVEL = 2**53


@checked
@dataclass(frozen=True)
class Tolerances:
    """How close is equal: ``u`` for utilities, ``theta`` for contributions.

    A plan is feasible if ``u >= mu - tol.u``, stable if no best response is more than
    ``tol.theta`` below the contribution, and a party envies a strictly lighter one
    (``theta_j < theta_i - tol.theta``) if the swap still gives it ``mu_i - tol.u``.

    Examples
    --------
    >>> Tolerances().u
    1e-09
    """

    u: float = 1e-9
    theta: float = 1e-9


class CollabGame(ABC):
    """A data-sharing game: ``k`` parties, their utilities and their targets.

    Subclass it for your own utilities: implement ``_utilities`` for a stack of contribution
    vectors; best responses then come from bisection. The built-in games override them with exact
    ones.

    Parameters
    ----------
    k:
        Number of parties.
    mu:
        Targets, one per party; a number is used for all.
    integral:
        Whether contributions are whole numbers.
    upper:
        Caps on the contributions, or None.
    cost:
        Price of one unit of each party's contribution; 1 by default. Totals are ``cost @ theta``.

    Notes
    -----
    Guaranteed whenever every party can reach its target alone: best responses are at most the
    stand-alone contributions, so the box ``[0, standalone()]`` contains every stable plan.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), *One for One, or All for All: Equilibria and
    Optimality of Collaboration in Federated Learning*, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> class Shared(CollabGame):  # everybody profits from the square root of the whole pool
    ...     def _utilities(self, theta):
    ...         return np.repeat(np.sqrt(theta.sum(axis=1, keepdims=True)), self.k, axis=1)
    >>> game = Shared(2, mu=3.0)
    >>> round(game.best_response(0, [0.0, 5.0]), 6)
    4.0
    """

    expensive = False
    """Whether one utility takes so long that grids must not be searched exhaustively."""

    remark: str = ""
    """What a reader of a plan must know about the utilities; the first line of its summary."""

    names: tuple[str, ...] | None = None
    """Names of the parties for messages and tables, see :meth:`with_names`."""

    def __init__(
        self,
        k: int,
        mu: ArrayLike,
        *,
        integral: bool = False,
        upper: ArrayLike | None = None,
        cost: ArrayLike | None = None,
    ) -> None:
        self.k = check_int(k, "k", low=1)
        self.mu = self._per_party(mu, "mu")
        self.integral = bool(integral)
        self._set_upper(upper)
        self.cost = _frozen(np.ones(k)) if cost is None else self._per_party(cost, "cost", low=0.0)
        if not self.cost.any():
            raise InvalidInputError("cost is 0 for everybody: then every plan costs the same")

    def __repr__(self) -> str:
        kind = "integral" if self.integral else "real"
        low, high = self.mu.min(), self.mu.max()
        target = f"{low:g}" if low == high else f"{low:g}..{high:g}"
        return f"{type(self).__name__}(k={self.k}, mu={target}, {kind})"

    @abstractmethod
    def _utilities(self, theta: FloatArray) -> FloatArray:
        """Utilities of a checked stack of contributions: ``(B, k) -> (B, k)``."""

    def utilities(self, theta: ArrayLike) -> FloatArray:
        """Return all utilities at ``theta``; a ``(B, k)`` stack gives a ``(B, k)`` answer."""
        checked = self.check_theta(theta)
        values = self._utilities(np.atleast_2d(checked))
        return values if checked.ndim == 2 else values[0]

    def utility(self, i: int, theta: ArrayLike) -> float:
        """Return the utility of party ``i`` at ``theta``."""
        party = self.check_party(i)
        return float(self.utilities(self._vector(theta))[party])

    def best_response(self, i: int, theta: ArrayLike) -> float:
        """Return the smallest own contribution that reaches the target, given the others'.

        Independent of ``theta[i]``. A party that cannot reach its target below its cap gets the
        cap; ``stability_report`` then says that the plan is not feasible.
        """
        party, vector = self.check_party(i), self._vector(theta)
        return min(self._best_response(party, vector), float(self.caps[party]))

    def best_response_map(self, theta: ArrayLike) -> FloatArray:
        """Return the best responses of all parties to the same ``theta``."""
        vector = self._vector(theta)
        return np.array([self.best_response(i, vector) for i in range(self.k)])

    def standalone(self) -> FloatArray:
        """Return what each party would need alone (``vartheta``), ignoring caps."""
        return self._standalone

    @cached_property
    def _standalone(self) -> FloatArray:
        zero = np.zeros(self.k)
        values = np.array([self._best_response(i, zero) for i in range(self.k)])
        for i in np.flatnonzero(~np.isfinite(values)):
            raise InfeasibleError(
                f"{self.party(i)} cannot reach mu={self.mu[i]:g} alone: "
                f"sup of u_{i} is {self._sup_alone(int(i)):g}"
            )
        return _frozen(values)

    @property
    def box(self) -> FloatArray:
        """Upper corner of the box that contains every stable plan: stand-alone levels and caps."""
        return np.minimum(self.standalone(), self.caps)

    @property
    def caps(self) -> FloatArray:
        """Caps on the contributions, infinite where there are none."""
        return np.full(self.k, np.inf) if self.upper is None else self.upper

    def party(self, i: SupportsIndex) -> str:
        """Return how messages call party ``i``: its name, or its number."""
        return f"party {i}" if self.names is None else self.names[i]

    def jacobian(self, theta: ArrayLike) -> FloatArray:
        """Return right derivatives ``J[i, j] = d u_i / d theta_j`` (finite differences here)."""
        vector = self._vector(theta)
        step = 1.0 if self.integral else 1e-6
        moved = self._utilities(vector + step * np.eye(self.k))
        return (moved - self._utilities(vector[None, :])).T / step

    def swap_utilities(self, theta: ArrayLike) -> FloatArray:
        """Return ``S[i, j]``: utility of ``i`` after ``i`` and ``j`` exchanged contributions.

        NaN where the exchange would break a cap.
        """
        vector = self._vector(theta)
        swapped = np.full((self.k, self.k), np.nan)
        for i in range(self.k):
            stack = np.repeat(vector[None, :], self.k, axis=0)
            stack[:, i] = vector
            stack[np.arange(self.k), np.arange(self.k)] = vector[i]
            possible = np.asarray((stack <= self.caps + 1e-9).all(axis=1))
            if possible.any():
                swapped[i, possible] = self._utilities(stack[possible])[:, i]
        return swapped

    def well_behaved_constants(
        self, C: ArrayLike | None = None, *, samples: int = 256, random_state: RandomState = 0
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``(c1, c2)``: largest cross effect and smallest own effect on ``[0, C]``.

        The base class estimates them from finite differences at random points of the box, so
        ``c1`` is a lower and ``c2`` an upper estimate; the built-in games return exact constants.
        """
        corner = self._corner(C)
        points = generator(random_state).random((samples, self.k)) * corner
        points = np.vstack([np.zeros(self.k), corner, points])
        if self.integral:
            points = np.floor(points)
        slopes = np.stack([self.jacobian(point) for point in points])
        own = np.diagonal(slopes, axis1=1, axis2=2).min(axis=0)
        cross = slopes.copy()
        cross[:, np.arange(self.k), np.arange(self.k)] = 0.0
        return cross.max(axis=(0, 2)), own

    def total(self, theta: ArrayLike) -> float:
        """Return what the plan costs: ``cost @ theta``."""
        return float(self.cost @ np.asarray(theta, dtype=np.float64))

    def with_mu(self, mu: ArrayLike) -> Self:
        """Return the same game with other targets."""
        game = self._copy()
        game.mu = self._per_party(mu, "mu")
        game._validate()
        return game

    def with_upper(self, upper: ArrayLike | None) -> Self:
        """Return the same game with other caps on the contributions."""
        game = self._copy()
        game._set_upper(upper)
        game._validate()
        return game

    def with_names(self, names: Sequence[str] | None) -> Self:
        """Return the same game with names of the parties."""
        labels = None if names is None else tuple(str(name) for name in names)
        if labels is not None and (len(labels) != self.k or len(set(labels)) != self.k):
            raise InvalidInputError(f"names must be {self.k} different names, got {list(labels)}")
        game = copy.copy(self)
        game.names = labels
        return game

    def subset(self, parties: Sequence[int]) -> CollabGame:
        """Return the game among some of the parties only."""
        index = [self.check_party(i) for i in parties]
        game = self._restricted(index)
        return game.with_names(None if self.names is None else [self.names[i] for i in index])

    def _restricted(self, index: list[int]) -> CollabGame:
        raise InvalidInputError(f"{type(self).__name__} cannot be restricted to some parties")

    def check_theta(self, theta: ArrayLike) -> FloatArray:
        """Return ``theta`` as a checked float array of shape ``(k,)`` or ``(B, k)``."""
        array = check_float_array(theta, "theta")
        if array.ndim not in (1, 2) or array.shape[-1] != self.k:
            raise InvalidInputError(
                f"theta must have {self.k} entries, one per party, got shape {array.shape}"
            )
        self._refuse(array < 0, array, "must not be negative")
        if self.integral:
            self._refuse(array != np.rint(array), array, "must be a whole number")
        if self.upper is not None:
            self._refuse(array > self.upper + 1e-9, array, "is above the cap of that party")
        return array

    def check_party(self, i: int) -> int:
        """Return ``i`` if it is one of the parties."""
        return check_int(i, "i", low=0, high=self.k - 1)

    def _best_response(self, i: int, theta: FloatArray) -> float:
        """Bisection on the own contribution; exact to one part in 10^15, never too small."""
        stack = theta[None, :].copy()

        def reaches(x: float) -> bool:
            stack[0, i] = x
            return bool(self._utilities(stack)[0, i] >= self.mu[i] - (TIE if self.integral else 0))

        if reaches(0.0):
            return 0.0
        high = 1.0
        while not reaches(high):
            if high > _MAX_LEVEL:
                return np.inf
            high *= 2.0
        low = 0.0 if high == 1.0 else high / 2.0
        while high - low > (1.0 if self.integral else 1e-15 * max(high, 1e-3)):
            middle = (low + high) / 2.0
            middle = float(np.floor(middle)) if self.integral else middle
            if middle in (low, high):
                break
            low, high = (low, middle) if reaches(middle) else (middle, high)
        return high

    def _sup_alone(self, i: int) -> float:
        stack = np.zeros((1, self.k))
        stack[0, i] = float(_MAX_LEVEL)
        return float(self._utilities(stack)[0, i])

    def _validate(self) -> None:
        """Raise if a target is out of reach: alone without caps, jointly with caps."""
        if self.upper is None:
            self.standalone()
            return
        best = self._utilities(self.upper[None, :])[0]
        for i in np.flatnonzero(best < self.mu - 1e-12):
            raise InfeasibleError(
                f"{self.party(i)} cannot reach mu={self.mu[i]:g} even if everybody contributes up "
                f"to the caps: u_{i} is {best[i]:g} there; raise the caps or lower the target"
            )

    def _set_upper(self, upper: ArrayLike | None) -> None:
        caps = None if upper is None else self._per_party(upper, "upper", low=0.0)
        self.upper = _frozen(np.floor(caps)) if caps is not None and self.integral else caps

    def _copy(self) -> Self:
        game = copy.copy(self)
        game.__dict__.pop("_standalone", None)
        return game

    def _corner(self, C: ArrayLike | None) -> FloatArray:
        return self.standalone() if C is None else self._per_party(C, "C", low=0.0)

    def _vector(self, theta: ArrayLike) -> FloatArray:
        array = self.check_theta(theta)
        if array.ndim != 1:
            raise InvalidInputError(f"theta must be one vector, got shape {array.shape}")
        return array

    def _per_party(self, value: ArrayLike, name: str, low: float = -np.inf) -> FloatArray:
        array = check_float_array(value, name)
        if array.ndim == 0:
            array = np.full(self.k, float(array))
        if array.shape != (self.k,):
            raise InvalidInputError(
                f"{name} must be a number or have {self.k} entries, got shape {array.shape}"
            )
        if (array < low).any():
            i = int(np.argmax(array < low))
            raise InvalidInputError(f"{name}[{i}] must be at least {low:g}, got {array[i]:g}")
        return _frozen(array)

    @staticmethod
    def _refuse(bad: np.ndarray, array: FloatArray, why: str) -> None:
        if bad.any():
            where = tuple(int(j) for j in np.argwhere(bad)[0])
            raise InvalidInputError(f"theta[{', '.join(map(str, where))}]={array[where]:g} {why}")


def integer_crossing(
    curve: Callable[[float], float], target: float, start: float = 0.0
) -> tuple[float, float, float] | None:
    """Return ``(t, U(t), U(t+1))`` with ``U(t) < target <= U(t+1)`` for a non-decreasing curve.

    ``curve`` is evaluated at whole numbers only, about ``2 log2`` of the distance between
    ``start`` and the answer. The caller has checked ``U(0) < target``. None: never reached.
    """
    low, high = 0.0, max(1.0, float(np.floor(start)))
    while curve(high) < target:
        low, high = high, 2.0 * high
        if high > _MAX_LEVEL:
            return None
    while high - low > 1.0:
        middle = float(np.floor((low + high) / 2.0))
        low, high = (low, middle) if curve(middle) >= target else (middle, high)
    return low, curve(low), curve(high)


def crossing_level(
    curve: Callable[[float], float], target: float, *, integral: bool, start: float = 0.0
) -> float:
    """Return the smallest level at which a curve that is linear between integers reaches a target.

    Whole numbers only if ``integral``; ``inf`` if the target is never reached.

    Examples
    --------
    >>> crossing_level(lambda t: 1 - 0.5 ** (t + 1), 0.8, integral=False)
    1.4...
    """
    slack = TIE if integral else 1e-15
    if curve(0.0) >= target - slack:
        return 0.0
    found = integer_crossing(curve, target - (TIE if integral else 0.0), start)
    if found is None:
        return np.inf
    level, below, above = found
    if integral:
        return level + 1.0
    return level + (target - below) / (above - below)


def _frozen(array: np.ndarray) -> FloatArray:
    array = np.array(array, dtype=np.float64)
    array.setflags(write=False)
    return array
