"""Do labels change under a map of a table? A weighted residual test that averages over noise.

Half of the rows are transformed. If labels are invariant, they do not depend on which half a row is
in, given the (possibly transformed) row: a generalised covariance of two residuals is zero. It sees
what neighbours cannot when labels are noisy, and it is approximate: its size is not guaranteed.
Source: docs/theory/22-symmetry.md, "The residual test"; Shah and Peters (2020), "The hardness of
conditional independence testing"; Scheidegger, Hoerrmann and Buehlmann (2022), "The weighted
generalised covariance measure".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from counterplay.core.validation import FloatArray

MOST_COLUMNS = 60
LEAST_OVERLAP = 0.5
LEVEL = 0.001  # "violated" needs a p-value below it: the test is approximate
_TREES = 100


@dataclass(frozen=True)
class ResidualTest:
    """Statistic and what follows from it.

    Attributes
    ----------
    statistic:
        Standard normal, about, if labels are invariant.
    p_value:
        One-sided, approximate.
    eta:
        Estimated violation rate over the overlap.
    eta_low:
        Lower bound of it at the level that was asked for, approximate.
    overlap:
        Mean of twice min(e, 1 - e), e the chance that a row is a transformed one: 1 where
        transformed rows look like natural ones, 0 where they never do.
    """

    statistic: float
    p_value: float
    eta: float
    eta_low: float
    overlap: float


def residual_test(
    features: FloatArray, moved: FloatArray, y: Any, rng: np.random.Generator, alpha: float = 0.05
) -> ResidualTest:
    """Test rows against their images; ``y`` are class numbers, or numbers for regression."""
    n = len(features)
    turned = rng.random(n) < 0.5
    X = np.where(turned[:, None], moved, features)
    targets = _targets(y)
    fold = rng.permutation(n) % 3
    weights = np.empty_like(targets)
    chance, mean = np.empty(n), np.empty_like(targets)
    for f in range(3):
        test, first, second = fold == f, fold == (f + 1) % 3, fold == (f + 2) % 3
        others = first | second
        # Weights from one of the other folds, both nuisances from both of them.
        sides = [_regressor(rng).fit(X[first & side], targets[first & side]).predict(X[test])
                 for side in (turned, ~turned)]  # fmt: skip
        weights[test] = _columns(sides[0]) - _columns(sides[1])
        told = ExtraTreesClassifier(_TREES, min_samples_leaf=4, random_state=_seed(rng))
        chance[test] = told.fit(X[others], turned[others]).predict_proba(X[test])[:, 1]
        mean[test] = _columns(_regressor(rng).fit(X[others], targets[others]).predict(X[test]))
    terms = (turned - chance) * ((targets - mean) * weights).sum(axis=1)
    spread = float(terms.std(ddof=1) / np.sqrt(n))
    statistic = float(terms.mean() / spread) if spread > 0 else 0.0
    room = float((chance * (1 - chance)).mean())
    estimate = float(terms.mean()) / (2 * room) if room > 0 else 0.0
    low = estimate - float(stats.norm.isf(alpha)) * spread / (2 * room) if room > 0 else 0.0
    return ResidualTest(
        statistic, float(stats.norm.sf(statistic)), float(np.clip(estimate, 0, 1)),
        float(np.clip(low, 0, 1)), _overlap(chance),
    )  # fmt: skip


def overlap(features: FloatArray, moved: FloatArray, rng: np.random.Generator) -> float:
    """How far transformed rows lie among natural ones, from 0 to 1."""
    n = len(features)
    turned = rng.random(n) < 0.5
    X = np.where(turned[:, None], moved, features)
    half = rng.permutation(n) < n // 2
    told = ExtraTreesClassifier(_TREES, min_samples_leaf=4, random_state=_seed(rng))
    if len(np.unique(turned[half])) < 2:
        return 0.0
    chance = told.fit(X[half], turned[half]).predict_proba(X[~half])[:, 1]
    return _overlap(chance)


def _overlap(chance: FloatArray) -> float:
    return float(2 * np.minimum(chance, 1 - chance).mean())


def _targets(y: Any) -> FloatArray:
    if y.dtype.kind == "f":
        return np.asarray((y - y.mean())[:, None] / (y.std() or 1.0) / np.sqrt(2))
    hot: FloatArray = np.eye(int(y.max()) + 1)[y]
    return hot


def _regressor(rng: np.random.Generator) -> Any:
    return ExtraTreesRegressor(_TREES, min_samples_leaf=4, random_state=_seed(rng))


def _columns(values: FloatArray) -> FloatArray:
    return values if values.ndim == 2 else values[:, None]


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))
