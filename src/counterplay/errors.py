"""Exceptions and warnings of the library, one family that users can catch as a whole.

Every message names the offending item and says what to do. Classes for bad input are also
``ValueError``, because that is what users of scikit-learn and NumPy catch.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

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
    "InvalidStateError",
    "MissingDependencyError",
    "NotRealizableError",
    "OpenProblemError",
    "ProtocolError",
    "StoreError",
    "UnknownNameError",
]


class CounterplayError(Exception):
    """Base class of every error raised on purpose by the library."""


class InvalidInputError(CounterplayError, ValueError):
    """An argument has the wrong shape, range or type."""


class InvalidStateError(InvalidInputError):
    """A saved state, an event log or a file is damaged, of another format or of another problem."""


class UnknownNameError(InvalidInputError):
    """A name (study, data set, option) is not known; the message suggests the nearest one."""

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
        """Build the error for ``name``, suggesting the closest of the ``known`` names."""
        options, asked = sorted(known), str(name)[:80]
        near = _nearest(asked, options)
        hint = f"; did you mean {near!r}?" if near is not None else f"; known: {_listed(options)}."
        return cls(f"there is no {kind} named {asked!r}{hint if options else ''}")


def _nearest(asked: str, options: Sequence[str]) -> str | None:
    """Return the option that looks most like ``asked``, else one whose last part it is."""
    folded = {option.casefold(): option for option in reversed(options)}
    word = asked.casefold()
    near = difflib.get_close_matches(word, folded, n=1, cutoff=0.5)
    near += [option for option in folded if word and option.endswith(f"/{word}")][:1]
    return folded[near[0]] if near else None


def _listed(options: Sequence[str], most: int = 20) -> str:
    rest = [f"and {len(options) - most} more"] if len(options) > most else []
    return ", ".join([*options[:most], *rest])


class NotRealizableError(InvalidInputError):
    """The data contradict every hypothesis of the class."""

    def __init__(self, message: str, *, round: int | None = None, item: object = None) -> None:
        super().__init__(message)
        self.round = round
        self.item = item


class ContradictionError(InvalidInputError):
    """Answers contradict each other; ``conflict`` lists a smallest contradicting set."""

    def __init__(self, message: str, *, conflict: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.conflict = tuple(conflict)


class InfeasibleError(InvalidInputError):
    """No object with the requested properties exists."""


class InformationError(CounterplayError, RuntimeError):
    """A learner was run in a setting that reveals less than it needs."""


class OpenProblemError(InformationError, NotImplementedError):
    """No algorithm is known for the setting; the message names the open problem."""


class ProtocolError(CounterplayError, RuntimeError):
    """Calls came in an order that makes no sense, such as ``tell`` before ``ask``."""


class ConvergenceError(CounterplayError, RuntimeError):
    """An iterative solver stopped before reaching its tolerance."""


class MissingDependencyError(CounterplayError, ImportError):
    """An optional package is needed; the message names the extra to install."""

    @classmethod
    def for_extra(cls, package: str, extra: str) -> MissingDependencyError:
        """Build the error for a missing ``package`` provided by ``counterplay[extra]``."""
        return cls(
            f"{package} is not installed; install it with: pip install 'counterplay[{extra}]'"
        )


class DataUnavailableError(CounterplayError, OSError):
    """A data set is neither in the local folder, nor cached, nor downloadable."""


class StoreError(CounterplayError, RuntimeError):
    """A study store is unreadable or was written by a different version of the code."""


class CounterplayWarning(UserWarning):
    """Base class of the library's warnings."""


class AssumptionWarning(CounterplayWarning):
    """A guarantee does not apply because one of its assumptions is violated."""
