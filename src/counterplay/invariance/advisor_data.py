"""What the advisor searches on: rows, labels, weights, and which rows are of one orbit.

Source: docs/theory/22-symmetry.md, "The race and the corrected error".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import type_of_target

from counterplay.core.validation import FloatArray, IntArray, shorten
from counterplay.errors import InvalidInputError
from counterplay.invariance.advisor_families import Maker
from counterplay.invariance.images import Form, Rows, group_for, numbers_for, orbit_keys
from counterplay.invariance.linear_theory import invariance_floor
from counterplay.invariance.random_images import moving_elements
from counterplay.invariance.regressors import check_targets
from counterplay.invariance.transformations import TransformationSet, byte_keys, number_keys
from counterplay.invariance.validity import check_validity
from counterplay.tables import Table
from counterplay.tables.labels import as_labels


@dataclass(frozen=True)
class AdvisorData:
    """Rows, labels, orbits and the maker of candidates."""

    rows: Rows
    y: NDArray[Any]
    weights: FloatArray | None
    orbits: IntArray
    maker: Maker
    grouped: bool  # the transformations are a group on these rows
    idle: bool  # no transformation moves any row

    def part(self, rng: np.random.Generator, most: int) -> AdvisorData:
        """A random subset of the rows."""
        if len(self.y) <= most:
            return self
        pick = np.sort(rng.permutation(len(self.y))[:most])
        weights = None if self.weights is None else self.weights[pick]
        orbits = np.unique(self.orbits[pick], return_inverse=True)[1].reshape(-1)
        return AdvisorData(self.rows[pick], self.y[pick], weights, orbits, self.maker, self.grouped,
                     self.idle)  # fmt: skip


def read_data(
    estimator: Any, X: Any, y: Any, group: Any, sample_weight: Any, seed: int
) -> AdvisorData:
    """Rows and labels as the search uses them, refused with a reason where it cannot."""
    methods = ("get_params", "fit", "predict")
    if isinstance(estimator, type) or not all(hasattr(estimator, name) for name in methods):
        raise InvalidInputError(
            "estimator must be a scikit-learn classifier or regressor, got "
            f"{shorten(estimator, 80)}"
        )
    if y is None:
        raise InvalidInputError("y is None; one label per row is needed")
    table = Table.of(X, sample_weight=sample_weight)
    form = Form.of(table)
    transformations = group_for(group, form)
    maker = Maker(estimator, transformations, form.under(transformations), seed)
    targets = check_targets(y, len(table)) if maker.regression else _classes(Table.of(X, y))
    rows = numbers_for(table, transformations)
    if not maker.regression and len(np.unique(targets)) < 2:
        raise InvalidInputError("y has one class only; every transformation keeps it.")
    grouped = transformations.is_group and _is_group(transformations, rows)
    keys = orbit_keys(rows, transformations) if grouped else byte_keys(rows)
    return AdvisorData(
        rows, targets, table.weights, number_keys(keys), maker, grouped,
        _idle(rows, transformations),
    )  # fmt: skip


def _classes(table: Table) -> NDArray[Any]:
    labels = table.labels
    assert labels is not None
    values: NDArray[Any] = as_labels(labels.classes)[labels.codes]
    if type_of_target(values) not in ("binary", "multiclass"):
        raise InvalidInputError(f"y must be class labels, got {type_of_target(values)} values")
    return values


def _is_group(group: TransformationSet, rows: Rows) -> bool:
    return True if group.proved_group else check_validity(group, rows).is_group


def _idle(rows: Rows, group: TransformationSet) -> bool:
    if not math.isfinite(group.order):
        return False
    some = rows[:200].toarray() if hasattr(rows, "toarray") else rows
    return not len(moving_elements(some, group))


def sample_floor(data: AdvisorData) -> float | None:
    """The floor on the rows at hand; None where no orbit repeats."""
    if data.maker.regression or not data.grouped or len(np.unique(data.orbits)) == len(data.y):
        return None
    return invariance_floor(_mass(data))


def _mass(data: AdvisorData) -> FloatArray:
    codes = np.unique(data.y, return_inverse=True)[1].reshape(-1)
    table = np.zeros((int(data.orbits.max()) + 1, int(codes.max()) + 1))
    np.add.at(table, (data.orbits, codes), 1.0)
    return table
