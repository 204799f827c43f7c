"""VC dimension with a shattered set as certificate, also for partial classes and orbits.

Depth-first search over shattered sets. Every subset of a shattered set is shattered, so a point
that cannot extend a set is never tried again below it; the rows stay sorted by the labels they
give to the current set, and a point extends it if it splits every group. Rows that are undefined
(value 2) at a point leave the search below it, which is how orbits with a non-constant label are
handled. Where that takes too long (random labels have billions of shattered sets), the question "is
there one more point?" is decided by :mod:`counterplay.core.dimensions.deep_search`.
Source: Proposition 11.J, see docs/theory/11-invariance.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.bits import Words, pack_columns, popcount, unique_rows
from counterplay.core.dimensions.deep_search import find_shattered
from counterplay.core.dimensions.shatter_search import search_bitsets, search_lists
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import BoolArray, IntArray, check_positive_int
from counterplay.errors import InvalidInputError

Values = NDArray[np.uint8]
_BITSET_DEPTH = 10  # groups of rows as bit sets up to here: 2^10 sets of N bits
_FIRST_STEPS = 3_000  # sets visited before the search that counts rows takes over
_DEEP_FROM = 4  # it looks for at least one point more than this


@checked
@dataclass(frozen=True)
class Shattering:
    """A largest shattered set, with one hypothesis for each of its labelings.

    Attributes
    ----------
    points:
        The shattered points (columns).
    witnesses:
        2^d members; number r gives the points the binary digits of r, the first point the most
        significant one.
    exact:
        False if the search was cut off by its budget: the dimension may then be larger.
    """

    points: tuple[int, ...]
    witnesses: tuple[int, ...]
    exact: bool = True

    @property
    def value(self) -> int:
        """The dimension: the number of shattered points."""
        return len(self.points)

    def __int__(self) -> int:
        return self.value

    def verify(self, cls: FiniteClass | ArrayLike) -> bool:
        """Check against the class (or matrix of 0, 1 and 2) that the points are shattered."""
        values = as_values(cls)
        d = self.value
        if len(set(self.points)) != d or len(self.witnesses) != 2**d:
            return False
        wanted = (np.arange(2**d)[:, None] >> np.arange(d - 1, -1, -1)) & 1
        found = values[np.ix_(np.array(self.witnesses, int), np.array(self.points, int))]
        return bool((found == wanted).all())

    def summary(self) -> str:
        """One sentence with the dimension and the set."""
        relation = "is" if self.exact else "is at least"
        return f"VC dimension {relation} {self.value}; shattered points: {list(self.points)}"


@checked
def vc_dimension(
    cls: FiniteClass | ArrayLike,
    *,
    conflicts: ArrayLike | None = None,
    budget: int | None = None,
) -> Shattering:
    """Find the VC dimension and a largest shattered set.

    Use it on classes with up to some 10^5 members and a small dimension; the time is about the
    number of shattered sets, and far less for classes that look random.

    Parameters
    ----------
    cls:
        A class, or a matrix with values 0, 1 and 2 for "undefined" (a partial class: such a row
        does not count at that point).
    conflicts:
        Symmetric boolean matrix (P, P): pairs of points that must not both be in the set.
    budget:
        Most sets to visit; the result then has ``exact=False`` if the search was not finished.

    Returns
    -------
    Shattering
        ``value`` is the dimension; ``verify(cls)`` checks the certificate.

    Examples
    --------
    >>> pool = np.random.default_rng(0).normal(size=(30, 2))
    >>> halfspaces = FiniteClass.halfspaces_2d(pool)
    >>> result = vc_dimension(halfspaces)
    >>> result.value, result.verify(halfspaces)
    (3, True)

    References
    ----------
    Vapnik and Chervonenkis (1971), "On the uniform convergence of relative frequencies".
    """
    values = as_values(cls)
    apart = _conflict_matrix(conflicts, values.shape[1])
    steps = 0 if budget is None else check_positive_int(budget, "budget")
    ones, zeros = pack_columns(values == 1), pack_columns(values == 0)
    columns = _useful_columns(ones, zeros, dedupe=apart is None)
    ones, zeros = ones[columns], zeros[columns]
    if apart is None:
        apart = np.zeros((0, 0), dtype=np.bool_)
    else:
        apart = np.ascontiguousarray(apart[np.ix_(columns, columns)])
    by_point = np.ascontiguousarray(values[:, columns].T)
    limit = min(int(values.shape[0]).bit_length() - 1, columns.size)
    total = budget is None and not (by_point == 2).any()
    found = _depth_first(ones, zeros, by_point, apart, limit, _FIRST_STEPS if total else steps)
    if total and not found[2]:
        found = (
            _one_more_point(by_point, apart, limit, found[0])
            if found[0].size >= _DEEP_FROM
            else _depth_first(ones, zeros, by_point, apart, limit, 0)
        )
    chosen, witnesses, done = found
    return Shattering(
        tuple(int(columns[c]) for c in chosen), tuple(int(w) for w in witnesses), bool(done)
    )


def _depth_first(
    ones: Words, zeros: Words, by_point: Values, apart: BoolArray, limit: int, steps: int
) -> tuple[IntArray, IntArray, bool]:
    """Chosen columns, witness rows, and whether the search was finished."""
    cut = min(limit, _BITSET_DEPTH)
    chosen, witnesses, _, done = search_bitsets(ones, zeros, apart, cut, steps)
    if done and chosen.size == cut < limit:
        chosen, witnesses, _, done = search_lists(by_point, apart, limit, steps)
    return chosen, witnesses, bool(done)


def _one_more_point(
    by_point: Values, apart: BoolArray, limit: int, chosen: IntArray
) -> tuple[IntArray, IntArray, bool]:
    """Look for larger and larger shattered sets until there is none."""
    while chosen.size < limit:
        larger = find_shattered(by_point, apart, chosen.size + 1)
        if larger.size == 0:
            break
        chosen = larger
    powers = 1 << np.arange(chosen.size - 1, -1, -1)
    codes, first = np.unique(powers @ by_point[chosen].astype(np.int64), return_index=True)
    assert codes.size == 2**chosen.size
    return chosen, first, True


def as_values(cls: FiniteClass | ArrayLike) -> Values:
    """Return a class or matrix as uint8 with entries 0, 1 and 2 (undefined)."""
    if isinstance(cls, FiniteClass):
        return cls.labels.view(np.uint8)
    values = np.asarray(cls)
    if values.ndim != 2 or values.shape[0] == 0:
        raise InvalidInputError(f"a class needs at least one row, got shape {values.shape}")
    if not np.isin(values, (0, 1, 2)).all():
        raise InvalidInputError("a class must contain only 0, 1, and 2 for undefined")
    return values.astype(np.uint8)


def _conflict_matrix(conflicts: ArrayLike | None, n_points: int) -> BoolArray | None:
    if conflicts is None:
        return None
    matrix = np.asarray(conflicts, dtype=np.bool_)
    if matrix.shape != (n_points, n_points):
        raise InvalidInputError(f"conflicts must have shape ({n_points}, {n_points})")
    if (matrix != matrix.T).any():
        raise InvalidInputError("conflicts must be symmetric")
    return matrix


def _useful_columns(ones: Words, zeros: Words, *, dedupe: bool) -> IntArray:
    """Columns that take both labels, the most balanced first; one of each kind if asked."""
    smaller = np.minimum(popcount(ones), popcount(zeros))
    columns = np.flatnonzero(smaller > 0)
    if dedupe and columns.size:  # a column and its complement shatter the same sets
        flip = (ones[columns, :1] & np.uint64(1)) != 0
        first = np.where(flip, zeros[columns], ones[columns])
        second = np.where(flip, ones[columns], zeros[columns])
        columns = columns[unique_rows(np.hstack([first, second]))[0]]
    ordered: IntArray = columns[np.argsort(-smaller[columns], kind="stable")]
    return ordered
