"""Append: one order per stream, one effect per key, nothing of what is refused."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest
import sqlalchemy as sa
from store_fixtures import new_stream
from tally_kind import added

from counterplay.studio import errors
from counterplay.studio.checks import all_ok, check_studio
from counterplay.studio.settings import Settings
from counterplay.studio.store import NewEvent, Store
from counterplay.studio.store import tables as t
from counterplay.verify import broken_at


def numbers(store: Store, stream: str) -> list[float]:
    return [n for _, n in store.fold_now(stream).state["numbers"]]


def test_an_event_and_what_follows_are_one_step(store: Store) -> None:
    stream = new_stream(store)
    first = store.append_now(stream, added(4, "a"), expected=0)
    assert (first.seq, first.repeated) == (1, False)
    folded = store.fold_now(stream)
    assert (folded.seq, folded.state["echoes"]) == (2, 1)
    events = store.events(stream)
    assert [event.seq for event in events] == [1, 2]
    assert broken_at(events) is None
    assert events[-1].hash == folded.hash


def test_a_repeat_has_one_effect_and_another_body_is_refused(store: Store) -> None:
    stream = new_stream(store)
    first = store.append_now(stream, added(4, "a"), expected=0)
    again = store.append_now(stream, added(4, "a"), expected=0)
    assert again == type(again)(first.seq, first.hash, True)
    with pytest.raises(errors.KeyReuse, match="already used for another answer"):
        store.append_now(stream, added(5, "a"), expected=0)
    with pytest.raises(errors.Conflict) as stale:
        store.append_now(stream, added(5, "b"), expected=0)
    assert stale.value.current == 2
    assert numbers(store, stream) == [4]


@pytest.mark.parametrize(
    "body", [{"n": float("nan")}, {"n": float("inf")}, {"n": "four"}, {"n": b"x"}, {"n": "\ud800"}]
)
def test_what_is_refused_leaves_nothing(store: Store, body: dict[str, Any]) -> None:
    stream = new_stream(store)
    store.append_now(stream, added(1, "a"), expected=None)
    with pytest.raises(ValueError):  # noqa: PT011
        store.append_now(stream, NewEvent("tally.added", body, "b", "me"), expected=None)
    assert store.fold_now(stream).seq == 2
    assert numbers(store, stream) == [1]


@pytest.mark.parametrize("field", ["kind", "key", "actor"])
@pytest.mark.parametrize("value", ["", "x" * 300, "a\x00b", "line\nline"])
def test_names_of_events_are_plain(store: Store, field: str, value: str) -> None:
    stream = new_stream(store)
    fields = {"kind": "tally.added", "key": "k", "actor": "me", "body": {"n": 1}} | {field: value}
    with pytest.raises(errors.Refused):
        store.append_now(stream, NewEvent(**fields), expected=None)  # type: ignore[arg-type]
    assert store.events(stream) == []


def test_a_batch_is_all_or_nothing(store: Store) -> None:
    stream = new_stream(store)
    with pytest.raises(errors.Refused):
        store.append_all_now(
            stream, [added(1, "a"), NewEvent("tally.added", {"n": "x"}, "b", "me")], expected=None
        )
    assert store.events(stream) == []
    done = store.append_all_now(stream, [added(n, f"k{n}") for n in range(5)], expected=0)
    assert [one.seq for one in done] == [1, 3, 5, 7, 9]
    repeated = store.append_all_now(stream, [added(4, "k4"), added(9, "k9")], expected=None)
    assert [one.repeated for one in repeated] == [True, False]
    assert numbers(store, stream) == [0, 1, 2, 3, 4, 9]


def test_only_open_studies_take_answers(store: Store) -> None:
    study = store.new_study("elicitation", "Numbers", {}, actor="test")
    stream = store.new_party(study, role="participant", label="a").public_id
    with pytest.raises(errors.Closed, match="draft"):
        store.append_now(stream, added(1, "a"), expected=None)
    for state, open_now in (("open", True), ("paused", False), ("open", True), ("closed", False)):
        store.set_state(study.public_id, state, actor="test")
        if open_now:
            store.append_now(stream, added(1, f"{len(store.events(stream))}"), expected=None)
        else:
            with pytest.raises(errors.Closed, match=state):
                store.append_now(stream, added(1, "never"), expected=None)
    with pytest.raises(errors.Refused, match="closed"):
        store.set_state(study.public_id, "open", actor="test")
    assert [e.kind.partition(".")[2] for e in store.events(study.public_id)] == [
        "created", "opened", "paused", "opened", "closed",
    ]  # fmt: skip


def test_closed_means_closed_for_an_answer_on_its_way(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study closes after the answer was checked and before it is written."""
    study = store.new_study("elicitation", "Numbers", {}, actor="test", open_now=True)
    stream = store.new_party(study, role="participant", label="a").public_id
    submit, waiting = store._writer.submit, [True]

    def late(operation: Any) -> Any:
        if waiting:
            waiting.clear()
            store.set_state(study.public_id, "closed", actor="test")
        return submit(operation)

    monkeypatch.setattr(store._writer, "submit", late)
    with pytest.raises(errors.Closed):
        store.append_now(stream, added(1, "a"), expected=0)
    assert store.events(stream) == []


