"""Symmetries: changes of a row that should not matter, and whether they do.

Candidates are declared, or suggested by the names of columns and by texts. For each: how many
decisions change under it, and whether labels respect it, by the race of
`counterplay.invariance.symmetry_advisor` for columns that may be swapped, and by an exact paired
test of cross-fitted clones for changes of texts and of the unit that columns are measured in.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context, quiet
from counterplay.auditing.findings import Action, Column, Finding, Grid, Missing, SectionResult
from counterplay.auditing.quantity import Quantity, quantity_key
from counterplay.auditing.section import Pilot, Stage, stage_records
from counterplay.core.seeds import derive_seed
from counterplay.core.stats import binomial_p_value
from counterplay.core.validation import FloatArray, IntArray
from counterplay.invariance import groups, symmetry_advisor
from counterplay.tables import Table

LEVEL = 0.05
MOST_PLACES = 6  # positions of a family that are permuted in all ways
MOST_ROWS = 2000  # of the race
DRAWN = 5  # permutations that are tried on decisions
FACTORS = (0.5, 2.0)  # of a unit that are tried on decisions
MONEY = ("amount", "amt", "income", "salary", "balance", "bal", "loan", "debt", "price", "payment")
TEXTS: dict[str, Callable[[str], str]] = {
    "case": str.lower,
    "white space": lambda text: " ".join(text.split()),
    "punctuation": lambda text: re.sub(r"[^\w\s]", " ", text),
    "digits": lambda text: re.sub(r"\d", "0", text),
    "order of the words": lambda text: " ".join(sorted(text.split())),
}
VERDICTS = {
    "augment": "use it",
    "use invariant learner": "use it",
    "do not augment": "do not use it",
    "no difference": "no difference",
}


@dataclass(frozen=True)
class Candidate:
    """A change that may not matter: of a text, of positions of columns that swap together, or of
    the unit of some columns.
    """

    name: str
    declared: bool
    blocks: tuple[tuple[int, ...], ...] = ()
    unit: tuple[str, ...] = ()


class SymmetrySection:
    """Which changes should not matter?"""

    name, title, order, version = "symmetry", "Which changes should not matter?", 40, 1
    reads = ("data", "columns", "symmetry")

    def needs(self, context: Context) -> list[Missing]:
        """Return what is missing: something that could be swapped."""
        if candidates(context):
            return []
        return [
            Missing(
                sentence="No numbered family of columns, no text, no pair of parties in this "
                "table; nothing declared.",
                key="[symmetry]",
            )
        ]

    def stages(self, context: Context) -> list[Stage]:
        """Return decisions under each candidate, and what the labels say."""
        count, n = len(candidates(context)), context.n
        found = [
            Stage(
                name="decisions", items=count, n_min=count, n_want=count, batch=1, value=0.1,
                seconds=lambda pilot, m: m * (1 + DRAWN) * pilot.predict * n, run=_decisions,
            )
        ]  # fmt: skip
        if context.template is not None:
            found.append(
                Stage(
                    name="labels", items=count, n_min=1, n_want=count, batch=1, value=0.1,
                    seconds=partial(_label_seconds, context), run=_labels,
                )
            )  # fmt: skip
        return found

    def result(self, context: Context, records: pd.DataFrame) -> SectionResult:
        """Return one line per candidate."""
        return _result(
            context, stage_records(records, "decisions"), stage_records(records, "labels")
        )


def candidates(context: Context) -> list[Candidate]:
    """Return what may be swapped: declared families, numbered columns, parties, texts."""
    if context.table.container == "texts":
        named = tuple(context.setting("symmetry", "texts", ()))
        return [Candidate(name, name in named) for name in TEXTS]
    names = context.table.names
    if names is None or context.table.is_sparse:
        return []
    if set(context.table.kinds) - {"number", "integer", "flag"}:  # nothing to permute by place
        return _units(context)
    return [*_families(context, names), *_units(context)]


def _families(context: Context, names: Sequence[str]) -> list[Candidate]:
    """Return families of columns whose places may be swapped together."""
    declared = [tuple(f) for f in context.setting("symmetry", "families", ())]
    families = declared or numbered_families(names)
    place = {name: j for j, name in enumerate(names)}
    found = []
    for size, some in _by_length(families).items():
        known = [f for f in some if all(name in place for name in f)]
        if known and size >= 2:
            blocks = tuple(tuple(place[f[k]] for f in known) for k in range(size))
            words = " with ".join(f"{f[0]} .. {f[-1]}" for f in known)
            found.append(Candidate(f"positions of {words}", bool(declared), blocks))
    return found


def _units(context: Context) -> list[Candidate]:
    """Return columns of numbers that share a unit: declared, or named like money."""
    kinds = dict(zip(context.table.names or (), context.table.kinds))
    numbers = [name for name, kind in kinds.items() if kind in ("number", "integer")]
    declared = [tuple(u) for u in context.setting("symmetry", "units", ())]
    money = tuple(n for n in numbers if any(part in MONEY for part in _parts(n)))
    found = []
    for unit in declared or [money]:
        known = tuple(name for name in unit if name in numbers)
        if len(known) >= 2:
            words = ", ".join(known[:3]) + (f" and {len(known) - 3} more" if known[3:] else "")
            found.append(Candidate(f"the unit of {words}", bool(declared), unit=known))
    return found


def _parts(name: str) -> list[str]:
    """Return the words of a column's name: ``BILL_AMT1`` and ``creditAmount`` have two."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [part.lower() for part in re.findall(r"[A-Za-z]+", spaced)]


