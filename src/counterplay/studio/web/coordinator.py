"""The coordinator's page of a campaign: who works how much, who disagrees, files in and out.

Files go in as a whole or not at all; nothing that goes out says which questions are checks.
"""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.responses import Response

from counterplay.errors import InvalidInputError
from counterplay.studio import reading
from counterplay.studio.errors import Missing, Refused
from counterplay.studio.kinds import NewEvent
from counterplay.studio.web import activity, pages, security
from counterplay.studio.web.admin import note
from counterplay.studio.web.house import House, house_of
from counterplay.studio.web.live import head
from counterplay.studio.web.sessions import Admin, admin_study
from counterplay.studio.web.studies import base_of, safe_cell

if TYPE_CHECKING:
    from starlette.requests import Request

    from counterplay.studio.kinds.campaign_fold import CampaignFold
    from counterplay.studio.store import Folded
    from counterplay.studio.store.base import PartyRow, StudyRow

router = APIRouter()
LARGEST_FILE = 20 * 2**20


async def show(
    request: Request,
    study: StudyRow,
    *,
    wrong: InvalidInputError | None = None,
    at: str | None = None,
    given: dict[str, str] | None = None,
    made: list[tuple[str, str]] | None = None,
) -> Response:
    """Show progress, ledger, disagreements and files; what is wrong stands in the form ``at``."""
    who, _ = await admin_study(request)
    house, words = house_of(request), pages.reader(request)
    estimate = request.query_params.get("estimate") == "1"

    def look(folded: Folded) -> dict[str, Any]:
        from counterplay.studio.kinds.campaign_live import coordinator_texts
        from counterplay.studio.kinds.campaign_views import coordinator, ledger

        found = coordinator(folded.state)
        if estimate and not found["problem"]:
            found["ledger"] = ledger(folded.state, None, estimate=True)
        return {**found, "live": coordinator_texts(found, words), "head": head(folded, words)}

    values = await house.store.view(house.store.stream_of(study), look)
    parties = await house.store.run(house.store.parties, study)
    days = await house.store.run(activity.per_day, house.store, study)
    added = request.query_params.get("added", "")
    return pages.page(
        request, "coordinator.html", status=422 if wrong else 200, study=study, who=who,
        may_change=who.may_change(study), csrf=who.token(house), key=security.new_key(),
        link_key=security.link_key(), at=at, given=given or {},
        wrong=None if wrong is None else str(wrong), field=getattr(wrong, "field", None),
        made=made, links={p.label: p for p in parties},
        days=days, estimate=estimate, left=request.query_params.get("left"),
        added=int(added) if added.isdigit() and len(added) < 6 else None, **values,
    )  # fmt: skip


async def take_file(request: Request) -> Response:
    """Import known labels, or answers that were given elsewhere: all of a file or nothing."""
    from counterplay.studio.kinds.campaign_config import item_names

    who, study = await _study(request)
    house = house_of(request)
    fields, name, data = await read_upload(request)
    who.check(house, fields)
    stream = house.store.stream_of(study)
    what = "known" if fields.get("what", "known") == "known" else "answers"

    def wanted(folded: Folded) -> dict[str, Any]:
        config = folded.state.config
        return {"names": item_names(config["page"]), "classes": config["classes"]}

    try:
        given = await house.store.view(stream, wanted) if what == "known" else {}
        found = await reading.read(house.store, what, given, data)
        told = await house.store.view(stream, lambda f: _imported(f.state, what, name, found))
        key = f"import:{fields.get('key', '')[:64]}"
        event = NewEvent("label.imported", told, key, who.name)
        await house.store.append(stream, event, expected=None)
    except InvalidInputError as error:
        return await show(request, study, wrong=error, at="import", given=fields)
    n = len(told.get("known", ())) + len(told.get("answers", ()))
    await note(request, who, "import", study.public_id, rows=n)
    return pages.go(request, f"/admin/studies/{study.public_id}")


async def change(request: Request) -> Response:
    """Take an item out, note how a disagreement was resolved, or let a party go."""
    fields = await security.read_form(request)
    who, study = await _study(request)
    house = house_of(request)
    who.check(house, fields)
    act, stream = fields.get("act", ""), house.store.stream_of(study)
    key = f"admin:{fields.get('key', '')[:64]}"
    try:
        kind, body = await house.store.view(stream, lambda f: _change(f.state, act, fields))
        if act == "leave" and fields.get("sure") != "yes":
            return await _look_again(request, who, study, body)
        leaving = None
        if body.get("forget"):
            leaving = await house.store.run(_row, house, study, body["party"])
            body |= {} if leaving is None else {"who": leaving.public_id}
        await house.store.append(stream, NewEvent(kind, body, key, who.name), expected=None)
        if leaving is not None:
            row = leaving
            await house.store.run(lambda: house.store.withdraw_party(row, actor=who.name))
    except InvalidInputError as error:
        return await show(request, study, wrong=error, at=act, given=fields)
    await note(request, who, kind, study.public_id, **{k: v for k, v in body.items() if k != "who"})
    told = f"?left={'deleted' if body['forget'] else 'kept'}" if act == "leave" else ""
    return pages.go(request, f"/admin/studies/{study.public_id}{told}")


