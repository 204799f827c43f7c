"""Audits in the browser: hand in a table and its settings, watch the stages, read the page.

The page is made from people's data: it is shown in a frame without scripts and of no origin. Files
are handed out by their names in the database, never by a path.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.responses import Response

from counterplay.errors import InvalidInputError
from counterplay.studio.errors import Missing, Refused
from counterplay.studio.web import pages, security
from counterplay.studio.web.admin import note
from counterplay.studio.web.house import House, house_of
from counterplay.studio.web.live import polled
from counterplay.studio.web.sessions import admin

if TYPE_CHECKING:
    from starlette.requests import Request

    from counterplay.studio.store.base import JobRow, StudyRow
    from counterplay.studio.web.texts import Language

router = APIRouter()
MOST_STAGES, _SECTIONS = 40, 12  # places on the page
SANDBOX = {
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; "
    "img-src data:; font-src data:; frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    "x-frame-options": "SAMEORIGIN",
}


async def show_audits(request: Request) -> Response:
    """Show all audits and the form for a new one."""
    return await _list(request)


async def new_audit(request: Request) -> Response:
    """Take a table and its settings; the worker does the rest."""
    from counterplay.studio.kinds.audit import audit_config

    house = house_of(request)
    who = await admin(request, "owner")
    fields, files = await _uploads(request)
    who.check(house, fields)
    chosen = fields.get("model", "")
    may_bring = house.settings.allow_model_upload
    try:
        if "table" not in files:
            raise Refused(pages.reader(request)("audit.no_table"), "table")
        if chosen and chosen not in _models(house):
            raise Refused(pages.reader(request)("audit.no_model"), "model")
        if chosen and "model" in files:
            raise Refused(pages.reader(request)("audit.two_models"), "model_file")
        wanted = [s.strip() for s in fields.get("sections", "").split(",") if s.strip()]
        config = await house.store.run(
            lambda: audit_config(
                files, model=chosen or None, sections=wanted or None, uploads=may_bring
            )
        )
    except InvalidInputError as error:
        field = error.field if isinstance(error, Refused) else None
        given = {key: fields.get(key, "").strip()[:300] for key in ("name", "sections")}
        return await _list(request, wrong=str(error), field=field, given=given)
    name = fields.get("name", "").strip()[:200] or files["table"][0]
    study = await house.store.run(
        lambda: house.store.new_study("audit", name, config, actor=who.name, open_now=True)
    )
    await note(request, who, "audit", study.public_id, inputs=config["inputs"])
    return pages.go(request, f"/admin/audits/{study.public_id}")


async def show_audit(request: Request) -> Response:
    """Show the stages while an audit runs, then its page and gates."""
    who = await admin(request)
    house = house_of(request)
    study = await _study(request, house)
    job, state, artifacts = await house.store.run(_look, house, study)
    return pages.page(
        request, "audit_show.html", study=study, who=who, job=job, finished=state.finished,
        artifacts=artifacts, gates=(state.finished or {}).get("gates", []),
        not_judged=_not_judged(state.finished), live=progress_texts(job, pages.reader(request)),
    )  # fmt: skip


async def follow_audit(request: Request) -> Response:
    """Tell the stages and findings while a worker is at it; looked up once for all who look."""
    await admin(request)
    house, words = house_of(request), pages.reader(request)
    study = await _study(request, house)

    def look() -> dict[str, str]:
        jobs = (j for j in house.store.jobs() if j.args.get("study") == study.public_id)
        job = next(jobs, None)
        return progress_texts(job, words) | ({} if _at_work(job) else {"reload": "yes"})

    return polled(request, f"{study.public_id} {words.code}", look)


def _at_work(job: JobRow | None) -> bool:
    return job is not None and job.state in ("ready", "running")


def progress_texts(job: JobRow | None, t: Language) -> dict[str, str]:
    """Stages and findings of a running audit, as texts by name; places that wait are empty."""
    told = {"state": t(f"audit.job_{job.state if job else 'none'}")}
    progress = (job.progress if job else None) or {}
    stages, found = progress.get("stages", []), progress.get("findings", [])
    told["waiting"] = "" if stages else t("audit.waiting")
    for i in range(MOST_STAGES):
        told |= _stage(stages[i] if i < len(stages) else None, i, t)
    for i in range(_SECTIONS):
        one: dict[str, Any] = found[i] if i < len(found) else {"title": "", "sentences": []}
        told |= {f"section-{i}": one["title"], f"finding-{i}": "\n".join(one["sentences"])}
    return told


def _stage(stage: dict[str, Any] | None, i: int, t: Language) -> dict[str, str]:
    if stage is None:
        return {f"stage-{i}": "", f"count-{i}": "", f"bar-{i}@value": "0", f"bar-{i}@max": "1"}
    count = f"{stage['done']} / {stage['of']}" if stage["of"] else "–"
    if "planned" in stage:
        used, planned = t.number(stage["used"], 1), t.number(stage["planned"], 1)
        count += f" · {t('audit.seconds', used=used, planned=planned)}"
    done, of = str(stage["done"]), str(max(1, stage["of"]))
    return {f"stage-{i}": stage["name"], f"count-{i}": count, f"bar-{i}@value": done,
            f"bar-{i}@max": of}  # fmt: skip


async def audit_page(request: Request) -> Response:
    """Hand out the audit's page, sandboxed wherever it is opened."""
    await admin(request)
    house = house_of(request)
    study = await _study(request, house)
    content = await house.store.run(_content, house, study, "audit.html")
    return Response(content[0], 200, SANDBOX, media_type="text/html; charset=utf-8")


