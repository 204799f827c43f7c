"""Signs that features were computed from all rows before they came here.

A certificate counts the rows that reach a block. A scaler, a vocabulary or inverse document
frequencies fitted on all rows carry every row into every block, and the certificate does not cover
that. The signs below are what such steps leave behind; not to find any proves nothing.
"""

from __future__ import annotations

import numpy as np

from counterplay.core.validation import FloatArray

_ROWS = 2000  # enough to see a sign
_COLUMNS = 20
_SMALL_RATIOS = np.array(sorted({a / b for a in range(1, 7) for b in range(1, 7)}))


def sign_of_global_features(X: FloatArray) -> str | None:
    """What suggests that the columns were computed from all rows, or None.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(3.0, 2.0, size=(200, 4))
    >>> sign_of_global_features(X) is None
    True
    >>> sign_of_global_features((X - X.mean(axis=0)) / X.std(axis=0))
    'most columns have mean 0 and standard deviation 1'
    """
    if len(X) < 20:
        return None
    mean, spread = X.mean(axis=0), X.std(axis=0)
    if (np.isclose(mean, 0, atol=1e-8) & np.isclose(spread, 1, rtol=0, atol=1e-8)).mean() > 0.5:
        return "most columns have mean 0 and standard deviation 1"
    if _uncorrelated(X[:, spread > 1e-9 * spread.max()]):
        return "the columns are uncorrelated, as after a principal component analysis"
    if _inverse_document_frequencies(X[:_ROWS]):
        return "the rows have length 1 and fixed ratios of columns, as after tf-idf"
    return None


def _uncorrelated(X: FloatArray) -> bool:
    if not 3 <= X.shape[1] < min(len(X), 1000):
        return False
    off = np.corrcoef(X, rowvar=False) - np.eye(X.shape[1])
    return bool(np.abs(off).max() < 1e-6)


def _inverse_document_frequencies(X: FloatArray) -> bool:
    """Rows of length 1 in which two words that both occur mostly have one ratio, and an odd one.

    Counts of words in texts of length 1 have such ratios, too, but simple ones: 1, 2, 1/2, ...
    """
    norm = np.linalg.norm(X, axis=1)
    if (X < 0).any() or not np.isin(np.round(norm, 9), (0.0, 1.0)).all() or (X == 0).mean() < 0.5:
        return False
    often = X[:, np.argsort(-(X > 0).sum(axis=0), kind="stable")[:_COLUMNS]]
    votes = []
    for i in range(often.shape[1]):
        for j in range(i):
            both = (often[:, i] > 0) & (often[:, j] > 0)
            if both.sum() >= 10:
                ratio, count = np.unique(
                    np.round(often[both, i] / often[both, j], 6), return_counts=True
                )
                simple = np.abs(_SMALL_RATIOS - ratio[count.argmax()]).min() < 1e-5
                votes.append(count.max() > 0.3 * both.sum() and not simple)
    return len(votes) > 0 and float(np.mean(votes)) > 0.5
