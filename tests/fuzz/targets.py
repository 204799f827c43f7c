"""Valid calls of every public object, taken from the contract cases, one argument replaceable.

Functions come with their arguments. For a class the arguments of its constructor and of the public
methods that the case calls are recorded while the case runs; a method is then called again in the
same state, with one argument replaced. Estimators are fitted with one parameter replaced, or with
replaced data.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "contracts"))

import contract_discovery as contracts

from .isolation import is_ours

Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Target:
    """A valid call: its arguments, and the call with one of them changed."""

    name: str
    arguments: dict[str, Any] = field(repr=False)
    call: Callable[[str, Change], Any] = field(repr=False)


class Reached(BaseException):
    """The method that was waited for has answered."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


def targets(entry: contracts.Public) -> list[Target]:
    """Return the valid calls of one public object; none where it has no case."""
    if entry.kind in ("function", "bound", "instance"):
        return [_of_function(entry)] if entry.get("args") is not None else []
    if entry.get("make") is None:
        return []
    if entry.kind == "estimator":
        return _of_estimator(entry)
    return _of_class(entry) if entry.kind == "class" else []


def _fresh(value: Any) -> Any:
    with contextlib.suppress(Exception):
        return copy.deepcopy(value)
    return value


def _of_function(entry: contracts.Public) -> Target:
    arguments = contracts.arguments(entry)

    def call(name: str, change: Change) -> Any:
        given = _fresh(arguments)
        given[name] = change(given[name])
        return entry.obj(**given)

    return Target(entry.name, arguments, call)


def _of_estimator(entry: contracts.Public) -> list[Target]:
    X, y, more = contracts.data(entry)
    parameters = contracts.make(entry).get_params(deep=False)

    def with_parameter(name: str, change: Change) -> Any:
        given = {**parameters, name: change(parameters[name])}
        return entry.obj(**given).fit(X, y, **more)

    data = {"X": X, "y": y, **more}

    def fit(name: str, change: Change) -> Any:
        given = _fresh(data)
        given[name] = change(given[name])
        return contracts.make(entry).fit(**given)

    found = [Target(entry.name, parameters, with_parameter), Target(f"{entry.name}.fit", data, fit)]
    fitted = contracts.make(entry).fit(X, y, **more)
    for method in ("predict", "predict_proba", "decision_function", "transform", "score"):
        if hasattr(fitted, method):
            given = {"X": X, "y": y} if method == "score" else {"X": X}
            call = partial(_with_data, getattr(fitted, method), given)
            found.append(Target(f"{entry.name}.{method}", given, call))
    return found


def _with_data(method: Callable[..., Any], data: dict[str, Any], name: str, change: Change) -> Any:
    return method(**{**data, name: change(data[name])})


def _of_class(entry: contracts.Public) -> list[Target]:
    calls: dict[str, inspect.BoundArguments] = {}

    def note(name: str, bound: inspect.BoundArguments) -> None:
        if name == "__init__" and type(next(iter(bound.arguments.values()))) is not entry.obj:
            return
        if name == "__init__" or name not in calls:
            calls[name] = _copied(bound)

    with _listening(entry.obj, note):
        _play(entry)
    found = []
    for name, bound in calls.items():
        arguments = _replaceable(bound)
        if name == "__init__":
            call = partial(_construct, entry, bound)
            found.append(Target(entry.name, arguments, call))
        elif arguments:
            call = partial(_call_method, entry, name)
            found.append(Target(f"{entry.name}.{name}", arguments, call))
    return found


def _play(entry: contracts.Public, made: Any = None) -> Any:
    made = contracts.make(entry) if made is None else made
    return entry.get("run")(made) if entry.get("run") is not None else made


def _copied(bound: inspect.BoundArguments) -> inspect.BoundArguments:
    names = list(bound.arguments)
    values = {name: _fresh(bound.arguments[name]) for name in names[1:]}
    return inspect.BoundArguments(bound.signature, {names[0]: None, **values})  # type: ignore[arg-type]


def _replaceable(bound: inspect.BoundArguments) -> dict[str, Any]:
    kinds = bound.signature.parameters
    various = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        name: value
        for name, value in list(bound.arguments.items())[1:]
        if kinds[name].kind not in various
    }


def _construct(
    entry: contracts.Public, bound: inspect.BoundArguments, name: str, change: Change
) -> Any:
    given = _copied(bound)
    given.arguments[name] = change(given.arguments[name])
    made = entry.obj(*given.args[1:], **given.kwargs)
    return (made, _play(entry, made))


def _call_method(entry: contracts.Public, method: str, name: str, change: Change) -> Any:
    """Play the case until the method is called; call it with the changed argument."""

    def replace(called: str, bound: inspect.BoundArguments) -> None:
        if called == method:
            bound.arguments[name] = change(bound.arguments[name])
            raise _Now(bound)

    try:
        with _listening(entry.obj, replace):
            _play(entry)
    except Reached as reached:
        return reached.result
    return None


class _Now(BaseException):
    def __init__(self, bound: inspect.BoundArguments) -> None:
        super().__init__()
        self.bound = bound


Listener = Callable[[str, inspect.BoundArguments], None]


@contextlib.contextmanager
def _listening(cls: type, listener: Listener) -> Iterator[None]:
    """Let the listener see the calls of the constructor and of public methods from outside."""
    before = dict(vars(cls))
    methods = dict(_methods(cls))
    try:
        for name, method in methods.items():
            setattr(cls, name, _overheard(name, method, listener))
        yield
    finally:
        for name in methods:
            if name in before:
                setattr(cls, name, before[name])
            else:
                delattr(cls, name)


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    seen: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("counterplay"):
            continue
        for name, value in vars(base).items():
            wanted = (not name.startswith("_") or name == "__init__") and name not in seen
            seen.add(name)  # what a subclass has instead of a method hides it
            if wanted and isinstance(value, classmethod | type(_methods)):
                yield name, value


def _overheard(name: str, method: Any, listener: Listener) -> Any:
    function = method.__func__ if isinstance(method, classmethod) else method
    signature = inspect.signature(function)

    def overheard(*args: Any, **kwargs: Any) -> Any:
        inside = name != "__init__" and is_ours(sys._getframe(1).f_code.co_filename)
        if inside:
            return function(*args, **kwargs)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)
        try:
            listener(name, bound)
        except _Now as now:
            raise Reached(function(*now.bound.args, **now.bound.kwargs)) from None
        return function(*args, **kwargs)

    overheard.__wrapped__ = function  # type: ignore[attr-defined]
    return classmethod(overheard) if isinstance(method, classmethod) else overheard
