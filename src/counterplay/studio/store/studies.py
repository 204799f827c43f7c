"""Studies and parties: rows for lists and pages; what happened to them is in the log."""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from typing import Any

import sqlalchemy as sa

import counterplay
from counterplay.core.exports import START, Event, config_hash
from counterplay.core.records import canonical
from counterplay.studio.errors import Missing, Refused
from counterplay.studio.kinds import NewEvent, kind_of
from counterplay.studio.store import tables as t
from counterplay.studio.store.append import Appended, checked, link, to_columns
from counterplay.studio.store.base import PartyRow, Rows, StudyRow, plain, public_id
from counterplay.studio.store.database import now, reading
from counterplay.studio.store.folds import FoldCache
from counterplay.studio.store.jobs import insert_job

LARGEST = 2**26
"""Most bytes of a configuration."""
ROLES = ("participant", "labeller", "coordinator", "service")
_NEXT = {
    "draft": ("open",),
    "open": ("paused", "closed"),
    "paused": ("open", "closed"),
    "closed": (),
}
_WORDS = {"open": "opened", "paused": "paused", "closed": "closed"}
_COLUMNS = [t.study.c[name] for name in StudyRow.__dataclass_fields__]


class Studies(Rows):
    """The life of studies and their parties."""

    _studies: dict[int, StudyRow]
    _configs: OrderedDict[tuple[int, int], dict[str, Any]]
    _folds: FoldCache

    def append_now(self, stream: str, event: NewEvent, *, expected: int | None) -> Appended:
        """Append; the store implements it."""
        raise NotImplementedError

    def _append_with(
        self, stream: str, events: list[NewEvent], expected: int | None, also: Any
    ) -> list[Appended]:
        raise NotImplementedError

    def new_study(
        self,
        kind: str,
        name: str,
        config: dict[str, Any],
        *,
        actor: str,
        open_now: bool = False,
    ) -> StudyRow:
        """Store a frozen configuration as a draft, or open at once; writes ``study.created``."""
        home, name = kind_of(kind), plain(name, "name")
        text = _config_text(config)
        key, digest = public_id(), config_hash(home.export(json.loads(text))[1])

        def insert(connection: sa.Connection) -> None:
            values = {
                "public_id": key,
                "kind": kind,
                "name": name,
                "state": "draft",
                "version": 1,
                "config_hash": digest,
                "created_at": now(),
                "fold_version": home.fold_version,
                "library_version": counterplay.__version__,
            }
            number = connection.execute(sa.insert(t.study).values(values)).inserted_primary_key
            assert number is not None
            _insert_version(connection, number[0], 1, text, digest)
            _insert_stream(connection, key, number[0], None, 1, first)

        body = {"kind": kind, "name": name, "version": 1, "config_hash": digest,
                "library_version": counterplay.__version__,
                "fold_version": home.fold_version}  # fmt: skip
        new = NewEvent("study.created", body, "created", actor)
        checked(new)
        first = link(key, 1, START, new)
        self._write(insert)
        if open_now:
            return self.set_state(key, "open", actor=actor)
        return self.study(key)

    def edit_study(
        self, public: str, config: dict[str, Any], *, actor: str, name: str | None = None
    ) -> StudyRow:
        """Make a new version; streams that have answers keep the old one."""
        study, text = self.study(public), _config_text(config)
        home = kind_of(study.kind)
        if study.state == "closed":
            raise Refused("This study is closed; make a new one.")
        if study.state != "draft" and study.kind != "elicitation":
            raise Refused("This study is open and its parties share one log; make a new one.")
        digest, version = config_hash(home.export(json.loads(text))[1]), self._next_version(study)
        called = study.name if name is None else plain(name, "name")

        def change(connection: sa.Connection) -> None:
            _insert_version(connection, study.id, version, text, digest)
            s, st = t.study.c, t.stream.c
            connection.execute(
                sa.update(t.study)
                .where(s.id == study.id)
                .values(version=version, config_hash=digest, name=called)
            )
            fresh = (st.seq == 0) if study.state != "draft" else sa.true()
            connection.execute(
                sa.update(t.stream).where(st.study == study.id, fresh).values(version=version)
            )

        body = {"version": version, "config_hash": digest, "name": called}
        edited = NewEvent("study.edited", body, f"edited:{version}", actor)
        self._append_with(public, [edited], None, change)
        self._folds.drop_study(study.id)
        self._forget_studies()
        return self.study(public)

    def _next_version(self, study: StudyRow) -> int:
        """Return the version after all that the log names; of an imported study some are away."""
        e = t.event.c
        edits = sa.select(e.body).where(e.stream == study.public_id, e.kind == "study.edited")
        with reading(self.engine) as connection:
            told = [json.loads(body) for body in connection.execute(edits).scalars() if body]
        named = [body.get("version") for body in told if isinstance(body, dict)]
        return 1 + max([study.version, *(n for n in named if type(n) is int and n < 1_000_000)])

    def set_state(self, public: str, state: str, *, actor: str) -> StudyRow:
        """Open, pause or close a study; an audit that opens gets its job in the same commit."""
        study = self.study(public)
        if state not in _NEXT.get(study.state, ()):
            raise Refused(f"This study is {study.state}; it cannot become {state[:20]}.", "state")

        def change(connection: sa.Connection) -> None:
            values: dict[str, Any] = {"state": state}
            if state == "closed":
                values["closed_at"] = now()
            s = t.study.c
            was = connection.execute(
                sa.update(t.study).where(s.id == study.id, s.state == study.state).values(values)
            )
            if was.rowcount != 1:
                raise Refused("Somebody else changed this study at the same time; look again.")
            if study.kind == "audit" and study.state == "draft":
                insert_job(connection, "audit", {"study": public})

        event = NewEvent(f"study.{_WORDS[state]}", {}, f"{state}:{secrets.token_hex(8)}", actor)
        self._append_with(public, [event], None, change)
        self._forget_studies()
        return self.study(public)

    def study(self, public: str) -> StudyRow:
        """Return a study by its public id."""
        known = self._studies
        if self._trusted:
            for row in list(known.values()):
                if row.public_id == public:
                    return row
        found = self._first(sa.select(*_COLUMNS).where(t.study.c.public_id == public), StudyRow)
        if found is None:
            raise Missing("There is no such study.")
        known[found.id] = found
        return found

    def study_by_id(self, number: int) -> StudyRow:
        """Return a study by its row number."""
        known = self._studies
        if self._trusted and number in known:
            return known[number]
        found = self._first(sa.select(*_COLUMNS).where(t.study.c.id == number), StudyRow)
        if found is None:
            raise Missing("There is no such study.")
        known[number] = found
        return found

    def studies(self) -> list[StudyRow]:
        """Return all studies, newest first."""
        return self._all(sa.select(*_COLUMNS).order_by(t.study.c.id.desc()), StudyRow)

    def config(self, study: StudyRow, version: int | None = None) -> dict[str, Any]:
        """Return a configuration; it is shared: do not change it."""
        key = (study.id, study.version if version is None else version)
        if key in self._configs:
            self._configs.move_to_end(key)
            return self._configs[key]
        v = t.study_version.c
        query = sa.select(v.config).where(v.study == key[0], v.version == key[1])
        with reading(self.engine) as connection:
            text = connection.execute(query).scalar()
        if text is None:
            raise Missing("There is no such version of this study.")
        config: dict[str, Any] = json.loads(text)
        self._configs[key] = config
        while len(self._configs) > 64:
            self._configs.popitem(last=False)
        return config

    def versions(self, study: StudyRow) -> list[int]:
        """Return the versions with an export of their own: those with answers, and the present."""
        with reading(self.engine) as connection:
            return sorted(answered_versions(connection, study) | {study.version})

    def stream_of(self, study: StudyRow, party: PartyRow | None = None) -> str:
        """Return the stream of a party: its own in an elicitation, else that of the study."""
        own = study.kind == "elicitation" and party is not None
        return party.public_id if own and party is not None else study.public_id

    def new_party(
        self, study: StudyRow, *, role: str, label: str, locale: str | None = None
    ) -> PartyRow:
        """Add a party; in an elicitation it gets a stream of its own."""
        if role not in ROLES:
            raise Refused(f"The role must be one of {', '.join(ROLES)}.", "role")
        label = plain(label, "label")

        def insert(connection: sa.Connection) -> int:
            return insert_party(connection, self.study_by_id(study.id), role, label, locale)

        return self._announced(self.party_by_id(self._write(insert)))

    def join(self, party: PartyRow) -> Appended:
        """Write ``party.joined``, once."""
        study = self.study_by_id(party.study)
        stream = self.stream_of(study, party)
        with reading(self.engine) as connection:
            version = connection.execute(
                sa.select(t.stream.c.version).where(t.stream.c.id == stream)
            ).scalar()
        body = {"role": party.role, "locale": party.locale, "party": party.public_id,
                "version": version}  # fmt: skip
        event = NewEvent("party.joined", body, f"joined:{party.public_id}", party.public_id)
        return self.append_now(stream, event, expected=None)

    def party(self, public: str) -> PartyRow:
        """Return a party by its public id."""
        found = self._first(sa.select(t.party).where(t.party.c.public_id == public), PartyRow)
        if found is None:
            raise Missing("There is no such party.")
        return found

    def party_by_id(self, number: int) -> PartyRow:
        """Return a party by its row number."""
        found = self._first(sa.select(t.party).where(t.party.c.id == number), PartyRow)
        if found is None:
            raise Missing("There is no such party.")
        return found

    def parties(self, study: StudyRow) -> list[PartyRow]:
        """Return the parties of a study in the order they were added."""
        query = sa.select(t.party).where(t.party.c.study == study.id).order_by(t.party.c.id)
        return self._all(query, PartyRow)

    def _forget_studies(self) -> None:
        """Begin anew: whoever reads at this moment fills the old dictionary."""
        self._studies = {}