def test_the_log_cannot_be_changed_by_accident(store: Store) -> None:
    stream = new_stream(store)
    store.append_now(stream, added(1, "a"), expected=0)
    store.audit("test", "looked", stream)
    e = t.event.c
    for statement in (
        sa.delete(t.event),
        sa.update(t.event).values(kind="x"),
        sa.update(t.event).values(body='{"n":2}'),
        sa.update(t.event).values(seq=e.seq + 10),
        sa.delete(t.audit_log),
        sa.update(t.audit_log).values(actor="x"),
    ):
        with pytest.raises((sa.exc.DBAPIError, errors.Unavailable)):
            store._do(statement)
    store._do(sa.update(t.event).where(e.seq == 2).values(body=None, salt=None))
    assert [event.body is None for event in store.events(stream)] == [False, True]


@pytest.mark.claim("28.05")
def test_writers_of_one_stream_never_share_a_number(store: Store, settings: Settings) -> None:
    """Two stores race as two processes would (the processes are in test_store_kill)."""
    stream = new_stream(store)
    with Store.open(settings) as other:
        for i in range(40):
            for writer in (store, other):
                writer.append_now(stream, added(i, f"{id(writer)}:{i}"), expected=None)
    assert [event.seq for event in store.events(stream)] == list(range(1, 161))


def interleaving(rng: random.Random) -> list[tuple[str, int]]:
    """Answers, retries of any earlier one, stale tabs, undo and doubled undo, in any order."""
    words = ["answer", "answer", "retry", "stale", "undo", "undo again", "other body"]
    return [(rng.choice(words), rng.randrange(100)) for _ in range(rng.randint(2, 7))]


class Model:
    """What must come out: the numbers that count, and what each key did."""

    def __init__(self, store: Store, stream: str) -> None:
        self.store, self.stream = store, stream
        self.numbers: list[tuple[int, float]] = []
        self.done: list[NewEvent] = []
        self.seq = 0

    def add(self, event: NewEvent) -> None:
        got = self.store.append_now(self.stream, event, expected=self.seq)
        assert (got.seq, got.repeated) == (self.seq + 1, False)
        if event.kind == "tally.added":
            self.numbers.append((got.seq, event.body["n"]))
            self.seq += 2
        else:
            self.numbers.pop()
            self.seq += 1
        self.done.append(event)

    def step(self, word: str, n: int) -> None:
        key = f"k{len(self.done)}"
        if word == "answer" or not self.done:
            self.add(added(n, key))
        elif word == "retry":
            event = self.done[n % len(self.done)]
            assert self.store.append_now(self.stream, event, expected=0).repeated
        elif word == "stale":
            with pytest.raises(errors.Conflict) as told:
                self.store.append_now(self.stream, added(n, key), expected=self.seq - 1)
            assert told.value.current == self.seq
        elif word == "other body":
            event = self.done[n % len(self.done)]
            with pytest.raises(errors.KeyReuse):
                self.store.append_now(self.stream, added(-1, event.key), expected=None)
        elif self.numbers:
            undo = NewEvent("tally.undone", {"seq": self.numbers[-1][0]}, key, "me")
            self.add(undo)
            if word == "undo again":
                assert self.store.append_now(self.stream, undo, expected=None).repeated

    def check(self) -> None:
        folded = self.store.fold_now(self.stream)
        assert folded.state["numbers"] == self.numbers
        assert folded.seq == self.seq
        self.store._folds.drop(self.stream)
        assert self.store.fold_now(self.stream).state == folded.state


