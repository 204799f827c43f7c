"""Linear models of scikit-learn as halfspaces in the original features.

A pipeline of affine steps (scalers, PCA, feature selection) and a linear classifier is one
halfspace ``w . x + b > 0``. Only steps that are known to be affine are folded, so the result is
exact, and it is compared with the model's own predictions before it is used.

Source: "Distances that are exact" (linear rules), "The gaming report", see
docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError


def unwrap(model: Any) -> tuple[list[Any], Any]:
    """Return the transforming steps and the final classifier of a model.

    Searches (``best_estimator_``) and pipelines are opened.
    """
    steps: list[Any] = []
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "steps") and hasattr(model, "named_steps"):
            parts = [step for _, step in model.steps]
            steps += [step for step in parts[:-1] if step is not None and step != "passthrough"]
            model = parts[-1]
        else:
            return steps, model


def affine_rule(model: Any) -> tuple[FloatArray, float]:
    """Return ``(w, b)`` such that a fitted binary linear model accepts x if ``w . x + b > 0``.

    Accepting means predicting the larger class. Pipelines of affine steps are folded.
    """
    found = find_affine_rule(model)
    if found is None:
        raise InvalidInputError(
            f"{type(model).__name__} is no fitted binary linear model (possibly after affine steps)"
        )
    return found


def find_affine_rule(model: Any) -> tuple[FloatArray, float] | None:
    """Return the halfspace of a linear model, or None if it is not one."""
    steps, final = unwrap(model)
    try:
        coef = np.asarray(getattr(final, "coef_", None), dtype=np.float64)
        intercept = np.asarray(getattr(final, "intercept_", 0.0), dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, AttributeError):
        return None
    if coef.ndim not in (1, 2) or (coef.ndim == 2 and coef.shape[0] != 1) or intercept.size != 1:
        return None
    if np.isnan(coef).any() or len(getattr(final, "classes_", (0, 1))) != 2:
        return None
    w, b = coef.reshape(-1), float(intercept[0])
    for step in reversed(steps):
        part = affine_step(step, w.size)
        if part is None:
            return None
        matrix, offset = part
        b += float(offset @ w)
        w = matrix @ w if matrix.ndim == 2 else matrix * w
    return w, b


def affine_step(step: Any, width: int) -> tuple[FloatArray, FloatArray] | None:
    """Return ``(A, c)`` with ``transform(x) = x A + c``; A is a vector if the step is diagonal."""
    name = type(step).__name__
    if name == "StandardScaler":
        return _shift_scale(step.mean_ if step.with_mean else 0.0, step.scale_, width)
    if name == "RobustScaler":
        return _shift_scale(step.center_ if step.with_centering else 0.0, step.scale_, width)
    if name == "MaxAbsScaler" and not getattr(step, "clip", False):
        return _shift_scale(0.0, step.scale_, width)
    if name == "MinMaxScaler" and not step.clip:
        return np.asarray(step.scale_, dtype=np.float64), np.asarray(step.min_, dtype=np.float64)
    if name == "FunctionTransformer" and step.func is None:
        return np.ones(width), np.zeros(width)
    if name == "SimpleImputer" and not step.add_indicator:
        known = not any(isinstance(v, float) and np.isnan(v) for v in step.statistics_)
        return (np.ones(width), np.zeros(width)) if known else None
    if name in ("PCA", "TruncatedSVD"):
        return _projection(step)
    if hasattr(step, "get_support") and hasattr(step, "transform"):
        support = np.asarray(step.get_support())
        matrix = np.eye(support.size)[:, support]
        return matrix, np.zeros(matrix.shape[1])
    return None


def diagonal_steps(steps: list[Any], width: int) -> tuple[FloatArray, FloatArray] | None:
    """Return ``(a, c)`` with ``z = a * x + c`` if all steps act on features alone, else None."""
    a, c = np.ones(width), np.zeros(width)
    for step in steps:
        part = affine_step(step, width)
        if part is None or part[0].ndim != 1 or not (part[0] > 0).all():
            return None
        a, c = a * part[0], c * part[0] + part[1]
    return a, c


def _shift_scale(shift: Any, scale: Any, width: int) -> tuple[FloatArray, FloatArray]:
    a = np.ones(width) if scale is None else 1.0 / np.asarray(scale, dtype=np.float64)
    return a, -np.asarray(shift, dtype=np.float64) * a


def _projection(step: Any) -> tuple[FloatArray, FloatArray]:
    matrix = np.asarray(step.components_, dtype=np.float64).T
    if getattr(step, "whiten", False):
        matrix = matrix / np.sqrt(step.explained_variance_)
    mean = getattr(step, "mean_", None)
    offset = np.zeros(matrix.shape[1]) if mean is None else -np.asarray(mean) @ matrix
    return matrix, offset
