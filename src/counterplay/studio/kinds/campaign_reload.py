"""A campaign computed again from its record: without what was erased, or by another rule.

What is left of the past is in the record: answers and what they were for, levels that are spent,
who has left, items that came or went. How the campaign got there is forgotten, so the result is the
same whoever computes it.
Source: docs/theory/28-studio.md, "Another rule" and Proposition 28.C.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec

import counterplay
from counterplay.labeling import campaign_log as lines
from counterplay.studio.kinds.campaign_adding import take_addition
from counterplay.studio.kinds.campaign_labels import certified_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from counterplay.labeling import Campaign
    from counterplay.labeling.campaign_state import CampaignState
    from counterplay.studio.kinds.campaign_record import CampaignRecord


def reload(campaign: Campaign, record: CampaignRecord) -> None:
    """Put a campaign into the state that its record describes; the protocol has not begun again."""
    state = campaign._state
    for added in record.added[len(state.amendments) :]:
        take_addition(campaign, added, record.config)
    for place, added in enumerate(record.added):
        state.amendments[place] = dataclasses.replace(state.amendments[place], round=added.begins)
        if added.joins:
            state.joined[state.names.index(added.party)] = added.begins
    _ask_again(campaign, record)
    state.withdrawn = dict(record.withdrawn)
    state.gone = {state.names.index(name) for name in {*record.gone, *record.done}}
    state.left = {number: _account(state, record, number) for number in state.gone}
    state.stand = certified_labels(record) if record.done else {}
    void = {party: n for party, n in record.retracted.items() if n}
    state.extra = {state.names.index(party): n for party, n in void.items()}
    state.spent, state.order = record.levels(), record.changes
    state.kept, state.paid, state.joint = [], {}, None
    state._remember(blind=True)
    state._restart()
    campaign._emitted, campaign._own = 0, set()
    campaign._ahead.clear()


def _ask_again(campaign: Campaign, record: CampaignRecord) -> None:
    """Questions with their purposes and answers, as they were handed out and given."""
    state = campaign._state
    campaign._questions, campaign._ids = dict(record.questions), {}
    state.given, state.purpose, campaign._answered = {}, {}, {}
    for name, asked in record.questions.items():
        party, key = campaign._where(asked)
        campaign._ids[party, key] = name
        state.purpose.setdefault(key, asked.kind)
        if name in record.answers:
            answer = record.answers[name]
            state.take(party, key, answer.code)
            campaign._answered[name] = answer.code, answer.labeler
    campaign._shown = set(record.asked_at)
    numbers = [int(name[1:]) for name in record.questions if name[1:].isdecimal()]
    campaign._numbered = max([campaign._numbered, *numbers])


def _account(state: CampaignState, record: CampaignRecord, number: int) -> tuple[int, int, int]:
    """What is known of a party that is no longer there; nothing if it was forgotten."""
    party = state.names[number]
    if party in record.forgotten:
        return 0, 0, 0
    asked = any(answer.party == party for answer in record.answers.values())
    known = (record.alone.get(party, 0), 0, 0) if asked else (0, 0, 0)
    return state.left.get(number, known)


def begun_alike(campaign: Campaign, start: Mapping[str, Any]) -> bool:
    """Whether a campaign of today has the settings and the committed orders of its first line."""
    now = msgspec.json.decode(campaign.events[0])
    told: Mapping[str, Any] = start.get("settings") or {}
    same = all(now["settings"].get(name) == value for name, value in told.items())
    return same and start.get("commit") == now["commit"]


def written_with() -> dict[str, Any]:
    """What the questions of this program depend on, as the log names it."""
    return {"library": counterplay.__version__, "versions": lines.versions()}


def differs(start: Mapping[str, Any]) -> list[str]:
    """Programs of which another version wrote the questions, with that version."""
    then = {"counterplay": start.get("library"), **(start.get("versions") or {})}
    now = {"counterplay": counterplay.__version__, **lines.versions()}
    return [f"{name} {str(then[name])[:40]}" for name in now if then.get(name) != now[name]]
