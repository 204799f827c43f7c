"""What can be wrong with a training set, a poison set or a partition; all are ``ValueError``."""

from __future__ import annotations

from counterplay.errors import InvalidInputError, NotRealizableError

__all__ = [
    "BudgetError",
    "MarginViolationError",
    "NotCleanError",
    "NotRealizableError",
    "NumericallyDegenerateError",
    "OutOfDomainError",
    "ProjectionFailed",
    "TooFewSamplesError",
]


class OutOfDomainError(InvalidInputError):
    """A point lies outside the instance space of the learner."""


class NotCleanError(InvalidInputError):
    """A poison row contradicts the target; ``row`` and both labels are in the message."""

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class BudgetError(InvalidInputError):
    """A poison set has more rows than the budget allows."""


class TooFewSamplesError(InvalidInputError):
    """There are fewer rows than blocks."""


class MarginViolationError(InvalidInputError):
    """Both labels occur in one cell of a cover: the margin is smaller than claimed."""


class NumericallyDegenerateError(InvalidInputError):
    """The arc of consistent directions is too thin for 64-bit numbers."""


class ProjectionFailed(InvalidInputError):
    """No hypothesis of the class agrees with the majority where it must."""