async def _look_again(
    request: Request, who: Admin, study: StudyRow, body: dict[str, Any]
) -> Response:
    """Say what is lost when a party leaves, before it does."""
    house = house_of(request)

    def look(folded: Folded) -> dict[str, Any]:
        from counterplay.studio.kinds.campaign import KIND
        from counterplay.studio.kinds.campaign_views import leaving

        leaves = NewEvent("label.party", body, "look", who.name)
        KIND.check(folded.state.config, folded.state, leaves)
        return leaving(folded.state, body["party"])

    values = await house.store.view(house.store.stream_of(study), look)
    return pages.page(
        request, "leaving.html", study=study, csrf=who.token(house), key=security.new_key(),
        party=body["party"], forget=body["forget"], **values,
    )  # fmt: skip


async def add(request: Request) -> Response:
    """Take new items of a party, or of one that joins with them: all of a file or nothing."""
    from counterplay.studio.kinds.campaign_adding import addition

    who, study = await _study(request)
    house = house_of(request)
    fields: dict[str, str] = {}
    try:
        fields, _, data = await read_upload(request)
        who.check(house, fields)
        party = " ".join(fields.get("new_party", "").split()) or fields.get("party", "")
        columns = house.store.config(study)["page"]["columns"]
        cells = await reading.read(house.store, "items", {"columns": columns}, data)
        stream, key = house.store.stream_of(study), f"add:{fields.get('key', '')[:64]}"
        body = await house.store.view(stream, lambda f: addition(f.state, party, cells))
        await house.store.append(stream, NewEvent("label.add", body, key, who.name), expected=None)
    except InvalidInputError as error:
        return await show(request, study, wrong=error, at="add", given=fields)
    n = len(body["rows"])
    await note(request, who, "label.add", study.public_id, party=party, rows=n)
    return pages.go(request, f"/admin/studies/{study.public_id}?added={n}")


def _row(house: House, study: StudyRow, label: str) -> PartyRow | None:
    """The party that wrote under a name, if it ever had a link."""
    rows = house.store.parties(study)
    return next((p for p in rows if p.label == label and p.erased_at is None), None)


async def links(request: Request) -> Response:
    """Make the links of parties that have none, or a new one for a single party."""
    fields = await security.read_form(request)
    who, study = await _study(request)
    house = house_of(request)
    who.check(house, fields)
    wanted = fields.get("party", "")

    stream = house.store.stream_of(study)
    names = await house.store.view(stream, lambda f: list(f.state.config["parties"]))
    token = security.made_by(house.server_key, who.session, request, fields) if wanted else ""
    again = bool(wanted) and await house.store.run(house.store.find_link, token) is not None

    def make() -> list[tuple[str, str]]:
        known = {p.label: p for p in house.store.parties(study) if p.erased_at is None}
        if wanted and wanted in names and wanted in known:
            return [(wanted, token if again else house.store.reissue(known[wanted], token=token))]
        found = []
        for name in names:
            if name not in known:
                party = house.store.new_party(study, role="labeller", label=name)
                found.append((name, house.store.new_link(party)))
        return found

    made = await house.store.run(make)
    if not again:
        await note(request, who, "links", study.public_id, parties=[name for name, _ in made])
    base = base_of(request, house)
    return await show(request, study, made=[(n, f"{base}/j/{token}") for n, token in made])


async def labels_csv(request: Request) -> Response:
    """Hand out the labels: one row per item, with source, answers and disputes."""
    who, study = await _study(request, change=False)

    def look(folded: Folded) -> str:
        from counterplay.studio.kinds.campaign_labels import labels

        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(["item", "label", "score", "source", "answers", "disputed"])
        for row in labels(folded.state):
            score = "" if row["score"] != row["score"] else f"{row['score']:.6g}"
            label = row["label"] if isinstance(row["label"], str) else ""
            writer.writerow([safe_cell(row["item"]), safe_cell(label), score, row["source"],
                             row["answers"], str(bool(row["disputed"])).lower()])  # fmt: skip
        return out.getvalue()

    return await _file(request, who, study, look, "labels.csv", "text/csv; charset=utf-8")


async def tasks_json(request: Request) -> Response:
    """Hand out the open questions as tasks for Label Studio."""
    who, study = await _study(request, change=False)

    def look(folded: Folded) -> str:
        return json.dumps(label_studio(folded.state), ensure_ascii=False, indent=1)

    return await _file(request, who, study, look, "tasks.json", "application/json")


