"""What a table says about itself: guesses with their reasons, for a person to confirm.

Nothing here is used silently. Every guess is written into ``audit.toml`` with ``#?`` and its
reason; what cannot be known is asked for with ``#!``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.outcome import distinct, tidied
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import shown
from counterplay.tables.labels import cast_labels

BAD_WORDS = (
    "default", "bad", "fraud", "spam", "delinq", "dlqin", "dlq", "recid", "churn", "fail", "failed",
    "failure",
)  # fmt: skip
_OUTCOME_WORDS = (
    *BAD_WORDS, "target", "label", "class", "outcome", "result", "approved", "accepted", "risk",
    "performance", "pass", "passed", "survived", "benign", "malignant", "success", "good",
)  # fmt: skip
_PLAIN_NAMES = ("y", "label", "target", "class")
_FIXED_WORDS = (
    "sex", "gender", "race", "ethnic", "birth", "national", "foreign", "native", "marital",
    "marriage",
)  # fmt: skip
_FIXED_TOKENS = ("age", "male", "female", "dob")
_LOW_CODES = (-9, -8, -7, -99, -98, -97, -999, -998, -9999)
_HIGH_CODES = (96, 97, 98, 99, 996, 997, 998, 999, 9996, 9997, 9998, 9999)
_SAMPLE = 20_000
_MOST_COLUMNS = 400


@dataclass(frozen=True)
class Guess:
    """A guess and why."""

    value: Any
    reason: str


@dataclass(frozen=True)
class Guesses:
    """Everything that a table suggests.

    Parameters
    ----------
    label
        Column of the outcome; value None if no column looks like one.
    values
        The outcomes with their numbers of rows.
    positive
        The wanted outcome; None if nothing says it.
    fixed
        Columns that nobody can change.
    ids
        Columns that only name the row.
    texts
        Columns of free text.
    times
        Columns of dates, in the order of the table.
    codes
        Values that mean "no record", per column.
    families
        Columns of one stem with numbers.
    leaks
        Columns that alone give the outcome, with their AUC.
    """

    label: Guess
    values: tuple[tuple[Any, int], ...]
    positive: Guess | None
    fixed: tuple[str, ...]
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    times: tuple[str, ...]
    codes: dict[str, tuple[int, ...]]
    families: tuple[tuple[str, ...], ...]
    leaks: dict[str, float]


def guess_table(frame: pd.DataFrame, label: str | None = None) -> Guesses:
    """Return what a table suggests about its label, roles and codes.

    Parameters
    ----------
    frame
        The table.
    label
        The outcome, if it is known.

    Examples
    --------
    >>> rows = {"age": [30, 41, 25] * 9, "late": [0, 1, 99] * 9, "default": [0, 1, 0] * 9}
    >>> found = guess_table(pd.DataFrame(rows))
    >>> found.label.value, found.positive.value, found.fixed, found.codes
    ('default', 0, ('age',), {'late': (99,)})
    """
    frame = _looked_at(frame)
    part = frame.iloc[:_SAMPLE]
    candidates = label_candidates(frame)
    if label is None and candidates:
        label = candidates[0][0]
    reason = dict(candidates).get(str(label), "")
    if len(candidates) > 1:
        reason += f"; runner-up: {candidates[1][0]}"
    values = _values(frame[label]) if label is not None else ()
    features = [str(c) for c in frame.columns if c != label]
    ids = tuple(c for c in features if _is_id(part[c], c))
    texts = tuple(c for c in features if c not in ids and _is_text(part[c]))
    times = tuple(c for c in features if _is_time(part[c], c))
    rest = [c for c in features if c not in (*ids, *texts, *times)]
    return Guesses(
        label=Guess(label, reason),
        values=values,
        positive=_wanted(str(label), values),
        fixed=tuple(c for c in rest if _is_fixed(c)),
        ids=ids,
        texts=texts,
        times=times,
        codes={c: found for c in rest if (found := _codes(frame[c]))},
        families=_families(rest),
        leaks=find_leaks(part, label, rest, values),
    )


def _looked_at(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns of a very wide table that are looked at; cells that are no values are refused."""
    if frame.shape[1] > _MOST_COLUMNS:
        half = _MOST_COLUMNS // 2
        frame = pd.concat([frame.iloc[:, :half], frame.iloc[:, -half:]], axis=1)
    for name in frame.columns:
        if frame[name].dtype == object:
            try:
                frame[name].nunique()
            except TypeError as error:
                raise InvalidInputError(
                    f"Column {shown(name, 60)} holds cells that are no values: {shown(error, 80)}."
                ) from None
    return frame


