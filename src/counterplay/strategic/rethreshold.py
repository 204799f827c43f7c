"""What to deploy instead: the same linear model with a threshold that expects people to move.

If everybody can spend the same effort r, raising the threshold by r times the dual norm of the
weights gives every applicant, after her move, exactly the decision she had before without moving.
If abilities differ, the best threshold for given data is found exactly in one pass over the sorted
scores.

Source: Proposition 2.M, "Setting", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import check_real
from counterplay.errors import InvalidInputError
from counterplay.strategic.agents import check_radius
from counterplay.strategic.graphs.bags import best_threshold
from counterplay.strategic.reach import BinaryModel
from counterplay.strategic.reach_linear import affine_rule, unwrap


@checked(nonfinite=["norm"])
def rethreshold(
    model: Any,
    radius: float,
    *,
    positive: Any | None = None,
    norm: float = 2,
    costs: Any = None,
) -> Any:
    """Return a copy of a fitted linear model whose threshold expects moves of size ``radius``.

    Use it when all applicants can afford about the same effort: deploying the copy among gaming
    applicants gives the decisions of the original among honest ones.

    Parameters
    ----------
    model:
        Fitted binary linear classifier, or a pipeline of affine steps that ends with one.
    radius:
        Effort everybody can afford.
    positive:
        The class people want; may be left out when the classes are 0 and 1.
    norm:
        How effort adds up over features: 1, 2 or ``numpy.inf``.
    costs:
        Price of each feature (see :class:`NormMetric`); a Series is matched by name.

    Notes
    -----
    Guarantee: for every applicant with exactly this radius, the copy's decision after her move
    equals the original's decision on her true features. The copy is a model of the same class with
    another ``intercept_``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import scale
    >>> from counterplay.strategic import gaming_report
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> naive = LogisticRegression().fit(X, y)
    >>> gaming_report(naive, X, y, radius=[0, 1]).to_frame()["accuracy"].round(3).tolist()
    [0.988, 0.923]
    >>> ready = rethreshold(naive, radius=1)
    >>> gaming_report(ready, X, y, radius=[1]).to_frame()["accuracy"].round(3).tolist()
    [0.988]
    """
    r = check_real(radius, "radius", low=0.0)
    wrapped = BinaryModel(model, positive)
    w, _ = affine_rule(model)
    metric = wrapped.metric(norm, costs)
    metric.check_width(w.size)
    return _shifted(wrapped, -wrapped.sign * r * float(metric.dual(w[None])[0]))


@checked(nonfinite=["norm"])
def fit_threshold(
    model: Any,
    X: Any,
    y: Any,
    radius: ArrayLike,
    *,
    positive: Any | None = None,
    norm: float = 2,
    costs: Any = None,
) -> Any:
    """Return a copy of a fitted linear model with the best threshold for applicants who move.

    Use it when abilities differ, or when the original threshold was not the best one.

    Parameters
    ----------
    model:
        Fitted binary linear classifier, or a pipeline of affine steps that ends with one.
    X:
        Applicants; the columns of a frame are matched by name.
    y:
        Their true labels.
    radius:
        Effort each applicant can afford: one number, or one per applicant.
    positive:
        The class people want; may be left out when the classes are 0 and 1.
    norm:
        How effort adds up over features: 1, 2 or ``numpy.inf``.
    costs:
        Price of each feature (see :class:`NormMetric`); a Series is matched by name.

    Notes
    -----
    Guarantee: no other threshold for the same weights has a higher gamed accuracy on (X, y); people
    whose scores differ only by rounding are not separated. Among equally good ones it takes the
    middle of the widest gap between scores.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterplay.strategic import gaming_report
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> y = (X[:, 0] + 0.3 * rng.normal(size=500) > 0).astype(int)
    >>> able = rng.exponential(1.0, size=500)
    >>> naive = LogisticRegression().fit(X, y)
    >>> ready = fit_threshold(naive, X, y, able)
    >>> [gaming_report(m, X, y, 1, ability=able).to_frame()["accuracy"].round(2).item()
    ...  for m in (naive, ready)]
    [0.71, 0.78]
    """
    wrapped = BinaryModel(model, positive, X, y)
    rows, qualified = wrapped.rows, wrapped.qualified
    r = check_radius(radius, len(rows))
    w, b = affine_rule(model)
    if wrapped.held:
        raise InvalidInputError(
            f"every column must hold numbers, these do not: {', '.join(wrapped.held)[:150]}"
        )
    slope = float(wrapped.metric(norm, costs).dual(w[None])[0])
    scores = wrapped.sign * (rows @ w + b) + r * slope  # the best score each can show
    size = np.abs(rows) @ np.abs(w) + abs(b) + r * slope
    rounding = 4 * (rows.shape[1] + 4) * np.finfo(np.float64).eps * size
    _, cut = best_threshold(
        scores,
        qualified.astype(float),
        (~qualified).astype(float),
        rounding,
        widest=True,
        strict=True,
    )
    return _shifted(wrapped, -wrapped.sign * float(cut))


def _shifted(wrapped: BinaryModel, shift: float) -> Any:
    """Return a copy whose decision function is larger by ``shift`` everywhere."""
    model, fresh = wrapped.model, copy.deepcopy(wrapped.model)
    _, final = unwrap(fresh)
    with contextlib.suppress(AttributeError, TypeError):  # caught by the comparison below
        final.intercept_ = np.asarray(final.intercept_, dtype=np.float64) + shift
    origin = wrapped.as_input(np.zeros((1, affine_rule(model)[0].size)))
    before, after = (float(np.ravel(m.decision_function(origin))[0]) for m in (model, fresh))
    if not np.isclose(after - before, shift, rtol=1e-6, atol=1e-9):
        raise InvalidInputError(
            f"the intercept of {type(final).__name__} cannot be changed after fitting; "
            "use LogisticRegression, LinearSVC, RidgeClassifier or another linear model"
        )
    return fresh
