"""How good is the model, honestly: on rows it had not seen, in money, beside the plain rules.

Whether the model was fitted on these rows is tested with a clone that is cross-fitted on them; rows
that occur twice are counted, and the headline is repeated without those a model has seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context
from counterplay.auditing.findings import Column, Finding, Grid, Missing, RowValues, SectionResult
from counterplay.auditing.intervals import Bootstrap, accuracy_of, money_of, share
from counterplay.auditing.quantity import Quantity
from counterplay.auditing.section import Pilot, Stage, stage_records
from counterplay.auditing.sections.honest_words import PLAIN, Words
from counterplay.auditing.sections.seen import SeenTest, seen_test
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.tables import Schema, Table
from counterplay.tables.encoding import encode_rows, row_digests

WORSE = 0.02  # accuracy that repeated rows may add without a warning


@dataclass(frozen=True, kw_only=True)
class HonestResult(SectionResult):
    """Accuracy, ranking and money on rows the judging model had not seen.

    Parameters
    ----------
    accuracy
        Share of right decisions.
    auc
        Chance that a good row has a larger score than a bad one; None without a score.
    money
        Cost of the decisions.
    best_plain
        Accuracy of the larger class.
    best_plain_money
        Cost of the cheaper of accepting and rejecting all.
    plain_rule
        Which of the two that is.
    seen
        Whether the rows look like training rows; None if that was not tested.
    cross_fitted
        Whether the numbers are of clones rather than of the given model.
    """

    accuracy: Quantity
    auc: Quantity | None
    money: Quantity
    best_plain: Quantity
    best_plain_money: Quantity
    plain_rule: str
    seen: SeenTest | None = None
    cross_fitted: bool = False


class HonestSection:
    """How good is it, honestly?"""

    name, title, order, version = "honest", "How good is it, honestly?", 0, 1
    reads = ("data", "columns")

    def needs(self, context: Context) -> list[Missing]:
        """Return nothing: rows with outcomes are enough."""
        return []

    def stages(self, context: Context) -> list[Stage]:
        """Return predictions of the model, of cross-fitted clones, and the search for twins."""
        n = context.n
        found = [
            Stage(
                name="rows", items=n, n_min=min(n, 2000), n_want=n, batch=5000, value=0.5,
                seconds=lambda pilot, m: pilot.predict * m, run=_rows,
            ),
            Stage(
                name="twins", items=1, n_min=1, n_want=1, batch=1,
                seconds=lambda pilot, m: 4e-5 * n, run=_twins,
            ),
        ]  # fmt: skip
        if context.template is not None and (context.rows != "heldout" or not context.given):
            folds = len(context.folds)

            def seconds(pilot: Pilot, m: int) -> float:
                return m * (pilot.fit(n) + pilot.predict * n)

            found.append(
                Stage(
                    name="folds", items=folds + 1, n_min=folds + 1, n_want=folds + 1, batch=1,
                    seconds=seconds, run=_folds,
                )
            )  # fmt: skip
        return found

    def result(self, context: Context, records: pd.DataFrame) -> HonestResult:
        """Return the headline; tell later sections whether the rows were seen."""
        given, folds = stage_records(records, "rows"), stage_records(records, "folds")
        seen = seen_test(context, given, folds) if context.given and len(folds) else None
        if context.rows == "unknown":
            context.notes["seen"] = seen is not None and seen.verdict == "seen"
        clone = folds[folds["fold"] >= 0] if len(folds) else folds
        judged = clone if context.cross_fitted and len(clone) else given
        judged = judged.sort_values("row", kind="stable")
        known = context.cross_fitted or context.rows == "training"
        context.notes["no clones"] = known and not len(clone)
        return _result(context, judged, given, folds, seen, stage_records(records, "twins"))


def _rows(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return decision and score of the given model on some rows."""
    rows = context.order[items]
    return _judged(context, context.estimator, rows, items)


