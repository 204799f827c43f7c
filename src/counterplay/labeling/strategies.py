"""A query strategy for other active-learning libraries that reacts to the labels it is given.

A bootstrap committee is trained on the labels so far; the next question is the row on which its
averaged vote is closest. The strategy fits scikit-activeml's ``query`` and modAL's strategy call.
Source: docs/theory/24-campaign.md, "Adapters".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from counterplay.core.arguments import check_parameters
from counterplay.core.seeds import RandomState, derive_seed, generator
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.labeling.models import check_learner, fit_quietly, raw_scores
from counterplay.tables import Labels, Table
from counterplay.tables.table import check_same_rows


class CommitteeStrategy:
    """Query strategy that asks for the row on which a freshly trained committee is least sure.

    Use it in scikit-activeml's loop (``strategy.query(X, y)``, missing labels are NaN or None) or
    in modAL's (``query_strategy=strategy.as_modal()``). For several parties use ``Campaign``.

    Parameters
    ----------
    estimator:
        What every member is: a classifier with ``predict_proba`` or ``decision_function``.
    n_members:
        Number of members, each trained on a bootstrap sample of the labels.
    random_state:
        Seed of the samples.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2)); y = np.where(X[:, 0] > 0, "yes", "no")
    >>> strategy = CommitteeStrategy(LogisticRegression(), n_members=5)
    >>> known = np.full(200, None, dtype=object)
    >>> known[:6] = y[:6]
    >>> for _ in range(10):
    ...     index = strategy.query(X, known)[0]
    ...     known[index] = y[index]
    >>> labelled = known != None
    >>> float((LogisticRegression().fit(X[labelled], y[labelled]).predict(X) == y).mean()) > 0.9
    True

    References
    ----------
    "Adapters", see docs/theory/24-campaign.md.
    """

    def __init__(self, estimator: Any, n_members: int = 20, random_state: RandomState = 0) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, as scikit-learn's ``clone`` needs them."""
        return dict(vars(self))

    def set_params(self, **parameters: Any) -> CommitteeStrategy:
        """Set parameters by name."""
        for name, value in parameters.items():
            if name not in vars(self):
                raise InvalidInputError(f"CommitteeStrategy has no parameter {name[:60]!r}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"CommitteeStrategy({self.estimator!r}, n_members={self.n_members!r})"

    def query(
        self,
        X: Any,
        y: Any,
        *,
        candidates: ArrayLike | None = None,
        batch_size: int = 1,
        return_utilities: bool = False,
    ) -> Any:
        """Return the positions of the next rows to label, best first.

        Parameters
        ----------
        X:
            The pool, in any container.
        y:
            One label per row, in any coding; NaN or None where it is not known yet.
        candidates:
            Positions of the rows that may be asked; default all.
        batch_size:
            Number of rows.
        return_utilities:
            Whether to return how unsure the committee is about each row, too (NaN where it may not
            be asked).
        """
        n = check_positive_int(batch_size, "batch_size")
        table = Table.of(X)
        known, labels = _known(X, y, len(table))
        allowed = ~known
        if candidates is not None:
            allowed &= _chosen(candidates, len(table))
        if not allowed.any():
            raise InvalidInputError("there is no unlabeled candidate left")
        training = table.part(np.flatnonzero(known)) if known.any() else None
        doubt = np.where(allowed, self._doubt(table, training, labels), -np.inf)
        chosen = np.argsort(-doubt, kind="stable")[: min(n, int(allowed.sum()))]
        if not return_utilities:
            return chosen
        return chosen, np.where(allowed, doubt, np.nan)[None, :]

    def as_modal(self) -> Any:
        """The strategy for modAL: ``(learner, X_pool) -> (indices, metric)``.

        The committee is trained on the learner's ``X_training`` and ``y_training``, which modAL
        extends with every ``teach``.
        """

        def strategy(learner: Any, X: Any, n_instances: int = 1, **_: Any) -> Any:
            if not hasattr(learner, "X_training") or not hasattr(learner, "y_training"):
                raise InvalidInputError(
                    f"{type(learner).__name__} has no X_training and y_training, so the labels so "
                    "far are unknown; pass modAL's ActiveLearner, or call query(X, y)"
                )
            n = check_positive_int(n_instances, "n_instances")
            training, labels = None, None
            if learner.X_training is not None and np.shape(learner.y_training)[0]:
                training = Table.of(learner.X_training, learner.y_training, what="X_training")
                labels = training.labels
            names = None if training is None else training.names
            doubt = self._doubt(Table.of(X, columns=names), training, labels)
            best = np.argsort(-doubt, kind="stable")[:n]
            return best, doubt[best]

        return strategy

    def _doubt(self, pool: Table, training: Table | None, labels: Labels | None) -> FloatArray:
        """One minus the margin between the two best classes of the averaged vote."""
        check_parameters(self)
        check_learner(self.estimator)
        members = check_positive_int(self.n_members, "n_members")
        rng = generator(self.random_state)
        # rows between which nothing else decides are taken at random
        ties: FloatArray = 1e-9 * rng.random(len(pool))
        if training is None or labels is None or len(labels.classes) < 2:
            return 1.0 + ties
        seed = int(rng.integers(2**31))
        votes = np.zeros((len(pool), len(labels.classes)))
        for member in range(members):
            votes += self._votes(pool, training, labels, derive_seed(seed, member))
        top = np.sort(votes, axis=1)[:, -2:] / members
        doubt: FloatArray = 1.0 - (top[:, 1] - top[:, 0]) + ties
        return doubt

    def _votes(self, pool: Table, training: Table, labels: Labels, seed: int) -> FloatArray:
        """Scores of all rows by one member, trained on a bootstrap sample."""
        codes = labels.codes.astype(np.int64)
        sample: IntArray = np.random.default_rng(seed).integers(0, len(codes), len(codes))
        votes = np.zeros((len(pool), len(labels.classes)))
        present = np.unique(codes[sample])
        if present.size == 1:
            votes[:, present[0]] = 1.0
            return votes
        fitted = fit_quietly(self.estimator, training.take(sample), codes[sample], seed)
        known = np.asarray(getattr(fitted, "classes_", present), dtype=np.int64)
        votes[:, known] = raw_scores(fitted, pool.rows)
        return votes


def _known(X: Any, y: Any, n: int) -> tuple[BoolArray, Labels | None]:
    """Which rows have a label, and these labels."""
    check_same_rows(X, y)
    values = np.asarray(y, dtype=object)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.shape != (n,):
        raise InvalidInputError(f"y must have length {n}, got shape {values.shape}")
    known: BoolArray = ~np.asarray(pd.isna(values), dtype=np.bool_)
    return known, Labels.of(values[known]) if known.any() else None


def _chosen(candidates: ArrayLike, n: int) -> BoolArray:
    """Mark the rows at the given positions."""
    places = np.asarray(candidates)
    if places.ndim != 1 or places.dtype.kind not in "iu":
        raise InvalidInputError("candidates must be a list of positions of rows")
    if places.size and (places.min() < 0 or places.max() >= n):
        raise InvalidInputError(f"candidates must be positions from 0 to {n - 1}")
    mask = np.zeros(n, dtype=np.bool_)
    mask[places] = True
    return mask
