"""The pages of a labeller: her queue, her answers, the ledger.

Every card is a form of its own and names its question by a word that tells nothing. Writes are
appended after whatever is last: others may answer at the same time, and nobody waits for them.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.responses import Response

from counterplay.core.exports import receipt
from counterplay.studio.errors import Missing, Refused
from counterplay.studio.kinds import NewEvent
from counterplay.studio.web import pages, security
from counterplay.studio.web.house import house_of
from counterplay.studio.web.live import events
from counterplay.studio.web.sessions import Participant, participant

if TYPE_CHECKING:
    from starlette.requests import Request

    from counterplay.studio.kinds.campaign_fold import CampaignFold
    from counterplay.studio.store import Folded

router = APIRouter()
KIND = "campaign"


async def show_queue(request: Request) -> Response:
    """Show the cards that wait for this party, or why there are none."""
    who = await participant(request, KIND)
    return await _queue(request, who)


async def answer(request: Request) -> Response:
    """Take a label, or "cannot tell"."""
    fields, who = await _form(request)
    said = fields.get("label", "")
    if said == "skip":
        return await _tell(request, who, fields, None)
    if not said.isdigit() or len(said) > 3:
        raise Refused(pages.reader(request, who.party.locale)("label.choose"), "label")
    return await _tell(request, who, fields, int(said))


async def skip(request: Request) -> Response:
    """Take that the item cannot be told."""
    fields, who = await _form(request)
    return await _tell(request, who, fields, None)


async def undo(request: Request) -> Response:
    """Take the newest own answer back; its card comes again."""
    fields, who = await _form(request)
    house = house_of(request)

    def newest(folded: Folded) -> str | None:
        mine = [a for a in folded.state.answers.values() if a.party == who.party.label]
        return max(mine, key=lambda a: a.seq).question if mine else None

    name = await house.store.view(who.stream, newest)
    if name is None:
        return await _queue(request, who, note="nothing_to_undo", status=409)
    body = {"id": name, "blind": True, "party": who.party.label}
    await house.store.append(who.stream, _event(who, fields, "retract", body), expected=None)
    return pages.go(request, f"/l/{who.study.public_id}")


async def correct(request: Request) -> Response:
    """Change an own answer: it is taken back and, if it is still asked for, given anew."""
    fields, who = await _form(request)
    house = house_of(request)
    name = await house.store.view(who.stream, _finder(fields))
    if name is None:
        return await _queue(request, who, note="stale", status=409)
    gone = NewEvent("label.retract", {"id": name, "blind": True, "party": who.party.label},
                    f"form:{fields['key']}:back", who.party.public_id)  # fmt: skip
    said = fields.get("label", "")
    told = None if said == "skip" else int(said) if said.isdigit() and len(said) < 4 else -1
    body: dict[str, Any] = {"id": name, "party": who.party.label, "labeler": who.party.label}
    kind = "skip" if told is None else "tell"
    if told is not None:
        body["label"] = told
    try:
        both = [gone, _event(who, fields, kind, body)]
        await house.store.append_all(who.stream, both, expected=None)
    except Refused:  # the campaign does not need it any more: it is only taken back
        await house.store.append(who.stream, gone, expected=None)
    return pages.go(request, f"/l/{who.study.public_id}/answers")


async def show_answers(request: Request) -> Response:
    """Show the party's own answers, each with a way to change it."""
    who = await participant(request, KIND)
    house = house_of(request)

    def look(folded: Folded) -> dict[str, Any]:
        from counterplay.studio.kinds.campaign_views import own_answers

        found = own_answers(folded.state, who.party.label)
        return {"answers": found, "classes": list(enumerate(folded.state.config["classes"])),
                "departed": folded.state.departed is not None}  # fmt: skip

    values = await house.store.view(who.stream, look)
    return pages.page(
        request, "label_answers.html", preferred=who.party.locale, study=who.study,
        csrf=who.token(house), key=security.new_key(), **values,
    )  # fmt: skip


async def show_ledger(request: Request) -> Response:
    """Show the party's own account and the sum of all."""
    who = await participant(request, KIND)
    house, words, me = house_of(request), pages.reader(request, who.party.locale), who.party.label

    def look(folded: Folded) -> dict[str, Any]:
        from counterplay.studio.kinds.campaign_live import ledger_texts
        from counterplay.studio.kinds.campaign_views import ledger

        found = ledger(folded.state, me)
        return {**found, "live": ledger_texts(found, me, words), "code": receipt(folded.hash)}

    values = await house.store.view(who.stream, look)
    return pages.page(
        request, "ledger.html", preferred=who.party.locale, study=who.study,
        csrf=who.token(house), key=security.new_key(), **values,
    )  # fmt: skip


async def follow(request: Request) -> Response:
    """Live numbers of the party; a page that waits is told when a card is there."""
    who = await participant(request, KIND)
    mine, waits = who.party.label, request.query_params.get("waiting") == "1"
    words = pages.reader(request, who.party.locale)

    def look(folded: Folded) -> dict[str, str]:
        from counterplay.studio.kinds.campaign_live import live_ledger

        told = live_ledger(folded.state, mine, words)
        if waits and not folded.state.departed and folded.state.waiting(mine):
            told["reload"] = "yes"  # a card is there; after a departure the page shows none
        return told

    audience = f"party {words.code} {'waits' if waits else 'looks'} {mine}"
    return events(request, who.stream, audience, look)