def _folds(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return decisions of the clone of each fold; the last item is a clone of all rows."""
    found = []
    for item in items.tolist():
        last = item == len(context.folds)
        rows = np.arange(context.n) if last else context.folds.test[item]
        model = context.fit(rows) if last else context.model_of(item)
        fold = -1 if last else item
        found += [
            record | {"fold": fold}
            for record in _judged(context, model, rows, np.full(len(rows), item))
        ]
    return found


def _judged(context: Context, model: Any, rows: IntArray, items: IntArray) -> list[dict[str, Any]]:
    part = context.table.part(rows)
    accepted = context.accepts(model, part)
    score = context.scores(model, part)
    return [
        {"item": item, "row": row, "accepted": yes, "score": s}
        for item, row, yes, s in zip(
            items.tolist(), rows.tolist(), accepted.tolist(), score.tolist()
        )
    ]


def _twins(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return the rows that occur before in the table or in the training rows of their judge."""
    table = context.table
    schema = Schema.infer(table.rows)
    codes = _codes(schema, table)
    twice = pd.Series(codes).duplicated().to_numpy()
    seen = np.zeros(context.n, dtype=bool)
    if context.train is not None:
        seen = np.isin(codes, _codes(schema, context.train[0]))
    elif context.template is not None:
        for train, test in zip(context.folds.train, context.folds.test):
            seen[test] = np.isin(codes[test], codes[train])
    rows = np.flatnonzero(twice | seen)
    return [
        {"item": 0, "row": int(i), "twice": bool(twice[i]), "seen": bool(seen[i])} for i in rows
    ]


def _codes(schema: Schema, table: Table) -> Any:
    """Return the digest of each row as text; a row that fits no schema is like no other."""
    cast = schema.cast(table.rows)
    codes = np.array([f"row {i}" for i in range(len(table))], dtype=object)
    codes[cast.kept] = [digest.tobytes().hex() for digest in row_digests(encode_rows(cast))]
    return codes.astype(str)


def _result(
    context: Context,
    judged: pd.DataFrame,
    given: pd.DataFrame,
    folds: pd.DataFrame,
    seen: SeenTest | None,
    twins: pd.DataFrame,
) -> HonestResult:
    rows = judged["row"].to_numpy(dtype=np.int64)
    decided = context.decided(judged["accepted"].to_numpy(dtype=bool), rows=rows)
    boot = context.bootstrap(len(rows))
    unit, assumes = context.money_unit, context.money_assumes
    accuracy, money = accuracy_of(decided), money_of(decided, boot, unit, assumes)
    ranking = auc_of(judged["score"].to_numpy(dtype=np.float64), context.wanted[rows])
    rule, plain_money = best_plain(context, rows, boot)
    larger = share(int(max(decided.wanted.sum(), (~decided.wanted).sum())), len(rows))
    quantities = {
        "honest_accuracy": accuracy,
        "honest_money": money,
        "honest_false_accepts_per_1000": _rate(decided.sure & ~decided.wanted),
        "honest_false_rejects_per_1000": _rate(~decided.sure & decided.wanted),
    }
    if ranking is not None:
        quantities["honest_auc"] = ranking
    words = Words(context, accuracy, money, larger, plain_money, rule, seen)
    without = _without_seen(context, judged, twins)
    if without is not None:
        quantities["honest_accuracy_without_twins"] = without[0]
    findings = [*words.findings(), *_twin_findings(context, twins, without, accuracy)]
    return HonestResult(
        name="honest",
        title=HonestSection.title,
        lead=words.lead(_clones(context, folds, seen=True), _clones(context, folds), given),
        findings=tuple(findings),
        tables=(_table(context, accuracy, money, ranking, larger, plain_money, rule),),
        quantities=quantities,
        plain={"honest_accuracy": larger, "honest_money": plain_money},
        row_values={
            "honest_accuracy": RowValues(rows=rows, values=decided.right.astype(float)),
            "honest_money": RowValues(rows=rows, values=decided.money, scale=1000.0),
            "best_plain honest_accuracy": RowValues(
                rows=rows, values=(decided.wanted == (decided.wanted.mean() >= 0.5)).astype(float)
            ),
            "best_plain honest_money": RowValues(
                rows=rows, values=plain_cost(context, rule, rows), scale=1000.0
            ),
        },
        assumptions=context.money_words,
        accuracy=accuracy,
        auc=ranking,
        money=money,
        best_plain=larger,
        best_plain_money=plain_money,
        plain_rule=rule,
        seen=seen,
        cross_fitted=context.cross_fitted and not context.notes.get("no clones"),
    )


def best_plain(context: Context, rows: IntArray, boot: Bootstrap) -> tuple[str, Quantity]:
    """Return the cheaper of accepting and rejecting all, and its cost."""
    costs = [plain_cost(context, rule, rows) for rule in PLAIN]
    rule = PLAIN[int(np.argmin([cost.mean() for cost in costs]))]
    cost = plain_cost(context, rule, rows)
    low, high = boot.interval(cost)
    return rule, Quantity(
        value=1000 * float(cost.mean()), low=1000 * low, high=1000 * high,
        unit=context.money_unit, basis="measured", n=len(rows), assumes=context.money_assumes,
    )  # fmt: skip


def plain_cost(context: Context, rule: str, rows: IntArray) -> FloatArray:
    """Return the cost of each row under accepting or rejecting all."""
    every = np.full(len(rows), rule == PLAIN[0])
    return context.decided(every, rows=rows).money


def auc_of(scores: FloatArray, wanted: BoolArray) -> Quantity | None:
    """Return the area under the curve with the interval of DeLong; None for yes and no alone.

    Examples
    --------
    >>> scores = np.array([0.1, 0.4, 0.35, 0.8])
    >>> auc_of(scores, np.array([False, False, True, True])).value
    0.75
    """
    from scipy.stats import norm, rankdata

    m, k = int(wanted.sum()), int((~wanted).sum())
    if not m or not k or len(np.unique(scores)) < 3:
        return None
    every = rankdata(scores)
    # Share of the other class below each row: the placement values whose spread gives the error.
    above = (every[wanted] - rankdata(scores[wanted])) / k
    below = 1 - (every[~wanted] - rankdata(scores[~wanted])) / m
    area = float(above.mean())
    error = np.sqrt(above.var(ddof=1) / m + below.var(ddof=1) / k) if min(m, k) > 1 else 1.0
    half = float(norm.ppf(0.975) * error)
    return Quantity(
        value=area, low=max(0.0, area - half), high=min(1.0, area + half), unit="share",
        basis="measured", n=len(scores),
    )  # fmt: skip


def _rate(hit: BoolArray) -> Quantity:
    found = share(int(hit.sum()), len(hit))
    return Quantity(
        value=1000 * found.value, low=1000 * found.low, high=1000 * found.high,
        unit="per 1,000 decisions", basis="measured", n=len(hit),
    )  # fmt: skip


def _clones(context: Context, folds: pd.DataFrame, *, seen: bool = False) -> Quantity | None:
    """Return the accuracy of clones on rows they have not seen, or of one that has seen them."""
    mine = folds[(folds["fold"] == -1) == seen] if len(folds) else folds
    if not len(mine):
        return None
    y = context.wanted[mine["row"].to_numpy(dtype=np.int64)]
    return share(int((mine["accepted"].to_numpy(dtype=bool) == y).sum()), len(y))


def _without_seen(
    context: Context, judged: pd.DataFrame, twins: pd.DataFrame
) -> tuple[Quantity, int] | None:
    """Return accuracy without the rows that the judge had seen, and how many these are."""
    if not len(twins) or not twins["seen"].any():
        return None
    left_out = set(twins["row"][twins["seen"].astype(bool)].tolist())
    kept = judged[~judged["row"].isin(left_out)]
    out = len(judged) - len(kept)
    if not len(kept) or not out:
        return None
    y = context.wanted[kept["row"].to_numpy(dtype=np.int64)]
    return share(int((kept["accepted"].to_numpy(dtype=bool) == y).sum()), len(kept)), out


def _twin_findings(
    context: Context, twins: pd.DataFrame, without: Any, accuracy: Quantity
) -> list[Finding]:
    twice = int(twins["twice"].sum()) if len(twins) else 0
    if not twice and without is None:
        return []
    sentence = f"{twice:,} rows repeat an earlier one" if twice else "No row repeats an earlier one"
    quantity = Quantity.certain(twice, unit="rows", n=context.n)
    if without is not None:
        left, out = without
        sentence += (
            f"; {out:,} rows also occur among the rows that their judge was fitted on. Without "
            f"them accuracy is {left} instead of {accuracy}"
        )
    worse = without is not None and accuracy.value - without[0].value > WORSE
    return [
        Finding(
            name="duplicates", sentence=sentence + ".", severity="medium" if worse else "low",
            quantity=quantity,
        )
    ]  # fmt: skip


def _table(
    context: Context, accuracy: Quantity, money: Quantity, ranking: Quantity | None,
    larger: Quantity, plain_money: Quantity, rule: str,
) -> Grid:  # fmt: skip
    rows: list[tuple[Any, ...]] = [
        ("accuracy", accuracy, larger, "larger class"),
        ("money", money, plain_money, rule),
    ]
    if ranking is not None:
        rows.append(("area under the curve", ranking, None, ""))
    return Grid(
        title="The model beside the best plain rule",
        columns=(
            Column(name="measure"), Column(name="model", number=True),
            Column(name="best plain rule", number=True), Column(name="plain rule"),
        ),
        rows=tuple(rows),
        note=f"Money in {context.money_unit}.",
    )  # fmt: skip
