"""Halfspaces that are best after everybody has moved: exact in the plane, by MILP, or heuristic.

For a fixed direction w the induced label is a threshold on the support function max over N[x] of
w.z, so the best offset is found by sorting. In the plane only finitely many directions differ.

Source: "Strategic empirical risk minimisation", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from scipy import sparse

from counterplay.core.halfspaces import halfspaces_2d
from counterplay.core.programs import Solution, minimize_integer
from counterplay.core.validation import FloatArray
from counterplay.errors import ConvergenceError, InvalidInputError
from counterplay.strategic.graphs.bags import BagSample, best_threshold, score_rounding

EXACT_POINTS = 450  # distinct points up to which all directions in the plane are tried
_MARGIN = 1e-4  # separation asked of the MILP's halfspace
_SLACK = 1e-7  # room for rounding in the MILP that bounds the loss from below
_EPS = float(np.finfo(np.float64).eps)


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
    """Best halfspace in the plane, over all directions.

    Where directions lie too close together for floats, all labelings of the points by halfspaces
    are listed exactly to see whether the result is optimal.
    """
    if sample.points.shape[1] != 2:
        raise InvalidInputError("halfspace2d_exact needs exactly two features")
    Z = sample.points - sample.points.mean(axis=0)
    rounding = 16 * _EPS * float(np.abs(Z).max(initial=0.0))
    directions, all_clear = _generic_directions(Z, rounding, _is_small_grid(sample.points))
    bags = sample.pointers, sample.position, sample.positive, sample.negative
    best, least = _best_direction(Z, directions, rounding, *bags)
    fit = _refit(sample, directions[best])
    if not all_clear:
        least = _plane_optimum(sample)
    return _judged(fit, least, sample)


def _plane_optimum(sample: BagSample) -> float:
    """Least loss of any halfspace, by listing what they do; -inf for more than 450 points."""
    if len(sample.points) > EXACT_POINTS:
        return -np.inf
    labelings = halfspaces_2d(sample.points)
    block = max(1, 20_000_000 // max(1, sample.position.size))
    parts = (labelings[i : i + block] for i in range(0, len(labelings), block))
    gain = sample.positive - sample.negative  # of accepting a bag
    return float(sample.positive.sum() - max((sample.any(part) @ gain).max() for part in parts))


@njit(cache=True)
def _best_direction(points, directions, rounding, pointers, position, positive, negative):  # type: ignore[no-untyped-def]  # compiled by numba
    """Direction whose best threshold on bag maxima has the least loss, first on ties; that loss.

    Directions come in the order of their angle, so the order of the bags hardly changes from one
    to the next and insertion sort takes about linear time.
    """
    n_bags = positive.size
    scores, maxima = np.empty(len(points)), np.empty(n_bags)
    order = np.arange(n_bags)
    least, best = np.inf, 0
    for j in range(len(directions)):
        # Support function of every bag in this direction.
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
            last = i + 1 == n_bags or maxima[order[i + 1]] < maxima[order[i]] - rounding
            if last and loss < least - 1e-12:
                least, best = loss, j
    return best, least


def halfspace_milp(sample: BagSample, *, time_limit: float = 60.0) -> HalfspaceFit:
    """Best halfspace by mixed-integer programming; small samples, any number of features.

    One program looks for a halfspace with a margin, a second one bounds what any halfspace can
    achieve, without margin. The fit is called optimal only if it attains that bound.
    """
    A, scale = _unit_rows(sample.points)
    found = _solve(sample, A, margin=_MARGIN, time_limit=time_limit / 2)
    if found.x is None:
        raise ConvergenceError(
            f"the MILP found no halfspace in {time_limit:g} s; use another backend"
        )
    fit = _refit(sample, found.x[: scale.size] / scale)
    bound = float(np.minimum(sample.positive, sample.negative).sum())  # equal bags, other labels
    if fit.loss > bound + 1e-9 * sample.total:
        proved: float | None
        if scale.size == 2:
            proved = _plane_optimum(sample)
        else:
            proved = _solve(sample, A, margin=-_SLACK, time_limit=time_limit / 2).bound
        bound = max(bound, -np.inf if proved is None or np.isnan(proved) else float(proved))
    return _judged(fit, bound, sample)


def _judged(fit: HalfspaceFit, bound: float, sample: BagSample) -> HalfspaceFit:
    """The fit with the proof that no halfspace has a loss below ``bound``."""
    if fit.loss <= bound + 1e-9 * sample.total:
        return replace(fit, optimal=True, gap=0.0)
    return replace(fit, optimal=False, gap=1.0 - max(bound, 0.0) / fit.loss)


def _unit_rows(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows (z, 1) of unit length, z in units of its quartiles, and those units.

    The side of w.z + b does not depend on the length of (z, 1); so far points neither squeeze the
    others nor need large constants.
    """
    low, centre, high = np.quantile(points, [0.25, 0.5, 0.75], axis=0)
    spread = points.std(axis=0)
    scale = np.where(high > low, high - low, np.where(spread > 0, spread, 1.0))
    rows = np.column_stack([(points - centre) / scale, np.ones(len(points))])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), scale


