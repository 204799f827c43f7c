"""What comes back from outside: JSON text becomes a typed, checked record or one clear sentence.

A saved state, an event log or a stored row may be damaged, edited or somebody else's file. It is
read in three steps, each of which can only end in :class:`InvalidStateError`: size, nesting and
strict JSON (:func:`read_json`); types, ranges and lengths by a frozen :class:`Record`
(:func:`read_record`); shapes and indices of arrays before they reach compiled code
(:func:`float_array`, :func:`index_array`). A state carries the fingerprint of the problem that it
belongs to (:func:`fingerprint`, :func:`check_fingerprint`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_args, get_type_hints

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import InvalidInputError, InvalidStateError

LIMIT = 2**26
"""Most bytes of a saved state; more is refused before it is parsed."""
DEPTH = 40
"""Deepest nesting of lists and objects."""
DIGITS = 19
"""Most digits of an integer; larger ones are stored as text."""
LONGEST = 300
"""Most characters of a message."""

Count = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Fraction = Annotated[float, Meta(ge=0.0, le=1.0)]
Nonnegative = Annotated[float, Meta(ge=0.0)]
Name = Annotated[str, Meta(max_length=1000)]
Word = Annotated[str, Meta(min_length=1, max_length=200)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
Fingerprint = Annotated[dict[Word, Name], Meta(min_length=1, max_length=50)]

R = TypeVar("R", bound=msgspec.Struct)


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of everything that is read from outside: frozen, typed, no unknown fields.

    A record that is a file of its own declares ``kind: Literal["..."]`` and ``version:
    Literal[n]``; :func:`read_record` compares them before anything else.
    """


class PackedArray(Record, frozen=True):
    """A numeric array as base64 text of its little-endian bytes; exact, and short in JSON."""

    dtype: Literal["f8", "i8", "b1"]
    shape: Annotated[tuple[Count, ...], Meta(max_length=4)]
    data: str


def refusal(what: str, where: str, problem: str) -> InvalidStateError:
    """Build the one sentence for something unusable from outside, at most 300 characters.

    Examples
    --------
    >>> str(refusal("the saved session", "answers[3].label", "expected `int` <= 5"))
    'the saved session cannot be used: answers[3].label: expected `int` <= 5'
    """
    place = f"{where}: " if where else ""
    text = " ".join(f"{what} cannot be used: {place}{problem}".split())
    safe = text.encode("utf-8", "backslashreplace").decode()
    return InvalidStateError(safe if len(safe) <= LONGEST else safe[: LONGEST - 4] + " ...")


def require_state(holds: bool | np.bool_, what: str, where: str, problem: str) -> None:
    """Raise :class:`InvalidStateError` unless a relation between the parts of a state holds."""
    if not holds:
        raise refusal(what, where, problem)


def read_json(
    text: str | bytes, *, what: str, limit: int = LIMIT, depth: int = DEPTH, digits: int = DIGITS
) -> Any:
    """Parse strict JSON: limited size and nesting, no duplicate keys, only finite numbers.

    Parameters
    ----------
    text:
        The text, or its UTF-8 bytes.
    what:
        How messages call it, such as ``"the saved session"``.
    limit:
        Most bytes.
    depth:
        Deepest nesting.
    digits:
        Most digits of an integer.

    Raises
    ------
    InvalidStateError
        Whatever is wrong with the text.

    Examples
    --------
    >>> read_json('{"a": [1, 2.5]}', what="the text")
    {'a': [1, 2.5]}
    """
    data = _checked_bytes(text, what, limit)
    if (found := _nesting(data)) > depth:
        raise refusal(what, "", f"it is nested {found} deep, at most {depth} is allowed")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) < len(items):
            keys = [key for key, _ in items]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise refusal(what, "", f"the key {twice[:80]!r} occurs twice")
        return result

    def constant(name: str) -> NoReturn:
        raise refusal(what, "", f"it contains {name}, which is no number")

    def integer(word: str) -> int:
        if len(word.lstrip("-")) > digits:
            raise refusal(what, "", f"an integer has more than {digits} digits: {word[:30]}...")
        return int(word)

    def number(word: str) -> float:
        value = float(word)
        if not math.isfinite(value):
            raise refusal(what, "", f"the number {word[:30]} is too large")
        return value

    try:
        value = json.loads(
            data.decode(),
            object_pairs_hook=pairs,
            parse_constant=constant,
            parse_int=integer,
            parse_float=number,
        )
    except InvalidStateError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise refusal(what, "", f"it is not JSON ({error})") from None
    if _SURROGATE.search(data) and _has_surrogate(value):
        raise refusal(what, "", "a text in it is half of a character pair, not valid Unicode")
    return value


