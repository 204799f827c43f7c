"""The life of a study in the browser: open, pause, close, links, export, import, preview."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.responses import Response

from counterplay.errors import InvalidInputError
from counterplay.studio.errors import Missing, Refused
from counterplay.studio.store.base import PartyRow, StudyRow
from counterplay.studio.web import activity, pages, security, sessions
from counterplay.studio.web.admin import note
from counterplay.studio.web.house import House, house_of
from counterplay.studio.web.live import head
from counterplay.studio.web.people import sums

if TYPE_CHECKING:
    from starlette.requests import Request

router = APIRouter()
MOST_LINKS = 10_000
_STATES = {"open": "open", "pause": "paused", "close": "closed"}


async def study_page(request: Request) -> Response:
    """Show a study to those who run it."""
    who, study = await sessions.admin_study(request)
    if study.kind == "campaign":
        from counterplay.studio.web import labelling

        return await labelling.coordinator_page(request, study)
    if study.kind == "guard":
        from counterplay.studio.web import guard_pages

        return await guard_pages.dashboard(request, study)
    if study.kind == "audit":
        return pages.go(request, f"/admin/audits/{study.public_id}")
    return await _elicitation(request, who, study)


async def change_state(request: Request) -> Response:
    """Open, pause or close a study."""
    who, study = await sessions.admin_study(request, change=True)
    house = house_of(request)
    who.check(house, await security.read_form(request))
    state = _STATES[request.scope["path"].rsplit("/", 1)[1]]
    await house.store.run(lambda: house.store.set_state(study.public_id, state, actor=who.name))
    await note(request, who, f"study {state}", study.public_id)
    return pages.go(request, f"/admin/studies/{study.public_id}")


async def links(request: Request) -> Response:
    """Make links of new participants; the file is the only place where they are."""
    who, study = await _of_people(request)
    house = house_of(request)
    fields = await security.read_form(request)
    who.check(house, fields)
    n = _whole(fields.get("n", ""), 1, MOST_LINKS, "n")
    label = fields.get("label", "").strip() or "participant"
    made = await house.store.run(_make_links, house, study, label, n)
    await note(request, who, "links made", study.public_id, n=n)
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["party", "url", "token"])
    for party, token in made:
        writer.writerow([safe_cell(party), f"{base_of(request, house)}/j/{token}", token])
    headers = {"content-disposition": f"attachment; filename=links-{study.public_id}.csv"}
    return Response(table.getvalue(), 200, headers, media_type="text/csv; charset=utf-8")


async def open_link(request: Request) -> Response:
    """Make one link for everybody, with a cap."""
    who, study = await _of_people(request)
    house = house_of(request)
    fields = await security.read_form(request)
    who.check(house, fields)
    cap = _whole(fields.get("cap", ""), 1, 1_000_000, "cap")
    token = security.made_by(house.server_key, who.session, request, fields)
    if await house.store.run(house.store.find_link, token) is None:  # otherwise it is shown again
        await house.store.run(lambda: house.store.new_open_link(study, cap, token=token))
        await note(request, who, "open link made", study.public_id, cap=cap)
    return await _elicitation(request, who, study, [("", f"{base_of(request, house)}/j/{token}")])


async def revoke_open_links(request: Request) -> Response:
    """Let nobody else come by an open link; whoever came goes on."""
    who, study = await _of_people(request)
    house = house_of(request)
    who.check(house, await security.read_form(request))
    n = await house.store.run(house.store.revoke_open_links, study)
    await note(request, who, "open links revoked", study.public_id, n=n)
    return pages.go(request, f"/admin/studies/{study.public_id}")


async def party_link(request: Request) -> Response:
    """Revoke the link of a participant, or replace it."""
    who, study = await _of_people(request)
    house = house_of(request)
    fields = await security.read_form(request)
    who.check(house, fields)
    party = await house.store.run(_party, house, study, request.path_params["party"])
    if request.scope["path"].endswith("/revoke"):
        await house.store.run(house.store.revoke_links, party)
        await note(request, who, "link revoked", party.public_id)
        return pages.go(request, f"/admin/studies/{study.public_id}")
    token = security.made_by(house.server_key, who.session, request, fields)
    if await house.store.run(house.store.find_link, token) is None:
        await house.store.run(lambda: house.store.reissue(party, token=token))
        await note(request, who, "link reissued", party.public_id)
    made = [(party.label, f"{base_of(request, house)}/j/{token}")]
    return await _elicitation(request, who, study, made)


async def export(request: Request) -> Response:
    """Hand out the log with its proof: the answers under one version of the study."""
    from counterplay.studio.exports import export_lines

    who, study = await sessions.admin_study(request)
    house = house_of(request)
    asked = request.query_params.get("version")
    version = study.version if asked is None else _whole(asked, 1, 10_000, "version")
    text = await house.store.run(lambda: "".join(export_lines(house.store, study, version)))
    await note(request, who, "exported", study.public_id, version=version)
    name = study.public_id if asked is None else f"{study.public_id}-{version}"
    headers = {"content-disposition": f"attachment; filename=export-{name}.jsonl"}
    return Response(text, 200, headers, media_type="application/x-ndjson")


async def import_page(request: Request) -> Response:
    """Show the form for an export of another studio."""
    who = await sessions.admin(request, "owner")
    return pages.page(request, "import.html", csrf=who.token(house_of(request)), wrong=None)


async def import_study(request: Request) -> Response:
    """Check an export and import it, all or nothing."""
    from counterplay.studio.exports import import_study as take

    who, house = await sessions.admin(request, "owner"), house_of(request)
    fields, content = await read_upload(request, "file")
    who.check(house, fields)
    try:
        if content is None:
            raise Refused("Choose a file first.", "file")
        study = await house.store.run(lambda: take(house.store, content, actor=who.name))
    except InvalidInputError as error:
        token = who.token(house)
        return pages.page(request, "import.html", status=422, csrf=token, wrong=str(error))
    await note(request, who, "imported", study.public_id)
    return pages.go(request, f"/admin/studies/{study.public_id}")


async def preview(request: Request) -> Response:
    """Show one question as a participant sees it; nothing is stored."""
    _, study = await sessions.admin_study(request)
    if study.kind != "elicitation":
        raise Missing("There is no preview.")
    house = house_of(request)
    config = await house.store.run(house.store.config, study)
    request.scope.pop("counterplay.admin", None)
    words = pages.reader(request, config["page"].get("locale"))
    model = await house.store.run(sample_question, config, words)
    return pages.page(
        request, "preview.html", study=study, back=f"/admin/studies/{study.public_id}", **model
    )


def sample_question(config: dict[str, Any], words: Any) -> dict[str, Any]:
    """Return what a participant sees first: a question, or her result if none is needed."""
    from counterplay.studio.kinds import elicitation, elicitation_pages
    from counterplay.studio.kinds.elicitation_engine import Engine

    problem = elicitation.KIND.problems.of(config)
    engine = Engine.fresh(problem, "preview")
    sitting, found = elicitation.Sitting(), engine.question()
    if found is None:
        sitting.result = engine.stated(problem.errors)
        return {"cards": [], **elicitation_pages.result(config, sitting, words)}
    sitting.open = (1, found[1])
    return elicitation_pages.question(config, sitting, words)


async def read_upload(request: Request, name: str) -> tuple[dict[str, str], bytes | None]:
    """Return the fields and the one file of a form; None if no file was chosen."""
    fields, files = await read_uploads(request)
    return fields, next((content for field, file, content in files if field == name and file), None)


async def read_uploads(
    request: Request, most: int = 3
) -> tuple[dict[str, str], list[tuple[str, str, bytes]]]:
    """Return the fields of a form, and its files: field, name and content."""
    from starlette.datastructures import UploadFile

    security.check_origin(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise security.Forbidden("Only the form of the page can be sent here.")
    async with request.form(max_files=most, max_fields=50, max_part_size=64 * 1024) as form:
        fields = {key: value for key, value in form.items() if isinstance(value, str)}
        files = [
            (key, value.filename or "", await value.read())
            for key, value in form.multi_items()
            if isinstance(value, UploadFile)
        ]
    return fields, files


def safe_cell(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula.

    Examples
    --------
    >>> safe_cell("=1+1"), safe_cell("Ann")
    ("'=1+1", 'Ann')
    """
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