def _solve(sample: BagSample, A: FloatArray, *, margin: float, time_limit: float) -> Solution:
    """Least loss of a halfspace v with all decisions at least ``margin`` away from its border.

    With a negative margin, points near the border count as on either side, and the largest entry of
    v is 1 or -1, to exclude v = 0: every halfspace is feasible, so the optimum is a lower bound.
    """
    signs, bags = _signed_bags(sample)
    (q, d), T = A.shape, len(bags)
    faces = 2 * d if margin < 0 else 0
    n = d + T + q + faces  # v, errors, points selected as accepted, faces
    M = float(np.abs(A).sum(axis=1).max()) + max(margin, 0.0)
    # v.z >= margin - M (1 - s) for a selected point
    rows = [{**dict(enumerate(A[z].tolist())), d + T + z: -M} for z in range(q)]
    lower = [margin - M] * q
    for i, (t, y) in enumerate(zip(bags, signs)):
        members = sample.bag(t).tolist()
        if y:  # at least one selected point, or an error
            rows.append({d + i: 1.0, **{d + T + z: 1.0 for z in members}})
            lower.append(1.0)
            continue
        for z in members:  # -v.z >= margin - M e, and a selected point is an error
            rows.append({**dict(enumerate((-A[z]).tolist())), d + i: M})
            rows.append({d + i: 1.0, d + T + z: -1.0})
            lower += [margin, 0.0]
    for k in range(faces):  # sign * v[k // 2] >= 1 if this face is chosen
        rows.append({k // 2: 1.0 if k % 2 else -1.0, n - faces + k: -2.0})
        lower.append(-1.0)
    if faces:
        rows.append(dict.fromkeys(range(n - faces, n), 1.0))
        lower.append(1.0)
    cost = np.zeros(n)
    cost[d : d + T] = [sample.positive[t] if y else sample.negative[t] for t, y in zip(bags, signs)]
    return minimize_integer(
        cost,
        rows=_sparse_rows(rows, n),
        low=np.array(lower),
        integers=np.concatenate([np.zeros(d), np.ones(n - d)]),
        bounds=(np.concatenate([np.full(d, -1.0), np.zeros(n - d)]), np.ones(n)),
        time_limit=time_limit,
        gap=0.0,
        what="the program for the best halfspace",
        allow=("limit", "infeasible"),
    )


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
    return _judged(best, 0.0, sample)


def _refit(sample: BagSample, w: FloatArray) -> HalfspaceFit:
    """Best offset for a direction; the loss is that of the rule as it decides in floats."""
    if not np.abs(w).sum() > 0:
        w = np.ones(sample.points.shape[1])
    maxima = sample.maxima(sample.points @ w)
    rounding = sample.maxima(score_rounding(sample.points, w))
    loss, cut = best_threshold(maxima, sample.positive, sample.negative, rounding)
    return HalfspaceFit(w, float(cut), float(loss), False)


def _is_small_grid(points: FloatArray) -> bool:
    """Whole numbers within a range R < 500,000: directions between them differ by 1/(2 R^2)."""
    whole = bool((points == np.rint(points)).all())
    return whole and bool((np.ptp(points, axis=0) < 500_000).all())


def _generic_directions(points: FloatArray, rounding: float, grid: bool) -> tuple[FloatArray, bool]:
    """One direction per interval between consecutive normals of point pairs, all around.

    Also says whether in each of them all points differ by more than ``rounding``; if so, no order
    of the points is missing. Normals that are equal but for rounding count as one; on a grid they
    are one, elsewhere there may be an order between them.
    """
    i, j = np.triu_indices(len(points), 1)
    difference = points[j] - points[i]
    normals = np.arctan2(difference[:, 0], -difference[:, 1])
    angles = np.unique(np.concatenate([normals, normals + np.pi]) % (2 * np.pi))
    if angles.size == 0:
        angles = np.array([0.0])
    keep = np.concatenate([[True], np.diff(angles) > 1e-13])
    keep[1:] &= angles[1:] < angles[0] + 2 * np.pi - 1e-13
    distance = np.linalg.norm(difference, axis=1).min(initial=np.inf)
    merged = 2 * normals.size > int(keep.sum()) and not grid
    angles = angles[keep]
    gaps = np.diff(np.append(angles, angles[0] + 2 * np.pi))
    middle = angles + gaps / 2
    directions = np.stack([np.cos(middle), np.sin(middle)], axis=1)
    return directions, not merged and bool(distance * np.sin(gaps.min() / 2) > 2 * rounding)


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
