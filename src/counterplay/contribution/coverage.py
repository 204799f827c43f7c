"""Random coverage: a party's accuracy is 1 on every point somebody has sampled, 1/2 elsewhere.

Give each party's distribution over points, cells or labels. Contributions are numbers of samples;
a fractional contribution is rounded at random, which keeps all formulas in closed form.
Source: "Random coverage", Definition 4.6, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from counterplay.contribution.game import CollabGame, _frozen, crossing_level
from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_float_array,
    check_positive_int,
    check_size,
)
from counterplay.errors import InfeasibleError, InvalidInputError

MOST_DISTANCES = 1_000_000_000
Extension = Literal["rounding", "exponent"]


@checked
class CoverageGame(CollabGame):
    """Data sharing with coverage utilities: how much of my distribution has anybody seen?

    ``u_i = 1 - 1/2 sum_x q_ix prod_j E[(1 - q_jx)^m_j]`` where ``m_j`` is ``theta_j`` rounded up
    or down at random with mean ``theta_j``. Use it when you have histograms of what each party
    sees, such as label counts per hospital.

    Parameters
    ----------
    Q:
        ``(k, n)`` array; row i is the distribution of party i over n points.
    mu:
        Target accuracies; values up to 1/2 are met by guessing.
    multiplicity:
        How many points share each column of ``Q`` (1 by default). Rows of ``Q`` times
        ``multiplicity`` sum to 1.
    integral:
        Whether contributions are whole numbers of samples.
    upper:
        Caps on the contributions, see :class:`CollabGame`.
    cost:
        Prices, see :class:`CollabGame`.
    extension:
        ``"rounding"`` is the model of the chapter. ``"exponent"`` reads ``(1-q)^theta`` with a real
        exponent; it gives utilities at least as large, equal at whole numbers, and is the convex
        relaxation behind the certified lower bounds.
    compress:
        Merge points with equal columns; changes nothing but the speed.

    Notes
    -----
    A stable plan exists; whole-number stable plans exist too, because the game has a potential
    (``integer_equilibrium_coverage``).

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Sec. 2 (random coverage).

    Examples
    --------
    >>> game = CoverageGame([[0.5, 0.5], [0.5, 0.5]], mu=0.75)
    >>> game.utilities([1.0, 0.0]).tolist(), game.utilities([0.5, 0.5]).tolist()
    ([0.75, 0.75], [0.71875, 0.71875])
    """

    def __init__(
        self,
        Q: Any,
        mu: ArrayLike,
        multiplicity: ArrayLike | None = None,
        integral: bool = False,
        *,
        upper: ArrayLike | None = None,
        cost: ArrayLike | None = None,
        extension: Extension = "rounding",
        compress: bool = True,
    ) -> None:
        matrix, counts = _check_distributions(Q, multiplicity)
        super().__init__(matrix.shape[0], mu, integral=integral, upper=upper, cost=cost)
        self.extension = check_choice(extension, "extension", ("rounding", "exponent"))
        if compress:
            matrix, counts = _merge_columns(matrix, counts)
        self.Q, self.multiplicity = _frozen(matrix), _frozen(counts)
        self.n_types = matrix.shape[1]
        self._check_targets()
        self._validate()

    @classmethod
    def from_histograms(
        cls, counts: ArrayLike, mu: ArrayLike, *, integral: bool = False, **options: Any
    ) -> Self:
        """Build the game from counts, one row per party: label histograms, binned cases.

        Examples
        --------
        >>> game = CoverageGame.from_histograms([[30, 10], [5, 15]], mu=0.8)
        >>> game.utilities([1, 0]).tolist()  # one sample of party 0
        [0.8125, 0.6875]
        """
        table = check_float_array(counts, "counts", ndim=2)
        if (table < 0).any():
            i, x = (int(v) for v in np.argwhere(table < 0)[0])
            raise InvalidInputError(f"counts[{i}, {x}]={table[i, x]:g} must not be negative")
        sums = table.sum(axis=1)
        if (sums == 0).any():
            raise InvalidInputError(f"party {int(np.argmin(sums))} has no counts at all; remove it")
        return cls(table / sums[:, None], mu, integral=integral, **options)

    @classmethod
    def from_tables(
        cls,
        tables: Sequence[Any],
        mu: ArrayLike,
        *,
        cells: int = 200,
        integral: bool = True,
        caps: Literal["owned"] | None = "owned",
        random_state: RandomState = 0,
        **options: Any,
    ) -> Self:
        """Build the game from one table per party (data frames or arrays, numbers or categories).

        Columns are matched by name. The pooled rows are clustered into ``cells`` cells and only the
        parties' histograms over cells are kept. ``mu`` is a share of covered cells, not an accuracy
        (for that: ``plan_consortium``); totals depend on ``cells``. No plan asks for more rows than
        a party owns; ``caps=None`` says that parties can collect as many as they like.
        """
        check_choice(caps, "caps", ("owned", None))
        counts = cell_histograms(tables, cells=cells, random_state=random_state)
        if caps == "owned" and "upper" not in options:
            options["upper"] = counts.sum(axis=1)
        game = cls.from_histograms(counts, mu, integral=integral, **options)
        asked = f"{game.mu.min():g}" if np.ptp(game.mu) == 0 else "the targets"
        verb = "is" if np.ptp(game.mu) == 0 else "are"
        game.remark = (
            f"{asked} {verb} coverage of {counts.shape[1]} cells, not accuracy; totals depend on "
            "cells (plan_consortium measures accuracy itself)"
        )
        return game

    def factors(self, theta: FloatArray) -> FloatArray:
        """Return ``F[j, x]``, the probability that party j misses point type x."""
        return miss_probability(self.Q, theta[:, None], self.extension)

    def jacobian(self, theta: ArrayLike, *, side: Literal["right", "left"] = "right") -> FloatArray:
        """Return one-sided derivatives ``J[i, j]``: differences between whole numbers, exactly.

        They differ at whole numbers only. The left derivative at zero does not exist; the right one
        is given there.
        """
        vector = self._vector(theta)
        check_choice(side, "side", ("right", "left"))
        others = leave_one_out(self.factors(vector))
        if self.extension == "exponent":
            with np.errstate(divide="ignore", invalid="ignore"):
                slope = -np.log1p(-self.Q) * self.factors(vector)
            slope = np.where(self.Q == 1.0, np.where(vector[:, None] > 0, 0.0, np.inf), slope)
        else:
            below = np.ceil(vector) - 1.0 if side == "left" else np.floor(vector)
            slope = self.Q * (1.0 - self.Q) ** np.maximum(below, 0.0)[:, None]
        return 0.5 * (self.Q * self.multiplicity) @ (others * slope).T

    def swap_utilities(self, theta: ArrayLike) -> FloatArray:
        """Return ``S[i, j]`` for all pairs in O(k^2 n), by products that never divide."""
        vector = self._vector(theta)
        factors = self.factors(vector)
        swapped = np.empty((self.k, self.k))
        for i in range(self.k):
            seen = self.Q[i] > 0
            own, table = self.Q[i, seen], self.Q[:, seen]
            without = factors[:, seen].copy()
            without[i] = 1.0
            rest = leave_one_out(without)  # all factors but i's and j's
            mine = miss_probability(own[None, :], vector[:, None], self.extension)
            theirs = miss_probability(table, vector[i], self.extension)
            theirs[i] = 1.0
            weight = own * self.multiplicity[seen]
            swapped[i] = 1.0 - 0.5 * (rest * mine * theirs) @ weight
        return swapped

    def well_behaved_constants(
        self, C: ArrayLike | None = None, *, samples: int = 256, random_state: RandomState = 0
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``c1_i = max_j 1/2 sum_x q_ix q_jx`` and ``c2_i = u_i(C + e_i) - u_i(C)``."""
        corner = self._corner(C)
        cross = 0.5 * (self.Q * self.multiplicity) @ self.Q.T
        np.fill_diagonal(cross, 0.0)
        return cross.max(axis=1), np.diagonal(self._slopes_at(corner)).copy()

    def best_response_map(self, theta: ArrayLike) -> FloatArray:
        """Return all best responses with one pass over the table of factors."""
        vector = self._vector(theta)
        if self.extension == "exponent":
            return super().best_response_map(vector)
        others = leave_one_out(self.factors(vector))
        responses = np.array([self._response_given(i, others[i], vector[i]) for i in range(self.k)])
        return np.asarray(np.minimum(responses, self.caps))

    def _restricted(self, index: list[int]) -> CoverageGame:
        return CoverageGame(
            self.Q[index],
            self.mu[index],
            self.multiplicity,
            self.integral,
            upper=None if self.upper is None else self.upper[index],
            cost=self.cost[index],
            extension=self.extension,
        )

    def with_integral(self, integral: bool) -> Self:
        """Return the game of the chapter with or without whole numbers only."""
        if self.integral == integral and self.extension == "rounding":
            return self
        game = self._copy()
        game.integral, game.extension = integral, "rounding"
        game._set_upper(self.upper)
        game._validate()
        return game

    def with_extension(self, extension: Extension) -> Self:
        """Return the same game with the other reading of fractional contributions."""
        game = self._copy()
        game.extension = check_choice(extension, "extension", ("rounding", "exponent"))
        return game

    @cached_property
    def supports(self) -> tuple[np.ndarray, np.ndarray, FloatArray]:
        """Row-compressed ``Q``: ``(indptr, types, values)``, for the sweeps of the dynamics."""
        rows = sparse.csr_array(self.Q)
        return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data

    def _utilities(self, theta: FloatArray) -> FloatArray:
        weights = self.Q * self.multiplicity
        if theta.shape[0] == 1:
            missed = self._missed_once(theta[0])[None, :]
            return np.asarray(1.0 - 0.5 * missed @ weights.T)
        rows = max(1, 4_000_000 // self.n_types)
        parts = [self._missed(theta[s : s + rows]) for s in range(0, theta.shape[0], rows)]
        return np.asarray(1.0 - 0.5 * np.concatenate(parts) @ weights.T)

    def _missed_once(self, theta: FloatArray) -> FloatArray:
        indptr, types, q = self.supports
        if q.size > 0.2 * self.Q.size:
            return np.asarray(np.prod(self.factors(theta), axis=0))
        missed = np.ones(self.n_types)
        level = np.repeat(theta, np.diff(indptr))
        np.multiply.at(missed, types, miss_probability(q, level, self.extension))
        return missed

    def _missed(self, theta: FloatArray) -> FloatArray:
        missed = np.ones((theta.shape[0], self.n_types))
        for j in range(self.k):
            missed *= miss_probability(self.Q[j][None, :], theta[:, j : j + 1], self.extension)
        return missed

    def _best_response(self, i: int, theta: FloatArray) -> float:
        if self.extension == "exponent":
            return super()._best_response(i, theta)
        seen = self.Q[i] > 0
        factors = miss_probability(self.Q[:, seen], theta[:, None])
        factors[i] = 1.0
        others = np.ones(self.n_types)
        others[seen] = np.prod(factors, axis=0)
        return self._response_given(i, others, theta[i])

    @cached_property
    def _standalone(self) -> FloatArray:
        if self.extension == "exponent":
            return _frozen(super()._standalone)
        nobody = np.ones(self.n_types)
        return _frozen(np.array([self._response_given(i, nobody, 0.0) for i in range(self.k)]))

    def _response_given(self, i: int, others: FloatArray, start: float) -> float:
        indptr, types, values = self.supports
        own = slice(indptr[i], indptr[i + 1])
        q = values[own]
        remaining = self.multiplicity[types[own]] * q * others[types[own]]
        keep = 1.0 - q

        def curve(t: float) -> float:
            return float(1.0 - 0.5 * remaining @ keep**t)

        return crossing_level(curve, float(self.mu[i]), integral=self.integral, start=start)

    def _slopes_at(self, corner: FloatArray) -> FloatArray:
        others = leave_one_out(self.factors(corner))
        slope = self.factors(corner) - self.factors(corner + 1.0)
        return 0.5 * (self.Q * self.multiplicity) @ (others * slope).T

    def _sup_alone(self, i: int) -> float:
        return 1.0

    def _check_targets(self) -> None:
        for i in np.flatnonzero(self.mu >= 1.0):
            if self.mu[i] > 1.0 or not (self.Q[i] == 1.0).any():
                raise InfeasibleError(
                    f"{self.party(i)} cannot reach mu={self.mu[i]:g} alone: sup of u_{i} is 1, "
                    "which no finite number of samples attains; ask for less than 1"
                )


@checked
def cell_histograms(
    tables: Sequence[Any], *, cells: int = 200, random_state: RandomState = 0
) -> IntArray:
    """Return counts per party and cell, from one table per party.

    What leaves a party is one histogram, not its rows.

    Parameters
    ----------
    tables:
        Data frames or arrays with the same columns, in any order where they have names; text and
        category columns are one-hot coded.
    cells:
        Number of cells; fewer if there are fewer distinct rows.
    random_state:
        Seed of the clustering (k-means on standardised columns).

    Examples
    --------
    >>> import pandas as pd
    >>> a = pd.DataFrame({"age": [30, 31, 32], "ward": ["A", "A", "B"]})
    >>> b = pd.DataFrame({"age": [80, 81], "ward": ["B", "B"]})
    >>> cell_histograms([a, b], cells=2).sum(axis=1).tolist()
    [3, 2]
    """
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    from counterplay.contribution.parties import coded_numbers, read_parties

    check_positive_int(cells, "cells")
    pool, sizes = read_parties(tables)
    check_size(min(cells, len(pool)) * len(pool), MOST_DISTANCES, "cells x rows")
    rows = StandardScaler().fit_transform(coded_numbers(pool))
    n_cells = min(cells, len(np.unique(rows, axis=0)))
    seed = int(generator(random_state).integers(2**31 - 1))
    cell = KMeans(n_cells, n_init=1, random_state=seed).fit_predict(rows)
    party = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.bincount(party * n_cells + cell, minlength=len(sizes) * n_cells)
    return counts.reshape(len(sizes), n_cells).astype(np.int64)


def miss_probability(q: FloatArray, theta: Any, extension: str = "rounding") -> FloatArray:
    """Return the probability that ``theta`` samples, rounded at random, all miss a point.

    ``(1-q)^t (1 - r q)`` with whole part ``t`` and fraction ``r``; broadcasts.

    Examples
    --------
    >>> miss_probability(np.array([0.5, 1.0]), 0.0).tolist()
    [1.0, 1.0]
    """
    level = np.asarray(theta, dtype=np.float64)
    if extension == "exponent":
        return np.asarray((1.0 - q) ** level, dtype=np.float64)
    whole = np.floor(level)
    return np.asarray((1.0 - q) ** whole * (1.0 - (level - whole) * q), dtype=np.float64)


def leave_one_out(factors: FloatArray) -> FloatArray:
    """Return ``R[j] = prod_{l != j} F[l]`` from prefix and suffix products, without dividing."""
    k = factors.shape[0]
    before, after = np.ones_like(factors), np.ones_like(factors)
    np.cumprod(factors[: k - 1], axis=0, out=before[1:])
    after[: k - 1] = np.cumprod(factors[:0:-1], axis=0)[::-1]
    return before * after


def _check_distributions(Q: Any, multiplicity: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    matrix = check_float_array(Q.toarray() if sparse.issparse(Q) else Q, "Q", ndim=2)
    if 0 in matrix.shape:
        raise InvalidInputError(f"Q must not be empty, got shape {matrix.shape}")
    if (matrix < 0).any() or (matrix > 1 + 1e-12).any():
        i, x = (int(v) for v in np.argwhere((matrix < 0) | (matrix > 1 + 1e-12))[0])
        raise InvalidInputError(f"Q[{i}, {x}]={matrix[i, x]:g} must be within [0, 1]")
    n = matrix.shape[1]
    counts = np.ones(n) if multiplicity is None else check_float_array(multiplicity, "multiplicity")
    if counts.shape != (n,) or (counts <= 0).any():
        raise InvalidInputError(f"multiplicity must be {n} positive numbers, one per column of Q")
    sums = matrix @ counts
    if (abs(sums - 1.0) > 1e-9).any():
        i = int(np.argmax(abs(sums - 1.0)))
        raise InvalidInputError(f"row {i} of Q must sum to 1 (with multiplicity), got {sums[i]:g}")
    return np.minimum(matrix, 1.0), counts


def _merge_columns(matrix: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Merge equal columns and drop points that nobody sees."""
    seen = matrix.any(axis=0)
    unique, inverse = np.unique(matrix[:, seen], axis=1, return_inverse=True)
    merged = np.bincount(np.ravel(inverse), weights=counts[seen])
    return unique, np.asarray(merged, dtype=np.float64)
