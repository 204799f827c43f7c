"""The text of ``audit.toml`` as ``init`` writes it: guesses marked, costs left to the user.

Names and values come from a stranger's table. Inside quotes they are escaped, inside comments every
sign that could end the line is replaced, so no column name can add a setting.
"""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from counterplay.auditing.guess import Guess, Guesses

_MOST_MOVABLE = 60


def config_text(frame: pd.DataFrame, guesses: Guesses) -> str:
    """Return the config that a user confirms line by line.

    Examples
    --------
    >>> from counterplay.auditing.guess import guess_table
    >>> frame = pd.DataFrame({"a": [1, 2] * 60, "class": [1, 2] * 60})
    >>> text = config_text(frame, guess_table(frame))
    >>> [line[:16] for line in text.splitlines() if line.startswith(("label", "positive"))]
    ['label = "class" ', 'positive = "?"  ']
    """
    lines = [
        "# What an audit needs to know about this table.",
        "# #? marks a guess with its reason, #! what only you can say.",
        "version = 1",
        _line("confirmed = false", '# set to true when you have read every line with "#?"'),
        *_data(guesses),
        *_columns(guesses),
        *_families(guesses),
        *_movable(frame, guesses),
        *_tail(),
    ]
    return "\n".join(lines) + "\n"


def quoted(value: Any) -> str:
    """Return a value as TOML: a text as a basic string on one line.

    Examples
    --------
    >>> quoted('a"b' + chr(10) + 'c'), quoted(3), quoted(True)
    ('"a\\\\"b\\\\u000ac"', '3', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    safe = str(value).encode("utf-8", "replace").decode()
    signs = []
    for sign in safe:
        if sign in '"\\':
            signs.append("\\" + sign)
        elif not sign.isprintable():
            code = ord(sign)
            signs.append(f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")
        else:
            signs.append(sign)
    return '"' + "".join(signs) + '"'


def comment(text: str) -> str:
    """Return text that stays inside a comment: one line of printable signs."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)[:300]


def _line(setting: str, note: str) -> str:
    return f"{setting:<32} {comment(note)}" if note else setting


def _names(names: Any) -> str:
    return "[" + ", ".join(quoted(name) for name in names) + "]"


def _data(guesses: Guesses) -> list[str]:
    label, positive = guesses.label, guesses.positive
    lines = ["", "[data]"]
    if label.value is None:
        lines.append(_line('label = "?"', "#! must be set by you: no column looks like an outcome"))
    else:
        lines.append(_line(f"label = {quoted(label.value)}", f"#? {label.reason}"))
    lines.append(_positive(guesses, positive))
    lines.append(_line('rows = "unknown"', "# heldout | training | unknown (then it is tested)"))
    codes, note = _codes(guesses)
    lines.append(_line(f"special_codes = {codes}", note))
    return lines


def _positive(guesses: Guesses, positive: Guess | None) -> str:
    if positive is not None:
        return _line(f"positive = {quoted(positive.value)}", f"#? {positive.reason}")
    if not guesses.values:
        return _line('positive = "?"', "#! must be set by you: the outcome that people want")
    told = " and ".join(f"{value} ({count:,} rows)" for value, count in guesses.values[:4])
    if len(guesses.values) > 2:
        more = ", ..." if len(guesses.values) > 4 else ""
        return _line(
            'positive = "?"',
            f"#! must be set by you: {len(guesses.values)} values ({told}{more}); list the wanted "
            "ones: [...]",
        )
    return _line(
        'positive = "?"',
        f"#! must be set by you: values are {told}, nothing says which one people want",
    )


def _codes(guesses: Guesses) -> tuple[str, str]:
    example = '# e.g. {"*" = [-9, -8, -7]}: these values are "no record", not quantities'
    if not guesses.codes:
        return "{}", example
    every = sorted({code for found in guesses.codes.values() for code in found})
    alike = len(guesses.codes) >= 3 and all(
        set(found) <= set(every) and (min(every) < 0) == (min(found) < 0)
        for found in guesses.codes.values()
    )
    if alike and len(every) <= 3:
        text = '{"*" = [' + ", ".join(map(str, every)) + "]}"
        return text, f"#? at the edge of {len(guesses.codes)} columns, nothing else beyond"
    items = (f"{quoted(n)} = [{', '.join(map(str, c))}]" for n, c in guesses.codes.items())
    return "{" + ", ".join(items) + "}", "#? at the edge, far from all other values"