def label_candidates(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return columns that may be the outcome, best first, each with the reason."""
    frame = _looked_at(frame)
    scored = []
    last = len(frame.columns) - 1
    for place, column in enumerate(frame.columns):
        score, reasons = _label_score(frame[column], str(column), place, last)
        if score >= 2.5:
            scored.append((-score, place, str(column), ", ".join(reasons)))
    return [(name, reason) for _, _, name, reason in sorted(scored)]


def _label_score(column: pd.Series, name: str, place: int, last: int) -> tuple[float, list[str]]:
    """Score a column as outcome by its values, name and place."""
    count = int(column.nunique(dropna=True))
    score, reasons = 0.0, []
    if count == 2:
        score, reasons = 2.0, ["two values"]
    elif 3 <= count <= 10:
        score, reasons = 1.0, [f"{count} values"]
    elif count > 20:
        score = -3.0
    if _has_word(name, _OUTCOME_WORDS) or name.strip().lower() in _PLAIN_NAMES:
        score += 3.0
        reasons.append("named like an outcome")
    if name.strip().lower() in _PLAIN_NAMES:
        score += 2.0
    if place == last:
        score += 1.5
        reasons.append("last column")
    elif place == 0:
        score += 0.5
        reasons.append("first column")
    if _is_fixed(name):
        score -= 2.0
    return (score if count >= 2 else -9.0), reasons


def _values(column: pd.Series) -> tuple[tuple[Any, int], ...]:
    values, known = cast_labels(column, what="the label")
    tidy = tidied(values[known])
    counts = pd.Series(tidy, dtype=object).value_counts()
    return tuple((value, int(counts[value])) for value in distinct(tidy))[:1000]


def _wanted(label: str, values: tuple[tuple[Any, int], ...]) -> Guess | None:
    """The wanted outcome, only from words: a bad word names the other one."""
    if len(values) != 2:
        return None
    names = [value for value, _ in values]
    for k, value in enumerate(names):
        if isinstance(value, str) and (word := _has_word(value, BAD_WORDS)):
            return Guess(names[1 - k], f'the other value says "{word}"')
    numbers = all(isinstance(value, int | float) for value in names)
    if (
        numbers
        and [float(v) for v in names] == [0.0, 1.0]
        and (word := _has_word(label, BAD_WORDS))
    ):
        return Guess(names[0], f'the label says "{word}", so 1 is what nobody wants')
    return None


def _has_word(name: str, words: tuple[str, ...]) -> str:
    """Return the first of some words with which a part of a name begins; short ones must be all."""
    tokens = _tokens(name)
    return next(
        (w for w in words for t in tokens if (t == w if len(w) <= 5 else t.startswith(w))), ""
    )


def _tokens(name: str) -> list[str]:
    """The words of a name: cut at signs, digits and where a small letter meets a capital."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return [token.lower() for token in re.split(r"[^A-Za-z]+", spaced) if token]


def _is_fixed(name: str) -> bool:
    tokens = _tokens(name)
    return any(t in _FIXED_TOKENS for t in tokens) or any(
        token.startswith(word) for token in tokens for word in _FIXED_WORDS
    )


def _is_id(column: pd.Series, name: str) -> bool:
    tokens = _tokens(name)
    looks = bool(tokens) and bool({"id", "uuid", "key", "number", "nr"} & {tokens[0], tokens[-1]})
    whole = not pd.api.types.is_float_dtype(column)
    return looks and whole and column.nunique() > 0.9 * len(column)


def _is_text(column: pd.Series) -> bool:
    if not (pd.api.types.is_string_dtype(column) or column.dtype == object):
        return False
    known = column.dropna()
    if not len(known) or not all(isinstance(value, str) for value in known.iloc[:200]):
        return False
    return float(known.str.len().mean()) > 25 and known.nunique() > 0.5 * len(known)


def _is_time(column: pd.Series, name: str) -> bool:
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    if pd.api.types.is_numeric_dtype(column) or not {"date", "time", "day"} & set(_tokens(name)):
        return False
    known = column.dropna().astype(str).iloc[:50]
    return len(known) > 0 and bool(known.str.match(r"\d{4}-\d{2}-\d{2}").all())


def _codes(column: pd.Series) -> tuple[int, ...]:
    """Values at an edge that are usual marks for no record, with nothing else on their side."""
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return ()
    numbers = pd.Series(column.dropna().unique()).astype(float)
    numbers = numbers[np.isfinite(numbers)]
    values = set(numbers[numbers == numbers.round()].astype(int))
    low = sorted(v for v in values if v in _LOW_CODES)
    rest = numbers[~numbers.isin(_LOW_CODES)]
    if low and (rest.empty or float(rest.min()) < 0):
        low = []
    high = sorted(v for v in values if v in _HIGH_CODES)
    below = numbers[~numbers.isin(_HIGH_CODES)]
    if high and (below.empty or float(below.max()) > 0.5 * high[0] or len(below) < 2):
        high = []
    return (*low, *high)


def _families(names: list[str]) -> tuple[tuple[str, ...], ...]:
    """Columns of one stem with numbers close together: months, items, readings."""
    stems: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        match = re.fullmatch(r"(.*?[A-Za-z_ .-])(\d{1,3})", name)
        if match:
            stems.setdefault(match.group(1), []).append((int(match.group(2)), name))
    families = []
    for members in stems.values():
        numbers = [number for number, _ in members]
        if len(members) >= 3 and max(numbers) - min(numbers) <= 2 * len(members):
            families.append(tuple(name for _, name in sorted(members)))
    return tuple(families)


def find_leaks(
    frame: pd.DataFrame, label: str | None, names: list[str], values: tuple[tuple[Any, int], ...]
) -> dict[str, float]:
    """Return columns that alone give a two-valued outcome with an AUC over 0.99."""
    if label is None or len(values) != 2:
        return {}
    found, known = cast_labels(frame[label], what="the label")
    tidy = tidied(found[known])
    outcome = np.fromiter((v == values[1][0] for v in tidy), bool, len(tidy))
    if outcome.all() or not outcome.any():
        return {}
    leaks = {}
    for name in names:
        score = single_auc(frame[name].iloc[np.flatnonzero(known)], outcome)
        if score > 0.99:
            leaks[name] = score
    return leaks


def single_auc(column: pd.Series, outcome: Any) -> float:
    """Return how well one column alone orders the outcomes; categories by out-of-half shares."""
    from scipy.stats import rankdata

    if pd.api.types.is_numeric_dtype(column):
        values = column.to_numpy(dtype=float, na_value=np.nan)
        values = np.where(np.isnan(values), np.nanmin(values, initial=0.0) - 1.0, values)
        values = np.clip(values, -1e300, 1e300)
    else:
        if column.nunique() > 0.2 * len(column):
            return 0.5
        half = np.arange(len(column)) % 2 == 0
        keys = column.astype(str).to_numpy()
        values = np.full(len(keys), float(outcome.mean()))
        for one in (half, ~half):
            shares = pd.Series(outcome[one]).groupby(keys[one]).mean()
            values[~one] = pd.Series(keys[~one]).map(shares).fillna(outcome.mean()).to_numpy()
    ranks = rankdata(values)
    good = int(outcome.sum())
    bad = len(outcome) - good
    area = (float(ranks[outcome].sum()) - good * (good + 1) / 2) / (good * bad)
    return max(area, 1.0 - area)
