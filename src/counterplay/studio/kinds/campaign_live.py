"""What changes on the pages of a campaign while they are open, as texts by name.

The pages are written with the same texts, so that what is there at first and what follows agree.
"""

from __future__ import annotations

from typing import Any

from counterplay.studio.kinds.campaign_fold import CampaignFold
from counterplay.studio.kinds.campaign_views import coordinator, ledger
from counterplay.studio.web.texts import Language

_SCOPES = ("all parties", "remaining parties", "later parties")
_SPARE = 3
"""Certificates of all, remaining and later parties, beside one for each party."""


def live_ledger(state: CampaignFold, party: str, t: Language) -> dict[str, str]:
    """The ledger as a party sees it."""
    return ledger_texts(ledger(state, party), party, t)


def live_coordinator(state: CampaignFold, t: Language) -> dict[str, str]:
    """Everything on the coordinator's page that moves."""
    return coordinator_texts(coordinator(state), t)


def ledger_texts(found: dict[str, Any], party: str | None, t: Language) -> dict[str, str]:
    """The accounts, the bars, what they come to, and what can be signed."""
    rows, widest = found["rows"], found["widest"]
    told = {"you": "", "nobody-more": ""}
    for i, row in enumerate(rows):
        told |= _row(row, str(i), widest, t)
        if row["party"] == party:
            told["you"] = t("ledger.you", n=row["asked"], alone=row["alone_at_least"])
    for name, key in _COLUMNS.items():
        told[f"{name}-all"] = _count(found["total"][key])
    if found["nobody_more"]:
        told["nobody-more"] = t("ledger.nobody_more")
    elif found["nobody_more_but"]:
        told["nobody-more"] = t("ledger.nobody_more_but")
    signed = [_certificate(one, t) for one in found["certificates"]]
    told["no-certificate"] = "" if signed else t("ledger.no_certificate")
    places = max(len(signed), found["parties"] + _SPARE)
    return told | {f"certificate-{i}": (signed[i : i + 1] or [""])[0] for i in range(places)}


def coordinator_texts(found: dict[str, Any], t: Language) -> dict[str, str]:
    """The ledger of all parties, who answered how much, and what is open since when."""
    told = ledger_texts(found["ledger"], None, t)
    answered, waits = found["answered"], {row["party"]: row for row in found["open"]}
    told["answered"] = t(
        "coordinator.answered", answers=t("study.progress_asked", n=sum(answered.values())),
        items=t("coordinator.items", n=found["items"]),
    )  # fmt: skip
    for i, (party, n) in enumerate(answered.items()):
        row = waits.get(party)
        told[f"answers-{i}"] = str(n)
        told[f"open-{i}"] = t("coordinator.open_row", n=row["open"]) if row else ""
        told[f"since-{i}"] = row["since"] if row else ""
    none = "coordinator.finished" if found["finished"] else "coordinator.none_open"
    told["none-open"] = "" if waits else t(none)
    return told


_COLUMNS = {"asked": "asked", "alone": "alone_at_least", "saved": "saved_at_least",
            "free": "free", "retracted": "retracted"}  # fmt: skip


def _row(row: dict[str, Any], i: str, widest: int, t: Language) -> dict[str, str]:
    told = {f"{name}-{i}": _count(row[key]) for name, key in _COLUMNS.items()}
    told[f"state-{i}"] = t(f"ledger.by_{row['finished_by']}")
    for name in ("asked", "alone"):
        n = row[_COLUMNS[name]]
        told[f"bar-{name}-{i}"] = told[f"figure-{name}-{i}@aria-label"] = t(
            f"ledger.bar_{name}", n=n
        )
        told[f"fill-{name}-{i}@width"] = f"{100 * n / widest:.2f}"
    return told


def _count(n: int | None) -> str:
    return "–" if n is None else str(n)


def _certificate(c: dict[str, Any], t: Language) -> str:
    """A certificate in words, with what it does not cover."""
    known = c["scope"] in _SCOPES
    scope = t(f"ledger.scope_{c['scope'].replace(' ', '_')}") if known else c["scope"]
    told = [
        t("ledger.certificate", scope=scope, bound=t.percent(c["bound"]),
          n=t.number(c["items"]), confidence=t.stated(c["confidence"]),
          checked=c["checked"], wrong=c["wrong"])
    ]  # fmt: skip
    if c["first_to"]:
        told.append(t("ledger.certificate_noisy", n=c["first_to"]))
    if c["withdrawn"]:
        told.append(t("ledger.certificate_withdrawn", n=c["withdrawn"]))
    return " ".join(told)
