"""Annotations as tests: what an argument may be, as a predicate and in words.

Annotations are text in most modules. They are read with the names of the module that wrote them;
names that are imported for type checkers only are looked up in the modules loaded at the call.
What cannot be found is not tested.
"""

from __future__ import annotations

import ast
import builtins
import collections.abc as abc
import dataclasses
import functools
import importlib
import inspect
import math
import numbers
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.seeds import RandomState
from counterplay.core.validation import array_fault, shorten

_LARGEST = 2**1023  # the integers that a float can hold


class Kind(NamedTuple):
    """What an argument may be: a predicate, and the words for it."""

    accepts: Callable[[Any], bool]
    words: str


class Rules(NamedTuple):
    """Whether numbers may be NaN or infinite, and whether arrays must be NumPy arrays."""

    nonfinite: bool
    arrays: bool


def resolved(annotation: Any, name: str, function: Callable[..., Any], owner: Any) -> Any:
    """Return the object an annotation stands for; Any where it cannot be found."""
    if not isinstance(annotation, str):
        return Any if annotation is inspect.Parameter.empty else annotation
    module = getattr(function, "__module__", None)
    if isinstance(owner, type):
        for cls in owner.__mro__:  # a field of a dataclass belongs to the class that declares it
            if dataclasses.is_dataclass(owner) and name in inspect.get_annotations(cls):
                module = cls.__module__
                break
    return _evaluated(annotation, str(module))


def _evaluated(text: str, module: str) -> Any:
    try:
        return _value(ast.parse(text, mode="eval").body, _ModuleNames(module))
    except Exception:  # a name that nobody can find: the argument is not checked
        return Any


def _value(node: ast.AST, names: Mapping[str, Any]) -> Any:
    """Return what the grammar of annotations allows: names, brackets, unions; nothing is called."""
    match node:
        case ast.Name(name):
            return names[name]
        case ast.Constant(value):
            return value
        case ast.Attribute(owner, name):
            return getattr(_value(owner, names), name)
        case ast.Subscript(owner, ast.Tuple([kind, *_])) if _value(owner, names) is Annotated:
            return _value(kind, names)  # what follows is for others and may be a call
        case ast.Subscript(owner, item):
            return _value(owner, names)[_value(item, names)]
        case ast.Tuple(items):
            return tuple(_value(item, names) for item in items)
        case ast.List(items):
            return [_value(item, names) for item in items]
        case ast.BinOp(left, ast.BitOr(), right):
            return _value(left, names) | _value(right, names)
        case ast.UnaryOp(ast.USub(), ast.Constant(value)):
            return -value  # type: ignore[operator]
    raise TypeError(f"not an annotation: {ast.unparse(node)}")


class _ModuleNames(dict[str, Any]):
    """The names of a module, with those it imports only for type checkers."""

    def __init__(self, module: str) -> None:
        super().__init__(vars(sys.modules[module]) if module in sys.modules else {})
        self.module = module

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            return getattr(builtins, name)
        origin = _typing_imports(self.module)[name]
        if origin[0].startswith("counterplay"):
            return functools.reduce(getattr, origin[1:], importlib.import_module(origin[0]))
        return _Late(origin)


@functools.cache
def _typing_imports(module: str) -> dict[str, tuple[str, ...]]:
    """Return where the names under ``if TYPE_CHECKING:`` come from: module, then attributes."""
    found: dict[str, tuple[str, ...]] = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if not isinstance(node, ast.If) or "TYPE_CHECKING" not in ast.unparse(node.test):
            continue
        for line in node.body:
            if isinstance(line, ast.ImportFrom) and line.module and not line.level:
                found |= {a.asname or a.name: (line.module, a.name) for a in line.names}
            elif isinstance(line, ast.Import):
                found |= {a.asname or a.name.split(".")[0]: (a.name,) for a in line.names}
    return found


