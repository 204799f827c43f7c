"""The page's words, tables and picture on planted rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context
from counterplay.auditing.findings import (
    Action,
    Chart,
    Column,
    Figure,
    Finding,
    Grid,
    SectionResult,
    Series,
)
from counterplay.auditing.intervals import share
from counterplay.auditing.quantity import Quantity, quantity_key
from counterplay.auditing.sections.planted_certified import Certified, Planted

USELESS = "no useful certificate at this size"


@dataclass(frozen=True, kw_only=True)
class PlantedResult(SectionResult):
    """What planted rows are found to do, and what is certified against them.

    Parameters
    ----------
    best_plain
        Accuracy of the best constant rule, which nobody can move.
    attack
        One line per rejected row that was attacked: smallest number of copies found, 0 if none.
    curve
        Certified recall of both outcomes, accuracy and money per number of blocks and of rows.
    chosen
        Number of blocks that is worth deploying; None if no certificate beats the constant rule.
    """

    best_plain: Quantity
    attack: pd.DataFrame
    curve: pd.DataFrame
    chosen: int | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return the certified curve."""
        return self.curve.copy()


def planted_result(
    context: Context, parts: Mapping[str, pd.DataFrame], counts: tuple[int, ...]
) -> PlantedResult:
    """Return everything the section says; ``counts`` are the numbers of blocks worth trying."""
    planted = Planted(context, parts, counts)
    y = context.wanted[planted.rows]
    larger = share(int(max(y.sum(), (~y).sum())), len(y))
    quantities = _quantities(planted)
    _, plain_money = planted.plain
    return PlantedResult(
        name="planted",
        title="Who can plant rows?",
        lead=(_lead(planted),),
        findings=tuple(_findings(planted, larger)),
        actions=tuple(_actions(planted)),
        tables=tuple(_tables(planted)),
        figures=tuple(_figures(planted, larger)),
        quantities=quantities,
        plain={"certified_accuracy": larger, "certified_money": plain_money},
        assumptions=("An attacker adds rows; he does not remove or change others.",),
        best_plain=larger,
        attack=_attack_frame(planted),
        curve=planted.curve(),
        chosen=None if planted.chosen is None else planted.chosen.blocks,
    )


def _quantities(planted: Planted) -> dict[str, Quantity]:
    """Return numbers by gate name; the headline is the chosen, else the best, ensemble."""
    found: dict[str, Quantity] = {}
    best = planted.chosen
    if best is None and planted.gain is not None:
        best = next(e for e in planted.of_rows if e.blocks == planted.gain[0])
    for own in planted.of_rows:
        for t in (0, *planted.levels):
            numbers: dict[str, Quantity | None] = {
                "certified_accuracy": own.accuracy(t),
                "certified_recall_accepted": own.recall(t, True),
                "certified_recall_rejected": own.recall(t, False),
                "certified_money": _money(planted, own, t),
            }
            places: list[dict[str, Any]] = [{"blocks": own.blocks, "rows": t}]
            if own is best:
                places.append({"rows": t})
                places += [{}] if t == planted.declared else []
            for name, number in numbers.items():
                for place in places if number is not None else []:
                    assert number is not None
                    found[quantity_key(name, place)] = number
    for copies, part in _changed(planted).items():
        if copies > 0:
            found[quantity_key("changed_by_planted_rows", {"rows": copies})] = part
        if copies == 1:
            found["changed_by_one_row"] = part
    flips = _flips(planted)
    if len(flips):
        median = float(np.median(flips))
        found["copies_to_flip"] = Quantity.certain(median, unit="rows", n=len(flips), basis="found")
    return found


def _money(planted: Planted, own: Certified, t: int) -> Quantity:
    cost = own.cost(t)
    low, high = planted.context.bootstrap(len(cost)).interval(cost)
    return Quantity(
        value=1000 * float(cost.mean()), low=1000 * low, high=1000 * high,
        unit=planted.context.money_unit, basis="certified", n=len(cost),
        assumes=planted.context.money_assumes,
    )  # fmt: skip


def _attack_frame(planted: Planted) -> pd.DataFrame:
    if not len(planted.attack):
        return pd.DataFrame(columns=["row", "copies"])
    found = planted.attack[planted.attack["row"] >= 0]
    return found[["row", "copies"]].astype(np.int64).reset_index(drop=True)


def _flips(planted: Planted) -> Any:
    frame = _attack_frame(planted)
    return frame["copies"][frame["copies"] > 0].to_numpy(dtype=np.int64)


