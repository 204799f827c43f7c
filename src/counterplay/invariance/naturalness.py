"""Do transformed rows look like the rows you have? An exact randomisation test.

A classifier learns to tell x from g x on half of the rows and is asked about pairs (x, g x) of the
other half. If g X is distributed as X, every pair is a fair coin, whatever the classifier is.
Source: docs/theory/22-symmetry.md, "Naturalness"; Chiu and Bloem-Reddy (2023), "Non-parametric
hypothesis tests for distributional group symmetry".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn.ensemble import ExtraTreesClassifier

from counterplay.core.validation import FloatArray

_MOST_ROWS = 2000


@dataclass(frozen=True)
class Naturalness:
    """How well transformed rows can be told from natural ones.

    Attributes
    ----------
    accuracy:
        Share of held-out pairs in which the transformed row is recognised; a half is chance.
    p_value:
        Exact chance of so many if g X is distributed as X; None for maps that are not a group.
    tv_low:
        Lower 95 % bound of the total variation between X and g X.
    n_pairs:
        Held-out pairs.
    """

    accuracy: float
    p_value: float | None
    tv_low: float
    n_pairs: int

    @property
    def looks_natural(self) -> bool:
        """Whether transformed rows were not told apart (at level 0.05)."""
        return self.p_value is not None and self.p_value > 0.05


def naturalness(
    features: FloatArray,
    move: Callable[[Any, np.random.Generator], tuple[FloatArray, Any]],
    rng: np.random.Generator,
    *,
    exact: bool = True,
    classifier: Any = None,
    max_rows: int = _MOST_ROWS,
) -> Naturalness | None:
    """Fit on half of the rows, count on the other half; None with fewer than 20 rows.

    ``exact`` says that the maps are a group with uniformly drawn elements other than the identity
    (or with the identity among them).
    """
    pick = rng.permutation(len(features))[:max_rows]
    if len(pick) < 20:
        return None
    own, moved = features[pick], move(pick, rng)[0]
    half = len(pick) // 2
    model = classifier
    if model is None:
        model = ExtraTreesClassifier(60, min_samples_leaf=2, random_state=int(rng.integers(2**31)))
    told = np.repeat([0, 1], half)
    model.fit(np.concatenate([own[:half], moved[:half]]), told)
    gap = model.predict_proba(moved[half:])[:, 1] - model.predict_proba(own[half:])[:, 1]
    wins = int(((gap > 0) | ((gap == 0) & (rng.random(len(gap)) < 0.5))).sum())
    n = len(gap)
    low = float(stats.beta.ppf(0.05, wins, n - wins + 1)) if wins else 0.0
    p = float(stats.binom.sf(wins - 1, n, 0.5)) if exact else None
    return Naturalness(wins / n, p, max(0.0, 2 * low - 1), n)
