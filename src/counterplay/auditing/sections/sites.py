"""Rows from several sites: what each should bring, and who would rather hold back.

The sites are the values of a column of the table, or files of their own. The plan is that of
``contribution.plan_consortium`` with the model itself where it can be fitted again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context, quiet
from counterplay.auditing.findings import Column, Finding, Grid, Missing, SectionResult
from counterplay.auditing.quantity import Quantity
from counterplay.auditing.section import Pilot, Stage, stage_records
from counterplay.contribution import plan_consortium
from counterplay.core.validation import IntArray

LEAST = 20  # rows of a site: fewer cannot be held out
CONFIDENCE = 0.9
WITHIN = 0.01
FITS = 192  # of a plan with two rounds of verifying


class SitesSection:
    """Who can leave?"""

    name, title, order, version = "sites", "Who can leave?", 50, 2
    reads = ("sites", "columns", "data")

    def needs(self, context: Context) -> list[Missing]:
        """Return what is missing: at least two sites with enough rows and both outcomes."""
        if context.setting("sites", "files"):
            return []
        if context.setting("sites", "column") is None:
            return [Missing(sentence="No sites were given.", key="[sites] column")]
        if context.table.container not in ("table", "matrix"):
            return [Missing(sentence="Sites are planned for tables, not for raw texts.")]
        if len(_large(context)[0]) < 2:
            return [
                Missing(
                    sentence=f"Fewer than two sites have {LEAST} rows and both outcomes.",
                    key="[sites] column",
                )
            ]
        return []

    def stages(self, context: Context) -> list[Stage]:
        """Return one stage: measure and plan."""

        def seconds(pilot: Pilot, m: int) -> float:
            return 5.0 + FITS * pilot.fit(context.n / 3)

        return [
            Stage(name="plan", items=1, n_min=1, n_want=1, batch=1, run=_plan, seconds=seconds)
        ]  # fmt: skip

    def result(self, context: Context, records: pd.DataFrame) -> SectionResult:
        """Return the plan by site and who would hold back."""
        return _result(stage_records(records, "plan"))


def _large(context: Context) -> tuple[dict[str, IntArray], int]:
    """Return the rows of every site that can be planned, and how many rows the others have."""
    names = pd.Series(
        context.values(context.setting("sites", "column"), "[sites] column"), dtype=object
    )
    rows = {
        str(name): np.asarray(places)
        for name, places in names.groupby(names, sort=True).indices.items()
    }
    kept = {
        name: places
        for name, places in rows.items()
        if len(places) >= LEAST and 0 < context.wanted[places].sum() < len(places)
    }
    return kept, context.n - sum(map(len, kept.values()))


def _plan(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return one record per site and one for the whole plan."""
    files = context.setting("sites", "files")
    options: dict[str, Any] = {"progress": False, "random_state": context.seed}
    left_out = 0
    if files:
        sites: dict[str, Any] = {Path(file).stem: file for file in files}
        options["label"] = context.setting("data", "label")
    else:
        rows, left_out = _large(context)
        sites = {
            name: (context.table.take(places), context.labels[places])
            for name, places in rows.items()
        }
        if context.template is not None:
            options["model"] = context.template
    with quiet():
        plan = plan_consortium(sites, f"within={WITHIN}", confidence=CONFIDENCE, **options)
    chosen = plan.plans[plan.recommended or "share"]
    promised = plan.promised
    records: list[dict[str, Any]] = [
        {
            "item": 0, "kind": "site", "site": str(site), "owned": int(plan.owned[site]),
            "rows": int(chosen.rows[site]), "expected": float(chosen.expected[site]),
            "low": float(chosen.low[site]), "high": float(chosen.high[site]),
            "promise": bool(promised[site]), "basis": str(chosen.basis[site]),
            "sure": float(chosen.sure[site]), "perhaps": float(chosen.perhaps[site]),
        }
        for site in plan.owned.index
    ]  # fmt: skip
    records.append(
        {
            "item": 0, "kind": "plan", "site": plan.recommended or "",
            "owned": int(plan.owned.sum()), "rows": chosen.total,
            "against": float(chosen.against_interest.sum()),
            "stable": plan.stable is not None, "why": plan.why_not.get("stable", ""),
            "left_out": left_out,
        }
    )  # fmt: skip
    return records


def _result(records: pd.DataFrame) -> SectionResult:
    sites = records[records["kind"] == "site"]
    whole = records[records["kind"] == "plan"].iloc[0]
    total, owned = int(whole["rows"]), int(whole["owned"])
    lines = tuple(
        (
            str(row.site), int(row.owned), int(row.rows), _score(row),
            _promise(bool(row.promise), str(row.basis)), round(float(row.sure)),
            round(float(row.perhaps)),
        )
        for row in sites.itertuples(index=False)
    )  # fmt: skip
    against = float(whole["against"])
    moved = Quantity.certain(against, unit="rows", n=owned, basis="measured")
    return SectionResult(
        name="sites",
        title=SitesSection.title,
        lead=(
            f"Promise to each site: at most {WITHIN:.0%} below what pooling everything gives it, "
            f"with {CONFIDENCE:.0%} confidence.",
            *_left_out(int(whole["left_out"])),
        ),
        findings=(*_findings(whole, sites, total, owned, moved),),
        tables=(
            Grid(
                title="What each site should bring", rows=lines,
                columns=(
                    Column(name="site"), Column(name="owns", number=True),
                    Column(name="brings", number=True), Column(name="accuracy", number=True),
                    Column(name="promise"), Column(name="could surely hold back", number=True),
                    Column(name="could perhaps hold back", number=True),
                ),
                note="Rows. Modelled: the site has too few rows to check the promise on them.",
            ),
        ),
        quantities={"rows_against_interest": moved},
        assumptions=("Rows of a site are a fair sample of its future rows.",),
    )  # fmt: skip


def _findings(
    whole: pd.Series, sites: pd.DataFrame, total: int, owned: int, moved: Quantity
) -> list[Finding]:
    if not whole["site"]:
        sentence = "One model does not suit these sites: some do better with their own rows alone."
        return [Finding(name="site_plan", sentence=sentence, severity="high")]
    sentence = (
        f"{total:,} of {owned:,} rows keep every promise that can be given (plan: {whole['site']})."
    )
    found = [Finding(name="site_plan", sentence=sentence, severity="low")]
    if not bool(whole["stable"]):
        found.append(
            Finding(
                name="no_stable_plan", severity="medium", quantity=moved,
                sentence="No plan is in everybody's own interest: "
                f"{moved.value:,.0f} rows are brought against it. Write them into a contract.",
            )
        )  # fmt: skip
    short = sites.loc[~sites["promise"].astype(bool), "site"]
    if len(short):
        found.append(
            Finding(
                name="no_promise", severity="medium",
                sentence=f"To {len(short)} of {len(sites)} sites nothing can be promised.",
            )
        )  # fmt: skip
    return found


def _score(row: Any) -> Quantity | None:
    if not np.isfinite([row.expected, row.low, row.high]).all():
        return None  # it contributes only
    low, high = min(row.low, row.expected), max(row.high, row.expected)
    return Quantity(
        value=row.expected, low=low, high=high, unit="share", basis="measured", n=int(row.owned),
        level=CONFIDENCE,
    )  # fmt: skip


def _promise(given: bool, basis: str) -> str:
    return f"yes, {basis}" if given else "none"


def _left_out(rows: int) -> tuple[str, ...]:
    if not rows:
        return ()
    return (f"{rows:,} rows of sites that are too small, or have one outcome only, are left out.",)