async def audit_file(request: Request) -> Response:
    """Hand out a file of an audit, to be saved."""
    who = await admin(request)
    house = house_of(request)
    study = await _study(request, house)
    name = request.path_params["name"]
    content, _ = await house.store.run(_content, house, study, name)
    await note(request, who, "audit file", study.public_id, name=name)
    plain = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)[:100]
    head = {**SANDBOX, "content-disposition": f'attachment; filename="{plain}"'}
    return Response(content, 200, head, media_type="application/octet-stream")


async def _list(
    request: Request,
    *,
    wrong: str | None = None,
    field: str | None = None,
    given: dict[str, str] | None = None,
) -> Response:
    who, house = await admin(request), house_of(request)

    def look() -> list[dict[str, Any]]:
        jobs: dict[str, Any] = {}
        for job in house.store.jobs():
            if job.kind == "audit":
                jobs.setdefault(str(job.args.get("study")), job)
        found = [s for s in house.store.studies() if s.kind == "audit" and who.may_see(s)]
        return [{"study": s, "job": jobs.get(s.public_id)} for s in found]

    return pages.page(
        request, "audit_list.html", status=422 if wrong else 200, who=who, wrong=wrong, field=field,
        audits=await house.store.run(look), models=_models(house), csrf=who.token(house),
        may_change=who.role == "owner", may_bring=house.settings.allow_model_upload,
        given=given or {"name": "", "sections": ""},
    )  # fmt: skip


def _look(house: House, study: StudyRow) -> tuple[Any, Any, list[Any]]:
    jobs = (j for j in house.store.jobs() if j.args.get("study") == study.public_id)
    job = next(jobs, None)  # before the log: a worker writes the end of its job last
    state = house.store.fold_now(house.store.stream_of(study), fresh=True).state
    return job, state, house.store.artifacts(study=study)


def _not_judged(finished: dict[str, Any] | None) -> bool:
    """Whether the gates wait for somebody who confirms the settings."""
    record = (finished or {}).get("record", {})
    return bool(record.get("guesses")) and not record.get("confirmed", True)


def _content(house: House, study: StudyRow, name: str) -> tuple[bytes, str]:
    for row in reversed(house.store.artifacts(study=study)):
        if row.name == name:
            return house.store.read_artifact(row), row.media_type
    raise Missing("There is no such file.")


async def _study(request: Request, house: House) -> StudyRow:
    study = await house.store.run(house.store.study, request.path_params["study"])
    who = await admin(request)
    if study.kind != "audit" or not who.may_see(study):
        raise Missing("There is no such audit.")
    return study


def _models(house: House) -> list[str]:
    from counterplay.studio.kinds.audit import MODELS

    folder = house.settings.data / "models"
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if p.is_file() and p.suffix in MODELS)


async def _uploads(request: Request) -> tuple[dict[str, str], dict[str, tuple[str, bytes]]]:
    """Fields and files of the form; sizes are limited before anything is parsed."""
    security.check_origin(request)
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise security.Forbidden("Only the form of the page can be sent here.")
    files: dict[str, tuple[str, bytes]] = {}
    async with request.form(max_files=3, max_fields=10, max_part_size=64 * 1024) as form:
        fields = {k: v for k, v in form.items() if isinstance(v, str)}
        for name, field in (("table", "table"), ("config", "config"), ("model", "model_file")):
            given = form.get(field)
            if given is not None and not isinstance(given, str) and given.filename:
                files[name] = (Path(given.filename).name[:200], await given.read(21 * 2**20))
    return fields, files


router.add_route("/admin/audits", show_audits, methods=["GET"])
router.add_route("/admin/audits", new_audit, methods=["POST"])
router.add_route("/admin/audits/{study}", show_audit, methods=["GET"])
router.add_route("/admin/audits/{study}/live", follow_audit, methods=["GET"])
router.add_route("/admin/audits/{study}/page", audit_page, methods=["GET"])
router.add_route("/admin/audits/{study}/files/{name}", audit_file, methods=["GET"])