class _Late:
    """A class of a package that may not be loaded yet; then nothing is an instance of it."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Late((*self.path, name))

    def __getitem__(self, item: Any) -> _Late:
        return self

    def __call__(self) -> None:
        """Callable, so that ``typing`` takes it as a type."""

    def __or__(self, other: Any) -> _Union:
        return _Union((self, other))

    def __ror__(self, other: Any) -> _Union:
        return _Union((other, self))

    def find(self) -> Any:
        """Return the class, or an empty tuple while its module is not loaded."""
        module = sys.modules.get(self.path[0])
        try:
            return () if module is None else functools.reduce(getattr, self.path[1:], module)
        except AttributeError:
            return ()

    def accepts(self, value: Any) -> bool:
        found = self.find()
        return isinstance(value, found) if isinstance(found, type | tuple) else True


class _Union(NamedTuple):
    """A union with a class that may not be loaded yet."""

    parts: tuple[Any, ...]

    def __or__(self, other: Any) -> _Union:
        return _Union((*self.parts, other))

    def __ror__(self, other: Any) -> _Union:
        return _Union((other, *self.parts))


def _is_int(value: Any) -> bool:
    if type(value) is int:
        return -_LARGEST < value < _LARGEST
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    if type(value) is float:
        return True
    if type(value) is int:
        return -_LARGEST < value < _LARGEST
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)


def _is_seed(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, np.random.Generator | np.random.RandomState)
        or (isinstance(value, numbers.Integral) and not isinstance(value, bool))
    )


NONE = Kind(lambda value: value is None, "None")
_INT = Kind(_is_int, "an integer")
_NUMBER = Kind(_is_number, "a number")
_FINITE = Kind(_is_finite, "a finite number")
_TEXT = Kind(lambda value: isinstance(value, str), "text")
_SEED = Kind(_is_seed, "None, an integer or a numpy Generator")
_PLAIN: dict[Any, Kind] = {
    int: _INT,
    numbers.Integral: _INT,
    float: _NUMBER,
    complex: Kind(lambda value: isinstance(value, numbers.Complex), "a complex number"),
    bool: Kind(lambda value: isinstance(value, bool | np.bool_), "True or False"),
    str: _TEXT,
    bytes: Kind(lambda value: isinstance(value, bytes), "bytes"),
    None: NONE,
    type(None): NONE,
}
_ARRAY_LIKE = frozenset(typing.get_args(ArrayLike))
_ARRAY_WORDS = {
    "": ("biufU", "an array"),
    "any": ("biufUSMmOV", "an array"),
    "b": ("biu", "an array of booleans"),
    "i": ("biu", "an array of integers"),
    "u": ("biu", "an array of integers"),
    "f": ("biuf", "an array of numbers"),
}


def kind_of(kind: Any, rules: Rules) -> Kind | None:
    """Return the test of an annotation, None where anything goes."""
    if isinstance(kind, str):
        if kind == RandomState:
            return _SEED
        return kind_of(_evaluated(kind, __name__), rules)
    if kind is ArrayLike:
        return _array_test("", False)
    if kind is float and not rules.nonfinite:
        return _FINITE
    if isinstance(kind, abc.Hashable) and kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, dataclasses.InitVar):
        return kind_of(kind.type, rules)
    if isinstance(kind, _Late):
        return Kind(kind.accepts, _article(kind.path[-1]))
    if isinstance(kind, TypeVar):
        return None if kind.__bound__ is None else kind_of(kind.__bound__, rules)
    origin = typing.get_origin(kind)
    if isinstance(kind, _Union) or origin in (typing.Union, types.UnionType):
        parts = kind.parts if isinstance(kind, _Union) else typing.get_args(kind)
        return _union_test(parts, rules)
    if origin is not None:
        return _generic_test(origin, typing.get_args(kind), rules)
    return _class_test(kind)


def _union_test(parts: tuple[Any, ...], rules: Rules) -> Kind | None:
    kinds: list[Any] = list(parts)
    if set(map(_identity, _ARRAY_LIKE)) <= set(map(_identity, kinds)):  # typing flattens unions
        kinds = [ArrayLike, *(k for k in kinds if _identity(k) not in map(_identity, _ARRAY_LIKE))]
        kinds += [type(None)] if type(None) in parts else []
    tests = [kind_of(part, rules) for part in kinds]
    return None if None in tests else either([test for test in tests if test is not None])


def _identity(kind: Any) -> Any:
    return kind if isinstance(kind, abc.Hashable) else id(kind)


def either(tests: list[Kind]) -> Kind:
    """Return the kind that is one of several."""
    accepts = tuple(test.accepts for test in tests)
    words = list(dict.fromkeys(test.words for test in tests))
    if len(accepts) == 2 and tests[1] is NONE:
        first = accepts[0]
        return Kind(lambda value: value is None or first(value), " or ".join(words))
    return Kind(lambda value: any(one(value) for one in accepts), _joined(words))


def _joined(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _generic_test(origin: Any, args: tuple[Any, ...], rules: Rules) -> Kind | None:
    if origin is Literal:
        return _literal_test(args)
    if origin is typing.Annotated:
        return kind_of(args[0], rules)
    if origin is abc.Callable:
        return Kind(callable, "callable")
    if origin is np.ndarray:
        return _array_test(_scalar_kind(args), rules.arrays)
    if origin is type:
        return Kind(lambda value: isinstance(value, type), "a class")
    if origin is tuple and args and args[-1] is not Ellipsis:
        return _fixed_tuple_test([kind_of(arg, rules) for arg in args])
    if not isinstance(origin, type):
        return None
    inner = [kind_of(arg, rules) for arg in args if arg is not Ellipsis]
    if issubclass(origin, abc.Mapping):
        return _mapping_test(inner)
    if issubclass(origin, abc.Set):
        return _items_test(lambda value: isinstance(value, abc.Set), "a set", inner)
    if issubclass(origin, abc.Sequence):
        return _items_test(_is_sequence, "a list", inner)
    if origin in (abc.Iterable, abc.Collection, abc.Iterator, abc.Generator):
        return _items_test(_is_iterable, "a list", inner)
    return _class_test(origin)


def _literal_test(choices: tuple[Any, ...]) -> Kind:
    def accepts(value: Any) -> bool:
        if isinstance(value, str):
            return value in choices
        if isinstance(value, numbers.Integral) and not isinstance(value, bool):
            return any(type(choice) is int and choice == value for choice in choices)
        return any(type(choice) is type(value) and choice == value for choice in choices)

    return Kind(accepts, _joined([shorten(choice) for choice in choices]))


def _scalar_kind(args: tuple[Any, ...]) -> str:
    """Return the NumPy kind of ``NDArray[scalar]``, "any" if it is left open."""
    scalar = typing.get_args(args[1])[0] if len(args) > 1 and typing.get_args(args[1]) else None
    scalar = typing.get_origin(scalar) or scalar
    if isinstance(scalar, type) and issubclass(scalar, np.generic) and scalar is not np.generic:
        for base, kind in ((np.bool_, "b"), (np.integer, "i"), (np.floating, "f")):
            if issubclass(scalar, base):
                return kind
    return "any"


def _array_test(kind: str, strict: bool) -> Kind:
    kinds, words = _ARRAY_WORDS[kind]
    if strict:
        words = words.replace("an array", "a NumPy array")
        return Kind(lambda v: isinstance(v, np.ndarray) and v.dtype.kind in kinds, words)
    return Kind(lambda value: not array_fault(value, kinds=kinds), words)


def _is_sequence(value: Any) -> bool:
    if isinstance(value, list | tuple | range):
        return True
    if isinstance(value, str | bytes | bytearray | abc.Mapping | abc.Set | type):
        return False
    if hasattr(value, "tocsr"):  # a sparse matrix has no length
        return False
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and _has_axes(value)


def _has_axes(value: Any) -> bool:
    return getattr(value, "ndim", 1) >= 1


def _is_iterable(value: Any) -> bool:
    if isinstance(value, str | bytes | bytearray | type):
        return False
    return hasattr(value, "__iter__") and _has_axes(value)


def _items_test(whole: Callable[[Any], bool], name: str, inner: list[Kind | None]) -> Kind:
    test = inner[0] if inner else None
    if test is None:
        return Kind(whole, name)
    item = test.accepts

    def accepts(value: Any) -> bool:
        if not whole(value):
            return False
        if isinstance(value, abc.Iterator):  # looking at it would use it up
            return True
        return all(map(item, _items(value)))

    return Kind(accepts, f"{name} of items that are each {test.words}")


def _items(value: Any) -> Iterator[Any]:
    """Iterate over the items; one representative of an array of numbers."""
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biuU":
        return iter(value[:1].tolist())
    return iter(value)


def _fixed_tuple_test(inner: list[Kind | None]) -> Kind:
    def accepts(value: Any) -> bool:
        return (
            _is_sequence(value)
            and not hasattr(value, "tocsr")  # a sparse matrix has no length
            and len(value) == len(inner)
            and all(test is None or test.accepts(item) for test, item in zip(inner, value))
        )

    words = ", ".join("anything" if test is None else test.words for test in inner)
    return Kind(accepts, f"{len(inner)} items ({words})")


def _mapping_test(inner: list[Kind | None]) -> Kind:
    key, item = inner if len(inner) == 2 else (None, None)

    def accepts(value: Any) -> bool:
        return (
            isinstance(value, Mapping)
            and (key is None or all(map(key.accepts, value.keys())))
            and (item is None or all(map(item.accepts, value.values())))
        )

    return Kind(
        accepts, "a mapping" if item is None else f"a mapping to items that are each {item.words}"
    )


def _class_test(kind: Any) -> Kind | None:
    if kind is Any or kind is object or not isinstance(kind, type):
        return None
    if kind is np.ndarray:
        return _array_test("any", False)
    if getattr(kind, "_is_protocol", False):
        return _protocol_test(kind)
    if issubclass(kind, abc.Sequence) and kind.__module__ in ("builtins", "collections.abc"):
        return Kind(_is_sequence, "a list")
    if kind in (abc.Iterable, abc.Collection):
        return Kind(_is_iterable, "a list")
    if kind is abc.Callable:
        return Kind(callable, "callable")
    return Kind(lambda value: isinstance(value, kind), _article(kind.__name__))


def _protocol_test(kind: type) -> Kind:
    """Kind for the members that the protocol names."""
    members: set[str] = set()
    for base in kind.__mro__:
        if getattr(base, "_is_protocol", False) and base is not typing.Protocol:
            members |= set(inspect.get_annotations(base))
            members |= {n for n, v in vars(base).items() if callable(v) or isinstance(v, property)}
    wanted = sorted(n for n in members if not n.startswith("_") or n in ("__call__", "__len__"))

    def accepts(value: Any) -> bool:
        return not isinstance(value, type) and all(hasattr(value, name) for name in wanted)

    shown = ", ".join(wanted)
    return Kind(accepts, f"{_article(kind.__name__)} (an object with {shown})")


def _article(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOUaeio' else 'a'} {name}"
