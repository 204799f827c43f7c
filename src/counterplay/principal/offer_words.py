"""Sentences about a fitted log: money with its currency, warnings before advice, what is unknown.

Source: docs/theory/25-offers.md, "What a log identifies".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.report import at_least

if TYPE_CHECKING:
    from counterplay.principal.offer_fit import OfferFit

FALLS = "the response falls where the incentive rises"
_MOST_LINES = 12


def money(amount: float, currency: str = "") -> str:
    """Return an amount with its currency; "unknown" where there is no finite number."""
    if not math.isfinite(amount):
        return "unknown"
    size = abs(amount)
    text = f"{amount:,.0f}" if size >= 1000 else f"{amount:.4g}"
    return f"{text} {currency}".strip()


def plain_offer(offer: Any) -> str:
    """Return an offer as a short text."""
    return f"{offer:.6g}" if isinstance(offer, float) else str(offer)


def warnings(fit: OfferFit) -> tuple[str, ...]:
    """What the checks found, as sentences."""
    found = []
    if not fit.monotone:
        found.append(
            f"{FALLS} (p = {fit.band.p_value:.2g}): nothing is said about untried offers; are "
            "offers chosen by demand? compare within= strata"
        )
    texts = {
        "drift": "outcomes drift over time",
        "carry-over": "outcomes depend on the offer before",
        "offers follow time": "offers follow the calendar, so effects of time and offer mix",
    }
    for row in fit.checks().itertuples():
        if row.verdict == "found":
            found.append(f"{texts[row.check]} (p = {row.p_value:.2g})")
    dominated = fit.band.groups.dominated
    if dominated.size:
        offers, powers = fit.log.distinct
        at = [int(np.searchsorted(powers, fit.band.groups.low[g])) for g in dominated[:3]]
        names = ", ".join(plain_offer(offers[i]) for i in at)
        found.append(f"one sale dominates (offer {names}): upper limits are too low")
    return tuple(found)


def not_identified(fit: OfferFit) -> tuple[str, ...]:
    """What no analysis of this log can say."""
    log, said = fit.log, []
    offers, _ = log.distinct
    weak, strong = plain_offer(offers[0]), plain_offer(offers[-1])
    if not fit.terms.ordered:
        said.append("arms that were never tried")
    elif not fit.monotone:
        said.append(f"offers that were never made: {FALLS}")
    else:
        above = "unknown" if math.isinf(fit.band.ceiling) else f"at most {fit.band.ceiling:g}"
        said.append(f"the response to offers stronger than {strong}: {above}")
        said.append(f"the response to offers weaker than {weak}: only that it is not larger")
    if fit.terms.ordered:
        said.append(
            "the level of the other side's costs, how many efforts it has, efforts never induced"
        )
    said.append(
        "how large the other side's regret is: a log without costs shows only a least value"
    )
    return tuple(said)


def reason(fit: OfferFit, rule: str, n: int) -> str:
    """Why this offer, with the warnings first."""
    why = {
        "winner": f"largest estimate of {n} tried offers"
        + (" (isotonic means)" if fit.terms.ordered and fit.monotone else ""),
        "safe": f"largest lower limit of {n} tried offers; the limits hold together",
    }[rule]
    found = fit.warnings
    return f"WARNING: {'; '.join(found)}. {why}" if found else why


def fit_summary(fit: OfferFit) -> str:
    """The whole story of a log as text."""
    log, currency = fit.log, fit.currency
    lines = [f"WARNING: {text}" for text in fit.warnings]
    dropped = f", {log.dropped} rows without a number left out" if log.dropped else ""
    lines.append(
        f"{len(log)} rows of {log.offer} ({fit.terms.stated()}) and {log.outcome}{dropped}; "
        f"limits hold for all offers at once with about {at_least(fit.level)}"
    )
    lines += _table(fit)
    best, safe = fit.next_offer(), fit.next_offer("safe")
    for name, found in (("winner", best), ("safe", safe)):
        lines.append(
            f"{name}: {log.offer} {plain_offer(found.offer)}, about "
            f"{money(found.estimate, currency)} per round, at least "
            f"{money(found.promise, currency)}"
        )
    if fit.terms.ordered:
        lines += _behind(fit)
    lines += [f"not identified: {text}" for text in fit.not_identified]
    lines += _notes(fit)
    return "\n".join(lines)


def _table(fit: OfferFit) -> list[str]:
    """One line per candidate offer: rows, response and money."""
    log, currency = fit.log, fit.currency
    offers, _ = log.distinct
    at = fit.candidates
    shown = (
        at if at.size <= _MOST_LINES else at[np.linspace(0, at.size - 1, _MOST_LINES).astype(int)]
    )
    asked = [offers[i] for i in shown]
    response, value = fit.response(asked), fit.value(asked)
    lines = []
    for r, v in zip(response.itertuples(), value.itertuples()):
        lines.append(
            f"  {plain_offer(r.offer):>8}: {log.outcome} {r.estimate:.4g} "
            f"[{r.lower:.4g}, {_end(r.upper)}]; ours {money(v.estimate, currency)} "
            f"[{money(v.lower, currency)}, {money(v.upper, currency)}] per round"
        )
    if shown.size < at.size:
        lines.append(f"  ({at.size} groups of offers; to_frame() has all)")
    return lines


def _end(limit: float) -> str:
    return f"{limit:.4g}" if math.isfinite(limit) else "unknown"


def _behind(fit: OfferFit) -> list[str]:
    """Costs, regret and what fall could have been seen."""
    lines = []
    costs = fit.costs()
    if fit.monotone and len(costs) > 1:
        last = costs.iloc[-1]
        lines.append(
            f"the other side's cost under {plain_offer(last['offer'])} is "
            f"{money(last['lower'], fit.currency)} to {money(last['upper'], fit.currency)} per "
            f"round above that under {plain_offer(costs.iloc[0]['offer'])}"
        )
    lines.append(
        f"the other side's regret is at least {money(fit.smallest_regret, fit.currency)} per round "
        "at the means"
    )
    fall = fit.band.visible_fall()
    if fit.monotone and math.isfinite(fall):
        lines.append(
            f"a response that never falls fits (p = {fit.band.p_value:.2g}); a fall of about "
            f"{min(fall, 9.99):.0%} between neighbouring offers would be seen in four logs of five"
        )
    return lines


def _notes(fit: OfferFit) -> list[str]:
    notes = []
    if fit.band.groups.dropped > 0:
        notes.append(
            f"{fit.band.groups.dropped:.0%} of the rows lie in strata without all offers and are "
            "left out"
        )
    for name, rows in fit.aside[:5]:
        of = "" if fit.log.agent is None else ", or all of one agent"
        told = f"{rows} rows are too few for limits, too alike{of}; left out"
        notes.append(f"{plain_offer(name)}: {told}")
    checks = fit.checks()
    unchecked = checks.loc[checks["verdict"].str.startswith("not checked: give"), "check"]
    if len(unchecked):
        notes.append(f"not checked without time=: {', '.join(unchecked)}")
    return notes