def label_studio(state: CampaignFold) -> list[dict[str, Any]]:
    """Open questions as Label Studio tasks; questions go by names that tell nothing."""
    page = state.config["page"]
    tasks = []
    for party in state.config["parties"] if state.departed is None else ():
        for question in state.waiting(party):
            row = dict(zip(page["columns"], page["rows"][question.item]))
            name = state.secret(question.id)
            tasks.append({"data": {**row, "question": name, "party": party},
                          "meta": {"question": name}})  # fmt: skip
    return tasks


async def read_upload(request: Request) -> tuple[dict[str, str], str, bytes]:
    """The fields and the one file of a form with a file."""
    security.check_origin(request)
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise security.Forbidden("Only the form of the page can be sent here.")
    async with request.form(max_files=2, max_fields=20, max_part_size=64 * 1024) as form:
        fields = {k: v for k, v in form.items() if isinstance(v, str)}
        files = [v for v in form.values() if not isinstance(v, str)]
        if not files or not files[0].filename:
            raise Refused("Choose a file first.", "file")
        data = await files[0].read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise Refused("The file has more than 20 MB.", "file")
        return fields, str(files[0].filename)[:200], data


def _change(state: CampaignFold, act: str, fields: dict[str, str]) -> tuple[str, dict[str, Any]]:
    from counterplay.studio.kinds.campaign import lost_answers
    from counterplay.studio.kinds.campaign_config import item_names
    from counterplay.studio.kinds.campaign_reload import written_with

    names = {name: i for i, name in enumerate(item_names(state.config["page"]))}
    if act == "withdraw":
        item = names.get(fields.get("item", "").strip())
        if item is None:
            raise Refused("There is no such item.", "item")
        return "label.withdraw", {"item": item, "reason": fields.get("reason", "").strip()[:1000]}
    if act == "resolve":
        item = int(fields.get("item", "-1")) if fields.get("item", "").isdigit() else -1
        return "label.resolved", {"item": item, "note": fields.get("note", "").strip()[:1000]}
    if act == "leave":
        party = fields.get("party", "")
        if not party:
            raise Refused("Choose a party.", "party")
        forget = fields.get("forget") == "yes"
        lost = lost_answers(state, party) if forget and party in state.config["parties"] else {}
        return "label.party", {"party": party, "forget": forget, "lost": lost}
    if act == "rule":
        return "label.rule", written_with()
    raise Refused("That is not possible here.")


def _imported(
    state: CampaignFold, what: str, source: str, given: list[list[Any]]
) -> dict[str, Any]:
    """The body of an import: what a file holds, in the words of the campaign."""
    from counterplay.studio.kinds.campaign import answer_code, stopped

    if what == "known":
        if not given:
            raise Refused("The file has no labels.")
        return {"source": source, "known": given}
    if state.departed:
        raise Refused(stopped(state))
    found, problems = [], []
    for question, label, labeler, party, place in given:
        name = state.find(question)
        try:
            if name is None:
                raise InvalidInputError(f"there is no question {question[:40]!r}")
            asked = state.campaign._find(name)
            if party not in (None, "", asked.party):
                raise InvalidInputError(f"the question belongs to {asked.party!r}")
            found.append([name, answer_code(state, label), labeler])
        except InvalidInputError as error:
            sentence = str(error).replace(f"question {name}", f"question {question[:40]}")
            problems.append(f"{place}: {sentence}")
    if problems:
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise Refused(f"Nothing was imported. {'; '.join(problems[:5])}{more}")
    if not found:
        raise Refused("The file has no answers.")
    return {"source": source, "answers": found}


async def _file(
    request: Request, who: Any, study: StudyRow, look: Any, name: str, media_type: str
) -> Response:
    house = house_of(request)
    text = await house.store.view(house.store.stream_of(study), look)
    await note(request, who, f"exported {name}", study.public_id)
    head = {"content-disposition": f"attachment; filename={study.public_id}-{name}"}
    return Response(text, 200, head, media_type=media_type)


async def _study(request: Request, *, change: bool = True) -> tuple[Admin, StudyRow]:
    who, study = await admin_study(request, change=change)
    if study.kind != "campaign":
        raise Missing("There is no such page.")
    return who, study


router.add_route("/admin/studies/{study}/import", take_file, methods=["POST"])
router.add_route("/admin/studies/{study}/add", add, methods=["POST"])
router.add_route("/admin/studies/{study}/change", change, methods=["POST"])
router.add_route("/admin/studies/{study}/party-links", links, methods=["POST"])
router.add_route("/admin/studies/{study}/labels.csv", labels_csv, methods=["GET"])
router.add_route("/admin/studies/{study}/tasks.json", tasks_json, methods=["GET"])
