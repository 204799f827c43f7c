"""Who can plant rows: what planted rows are found to do, and what blocks of rows can promise.

Attacks are real: rows are added to the training rows, the model is fitted again, decisions are
compared. Certificates are those of `counterplay.poisoning.PartitionClassifier`; the rule that says
the same to everybody cannot be moved at all and always takes part.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context, quiet, same_label
from counterplay.auditing.findings import Missing, SectionResult
from counterplay.auditing.section import Pilot, Stage, stage_records
from counterplay.auditing.sections.planted_result import planted_result
from counterplay.core.seeds import derive_seed
from counterplay.core.validation import BoolArray, IntArray
from counterplay.poisoning import NotDeterministicWarning, PartitionClassifier
from counterplay.poisoning.attackers.proposals import seeded
from counterplay.tables import Table

BLOCKS = (11, 25, 51, 101)
LEAST_ROWS = 20  # of a block
TARGETS, COPIES = 12, 128
PROFILES, PLANTED = 5, (1, 5, 20, 50)


class PlantedSection:
    """Who can plant rows?"""

    name, title, order, version = "planted", "Who can plant rows?", 20, 1
    reads = ("data", "columns", "costs", "planted")

    def needs(self, context: Context) -> list[Missing]:
        """Return what is missing: a model that can be fitted again."""
        if context.template is None:
            return [Missing(sentence=f"Planted rows need a refit: {context.no_refit}.")]
        return []

    def stages(self, context: Context) -> list[Stage]:
        """Return blocks with certificates, attacks on single rows, planted profiles."""
        n = len(training(context)[1])
        ensembles = ensembles_of(context)

        def fits(pilot: Pilot, m: int) -> float:
            some = [ensembles[i][1] for i in range(min(m, len(ensembles)))]
            voted = pilot.predict * context.n / parts_of(context)
            return float(sum(b * (pilot.fit(n // b) + 2 * voted) for b in some))

        found = [
            Stage(  # first: it is the quickest, and says something without the others
                name="profiles", items=PROFILES * (1 + len(PLANTED)), n_min=1 + len(PLANTED),
                n_want=PROFILES * (1 + len(PLANTED)), batch=1 + len(PLANTED), value=0.2,
                seconds=lambda pilot, m: m * (pilot.fit(n) + pilot.predict * context.n / 5),
                run=_profiles, optional=True,
            ),
            Stage(
                name="attack", items=TARGETS, n_min=3, n_want=TARGETS, batch=1, value=0.3,
                seconds=lambda pilot, m: 12 * m * pilot.fit(n), run=_attack,
            ),
        ]  # fmt: skip
        if ensembles:
            found.insert(
                1,
                Stage(
                    name="blocks", items=len(ensembles), n_min=1, n_want=len(ensembles),
                    batch=1, value=0.8, seconds=fits, run=_blocks,
                ),
            )  # fmt: skip
        return found

    def result(self, context: Context, records: pd.DataFrame) -> SectionResult:
        """Return what attacks found, what is certified, and which ensemble is worth it."""
        parts = {name: stage_records(records, name) for name in ("blocks", "attack", "profiles")}
        counts = tuple(dict.fromkeys(blocks for _, blocks, _ in ensembles_of(context)))
        return planted_result(context, parts, counts)


def training(context: Context) -> tuple[Table, Any]:
    """Return the rows that an attacker could have added to, and their labels."""
    return (context.table, context.labels) if context.train is None else context.train


def parts_of(context: Context) -> int:
    """Return the number of parts into which rows are judged: folds, or the table at once."""
    return 1 if context.train is not None else len(context.folds)


def part_rows(context: Context, k: int) -> tuple[IntArray, IntArray]:
    """Return training rows and judged rows of a part."""
    if context.train is not None:
        return np.arange(len(context.train[1])), np.arange(context.n)
    return context.folds.train[k], context.folds.test[k]


def units_of(context: Context) -> tuple[str, ...]:
    """Return what an attacker controls: rows, and whole sources where the config names them."""
    named = context.setting("columns", "source") and context.train is None
    return ("rows", "sources") if named else ("rows",)


def ensembles_of(context: Context) -> list[tuple[int, int, str]]:
    """Return (part, blocks, unit) of all ensembles: every number of blocks before the next part."""
    n = len(training(context)[1])
    share = 1.0 if context.train is not None else 0.8
    counts = [b for b in BLOCKS if share * n / b >= LEAST_ROWS]
    return [
        (k, b, unit) for k in range(parts_of(context)) for unit in units_of(context) for b in counts
    ]


def _blocks(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return decision and certificate of every judged row, per number of blocks."""
    every, records = ensembles_of(context), []
    table, labels = training(context)
    for item in items.tolist():
        k, blocks, unit = every[item]
        train, test = part_rows(context, k)
        guard = partition(context, blocks, check=k == 0)
        more = {}
        if unit == "sources":
            owners = context.column("source")
            assert owners is not None
            more["sources"] = owners[train]
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            guard.fit(table.take(train), labels[train], **more)
            rows = context.table.take(test)
            labels_said, radius = guard.predict_certified(rows)
            accepted = same_label(np.asarray(labels_said), context.positive)
        stable = not any(issubclass(w.category, NotDeterministicWarning) for w in seen)
        records += [
            {
                "item": item, "row": row, "part": k, "blocks": blocks, "unit": unit,
                "accepted": yes, "radius": r, "stable": stable,
            }
            for row, yes, r in zip(test.tolist(), accepted.tolist(), radius.tolist())
        ]  # fmt: skip
    return records


