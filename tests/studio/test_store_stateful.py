"""A search for orders of answers, retries, stale tabs, undo and closing that break the log."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import tally_kind
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from store_fixtures import new_stream

from counterplay.studio import errors, kinds
from counterplay.studio.settings import Settings
from counterplay.studio.store import NewEvent, Store
from counterplay.verify import broken_at


class Log(RuleBasedStateMachine):
    """Two stores on one database (a server and a command), one person in several windows."""

    def __init__(self) -> None:
        super().__init__()
        self.saved = dict(kinds.MODULES)
        tally_kind.use()
        self.folder = tempfile.TemporaryDirectory()
        chosen = Settings(data=Path(self.folder.name) / "s", database=type(self).fresh())
        self.stores = [Store.open(chosen), Store.open(chosen)]
        self.stream = new_stream(self.stores[0])
        self.study = self.stores[0].studies()[0].public_id
        self.numbers: list[tuple[int, float]] = []
        self.seen: list[tuple[NewEvent, int]] = []
        self.seq = 0
        self.open = True

    @staticmethod
    def fresh() -> str | None:
        return None

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        self.folder.cleanup()
        kinds.MODULES.update(self.saved)

    def send(self, who: int, event: NewEvent, expected: int | None) -> Any:
        try:
            return self.stores[who].append_now(self.stream, event, expected=expected)
        except errors.StudioError as error:
            return error

    @rule(who=st.integers(0, 1), n=st.integers(0, 9), behind=st.integers(0, 3))
    def answer(self, who: int, n: int, behind: int) -> None:
        event = tally_kind.added(n, f"k{len(self.seen)}")
        got = self.send(who, event, max(0, self.seq - behind))
        if behind and self.seq:
            assert isinstance(got, errors.Conflict)
            assert got.current == self.seq
        elif not self.open:
            assert isinstance(got, errors.Closed)
        else:
            assert (got.seq, got.repeated) == (self.seq + 1, False)
            self.seen.append((event, got.seq))
            self.numbers.append((got.seq, n))
            self.seq += 2

    @precondition(lambda self: self.seen)
    @rule(who=st.integers(0, 1), which=st.integers(0, 99), same=st.booleans())
    def send_again(self, who: int, which: int, same: bool) -> None:
        event, seq = self.seen[which % len(self.seen)]
        if same:
            got = self.send(who, event, 0)
            assert (got.seq, got.repeated) == (seq, True)
        else:
            got = self.send(who, tally_kind.added(-1, event.key), None)
            assert isinstance(got, errors.KeyReuse)

    @precondition(lambda self: self.numbers)
    @rule(who=st.integers(0, 1))
    def undo(self, who: int) -> None:
        event = NewEvent("tally.undone", {"seq": self.numbers[-1][0]}, f"k{len(self.seen)}", "me")
        got = self.send(who, event, None)
        if not self.open:
            assert isinstance(got, errors.Closed)
        else:
            self.seen.append((event, got.seq))
            self.numbers.pop()
            self.seq += 1

    @rule(who=st.integers(0, 1))
    def pause_or_open(self, who: int) -> None:
        self.open = not self.open
        self.stores[who].set_state(self.study, "open" if self.open else "paused", actor="test")

    @rule(who=st.integers(0, 1))
    def restart(self, who: int) -> None:
        chosen = self.stores[who].settings
        self.stores[who].close()
        self.stores[who] = Store.open(chosen)

    @invariant()
    def both_see_the_same(self) -> None:
        for store in self.stores:
            folded = store.fold_now(self.stream)
            assert (folded.seq, folded.state["numbers"]) == (self.seq, self.numbers)
        assert broken_at(self.stores[0].events(self.stream)) is None


LIMITS = settings(max_examples=8, stateful_step_count=10, suppress_health_check=list(HealthCheck))


@pytest.mark.claim("28.04")
def test_no_order_of_events_breaks_the_log() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Log, settings=LIMITS)


@pytest.mark.claim("28.04")
def test_no_order_of_events_breaks_the_log_in_postgresql(cluster: Any) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    class InPostgreSQL(Log):
        @staticmethod
        def fresh() -> str | None:
            url: str = cluster.new_database()
            return url

    run_state_machine_as_test(InPostgreSQL, settings=settings(LIMITS, max_examples=4))