def read_record(
    text: str | bytes,
    kind: type[R],
    *,
    what: str,
    limit: int = LIMIT,
    depth: int = DEPTH,
    digits: int = DIGITS,
) -> R:
    """Parse a text into a record; whatever is wrong is an :class:`InvalidStateError`.

    Parameters
    ----------
    text:
        The text, or its UTF-8 bytes.
    kind:
        The class of the record.
    what:
        How messages call it, such as ``"the saved session"``.
    limit:
        Most bytes.
    depth:
        Deepest nesting.
    digits:
        Most digits of an integer.

    Examples
    --------
    >>> class Point(Record, frozen=True):
    ...     kind: Literal["point"]
    ...     version: Literal[1]
    ...     x: Fraction
    >>> read_record('{"kind": "point", "version": 1, "x": 0.5}', Point, what="the point").x
    0.5
    >>> read_record('{"kind": "point", "version": 1, "x": 2}', Point, what="the point")
    Traceback (most recent call last):
    counterplay.errors.InvalidStateError: the point cannot be used: x: expected `float` <= 1.0
    """
    raw = read_json(text, what=what, limit=limit, depth=depth, digits=digits)
    _check_header(raw, kind, what)
    return to_record(raw, kind, what=what)


def to_record(raw: Any, kind: type[R], *, what: str, where: str = "") -> R:
    """Turn parsed JSON into a record; ``where`` is the place of ``raw`` in something larger."""
    try:
        return msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        place = (where + path.removesuffix("`")).removeprefix(".")
        raise refusal(what, place, problem[:1].lower() + problem[1:]) from None
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise refusal(what, where, str(error)) from None


def write_record(record: Record) -> str:
    """Return the canonical JSON text of a record; NumPy's numbers and texts become Python's."""
    return canonical(msgspec.to_builtins(record, enc_hook=plain_scalar)).decode()


def plain_scalar(value: Any) -> Any:
    """What a NumPy scalar holds, for msgspec, which knows Python's kinds only."""
    if isinstance(value, np.generic):
        return value.item()
    raise InvalidInputError(f"{value!r:.100} cannot be stored")


def canonical(value: Any) -> bytes:
    """Return canonical JSON: sorted keys, no spaces, UTF-8, finite numbers by shortest repr.

    Examples
    --------
    >>> canonical({"b": 1.50, "a": "grün"})
    b'{"a":"gr\\xc3\\xbcn","b":1.5}'
    """
    try:
        return json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        ).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"the value cannot be written as JSON: {error!s:.150}") from None


def fingerprint(parts: Mapping[str, Any]) -> dict[str, str]:
    """Return what identifies a problem: short parts as they are, all others as a BLAKE2b digest.

    Parameters
    ----------
    parts:
        What must be the same for a saved state to go on, by a name that users understand, in the
        order in which differences are to be named. Values are numbers, text, None, arrays, and
        lists or mappings of them.

    Examples
    --------
    >>> fingerprint({"points": 7, "labelings": np.eye(2)})
    {'points': '7', 'labelings': 'c812292695314cad5d777eda31bb2dfa'}
    """
    return {name: _part(value) for name, value in parts.items()}


def check_fingerprint(saved: Mapping[str, str], now: Mapping[str, str], *, what: str) -> None:
    """Refuse a state of another problem; the sentence names the first part that differs.

    Examples
    --------
    >>> check_fingerprint({"points": "7"}, {"points": "8"}, what="the saved session")
    Traceback (most recent call last):
    counterplay.errors.InvalidStateError: the saved session cannot be used: it belongs to another
    problem: points was 7 and is 8 here
    """
    for name, value in now.items():
        before = saved.get(name)
        if before != value:
            told = f"{name} was {before:.40} and is {value:.40} here" if before else f"no {name}"
            if before and len(value) == len(before) == 32:
                told = f"its {name} differ"
            raise refusal(what, "", f"it belongs to another problem: {told}")
    if len(saved) > len(now):
        more = next(name for name in saved if name not in now)
        raise refusal(what, "", f"it belongs to another problem: nothing here has a {more:.40}")


def float_array(
    values: Any,
    where: str,
    *,
    what: str,
    shape: Sequence[int | None],
    low: float = -math.inf,
    high: float = math.inf,
) -> FloatArray:
    """Return finite numbers in [low, high] as a new float64 array of this shape (None: any).

    Examples
    --------
    >>> float_array([[0.5, 1.0]], "losses", what="the log", shape=(None, 2), high=1.0).tolist()
    [[0.5, 1.0]]
    """
    array = _array(values, where, what, shape, np.dtype(np.float64))
    if not np.isfinite(array).all():
        raise refusal(what, where, "all numbers must be finite")
    if ((array < low) | (array > high)).any():
        at = [int(i) for i in np.argwhere((array < low) | (array > high))[0]]
        bad = float(array[tuple(at)])
        raise refusal(what, f"{where}{at}", f"must be in [{low:g}, {high:g}], got {bad:g}")
    return array


