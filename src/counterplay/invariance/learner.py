"""What all learners of the theory share: checked samples, fresh copies, a readable name."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.validation import check_labels01
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.invariance.model import resolve_conflicts
from counterplay.invariance.transformations import TransformationSet


class Learner(ABC):
    """A learner of 0/1 labels under transformations: ``fit(X, y)``, then ``predict(X)``."""

    group: TransformationSet
    on_conflict: Literal["raise", "majority"] = "raise"

    @abstractmethod
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from a labelled sample of natural points."""

    @abstractmethod
    def predict(self, X: ArrayLike) -> NDArray[np.int8]:
        """Labels of natural test points."""

    def fresh(self) -> Self:
        """A copy that has not seen data, for independent runs."""
        twin = copy.copy(self)
        for name in [name for name in vars(twin) if name.endswith("_")]:
            delattr(twin, name)
        return twin

    def __repr__(self) -> str:
        names = inspect.signature(type(self).__init__).parameters
        shown = ", ".join(f"{n}={getattr(self, n)!r}" for n in names if hasattr(self, n))
        return f"{type(self).__name__}({shown})"

    def _check_sample(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int8]]:
        """Points and labels, checked; labels inside orbits agree."""
        points = self.group.check_points(X)
        labels = check_labels01(y).reshape(-1)
        if labels.size != len(points):
            raise InvalidInputError(f"X has {len(points)} points, but y has {labels.size} labels")
        ids, _ = self.group.components(points)
        return points, resolve_conflicts(ids, labels, self.on_conflict)

    def _check_fitted(self, X: ArrayLike, attribute: str) -> NDArray[Any]:
        if not hasattr(self, attribute):
            raise ProtocolError(f"{type(self).__name__} is not fitted yet; call fit first")
        return self.group.check_points(X)
