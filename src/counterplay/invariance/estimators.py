"""scikit-learn classifiers that know a group: augment, look up, or vote.

All wrap any classifier. ``group`` is a set of transformations from
:mod:`counterplay.invariance.groups`, a function of the number of features that returns one, or None
for "no symmetry". Source: docs/theory/11-invariance.md, "Baselines" and "Proposition 11.H:
look-up".
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_choice
from counterplay.core.votes import plurality
from counterplay.invariance.augmenting import AugmentingPredictor
from counterplay.invariance.images import Rows, orbit_keys, stacked, voting_images
from counterplay.invariance.model import resolve_conflicts
from counterplay.invariance.orbit_classifier import OrbitClassifier, has_proba
from counterplay.invariance.transformations import number_keys


class ErmInvClassifier(OrbitClassifier):
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
    weighting:
        For ``augment=True``: weights of the copies, as in :class:`AugmentedClassifier`.
    n_images:
        For ``augment=True`` with groups too large to list: number of random copies.
    random_state:
        Seed of the copies.

    Notes
    -----
    Needs O(VCao / eps) samples in the relaxed and O(VCao / eps^2) in the agnostic setting up to
    logarithms (Theorems 11.7 and 11.8). A prediction costs one canonical form and one
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
        weighting: Literal["copies", "points"] = "copies",
        n_images: int = 8,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.group = group
        self.augment = augment
        self.on_conflict = on_conflict
        self.weighting = weighting
        self.n_images = n_images
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ErmInvClassifier:
        """Fit the base classifier and index the orbits of the sample.

        Rows without weight are not looked up; majorities are of weights.
        """
        check_choice(self.on_conflict, "on_conflict", ("raise", "majority"))
        check_choice(self.weighting, "weighting", ("copies", "points"))
        rows, codes, group, weights = self._start(X, y, sample_weight)
        self._require_orbits(rows, "the look-up needs orbits")
        keys = orbit_keys(rows, group)
        settled = resolve_conflicts(number_keys(keys), codes, self.on_conflict, weights)
        if self.augment:
            self._fit_copies(rows, settled, weights)
        else:
            self._fit_inner(rows, codes, weights)
        counted = np.ones(len(keys)) if weights is None else weights
        self.table_ = {
            key: label for key, label, w in zip(keys, settled.tolist(), counted.tolist()) if w > 0
        }
        return self

    def lookup(self, X: Any) -> IntArray:
        """Class number of the training points in the same orbit, -1 where there are none."""
        return self._find(self._rows(X))

    def _find(self, rows: Rows) -> IntArray:
        get = self.table_.get
        return np.array([get(key, -1) for key in orbit_keys(rows, self.group_)], dtype=np.int64)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predicted classes."""
        rows = self._rows(X)
        found = self._find(rows)
        labels = self.classes_[np.maximum(found, 0)]
        open_rows = found < 0
        if open_rows.any():
            labels[open_rows] = self._answers(rows[open_rows])
        result: NDArray[Any] = labels
        return result

    @available_if(has_proba)
    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities of the base; certain where the orbit was seen."""
        rows = self._rows(X)
        proba = self._chances(rows)
        found = self._find(rows)
        hit = found >= 0
        proba[hit] = np.eye(len(self.classes_))[found[hit]]
        return proba


class AugmentedClassifier(OrbitClassifier, AugmentingPredictor):
    """Data augmentation: fit the classifier on all transformed copies of the sample.

    The default fits exactly what the loop ``np.concatenate([g(X) for g in group])`` fits: one copy
    per transformation, each with weight one.

    Parameters
    ----------
    estimator:
        Any classifier.
    group:
        A set of transformations, a function of the number of features that returns one, or None.
    weighting:
        "copies": every copy has weight one, so the sample weighs |G| times as much as before
        against a penalty such as that of logistic regression or of support vector machines.
        "points": the distinct copies of a point share weight one (``sample_weight``), so the
        penalty keeps the strength it has on the natural sample. Without a penalty both are the
        same.
    n_images:
        For groups too large to list: number of random copies besides the point itself.
    random_state:
        Seed of the copies.
    blocks:
        "auto": copies that would need more than ``max_bytes`` are streamed through ``partial_fit``
        where the estimator has it; where it has not, some random copies of every row are used, with
        a warning. "always" streams, "never" makes all copies at once.
    epochs:
        How often every copy is streamed.
    max_bytes:
        Memory of the copies at most.

    Notes
    -----
    Error at most eps after O(VCao / eps) samples up to logarithms *if* some hypothesis fits the
    copies (Theorem 11.1). If none does, augmentation can hurt (Theorem 11.5).

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from counterplay.invariance import groups
    >>> model = AugmentedClassifier(DecisionTreeClassifier(), groups.sign_flips(1))
    >>> model.fit([[1.0], [3.0]], [0, 1]).predict([[-1.1], [-2.9]])
    array([0, 1])

    References
    ----------
    "Baselines", Theorem 11.1, see docs/theory/11-invariance.md.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AugmentedClassifier:
        """Fit on the augmented sample; every copy has the weight of its row."""
        rows, codes, _, weights = self._start(X, y, sample_weight)
        self.n_copies_ = self._fit_augmented(rows, codes, weights)
        return self


class OrbitVoteClassifier(OrbitClassifier):
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
    n_images:
        For groups too large to list: number of random members of the orbit, the same for all its
        points.
    random_state:
        Seed of the images; a generator is asked for a seed once, in ``fit``.

    Notes
    -----
    The predictor is constant on orbits, whatever the base classifier does, if ``group`` is a group
    (functions that are none have no orbits). For groups too large to list the vote is taken over
    ``n_images`` members of the orbit, the same for all its points: constant for every ``n_images``,
    and over the draw of the members an unbiased mean of the average over the whole orbit.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from counterplay.invariance import groups
    >>> model = OrbitVoteClassifier(DecisionTreeClassifier(), groups.sign_flips(1))
    >>> model = model.fit([[1.0], [3.0], [-5.0]], [0, 1, 1])
    >>> bool((model.predict([[2.5], [4.0]]) == model.predict([[-2.5], [-4.0]])).all())
    True

    References
    ----------
    "Ways to use a symmetry", see docs/theory/22-symmetry.md.
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OrbitVoteClassifier:
        """Fit the base classifier on the natural sample."""
        check_choice(self.voting, "voting", ("soft", "hard"))
        rows, codes, _, weights = self._start(X, y, sample_weight)
        seed = 0 if self.random_state is None else self.random_state
        self.seed_ = int(generator(seed).integers(2**31))
        self._fit_inner(rows, codes, weights)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Class with the largest mean probability, or with most votes."""
        rows = self._rows(X)
        if self.voting == "soft" and has_proba(self):
            labels: NDArray[Any] = self.classes_[self._mean_proba(rows).argmax(axis=1)]
            return labels
        images = voting_images(rows, self.group_, self.n_images, self.seed_)
        votes = np.array([self._answers(image) for image in images])
        return plurality(votes, self.classes_).labels

    @available_if(has_proba)
    def predict_proba(self, X: Any) -> FloatArray:
        """Mean class probabilities over the orbit."""
        return self._mean_proba(self._rows(X))

    def _mean_proba(self, rows: Rows) -> FloatArray:
        images = voting_images(rows, self.group_, self.n_images, self.seed_)
        by_image = self._chances(stacked(images)).reshape(len(images), rows.shape[0], -1)
        return np.asarray(np.sort(by_image, axis=0).mean(axis=0))  # sums round as they are ordered