def index_array(
    values: Any, where: str, *, what: str, shape: Sequence[int | None], size: int, low: int = 0
) -> IntArray:
    """Return integers in [low, size) as a new int64 array of this shape (None: any)."""
    array = _array(values, where, what, shape, np.dtype(np.int64))
    if ((array < low) | (array >= size)).any():
        at = [int(i) for i in np.argwhere((array < low) | (array >= size))[0]]
        raise refusal(what, f"{where}{at}", f"must be in [{low}, {size}), got {array[tuple(at)]}")
    return array


def pack_array(array: NDArray[Any]) -> PackedArray:
    """Return an array of floats, integers or truth values as a record.

    Examples
    --------
    >>> pack_array(np.array([0.0, 1.0])).data
    'AAAAAAAAAAAAAAAAAADwPw=='
    """
    dtype = {"f": "f8", "i": "i8", "u": "i8", "b": "b1"}.get(array.dtype.kind)
    if dtype is None:
        raise InvalidInputError(f"arrays of {array.dtype} cannot be stored")
    data = np.ascontiguousarray(array, dtype=f"<{dtype}").tobytes()
    text = base64.b64encode(data).decode("ascii")
    return PackedArray(dtype=dtype, shape=array.shape, data=text)  # type: ignore[arg-type]


def pack_generator(rng: np.random.Generator) -> dict[str, Any]:
    """Return the state of a generator with every number as hexadecimal text.

    Examples
    --------
    >>> pack_generator(np.random.default_rng(0))["bit_generator"]
    'PCG64'
    """

    def hexadecimal(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: hexadecimal(item) for key, item in value.items()}
        if isinstance(value, np.ndarray):
            return [format(int(item), "x") for item in value]
        return value if isinstance(value, str) else format(int(value), "x")

    state: dict[str, Any] = hexadecimal(dict(rng.bit_generator.state))
    return state


def read_generator(saved: Any, where: str, *, what: str) -> np.random.Generator:
    """Return the generator that :func:`pack_generator` wrote; every number is checked first.

    Examples
    --------
    >>> rng = np.random.default_rng(3)
    >>> twin = read_generator(pack_generator(rng), "rng", what="the state")
    >>> bool(rng.random() == twin.random())
    True
    """
    name = saved.get("bit_generator") if isinstance(saved, Mapping) else None
    if name not in _BIT_GENERATORS:
        names = ", ".join(_BIT_GENERATORS)
        raise refusal(what, where, f"must be the state of a bit generator, one of {names}")
    bits = getattr(np.random, name)(0)
    bits.state = _numbers_like(bits.state, saved, where, what, "")
    return np.random.Generator(bits)


_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_LARGEST = {"has_uint32": 1, "uinteger": 2**32 - 1, "pos": 624, "buffer_pos": 4}
# the positions index memory, and NumPy does not check them
_STRING = re.compile(rb'"[^"]*"')
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_BRACKETS = np.zeros(256, dtype=np.int8)  # by byte: one level deeper, or back
_BRACKETS[[ord("["), ord("{")]], _BRACKETS[[ord("]"), ord("}")]] = 1, -1
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _checked_bytes(text: str | bytes, what: str, limit: int) -> bytes:
    """The text as UTF-8 bytes of at most ``limit``."""
    if not isinstance(text, str | bytes):
        raise refusal(what, "", f"it must be text, got {type(text).__name__}")
    if len(text) <= limit:
        try:
            data = text.encode("utf-8") if isinstance(text, str) else text
            data.decode("utf-8")
        except UnicodeError:
            raise refusal(what, "", "it is not valid UTF-8") from None
        if len(data) <= limit:
            return data
    raise refusal(what, "", f"it is larger than {limit:,} bytes")


def _nesting(data: bytes) -> int:
    """Deepest level of brackets outside strings; linear in the size whatever the text is."""
    plain = np.frombuffer(_STRING.sub(b"", _ESCAPE.sub(b"", data)), dtype=np.uint8)
    return int(np.cumsum(_BRACKETS[plain], dtype=np.int64).max(initial=0))


def _has_surrogate(value: Any) -> bool:
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, dict):
        return any(map(_has_surrogate, (*value.keys(), *value.values())))
    return isinstance(value, list) and any(map(_has_surrogate, value))


