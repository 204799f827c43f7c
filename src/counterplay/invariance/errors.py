"""What can be wrong with a group, with labels inside orbits, or with the size of a sample."""

from __future__ import annotations

from collections.abc import Sequence

from counterplay.errors import InvalidInputError


class NotAGroupError(InvalidInputError):
    """A set of transformations is not closed under composition or inverse."""

    def __init__(self, message: str, *, pair: tuple[int, int] | None = None) -> None:
        super().__init__(message)
        self.pair = pair


class IdentityMissingError(InvalidInputError):
    """A set of transformations lacks the identity."""


class InfiniteOrbitError(InvalidInputError):
    """A group has too many elements to list; ask for a sample of its elements instead."""


class ShapeError(InvalidInputError):
    """Data do not have the shape that the transformations act on."""


class DenseRowsError(InvalidInputError, TypeError):
    """Sparse rows were given to what needs all numbers of a row."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"X is sparse; {what} needs dense rows: X.toarray(), or use column permutations"
        )


class ConflictingOrbitLabelsError(InvalidInputError):
    """Points of one orbit carry different labels; ``indices`` lists the rows of such orbits."""

    def __init__(self, message: str, *, indices: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.indices = tuple(indices)


class SampleTooSmallError(InvalidInputError):
    """A guarantee needs more labelled points; ``needed`` says how many."""

    def __init__(self, message: str, *, needed: int = 0) -> None:
        super().__init__(message)
        self.needed = needed
