"""The log of a campaign: one line of JSON per event; the log is the state.

The first line says what was begun. Answers, skips, retractions and comings and goings make the
state; questions, frozen vectors and certificates are written for people and checked when the log is
read again.
Source: docs/theory/24-campaign.md, "The log".
"""

from __future__ import annotations

import hashlib
import importlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

import counterplay
from counterplay.core.records import (
    LIMIT,
    Count,
    Digest,
    Fraction,
    Name,
    Positive,
    Record,
    Word,
    canonical,
    plain_scalar,
    read_json,
    refusal,
    require_state,
    to_record,
)
from counterplay.core.validation import IntArray
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.labeling.solo import TestFirstSolo
from counterplay.tables import Schema, Table, fingerprint
from counterplay.tables.encoding import encode_rows, row_digests

WHAT = "the log"
LARGEST = 2**28
MOST_MARKS = 20_000
"""Rows for which the log keeps a mark each, so that a difference can be named."""
_LEARNERS = {
    "LogisticRegression": "sklearn.linear_model",
    "SGDClassifier": "sklearn.linear_model",
    "RidgeClassifier": "sklearn.linear_model",
    "GaussianNB": "sklearn.naive_bayes",
    "BernoulliNB": "sklearn.naive_bayes",
    "KNeighborsClassifier": "sklearn.neighbors",
    "DecisionTreeClassifier": "sklearn.tree",
    "RandomForestClassifier": "sklearn.ensemble",
    "ExtraTreesClassifier": "sklearn.ensemble",
    "HistGradientBoostingClassifier": "sklearn.ensemble",
    "SVC": "sklearn.svm",
}
Label = str | int | float | bool
Many = Meta(max_length=10_000_000)
Half = Annotated[float, Meta(ge=0.0, lt=0.5)]
Open = Annotated[float, Meta(gt=0.0, lt=1.0)]


class Pool(Record, frozen=True):
    """What identifies the rows: number, columns, order, and a short mark of each."""

    rows: Positive
    columns: tuple[Name, ...]
    contents: Digest
    ordered: Digest
    marks: str = ""


class Learner(Record, frozen=True):
    """How the learner is made again: by its name and parameters, or by the user."""

    name: Name
    parameters: dict[str, str | int | float | bool | None] | None = None


class Settings(Record, frozen=True):
    """What was agreed at the start."""

    max_error: Open
    confidence: Open
    scope: Literal["party", "union"]
    noise: Half
    first_to: Annotated[int, Meta(ge=1, le=20)]
    free: Literal["own", "any"]
    stake: Count
    batch: Positive
    committee: Annotated[int, Meta(ge=0, le=10_000)]
    learner: Learner
    solo: Learner


class Source(Record, frozen=True):
    """Which file and columns the pool was read from, for the command line."""

    file: Name
    owner: Name
    id: Name | None = None
    features: tuple[Name, ...] = ()
    text: Name | None = None


class Start(Record, frozen=True, tag_field="type", tag="start"):
    """First line: the pool, the parties, the rules, the secret seed."""

    v: Literal[1]
    fingerprint: Pool
    n: Positive
    parties: Annotated[dict[Word, Annotated[tuple[Count, ...], Many]], Meta(max_length=10_000)]
    classes: Annotated[tuple[Label, ...], Meta(min_length=2, max_length=255)]
    settings: Settings
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    commit: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    known: Annotated[dict[str, Count], Meta(max_length=10_000_000)]
    library: Name
    owners: Digest
    versions: Annotated[dict[Word, Name], Meta(max_length=100)]
    source: Source | None = None


class Ask(Record, frozen=True, tag_field="type", tag="ask"):
    """A question was handed out; ``passed`` and ``ahead`` are the account at that time."""

    id: Word
    party: Name
    item: Count
    kind: Literal["learn", "audit"]
    repeat: Count
    core: bool
    passed: Count
    ahead: Count


class Tell(Record, frozen=True, tag_field="type", tag="tell"):
    """Somebody gave a label, as its position in the classes."""

    id: Word
    label: Count
    labeler: Name | None = None


class Skip(Record, frozen=True, tag_field="type", tag="skip"):
    """Somebody did not know."""

    id: Word
    labeler: Name | None = None