def _check_header(raw: Any, kind: type[msgspec.Struct], what: str) -> None:
    """Compare kind and version first: they explain everything else."""
    hints = get_type_hints(kind)
    if "kind" not in hints:
        return
    (name,), (version,) = get_args(hints["kind"]), get_args(hints["version"])
    if not isinstance(raw, dict):
        raise refusal(what, "", f"expected a JSON object, got {type(raw).__name__}")
    if raw.get("kind") != name:
        raise refusal(what, "kind", f"expected {name!r}, got {raw.get('kind')!r:.60}")
    found = raw.get("version")
    if type(found) is not int or found != version:
        raise refusal(
            what, "version", f"it has format {found!r:.20}, this version reads format {version}"
        )


def _part(value: Any) -> str:
    if isinstance(value, bool | int) or (isinstance(value, str) and len(value) < 32):
        return str(value)[:40]
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest.update, value)
    return digest.hexdigest()


def _feed(add: Callable[[bytes], None], value: Any) -> None:
    """Hand over the bytes of a value so that different values give different bytes."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        width = {"b": "?", "f": "<f8"}.get(value.dtype.kind, "<i8")
        add(f"array{width}{value.shape}".encode())
        add(np.ascontiguousarray(value, dtype=width).tobytes())
    elif isinstance(value, np.ndarray | list | tuple):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        add(b"list%d:" % len(items))
        for item in items:
            _feed(add, item)
    elif isinstance(value, Mapping):
        add(b"map%d:" % len(value))
        for key in sorted(value, key=str):
            _feed(add, str(key))
            _feed(add, value[key])
    elif isinstance(value, float):
        add(b"float" + struct.pack("<d", value))
    else:
        text = str(value).encode("utf-8", "surrogatepass")
        add(f"{type(value).__name__}{len(text)}:".encode() + text)


def _array(
    values: Any, where: str, what: str, shape: Sequence[int | None], dtype: np.dtype[Any]
) -> NDArray[Any]:
    if isinstance(values, PackedArray):
        array = _unpacked(values, where, what)
        same = array.dtype.kind == dtype.kind
    else:
        try:
            array = np.array(values)
        except (ValueError, TypeError, OverflowError):
            raise refusal(what, where, "must be a full table of numbers") from None
        same = array.dtype.kind in ("iuf" if dtype.kind == "f" else "i")
        if array.size == 0 and 0 in (full := [n or 0 for n in shape]):  # [] is any empty table
            return np.empty(full, dtype=dtype)
    if array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape)):
        told = " x ".join("any" if n is None else str(n) for n in shape)
        raise refusal(what, where, f"must have the shape {told or 'of one number'}")
    if not same:
        raise refusal(what, where, f"must hold {'numbers' if dtype.kind == 'f' else 'integers'}")
    return array.astype(dtype)


def _unpacked(packed: PackedArray, where: str, what: str) -> NDArray[Any]:
    dtype = np.dtype(f"<{packed.dtype}")
    try:
        data = base64.b64decode(packed.data.encode("ascii"), validate=True)
    except (ValueError, binascii.Error):
        raise refusal(what, where, "the packed numbers are not base64 text") from None
    if len(data) != math.prod(packed.shape) * dtype.itemsize:
        raise refusal(what, where, "the packed numbers do not have the stated shape")
    if packed.dtype == "b1" and any(byte > 1 for byte in set(data)):
        raise refusal(what, where, "a packed truth value is neither 0 nor 1")
    return np.frombuffer(data, dtype=dtype).reshape(packed.shape)


def _numbers_like(template: Any, saved: Any, where: str, what: str, key: str) -> Any:
    """Numbers from hexadecimal text, in the structure of a fresh generator's state."""
    if isinstance(template, Mapping):
        if not isinstance(saved, Mapping) or saved.keys() != template.keys():
            raise refusal(what, where, f"must have the parts {', '.join(template)}")
        return {
            name: _numbers_like(part, saved[name], f"{where}.{name}", what, name)
            for name, part in template.items()
        }
    if isinstance(template, str):
        return template
    if isinstance(template, np.ndarray):
        if not isinstance(saved, list | tuple) or len(saved) != template.size:
            raise refusal(what, where, f"must be a list of {template.size} numbers")
        top = int(np.iinfo(template.dtype).max)
        numbers = [_hexadecimal(item, where, what, top) for item in saved]
        return np.array(numbers, dtype=template.dtype)
    number = _hexadecimal(saved, where, what, _LARGEST.get(key, 2**128 - 1))
    if key == "inc" and number % 2 == 0:
        raise refusal(what, where, "must be odd")
    return number


def _hexadecimal(saved: Any, where: str, what: str, largest: int) -> int:
    if not isinstance(saved, str) or not re.fullmatch("[0-9a-f]{1,32}", saved):
        raise refusal(what, where, "must be a number as hexadecimal text")
    if (number := int(saved, 16)) > largest:
        raise refusal(what, where, f"must be at most {largest:x} (hexadecimal)")
    return number