async def _elicitation(
    request: Request,
    who: sessions.Admin,
    study: StudyRow,
    made: list[tuple[str, str]] | None = None,
) -> Response:
    house = house_of(request)
    study = await house.store.run(house.store.study, study.public_id)
    config = await house.store.run(house.store.config, study)
    parties = await house.store.run(activity.participants, house.store, study)
    known = await house.store.run(activity.people, house.store, study)
    days = await house.store.run(activity.per_day, house.store, study)
    used = await house.store.run(house.store.open_links, study)
    versions = await house.store.run(house.store.versions, study)
    words = pages.reader(request)
    newest = await house.store.view(house.store.stream_of(study), lambda f: head(f, words))
    missing = config["page"].get("missing", [])
    return pages.page(
        request, "study.html", study=study, who=who, may_change=who.may_change(study),
        csrf=who.token(house), key=security.link_key(), config=config, parties=parties,
        twins=house.twins(study.id), days=days, unlisted=len(known) - len(parties),
        made=made, open_links=used, live=sums(parties, words),
        edited=request.query_params.get("edited") == "1", versions=versions, head=newest,
        missing=[words("study.missing_row", row=row, column=name) for row, name in missing[:20]],
    )  # fmt: skip


async def _of_people(request: Request) -> tuple[sessions.Admin, StudyRow]:
    """The study of a form about participants: other kinds have parties or services."""
    who, study = await sessions.admin_study(request, change=True)
    if study.kind != "elicitation":
        raise Missing("There is no such page.")
    return who, study


