"""What people see of a campaign: a labeller's queue, the ledger, the coordinator's page.

Nothing here says which questions are checks; what is certified is told when it is.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from counterplay.studio.kinds.campaign_config import item_names
from counterplay.studio.kinds.campaign_fold import CampaignFold


def queue(state: CampaignFold, party: str) -> dict[str, Any]:
    """Everything on a labeller's page: open cards, the count, and why there may be none.

    All of it is read from the record, so that a page costs the same whatever its cards are for.
    """
    cards = [
        {"question": state.secret(q.id), "item": q.item, "name": name, "rows": rows}
        for q in (() if state.departed else state.waiting(party))
        for name, rows in [_shown(state, q.item)]
    ]
    answered = state.counts.get(party, 0)
    return {
        "cards": cards,
        "classes": list(enumerate(state.config["classes"])),
        "answered": answered,
        "about": max(answered + len(cards), state.alone.get(party, 0)),
        "others": sum(len(waits) for name, waits in state.cards.items() if name != party),
        "finished": state.over,
        "standing": standing(state, party),
        "image": state.config["page"]["image"] is not None,
        "can_undo": answered > 0 and not state.departed,
        "begun": state.begun,
        "problem": state.problem,
        "departed": state.departed is not None,
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

    Before the campaign begins there is none: nothing was asked. A party is told
    of questions that were handed out: how many more are meant for her would tell what they are for.

    Parameters
    ----------
    state:
        The campaign now.
    party:
        Who looks; None for the coordinator, who sees all rows.
    estimate:
        Whether to estimate the saving in the end, which takes seconds.
    """
    rows = accounts(state, handed_out=party is not None, estimate=estimate) if state.begun else []
    open_names = party is None or state.config["page"]["names_open"]
    names = ("asked", "alone_at_least", "saved_at_least", "retracted")
    return {
        "rows": rows if open_names else [row for row in rows if row["party"] == party],
        "total": {name: sum(row[name] for row in rows) for name in names}
        | {"free": None if state.departed else sum(row["free"] or 0 for row in rows)},
        "parties": len(state.config["parties"]),
        "begun": state.begun,
        "certificates": certificates(state),
        "nobody_more": all(r["asked"] <= r["alone_at_least"] for r in rows),
        "nobody_more_but": all(r["asked"] <= r["alone_at_least"] + r["retracted"] for r in rows),
        "solo": state.solo,
        "known": len(state.known),
        "widest": max([1, *(max(r["asked"], r["alone_at_least"]) for r in rows)]),
        "departed": state.departed is not None,
        "changes": state.changes,
    }


def accounts(
    state: CampaignFold, *, handed_out: bool = False, estimate: bool = False
) -> list[dict[str, Any]]:
    """The account of every party, from the area's report; from the record where that departs."""
    if state.departed:
        return [state.account(party) for party in state.config["parties"]]
    rows = []
    for p in state.campaign.work(estimate=estimate).parties:
        row = {
            "party": p.party, "asked": p.asked, "alone_at_least": p.alone_at_least,
            "saved_at_least": p.saved_at_least, "free": p.free, "retracted": p.retracted,
            "finished_by": standing(state, p.party), "expected_saving": p.expected_saving,
        }  # fmt: skip
        if p.party in state.done:
            row = state.done[p.party]
        elif handed_out:
            later = row["asked"] - state.account(p.party)["asked"]
            row |= {"asked": row["asked"] - later, "saved_at_least": row["saved_at_least"] + later}
        rows.append(row)
    return rows


def standing(state: CampaignFold, party: str) -> str:
    """How a party stands: "open", "left", with its "own" or a "joint" certificate, or "all" asked.

    A party whose every question was asked need not have a certificate: skipped checks prove
    nothing.
    """
    found = state.standing(party)
    if state.departed or found != "open" or state.state.joint is None:
        return found
    shadow = state.state.joint.shadows.get(state.state.names.index(party))
    return "open" if shadow is None or shadow.live else "all"


def certificates(state: CampaignFold) -> list[dict[str, Any]]:
    """What can be signed now, as it was stated, and of which items it speaks.

    Items that came later are not covered; a withdrawn one was looked at first.
    """
    config = state.config
    found = []
    for c in state.certified.values():
        test = state.launched[c.vector]
        found.append({
            "scope": c.scope, "bound": c.bound, "checked": c.checked, "wrong": c.wrong,
            "confidence": config["confidence"], "items": test.n,
            "withdrawn": len(state.withdrawn.keys() & set(test.items)),
            "first_to": config["first_to"] if config["noisy"] else None,
        })  # fmt: skip
    return found


def coordinator(state: CampaignFold, now: datetime | None = None) -> dict[str, Any]:
    """Progress, open questions with their age, disagreements, and what went wrong."""
    moment = now or datetime.now(UTC)
    names = item_names(state.config["page"])
    open_questions = []
    for party in state.config["parties"]:
        asked = state.waiting(party)
        if asked:
            oldest = min(state.asked_at[q.id] for q in asked)
            age = moment - datetime.fromisoformat(oldest)
            open_questions.append({"party": party, "open": len(asked), "since": oldest,
                                   "hours": age.total_seconds() / 3600})  # fmt: skip
    return {
        "ledger": ledger(state, None),
        "open": open_questions,
        "answered": {party: state.counts.get(party, 0) for party in state.config["parties"]},
        "finished": state.over,
        "disagreements": [
            {"item": item, "name": names[item], "note": note, "answers": _said(state, item)}
            for item, note in state.disagreed.items()
        ],
        "withdrawn": [
            {"name": names[item], "reason": why} for item, why in state.withdrawn.items()
        ],
        "problem": state.problem,
        "items": len(names),
        "begun": state.begun,
        "imported": len(state.imported),
        **_other_rule(state),
    }


def leaving(state: CampaignFold, party: str) -> dict[str, int]:
    """What there is of a party: open questions and answers, and what was certified so far."""
    return {
        "open": len(state.waiting(party)),
        "answers": sum(answer.party == party for answer in state.answers.values()),
        "certified": len(state.certified),
    }


def _other_rule(state: CampaignFold) -> dict[str, Any]:
    """What a coordinator must know where the rule of today departs from the record."""
    from counterplay.studio.kinds.campaign import began, cannot_go_on

    if state.departed is None:
        return {"departed": None}
    return {
        "departed": {
            "seq": state.departed.seq, "then": began(state), "finished": state.over,
            "cannot": None if state.over else cannot_go_on(state),
        }
    }  # fmt: skip


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
