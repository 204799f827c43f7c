"""The pages of a participant: one question after the other, then the result.

Every form carries the number of the event it answers and a key made with the page: two windows
cannot both be right, and a click that is sent twice counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from counterplay.core.exports import receipt
from counterplay.studio.errors import Closed, Conflict, Refused
from counterplay.studio.kinds import NewEvent
from counterplay.studio.web import pages, security
from counterplay.studio.web.house import House, house_of
from counterplay.studio.web.sessions import Participant, participant
from counterplay.studio.web.texts import Language

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from counterplay.studio.kinds.elicitation import Sitting
    from counterplay.studio.store import Folded

router = APIRouter()
_CHOICES = {"first": 0, "second": 1}
_UNSAID = {"same": "same", "cannot_say": "cannot say"}


async def show(request: Request) -> Response:
    """Show where the participant is: question, result, or what she waits for."""
    who = await participant(request, "elicitation")
    return await _here(request, who)


async def answer(request: Request) -> Response:
    """Take an answer to the open question."""
    fields, who, asked = await _form(request)
    said, ms = fields.get("answer", ""), _number(fields, "ms")
    if said in _CHOICES:
        body: dict[str, Any] = {"asked": asked, "order": [_CHOICES[said]], "answer": said}
        kind = "elicit.answered"
    elif said in _UNSAID:
        kind, body = "elicit.cannot_say", {"asked": asked, "said": _UNSAID[said]}
    else:
        raise Refused(pages.reader(request, who.party.locale)("question.choose"), "answer")
    if ms is not None:
        body["ms"] = ms
    return await _append(request, who, fields, kind, body)


async def cannot_say(request: Request) -> Response:
    """Take that the open question cannot be decided."""
    fields, who, asked = await _form(request)
    body = {"asked": asked, "said": "cannot say"}
    return await _append(request, who, fields, "elicit.cannot_say", body)


async def undo(request: Request) -> Response:
    """Take the last answer back, or all from the question ``to`` on."""
    fields, who, _ = await _form(request)
    number = _number(fields, "to")
    taken = await house_of(request).store.view(who.stream, lambda f: _last_answers(f, number))
    return await _append(request, who, fields, "elicit.undone", *({"seq": seq} for seq in taken))


async def stop(request: Request) -> Response:
    """End with the best answer so far."""
    fields, who, _ = await _form(request)
    return await _append(request, who, fields, "elicit.stopped", {})


async def consent(request: Request) -> Response:
    """Agree to what the study asks for."""
    import hashlib

    fields, who, _ = await _form(request)
    house = house_of(request)
    text = (house.store.config(who.study).get("page") or {}).get("consent", "")
    if fields.get("consent") != "yes":
        raise Refused(pages.reader(request, who.party.locale)("start.consent_missing"), "consent")
    body = {
        "text_hash": hashlib.sha256(text.encode()).hexdigest(), "version": who.study.version
    }  # fmt: skip
    return await _append(request, who, fields, "consent", body)


async def withdraw(request: Request) -> Response:
    """Delete the participant's data, after a second look."""
    fields, who, _ = await _form(request)
    house = house_of(request)
    if fields.get("sure") != "yes":
        return pages.page(
            request, "withdraw.html", preferred=who.party.locale, study=who.study,
            csrf=who.token(house), key=security.new_key(), seq=fields.get("seq", "0"),
        )  # fmt: skip
    await house.store.run(house.store.withdraw_party, who.party)
    return await _here(request, who)


async def receipt_page(request: Request) -> Response:
    """Show the receipt of everything so far."""
    who = await participant(request, "elicitation")
    house = house_of(request)
    seq, digest = await house.store.view(who.stream, lambda f: (f.seq, f.hash))
    code = receipt(digest) if seq else ""
    return pages.page(
        request, "receipt.html", preferred=who.party.locale, study=who.study, code=code, seq=seq
    )


async def own_data(request: Request) -> Response:
    """Hand out everything that is stored about the participant."""
    who = await participant(request, "elicitation")
    house = house_of(request)
    events = await house.store.run(house.store.events, who.stream)
    told = {
        "study": who.study.public_id,
        "name": who.study.name,
        "party": who.party.public_id,
        "label": who.party.label,
        "events": [
            {"seq": e.seq, "kind": e.kind, "at": e.at, "body": e.body, "hash": e.hash}
            for e in events
        ],
    }
    name = f"attachment; filename=answers-{who.party.public_id}.json"
    return pages.data(told, headers={"content-disposition": name})


async def _form(request: Request) -> tuple[dict[str, str], Participant, int]:
    """The fields of a form that this participant's page made."""
    fields = await security.read_form(request)
    who = await participant(request, "elicitation")
    who.check(house_of(request), fields)
    if _number(fields, "seq") is None:
        raise security.Forbidden("The form is not complete. Reload the page.")
    return fields, who, _number(fields, "asked") or 1


