"""What people see of a campaign: a labeller's queue, the ledger, the coordinator's page.

Nothing here says which questions are checks; what is certified is told when it is.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from counterplay.studio.kinds.campaign_config import item_names
from counterplay.studio.kinds.campaign_fold import CampaignFold


def queue(state: CampaignFold, party: str) -> dict[str, Any]:
    """Everything on a labeller's page: open cards, the count, and why there may be none."""
    account = _account(state, party)
    cards = [
        {"question": state.secret(q.id), "item": q.item, "name": name, "rows": rows}
        for q in state.waiting(party)
        for name, rows in [_shown(state, q.item)]
    ]
    waiting = _waiting_for(state, party)
    mine = [a for a in state.answers.values() if a.party == party]
    return {
        "cards": cards,
        "classes": list(enumerate(state.config["classes"])),
        "answered": len(mine),
        "about": max(len(mine) + len(cards), account["alone_at_least"]),
        "others": waiting,
        "finished": state.state.finished,
        "left": account["state"] == "left",
        "done": account["state"] in ("own", "joint"),
        "image": state.config["page"]["image"] is not None,
        "can_undo": bool(mine),
        "begun": state.begun,
        "problem": state.problem,
    }


def own_answers(state: CampaignFold, party: str) -> list[dict[str, Any]]:
    """A party's own answers, newest first; each can be changed."""
    mine = [a for a in state.answers.values() if a.party == party]
    classes = state.config["classes"]
    return [
        {
            "question": state.secret(a.question), "name": _shown(state, a.item)[0], "at": a.at,
            "label": None if a.code < 0 else classes[a.code], "code": a.code, "source": a.source,
            "item": a.item,
        }
        for a in sorted(mine, key=lambda a: -a.seq)
    ]  # fmt: skip


def ledger(state: CampaignFold, party: str | None, *, estimate: bool = False) -> dict[str, Any]:
    """The account of every party; a party sees her own row and the sum of all.

    Parameters
    ----------
    state:
        The campaign now.
    party:
        Who looks; None for the coordinator, who sees all rows.
    estimate:
        Whether to estimate the saving in the end, which takes seconds.
    """
    report = state.campaign.work(estimate=estimate)
    rows: list[dict[str, Any]] = [
        {
            "party": p.party, "asked": p.asked, "alone_at_least": p.alone_at_least,
            "saved_at_least": p.saved_at_least, "free": p.free, "retracted": p.retracted,
            "finished_by": p.finished_by, "expected_saving": p.expected_saving,
        }
        for p in report.parties
    ]  # fmt: skip
    open_names = party is None or state.config["page"]["names_open"]
    names = ("asked", "alone_at_least", "saved_at_least", "free", "retracted")
    return {
        "rows": rows if open_names else [row for row in rows if row["party"] == party],
        "total": {name: sum(row[name] for row in rows) for name in names},
        "parties": len(rows),
        "certificates": certificates(state),
        "nobody_more": all(r["asked"] <= r["alone_at_least"] + r["retracted"] for r in rows),
        "solo": report.solo,
        "known": len(state.known),
        "widest": max([1, *(max(r["asked"], r["alone_at_least"]) for r in rows)]),
    }


def certificates(state: CampaignFold) -> list[dict[str, Any]]:
    """What can be signed now."""
    if state.state.joint is None:
        return []
    found = []
    for _, scope, _, _, certificate in state.vectors().values():
        if certificate is not None:
            found.append(
                {"scope": scope, "bound": certificate.bound, "checked": certificate.checked,
                 "wrong": certificate.wrong, "confidence": certificate.confidence}
            )  # fmt: skip
    return found


def coordinator(state: CampaignFold, now: datetime | None = None) -> dict[str, Any]:
    """Progress, open questions with their age, disagreements, and what went wrong."""
    moment = now or datetime.now(UTC)
    status = state.campaign.status() if not state.problem else None
    names = item_names(state.config["page"])
    open_questions = []
    for party in state.config["parties"]:
        asked = state.waiting(party)
        if asked:
            oldest = min(state.asked_at[q.id] for q in asked)
            age = moment - datetime.fromisoformat(oldest)
            open_questions.append({"party": party, "open": len(asked), "since": oldest,
                                   "hours": age.total_seconds() / 3600})  # fmt: skip
    answered: dict[str, int] = dict.fromkeys(state.config["parties"], 0)
    for answer in state.answers.values():
        answered[answer.party] += 1
    return {
        "ledger": ledger(state, None),
        "open": open_questions,
        "answered": answered,
        "days": _days(state),
        "states": status.state if status else {},
        "finished": state.state.finished,
        "disagreements": [
            {"item": item, "name": names[item], "note": note, "answers": _said(state, item)}
            for item, note in state.disagreed.items()
        ],
        "withdrawn": [
            {"name": names[item], "reason": why} for item, why in state.state.withdrawn.items()
        ],
        "problem": state.problem,
        "items": len(names),
        "begun": state.begun,
        "imported": len(state.imported),
    }


def numbers(state: CampaignFold, party: str | None) -> dict[str, str]:
    """The numbers that change while a page is open, as texts by name."""
    report = state.campaign.work()
    told = {}
    for i, p in enumerate(report.parties):
        if party is None or p.party == party:
            key = str(i) if party is None else "own"
            told[f"asked-{key}"] = str(p.asked)
            told[f"alone-{key}"] = str(p.alone_at_least)
            told[f"saved-{key}"] = str(p.saved_at_least)
    total = sum(p.asked for p in report.parties)
    told["asked-all"] = str(total)
    told["alone-all"] = str(sum(p.alone_at_least for p in report.parties))
    told["saved-all"] = str(sum(p.saved_at_least for p in report.parties))
    told["answered-all"] = str(len(state.answers))
    return told


def _account(state: CampaignFold, party: str) -> dict[str, Any]:
    inner = state.state
    number = inner.names.index(party)
    shadow = None if inner.joint is None else inner.joint.shadows.get(number)
    if number in inner.gone:
        return {"state": "left", "alone_at_least": 0}
    if shadow is None:
        return {"state": "open", "alone_at_least": 0}
    return {"state": shadow.finished_by, "alone_at_least": shadow.alone_at_least}


def _waiting_for(state: CampaignFold, party: str) -> int:
    """How many questions of others decide what comes next."""
    return sum(q.party != party for q in state.campaign._open())


def _shown(state: CampaignFold, item: int) -> tuple[str, list[tuple[str, str]]]:
    page = state.config["page"]
    row = page["rows"][item]
    place = {c: j for j, c in enumerate(page["columns"])}
    name = f"{row[place[page['id']]]}" if page["id"] else str(item + 1)
    hidden = {page["id"], page["image"]}
    if page["text"] is not None:
        return name, [("", str(row[place[page["text"]]] or ""))]
    return name, [(c, _cell(row[place[c]])) for c in page["columns"] if c not in hidden]


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _said(state: CampaignFold, item: int) -> list[tuple[str, str]]:
    classes = state.config["classes"]
    return [
        (a.party, "–" if a.code < 0 else classes[a.code])
        for a in state.answers.values()
        if a.item == item
    ]


def _days(state: CampaignFold) -> list[tuple[str, int]]:
    found: dict[str, int] = {}
    for answer in state.answers.values():
        found[answer.at[:10]] = found.get(answer.at[:10], 0) + 1
    return sorted(found.items())[-30:]
