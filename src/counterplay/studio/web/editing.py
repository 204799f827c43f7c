"""Edit a study in the browser: its name, what people read, how close to the best.

An edit of an open study makes a new version: whoever has begun keeps what she began with. Where
the parties share one log, texts can be changed until the study opens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from counterplay.errors import InvalidInputError
from counterplay.studio.errors import Missing, Refused
from counterplay.studio.web import pages, security, sessions
from counterplay.studio.web.admin import note
from counterplay.studio.web.house import house_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from counterplay.studio.store.base import StudyRow

router = APIRouter()
TARGETS = (1, 2, 5, 10)
_LONGEST = {"name": 200, "asks": 2_000, "consent": 10_000}


def may_edit(study: StudyRow) -> bool:
    """Whether this study can still be edited."""
    if study.kind == "elicitation":
        return study.state != "closed"
    return study.kind in ("campaign", "guard") and study.state == "draft"


async def show_form(request: Request) -> Response:
    """Show what can be changed."""
    who, study = await _study(request)
    config = await house_of(request).store.run(house_of(request).store.config, study)
    return _form(request, who, study, _given(study, config))


async def change(request: Request) -> Response:
    """Make a new version; what is wrong stands beside its field."""
    who, study = await _study(request)
    house = house_of(request)
    fields = await security.read_form(request)
    who.check(house, fields)
    config = await house.store.run(house.store.config, study)
    given = _given(study, config)
    for name, most in _LONGEST.items():
        if name in fields:
            given[name] = fields[name].strip()[:most]
    given["name"] = " ".join(given["name"].split())
    if fields.get("locale") in ("en", "de"):
        given["locale"] = fields["locale"]
    if fields.get("target", "") in {str(share) for share in TARGETS}:
        given["target"] = int(fields["target"])
    try:
        if not given["name"]:
            raise Refused("Give the study a name.", "name")
        changed = _changed(study, config, given)
        await house.store.run(
            lambda: house.store.edit_study(
                study.public_id, changed, actor=who.name, name=given["name"]
            )
        )
    except InvalidInputError as error:
        field = error.field if isinstance(error, Refused) else None
        return _form(request, who, study, given, wrong=str(error), field=field)
    await note(request, who, "study edited", study.public_id)
    return pages.go(request, f"/admin/studies/{study.public_id}?edited=1")


def _given(study: StudyRow, config: dict[str, Any]) -> dict[str, Any]:
    page = config.get("page") or {}
    target = round(100 * config["target"]) if study.kind == "elicitation" else None
    return {
        "name": study.name, "asks": page.get("asks") or page.get("intro") or "",
        "consent": page.get("consent", ""), "locale": page.get("locale") or "en", "target": target,
    }  # fmt: skip


def _changed(study: StudyRow, config: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    page = {**(config.get("page") or {})}
    if study.kind == "elicitation":
        page |= {"title": given["name"], "asks": given["asks"], "consent": given["consent"],
                 "locale": given["locale"]}  # fmt: skip
        kept = round(100 * config["target"]) == given["target"]
        target = config["target"] if kept else given["target"] / 100
        return {**config, "target": target, "page": page}
    page["intro"] = given["asks"]
    if study.kind == "campaign":
        page["consent"] = given["consent"]
        page["locale"] = given["locale"]
    return {**config, "page": page}


async def _study(request: Request) -> tuple[sessions.Admin, StudyRow]:
    who, study = await sessions.admin_study(request, change=True)
    if not may_edit(study):
        raise Missing("There is nothing to edit.")
    return who, study


def _form(
    request: Request,
    who: sessions.Admin,
    study: StudyRow,
    given: dict[str, Any],
    *,
    wrong: str | None = None,
    field: str | None = None,
) -> Response:
    targets = sorted({*TARGETS, given["target"]}) if given["target"] else []
    return pages.page(
        request, "study_edit.html", status=422 if wrong else 200, study=study, given=given,
        wrong=wrong, field=field, targets=targets, csrf=who.token(house_of(request)),
    )  # fmt: skip


router.add_route("/admin/studies/{study}/edit", show_form, methods=["GET"])
router.add_route("/admin/studies/{study}/edit", change, methods=["POST"])