async def _append(
    request: Request, who: Participant, fields: dict[str, str], kind: str, *bodies: dict[str, Any]
) -> Response:
    """Append what a form says; a page that is out of date gets the current one."""
    house, key = house_of(request), fields.get("key", "")
    if not 8 <= len(key) <= 64 or not key.isascii():
        raise security.Forbidden("The form is not complete. Reload the page.")
    events = [
        NewEvent(kind, body, f"form:{key}{f':{i}' if i else ''}", who.party.public_id)
        for i, body in enumerate(bodies)
    ]
    try:
        done = await house.store.append_all(who.stream, events, expected=int(fields["seq"]))
    except Conflict:
        return await _here(request, who, note="stale", status=409)
    except Closed:
        return await _here(request, who, note="closed", status=409)
    taken = f"&taken={len(bodies)}" if kind == "elicit.undone" else ""
    return pages.go(request, f"/p/{who.study.public_id}?after={done[-1].seq}{taken}")


async def _here(
    request: Request, who: Participant, *, note: str | None = None, status: int = 200
) -> Response:
    """The page of where the participant is now."""
    house, words = house_of(request), pages.reader(request, who.party.locale)
    said = dict(request.query_params) if request.scope["query_string"] else {}

    def look(folded: Folded) -> tuple[str, dict[str, Any]]:
        return _model(house, who, folded, words, said)

    quick = who.study.state != "closed"  # a result so far takes its time
    name, model = await house.store.view(who.stream, look, quick=quick)
    return pages.page(
        request, name, status=status, study=who.study, note=note, csrf=who.token(house),
        key=security.new_key(), preferred=who.party.locale, **model,
    )  # fmt: skip


def _model(
    house: House, who: Participant, folded: Folded, words: Language, said: dict[str, str]
) -> tuple[str, dict[str, Any]]:
    """Which page, and what is on it; ``said`` is what its address says came before."""
    from counterplay.studio.kinds import elicitation_pages as views

    sitting: Sitting = folded.state
    config = house.store.config(who.study, folded.version)
    shared = {"seq": folded.seq, "receipt": receipt(folded.hash) if folded.seq else ""}
    if sitting.erased:
        return "gone.html", shared
    if sitting.result is not None:
        closed = who.study.closed_at
        return "result.html", {
            **shared, **views.result(config, sitting, words), "closed": closed, "kept": None,
        }  # fmt: skip
    if who.study.state == "closed" and sitting.log:
        return "result.html", {
            **shared, **views.result(config, _so_far(house, config, folded), words),
            "closed": who.study.closed_at, "kept": sitting.answered,
        }  # fmt: skip
    if who.study.state != "open" or sitting.open is None:
        consent_text = config["page"].get("consent", "")
        wanted = consent_text if who.study.state == "open" and not sitting.consented else ""
        return "waiting.html", {
            **shared, "answers": sitting.answered, "closed": who.study.closed_at,
            "consent": wanted,
        }  # fmt: skip
    model = {**shared, **views.question(config, sitting, words)}
    back = _number(said, "after")  # the answer after which this address was made
    model["replaces"] = back is not None and back + 1 < folded.seq
    model["taken"] = _number(said, "taken") or 0
    model["kept"] = said.get("kept") == "1"
    return "question.html", model


def _so_far(house: House, config: dict[str, Any], folded: Folded) -> Sitting:
    """What can be said to somebody whom the end of the study met on her way; worked out once."""
    from counterplay.studio.kinds.elicitation import KIND

    known = house.so_far.get(folded.hash)
    if known is None:
        known = house.so_far[folded.hash] = KIND.so_far(config, folded.state, folded.stream)
        while len(house.so_far) > 500:
            house.so_far.popitem(last=False)
    return known


def _last_answers(folded: Folded, number: int | None) -> list[int]:
    """The last answer, or all back to the one of a question, newest first."""
    log = folded.state.log
    numbers = [said.asked.number + 1 if said.asked else 0 for said in log]
    n = len(log) - numbers.index(number) if number in numbers[:-1] and number else 1
    return [said.seq for said in reversed(log[-n:])] or [1]


def _number(fields: dict[str, str], name: str) -> int | None:
    given = fields.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None


router.add_route("/p/{study}", show, methods=["GET"])
for _path, _endpoint in (
    ("answer", answer),
    ("cannot-say", cannot_say),
    ("undo", undo),
    ("stop", stop),
    ("consent", consent),
    ("withdraw", withdraw),
):
    router.add_route(f"/p/{{study}}/{_path}", _endpoint, methods=["POST"])
router.add_route("/p/{study}/receipt", receipt_page, methods=["GET"])
router.add_route("/p/{study}/data.json", own_data, methods=["GET"])
