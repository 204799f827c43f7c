"""Features that do not change under a group, for any estimator: pooled templates, canonical forms.

A template is compared with all images of a row, and the answers are pooled (largest, mean, root
mean square): the result does not know which image it was given.
Source: docs/theory/22-symmetry.md, "Pooled features"; Anselmi et al. (2016), "Unsupervised learning
of invariant representations".
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import TransformerMixin

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_choice, check_int
from counterplay.errors import InvalidInputError
from counterplay.invariance.canonical import find_template, represented
from counterplay.invariance.images import Rows, voting_images
from counterplay.invariance.orbit_estimator import OrbitEstimator
from counterplay.tables import Table
from counterplay.tables.labels import label_values

_NUMBERS = 4_000_000  # held at once while images are compared with templates


class OrbitTransformer(TransformerMixin, OrbitEstimator):
    """Reading of rows, shared by transformers that know a group; there is no inner estimator."""

    estimator = None
    _takes_forms = False  # whether a form that is nearly constant on orbits will do

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        tags.input_tags.allow_nan = self._takes_missing
        return tags

    def _check_estimator(self, weighted: bool) -> None:
        """Nothing is wrapped."""

    def _open(self, X: Any, y: Any) -> Rows:
        self._begin(X, (), None)
        table = Table.of(X)
        if y is not None and len(label_values(y)) != len(table):
            raise InvalidInputError(f"y has {len(y)} labels for {len(table)} rows")
        rows = self._read(table)
        if not (self._takes_forms and self.group_.approximate_form):
            self._require_orbits(rows, f"{type(self).__name__} needs orbits")
        return rows


class Canonicalizer(OrbitTransformer):
    """Replace every row by one member of its orbit: a transformer for pipelines.

    Parameters
    ----------
    group:
        A group, a function of the number of features that returns one, or None.
    form:
        "aligned" (the image closest to the mean of the training representatives), "smallest" (the
        canonical form of the group) or "auto": aligned where the group can be listed and rows are
        dense and complete.

    Attributes
    ----------
    template_:
        Mean of the representatives of the training sample; None for "smallest".

    Notes
    -----
    The output is the same for all members of an orbit. For turns of pictures by any angle
    (:func:`groups.image_turns`), which are no group, it is so only up to interpolation.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> Canonicalizer(groups.set_permutations(3)).fit_transform([[3.0, 1.0, 2.0]])
    array([[1., 2., 3.]])

    References
    ----------
    Proposition 11.I, see docs/theory/11-invariance.md; "Ways to use a symmetry", see
    docs/theory/22-symmetry.md.
    """

    _takes_forms = True

    def __init__(
        self, group: Any = None, form: Literal["auto", "aligned", "smallest"] = "auto"
    ) -> None:
        self.group = group
        self.form = form

    def fit(self, X: Any, y: Any = None) -> Canonicalizer:
        """Find the template."""
        check_choice(self.form, "form", ("auto", "aligned", "smallest"))
        rows = self._open(X, y)
        self.template_ = find_template(rows, self.group_, self.form)
        return self

    def transform(self, X: Any) -> Any:
        """The member that stands for the orbit of every row, in the container of the training."""
        return self._give(represented(self._rows(X), self.group_, self.template_))


class OrbitFeatures(OrbitTransformer):
    """Compare every image of a row with templates and pool: features constant on orbits.

    Parameters
    ----------
    group:
        A group, a function of the number of features that returns one, or None (no pooling).
    n_templates:
        Training rows that serve as templates, at most.
    n_images:
        For groups too large to list: random members of the orbit, the same for all its points.
    random_state:
        Seed of templates and members.

    Attributes
    ----------
    templates_:
        Centred and of length one, shape (n_templates, p).

    Notes
    -----
    Output: largest, mean and root mean square over the orbit of each inner product, standardised on
    the training rows; 3 columns per template. Everything is computed from the canonical member, so
    it is constant on orbits to the last bit.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> model = OrbitFeatures(groups.cyclic_shifts(4), n_templates=5, random_state=0).fit(X)
    >>> bool((model.transform(X) == model.transform(np.roll(X, 1, axis=1))).all())
    True

    References
    ----------
    "Pooled features", see docs/theory/22-symmetry.md; Anselmi et al. (2016), Unsupervised learning
    of invariant representations.
    """

    _takes_missing = False
    _takes_sparse = False

    def __init__(
        self,
        group: Any = None,
        n_templates: int = 150,
        n_images: int = 8,
        random_state: RandomState = None,
    ) -> None:
        self.group = group
        self.n_templates = n_templates
        self.n_images = n_images
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> OrbitFeatures:
        """Choose templates among the rows; scales of the features from all of them."""
        rows = self._open(X, y)
        rng = generator(0 if self.random_state is None else self.random_state)
        self.seed_ = int(rng.integers(2**31))
        count = min(check_int(self.n_templates, "n_templates", low=1), len(rows))
        pick: IntArray = np.sort(rng.permutation(len(rows))[:count])
        self.mean_: FloatArray = rows.mean(axis=0)
        centred = rows[pick] - self.mean_
        lengths = np.linalg.norm(centred, axis=1, keepdims=True)
        self.templates_: FloatArray = centred / np.where(lengths > 0, lengths, 1.0)
        pooled = self._pooled(rows)
        self.centre_: FloatArray = pooled.mean(axis=0)
        spread = pooled.std(axis=0)
        self.scale_: FloatArray = np.where(spread > 1e-12 * np.abs(pooled).max(), spread, 1.0)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Pooled and standardised features."""
        return np.asarray((self._pooled(self._rows(X)) - self.centre_) / self.scale_)

    def _pooled(self, rows: FloatArray) -> FloatArray:
        order = min(self.group_.order, self.n_images)
        step = max(1, int(_NUMBERS // (order * max(rows.shape[1], 3 * len(self.templates_)))))
        start = self.group_.canonical(rows) if len(rows) else rows
        return np.concatenate([self._block(start[i : i + step]) for i in range(0, len(rows), step)])

    def _block(self, start: FloatArray) -> FloatArray:
        images = voting_images(start, self.group_, self.n_images, self.seed_)
        answers = np.stack([(image - self.mean_) @ self.templates_.T for image in images])
        root = np.sqrt((answers**2).mean(axis=0))
        return np.hstack([answers.max(axis=0), answers.mean(axis=0), root])