async def show_image(request: Request) -> Response:
    """Show the picture of an item of the party, re-encoded when the study was made."""
    who = await participant(request, KIND)
    config = house_of(request).store.config(who.study)
    item, images = request.path_params["item"], config["page"]["images"]
    mine = config["parties"].get(who.party.label, ())
    if images is None or item not in mine:
        raise Missing("There is no such picture.")
    return Response(base64.b64decode(images[item]), media_type="image/webp")


async def withdraw(request: Request) -> Response:
    """Leave the campaign: the party's answers are forgotten and erased, after a second look."""
    fields, who = await _form(request)
    house = house_of(request)
    if fields.get("sure") != "yes":
        return pages.page(
            request, "label_withdraw.html", preferred=who.party.locale, study=who.study,
            csrf=who.token(house), key=security.new_key(),
        )  # fmt: skip
    from counterplay.studio.kinds.campaign import SERVER, lost_answers

    mine = who.party.label

    def look(folded: Folded) -> dict[str, int] | None:
        """What the others lose; None if the party has left and nothing of it is in use."""
        state: CampaignFold = folded.state
        keeps = any(answer.party == mine for answer in state.answers.values())
        return lost_answers(state, mine) if keeps or mine not in state.gone else None

    lost = await house.store.view(who.stream, look)
    if lost is not None:
        body = {"party": mine, "forget": True, "lost": lost, "who": who.party.public_id}
        left = NewEvent("label.party", body, f"left:{who.party.public_id}", SERVER)
        await house.store.append(who.stream, left, expected=None)
    await house.store.run(house.store.withdraw_party, who.party)
    return pages.page(request, "label_gone.html", preferred=who.party.locale, study=who.study)


async def _queue(
    request: Request, who: Participant, *, note: str | None = None, status: int = 200
) -> Response:
    house = house_of(request)

    def look(folded: Folded) -> dict[str, Any]:
        from counterplay.studio.kinds.campaign_views import queue

        state: CampaignFold = folded.state
        if who.party.label not in state.config["parties"]:
            raise Missing("There is no such party.")
        return queue(state, who.party.label)

    values = await house.store.view(who.stream, look)
    values["keys"] = [security.new_key() for _ in values["cards"]]
    return pages.page(
        request, "label_queue.html", status=status, preferred=who.party.locale, study=who.study,
        csrf=who.token(house), undo_key=security.new_key(), note=note, me=who.party.label,
        paused=who.study.state != "open", **values,
    )  # fmt: skip


async def _tell(
    request: Request, who: Participant, fields: dict[str, str], label: int | None
) -> Response:
    house = house_of(request)
    name = await house.store.view(who.stream, _finder(fields))
    if name is None:
        return await _queue(request, who, note="stale", status=409)
    body: dict[str, Any] = {"id": name, "party": who.party.label, "labeler": who.party.label}
    if label is not None:
        body["label"] = label
    if (ms := fields.get("ms", "")).isdigit() and len(ms) < 10:
        body["ms"] = int(ms)
    event = _event(who, fields, "skip" if label is None else "tell", body)
    try:
        await house.store.append(who.stream, event, expected=None)
    except Refused as error:
        if error.field == "label":
            raise
        return await _queue(request, who, note="stale", status=409)
    return pages.go(request, f"/l/{who.study.public_id}")


def _finder(fields: dict[str, str]) -> Any:
    wanted = fields.get("question", "")[:32]
    return lambda folded: folded.state.find(wanted)


def _event(who: Participant, fields: dict[str, str], word: str, body: dict[str, Any]) -> NewEvent:
    return NewEvent(f"label.{word}", body, f"form:{fields['key']}", who.party.public_id)


async def _form(request: Request) -> tuple[dict[str, str], Participant]:
    """The fields of a form that this party's page made."""
    fields = await security.read_form(request)
    who = await participant(request, KIND)
    who.check(house_of(request), fields)
    key = fields.get("key", "")
    if not 8 <= len(key) <= 64 or not key.isascii():
        raise security.Forbidden("The form is not complete. Reload the page.")
    return fields, who


for _path, _page in (
    ("/l/{study}", show_queue),
    ("/l/{study}/answers", show_answers),
    ("/l/{study}/ledger", show_ledger),
    ("/l/{study}/events", follow),
    ("/l/{study}/image/{item:int}", show_image),
):
    router.add_route(_path, _page, methods=["GET"])
for _path, _page in (
    ("/l/{study}/answer", answer),
    ("/l/{study}/skip", skip),
    ("/l/{study}/undo", undo),
    ("/l/{study}/correct", correct),
    ("/l/{study}/withdraw", withdraw),
):
    router.add_route(_path, _page, methods=["POST"])


async def coordinator_page(request: Request, study: Any) -> Response:
    """Show the coordinator's page; called by the page of a study."""
    from counterplay.studio.web.coordinator import show

    return await show(request, study)