def _by_length(families: Sequence[Sequence[str]]) -> Mapping[int, list[Sequence[str]]]:
    found: dict[int, list[Sequence[str]]] = defaultdict(list)
    for family in families:
        found[len(family)].append(family)
    return found


def numbered_families(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return columns with one stem and different numbers, three or more; and pairs of parties.

    Examples
    --------
    >>> numbered_families(["PAY_0", "PAY_2", "PAY_3", "AGE", "income", "co_income"])
    [('PAY_0', 'PAY_2', 'PAY_3'), ('income', 'co_income')]
    """
    stems: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name in names:
        match = re.fullmatch(r"(.*?\D)(\d{1,3})", name)
        if match:
            stems[match[1]].append((int(match[2]), name))
    found = [tuple(n for _, n in sorted(own)) for own in stems.values() if len(own) >= 3]
    for name in names:
        for start in ("co_", "co-", "coapplicant_", "co_applicant_"):
            if name.lower().startswith(start):
                rest = name[len(start) :].lower()
                found += [(n, name) for n in names if n.lower() in (rest, f"applicant_{rest}")]
    return found


def _changed(context: Context, candidate: Candidate) -> list[Table]:
    """Return the table under the candidate: a text transform, factors, or drawn permutations."""
    if candidate.unit:
        return [_scaled(context, candidate, np.full(context.n, factor)) for factor in FACTORS]
    if not candidate.blocks:
        change = TEXTS[candidate.name]
        return [Table.of([change(str(text)) for text in context.table.rows])]
    rng = np.random.default_rng(derive_seed("symmetry", int(context.seed), candidate.name))
    frame = context.table.frame()
    tables = []
    for _ in range(DRAWN):
        order = rng.permutation(len(candidate.blocks))
        columns = np.arange(frame.shape[1])
        for target, source in zip(candidate.blocks, order.tolist()):
            columns[list(target)] = candidate.blocks[source]
        moved = frame.iloc[:, columns].set_axis(frame.columns, axis=1)
        rows = moved if isinstance(context.table.rows, pd.DataFrame) else moved.to_numpy()
        tables.append(Table.of(rows))
    return tables


def _scaled(context: Context, candidate: Candidate, factor: FloatArray) -> Table:
    """Return the table with the columns of a unit multiplied row by row; codes stay codes."""
    frame = context.table.frame().copy()
    codes = context.setting("data", "special_codes", {})
    for name in candidate.unit:
        column = frame[name].astype(np.float64)
        kept = column.isin([*codes.get("*", ()), *codes.get(name, ())])
        frame[name] = column.where(kept, column * factor)
    return Table.of(frame)


def _without_unit(context: Context, candidate: Candidate) -> Table:
    """Return the table with the columns of a unit divided by their mean size in the row."""
    part = context.table.frame()[list(candidate.unit)].astype(np.float64)
    size = part.abs().mean(axis=1).to_numpy()
    return _scaled(context, candidate, 1.0 / np.where(np.isfinite(size) & (size > 0), size, 1.0))


def _decisions(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return how many decisions of the given model change under each candidate."""
    every, records = candidates(context), []
    for item in items.tolist():
        before = context.accepted
        flips = np.mean(
            [
                context.accepts(context.estimator, t) != before
                for t in _changed(context, every[item])
            ],
            axis=0,
        )
        records.append({"item": item, "changed": float(flips.mean()), "rows": context.n})
    return records


def _label_seconds(context: Context, pilot: Pilot, m: int) -> float:
    """Return the seconds of so many tests; a race fits on all images of its rows, five times."""
    total, n = 0.0, context.n
    for one in candidates(context)[:m]:
        if one.blocks:
            rows = min(n, MOST_ROWS)
            images = rows * math.factorial(len(one.blocks[:MOST_PLACES]))
            total += 15 * pilot.fit(0.8 * rows) + 5 * pilot.fit(0.8 * images)
            total += 10 * pilot.predict * images
        else:
            total += 10 * (pilot.fit(0.8 * n) + pilot.predict * n / 5)
    return total


def _labels(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return whether clones that use the symmetry are better, cross-fitted and paired."""
    every, records = candidates(context), []
    for item in items.tolist():
        one = every[item]
        found = _race(context, one) if one.blocks else _paired(context, one)
        records.append({"item": item, **found})
    return records


def _race(context: Context, candidate: Candidate) -> dict[str, Any]:
    """Return the verdict of the advisor on columns that swap together."""
    blocks = [list(block) for block in candidate.blocks[:MOST_PLACES]]
    group = groups.column_permutations(context.table.width, blocks)
    rows = np.sort(context.order[:MOST_ROWS])
    with quiet():
        advice = symmetry_advisor(
            context.template, context.table.take(rows), context.labels[rows], group,
            candidates=["plain", "vote", "augment", "canonical"], check=False, race=None,
            n_boot=100, random_state=context.seed,
        )  # fmt: skip
    return {"verdict": VERDICTS[advice.verdict], "reason": advice.reason, "better": -1, "worse": -1}


def _paired(context: Context, candidate: Candidate) -> dict[str, Any]:
    """Return the exact paired test of clones that cannot see the change against plain ones."""
    if candidate.unit:
        table = _without_unit(context, candidate)
    else:
        (table,) = _changed(context, candidate)
    better = worse = 0
    for k, (train, test) in enumerate(zip(context.folds.train, context.folds.test)):
        y = context.wanted[test]
        plain = context.accepts(context.model_of(k), context.table.part(test)) == y
        other = context.accepts(context.fit(train, table), table.part(test)) == y
        better += int((other & ~plain).sum())
        worse += int((plain & ~other).sum())
    differ = better + worse
    p = binomial_p_value(better, differ, 0.5) if differ else 1.0
    verdict = "no difference"
    if p < LEVEL:
        verdict = "use it" if better > worse else "do not use it"
    reason = f"{better} better, {worse} worse, p = {p:.2g}"
    return {"verdict": verdict, "reason": reason, "better": better, "worse": worse}


def _result(context: Context, decisions: pd.DataFrame, labels: pd.DataFrame) -> SectionResult:
    every = candidates(context)
    said = labels.set_index("item") if len(labels) else labels
    lines, findings, actions, quantities = [], [], [], {}
    for row in decisions.itertuples(index=False):
        one = every[int(row.item)]
        number = Quantity.certain(row.changed, unit="share", n=int(row.rows))
        verdict, reason = "holds already", "changes no decision"
        if row.changed > 0:
            known = len(said) and row.item in said.index
            verdict = said["verdict"][row.item] if known else "not tested"
            why = "the model cannot be fitted again" if context.template is None else "no time left"
            reason = said["reason"][row.item] if known else why
        lines.append((one.name, number, verdict, reason, "yes" if one.declared else "suggested"))
        quantities[quantity_key("symmetry_changed", {"symmetry": one.name})] = number
        if verdict == "use it":
            findings.append(
                Finding(
                    name="symmetry", severity="medium", quantity=number,
                    sentence=f"Clones that ignore {one.name} are better ({reason}); "
                    f"{row.changed:.1%} of decisions depend on it now.".replace("%", " %"),
                )
            )  # fmt: skip
            actions.append(
                Action(
                    name=f"ignore {one.name}", title=f"Fit a model that ignores {one.name}",
                    how="change the rows before fitting, or take a learner of "
                    "`counterplay.invariance`", effort=3,
                    note=f"Cross-fitted clones: {reason}; the gain in money was not measured.",
                )
            )  # fmt: skip
    lead = [
        "Share of decisions that change, and whether a model that ignores the change is better."
    ]
    if any(not one.declared for one in every):
        lead.append("Candidates from names are suggestions: confirm that these may be swapped.")
    names = ("change", "decisions that change", "verdict", "why", "declared")
    return SectionResult(
        name="symmetry",
        title=SymmetrySection.title,
        lead=tuple(lead),
        findings=tuple(findings),
        actions=tuple(actions),
        tables=(
            Grid(
                title="Changes that should not matter", rows=tuple(lines),
                columns=tuple(Column(name=c, number=c == names[1]) for c in names),
            ),
        ),
        quantities=quantities,
    )  # fmt: skip
