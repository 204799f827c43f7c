"""The guard for people: who is live, how much harm is used, what happened, and a way to stop.

The picture is drawn here as SVG: cumulative harm above the rate, the bound in force, switches.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from counterplay.studio.errors import Missing, Refused
from counterplay.studio.kinds import NewEvent
from counterplay.studio.web import pages, security
from counterplay.studio.web.admin import note
from counterplay.studio.web.house import house_of
from counterplay.studio.web.live import head
from counterplay.studio.web.sessions import admin_study
from counterplay.studio.web.studies import base_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from counterplay.studio.store import Folded
    from counterplay.studio.store.base import StudyRow

router = APIRouter()
WIDTH, HEIGHT, LEFT, BOTTOM = 720.0, 260.0, 48.0, 30.0


async def dashboard(
    request: Request,
    study: StudyRow,
    *,
    wrong: Refused | None = None,
    token: str | None = None,
    chosen: int | None = None,
) -> Response:
    """Show a guard; called by the page of a study."""
    who, _ = await admin_study(request)
    house, words = house_of(request), pages.reader(request)

    def look(folded: Folded) -> dict[str, Any]:
        from counterplay.studio.kinds.guard_views import live_numbers, promise, state_of

        return {"guard": state_of(folded.state), "promise": promise(folded.state),
                "live": live_numbers(folded.state, words),
                "head": head(folded, words)}  # fmt: skip

    values = await house.store.view(house.store.stream_of(study), look)
    down = request.query_params.get("down", "")
    rows = {str(row["number"]): row for row in values["guard"]["models"] if "removed" in row}
    tokens = await house.store.run(house.store.tokens, study)
    return pages.page(
        request, "guard_dashboard.html", status=422 if wrong else 200, study=study, who=who,
        may_change=who.may_change(study), csrf=who.token(house), key=security.new_key(),
        link_key=security.link_key(),
        wrong=None if wrong is None else str(wrong), field=None if wrong is None else wrong.field,
        token=token, tokens=len(tokens), chosen=chosen, down=rows.get(down),
        used=max((one.last_used_at or "" for one in tokens), default=""),
        chart=chart(values["guard"]),
        api=f"{base_of(request, house)}/api/guard/{study.public_id}", **values,
    )  # fmt: skip


async def take_down(request: Request) -> Response:
    """Take a model out, with a reason."""
    fields, who, study = await _form(request)
    house = house_of(request)
    number = fields.get("model", "")
    body = {
        "model": int(number) if number.isdigit() and len(number) < 6 else -1,
        "reason": fields.get("reason", "").strip()[:1000],
    }
    event = NewEvent("guard.taken_down", body, f"admin:{fields.get('key', '')[:64]}", who.name)
    try:
        await house.store.append(house.store.stream_of(study), event, expected=None)
    except Refused as error:
        return await dashboard(request, study, wrong=error, chosen=int(str(body["model"])))
    await note(request, who, "take down", study.public_id, **body)
    return pages.go(request, f"/admin/studies/{study.public_id}?down={body['model']}")


async def new_token(request: Request) -> Response:
    """Make a token for a service; it is shown once."""
    fields, who, study = await _form(request)
    house = house_of(request)
    scopes = [s for s in ("serve", "report") if fields.get(s) == "yes"]
    if not scopes:
        told = Refused(pages.reader(request)("guard.no_scope"), "scope")
        return await dashboard(request, study, wrong=told)
    secret = security.made_by(house.server_key, who.session, request, fields)
    if await house.store.run(house.store.find_token, secret) is None:
        await house.store.run(lambda: house.store.new_token(study, scopes, token=secret))
        await note(request, who, "new token", study.public_id, scopes=scopes)
    return await dashboard(request, study, token=secret)


async def revoke_tokens(request: Request) -> Response:
    """End every token of a guard: one of them is in wrong hands."""
    _, who, study = await _form(request)
    house = house_of(request)
    n = await house.store.run(house.store.revoke_tokens, study)
    await note(request, who, "tokens revoked", study.public_id, n=n)
    return pages.go(request, f"/admin/studies/{study.public_id}")


async def _form(request: Request) -> tuple[dict[str, str], Any, StudyRow]:
    fields = await security.read_form(request)
    who, study = await admin_study(request, change=True)
    who.check(house_of(request), fields)
    if study.kind != "guard":
        raise Missing("There is no such page.")
    return fields, who, study


def live_guard(state: Any, words: Any) -> dict[str, str]:
    """The numbers of the dashboard while it is open, and the curve: ``id@attribute`` is set."""
    from counterplay.studio.kinds.guard_views import live_numbers, state_of

    told = live_numbers(state, words)
    drawn = chart(state_of(state))
    if drawn is not None:
        told |= {"curve@points": drawn["line"], "bound@points": drawn["bound"],
                 "axis@y1": str(drawn["zero"]), "axis@y2": str(drawn["zero"]),
                 "zero@y": str(drawn["zero"] + 4),
                 "highest": words.number(drawn["highest"], drawn["digits"]),
                 "last": words("guard.round_axis", n=drawn["last"])}  # fmt: skip
    return told


def chart(guard: dict[str, Any]) -> dict[str, Any] | None:
    """Points of the harm curve in the picture's own units; None before the first outcome."""
    curve = guard["curve"]
    if len(curve) < 2:
        return None
    bounds = [b for _, _, b in curve if b is not None]
    highest = max([1.0, *(y for _, y, _ in curve), *bounds])
    lowest = min([0.0, *(y for _, y, _ in curve)])
    last = max(1, guard["rounds"] - 1)

    def x(number: float) -> float:
        return float(round(LEFT + (WIDTH - LEFT - 8) * number / last, 1))

    def y(value: float) -> float:
        share = (value - lowest) / (highest - lowest)
        return float(round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 10) * share, 1))

    reached = accumulate((t for t, _, _ in curve), max)  # outcomes come late, in any order
    ordered = [(t, v, b) for t, (_, v, b) in zip(reached, curve)]
    line = " ".join(f"{x(t)},{y(v)}" for t, v, _ in ordered)
    bound = " ".join(f"{x(t)},{y(b)}" for t, _, b in ordered if b is not None)
    return {
        "width": WIDTH, "height": HEIGHT, "left": LEFT, "line": line, "bound": bound,
        "zero": y(0.0), "top": y(highest), "highest": highest, "lowest": lowest,
        "bottom": y(lowest), "last": last, "digits": 0 if highest - lowest >= 10 else 1,
        "switches": [x(s["round"]) for s in guard["switches"][1:]],
    }  # fmt: skip


router.add_route("/admin/studies/{study}/take-down", take_down, methods=["POST"])
router.add_route("/admin/studies/{study}/token", new_token, methods=["POST"])
router.add_route("/admin/studies/{study}/token/revoke", revoke_tokens, methods=["POST"])