def partition(context: Context, blocks: int, *, check: bool = False) -> PartitionClassifier:
    """Return the ensemble of blocks around the model, with features computed inside blocks."""
    return PartitionClassifier(
        seeded(context.template), blocks, classes=list(context.classes), check=check,
        random_state=0,
    )  # fmt: skip


class Bench:
    """Training rows of a part that rows can be added to, and the decisions they lead to."""

    def __init__(self, context: Context, k: int) -> None:
        self.context = context
        table, labels = training(context)
        self.train, self.test = part_rows(context, k)
        self.rows, self.labels = table.take(self.train), labels[self.train]

    def fit(self, added: int | None = None, copies: int = 0, leave_out: int | None = None) -> Any:
        """Return the model with copies of a row of the table added, with the wanted outcome."""
        context, rows, labels = self.context, self.rows, self.labels
        if leave_out is not None:
            keep = np.arange(len(labels)) != leave_out
            table = Table.of(rows)
            rows, labels = table.take(np.flatnonzero(keep)), labels[keep]
        if added is not None:
            more = context.table.take(np.full(copies, added))
            rows = stacked(rows, more)
            planted = np.empty(copies, dtype=labels.dtype)
            planted[:] = context.classes[1]
            labels = np.concatenate([labels, planted])
        with quiet():
            return seeded(context.template).fit(rows, labels)

    def decide(self, model: Any, rows: IntArray | None = None) -> BoolArray:
        """Return the decisions on rows of the table."""
        part = self.test if rows is None else rows
        return self.context.accepts(model, self.context.table.part(part))


def stacked(rows: Any, more: Any) -> Any:
    """Return rows of one container with others below them."""
    if isinstance(rows, pd.DataFrame):
        return pd.concat([rows, more], ignore_index=True)
    if isinstance(rows, list):
        return [*rows, *more]
    if isinstance(rows, np.ndarray):
        return np.concatenate([rows, more])
    from scipy.sparse import vstack

    return vstack([rows, more], format="csr")


def _bench(context: Context, k: int) -> tuple[Bench, Any]:
    """Return the bench of a part and its model without poison; fitted once."""
    key = ("bench", k)
    if key not in context.fits:
        bench = Bench(context, k)
        context.fits[key] = (bench, bench.fit())
    found: tuple[Bench, Any] = context.fits[key]
    return found


def targets_of(context: Context) -> IntArray:
    """Return rejected rows of the first part, in the order of the audit: at most 12."""
    bench, model = _bench(context, 0)
    place = np.argsort(context.order)
    rows = bench.test[np.argsort(place[bench.test])]
    rejected: IntArray = rows[~bench.decide(model, rows)][:TARGETS]
    return rejected


def _attack(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return the smallest number of copies found that flips each rejected row."""
    bench, _ = _bench(context, 0)
    rows = targets_of(context)
    records = []
    for item in items.tolist():
        if item >= len(rows):
            records.append({"item": item, "row": -1, "copies": -1})
            continue
        row = int(rows[item])
        records.append({"item": item, "row": row, "copies": _copies(bench, row)})
    return records


def _copies(bench: Bench, row: int) -> int:
    """Double until the decision flips, then halve the gap; 0 if 128 copies do not flip it."""

    def flips(copies: int) -> bool:
        return bool(bench.decide(bench.fit(row, copies), np.array([row]))[0])

    high = 1
    while not flips(high):
        high *= 2
        if high > COPIES:
            return 0
    low = high // 2  # does not flip, or is 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if flips(middle) else (middle, high)
    return high


def _profiles(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return the share of decisions that change with planted copies, and without one row."""
    bench, model = _bench(context, 0)
    before = bench.decide(model)
    rng = np.random.default_rng(derive_seed("profiles", int(context.seed)))
    planted = rng.permutation(context.n)[:PROFILES]
    left_out = rng.permutation(len(bench.train))[:PROFILES]
    records = []
    for item in items.tolist():
        profile, place = divmod(item, 1 + len(PLANTED))
        if place == len(PLANTED):
            again, copies = bench.fit(leave_out=int(left_out[profile % len(left_out)])), -1
        else:
            copies = PLANTED[place]
            again = bench.fit(int(planted[profile % len(planted)]), copies)
        changed = int((bench.decide(again) != before).sum())
        records.append({"item": item, "copies": copies, "changed": changed, "rows": len(before)})
    return records
