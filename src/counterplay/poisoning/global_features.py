"""Signs that features were computed from all rows before they came here.

A certificate counts the rows that reach a block. A scaler, a vocabulary or inverse document
frequencies fitted on all rows carry every row into every block, and the certificate does not cover
that. The signs below are what such steps leave behind; not to find any proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, IntArray, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.tables import Table
from counterplay.tables.cells import shown

_ROWS = 2000  # enough to see a sign
_COLUMNS = 20
_WIDE = 2000
_TFIDF = "the rows have length 1 and fixed ratios of columns, as after tf-idf"
_SMALL_RATIOS = np.array(sorted({a / b for a in range(1, 7) for b in range(1, 7)}))


def sign_of_global_features(X: Any) -> str | None:
    """What suggests that the columns were computed from all rows, or None.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(3.0, 2.0, size=(200, 4))
    >>> sign_of_global_features(X) is None
    True
    >>> sign_of_global_features((X - X.mean(axis=0)) / X.std(axis=0))
    'most columns have mean 0 and standard deviation 1'
    """
    n = X.shape[0]
    if n < 20 or X.shape[1] == 0:
        return None
    if not isinstance(X, np.ndarray):
        part = X[:_ROWS]
        if part.shape[1] > _WIDE:
            often = np.argsort(-np.asarray((part != 0).sum(axis=0)).ravel(), kind="stable")
            norms = np.sqrt(np.asarray(part.multiply(part).sum(axis=1)).ravel())
            part = part[:, np.sort(often[:_WIDE])]
            return _TFIDF if _inverse_document_frequencies(part.toarray(), norms) else None
        X = part.toarray()
    if not np.isfinite(X).all() or max(X.max(), -X.min()) > 1e100:
        return None
    mean, spread = _moments(X)
    if (np.isclose(mean, 0, atol=1e-8) & np.isclose(spread, 1, rtol=0, atol=1e-8)).mean() > 0.5:
        return "most columns have mean 0 and standard deviation 1"
    if _uncorrelated(X, np.flatnonzero(spread > 1e-9 * spread.max())):
        return "the columns are uncorrelated, as after a principal component analysis"
    if _inverse_document_frequencies(X[:_ROWS]):
        return _TFIDF
    imputed = False
    for j in range(min(X.shape[1], _WIDE)):
        values, counts = np.unique(X[:, j], return_counts=True)
        if _ranks(values, n):
            return "a column has equally spaced values, as ranks have"
        imputed = imputed or _imputed(X[:, j], values, counts)
    if _unit_interval(X):
        return "most columns have minimum 0 and maximum 1"
    if imputed:
        return "a column has a frequent value that is the mean of the others, as after imputation"
    return None


def _moments(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each column, one column at a time: X may be large."""
    found = [(float(X[:, j].mean()), float(X[:, j].std())) for j in range(X.shape[1])]
    mean, spread = np.array(found, dtype=np.float64).T
    return mean, spread


def _ranks(values: FloatArray, n: int) -> bool:
    if len(values) < 20 or len(values) <= 0.9 * n:
        return False
    steps = np.diff(values)
    return bool(steps.max() - steps.min() <= 1e-9 * (values[-1] - values[0]))


def _unit_interval(X: FloatArray) -> bool:
    filled = (np.abs(X.min(axis=0)) < 1e-12) & (np.abs(X.max(axis=0) - 1) < 1e-12)
    if filled.mean() <= 0.8 or np.isin(X, (0.0, 1.0)).all():
        return False
    return not any(np.allclose(X * k, np.round(X * k), atol=1e-6) for k in (255, 256, 16))


def _imputed(column: FloatArray, values: FloatArray, counts: IntArray) -> bool:
    if len(values) < 10:
        return False
    second, first = np.partition(counts, len(counts) - 2)[-2:]
    if first <= 3 * second:
        return False
    mode = values[counts.argmax()]
    rest = column[column != mode]
    return abs(float(rest.mean()) - float(mode)) <= 1e-9 * float(np.abs(rest).max())


def _uncorrelated(X: FloatArray, columns: IntArray) -> bool:
    if not 3 <= len(columns) < min(len(X), 1000):
        return False
    for chosen in (columns[:3], columns):  # three columns tell already, mostly
        off = np.corrcoef(X[:, chosen], rowvar=False) - np.eye(len(chosen))
        if np.abs(off).max() >= 1e-6:
            return False
    return True


def _inverse_document_frequencies(X: FloatArray, norms: FloatArray | None = None) -> bool:
    """Rows of length 1 in which two words that both occur mostly have one ratio, and an odd one.

    Counts of words in texts of length 1 have such ratios, too, but simple ones: 1, 2, 1/2, ...
    """
    norm = np.linalg.norm(X, axis=1) if norms is None else norms
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


@checked
def row_local(transform: Callable[..., Any], X: Any, n: int = 20) -> bool:
    """Whether a transform computes each row from that row alone, so that certificates cover it.

    Compares the transform of all rows with the transform of single ones. False for everything that
    was fitted on the same rows (tf-idf, scaling, a learned vocabulary): such a step belongs into
    the pipeline. True for hashing, logarithms, and transformers fitted on other data.

    Parameters
    ----------
    transform
        Function on rows, such as ``StandardScaler().fit_transform`` or ``np.log1p``.
    X
        Rows, in any container.
    n
        Rows to compare, drawn at random.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.random.default_rng(0).random((50, 3))
    >>> row_local(StandardScaler().fit_transform, X), row_local(np.log1p, X)
    (False, True)

    References
    ----------
    "Rows", see docs/theory/21-sources.md.
    """
    table = Table.of(X)
    count = min(check_positive_int(n, "n"), len(table))
    places = np.random.default_rng(0).permutation(len(table))[:count]
    try:
        whole = _two_axes(transform(X))
    except Exception as error:
        raise InvalidInputError(f"the transform failed on all rows: {shown(error, 200)}") from error
    if whole.shape[0] != len(table):
        return False
    for i in places.tolist():
        try:
            one = _two_axes(transform(table.take([i])))
        except Exception:  # it needs the other rows
            return False
        if one.shape != (1, whole.shape[1]) or not _equal(one, whole[[i]]):
            return False
    return True


def _two_axes(values: Any) -> Any:
    if hasattr(values, "tocsr"):
        return values.tocsr()
    array = np.asarray(values)
    return array.reshape(len(array), -1)


def _equal(one: Any, other: Any) -> bool:
    if hasattr(one, "toarray"):
        one, other = one.toarray(), other.toarray()
    if one.dtype.kind in "fiub" and other.dtype.kind in "fiub":
        return bool(np.allclose(one, other, rtol=1e-9, atol=0, equal_nan=True))
    return bool(np.array_equal(one, other))
