"""Halfspaces that are best after everybody has moved: exact in the plane, by MILP, or heuristic.

For a fixed direction w the induced label is a threshold on the support function max over N[x] of
w.z, so the best offset is found by sorting. In the plane only finitely many directions differ.
Source: spec 03, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from counterplay.core.validation import FloatArray
from counterplay.errors import ConvergenceError, InvalidInputError
from counterplay.strategic.graphs.bags import BagSample, best_threshold

_MARGIN = 1e-3  # separation asked of the MILP's halfspace


@dataclass(frozen=True, eq=False)
class HalfspaceFit:
    """A halfspace w.z >= b with its strategic loss on the sample and whether it is optimal."""

    weights: FloatArray
    threshold: float
    loss: float
    optimal: bool
    gap: float = 0.0


def threshold_1d(sample: BagSample) -> HalfspaceFit:
    """Best rule z >= b on one feature: ordinary threshold fitting on bag maxima."""
    if sample.points.shape[1] != 1:
        raise InvalidInputError("threshold1d needs exactly one feature")
    loss, cut = best_threshold(sample.maxima(sample.points[:, 0]), sample.positive, sample.negative)
    return HalfspaceFit(np.ones(1), float(cut), float(loss), True)


def halfspace_2d_exact(sample: BagSample) -> HalfspaceFit:
    """Best halfspace in the plane, over all directions."""
    if sample.points.shape[1] != 2:
        raise InvalidInputError("halfspace2d_exact needs exactly two features")
    centre = sample.points.mean(axis=0)
    directions = _generic_directions(sample.points)
    best = _best_direction(
        sample.points - centre,
        directions,
        sample.pointers,
        sample.position,
        sample.positive,
        sample.negative,
    )
    w = directions[best]
    scores = (sample.points - centre) @ w
    loss, cut = best_threshold(sample.maxima(scores), sample.positive, sample.negative)
    return HalfspaceFit(w, float(cut) + float(w @ centre), float(loss), True)


@njit(cache=True)
def _best_direction(points, directions, pointers, position, positive, negative):  # type: ignore[no-untyped-def]  # compiled by numba
    """Direction whose best threshold on bag maxima has the least loss; first one on ties.

    Directions come in the order of their angle, so the order of the bags hardly changes from one
    to the next and insertion sort takes about linear time.
    """
    n_bags = positive.size
    scores, maxima = np.empty(len(points)), np.empty(n_bags)
    order = np.arange(n_bags)
    least, best = np.inf, 0
    for j in range(len(directions)):
        for i in range(len(points)):
            scores[i] = directions[j, 0] * points[i, 0] + directions[j, 1] * points[i, 1]
        for t in range(n_bags):
            maxima[t] = scores[position[pointers[t]]]
            for i in range(pointers[t] + 1, pointers[t + 1]):
                maxima[t] = max(maxima[t], scores[position[i]])
        for i in range(1, n_bags):  # largest maximum first
            moved, place = order[i], i
            while place > 0 and maxima[order[place - 1]] < maxima[moved]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = moved
        loss = positive.sum()  # accept nobody, then one group of equal maxima after the other
        if loss < least - 1e-12:
            least, best = loss, j
        for i in range(n_bags):
            loss += negative[order[i]] - positive[order[i]]
            last = i + 1 == n_bags or maxima[order[i + 1]] < maxima[order[i]]
            if last and loss < least - 1e-12:
                least, best = loss, j
    return best


def halfspace_milp(sample: BagSample, *, time_limit: float = 60.0) -> HalfspaceFit:
    """Best halfspace by mixed-integer programming; small samples, any number of features."""
    centre, scale = _standardiser(sample.points)
    Z = (sample.points - centre) / scale
    signs, bags = _signed_bags(sample)
    p, T = Z.shape[1], len(bags)
    selectors = [int(sample.bag(t).size) if y else 0 for t, y in zip(bags, signs)]
    first = p + 1 + T + np.concatenate([[0], np.cumsum(selectors)]).astype(int)
    n = int(first[-1])
    big = float(np.abs(Z).sum(axis=1).max())
    M = 2 * big + 2 * _MARGIN
    rows: list[dict[int, float]] = []
    lower: list[float] = []
    for i, (t, y) in enumerate(zip(bags, signs)):
        members = sample.bag(t)
        for j, z in enumerate(members):
            row = dict(enumerate(Z[z].tolist()))
            row[p] = 1.0
            if y:  # w.z + b >= margin - M (1 - s)
                row[int(first[i]) + j] = -M
                rows.append(row)
                lower.append(_MARGIN - M)
            else:  # -(w.z + b) >= margin - M e
                negated = {column: -value for column, value in row.items()}
                negated[p + 1 + i] = M
                rows.append(negated)
                lower.append(_MARGIN)
        if y:  # at least one selected point, or an error
            row = {int(first[i]) + j: 1.0 for j in range(members.size)}
            row[p + 1 + i] = 1.0
            rows.append(row)
            lower.append(1.0)
    matrix = _sparse_rows(rows, n)
    cost = np.zeros(n)
    cost[p + 1 : p + 1 + T] = [
        sample.positive[t] if y else sample.negative[t] for t, y in zip(bags, signs)
    ]
    integrality = np.concatenate([np.zeros(p + 1), np.ones(n - p - 1)])
    bounds = Bounds(
        np.concatenate([np.full(p, -1.0), [-big], np.zeros(n - p - 1)]),
        np.concatenate([np.full(p, 1.0), [big], np.ones(n - p - 1)]),
    )
    result = milp(
        cost,
        constraints=LinearConstraint(matrix, lb=np.array(lower)),
        integrality=integrality,
        bounds=bounds,
        options={"time_limit": time_limit},
    )
    if result.x is None:
        raise ConvergenceError(
            f"the MILP found no halfspace in {time_limit:g} s; use another backend"
        )
    w = result.x[:p] / scale
    fit = _refit(sample, w)
    gap = float(result.mip_gap or 0.0) if result.mip_gap is not None else 0.0
    return HalfspaceFit(fit.weights, fit.threshold, fit.loss, bool(result.status == 0), gap)


def halfspace_heuristic(
    sample: BagSample, *, restarts: int = 10, rng: np.random.Generator
) -> HalfspaceFit:
    """Alternate between choosing a witness per positive bag and fitting a linear model."""
    from sklearn.linear_model import LogisticRegression

    centre, scale = _standardiser(sample.points)
    Z = (sample.points - centre) / scale
    signs, bags = _signed_bags(sample)
    labels = np.array(signs, dtype=np.bool_)
    best: HalfspaceFit | None = None
    for restart in range(restarts):
        w = np.asarray(rng.normal(size=Z.shape[1]))
        if restart == 0:  # start from the direction between the classes
            w = _mean_direction(sample, Z, labels, bags)
        for _ in range(20):
            rows, y, weights = _witness_sample(sample, Z @ w, labels, bags)
            if np.unique(y).size < 2:
                break
            model = LogisticRegression(C=100.0, max_iter=200)
            new = model.fit(Z[rows], y, sample_weight=weights).coef_[0]
            change = np.linalg.norm(new / np.linalg.norm(new) - w / np.linalg.norm(w))
            w = new
            candidate = _refit(sample, w / scale)
            if best is None or candidate.loss < best.loss:
                best = candidate
            if change < 1e-6:
                break
    if best is None:
        best = _refit(sample, np.ones(Z.shape[1]) / scale)
    return HalfspaceFit(best.weights, best.threshold, best.loss, best.loss == 0.0)


def _refit(sample: BagSample, w: FloatArray) -> HalfspaceFit:
    """Best offset for a direction, exactly."""
    if not np.abs(w).sum() > 0:
        w = np.ones(sample.points.shape[1])
    loss, cut = best_threshold(sample.maxima(sample.points @ w), sample.positive, sample.negative)
    return HalfspaceFit(w, float(cut), float(loss), False)


def _generic_directions(points: FloatArray) -> FloatArray:
    """One direction per interval between consecutive normals of point pairs, all around."""
    i, j = np.triu_indices(len(points), 1)
    difference = points[j] - points[i]
    normals = np.arctan2(difference[:, 0], -difference[:, 1])
    angles = np.unique(np.concatenate([normals, normals + np.pi]) % (2 * np.pi))
    if angles.size == 0:
        angles = np.array([0.0])
    keep = np.concatenate([[True], np.diff(angles) > 1e-13])
    angles = angles[keep]
    gaps = np.diff(np.append(angles, angles[0] + 2 * np.pi))
    middle = angles + gaps / 2
    return np.stack([np.cos(middle), np.sin(middle)], axis=1)


def _signed_bags(sample: BagSample) -> tuple[list[bool], list[int]]:
    """One entry per bag and label that occurs with positive weight."""
    signs, bags = [], []
    for t in range(sample.n_bags):
        for y, weight in ((True, sample.positive[t]), (False, sample.negative[t])):
            if weight > 0:
                signs.append(y)
                bags.append(t)
    return signs, bags


def _standardiser(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    scale = points.std(axis=0)
    return points.mean(axis=0), np.where(scale > 0, scale, 1.0)


def _sparse_rows(rows: list[dict[int, float]], n: int) -> sparse.csr_array:
    lengths = [len(row) for row in rows]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.fromiter((c for row in rows for c in row), dtype=np.int64, count=int(indptr[-1]))
    data = np.fromiter((v for row in rows for v in row.values()), dtype=np.float64)
    return sparse.csr_array((data, indices, indptr), shape=(len(rows), n))


def _mean_direction(
    sample: BagSample, Z: FloatArray, labels: np.ndarray, bags: list[int]
) -> FloatArray:
    centres = np.stack([Z[sample.bag(t)].mean(axis=0) for t in bags])
    if labels.all() or not labels.any():
        return np.ones(Z.shape[1])
    w: FloatArray = centres[labels].mean(axis=0) - centres[~labels].mean(axis=0)
    return w if np.abs(w).sum() > 0 else np.ones(Z.shape[1])


def _witness_sample(
    sample: BagSample, scores: FloatArray, labels: np.ndarray, bags: list[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Highest point of each positive bag, all points of each negative bag."""
    rows, y, weights = [], [], []
    for t, positive in zip(bags, labels):
        members = sample.bag(t)
        if positive:
            rows.append(int(members[scores[members].argmax()]))
            y.append(1)
            weights.append(float(sample.positive[t]))
        else:
            rows.extend(members.tolist())
            y.extend([0] * members.size)
            weights.extend([float(sample.negative[t]) / members.size] * members.size)
    return np.array(rows), np.array(y), np.array(weights)