def _columns(guesses: Guesses) -> list[str]:
    lines = ["", "[columns]"]
    lines.append(
        "# every column has one role: fixed (default), movable, id, source, group, time, text, "
        "ignore"
    )
    lines.append(_line(f"fixed = {_names(guesses.fixed)}", "#? by name" if guesses.fixed else ""))
    if guesses.ids:
        lines.append(_line(f"id = {_names(guesses.ids)}", "#? named like an id, all different"))
    if guesses.texts:
        lines.append(_line(f"text = {_names(guesses.texts)}", "#? long, mostly different"))
    for name in guesses.times[:3]:
        lines.append(_line(f"# time = {quoted(name)}", "# a date: set it if rows have an order"))
    lines.append(_line("group = []", "# shown per group; groups need at least 30 rows"))
    for name, area in list(guesses.leaks.items())[:10]:
        lines.append(
            comment(
                f"#? {name} alone gives the outcome (AUC {area:.3f}): if it is not known before "
                "the decision, leave it out of the model"
            )
        )
    return lines


def _families(guesses: Guesses) -> list[str]:
    if not guesses.families:
        return []
    told = ", ".join(f"{f[0]} .. {f[-1]} ({len(f)})" for f in guesses.families)
    listed = ", ".join(_names(family) for family in guesses.families)
    return [
        "",
        "[symmetry]",
        comment(f"# numbered columns: {told}"),
        _line(f"families = [{listed}]", "#? confirm that they may be swapped together"),
    ]


def _movable(frame: pd.DataFrame, guesses: Guesses) -> list[str]:
    """One commented table per column that somebody might change."""
    taken = {guesses.label.value, *guesses.fixed, *guesses.ids, *guesses.texts, *guesses.times}
    names = [str(name) for name in frame.columns if name not in taken]
    lines = [
        "",
        "# What can people change, and at what price? Nobody can guess that: fill in or delete.",
        "# Without a [movable] table and budgets the section on gaming says what it needs.",
    ]
    for name in names[:_MOST_MOVABLE]:
        lines += _template(name, frame[name])
    if len(names) > _MOST_MOVABLE:
        lines.append(f"# ... and {len(names) - _MOST_MOVABLE} more columns")
    return lines


def _template(name: str, column: pd.Series) -> list[str]:
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", name)
    head = f"# [movable.{name if bare else quoted(name)}]"
    if pd.api.types.is_numeric_dtype(column) and column.nunique() > 2:
        step = _step(column)
        return [
            head,
            _line('# direction = "down"', '# or "up", "both"'),
            _line(f"# step = {step}", "# one move, in the column's own unit"),
            _line("# cost = 1.0", "# price of one step, in effort units"),
            '# per = "step"',
        ]
    values = column.dropna().unique()[:2].tolist()
    if len(values) < 2:
        return []
    one, two = (quoted(str(value)) for value in values)
    return [head, _line(f"# switch = {{{one} = {{{two} = 1.0}}}}", "# from, to, price")]


def _step(column: pd.Series) -> str:
    """The usual distance between neighbouring values, with one digit."""
    values = pd.Series(column.dropna().astype(float).unique()).sort_values()
    gaps = values.diff().dropna()
    step = float(gaps.median()) if len(gaps) else 1.0
    if not 1e-9 < step < 1e15:  # also where a value is infinite
        step = 1.0
    text = f"{step:.1g}"
    return str(int(float(text))) if float(text) >= 1 else repr(float(text))


def _tail() -> list[str]:
    return [
        "",
        "[effort]",
        _line('unit = "days of work"', "# what one unit of cost is"),
        _line("# budgets = [0.5, 1, 2]", "# what a person may spend; the middle is the headline"),
        _line('share_gaming = "unknown"', "# or 0.3: the share of people who would do it"),
        _line("fit = false", "# true: compare a linear rule fitted for people who move"),
        "",
        _line("# [costs]", "# without it every error counts the same"),
        _line("# false_accept = 5", "# a number or a column name"),
        "# false_reject = 1",
        '# unit = "euro"',
        "",
        "[planted]",
        _line("rows = [1, 5, 10]", "# how many rows somebody might plant"),
        "",
        "[run]",
        'time = "5m"',
        "seed = 0",
        "",
        "[gates]",
        _line("require = []", '# e.g. ["gamed_money at budget=1 <= 900"]: money, not accuracy'),
    ]
