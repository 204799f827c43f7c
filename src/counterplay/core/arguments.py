"""The wrong kind of object is refused at the public boundary, by the annotations that are there.

``@checked`` on a public function or class reads its annotations once, at the first call, and builds
one small test per argument. A wrong kind raises one sentence; a right one is passed on as it is.
Ranges, shapes and everything else that depends on the meaning stay with the function. Estimators
store their parameters untouched, so they call ``check_parameters(self)`` in ``fit`` instead.
"""

from __future__ import annotations

import functools
import inspect
import math
import typing
from collections.abc import Callable, Collection
from typing import Any, TypeVar, overload

from counterplay.core.annotations import NONE, Kind, Rules, either, kind_of, resolved
from counterplay.core.validation import shorten
from counterplay.errors import InvalidInputError

F = TypeVar("F", bound=Callable[..., Any])
Names = bool | Collection[str]

_LONGEST_MESSAGE = 300
_MARK = "__checked__"


@overload
def checked(target: F, /) -> F: ...


@overload
def checked(*, nonfinite: Names | None = None, arrays: bool = False) -> Callable[[F], F]: ...


def checked(
    target: F | None = None, /, *, nonfinite: Names | None = None, arrays: bool = False
) -> F | Callable[[F], F]:
    """Refuse arguments of the wrong kind when the function is called or the class is made.

    Use it on public functions and on public classes, frozen dataclasses included (there it stands
    above ``@dataclass``). It costs about a microsecond per call; leave it off ``act``, ``observe``
    and everything inside a loop. Defaults are not checked, values are never changed.

    Parameters
    ----------
    target:
        The function or class.
    nonfinite:
        Which ``float`` arguments may be NaN or infinite: True, False or their names. By default
        none of a function, all of a class (results may hold a void number). An argument with a
        default that is not finite may always be so.
    arrays:
        True where arrays must be NumPy arrays already: for results that convert nothing.

    Raises
    ------
    InvalidInputError
        At the call, when an argument is of the wrong kind.

    Examples
    --------
    >>> @checked
    ... def halves(n_agents: int) -> float:
    ...     return n_agents / 2
    >>> halves(7)
    3.5
    >>> halves("seven")
    Traceback (most recent call last):
        ...
    counterplay.errors.InvalidInputError: n_agents must be an integer, got 'seven'
    """
    if target is None:
        return functools.partial(checked_with, nonfinite=nonfinite, arrays=arrays)
    return checked_with(target, nonfinite=nonfinite, arrays=arrays)


def checked_with(target: F, *, nonfinite: Names | None, arrays: bool) -> F:
    """Return the function or class with its check; :func:`checked` is the decorator."""
    if not isinstance(target, type):
        return typing.cast(F, _guarded(target, target, nonfinite or False, arrays))
    original = target.__init__  # type: ignore[misc]
    if original is object.__init__ or hasattr(original, _MARK):  # nothing to check, or done above
        return target
    free = True if nonfinite is None else nonfinite
    target.__init__ = _guarded(original, target, free, arrays)  # type: ignore[misc]
    return target


def check_parameters(estimator: Any, *, nonfinite: Names = False) -> None:
    """Refuse parameters of the wrong kind; call it first in the ``fit`` of an estimator.

    Parameters
    ----------
    estimator:
        A scikit-learn estimator; its ``__init__`` has the annotations.
    nonfinite:
        Which ``float`` parameters may be NaN or infinite: True, False or their names.
    """
    cls: Any = type(estimator)
    free = nonfinite if isinstance(nonfinite, bool) else tuple(nonfinite)
    tests = _parameter_tests(cls, free)
    for name, test in tests.items():
        value = getattr(estimator, name)
        if not test.accepts(value):
            raise InvalidInputError(_sentence(name, test, value))


def _guarded(
    function: Callable[..., Any], owner: Any, nonfinite: Names, arrays: bool
) -> Callable[..., Any]:
    """Wrap ``function``; its tests are built when it is called for the first time."""
    positional: tuple[tuple[str, Kind | None], ...] = ()
    named: dict[str, Kind] | None = None

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        nonlocal positional, named
        if named is None:
            positional, named = _tests_of(function, owner, nonfinite, arrays)
        for (name, test), value in zip(positional, args):
            if test is not None and not test[0](value):
                raise InvalidInputError(_sentence(name, test, value))
        for name, value in kwargs.items():
            test = named.get(name)
            if test is not None and not test[0](value):
                raise InvalidInputError(_sentence(name, test, value))
        return function(*args, **kwargs)

    setattr(guarded, _MARK, True)
    return guarded


def _sentence(name: str, kind: Kind, value: Any) -> str:
    words = kind.words if len(kind.words) <= 160 else f"{kind.words[:157]}..."
    room = _LONGEST_MESSAGE - len(name) - len(words) - 15
    return f"{name} must be {words}, got {shorten(value, min(200, max(room, 20)))}"


@functools.cache
def _parameter_tests(cls: Any, nonfinite: bool | tuple[str, ...]) -> dict[str, Kind]:
    return _tests_of(cls.__init__, cls, nonfinite, False)[1]


def _tests_of(
    function: Callable[..., Any], owner: Any, nonfinite: Names, arrays: bool
) -> tuple[tuple[tuple[str, Kind | None], ...], dict[str, Kind]]:
    """Return the tests by position (``self`` included) and by name."""
    positional: list[tuple[str, Kind | None]] = []
    named: dict[str, Kind] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        free = nonfinite if isinstance(nonfinite, bool) else name in nonfinite
        default = parameter.default
        if isinstance(default, float) and not math.isfinite(default):
            free = True
        annotation = resolved(parameter.annotation, name, function, owner)
        test = kind_of(annotation, Rules(free, arrays))
        if test is not None and default is None and not test.accepts(None):
            test = either([test, NONE])
        if test is not None and parameter.kind is not parameter.POSITIONAL_ONLY:
            named[name] = test
        if parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append((name, test))
    return tuple(positional), named