def _make_links(house: House, study: StudyRow, label: str, n: int) -> list[tuple[str, str]]:
    known = len(house.store.parties(study))
    made = []
    for number in range(known + 1, known + n + 1):
        name = label if n == 1 else f"{label} {number}"
        party = house.store.new_party(study, role="participant", label=name)
        made.append((party.label, house.store.new_link(party)))
    return made


def _party(house: House, study: StudyRow, public: str) -> PartyRow:
    party = house.store.party(public)
    if party.study != study.id:
        raise Missing("There is no such party.")
    return party


def _whole(text: str, low: int, high: int, field: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9 and low <= int(text) <= high):
        raise Refused(f"A whole number from {low} to {high:,} is needed.", field)
    return int(text)


def base_of(request: Request, house: House) -> str:
    """Return the address that people use: never from the headers of a request."""
    if house.settings.base_url:
        return house.settings.base_url
    host, port = request.scope.get("server") or ("127.0.0.1", house.settings.port)
    root = request.scope.get("root_path", "")
    return f"http://[{host}]:{port}{root}" if ":" in host else f"http://{host}:{port}{root}"


_HOME = "/admin/studies/{study}"
router.add_route("/admin/studies/import", import_page, methods=["GET"])
router.add_route("/admin/studies/import", import_study, methods=["POST"])
router.add_route(f"{_HOME}/links", links, methods=["POST"])
router.add_route(f"{_HOME}/links.csv", links, methods=["POST"])
router.add_route(f"{_HOME}/open-link", open_link, methods=["POST"])
router.add_route(f"{_HOME}/open-link/revoke", revoke_open_links, methods=["POST"])
router.add_route(f"{_HOME}/parties/{{party}}/revoke", party_link, methods=["POST"])
router.add_route(f"{_HOME}/parties/{{party}}/reissue", party_link, methods=["POST"])
router.add_route(f"{_HOME}/export", export, methods=["GET"])
router.add_route(f"{_HOME}/preview", preview, methods=["GET"])
for _word in _STATES:
    router.add_route(f"{_HOME}/{_word}", change_state, methods=["POST"])