def answered_versions(connection: sa.Connection, study: StudyRow) -> set[int]:
    """Return the versions of a study under which parties with streams of their own answered."""
    s = t.stream.c
    where = (s.study == study.id, s.seq > 0, s.id != study.public_id)
    return set(connection.execute(sa.select(s.version).where(*where).distinct()).scalars())


def insert_party(
    connection: sa.Connection, study: StudyRow, role: str, label: str, locale: str | None
) -> int:
    """Insert a party and, in an elicitation, its stream; return the row number."""
    key = public_id()
    values = {"study": study.id, "public_id": key, "role": role, "label": label,
              "locale": locale, "created_at": now()}  # fmt: skip
    number = connection.execute(sa.insert(t.party).values(values)).inserted_primary_key
    assert number is not None
    if study.kind == "elicitation":
        _insert_stream(connection, key, study.id, number[0], study.version)
    return int(number[0])


def _insert_version(
    connection: sa.Connection, study: int, version: int, text: str, digest: str
) -> None:
    values = {"study": study, "version": version, "config": text, "config_hash": digest}
    connection.execute(sa.insert(t.study_version).values(values))


def _insert_stream(
    connection: sa.Connection,
    stream: str,
    study: int,
    party: int | None,
    version: int,
    first: tuple[Event, str] | None = None,
) -> None:
    values = {"id": stream, "study": study, "party": party, "version": version,
              "seq": 0 if first is None else 1,
              "hash": START if first is None else first[0].hash}  # fmt: skip
    connection.execute(sa.insert(t.stream).values(values))
    if first is not None:
        connection.execute(sa.insert(t.event).values(to_columns(*first)))


def _config_text(config: dict[str, Any]) -> str:
    text = canonical(config).decode()
    if len(text) > LARGEST:
        raise Refused(f"The configuration has more than {LARGEST:,} bytes.")
    return text
