"""What a site tells about its table so that all can code rows alike: columns, sums, common words.

Needed before a federated measurement, where no table of all sites exists. Sums give the mean and
the scale of every column of numbers; a word that few rows hold is not told.
Source: "The private variant", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from msgspec import Meta

from counterplay.contribution.sites.coding import Coding, coded
from counterplay.contribution.sites.reading import MOST_SITES, Sites, check_name, read_sites
from counterplay.core.arguments import checked
from counterplay.core.files import read_limited, write_atomic
from counterplay.core.records import (
    LIMIT,
    Name,
    Record,
    read_record,
    refusal,
    require_state,
    write_record,
)
from counterplay.core.validation import FloatArray, check_int, shorten
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import shown

RARE = 5
"""Words of fewer rows than this are not told, and count as no word."""
Rows = Annotated[int, Meta(ge=1, le=10**9)]
Finite = Annotated[float, Meta(ge=-1e250, le=1e250)]
Square = Annotated[float, Meta(ge=0.0, le=1e300)]
Class = str | int | float | bool
Told = TypeVar("Told", bound=Record)


class NumberColumn(Record, frozen=True):
    """A column of numbers: how many are there, their sum, and their squares around their mean."""

    column: Name
    count: Annotated[int, Meta(ge=0, le=10**9)]
    total: Finite
    spread: Square


class WordColumn(Record, frozen=True):
    """A column of words and the words that enough rows hold."""

    column: Name
    words: Annotated[list[Name], Meta(max_length=2000)]


class SentRecord(Record, frozen=True):
    """What a site sends as a file."""

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return it as JSON, and write it to ``path``."""
        text = write_record(self)
        if path is not None:
            write_atomic(path, text + "\n")
        return text


class SiteDescription(SentRecord, frozen=True):
    """A site's table in sums and words; made by :func:`describe_site`.

    ``to_json(path)`` writes it, ``read_description`` reads it. No row is in it.
    """

    kind: Literal["counterplay site"]
    version: Literal[1]
    site: Name
    owned: Rows
    label: Name
    classes: Annotated[list[Class], Meta(min_length=1, max_length=1000)]
    numbers: Annotated[list[NumberColumn], Meta(max_length=100_000)]
    words: Annotated[list[WordColumn], Meta(max_length=100_000)]


@checked
def describe_site(
    table: Any,
    label: str | None = None,
    *,
    name: str | None = None,
    drop: Sequence[str] = (),
    rare: int = RARE,
) -> SiteDescription:
    """Describe a site's table: column names, sums, words of at least ``rare`` rows, row count.

    Parameters
    ----------
    table
        The site's file, frame or ``(X, y)``.
    label
        Column of the labels, for files and frames.
    name
        Name of the site; the stem of the file if None.
    drop
        Columns to leave out.
    rare
        Fewest rows that must hold a word before it is told. 1 tells all.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": range(30), "ward": ["A"] * 28 + ["B", "B"], "y": [0, 1] * 15})
    >>> found = describe_site(frame, "y", name="north")
    >>> found.owned, [(w.column, w.words) for w in found.words]
    (30, [('ward', ['A'])])
    """
    alone, own = read_alone(table, label, name, drop)
    least = check_int(rare, "rare", low=1)
    coding, numeric, dummies = coded(alone)
    return SiteDescription(
        kind="counterplay site",
        version=1,
        site=own,
        owned=int(alone.sizes[0]),
        label=alone.label or "label",
        classes=plain_classes(alone),
        numbers=[_sums(c, numeric[:, j]) for j, c in enumerate(coding.numbers)],
        words=[
            WordColumn(column=column, words=list(words))
            for column, words in common_words(coding, dummies, least).words
        ],
    )


def given_or_read(value: Any, kind: type[Told], read: Callable[[Any], Told], made_by: str) -> Told:
    """What a site told: the object itself, or read from its file."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str | os.PathLike):
        return read(value)
    raise InvalidInputError(
        f"each must be a file or what {made_by} returns, got {shorten(value, 60)}"
    )


def read_alone(
    table: Any, label: str | None, name: str | None, drop: Sequence[str]
) -> tuple[Sites, str]:
    """One site's table, checked as in a consortium, and the name of the site."""
    if name is None:
        if not isinstance(table, str | Path):
            raise InvalidInputError("say how the site is called: name='...'")
        name = Path(table).stem
    own = check_name(name)
    return read_sites({own: table}, label, drop=drop, least=1), own


