"""scikit-learn classifiers that know a group: augment, look up, vote, or canonicalise.

All wrap any classifier. ``group`` is a set of transformations from
:mod:`counterplay.invariance.groups`, a function of the number of features that returns one, or None
for "no symmetry". Source: spec 11 sections 3.2, 3.7 and 9.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray, IntArray, check_choice
from counterplay.core.votes import plurality
from counterplay.invariance.errors import NotAGroupError
from counterplay.invariance.model import resolve_conflicts
from counterplay.invariance.orbit_sample import as_group, augmented_sample, orbit_images
from counterplay.invariance.transformations import TransformationSet


def _has_proba(self: Any) -> bool:
    inner = getattr(self, "estimator_", self.estimator)
    return hasattr(inner, "predict_proba")


class _OrbitClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc,unused-ignore]  # scikit-learn has no types
    """Validation and access to the inner classifier, shared by all wrappers."""

    estimator: Any
    group: Any
    n_images: int = 8
    random_state: RandomState = None

    def _start(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, IntArray, TransformationSet]:
        """Checked data, labels as class numbers, and the group for these data."""
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self.group_ = as_group(self.group, rows.shape[1])
        return rows, codes.reshape(-1), self.group_

    def _rows(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        rows: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        return rows

    def _fit_inner(self, rows: FloatArray, codes: IntArray, weights: Any = None) -> None:
        labels = self.classes_[codes]
        self.estimator_ = clone(self.estimator)
        if weights is None or not has_fit_parameter(self.estimator_, "sample_weight"):
            self.estimator_.fit(rows, labels)
        else:
            self.estimator_.fit(rows, labels, sample_weight=weights)


class ErmInvClassifier(_OrbitClassifier):
    """Answer with the training label where the orbit of the test point was seen, else as the base.

    Use it whenever labels are invariant but the model does not fit transformed copies: unlike
    augmentation it never makes the base classifier worse. Multiclass works.

    Parameters
    ----------
    estimator:
        Any classifier.
    group:
        A group, a function of the number of features that returns one, or None.
    augment:
        Fit the base on all transformed copies instead of the natural sample ("DA+INV").
    on_conflict:
        "raise" if training points of one orbit have different labels, or "majority".
    n_images, random_state:
        For ``augment=True`` with groups too large to list: number of random copies, and seed.

    Notes
    -----
    Needs O(VCao / eps) samples in the relaxed and O(VCao / eps^2) in the agnostic setting up to
    logarithms (Thms. thm:re-opt, thm:ag-opt). A prediction costs one canonical form and one
    dictionary look-up.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterplay.invariance import groups
    >>> X = np.array([[1.0, 5.0], [2.0, 3.0], [7.0, 4.0], [9.0, 6.0]])
    >>> y = np.array([0, 1, 0, 1])
    >>> model = ErmInvClassifier(LogisticRegression(), groups.sequence_reversal(2)).fit(X, y)
    >>> model.predict(X[:, ::-1])          # the mirrored training points
    array([0, 1, 0, 1])

    References
    ----------
    Shao, Montasser and Blum (2022), "A theory of PAC learnability under transformation
    invariances".
    """

    def __init__(
        self,
        estimator: Any,
        group: Any = None,
        augment: bool = False,
        on_conflict: Literal["raise", "majority"] = "raise",
        n_images: int = 8,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.group = group
        self.augment = augment
        self.on_conflict = on_conflict
        self.n_images = n_images
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> ErmInvClassifier:
        """Fit the base classifier and index the orbits of the sample."""
        check_choice(self.on_conflict, "on_conflict", ("raise", "majority"))
        rows, codes, group = self._start(X, y)
        if not group.is_group:
            raise NotAGroupError("the look-up needs a group; orbits of other maps may intersect")
        keys = group.orbit_key(rows)
        numbers: dict[Any, int] = {}
        ids = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
        settled = resolve_conflicts(ids, codes, self.on_conflict)
        if self.augment:
            copies = augmented_sample(rows, settled, group, self.n_images, self.random_state)
            self._fit_inner(*copies)
        else:
            self._fit_inner(rows, codes)
        self.table_ = dict(zip(keys, settled.tolist()))
        return self

    def lookup(self, X: ArrayLike) -> IntArray:
        """Class number of the training points in the same orbit, -1 where there are none."""
        return self._find(self._rows(X))

    def _find(self, rows: FloatArray) -> IntArray:
        get = self.table_.get
        return np.array([get(key, -1) for key in self.group_.orbit_key(rows)], dtype=np.int64)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted classes."""
        rows = self._rows(X)
        found = self._find(rows)
        labels = self.classes_[np.maximum(found, 0)]
        open_rows = found < 0
        if open_rows.any():
            labels[open_rows] = self.estimator_.predict(rows[open_rows])
        result: NDArray[Any] = labels
        return result

    @available_if(_has_proba)
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Class probabilities of the base; certain where the orbit was seen."""
        rows = self._rows(X)
        proba = np.array(self.estimator_.predict_proba(rows), dtype=np.float64)
        found = self._find(rows)
        hit = found >= 0
        proba[hit] = np.eye(len(self.classes_))[found[hit]]
        return proba


class AugmentedClassifier(_OrbitClassifier):
    """Data augmentation: fit the classifier on all transformed copies of the sample.

    Every sample point keeps total weight one: its distinct copies share it (``sample_weight``);
    classifiers without weights get one copy per transformation, which is the same for groups.

    Parameters
    ----------
    estimator:
        Any classifier.
    group:
        A set of transformations, a function of the number of features that returns one, or None.
    n_images, random_state:
        For groups too large to list: number of random copies besides the point itself, and seed.

    Notes
    -----
    Error at most eps after O(VCao / eps) samples up to logarithms *if* some hypothesis fits the
    copies (Thm. thm:inv-da-ub). If none does, augmentation can hurt (Thm. thm:re-da).

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from counterplay.invariance import groups
    >>> model = AugmentedClassifier(DecisionTreeClassifier(), groups.sign_flips(1))
    >>> model.fit([[1.0], [3.0]], [0, 1]).predict([[-1.1], [-2.9]])
    array([0, 1])
    """

    def __init__(
        self,
        estimator: Any,
        group: Any = None,
        n_images: int = 8,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.group = group
        self.n_images = n_images
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> AugmentedClassifier:
        """Fit on the augmented sample."""
        rows, codes, group = self._start(X, y)
        weighted = has_fit_parameter(self.estimator, "sample_weight")
        copies = augmented_sample(
            rows, codes, group, self.n_images, self.random_state, distinct=weighted
        )
        self.n_copies_ = len(copies[0])
        self._fit_inner(*copies)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted classes."""
        rows = self._rows(X)
        result: NDArray[Any] = self.estimator_.predict(rows)
        return result

    @available_if(_has_proba)
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Class probabilities."""
        rows = self._rows(X)
        return np.asarray(self.estimator_.predict_proba(rows), dtype=np.float64)


class OrbitVoteClassifier(_OrbitClassifier):
    """Test-time augmentation: average the predictions over the orbit of the test point.

    Parameters
    ----------
    estimator:
        Any classifier; wrap an :class:`AugmentedClassifier` to augment in training as well.
    group:
        A set of transformations, a function of the number of features that returns one, or None.
    voting:
        "soft" averages probabilities where there are any, "hard" counts votes (first class on
        ties).
    n_images, random_state:
        For groups too large to list: number of random images besides the point itself, and seed.

    Notes
    -----
    The predictor is constant on orbits, whatever the base classifier does.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from counterplay.invariance import groups
    >>> model = OrbitVoteClassifier(DecisionTreeClassifier(), groups.sign_flips(1))
    >>> model = model.fit([[1.0], [3.0], [-5.0]], [0, 1, 1])
    >>> bool((model.predict([[2.5], [4.0]]) == model.predict([[-2.5], [-4.0]])).all())
    True
    """

    def __init__(
        self,
        estimator: Any,
        group: Any = None,
        voting: Literal["soft", "hard"] = "soft",
        n_images: int = 8,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.group = group
        self.voting = voting
        self.n_images = n_images
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> OrbitVoteClassifier:
        """Fit the base classifier on the natural sample."""
        check_choice(self.voting, "voting", ("soft", "hard"))
        rows, codes, _ = self._start(X, y)
        self._fit_inner(rows, codes)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class with the largest mean probability, or with most votes."""
        rows = self._rows(X)
        if self.voting == "soft" and _has_proba(self):
            labels: NDArray[Any] = self.classes_[self._mean_proba(rows).argmax(axis=1)]
            return labels
        images = orbit_images(rows, self.group_, self.n_images, self.random_state)
        votes = np.array([self.estimator_.predict(image) for image in images])
        return plurality(votes, self.classes_).labels

    @available_if(_has_proba)
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Mean class probabilities over the orbit."""
        return self._mean_proba(self._rows(X))

    def _mean_proba(self, rows: FloatArray) -> FloatArray:
        images = orbit_images(rows, self.group_, self.n_images, self.random_state)
        stacked = self.estimator_.predict_proba(np.concatenate(list(images)))
        return np.asarray(stacked.reshape(len(images), len(rows), -1).mean(axis=0))


class CanonicalClassifier(_OrbitClassifier):
    """Replace every point by the canonical member of its orbit, in training and prediction.

    Exactly invariant and as fast as the base classifier. The canonical member jumps where two
    images are nearly equal, so smooth classifiers may prefer augmentation and voting.

    Parameters
    ----------
    estimator:
        Any classifier.
    group:
        A group with a canonical form, a function that returns one, or None.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from counterplay.invariance import groups
    >>> model = CanonicalClassifier(KNeighborsClassifier(1), groups.set_permutations(2))
    >>> model.fit([[1.0, 2.0], [5.0, 9.0]], [0, 1]).predict([[9.0, 5.0]])
    array([1])
    """

    def __init__(self, estimator: Any, group: Any = None) -> None:
        self.estimator = estimator
        self.group = group

    def fit(self, X: ArrayLike, y: ArrayLike) -> CanonicalClassifier:
        """Fit the base classifier on canonical members."""
        rows, codes, group = self._start(X, y)
        if not hasattr(group, "canonical"):
            raise NotAGroupError(f"{group!r} has no canonical form")
        self.canonical_ = group.canonical
        self._fit_inner(self.canonical_(rows), codes)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted classes."""
        rows = self._rows(X)
        result: NDArray[Any] = self.estimator_.predict(self.canonical_(rows))
        return result

    @available_if(_has_proba)
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Class probabilities."""
        rows = self._rows(X)
        return np.asarray(self.estimator_.predict_proba(self.canonical_(rows)))