def play_interleavings(store: Store, count: int) -> None:
    rng = random.Random(4)
    study = store.new_study("elicitation", "Numbers", {}, actor="test", open_now=True)
    for number in range(count):
        party = store.new_party(study, role="participant", label=f"p{number}")
        model = Model(store, party.public_id)
        for word, n in interleaving(rng):
            model.step(word, n)
        model.check()
    assert all_ok(f for f in check_studio(store.settings) if f.name == "chains")


@pytest.mark.claim("28.04")
def test_interleavings_end_as_the_model_says(store: Store) -> None:
    play_interleavings(store, 60)


@pytest.mark.slow
def test_a_thousand_interleavings(store: Store) -> None:
    play_interleavings(store, 1000)


def test_group_commit_lets_a_bad_event_fail_alone(settings: Settings, tally: None) -> None:
    """Many at once, one of them with a key that another process takes in the meantime."""
    with Store.open(settings, server=True) as store:
        study = store.new_study("elicitation", "Numbers", {}, actor="test", open_now=True)
        parties = [
            store.new_party(study, role="participant", label=f"p{i}").public_id for i in range(12)
        ]

        async def everyone() -> list[Any]:
            tasks = []
            for stream in parties:
                for i in range(5):
                    tasks.append(store.append(stream, added(i, f"{i}"), expected=None))
                    tasks.append(store.append(stream, added(i, f"{i}"), expected=None))
                tasks.append(store.append(stream, added(9, "bad\n"), expected=None))
            return await asyncio.gather(*tasks, return_exceptions=True)

        done = asyncio.run(everyone())
        assert sum(isinstance(one, errors.Refused) for one in done) == 12
        assert sum(getattr(one, "repeated", False) for one in done) == 60
        for stream in parties:
            assert sorted(numbers(store, stream)) == [0, 1, 2, 3, 4]


def test_a_refused_answer_costs_no_replay(
    settings: Settings, tally: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(settings, server=True) as store:
        stream = new_stream(store)
        store.append_now(stream, added(1, "a"), expected=0)
        folded = store.fold_now(stream)
        for event in (NewEvent("tally.added", {"n": "x"}, "b", "me"), added(2, "a")):
            with pytest.raises((errors.Refused, errors.KeyReuse)):
                store.append_now(stream, event, expected=None)
        assert store.fold_now(stream) is folded


def test_many_who_wait_for_one_stream_hold_no_threads(settings: Settings, tally: None) -> None:
    """One slow stream does not keep the others waiting."""
    with Store.open(settings, server=True) as store:
        slow, quick = new_stream(store), new_stream(store)

        async def both() -> list[str]:
            order: list[str] = []

            async def take(stream: str, name: str, look: Any) -> None:
                await store.view(stream, look)
                order.append(name)

            held = threading.Event()
            waiting = [
                asyncio.create_task(take(slow, "slow", lambda _: held.wait(10))) for _ in range(40)
            ]
            await asyncio.sleep(0.05)
            await take(quick, "quick", lambda folded: folded.seq)
            held.set()
            await asyncio.gather(*waiting)
            return order

        assert asyncio.run(both())[0] == "quick"


def test_a_server_sees_what_commands_write_beside_it(settings: Settings, tally: None) -> None:
    with Store.open(settings, server=True) as server, Store.open(settings) as command:
        study = server.new_study("elicitation", "Numbers", {}, actor="test", open_now=True)
        stream = server.new_party(study, role="participant", label="a").public_id
        server.append_now(stream, added(1, "a"), expected=0)

        async def told() -> tuple[str, int]:
            async for news in server.listen([stream]):
                return news
            raise AssertionError

        async def both() -> tuple[str, int]:
            waiting = asyncio.create_task(told())
            await asyncio.sleep(0.05)
            await asyncio.to_thread(command.append_now, stream, added(2, "b"), expected=None)
            return await asyncio.wait_for(waiting, 10)

        assert asyncio.run(both()) == (stream, 4)
        assert numbers(server, stream) == [1, 2]
        with pytest.raises(errors.Conflict):
            server.append_now(stream, added(3, "c"), expected=2)
        command.set_state(study.public_id, "closed", actor="test")
        with pytest.raises(errors.Closed):
            server.append_now(stream, added(3, "c"), expected=None)


def test_one_server_per_file(settings: Settings, tally: None) -> None:
    with Store.open(settings, server=True):
        if settings.sqlite_file is None:
            Store.open(settings, server=True).close()
        else:
            with pytest.raises(errors.CannotStart, match=r"another server \(process \d+\)"):
                Store.open(settings, server=True)