class Retract(Record, frozen=True, tag_field="type", tag="retract"):
    """An answer was taken back."""

    id: Word
    blind: bool = True


class Expire(Record, frozen=True, tag_field="type", tag="expire"):
    """A question was taken from a labeler who did not answer."""

    id: Word


class Withdraw(Record, frozen=True, tag_field="type", tag="withdraw"):
    """An item was taken out of all pools."""

    item: Count
    reason: Name


class Add(Record, frozen=True, tag_field="type", tag="add"):
    """New rows came to a party; ``joins`` if it is new itself."""

    party: Word
    rows: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=10_000_000)]
    fingerprint: Pool
    joins: bool = False


class Leave(Record, frozen=True, tag_field="type", tag="party"):
    """A party left."""

    party: Name
    forget: bool


class LaunchLine(Record, frozen=True, tag_field="type", tag="launch"):
    """Labels were frozen for a test: population in audit order, size of the pool."""

    vector: Count
    scope: Name
    items: Annotated[tuple[Count, ...], Many]
    labels: Annotated[tuple[Count, ...], Many]
    n: Count
    alpha: Fraction


class CertifyLine(Record, frozen=True, tag_field="type", tag="certify"):
    """A vector was certified; ``vector`` is None for a party's own certificate."""

    vector: Count | None
    scope: Name
    checked: Count
    wrong: Count
    known_wrong: Count
    bound: Fraction


Deed: TypeAlias = Tell | Skip | Retract | Expire | Withdraw | Add | Leave
Derived: TypeAlias = Ask | LaunchLine | CertifyLine
Line: TypeAlias = Deed | Derived
_LINES: dict[Any, type[Line]] = {
    kind.__struct_config__.tag: kind
    for kind in (Tell, Skip, Retract, Expire, Withdraw, Add, Leave, Ask, LaunchLine, CertifyLine)
}