def _changed(planted: Planted) -> dict[int, Quantity]:
    """Return the share of decisions that changed, by copies; -1 is one row left out."""
    found = {}
    if len(planted.profiles):
        for copies, own in planted.profiles.groupby("copies"):
            value = float((own["changed"] / own["rows"]).mean())
            found[int(copies)] = Quantity.certain(
                value, unit="share", n=int(own["rows"].iloc[0]), basis="found"
            )
    return found


def _lead(planted: Planted) -> str:
    unit = "sources and rows" if any(e.unit == "sources" for e in planted.ensembles) else "rows"
    return (
        f"Somebody who can add {unit} with an outcome of his choice can change decisions of the "
        "next model. Attacks are found, others may do more; certificates hold whatever is added."
    )


def _findings(planted: Planted, larger: Quantity) -> list[Finding]:
    found = [*_attack_findings(planted)]
    if not planted.stable:
        return [*found, Finding(
            name="not_deterministic", severity="medium",
            sentence="Fitting one block twice gave two models: no certificate holds for it.",
        )]  # fmt: skip
    best = planted.chosen
    t = planted.declared
    if best is None:
        if not planted.counts:
            text = f"There is {USELESS}: blocks need at least 20 rows each."
        elif not planted.of_rows:
            return found  # there was no time for blocks
        else:
            text = f"There is {USELESS}: {_useless(planted, larger)}."
        if planted.untried:
            text += f" There was no time for {planted.untried} blocks."
        return [*found, Finding(name="no_certificate", sentence=text, severity="medium")]
    recalls = [best.recall(t, side) for side in (True, False)]
    parts = " and ".join(
        f"{number.value:.1%} of the {word}" for number, word in
        zip(recalls, ("wanted outcome", "unwanted outcome")) if number is not None
    )  # fmt: skip
    text = (
        f"Certified with {best.blocks} blocks: {parts} are decided rightly and stay so whatever "
        f"{t} rows are added ({best.accuracy(t).value:.1%} of all decisions; best plain rule "
        f"{larger.value:.1%})."
    ).replace("%", " %")
    quantity = best.accuracy(t)
    return [*found, Finding(name="certificate", sentence=text, severity="good", quantity=quantity)]


def _useless(planted: Planted, larger: Quantity) -> str:
    """Say what the best ensemble promises, in money where errors have prices."""
    t, rule = planted.declared, planted.plain[0]
    if planted.context.priced and planted.gain is not None:
        top = next(e for e in planted.of_rows if e.blocks == planted.gain[0])
        text = (
            f"with {top.blocks} blocks {top.accuracy(t).value:.1%} of decisions are right whatever "
            f"{t} rows are added and the others cost up to {_money(planted, top, t)} "
            f"{planted.context.money_unit}; the rule '{rule}' costs {planted.plain[1]} and cannot "
            "be moved at all"
        )
    else:
        top = max(planted.of_rows, key=lambda e: e.accuracy(t).value)
        text = (
            f"with {top.blocks} blocks {top.accuracy(t).value:.1%} of decisions are right and stay "
            f"right whatever {t} rows are added; the rule '{rule}' cannot be moved at all and the "
            f"larger class has {larger.value:.1%}"
        )
    text += "; every block says the same to everybody" if _constant(top) else ""
    return text.replace("%", " %")


def _constant(found: Certified) -> bool:
    return bool(found.accepted.all() or (~found.accepted).all())


def _attack_findings(planted: Planted) -> list[Finding]:
    frame, flips = _attack_frame(planted), _flips(planted)
    found = []
    if len(flips):
        text = (
            f"Found: {flips.min():,} to {flips.max():,} planted copies of a rejected row (median "
            f"{np.median(flips):g}) make the model accept it, for {len(flips)} of {len(frame)} "
            "rows tried."
        )
        found.append(
            Finding(
                name="copies_flip", sentence=text, table="Attacks on single rows",
                severity="high" if np.median(flips) <= 10 else "medium",
                quantity=Quantity.certain(
                    float(np.median(flips)), unit="rows", n=len(frame), basis="found"
                ),
            )
        )  # fmt: skip
    changed = _changed(planted)
    if 1 in changed:
        text = f"Found: one planted row changes {changed[1].value:.1%} of all decisions"
        text += "".join(f", {k} copies {changed[k].value:.1%}" for k in sorted(changed) if k > 1)
        if -1 in changed:
            text += f"; leaving out one random row changes {changed[-1].value:.1%}"
        found.append(
            Finding(
                name="one_row_changes", sentence=text.replace("%", " %") + ".", severity="low",
                quantity=changed[1],
            )
        )  # fmt: skip
    return found


