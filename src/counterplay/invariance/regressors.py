"""scikit-learn regressors that know a group: augment in training, or average over the orbit.

Source: docs/theory/22-symmetry.md, "Ways to use a symmetry".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_float_array, shorten
from counterplay.errors import InvalidInputError
from counterplay.invariance.augmenting import AugmentingPredictor
from counterplay.invariance.images import Rows, stacked, voting_images
from counterplay.invariance.orbit_estimator import OrbitPredictor
from counterplay.invariance.transformations import TransformationSet
from counterplay.tables import Table


class OrbitRegressor(RegressorMixin, OrbitPredictor):
    """Numbers as targets, shared by all wrappers of regressors."""

    _kind = "regressor"

    def _start(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> tuple[Rows, FloatArray, TransformationSet, FloatArray | None]:
        """Checked rows, targets, the group for these data, and weights."""
        self._begin(X, y, sample_weight)
        table = Table.of(X, sample_weight=sample_weight)
        targets = check_targets(y, len(table))
        rows = self._read(table)
        return rows, targets, self.group_, table.weights


def check_targets(y: Any, rows: int) -> FloatArray:
    """Return finite numbers, one per row."""
    try:
        flat = np.asarray(y)
    except ValueError:  # lists of different lengths
        raise InvalidInputError(f"y must be one number per row, got {shorten(y, 80)}") from None
    if flat.ndim == 2 and flat.shape[1] == 1:
        flat = flat[:, 0]
    targets = check_float_array(flat, "y", ndim=1)
    if len(targets) != rows:
        raise InvalidInputError(f"y has {len(targets)} numbers for {rows} rows")
    return targets


class AugmentedRegressor(OrbitRegressor, AugmentingPredictor):
    """Data augmentation: fit the regressor on all transformed copies of the sample.

    Parameters
    ----------
    estimator:
        Any regressor.
    group:
        A set of transformations, a function of the number of features that returns one, or None.
    weighting:
        "copies" or "points"; see :class:`AugmentedClassifier`.
    n_images:
        For groups too large to list: number of random copies besides the point itself.
    random_state:
        Seed of the copies.
    blocks:
        "auto", "always" or "never": whether copies are streamed through ``partial_fit``.
    epochs:
        How often every copy is streamed.
    max_bytes:
        Memory of the copies at most.

    Notes
    -----
    With a strictly convex penalised loss and an orthogonal group the fitted linear model is
    invariant: it reads rows only through their means over orbits of columns.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from counterplay.invariance import groups
    >>> model = AugmentedRegressor(Ridge(), groups.column_permutations(2))
    >>> model.fit([[0.0, 1.0], [2.0, 5.0]], [1.0, 7.0]).estimator_.coef_.round(3)
    array([0.947, 0.947])

    References
    ----------
    "Ways to use a symmetry", see docs/theory/22-symmetry.md.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AugmentedRegressor:
        """Fit on the augmented sample; every copy has the weight of its row."""
        rows, targets, _, weights = self._start(X, y, sample_weight)
        self.n_copies_ = self._fit_augmented(rows, targets, weights)
        return self


class OrbitMeanRegressor(OrbitRegressor):
    """Average the predictions of a regressor over the orbit of the test point.

    Parameters
    ----------
    estimator:
        Any regressor; wrap an :class:`AugmentedRegressor` to augment in training as well.
    group:
        A set of transformations, a function of the number of features that returns one, or None.
    n_images:
        For groups too large to list: K random members of the orbit, the same for all its points.
    random_state:
        Seed of these members; a generator is asked for a seed once, in ``fit``.

    Notes
    -----
    Constant on orbits, whatever the regressor does, if ``group`` is a group.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from counterplay.invariance import groups
    >>> model = OrbitMeanRegressor(DecisionTreeRegressor(random_state=0), groups.sign_flips(1))
    >>> model.fit([[1.0], [3.0], [-5.0]], [0.0, 1.0, 4.0]).predict([[2.5], [-2.5]])
    array([2.5, 2.5])

    References
    ----------
    "Ways to use a symmetry", see docs/theory/22-symmetry.md.
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OrbitMeanRegressor:
        """Fit the regressor on the natural sample."""
        rows, targets, _, weights = self._start(X, y, sample_weight)
        seed = 0 if self.random_state is None else self.random_state
        self.seed_ = int(generator(seed).integers(2**31))
        self._fit_inner(rows, targets, weights)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Mean prediction over the orbit."""
        rows = self._rows(X)
        images = voting_images(rows, self.group_, self.n_images, self.seed_)
        answers = self._answers(stacked(images)).reshape(len(images), rows.shape[0])
        return np.asarray(np.sort(answers, axis=0).mean(axis=0))  # sums round as they are ordered