def read_log(text: str | bytes) -> tuple[Start, list[Line], int]:
    """Parse a log; return its first line, the others, and how many bytes of it are whole.

    A last line without an end is what a crash leaves: it is dropped with a warning.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    require_state(len(data) <= LARGEST, WHAT, "", f"it is larger than {LARGEST:,} bytes")
    lines = data.split(b"\n")
    half = lines.pop()
    if half:
        warnings.warn(
            f"the last line of the log is not complete and was dropped: {half[:60]!r}",
            AssumptionWarning,
            stacklevel=3,
        )
    require_state(bool(lines), WHAT, "line 1", "it is empty")
    start = read_start(lines[0])
    found: list[Line] = []
    for number, line in enumerate(lines[1:], start=2):
        place = f"{WHAT}, line {number}"
        raw = read_json(line, what=place, limit=LIMIT)
        tag = raw.get("type") if isinstance(raw, dict) else None
        kind = _LINES.get(tag) if isinstance(tag, str) else None
        if kind is None:
            raise refusal(WHAT, f"line {number}", f"there is no event {str(tag)[:40]!r}")
        found.append(to_record(raw, kind, what=place))
    for name, now in {"counterplay": counterplay.__version__, **versions()}.items():
        then = start.library if name == "counterplay" else start.versions.get(name, "none")
        if then != now:
            warnings.warn(
                f"the log was written with {name} {then[:20]}, this is {now}: the questions may "
                "differ",
                AssumptionWarning,
                stacklevel=3,
            )
    return start, found, len(data) - len(half)


def read_start(data: bytes) -> Start:
    """The first line of a log."""
    first = data.split(b"\n", 1)[0]
    raw = read_json(first, what=f"{WHAT}, line 1", limit=LIMIT)
    return to_record(_typed(raw, "start", 1), Start, what=f"{WHAT}, line 1")


def _typed(raw: Any, kind: str, number: int) -> Any:
    if not isinstance(raw, dict) or raw.get("type") != kind:
        raise refusal(WHAT, f"line {number}", f"it must be the {kind} of a campaign")
    return raw


def versions() -> dict[str, str]:
    """What the questions depend on besides this library."""
    import scipy
    import sklearn

    return {
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "scipy": scipy.__version__,
    }


def owners_mark(parties: Mapping[str, Sequence[int]]) -> str:
    """Digest of who owns which rows."""
    plain = [[name, list(map(int, rows))] for name, rows in parties.items()]
    return hashlib.sha256(canonical(plain)).hexdigest()[:32]


def pool_mark(table: Table) -> Pool:
    """What identifies a pool: the fingerprint of the table, and marks of its rows."""
    schema = Schema.infer(table.rows)
    mark = fingerprint(table.rows, schema=schema)
    marks = ""
    if len(table) <= MOST_MARKS:
        digests = row_digests(encode_rows(schema.cast(table.rows)))
        marks = "".join(digest[:2].tobytes().hex() for digest in digests)
    return Pool(
        rows=mark.rows, columns=mark.columns, contents=mark.contents, ordered=mark.ordered,
        marks=marks,
    )  # fmt: skip


def check_pool(saved: Pool, table: Table) -> None:
    """Refuse the log of another pool; the sentence names the first difference."""
    now = pool_mark(table)
    if saved == now:
        return
    if saved.rows != now.rows:
        told = f"this log belongs to a pool of {saved.rows} rows, here are {now.rows}"
    elif saved.columns != now.columns:
        odd = sorted(set(saved.columns) ^ set(now.columns))
        told = f"this log belongs to a pool with other columns: {str(odd[:1])[1:-1]:.60}"
    else:
        pairs = zip(range(0, len(saved.marks), 4), range(saved.rows))
        row = next((k for i, k in pairs if saved.marks[i : i + 4] != now.marks[i : i + 4]), None)
        where = "a row" if row is None else f"row {row}"
        told = f"this log belongs to another pool: {where} differs (or the order of the rows)"
    raise refusal(WHAT, "", told)


def describe(estimator: Any, default: bool) -> Learner:
    """How to name a learner or a solo protocol in the log."""
    if default:
        return Learner(name="default")
    if isinstance(estimator, TestFirstSolo):
        values = {name: _plain(value) for name, value in vars(estimator).items()}
        return Learner(name="TestFirstSolo", parameters=values)
    name = type(estimator).__name__
    if isinstance(estimator, dict | list | tuple) or name not in _LEARNERS:
        return Learner(name=repr(estimator)[:200])
    parameters = {name: _plain(value) for name, value in estimator.get_params().items()}
    plain = all(v is None or isinstance(v, str | int | float | bool) for v in parameters.values())
    return Learner(name=name, parameters=parameters if plain else None)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def rebuild(saved: Learner, given: Any, what: str) -> Any:
    """The learner or solo protocol of a log; what cannot be named must be given again."""
    if given is not None or saved.name == "default":
        return given
    if saved.name == "TestFirstSolo" and saved.parameters is not None:
        try:
            return TestFirstSolo(**saved.parameters)  # type: ignore[arg-type]
        except (TypeError, InvalidInputError):
            raise refusal(WHAT, f"settings.{what}", "unknown parameters") from None
    if saved.name in _LEARNERS and saved.parameters is not None:
        kind = getattr(importlib.import_module(_LEARNERS[saved.name]), saved.name)
        try:
            return kind(**saved.parameters)
        except TypeError:
            raise refusal(WHAT, f"settings.{what}", "unknown parameters") from None
    raise InvalidInputError(f"the log was made with {what}={saved.name}; pass it again: {what}=...")


def line_text(record: Record) -> str:
    """One line of the log."""
    return msgspec.json.encode(record, enc_hook=plain_scalar).decode() + "\n"


def readable_line(record: Record) -> str:
    """One line of the log from what a user gave; what could not be read again is refused."""
    try:
        text = line_text(record)
        to_record(read_json(text, what=WHAT), type(record), what=WHAT)
    except InvalidInputError as error:
        problem = str(error).removeprefix(f"{WHAT} cannot be used: ")
        raise InvalidInputError(f"the log of the campaign cannot hold this: {problem}") from None
    except (TypeError, ValueError) as error:
        told = f"the log of the campaign cannot hold this: {error!s:.150}"
        raise InvalidInputError(told) from None
    return text


def positions(rows: Any, size: int, where: str) -> IntArray:
    """Rows of a party as an array in range."""
    array = np.unique(np.asarray(rows, dtype=np.int64))
    fits = len(array) == len(rows) and (not len(array) or array[-1] < size)
    require_state(fits, WHAT, where, f"rows must be different and below {size}")
    return array
