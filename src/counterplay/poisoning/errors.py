"""What can be wrong with a training set, a poison set or a partition: errors and warnings.

All errors are ``ValueError``.
"""

from __future__ import annotations

from counterplay.errors import (
    AssumptionWarning,
    CounterplayWarning,
    InvalidInputError,
)

__all__ = [
    "BlockFailureWarning",
    "BlocksRefittedWarning",
    "BudgetError",
    "GlobalFeaturesWarning",
    "NotCleanError",
    "NotDeterministicWarning",
    "NumericallyDegenerateError",
    "OutOfDomainError",
    "ProjectionFailed",
    "RowsRejectedWarning",
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


class NumericallyDegenerateError(InvalidInputError):
    """The answer is beyond 64-bit precision."""


class ProjectionFailed(InvalidInputError):
    """No hypothesis of the class agrees with the majority where it must."""


class BlockFailureWarning(CounterplayWarning):
    """Some blocks of a partition could not be fitted; they abstain from the vote."""


class BlocksRefittedWarning(CounterplayWarning):
    """Some blocks of a folder were not as its manifest says; they were fitted again."""


class GlobalFeaturesWarning(AssumptionWarning):
    """Features look as if they were computed from all rows, which no certificate covers."""


class RowsRejectedWarning(CounterplayWarning):
    """Some training rows do not fit the frozen schema or the classes; they were left out."""


class NotDeterministicWarning(AssumptionWarning):
    """Fitting a block twice gave two models, which no certificate covers."""
