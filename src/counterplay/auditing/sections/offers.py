"""A log of offers and outcomes: what it says, and the next offer with its promise."""

from __future__ import annotations

from typing import Any

import pandas as pd

from counterplay.auditing.context import Context, quiet
from counterplay.auditing.findings import Column, Finding, Grid, Missing, SectionResult
from counterplay.auditing.quantity import Quantity
from counterplay.auditing.section import Stage, stage_records
from counterplay.auditing.sections.logs import log_missing, read_log
from counterplay.core.validation import IntArray
from counterplay.principal import fit_game


class OffersSection:
    """What should be offered next?"""

    name, title, order, version = "offers", "What should be offered next?", 70, 1
    reads = ("offers",)

    def needs(self, context: Context) -> list[Missing]:
        """Return what is missing: the log."""
        return log_missing(context, "offers", "log of offers and outcomes")

    def stages(self, context: Context) -> list[Stage]:
        """Return one stage: the fit."""
        _columns(context)
        return [
            Stage(
                name="fit", items=1, n_min=1, n_want=1, batch=1, run=_fit,
                seconds=lambda pilot, m: 5.0,
            )
        ]  # fmt: skip

    def result(self, context: Context, records: pd.DataFrame) -> SectionResult:
        """Return the response at every offer, and the next offer."""
        return _result(stage_records(records, "fit"))


def _columns(context: Context) -> tuple[pd.DataFrame, str, str]:
    offer = str(context.setting("offers", "offer", "offer"))
    outcome = str(context.setting("offers", "outcome", "outcome"))
    return read_log(context, "offers", [offer, outcome]), offer, outcome


def _fit(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return the offers that were tried, and the next one."""
    log, offer, outcome = _columns(context)
    with quiet():
        fit = fit_game(
            log, offer=offer, outcome=outcome,
            terms=context.setting("offers", "terms", "commission"),
            unit_cost=float(context.setting("offers", "unit_cost", 0.0)), missing="drop",
            random_state=context.seed,
        )  # fmt: skip
        best = fit.next_offer()
        tried = fit.response(sorted(log[offer].dropna().unique().tolist()))
    records: list[dict[str, Any]] = [
        {
            "item": 0, "kind": "tried", "offer": row.offer, "estimate": float(row.estimate),
            "lower": float(row.lower), "upper": float(row.upper),
        }
        for row in tried.itertuples(index=False)
    ]  # fmt: skip
    records.append(
        {
            "item": 0, "kind": "next", "offer": best.offer, "estimate": float(best.estimate),
            "lower": float(best.promise), "upper": float("nan"), "reason": str(best.reason),
            "rows": len(log), "monotone": bool(fit.monotone),
        }
    )  # fmt: skip
    return records


def _result(records: pd.DataFrame) -> SectionResult:
    best = records[records["kind"] == "next"].iloc[0]
    tried = records[records["kind"] == "tried"]
    n = int(best["rows"])
    promise = Quantity.certain(best["lower"], unit="money per round", n=n, basis="measured")
    lines = tuple(
        (str(row.offer), Quantity(
            value=row.estimate, low=min(row.lower, row.estimate), high=max(row.upper, row.estimate),
            unit="outcome per round", basis="measured", n=n,
        ))
        for row in tried.itertuples(index=False)
    )  # fmt: skip
    sentence = (
        f"Offer {best['offer']} next: about {best['estimate']:,.4g} per round, promised "
        f"{best['lower']:,.4g} ({best['reason']})."
    )
    findings = [Finding(name="next_offer", sentence=sentence, severity="medium", quantity=promise)]
    if not bool(best["monotone"]):
        findings.append(
            Finding(
                name="not_monotone", severity="high",
                sentence="The response falls somewhere as the incentive rises: the log does not "
                "fit people who answer offers well.",
            )
        )  # fmt: skip
    return SectionResult(
        name="offers",
        title=OffersSection.title,
        findings=tuple(findings),
        tables=(
            Grid(
                title="Outcome by offer", rows=lines,
                columns=(Column(name="offer"), Column(name="outcome", number=True)),
            ),
        ),
        quantities={"next_offer_promise": promise},
        assumptions=("The other side answers each offer well; rows are independent.",),
    )  # fmt: skip
