"""The guard's interface for services: who is live, what came of it, and the end of a round.

Bearer tokens only, no cookies; JSON in and out; every refusal says what was wrong in one sentence
with its field. A batch of outcomes is stored as a whole or not at all, and one that is sent again
changes nothing.
Source: docs/theory/28-studio.md, "The guard".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.responses import Response

from counterplay.core.records import read_json
from counterplay.errors import InvalidInputError
from counterplay.studio.errors import KeyReuse, Missing, Refused, StudioError
from counterplay.studio.kinds import NewEvent
from counterplay.studio.web.house import House, house_of
from counterplay.studio.web.pages import data

if TYPE_CHECKING:
    from starlette.requests import Request

    from counterplay.studio.store import Folded
    from counterplay.studio.store.base import StudyRow

router = APIRouter()
MOST = 1_000
LARGEST = 2**20
"""Most bytes of a request."""


class NoToken(StudioError):
    """A request without a valid bearer token."""

    status = 401


class WrongScope(StudioError):
    """A token that may not do this."""

    status = 403


async def serve(request: Request) -> Response:
    """Say who is live; reading is free and changes nothing."""
    house, study, stream, _ = await _service(request, "serve")

    def look(folded: Folded) -> tuple[dict[str, Any], str]:
        from counterplay.studio.kinds.guard_views import served

        return served(folded.state), f'"{folded.seq}-{folded.hash[:12]}"'

    told, tag = await house.store.view(stream, look)
    if study.state == "draft":
        raise Missing("There is no such guard.")
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag})
    return data(told, headers={"etag": tag, "cache-control": "no-cache"})


async def decide(request: Request) -> Response:
    """End a round and make the next decision; a repeat returns the same one."""
    house, _, stream, actor = await _service(request, "serve")
    body = await _json(request)
    after = body.get("after") if isinstance(body, dict) else None
    if type(after) is not int or not isinstance(body, dict) or set(body) != {"after"}:
        return _refused('send {"after": number of the last decision}', "after")
    event = NewEvent("guard.ended", {"after": after}, f"ended:{after}", actor)
    try:
        await house.store.append(stream, event, expected=None)
    except Refused as error:
        return _refused(str(error), error.field)

    def look(folded: Folded) -> dict[str, Any] | None:
        from counterplay.studio.kinds.guard_views import decision, served

        now = served(folded.state)
        return now if now["decision"] == after + 1 else decision(folded.state, after + 1)

    return data(await house.store.view(stream, look))


async def report(request: Request) -> Response:
    """Take outcomes of decisions, late and in any order: all of a batch or none."""
    house, _, stream, actor = await _service(request, "report")
    try:
        items = await _json(request)
    except Refused:
        if (odd := _not_finite(await request.body())) is not None:
            return _wrong(*odd, "a loss is NaN or infinite; a number from 0 to 1 is needed")
        raise
    if not isinstance(items, list):
        return _refused("send a list of outcomes", None)
    if len(items) > MOST:
        return _refused(f"at most {MOST:,} outcomes at a time, got {len(items):,}", None, 413)

    def look(folded: Folded) -> tuple[str, int] | list[dict[str, Any]]:
        return _checked(folded.state, items)

    for _ in range(2):  # a repeat that raced with its twin is looked at again
        found = await house.store.view(stream, look)
        if isinstance(found, tuple):
            told, place = found
            return _wrong(items, place, told)
        wanted = [NewEvent("guard.outcome", o, f"outcome:{o['id']}", actor) for o in found]
        try:
            if wanted:
                await house.store.append_all(stream, wanted, expected=None)
        except (Refused, KeyReuse):
            continue
        return data({"stored": len(wanted), "repeated": len(items) - len(wanted)})
    return _refused("another report changed one of these outcomes; send them again", None, 409)


async def state(request: Request) -> Response:
    """Say everything that a dashboard or a monitor needs."""
    house, _, stream, _ = await _service(request, "serve")

    def look(folded: Folded) -> dict[str, Any]:
        from counterplay.studio.kinds.guard_views import state_of

        return state_of(folded.state)

    return data(await house.store.view(stream, look))


def _checked(guard: Any, items: list[Any]) -> tuple[str, int] | list[dict[str, Any]]:
    """The outcomes that are new; or the first problem and its place."""
    from counterplay.studio.kinds.guard import outcome_problem

    new: list[dict[str, Any]] = []
    decisions: dict[int, str] = {}
    ids: dict[str, dict[str, Any]] = {}
    for place, item in enumerate(items):
        name = item.get("id") if isinstance(item, dict) else None
        if isinstance(name, str) and ids.get(name) == item:
            continue
        if isinstance(name, str) and name in ids:
            return f"id {name[:60]!r} is in this batch twice", place
        if told := outcome_problem(guard, item, decisions):
            return told, place
        ids[item["id"]] = item
        if item["id"] not in guard.outcomes:
            decisions[item["decision"]] = item["id"]
            new.append(item)
    return new


async def _service(request: Request, scope: str) -> tuple[House, StudyRow, str, str]:
    """The guard that a token opens; 404 for every other one, as if it did not exist."""
    house = house_of(request)
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not 20 <= len(token) <= 100:
        raise NoToken("Send the token of the guard: Authorization: Bearer ...")
    row = await house.store.run(house.store.use_token, token)
    if row is None:
        raise NoToken("This token does not open anything (any more).")
    study = await house.store.run(house.store.study_by_id, row.study)
    if study.public_id != request.path_params["study"] or study.kind != "guard":
        raise Missing("There is no such guard.")
    if scope not in row.scopes.replace(",", " ").split():
        raise WrongScope(f"This token has no scope {scope!r}.")
    return house, study, house.store.stream_of(study), f"service:{row.id}"


async def _json(request: Request) -> Any:
    body = await request.body()
    try:
        return read_json(body, what="the request", limit=LARGEST)
    except InvalidInputError as error:
        raise Refused(str(error)) from None


def _not_finite(body: bytes) -> tuple[list[Any], int] | None:
    """The outcomes, and the place of the first with a number that JSON does not have, if any."""
    try:
        read = json.loads(body) if len(body) <= LARGEST else None
    except (ValueError, RecursionError):
        return None
    items: list[Any] = read if isinstance(read, list) else []
    for place, item in enumerate(items):
        try:
            json.dumps(item, allow_nan=False)
        except ValueError:
            return items, place
    return None


def _wrong(items: list[Any], place: int, told: str) -> Response:
    """Say what is wrong with one outcome of a batch, by its place and id."""
    name = str(items[place].get("id", ""))[:60] if isinstance(items[place], dict) else ""
    return _refused(f"outcome {place} ({name!r}): {told}", f"[{place}]")


def _refused(told: str, field: str | None, status: int = 422) -> Response:
    hint = "nothing was stored; see the section on the guard in the guide of the studio"
    return data({"error": told, "field": field, "hint": hint}, status)


router.add_route("/api/guard/{study}/serve", serve, methods=["GET"])
router.add_route("/api/guard/{study}/state", state, methods=["GET"])
router.add_route("/api/guard/{study}/decisions", decide, methods=["POST"])
router.add_route("/api/guard/{study}/outcomes", report, methods=["POST"])
