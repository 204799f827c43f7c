"""Linear utilities (random discovery): each unit of j's effort is worth ``W[i, j]`` to party i.

Read ``W[i, j]`` as the overlap of what j collects with what i cares about. In this game stable
plans can be computed exactly, even for thousands of parties.
Source: "Linear utilities", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse

from counterplay.contribution.game import CollabGame, _frozen
from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState
from counterplay.core.validation import (
    FloatArray,
    check_choice,
    check_float_array,
    check_probabilities,
)
from counterplay.errors import AssumptionWarning, InvalidInputError


@checked
class LinearGame(CollabGame):
    """Data sharing with linear utilities ``u(theta) = W @ theta``.

    Use it when you have an overlap matrix, or want the fast exact solvers: everything from the
    cheapest plan to the cheapest stable plan is a linear program away.

    Parameters
    ----------
    W:
        ``(k, k)`` array or scipy.sparse matrix with non-negative entries and positive diagonal;
        ``W[i, j]`` is the effect of one unit of j on i. Usually within [0, 1] with unit diagonal.
        With caps, effects on others may be negative: somebody's data may hurt.
    mu:
        Targets, one per party or one for all.
    upper:
        Caps on contributions, or None.
    cost:
        Price per unit of each party, 1 by default.
    check_scale:
        Warn if ``W`` does not have the usual scale.

    Notes
    -----
    Without caps a stable plan always exists; with caps it may not. If ``W`` is symmetric positive
    semidefinite, the stable plans are a polyhedron and the cheapest is found exactly
    (``optimal_stable_linear``).

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Sec. 2 (random discovery).

    Examples
    --------
    >>> game = LinearGame([[1.0, 0.5], [0.5, 1.0]], mu=1.0)
    >>> game.utilities([1.0, 0.0]).tolist()
    [1.0, 0.5]
    >>> game.best_response(1, [1.0, 0.0])
    0.5
    """

    def __init__(
        self,
        W: Any,
        mu: ArrayLike = 1.0,
        *,
        upper: ArrayLike | None = None,
        cost: ArrayLike | None = None,
        check_scale: bool = True,
    ) -> None:
        self.W = _check_matrix(W, hurts=upper is not None)
        self.is_sparse = bool(sparse.issparse(self.W))
        super().__init__(self.W.shape[0], mu, upper=upper, cost=cost)
        self.diagonal = _frozen(self.W.diagonal())
        if (self.diagonal <= 0).any():
            i = int(np.argmin(self.diagonal))
            raise InvalidInputError(
                f"W[{i}, {i}]={self.diagonal[i]:g} must be positive: party {i} cannot help itself"
            )
        if check_scale:
            self._warn_about_scale()
        self._validate()

    @classmethod
    def from_distributions(
        cls, Q: ArrayLike, mu: ArrayLike = 1.0, *, scale: Literal["none", "unit_diagonal"] = "none"
    ) -> Self:
        """Build the game from data distributions: ``W = Q Q^T``.

        Parameters
        ----------
        Q:
            ``(k, n)`` array whose rows are probability vectors.
        mu:
            Targets in the units of ``Q Q^T``.
        scale:
            ``"none"`` keeps ``W = Q Q^T``. ``"unit_diagonal"`` divides by the norms of the rows:
            then ``theta'_j = |q_j| theta_j`` and the targets become ``mu_i / |q_i|``; costs
            ``1/|q_j|`` are set so that totals still count samples (see ``to_samples``).

        Examples
        --------
        >>> game = LinearGame.from_distributions([[0.5, 0.5], [0.0, 1.0]], mu=0.5)
        >>> game.W.tolist()
        [[0.5, 0.5], [0.5, 1.0]]
        """
        rows = check_probabilities(Q, "Q")
        check_choice(scale, "scale", ("none", "unit_diagonal"))
        gram = rows @ rows.T
        if scale == "none":
            return cls(gram, mu, check_scale=False)
        norms = np.linalg.norm(rows, axis=1)
        target = np.broadcast_to(check_float_array(mu, "mu"), norms.shape)
        return cls(gram / np.outer(norms, norms), target / norms, cost=1 / norms, check_scale=False)

    @classmethod
    def from_sets(cls, sets: Sequence[Iterable[Any]], mu: ArrayLike = 1.0) -> Self:
        """Build the game from what each party covers: ``W[i, j] = |X_i & X_j| / |X_i|``.

        For sets of equal size ``b`` this is ``b Q Q^T`` for uniform distributions on them.

        Examples
        --------
        >>> LinearGame.from_sets([{"flu", "asthma"}, {"flu", "measles"}]).W.tolist()
        [[1.0, 0.5], [0.5, 1.0]]
        """
        groups = [frozenset(items) for items in sets]
        if not groups or not all(groups):
            raise InvalidInputError("sets must contain at least one non-empty set per party")
        W = [[len(a & b) / len(a) for b in groups] for a in groups]
        return cls(W, mu, check_scale=False)

    @cached_property
    def hurts(self) -> bool:
        """Whether somebody's data makes things worse for somebody else."""
        return bool(self.W.min() < 0)

    def _validate(self) -> None:
        if not self.hurts:  # otherwise the caps are not the best point; the programs will say
            super()._validate()

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether ``W`` equals its transpose up to 1e-12."""
        gap = abs(self.W - self.W.T)
        return bool(gap.max() <= 1e-12)

    @cached_property
    def _eigenvalues(self) -> tuple[float, float]:
        if not self.is_symmetric:
            return np.nan, np.nan
        if self.k > 3000 and self.is_sparse:
            from scipy.sparse.linalg import eigsh

            low = eigsh(self.W, k=1, which="SA", return_eigenvectors=False)[0]
            high = eigsh(self.W, k=1, which="LA", return_eigenvectors=False)[0]
            return float(low), float(high)
        values = linalg.eigvalsh(self.dense(), check_finite=False)
        return float(values[0]), float(values[-1])

    @property
    def min_eig(self) -> float:
        """Smallest eigenvalue of a symmetric ``W``; NaN otherwise."""
        return self._eigenvalues[0]

    @cached_property
    def is_psd(self) -> bool:
        """Whether ``W`` is symmetric positive semidefinite (up to 1e-10 of its largest value)."""
        if not self.is_symmetric:
            return False
        if self.is_strictly_diag_dominant or self._has_cholesky():
            return True
        low, high = self._eigenvalues
        return bool(low >= -1e-10 * high)

    @cached_property
    def unit_diagonal(self) -> bool:
        """Whether every party's own effort counts exactly once."""
        return bool(np.allclose(self.diagonal, 1.0, rtol=0, atol=1e-12))

    @cached_property
    def is_strictly_diag_dominant(self) -> bool:
        """Whether each diagonal entry exceeds the sum of the others in its row."""
        return bool((self._row_sums() - self.diagonal < self.diagonal).all())

    @property
    def uniform_mu(self) -> bool:
        """Whether all targets are equal."""
        return bool(np.ptp(self.mu) <= 1e-12 * max(1.0, abs(self.mu[0])))

    @property
    def uniform_cost(self) -> bool:
        """Whether all prices are equal."""
        return bool(np.ptp(self.cost) <= 1e-12 * max(1.0, self.cost[0]))

    @cached_property
    def largest_cross(self) -> FloatArray:
        """Per party, the largest effect of anybody else: ``max_{j != i} W_ij``."""
        if self.k == 1:
            return _frozen(np.zeros(1))
        if self.is_sparse:
            off = (self.W - sparse.diags(self.diagonal)).tocsr()
            return _frozen(off.max(axis=1).toarray().ravel())
        off = self.W.copy()
        np.fill_diagonal(off, -np.inf)
        return _frozen(off.max(axis=1))

    @property
    def diag_strictly_largest(self) -> bool:
        """Whether ``W_ij < W_ii`` for all ``j != i``: nobody is better for i than i itself."""
        return bool((self.largest_cross < self.diagonal).all())

    def dense(self) -> FloatArray:
        """Return ``W`` as a dense array."""
        dense: FloatArray = self.W.toarray() if self.is_sparse else self.W
        return dense

    def to_samples(self, theta: ArrayLike) -> FloatArray:
        """Return contributions in original samples for a game scaled to unit diagonal."""
        return np.asarray(self._vector(theta) * self.cost)

    def swap_utilities(self, theta: ArrayLike) -> FloatArray:
        """Return ``S[i, j] = u_i + (theta_i - theta_j)(W_ij - W_ii)`` for all pairs."""
        vector = self._vector(theta)
        u = self._utilities(vector[None, :])[0]
        effect = self.dense() - self.diagonal[:, None]
        return np.asarray(u[:, None] + (vector[:, None] - vector[None, :]) * effect)

    def jacobian(self, theta: ArrayLike) -> FloatArray:
        """Return ``W``, the derivative at every ``theta``."""
        self._vector(theta)
        return np.array(self.dense())

    def well_behaved_constants(
        self, C: ArrayLike | None = None, *, samples: int = 256, random_state: RandomState = 0
    ) -> tuple[FloatArray, FloatArray]:
        """Return the exact constants ``c1_i = max_{j != i} W_ij`` and ``c2_i = W_ii``."""
        return self.largest_cross, self.diagonal

    def best_response_map(self, theta: ArrayLike) -> FloatArray:
        """Return all best responses ``max(0, theta_i + (mu_i - u_i) / W_ii)`` at once."""
        vector = self._vector(theta)
        u = self._utilities(vector[None, :])[0]
        responses = np.maximum(0.0, vector + (self.mu - u) / self.diagonal)
        return np.asarray(np.minimum(responses, self.caps))

    def _restricted(self, index: list[int]) -> LinearGame:
        matrix = self.W[index][:, index]
        upper = None if self.upper is None else self.upper[index]
        return LinearGame(
            matrix, self.mu[index], upper=upper, cost=self.cost[index], check_scale=False
        )

    def _utilities(self, theta: FloatArray) -> FloatArray:
        return np.ascontiguousarray((self.W @ theta.T).T)

    def _best_response(self, i: int, theta: FloatArray) -> float:
        row = self.W[[i]]
        u = float((row @ theta)[0])
        return max(0.0, float(theta[i] + (self.mu[i] - u) / self.diagonal[i]))

    @cached_property
    def _standalone(self) -> FloatArray:
        return _frozen(np.maximum(self.mu, 0.0) / self.diagonal)

    def _row_sums(self) -> FloatArray:
        return np.asarray(self.W.sum(axis=1)).ravel()

    def _has_cholesky(self) -> bool:
        if self.is_sparse and self.k > 3000:
            return False
        try:
            linalg.cholesky(self.dense(), lower=True, check_finite=False)
        except linalg.LinAlgError:
            return False
        return True

    def _warn_about_scale(self) -> None:
        if self.W.max() > 1 + 1e-12:
            warnings.warn(
                f"W has an entry of {self.W.max():g}; effects are usually within [0, 1]",
                AssumptionWarning,
                stacklevel=3,
            )
        elif not self.unit_diagonal:
            i = int(np.argmax(abs(self.diagonal - 1)))
            warnings.warn(
                f"W[{i}, {i}]={self.diagonal[i]:g} is not 1: contributions of different parties "
                "are in different units; totals add them as they are",
                AssumptionWarning,
                stacklevel=3,
            )


def as_linear_game(W: Any, mu: ArrayLike | None = None) -> LinearGame:
    """Return ``W`` if it is a game, or the game of matrix ``W`` and targets ``mu``."""
    if isinstance(W, LinearGame):
        return W if mu is None else W.with_mu(mu)
    return LinearGame(W, 1.0 if mu is None else mu, check_scale=False)


def _check_matrix(W: Any, *, hurts: bool = False) -> Any:
    if sparse.issparse(W):
        matrix: Any = sparse.csr_array(W, dtype=np.float64)
        check_float_array(matrix.data, "W")
        matrix.eliminate_zeros()
    else:
        matrix = check_float_array(W, "W", ndim=2).copy()
        matrix.setflags(write=False)
    if matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise InvalidInputError(f"W must be square, one row per party, got shape {matrix.shape}")
    if matrix.min() < 0 and not hurts:
        flat = int(matrix.toarray().argmin() if sparse.issparse(matrix) else matrix.argmin())
        i, j = divmod(flat, matrix.shape[0])
        raise InvalidInputError(
            f"W[{i}, {j}]={matrix[i, j]:g} must not be negative without caps: give upper="
        )
    return matrix
