"""The audit on real tables: the numbers of its page, one split and cross-fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.auditing.section import Section
from counterplay.auditing.sections import (
    GamingSection,
    HonestSection,
    PlantedSection,
    SymmetrySection,
)
from counterplay.auditing.sections.gaming_rules import AS_IS, FIXED, HARDENED, HONEST, STRATEGIC
from counterplay.core.figures import PALETTE, panels
from counterplay.core.threads import one_thread
from counterplay.poisoning import PartitionClassifier
from counterplay.studies.auditing.people import (
    STAND_IN,
    available,
    context_of,
    model_of,
    rows_of,
    split,
    table,
    whole_run,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

PAIRS = (
    ("german_credit", "LR"), ("german_credit", "HGB"), ("heloc", "LR"), ("taiwan", "LR"),
    ("sms_spam", "text"),
)  # fmt: skip
RULES = {
    AS_IS: "as_is", HONEST: "honest", HARDENED: "hardened", FIXED: "fixed", STRATEGIC: "strategic"
}  # fmt: skip
CROSS = {"german_credit": 1000, "heloc": 3000}
SALTS = 5
INSERTIONS = 100  # of one cell


def _grid(scale: Scale) -> Sequence[Params]:
    if scale == "quick":
        name = "german_credit" if available("german_credit") else STAND_IN
        return [
            {"part": "cross", "data": name, "model": "LR", "salt": 0},
            {"part": "planted", "data": name, "model": "LR", "salt": 0},
        ]
    grid: list[Params] = [
        {"part": part, "data": name, "model": kind, "salt": 0}
        for name, kind in PAIRS
        for part in ("split", "planted")
    ]
    grid += [{"part": "cross", "data": name, "model": "LR", "salt": 0} for name in CROSS]
    grid += [
        {"part": "recall", "data": "sms_spam", "model": f"{blocks} blocks", "salt": salt}
        for blocks in (11, 25, 51)
        for salt in range(SALTS)
    ]
    grid += [
        {"part": "insert", "data": "sms_spam", "model": kind, "salt": salt}
        for kind in ("random", "adversarial")
        for salt in range(2)
    ]
    return [*grid, {"part": "symmetry", "data": "sms_spam", "model": "text", "salt": 0}]


def _cell(params: Params, seed: int) -> Record:
    part, name, kind = str(params["part"]), str(params["data"]), str(params["model"])
    if part == "recall":
        return _recall(int(kind.split()[0]), int(params["salt"] or 0))
    if part == "insert":
        return _insert(kind, int(params["salt"] or 0))
    if part == "cross":
        rows = np.random.default_rng(0).permutation(len(table(name)[1]))[: CROSS.get(name, 300)]
        return _run(context_of(name, kind, np.sort(rows)), HonestSection(), GamingSection())
    train, test = split(name, most=11_000 if name == "taiwan" else None)
    context = context_of(name, kind, test, train)
    if part == "symmetry":
        return _run(context, HonestSection(), SymmetrySection())
    if part == "planted":
        errors = context_of(name, kind, test, train, settings={"costs": {}})
        return _run(errors, HonestSection(), PlantedSection())
    more = [] if name == "sms_spam" else [GamingSection()]
    return _run(context, HonestSection(), *more)


def _run(context: Any, *sections: Section) -> dict[str, Any]:
    """Return the numbers of the sections, flat."""
    found = whole_run(context, *sections)
    record: dict[str, Any] = {"failed": "; ".join(found.failed.values())}
    honest = found.results["honest"]
    for name in ("accuracy", "money", "best_plain", "best_plain_money"):
        _note(record, name, getattr(honest, name))
    twins = next((f for f in honest.findings if f.name == "duplicates"), None)
    record["duplicates"] = 0.0 if twins is None else twins.quantity.value  # type: ignore[union-attr]
    without = honest.quantities.get("honest_accuracy_without_twins")
    record["without_twins"] = None if without is None else without.value
    for name, result in found.results.items():
        if name == "gaming":
            _gaming(record, result)
        if name == "planted":
            _planted(record, result)
        if name == "symmetry":
            for line in result.tables[0].rows:
                record[f"symmetry {line[0]}"] = f"{line[2]}: {line[3]}"
    return record


def _note(record: dict[str, Any], name: str, quantity: Any) -> None:
    record[name] = quantity.value
    record[f"{name} low"], record[f"{name} high"] = quantity.low, quantity.high


def _gaming(record: dict[str, Any], result: Any) -> None:
    for row in result.to_frame().itertuples(index=False):
        where = f"{RULES[row.rule]} b={row.budget:g}"
        for name in ("money", "low", "high", "accuracy", "false_accepts", "movers",
                     "unqualified_movers"):  # fmt: skip
            record[f"{where} {name}"] = float(getattr(row, name))
        record[f"{where} basis"] = row.basis
    for action in result.actions:
        if action.gain is not None:
            for scenario in action.scenarios:
                when = "calm" if "nobody" in scenario.when else "gamed"
                _note(record, f"gain {RULES[action.name]} {when}", scenario.gain)
    if result.break_even is not None:
        _note(record, "break_even", result.break_even)
    record["no_better"] = any(f.name == "no_rule_beats_plain" for f in result.findings)
    record["files"] = ",".join(v.name for v in result.variants)


def _planted(record: dict[str, Any], result: Any) -> None:
    record["chosen"] = result.chosen
    for row in result.curve.itertuples(index=False):
        if row.unit == "rows":
            record[f"{row.blocks}@{row.rows} accuracy"] = row.accuracy
            record[f"{row.blocks}@{row.rows} rejected"] = row.recall_rejected
    flips = result.attack["copies"]
    record["median_copies"] = float(flips[flips > 0].median()) if (flips > 0).any() else None
    record["not_flipped"] = int((flips == 0).sum())
    found = result.quantities.get("changed_by_one_row")
    record["one_row"] = None if found is None else found.value


def _recall(blocks: int, salt: int) -> dict[str, Any]:
    """Return certified recall of spam and accuracy at five messages, for one salt of the hash."""
    train, test = split("sms_spam")
    frame, labels = table("sms_spam")
    guard = PartitionClassifier(
        model_of("text"), blocks, classes=["ham", "spam"], key=f"salt {salt}", check=False
    )
    with one_thread():
        guard.fit(rows_of("sms_spam", frame, train), labels[train])
        metrics = guard.certified_metrics(
            rows_of("sms_spam", frame, test), labels[test], positive="spam", budgets=[0, 5]
        )
    return {"recall5": metrics.at("recall", 5), "accuracy5": metrics.at("accuracy", 5)}


def _insert(kind: str, salt: int) -> dict[str, Any]:
    """Return how many decisions flip when one message is inserted and everything fitted again.

    Random messages are words of the table in a new order with a drawn label; adversarial ones are
    copies of judged messages with the other label.
    """
    train, test = split("sms_spam")
    frame, labels = table("sms_spam")
    rows = rows_of("sms_spam", frame, train)
    judged = rows_of("sms_spam", frame, test)
    rng = np.random.default_rng([salt, len(kind)])
    words = np.array(" ".join(rows).split())

    def fitted(more: Sequence[str], told: Sequence[str]) -> PartitionClassifier:
        guard = PartitionClassifier(
            model_of("text"), 11, classes=["ham", "spam"], random_state=0, check=False
        )
        return guard.fit([*rows, *more], np.append(labels[train], list(told)))

    with one_thread():
        first = fitted([], [])
        before, safe = first.predict(judged), first.certify(judged) >= 1
        flips = changed = 0
        for _ in range(INSERTIONS):
            text = " ".join(rng.choice(words, int(rng.integers(3, 25))))
            label = str(rng.choice(["ham", "spam"]))
            if kind == "adversarial":
                i = int(rng.integers(len(test)))
                text, label = judged[i], "ham" if labels[test[i]] == "spam" else "spam"
            moved = fitted([text], [label]).predict(judged) != before
            flips += int((moved & safe).sum())
            changed += int(moved.sum())
    return {"insertions": INSERTIONS, "flips": flips, "changed": changed, "safe": int(safe.sum())}


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    verdicts = []
    for row in frame.to_dict("records"):
        who = f"{row['data']} {row['model']}"
        if row["part"] == "cross":
            total = row["as_is b=1 money"] - row["hardened b=1 money"]
            parts = row["gain honest gamed"] + row["gain hardened gamed"]
            verdicts.append(
                at_most("27.09", f"{who}: the gains of both cuts add up to the total difference.",
                        abs(total - parts), 1e-9)
            )  # fmt: skip
        if row["part"] == "cross" and row["data"] == "german_credit":
            verdicts.append(
                at_least("27.09", f"{who}: what the model as it is costs more than rejecting all.",
                         row["as_is b=0 money"] - row["best_plain_money"], 0.0)
            )  # fmt: skip
            verdicts.append(
                at_least("27.09", f"{who}: lower end of the gain of the cut if nobody games.",
                         row["gain honest calm low"], 0.0)
            )  # fmt: skip
        if row["part"] == "cross" and row["data"] == "heloc":
            verdicts.append(
                at_least("27.10", f"{who}: no rule beats rejecting all, and no file is offered.",
                         float(bool(row["no_better"]) and not row["files"]), 1.0)
            )  # fmt: skip
        if row["part"] == "planted" and who == "german_credit HGB":
            verdicts.append(
                at_most("27.11", f"{who}: ensembles that are chosen.",
                        float(row["chosen"] == row["chosen"] and row["chosen"] is not None), 0.0)
            )  # fmt: skip
        if row["part"] == "planted" and who == "heloc LR":
            best = row.get(f"{int(row['chosen'])}@5 accuracy") if row["chosen"] else 0.0
            verdicts.append(
                at_least("27.11", f"{who}: certified accuracy at 5 rows of the chosen ensemble.",
                         float(best or 0.0), 0.68)
            )  # fmt: skip
    inserted = frame[frame["part"] == "insert"]
    for kind, own in inserted.groupby("model"):
        verdicts.append(
            at_most("27.12", f"SMS, {own['insertions'].sum():.0f} {kind} insertions: decisions "
                    "with a certificate of at least 1 that flip.", float(own["flips"].sum()), 0.0)
        )  # fmt: skip
    recall = frame[frame["part"] == "recall"]
    for blocks, bar in (("11 blocks", 0.66), ("25 blocks", 0.66), ("51 blocks", 0.46)):
        own = recall[recall["model"] == blocks]
        if len(own):
            verdicts.append(
                at_most("27.13", f"SMS, {blocks}: distance of the mean certified recall of spam at "
                        f"five messages from {bar}.", abs(float(own["recall5"].mean()) - bar), 0.05)
            )  # fmt: skip
        if blocks == "51 blocks" and len(own):
            verdicts.append(
                at_least("27.13", f"SMS, {blocks}: certified accuracy at five messages, which "
                         "hides the recall.", float(own["accuracy5"].mean()), 0.91)
            )  # fmt: skip
    return verdicts


def _figure(frame: pd.DataFrame) -> Figure:
    """Money per 1,000 decisions of the rules with 95 % intervals, nobody games (left) and all
    people spend one unit (right). Dashed: the best plain rule.
    """
    known = "as_is b=0 money" in frame
    rows = frame[frame["as_is b=0 money"].notna()] if known else frame.iloc[:0]
    figure, axes = panels(2)
    names = [f"{r['data']} {r['model']} ({r['part']})" for _, r in rows.iterrows()]
    for ax, budget in zip(axes, ("0", "1")):
        for k, rule in enumerate(("as_is", "honest", "hardened")):
            for i, (_, row) in enumerate(rows.iterrows()):
                where = f"{rule} b={budget}"
                value = row[f"{where} money"]
                bars = [[value - row[f"{where} low"]], [row[f"{where} high"] - value]]
                ax.errorbar([value], [i + 0.2 * (k - 1)], xerr=bars, fmt="o", color=PALETTE[k],
                            label=rule.replace("_", " ") if i == 0 else None)  # fmt: skip
        for i, (_, row) in enumerate(rows.iterrows()):
            ax.plot([row["best_plain_money"]] * 2, [i - 0.4, i + 0.4], "k--", lw=1)
        ax.set_yticks(range(len(names)), names if budget == "0" else [""] * len(names))
        ax.set_xlabel("cost per 1,000 decisions")
        ax.set_title("nobody games" if budget == "0" else "all people spend 1")
    axes[0].legend(fontsize=7)
    return figure


PAGES = Study(
    name="pages",
    title="The audit on real tables",
    question=(
        "What does an audit say about ordinary models on credit tables and messages: in money "
        "beside the plain rules, when people game, and when somebody plants rows?"
    ),
    claims=("27.09", "27.10", "27.11", "27.12", "27.13"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"money": _figure},
    full_needs="the tables german_credit, heloc, taiwan and sms_spam",
)
