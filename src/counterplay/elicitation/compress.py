"""C4: compress a convex combination to at most k+1 of its points, exactly (Caratheodory).

The default works with relative weights, so that points of weight 1e-12 keep their share: rare
events are the reason to ask for exactness. It reduces whole cells of points at a time, which is
linear in the number of points.
Source: Algorithm G.2, Lemma 8.4; docs/theory/08-elicitation.md, "C4: compress a convex combination
(Algorithm G.2)".
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_float_array,
    check_probabilities,
)
from counterplay.errors import InvalidInputError

Method: TypeAlias = Literal["tree", "literal", "unscaled"]


class Compression(NamedTuple):
    """Indices of the kept points and their new weights."""

    indices: IntArray
    weights: FloatArray


@checked
def c4_compress(M: ArrayLike, p: ArrayLike, *, method: Method = "tree") -> Compression:
    """Keep at most k+1 points with new weights that give the same mean.

    Use it to replace a large distribution by a few of its own points without changing any
    expectation: scenarios, trajectories, lotteries.

    Parameters
    ----------
    M:
        Points (n, k).
    p:
        Distribution (n,) over the points.
    method:
        ``"tree"``: cells of points with relative weights, exact for rare events, time
        ``O(nk + k^4 log n)``. ``"literal"``: the loop as in the thesis, ``O(n k^3)``.
        ``"unscaled"``: cells without relative weights, for comparison only; it loses rare events.

    Returns
    -------
    Compression
        Indices into ``M`` (sorted) and positive weights that sum to 1, at most k+1 of them, with
        ``weights @ M[indices] == p @ M`` (Lemma 8.4).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> M, p = rng.random((1000, 3)), rng.dirichlet(np.ones(1000))
    >>> kept = c4_compress(M, p)
    >>> len(kept.indices), bool(np.abs(kept.weights @ M[kept.indices] - p @ M).max() < 1e-14)
    (4, True)

    References
    ----------
    Caratheodory (1911); Maalouf, Jubran, Feldman (2019) for the tree.
    """
    check_choice(method, "method", ("tree", "literal", "unscaled"))
    points = check_float_array(M, "M", ndim=2)
    weights = check_probabilities(p, "p")
    if weights.shape != (len(points),):
        raise InvalidInputError(f"p must have {len(points)} entries, got shape {weights.shape}")
    return compress(points, weights, method)


def compress(points: FloatArray, weights: FloatArray, method: Method = "tree") -> Compression:
    """Compress without checking the input."""
    alive = np.flatnonzero(weights > 0)
    k = points.shape[1]
    if alive.size <= k + 1:
        kept = weights[alive]
        return Compression(alive, kept / kept.sum())
    if alive.size < weights.size:
        points, weights = points[alive], weights[alive]
    target = weights @ points
    if method == "literal":
        index, weight = _literal_loop(points, weights)
    else:
        index, weight = _cell_tree(points, weights, method == "tree")
    order = np.argsort(index)
    index, weight = index[order], weight[order] / weight.sum()
    if method == "tree":
        weight = polish(points[index], weight, target / weights.sum())
    return Compression(alive[index], weight)


def polish(points: FloatArray, weights: FloatArray, target: FloatArray) -> FloatArray:
    """One least-squares correction of the weights, accepted only if it helps and stays positive."""
    system = np.vstack([points.T, np.ones(len(points))]) * weights  # relative corrections
    size = np.abs(system).sum(axis=1)
    size[size == 0] = 1.0
    residual = np.append(target - weights @ points, 1.0 - weights.sum())
    change = np.linalg.lstsq(system / size[:, None], residual / size, rcond=1e-13)[0]
    better = weights * (1.0 + change)
    if not (better > 0).all():
        return weights
    remaining = np.append(target - better @ points, 1.0 - better.sum())
    return better if np.abs(remaining / size).max() <= np.abs(residual / size).max() else weights


@njit(cache=True)
def _null_space(system):  # type: ignore[no-untyped-def]  # compiled by numba
    """Orthonormal columns that span the null space of a wide matrix with unit-scale rows."""
    _, singular, vh = np.linalg.svd(system, True)
    rank = 0
    for value in singular:
        if value > 1e-13 * singular[0]:
            rank += 1
    return np.ascontiguousarray(vh[rank:].T)


@njit(cache=True)
def _reduce_block(points, weights, relative):  # type: ignore[no-untyped-def]  # compiled by numba
    """Weights of a small block with as many zeros as its null space has dimensions."""
    n, k = points.shape
    # unknown changes y with sum_i y_i (x_i, 1) = 0; relative changes weigh each column
    system = np.empty((k + 1, n))
    for i in range(n):
        factor = weights[i] if relative else 1.0
        for j in range(k):
            system[j, i] = factor * points[i, j]
        system[k, i] = factor
    scale = np.ones(n)
    if relative:
        # rows, then columns, of unit size: rank is decided without regard to magnitudes
        for j in range(k + 1):
            size = np.abs(system[j]).sum()
            if size > 0:
                system[j] /= size
        for i in range(n):
            size = np.sqrt((system[:, i] ** 2).sum())
            if size > 0:
                scale[i] = size
                system[:, i] /= size
    null = _null_space(system)
    for i in range(n):
        null[i] /= scale[i]
    share = np.ones(n) if relative else weights.copy()
    dead = np.zeros(n, np.bool_)
    for column in range(null.shape[1]):
        # move along one null vector until the first share reaches zero
        y = null[:, column].copy()
        if y.max() < -y.min():
            y = -y
        best, first = np.inf, -1
        for i in range(n):
            if not dead[i] and y[i] > 0:
                ratio = share[i] / y[i]
                if ratio < best:
                    best, first = ratio, i
        if first < 0:
            continue
        # rounding must not make shares negative
        for i in range(n):
            share[i] = max(share[i] - best * y[i], 0.0)
        share[first] = 0.0
        dead[first] = True
        # the other null vectors must leave that share at zero
        for other in range(column + 1, null.shape[1]):
            ratio = null[first, other] / y[first]
            null[:, other] -= ratio * y
            null[first, other] = 0.0
            size = np.abs(null[:, other] * scale).max()
            if size > 0:
                null[:, other] /= size
    return share * weights if relative else share


@njit(cache=True)
def _cell_tree(points, weights, relative):  # type: ignore[no-untyped-def]  # compiled by numba
    """Split into 2(k+1) cells, drop the cells that the compressed cell means do not need."""
    k = points.shape[1]
    index = np.arange(len(points))
    weight = weights.copy()
    fewest = 2 * (k + 1)
    while index.size > fewest:
        n = index.size
        cells = fewest if n < 100 * fewest else 2 * fewest  # fewer rounds when there are many
        # mass and mean of every cell
        mass = np.zeros(cells)
        means = np.zeros((cells, k))
        for cell in range(cells):
            total = np.zeros(k)
            for position in range(cell * n // cells, (cell + 1) * n // cells):
                amount, row = weight[position], np.uint64(index[position])
                mass[cell] += amount
                for j in range(k):
                    total[j] += amount * points[row, j]
            means[cell] = total / mass[cell]
        # compress the means; points of a cell whose mean is not needed go, the others are scaled
        reduced = _reduce_block(means, mass, relative)
        kept = 0
        for cell in range(cells):
            if reduced[cell] > 0:
                factor = reduced[cell] / mass[cell]
                for position in range(cell * n // cells, (cell + 1) * n // cells):
                    index[kept] = index[position]
                    weight[kept] = weight[position] * factor
                    kept += 1
        if kept == n:
            break
        index, weight = index[:kept].copy(), weight[:kept].copy()
    weight = _reduce_block(points[index], weight, relative)
    alive = weight > 0
    return index[alive], weight[alive]


@njit(cache=True)
def _literal_loop(points, weights):  # type: ignore[no-untyped-def]  # compiled by numba
    """The loop of the thesis: take k+2 points, remove at least one, repeat."""
    n, k = points.shape
    weight = weights.copy()
    active = np.arange(n)
    while active.size > k + 1:
        # k+2 points in k dimensions: some change of their weights keeps mass and mean
        block = active[: k + 2]
        system = np.ones((k + 1, k + 2))
        system[:k] = points[block].T
        _, _, vh = np.linalg.svd(system, True)
        x = vh[-1].copy()
        # the point whose weight is used up first goes
        ratios = np.abs(x) / weight[block]
        i0 = np.argmax(ratios)
        if x[i0] < 0:
            x = -x
        step = weight[block[i0]] / x[i0]
        for position in range(k + 2):
            weight[block[position]] = max(weight[block[position]] - step * x[position], 0.0)
        weight[block[i0]] = 0.0
        active = active[weight[active] > 0]
    return active, weight[active]
