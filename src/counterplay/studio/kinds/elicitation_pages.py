"""What a participant sees, as plain values: the question, the result, the reasons.

Everything follows from the events and the frozen configuration; the pages only write it down.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from counterplay.core import export_bodies as lines
from counterplay.studio.kinds.elicitation import KIND, UNDECIDED, Sitting
from counterplay.studio.kinds.elicitation_engine import TYPICAL
from counterplay.studio.web.texts import Language

_DIGITS = 6
_SECONDS = 15
"""A question takes a person about so long."""


def announced(config: dict[str, Any]) -> tuple[int, int]:
    """Return about how many questions there will be, and how many minutes they take.

    Where one item is the best for everybody there are none.
    """
    if len(KIND.problems.of(config).items.pool) == 1:
        return 0, 0
    k = min(len(config["items"][0]), len(TYPICAL))
    questions = min(TYPICAL[k - 1], config["page"].get("max_questions", 60))
    return questions, max(1, -(-questions * _SECONDS // 60))


def question(config: dict[str, Any], sitting: Sitting, t: Language) -> dict[str, Any]:
    """Return the open question: cards, equal rows, progress."""
    assert sitting.open is not None
    seq, asked = sitting.open
    page = config["page"]
    ids = [option.id if option.id is not None else 0 for option in asked.shown]
    rows, equal = _rows(page, ids, t)
    number, left = asked.number + 1, asked.left or 1
    before = next((said.asked.left for said in reversed(sitting.log) if said.asked), None)
    return {
        "asked": seq,
        "cards": [
            {"item": config["columns"]["rows"][i], "name": page["names"][i], "rows": rows[place]}
            for place, i in enumerate(ids)
        ],
        "equal": equal,
        "number": number,
        "left": left,
        "of": number + left - 1,
        "opened": before is not None and left > before,
        "again": None if asked.repeat_of is None else asked.repeat_of + 1,
        "can_undo": bool(sitting.log),
        "offer_stop": sitting.undecided >= UNDECIDED,
        "contradicts": contradicted(sitting),
    }


def contradicted(sitting: Sitting) -> int | None:
    """Return the number of the question that the last answer does not fit with, if any."""
    if not sitting.log:
        return None
    last = sitting.log[-1]
    if last.entry.kind != "repeat" or last.entry.said != "choice" or last.entry.repeats is None:
        return None
    before = sitting.log[last.entry.repeats].entry
    if not before.order or before.rows[before.order[0]] == last.entry.rows[last.entry.order[0]]:
        return None
    asked = sitting.log[last.entry.repeats].asked
    return None if asked is None else asked.number + 1


def result(config: dict[str, Any], sitting: Sitting, t: Language) -> dict[str, Any]:
    """Return the recommendation with its numbers, reasons and the next ones."""
    assert sitting.result is not None
    stated, page = sitting.result, config["page"]
    names, columns = page["names"], page["columns"]
    item = stated.item
    decided = any(said.entry.said == "choice" for said in sitting.log)
    return {
        "name": names[item],
        "row": config["columns"]["rows"][item],
        "facts": [
            {"name": column["name"], "value": _told(column, page["raw"][item][j], t)}
            for j, column in enumerate(columns)
        ],
        "reasons": reasons(config, sitting, t),
        "promise": (promise if decided else undecided)(config, stated, t),
        "bars": _bars(stated, names) if decided else [],
        "weights": [
            {"name": column["name"], "mean": mean, "low": low, "high": high}
            for column, (mean, low, high) in zip(columns, stated.weights)
        ],
        "change": _change(config, stated, t) if decided else None,
        "answers": sum(said.asked is not None for said in sitting.log),
        "undecided": stated.cannot_say,
        "stopped": sitting.stopped,
        "can_undo": bool(sitting.log),
    }


def promise(config: dict[str, Any], stated: lines.ReliableStated, t: Language) -> str:
    """Return the certificate in words, with its conditions; or that there is none."""
    if stated.refuted:
        return t("result.refuted")
    if stated.regret_certificate is None:
        return t("result.void")
    words = {
        "regret": t.percent(stated.regret_certificate),
        "wrong": one_in(stated.rate, t),
        "confidence": t.stated(config["confidence"]),
    }
    key = "result.promise" if stated.regret_certificate <= config["target"] else "result.so_far"
    return t(f"{key}_ranged" if config["unknown"] else key, **words)


def undecided(config: dict[str, Any], stated: lines.ReliableStated, t: Language) -> str:
    """Say what holds without any decision: one item may be the best for everybody."""
    regret = stated.regret_certificate
    if stated.questions or stated.cannot_say or regret is None or regret > config["target"]:
        return t("result.undecided_all")
    key = "result.best_of_all_ranged" if config["unknown"] else "result.best_of_all"
    return t(key, regret=t.percent(regret))


def one_in(rate: float, t: Language) -> str:
    """Return a share of answers in words: one in ten."""
    n = round(1 / rate) if rate > 0 else 0
    if rate > 0 and abs(1 / n - rate) < 1e-9 and t.has(f"result.one_in.{n}"):
        return t(f"result.one_in.{n}")
    return t("result.share", share=t.stated(rate))


def reasons(config: dict[str, Any], sitting: Sitting, t: Language) -> list[str]:
    """Return up to three lines about what the answers had in common."""
    columns = config["page"]["columns"]
    traded: Counter[tuple[int, int]] = Counter()
    plain: Counter[int] = Counter()
    for said in sitting.log:
        entry = said.entry
        if entry.said != "choice" or len(entry.values) != 2:
            continue
        chosen = entry.order[0]
        gain = entry.values[chosen] - entry.values[1 - chosen]
        known = [j for j, column in enumerate(columns) if column["direction"] != "either"]
        if not known:
            continue
        up = max(known, key=lambda j: gain[j])
        down = min(known, key=lambda j: gain[j])
        if gain[up] <= 0:
            continue
        if gain[down] < 0:
            traded[up, down] += 1
        else:
            plain[up] += 1
    told = []
    for (up, down), n in traded.most_common(3):
        told.append(
            t("result.traded", n=n, times=_times(n, t), gain=_better(columns[up], t),
              loss=_worse(columns[down], t))
        )  # fmt: skip
    for up, n in plain.most_common(3 - len(told)):
        told.append(t("result.took", n=n, times=_times(n, t), gain=_better(columns[up], t)))
    return told


def _times(n: int, t: Language) -> str:
    return t(f"times.{n}") if t.has(f"times.{n}") else t("times.many", count=n)


def _better(column: dict[str, Any], t: Language) -> str:
    return t(f"result.better.{column['direction']}", column=column["name"])


def _worse(column: dict[str, Any], t: Language) -> str:
    return t(f"result.worse.{column['direction']}", column=column["name"])


def _rows(
    page: dict[str, Any], ids: list[int], t: Language
) -> tuple[list[list[dict[str, Any]]], list[dict[str, str]]]:
    """Rows of the two cards, and what is the same in both."""
    cards: list[list[dict[str, Any]]] = [[], []]
    equal = []
    first, second = (page["raw"][i] for i in ids)
    for j, column in enumerate(page["columns"]):
        a, b = first[j], second[j]
        for digits in range(column["digits"], _DIGITS + 1):  # as many as tell them apart
            told = (_told(column, a, t, digits), _told(column, b, t, digits))
            if a == b or told[0] != told[1]:
                break
        if told[0] == told[1]:
            equal.append({"name": column["name"], "value": told[0]})
            continue
        better = None
        if column["direction"] != "either":
            better = 0 if (a < b) == (column["direction"] == "cost") else 1
        for place in (0, 1):
            cards[place].append(
                {"name": column["name"], "value": told[place], "better": better == place}
            )
    return cards, equal


def _told(column: dict[str, Any], number: float, t: Language, digits: int | None = None) -> str:
    value = t.number(number, column["digits"] if digits is None else digits)
    return f"{value}\N{NO-BREAK SPACE}{column['unit']}" if column["unit"] else value


def _bars(stated: lines.ReliableStated, names: list[str]) -> list[dict[str, Any]]:
    """Worth of the recommended item and the next ones, in per cent of the best possible."""
    top = max([1e-9, *(abs(worth.high) for worth in stated.compared)])
    return [
        {
            "name": names[worth.item],
            "mean": round(100 * max(0.0, worth.mean) / top, 1),
            "low": round(100 * max(0.0, worth.low) / top, 1),
            "high": round(100 * max(0.0, worth.high) / top, 1),
        }
        for worth in stated.compared
    ]


def _change(config: dict[str, Any], stated: lines.ReliableStated, t: Language) -> str | None:
    """Return what would make the next best item the better one."""
    others = [worth.item for worth in stated.compared if worth.item != stated.item]
    if not others:
        return None
    columns, items = config["page"]["columns"], config["items"]
    gain = [b - a for a, b in zip(items[stated.item], items[others[0]])]
    best = max(range(len(gain)), key=lambda j: gain[j])
    if gain[best] <= 0 or columns[best]["direction"] == "either":
        return None
    name = config["page"]["names"][others[0]]
    return t("result.change", name=name, column=columns[best]["name"])
