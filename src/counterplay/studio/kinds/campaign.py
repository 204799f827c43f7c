"""A labelling campaign of several parties as a study: one stream, the lines of the campaign's log.

The area decides what to ask; the studio hands the open questions out, at most ten per party, and
keeps what people said. Answers, skips and retractions are people's events; questions, frozen
labels, certificates and the result follow from them in the same transaction.
Source: docs/theory/28-studio.md and docs/theory/24-campaign.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from counterplay.core.exports import Event
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.labeling.campaign_questions import Question, label_code
from counterplay.studio.errors import Refused
from counterplay.studio.kinds import NewEvent
from counterplay.studio.kinds.campaign_adding import check_addition
from counterplay.studio.kinds.campaign_config import read_config
from counterplay.studio.kinds.campaign_fold import BATCH, CampaignFold
from counterplay.studio.kinds.campaign_reload import differs, written_with

SERVER = "studio"
_PEOPLE = ("tell", "skip", "retract", "withdraw", "party", "imported", "resolved", "add",
           "rule")  # fmt: skip


class CampaignKind:
    """Rules of a campaign; see :class:`counterplay.studio.kinds.Kind`."""

    name = "campaign"
    fold_version = 1

    def read_config(self, raw: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Read the pool, the owners and the classes."""
        return read_config(raw, folder)

    def parties(self, config: dict[str, Any]) -> list[str]:
        """Names of the parties; each has its own link."""
        return list(config["parties"])

    def begin(self, config: dict[str, Any]) -> CampaignFold:
        """Return the state of an empty stream."""
        return CampaignFold.begin(config)

    def apply(self, config: dict[str, Any], state: CampaignFold, event: Event) -> CampaignFold:
        """Take an event; what does not concern the campaign is passed over."""
        if event.kind.startswith("label.") or event.kind == "party.withdrawn":
            state.take(event)
        return state

    def check(self, config: dict[str, Any], state: CampaignFold, event: NewEvent) -> None:
        """Refuse what the campaign would not take."""
        word = event.kind.removeprefix("label.")
        if not event.kind.startswith("label.") or event.actor == SERVER:
            return
        if word not in _PEOPLE:
            raise Refused(f"A campaign takes no event {word[:40]!r}.")
        if state.departed and word not in ("party", "resolved", "rule"):
            raise Refused(stopped(state))
        if not state.begun and not (word == "imported" and "known" in event.body):
            raise Refused("The campaign has not begun.")
        try:
            _CHECKS[word](state, event.body)
        except Refused:
            raise
        except (InvalidInputError, ProtocolError, KeyError, TypeError, ValueError) as error:
            told = str(error) if isinstance(error, InvalidInputError | ProtocolError) else word
            raise Refused(f"{told[:1].upper()}{told[1:]}") from None

    def follow(
        self, config: dict[str, Any], state: CampaignFold, event: Event
    ) -> Sequence[NewEvent]:
        """Begin, hand out questions, and say what follows from the answers."""
        opens = event.kind == "study.opened" and not state.begun
        again = event.kind == "label.imported" and not state.begun
        if state.departed:
            if opens or state.departed.seq == event.seq:  # what is new cannot depart: take nothing
                raise Refused(stopped(state))
            return []
        if opens or again:
            line = msgspec.json.decode(state.campaign.events[0])
            del line["type"]
            return [NewEvent("label.start", line, f"start:{event.hash[:32]}", SERVER)]
        if not event.kind.startswith("label.") or not state.begun or state.problem:
            return []
        if event.kind in ("label.ask", "label.disagreed", "label.resolved", "label.result"):
            return []
        if state.moved:
            state.even_out()
        return [*_next(state, event)]

    def erases(self, config: dict[str, Any], events: Sequence[Event], party: str) -> Iterable[int]:
        """Say which events lose their content: the party's own, and where others differ from it."""
        mine = [e for e in events if e.actor == party and e.kind != "party.withdrawn"]
        names = {str((e.body or {}).get("party")) for e in mine}
        differ = [
            e for e in events
            if e.kind == "label.disagreed" and e.body is not None
            and any(name in names for name, _ in e.body["answers"])
        ]  # fmt: skip
        return [e.seq for e in (*mine, *differ)]

    def export(self, config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return what line 1 of an export states."""
        return "campaign", config


def _next(state: CampaignFold, event: Event) -> Iterable[NewEvent]:
    """What follows from an event: one thing at a time until only questions are left to hand out."""
    mark = event.hash[:24]
    due = state.due() if state.pending else None
    if due is not None:
        yield NewEvent(f"label.{due[0]}", due[1], f"{due[0]}:{mark}", SERVER)
        return
    yield from _differing(state, event, mark)
    yield from _handed_out(state, event, mark)
    if state.pending and state.over and state.stated is None:
        yield NewEvent("label.result", state.result(), f"result:{mark}", SERVER)


def _handed_out(state: CampaignFold, event: Event, mark: str) -> Iterable[NewEvent]:
    """Open questions for every party, in an order that tells nothing, ten at a time.

    The next ten come when a party has answered these, so that an answer costs the same, and shows
    the same, whatever it is for.
    """
    answer = state.answers.get(str((event.body or {}).get("id")))
    if answer is not None and state.cards[answer.party] and not state.pending:
        return  # the party goes on with the cards that it has
    campaign = state.campaign
    dealt = {party: len(cards) for party, cards in state.cards.items()}
    fresh = [q for q in campaign._open() if q.id not in campaign._shown]
    for question in sorted(fresh, key=lambda q: (q.id not in state.again, state._name(q))):
        again = question.id in state.again
        if again or (not state.cards[question.party] and dealt[question.party] < BATCH):
            dealt[question.party] += 1
            body = msgspec.to_builtins(campaign._ask_line(question))
            del body["type"]
            yield NewEvent("label.ask", body, f"ask:{mark}:{question.id}", SERVER)


def _differing(state: CampaignFold, event: Event, mark: str) -> Iterable[NewEvent]:
    """Items of an answer on which people gave different labels, once each."""
    names = [name for name, *_ in (event.body or {}).get("answers", ())]
    for name in [*names, str((event.body or {}).get("id"))]:
        answer = state.answers.get(name)
        if answer is None or answer.item in state.disagreed:
            continue
        codes = state.told.get(answer.item, {})
        if len(set(codes.values())) > 1:
            by = [[state.answers[q].party, code] for q, code in codes.items()]
            body = {"item": answer.item, "answers": by}
            yield NewEvent("label.disagreed", body, f"disagreed:{mark}:{answer.item}", SERVER)


def stopped(state: CampaignFold) -> str:
    """Why a campaign takes nothing now, and what to do."""
    return (
        f"Another version of the program asked the questions of this campaign ({began(state)}); "
        "this one would have asked others. What was said is kept; the coordinator decides how it "
        "goes on."
    )


def began(state: CampaignFold) -> str:
    """What wrote the questions of the record, where it was another version than this."""
    return ", ".join(differs(state.start)) or f"counterplay {state.start.get('library', '')}"


def cannot_go_on(state: CampaignFold) -> str | None:
    """Why the rule of today cannot take over, in one sentence; None if it can."""
    if state.departed is None:
        return "This version asks as the log says: there is nothing to change."
    if state.over:
        return "This campaign is finished: nothing is left to ask."
    if not state.committed:
        return (
            "This version does not give the orders of the checks that were committed to: go on "
            f"with {began(state)}."
        )
    return None


def _check_answer(state: CampaignFold, body: dict[str, Any]) -> None:
    asked = _open(state, str(body["id"]))
    if body.get("party") not in (None, asked.party):
        raise Refused("That question belongs to another party.")
    if "label" in body:
        code = body["label"]
        if type(code) is not int or not 0 <= code < len(state.config["classes"]):
            raise Refused("That is none of the labels.", "label")


def _open(state: CampaignFold, name: str) -> Question:
    """A question that waits for an answer; finding it costs the same whatever it is for."""
    asked = state.questions.get(name)
    if asked is None or name not in state.cards[asked.party]:
        if name in state.answers:
            raise Refused(f"Question {name[:40]} was answered already.")
        raise Refused(f"Question {name[:40]} is not open.")
    return asked


def _check_retract(state: CampaignFold, body: dict[str, Any]) -> None:
    answer = state.answers.get(str(body["id"]))
    if answer is None:
        raise Refused("There is no such answer to take back.")
    if body.get("party") not in (None, answer.party):
        raise Refused("That answer is somebody else's.")


def _check_withdraw(state: CampaignFold, body: dict[str, Any]) -> None:
    item, reason = body["item"], str(body["reason"]).strip()
    if type(item) is not int or not 0 <= item < state.config["items"]:
        raise Refused("There is no such item.", "item")
    if not reason:
        raise Refused("Say why the item is taken out.", "reason")
    if item in state.withdrawn:
        raise Refused("That item was taken out already.", "item")
    if any(a.item == item and a.code >= 0 for a in state.answers.values()):
        raise Refused("That item was answered and cannot be taken out: its answer is in use.")


def _check_party(state: CampaignFold, body: dict[str, Any]) -> None:
    party = str(body["party"])
    if party not in state.config["parties"]:
        raise Refused(f"There is no party {party[:40]!r}.")
    keeps = any(answer.party == party for answer in state.answers.values())
    if party in state.gone and not (body.get("forget") and keeps):
        raise Refused("That party has left already.")


def _check_imported(state: CampaignFold, body: dict[str, Any]) -> None:
    classes = state.config["classes"]
    if body.get("known"):
        if state.answers or len(state.state.blocks) > 1:
            raise Refused(
                "Known labels can be imported before the first answer only: later ones would "
                "change what the parties were promised."
            )
        given = dict(state.known)
        for item, code in body["known"]:
            fits = type(item) is int and 0 <= item < state.config["items"] and item not in given
            if not fits or type(code) is not int or not 0 <= code < len(classes):
                raise Refused(f"Item {str(item)[:20]} or its label is not in this campaign.")
    seen: set[str] = set()
    for name, code, _ in body.get("answers", ()):
        _open(state, name)
        if name in seen:
            raise Refused(f"Question {name[:40]} is there twice.")
        seen.add(name)
        if code is not None and not 0 <= code < len(classes):
            raise Refused(f"Question {name[:40]}: that is none of the labels.")


def _check_resolved(state: CampaignFold, body: dict[str, Any]) -> None:
    if state.disagreed.get(body["item"]) is None:
        raise Refused("Nobody disagrees on that item.")
    if not str(body.get("note", "")).strip():
        raise Refused("Say how it was resolved.", "note")


def _check_rule(state: CampaignFold, body: dict[str, Any]) -> None:
    told = cannot_go_on(state)
    if told is not None:
        raise Refused(told)
    if body != written_with():
        raise Refused("That is not the version that goes on.")


_CHECKS = {
    "tell": _check_answer,
    "skip": _check_answer,
    "retract": _check_retract,
    "withdraw": _check_withdraw,
    "party": _check_party,
    "imported": _check_imported,
    "resolved": _check_resolved,
    "add": check_addition,
    "rule": _check_rule,
}


def lost_answers(state: CampaignFold, party: str) -> dict[str, int]:
    """How many answers of a party the others had used: their promise is weaker by these.

    Where the rule of today departs from the record, all that they may have used are counted.
    """
    if state.departed:
        return _shared_answers(state, party)
    inner = state.state
    if inner.joint is None:
        return {}
    number = inner.names.index(party)
    found = {}
    for other, shadow in inner.joint.shadows.items():
        lost = sum(set(inner.given.get(key, ())) == {number} for key in shadow.passed)
        if other != number and lost:
            found[inner.names[other]] = lost
    return found


def _shared_answers(state: CampaignFold, party: str) -> dict[str, int]:
    mine = {answer.item for answer in state.answers.values() if answer.party == party}
    shared = {name: len(mine & set(rows)) for name, rows in state.config["parties"].items()}
    return {name: n for name, n in shared.items() if n and name != party}


def answer_code(state: CampaignFold, label: str) -> int | None:
    """The code of a label as a person gave it; None for "cannot tell"."""
    code = label_code(label, state.config["classes"])
    return None if code < 0 else code


def log_text(state: CampaignFold) -> str:
    """The campaign's own log, which ``Campaign.from_log`` reads."""
    return state.campaign.log()


KIND = CampaignKind()
