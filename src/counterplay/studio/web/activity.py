"""How much was answered, and when: counts for lists and pictures, from the log itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from counterplay.studio.store import tables as t
from counterplay.studio.store.database import reading

if TYPE_CHECKING:
    from counterplay.studio.store import Store
    from counterplay.studio.store.base import PartyRow, StudyRow

DAYS = 28
MOST_PARTIES = 500
ANSWERS = ("elicit.answered", "elicit.cannot_say", "label.tell", "label.skip", "guard.outcome")


def overview(store: Store) -> dict[int, dict[str, int]]:
    """Return parties, answers and today's answers of every study, by row number."""
    today = datetime.now(UTC).date().isoformat()
    e, s = t.event.c, t.stream.c
    answers = (
        sa.select(s.study, sa.func.count(), sa.func.sum(sa.case((e.at >= today, 1), else_=0)))
        .join_from(t.event, t.stream, e.stream == s.id)
        .where(e.kind.in_(ANSWERS))
        .group_by(s.study)
    )
    parties = sa.select(t.party.c.study, sa.func.count()).group_by(t.party.c.study)
    found: dict[int, dict[str, int]] = {}
    with reading(store.engine) as connection:
        for study, count, now in connection.execute(answers):
            found[study] = {"answers": count, "today": int(now or 0), "parties": 0}
        for study, count in connection.execute(parties):
            found.setdefault(study, {"answers": 0, "today": 0, "parties": 0})["parties"] = count
    return found


def per_day(store: Store, study: StudyRow) -> list[tuple[str, int]]:
    """Return answers of each of the last days, oldest first."""
    last = datetime.now(UTC).date()
    days = [(last - timedelta(days=DAYS - 1 - i)).isoformat() for i in range(DAYS)]
    e, s = t.event.c, t.stream.c
    day = sa.func.substr(e.at, 1, 10)
    query = (
        sa.select(day, sa.func.count())
        .join_from(t.event, t.stream, e.stream == s.id)
        .where(s.study == study.id, e.kind.in_(ANSWERS), e.at >= days[0])
        .group_by(day)
    )
    with reading(store.engine) as connection:
        found = {row[0]: row[1] for row in connection.execute(query)}
    return [(name, found.get(name, 0)) for name in days]


def counts(store: Store) -> dict[str, int]:
    """Return how much there is of everything, for monitoring."""
    tables = {"studies": t.study, "parties": t.party, "events": t.event, "jobs": t.job}
    with reading(store.engine) as connection:
        return {
            name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for name, table in tables.items()
        }


def participants(store: Store, study: StudyRow) -> list[dict[str, Any]]:
    """Return the participants of an elicitation with their progress, not more than are listed."""
    rows, valid = [], _links(store, study)
    for party in people(store, study)[:MOST_PARTIES]:
        stream = store.stream_of(study, party)
        found = store.view_now(stream, lambda f: progress(store, study, f))
        rows.append({"id": party.public_id, "label": party.label, **found,
                     "link": valid.get(party.id)})  # fmt: skip
    return rows


def people(store: Store, study: StudyRow) -> list[PartyRow]:
    """Return all participants of an elicitation."""
    return [party for party in store.parties(study) if party.role == "participant"]


def _links(store: Store, study: StudyRow) -> dict[int, bool]:
    """Return whether a party has a link that is not revoked; without those who never had one."""
    c = t.link.c
    valid = sa.func.max(sa.case((c.revoked_at.is_(None), 1), else_=0))
    query = sa.select(c.party, valid).where(c.study == study.id, c.party.is_not(None))
    with reading(store.engine) as connection:
        return {row[0]: bool(row[1]) for row in connection.execute(query.group_by(c.party))}


def progress(store: Store, study: StudyRow, folded: Any) -> dict[str, Any]:
    """Return how far the participant of a stream is."""
    sitting = folded.state
    result = None
    if sitting.result is not None:
        config = store.config(study, folded.version)
        result = config["page"]["names"][sitting.result.item]
    return {"answers": len(sitting.log), "erased": sitting.erased, "result": result,
            "joined": sitting.joined, "seq": folded.seq}  # fmt: skip
