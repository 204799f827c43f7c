"""Transformations given by your own functions, checked on the rows they are applied to.

Source: docs/theory/11-invariance.md, "Conventions".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, array_fault, check_int
from counterplay.errors import InvalidInputError
from counterplay.invariance.errors import IdentityMissingError, NotAGroupError, ShapeError
from counterplay.invariance.validity import check_validity
from counterplay.invariance.vector_groups import VectorGroup


@checked
def from_callables(
    functions: Sequence[Callable[[NDArray[Any]], NDArray[Any]]],
    n_features: int,
    decimals: int = 9,
    is_group: bool = True,
) -> CallableGroup:
    """A group given by functions that map an (n, p) array to its transformed copy.

    Check it on your data with :func:`check_validity`; classifiers that need a group do so, too.
    Functions that are not meant to be a group (``is_group=False``) can be used to augment or vote.

    Examples
    --------
    >>> mirror = from_callables([lambda X: X, lambda X: X[:, ::-1]], n_features=2)
    >>> check_validity(mirror, [[1.0, 2.0], [3.0, 5.0]]).is_group
    True
    """
    return CallableGroup(functions, n_features, decimals, is_group)


class CallableGroup(VectorGroup):
    """Transformations given by functions of an (n, p) array; see :func:`from_callables`.

    Images are rounded to ``decimals`` before they are compared. Classifiers that rely on orbits
    check on their training data that the functions are a group; ``is_group=False`` says that they
    are not meant to be one.
    """

    proved_group = False

    def __init__(
        self,
        functions: Sequence[Callable[[NDArray[Any]], NDArray[Any]]],
        n_features: int,
        decimals: int = 9,
        is_group: bool = True,
    ) -> None:
        if callable(functions) or not all(callable(f) for f in functions) or len(functions) == 0:
            raise InvalidInputError(
                "functions must be a list of functions of an (n, p) array, the identity among them"
            )
        self.functions = tuple(functions)
        self.n_features = check_int(n_features, "n_features", low=1)
        self.decimals = check_int(decimals, "decimals", low=-300, high=300)
        self.is_group = bool(is_group)
        self.tolerance = 10.0**-self.decimals

    def __repr__(self) -> str:
        return f"CallableGroup({len(self.functions)} functions, p={self.n_features})"

    @property
    def order(self) -> float:
        """Number of functions."""
        return len(self.functions)

    def exact_image(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        """What function number ``g`` returns, checked."""
        given = self.functions[g](X.copy())
        if fault := array_fault(given, kinds="biuf"):
            raise ShapeError(f"function {g} must return an array of numbers: {fault}")
        image = np.asarray(given, dtype=np.float64)
        if image.shape != X.shape:
            raise ShapeError(f"function {g} returns shape {image.shape} for input {X.shape}")
        if not np.isfinite(image).all():
            raise ShapeError(f"function {g} returns NaN or infinity; functions must keep X finite")
        return image

    def _act(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.round(self.exact_image(g, X), self.decimals) + 0.0)

    def apply(self, X: ArrayLike) -> FloatArray:
        """All images, shape (|G|, n, p)."""
        points = self.check_points(X)
        return np.stack([self._act(g, points) for g in range(len(self.functions))])

    def validate(self, X: ArrayLike | None = None) -> None:
        """Raise if the functions are not a group on these data (first 50 points)."""
        if X is None or not self.is_group:
            return
        laws = check_validity(self, np.asarray(X)[:50])
        advice = "add what is missing, or say is_group=False"
        if not laws.has_identity:
            raise IdentityMissingError(f"none of the functions is the identity; {advice}")
        if laws.missing_pair is not None:
            a, b = laws.missing_pair
            raise NotAGroupError(
                f"function {a} after function {b} is none of the functions; {advice}", pair=(a, b)
            )
        if not laws.has_inverses:
            raise NotAGroupError(f"a function has no inverse among the functions; {advice}")
