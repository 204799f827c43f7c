"""Certified lower bounds on the price of acceptance in a norm ball, for models that are searched.

Nearest neighbours through the triangle inequality, Gaussian kernels through the norm of the
function, neural nets through their Lipschitz constant. Each bound is for the model's own space and
norm; the price of a move converts it.

Source: "The gaming report", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.features import named
from counterplay.strategic.fold import Asked
from counterplay.strategic.metrics import NormMetric
from counterplay.strategic.moves import Moves
from counterplay.strategic.reach_linear import diagonal_steps, unwrap
from counterplay.tables.models import model_names

NORMS = {"sum": 1.0, "euclid": 2.0, "max": np.inf}


def certified_in_ball(asked: Asked, moves: Moves, who: IntArray) -> tuple[FloatArray, str] | None:
    """Return lower bounds on the prices of rejected people and how they were obtained.

    None unless the moves are an unbounded ball and the model has a certificate.
    """
    frame = asked.frame
    units = moves.ball_units(list(frame.columns))
    if units is None or not all(getattr(kind, "kind", "O") in "fiu" for kind in frame.dtypes):
        return None
    rows = frame.iloc[who].to_numpy(dtype=np.float64)
    if not np.isfinite(rows).all():
        return None
    with np.errstate(divide="ignore"):
        metric = NormMetric(NORMS[moves.combine], 1.0 / units)
    found = certified_lower_bound(asked.fitted.model, rows, metric, asked.wanted)
    # room for rounding in scalers and scores
    return None if found is None else (found[0] * (1 - 1e-9), found[1])


def certified_lower_bound(
    model: Any, rows: FloatArray, metric: NormMetric, wanted: int
) -> tuple[FloatArray, str] | None:
    """Return lower bounds on the distance of rejected ``rows`` and how they were obtained.

    ``wanted`` is the position of the positive class. None if the model has no certificate.
    """
    steps, final = unwrap(model)
    scaling = diagonal_steps(steps, rows.shape[1])
    if scaling is None:
        return None
    a, c = scaling
    name = type(final).__name__
    z = rows * a + c
    if name == "KNeighborsClassifier":
        nearest = _neighbours(final, z, metric, wanted, a)
        return None if nearest is None else (nearest, "nearest neighbours")
    if name == "SVC" and final.kernel == "rbf":
        return _gaussian(final, z, metric, wanted, a), "Gaussian kernel"
    if name == "MLPClassifier" and final.out_activation_ == "logistic":
        return _network(final, z, metric, wanted, a), "Lipschitz constant"
    return None


def _neighbours(
    model: Any, z: FloatArray, metric: NormMetric, wanted: int, a: FloatArray
) -> FloatArray | None:
    """Positive neighbours can come closer and others go away by at most the size of the move."""
    order = {"euclidean": 2.0, "manhattan": 1.0, "chebyshev": np.inf}.get(
        model.effective_metric_, model.effective_metric_params_.get("p")
    )
    if model.weights != "uniform" or order not in (1.0, 2.0, np.inf):
        return None
    k = model.n_neighbors
    needed = k // 2 + 1 if wanted == 1 else (k + 1) // 2  # ties go to the smaller class
    labels = np.asarray(model._y).reshape(-1) == wanted
    points = np.asarray(model._fit_X, dtype=np.float64)
    if labels.sum() < needed or (~labels).sum() < k - needed + 1:
        return np.full(z.shape[0], 0.0 if labels.sum() >= needed else np.inf)
    plain = NormMetric(order)
    out = np.empty(z.shape[0])
    block = max(1, 4_000_000 // points.shape[0])
    for start in range(0, z.shape[0], block):
        d = plain.pairwise(z[start : start + block], points)
        far = np.partition(d[:, labels], needed - 1, axis=1)[:, needed - 1]
        near = np.partition(d[:, ~labels], k - needed, axis=1)[:, k - needed]
        out[start : start + block] = np.maximum(far - near, 0.0) / 2.0
    return np.asarray(out / stretch(metric, a, order))


def _gaussian(
    model: Any, z: FloatArray, metric: NormMetric, wanted: int, a: FloatArray
) -> FloatArray:
    """|f(z) - f(z')| <= ||f|| sqrt(2 - 2 exp(-gamma d^2)) in the kernel's function space."""
    alpha = np.asarray(model.dual_coef_, dtype=np.float64).reshape(-1)
    support = np.asarray(model.support_vectors_, dtype=np.float64)
    gamma = float(model._gamma)
    squared = ((support[:, None, :] - support[None, :, :]) ** 2).sum(axis=2)
    size = float(np.sqrt(alpha @ np.exp(-gamma * squared) @ alpha))
    sign = 1.0 if wanted == 1 else -1.0
    gap = np.maximum(-sign * model.decision_function(named(z, model_names(model))), 0.0)
    with np.errstate(divide="ignore"):
        left = 1.0 - (gap / size) ** 2 / 2.0
        d = np.where(left > 0, np.sqrt(-np.log(np.maximum(left, 1e-300)) / gamma), np.inf)
    return np.asarray(d / stretch(metric, a, 2.0))


def _network(
    model: Any, z: FloatArray, metric: NormMetric, wanted: int, a: FloatArray
) -> FloatArray:
    """The logit changes by at most the product of the layers' spectral norms per unit of move."""
    slope = {"logistic": 0.25}.get(model.activation, 1.0)
    lipschitz = float(np.prod([np.linalg.norm(w, 2) for w in model.coefs_]))
    lipschitz *= slope ** (len(model.coefs_) - 1)
    p = np.clip(model.predict_proba(named(z, model_names(model)))[:, 1], 1e-300, 1 - 1e-16)
    logit = np.log(p) - np.log1p(-p)
    gap = np.maximum(-logit if wanted == 1 else logit, 0.0)
    return lipschitz_lower_bound(gap, lipschitz, metric, a)


def lipschitz_lower_bound(
    gap: FloatArray, lipschitz: float, metric: NormMetric, a: FloatArray
) -> FloatArray:
    """Return the effort below which a score with this Euclidean slope cannot rise by ``gap``."""
    rate = lipschitz * stretch(metric, a, 2.0)
    if rate == 0:
        return np.where(gap > 0, np.inf, 0.0)
    return gap / rate


def stretch(metric: NormMetric, a: FloatArray, order: float) -> float:
    """Return the largest ``order``-norm of ``a * move`` over all moves that cost at most 1."""
    costs = np.ones(a.size) if metric.costs is None else metric.costs
    w = np.where(np.isinf(costs), 0.0, np.abs(a) / costs)
    p = metric.norm
    if p <= order:
        return float(w.max())
    if np.isinf(p):
        return float(np.linalg.norm(w, order))
    return float(np.linalg.norm(w, 2))  # p = 2, order = 1
