"""Fitting on transformed copies within a budget of memory: all at once, block by block, or some.

Source: docs/theory/22-symmetry.md, "Lazy augmentation".
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray, IntArray, check_choice, check_int
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.invariance.images import Rows
from counterplay.invariance.lazy import augmented_blocks
from counterplay.invariance.orbit_estimator import OrbitPredictor, ask

MAX_BYTES = 512 << 20
_BLOCK_ROWS = 8192
Blocks = Literal["auto", "always", "never"]


class AugmentingPredictor(OrbitPredictor):
    """Fits its estimator on copies; shared by the augmenting classifier and regressor."""

    def __init__(
        self,
        estimator: Any,
        group: Any = None,
        weighting: Literal["copies", "points"] = "copies",
        n_images: int = 8,
        random_state: RandomState = None,
        blocks: Blocks = "auto",
        epochs: int = 1,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.estimator = estimator
        self.group = group
        self.weighting = weighting
        self.n_images = n_images
        self.random_state = random_state
        self.blocks = blocks
        self.epochs = epochs
        self.max_bytes = max_bytes

    def _fit_augmented(self, rows: Rows, codes: Any, weights: FloatArray | None) -> int:
        """Fit on copies, as many at once as memory allows; how many different ones were used."""
        check_choice(self.weighting, "weighting", ("copies", "points"))
        check_choice(self.blocks, "blocks", ("auto", "always", "never"))
        epochs = check_int(self.epochs, "epochs", low=1)
        most = check_int(self.max_bytes, "max_bytes", low=1)
        listed = math.isfinite(self.group_.order)
        order = int(self.group_.order) if listed else self.n_images + 1
        streams = hasattr(self._inner(), "partial_fit")
        if self.blocks == "always" and not streams:
            name = type(self._inner()).__name__
            raise InvalidInputError(f'blocks="always" needs partial_fit, which {name} has not')
        large = order * _bytes_of(rows) > most
        if self.blocks == "always" or (self.blocks == "auto" and streams and large):
            return self._fit_blocks(rows, codes, weights, order, epochs)
        if self.blocks == "auto" and large and listed:
            return self._fit_some(rows, codes, weights, max(1, most // max(_bytes_of(rows), 1)))
        return self._fit_copies(rows, codes, weights)

    def _fit_blocks(
        self, rows: Rows, codes: Any, weights: FloatArray | None, order: int, epochs: int
    ) -> int:
        """Stream all copies through ``partial_fit``, every one of them once per epoch."""
        self.estimator_ = clone(self._inner())
        listed = math.isfinite(self.group_.order)
        weighted = weights is not None or self.weighting == "points"
        if weighted and not has_fit_parameter(self.estimator_, "sample_weight"):
            self._require_weights("weights of copies are needed")
        passes = epochs if listed else epochs * order  # one random image of each row per pass
        more: dict[str, Any] = {"classes": self.classes_} if is_classifier(self) else {}
        for given, owner, share in augmented_blocks(
            rows, np.arange(rows.shape[0]), self.group_, block_rows=_BLOCK_ROWS, epochs=passes,
            sample_weight=weights, random_state=self.random_state,
        ):  # fmt: skip
            if weighted:
                scale = 1.0 / order if self.weighting == "points" else 1.0
                more["sample_weight"] = share * (order if listed else 1) * scale
            fit = self.estimator_.partial_fit
            targets = self._targets(codes[owner.astype(np.int64)])
            ask(self.estimator_, "be fitted", fit, self._give(given), targets, **more)
        return int(order * rows.shape[0])

    def _fit_some(self, rows: Rows, codes: Any, weights: FloatArray | None, count: int) -> int:
        """Fit on ``count`` different random copies of every row, and say so."""
        n, order = rows.shape[0], int(self.group_.order)
        if count >= order:
            return self._fit_copies(rows, codes, weights)
        warnings.warn(
            f"all {order} copies of {n:,} rows exceed max_bytes={self.max_bytes:,}: {count} random "
            "copies of each row are used; raise max_bytes, or take an estimator with partial_fit",
            AssumptionWarning,
            stacklevel=3,
        )
        copies, owner = _some_copies(rows, self, count)
        given = None if weights is None else weights[owner]
        if self.weighting == "points":
            self._require_weights('weighting="points" needs weights')
            given = np.full(len(owner), 1.0 / count) if given is None else given / count
        self._fit_inner(copies, codes[owner], given)
        return len(owner)


def _some_copies(rows: Rows, model: AugmentingPredictor, count: int) -> tuple[Rows, IntArray]:
    """The first ``count`` passes of lazy augmentation: each gives another copy of every row."""
    n = rows.shape[0]
    parts, owners, left = [], [], count * n
    blocks = augmented_blocks(
        rows, np.arange(n), model.group_, block_rows=max(1, min(_BLOCK_ROWS, n)),
        random_state=model.random_state,
    )  # fmt: skip
    copies: Any = None if sparse.issparse(rows) else np.empty((left, rows.shape[1]))
    for given, owner, _ in blocks:
        taken = min(left, len(owner))
        owners.append(owner[:taken].astype(np.int64))
        if copies is None:
            parts.append(given[:taken])
        else:
            copies[count * n - left : count * n - left + taken] = given[:taken]
        left -= taken
        if left == 0:
            break
    stacked = sparse.csr_array(sparse.vstack(parts, format="csr")) if copies is None else copies
    return stacked, np.concatenate(owners)


def _bytes_of(rows: Rows) -> int:
    if sparse.issparse(rows):
        return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)
    return int(rows.nbytes)
