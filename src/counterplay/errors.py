"""The library's exceptions and warnings, importable from one place."""

from counterplay.core.errors import (
    AssumptionWarning,
    ContradictionError,
    ConvergenceError,
    CounterplayError,
    CounterplayWarning,
    DataUnavailableError,
    InfeasibleError,
    InformationError,
    InvalidInputError,
    MissingDependencyError,
    NotRealizableError,
    OpenProblemError,
    ProtocolError,
    StoreError,
    UnknownNameError,
)

__all__ = [
    "AssumptionWarning",
    "ContradictionError",
    "ConvergenceError",
    "CounterplayError",
    "CounterplayWarning",
    "DataUnavailableError",
    "InfeasibleError",
    "InformationError",
    "InvalidInputError",
    "MissingDependencyError",
    "NotRealizableError",
    "OpenProblemError",
    "ProtocolError",
    "StoreError",
    "UnknownNameError",
]