def common_words(coding: Coding, dummies: FloatArray, least: int) -> Coding:
    """The coding without words that fewer than ``least`` rows hold."""
    counts, start, kept = dummies.sum(axis=0), 0, []
    for column, words in coding.words:
        own = counts[start : start + len(words)]
        start += len(words)
        kept.append((column, tuple(w for w, n in zip(words, own) if n >= least)))
    return Coding(coding.numbers, tuple(kept))


def plain_classes(sites: Sites) -> list[Class]:
    """The labels as JSON holds them."""
    values = [v.item() if hasattr(v, "item") else v for v in sites.labels.classes]
    return [v if isinstance(v, str | int | float | bool) else str(v) for v in values]


def read_description(path: str | os.PathLike[str]) -> SiteDescription:
    """Read a description; whatever is wrong with it is one sentence."""
    what = Path(path).name[:60]
    found = read_record(read_limited(path, what=what, limit=LIMIT), SiteDescription, what=what)
    try:
        check_name(found.site)
    except InvalidInputError as error:
        raise refusal(what, "site", str(error)) from None
    columns = [n.column for n in found.numbers] + [w.column for w in found.words]
    require_state(len(set(columns)) == len(columns), what, "numbers", "a column occurs twice")
    require_state(len(columns) > 0, what, "numbers", "there is no column to learn from")
    return found


def joint_coding(sites: Sequence[SiteDescription]) -> dict[str, Any]:
    """Label, classes, scales and words of all sites together, as ``plan.json`` holds them."""
    if not 2 <= len(sites) <= MOST_SITES:
        raise InvalidInputError(f"between 2 and {MOST_SITES} descriptions are needed")
    if len({site.site for site in sites}) != len(sites):
        raise InvalidInputError("the names of the sites must be different")
    first = sites[0]
    for site in sites[1:]:
        _same_columns(first, site)
    classes = sorted({(type(v).__name__, v) for site in sites for v in site.classes}, key=str)
    if len(classes) < 2:
        raise InvalidInputError("all sites have one label only: there is nothing to learn")
    words = {w.column: sorted({v for s in sites for o in s.words if o.column == w.column
                               for v in o.words}) for w in first.words}  # fmt: skip
    return {
        "label": first.label,
        "classes": [value for _, value in classes],
        "numbers": [_pooled(n.column, sites) for n in first.numbers],
        "words": [{"column": column, "words": told} for column, told in words.items()],
    }


def _same_columns(first: SiteDescription, other: SiteDescription) -> None:
    """Both have the same columns of the same kind, and the same label."""
    if first.label != other.label:
        raise InvalidInputError(
            f"{other.site[:60]} calls its label {shown(other.label, 40)}, {first.site[:60]} calls "
            f"it {shown(first.label, 40)}"
        )
    for what, own, others in (
        ("numbers", first.numbers, other.numbers),
        ("words", first.words, other.words),
    ):
        odd = {c.column for c in own} ^ {c.column for c in others}
        if odd:
            raise InvalidInputError(
                f"column {shown(sorted(odd)[0], 40)} holds {what} at only one of "
                f"{first.site[:40]} and {other.site[:40]}; drop it everywhere or recode it"
            )


def _sums(column: str, values: FloatArray) -> NumberColumn:
    known = values[np.isfinite(values)]
    centre = float(known.mean()) if len(known) else 0.0
    with np.errstate(over="ignore"):
        spread = float(((known - centre) ** 2).sum())
    if not np.isfinite(spread) or abs(centre) > 1e150:
        raise InvalidInputError(f"column {shown(column, 40)} has numbers too large to be squared")
    return NumberColumn(column=column, count=len(known), total=float(known.sum()), spread=spread)


def _pooled(column: str, sites: Sequence[SiteDescription]) -> dict[str, Any]:
    """Mean and standard deviation of a column over all sites, from their sums."""
    parts = [n for site in sites for n in site.numbers if n.column == column]
    count = max(sum(n.count for n in parts), 1)
    centre = sum(n.total for n in parts) / count
    # squares around the common mean = squares around own means + rows times squared distances
    around = sum(n.spread + n.count * (n.total / max(n.count, 1) - centre) ** 2 for n in parts)
    scale = float(np.sqrt(around / count))
    steady = scale > 1e-12 * max(1.0, abs(centre))
    return {"column": column, "centre": float(centre), "scale": scale if steady else 1.0}