def _actions(planted: Planted) -> list[Action]:
    best, gain = planted.chosen, planted.gain
    if best is not None and gain is not None:
        return [
            Action(
                name="block ensemble",
                title=f"Where rows come from outside, train {best.blocks} blocks that vote",
                how=f"`counterplay.poisoning.PartitionClassifier(model, {best.blocks})`", effort=3,
                note=f"Certified cost at {planted.declared} planted rows is lower than that of "
                f"'{planted.plain[0]}' by {gain[1]}; if nobody plants it costs "
                f"{_money(planted, best, 0)} {planted.context.money_unit}.",
            )
        ]  # fmt: skip
    if planted.counts and not planted.of_rows:
        return []
    return [
        Action(
            name="block ensemble", title="Restrict who may add rows with outcomes",
            how="a rule on who may report; set `[columns] source` to count accounts instead of "
            "rows", effort=3,
            note="No block ensemble is useful against planted rows at this size.",
        )
    ]  # fmt: skip


def _tables(planted: Planted) -> list[Grid]:
    grids = []
    if planted.ensembles:
        rows = [
            (
                found.unit, found.blocks, t, found.recall(t, True), found.recall(t, False),
                _money(planted, found, t), found.accuracy(t),
            )
            for found in planted.ensembles
            for t in (0, *planted.levels)
        ]  # fmt: skip
        names = ("unit", "blocks", "planted", "recall of accepted", "recall of rejected",
                 "money", "accuracy")  # fmt: skip
        grids.append(
            Grid(
                title="Certified against planted rows",
                columns=tuple(Column(name=c, number=c != "unit") for c in names),
                rows=tuple(rows), folded=len(rows) > 12,
                note="Recall of accepted: share of the rows with the wanted outcome that are "
                "accepted and stay so; of rejected: of those with the unwanted outcome.",
            )
        )  # fmt: skip
    frame = _attack_frame(planted)
    if len(frame):
        lines = [
            (f"row {row.row}", Quantity.certain(row.copies, unit="rows", n=1, basis="found")
             if row.copies else "not by 128")
            for row in frame.itertuples()
        ]  # fmt: skip
        grids.append(
            Grid(
                title="Attacks on single rows", folded=True, rows=tuple(lines),
                columns=(Column(name="rejected row"), Column(name="copies that flip", number=True)),
            )
        )  # fmt: skip
    changed = _changed(planted)
    if changed:
        words = {-1: "one random row left out", 1: "one planted copy"}
        grids.append(
            Grid(
                title="Decisions that change", folded=True,
                columns=(Column(name="what"), Column(name="share of decisions", number=True)),
                rows=tuple((words.get(k, f"{k} planted copies"), changed[k]) for k in
                           sorted(changed)),
            )
        )  # fmt: skip
    return grids


def _drawn(best: Certified, levels: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of rows up to where nothing is certified; a far one would squeeze all."""
    some = [t for t in levels if best.kept(t).any()] or [levels[0]]
    return tuple(t for t in levels if t <= max(2 * some[-1], levels[1]))


def _figures(planted: Planted, larger: Quantity) -> list[Figure]:
    """Certified recall of each outcome over planted rows, for the chosen or best ensemble."""
    if planted.gain is None:
        return []
    best = next(e for e in planted.of_rows if e.blocks == planted.gain[0])
    levels = _drawn(best, (0, *planted.levels))
    series = []
    for wanted, label in ((True, "wanted outcome"), (False, "unwanted outcome")):
        cells = [cell for t in levels if (cell := best.recall(t, wanted)) is not None]
        if cells:
            series.append(
                Series(
                    label=f"{label}, {best.blocks} blocks", x=tuple(map(float, levels)),
                    y=tuple(c.value for c in cells), low=tuple(c.low for c in cells),
                    high=tuple(c.high for c in cells),
                )
            )  # fmt: skip
    ends = (0.0, float(levels[-1]))
    series.append(
        Series(label="constant rule, accuracy", x=ends, y=(larger.value,) * 2, style="dashed")
    )
    flips = np.sort(_flips(planted))
    inside = flips[flips <= levels[-1]]
    if len(inside):
        left = 1 - np.arange(1, len(inside) + 1) / len(_attack_frame(planted))
        series.append(
            Series(
                label="rejected rows left by attacks", x=tuple(map(float, inside)),
                y=tuple(map(float, left)), style="crosses",
            )
        )  # fmt: skip
    return [
        Figure(
            title="Certified recall against planted rows",
            alt=f"Share of each outcome that is decided rightly whatever rows are added, with "
            f"{best.blocks} blocks, and the share of the larger class as a dashed line.",
            chart=Chart(x_label="planted rows", y_label="share", series=tuple(series)),
        )
    ]
