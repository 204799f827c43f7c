"""A search for orders of answers, retries, stale tabs, undo and pauses that break the log."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from web_house import catalogue, fields

from counterplay.studio import errors
from counterplay.studio.exports import export_lines
from counterplay.studio.kinds.elicitation import KIND
from counterplay.studio.settings import Settings
from counterplay.studio.store import NewEvent, Store
from counterplay.verify import verify

WORDS = ("first", "second", "same", "cannot say")


@cache
def config() -> dict[str, Any]:
    """Forty things, and a target that takes more answers than an example gives."""
    raw = {**fields(target_regret=0.001), "table_bytes": catalogue(40)}
    return KIND.read_config(raw, Path())


def words(state: Any) -> list[tuple[int, str]]:
    """Number and content of every answer that counts."""
    return [
        (one.seq, one.entry.said if one.entry.said != "choice" else WORDS[one.entry.order[0]])
        for one in state.log
    ]


class Sitting(RuleBasedStateMachine):
    """A participant of an elicitation in several windows; two stores on one database."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        chosen = Settings(data=Path(self.folder.name) / "s", database=type(self).fresh())
        self.stores = [Store.open(chosen), Store.open(chosen)]
        self.study = self.stores[0].new_study(
            "elicitation", "Things", config(), actor="test", open_now=True
        )
        party = self.stores[0].new_party(self.study, role="participant", label="Ann")
        self.stores[0].join(party)
        self.stream = party.public_id
        self.said: list[tuple[int, str]] = []
        self.sent: list[tuple[NewEvent, int]] = []
        self.tried = 0
        self.seq = 2  # she came, and was asked
        self.open = True

    @staticmethod
    def fresh() -> str | None:
        return None

    def teardown(self) -> None:
        text = "".join(export_lines(self.stores[0], self.study))
        for store in self.stores:
            store.close()
        self.folder.cleanup()
        assert verify(text.encode()).holds

    def send(self, who: int, kind: str, body: dict[str, Any], expected: int | None) -> Any:
        self.tried += 1
        event = NewEvent(kind, body, f"k{self.tried}", "me")
        try:
            got = self.stores[who].append_now(self.stream, event, expected=expected)
        except errors.StudioError as error:
            return error
        self.sent.append((event, got.seq))
        assert (got.seq, got.repeated) == (self.seq + 1, False)
        self.seq += 2  # the next question, or the result, follows at once
        return got

    @rule(who=st.integers(0, 1), word=st.sampled_from(WORDS), behind=st.integers(0, 2))
    def answer(self, who: int, word: str, behind: int) -> None:
        asked = self.stores[who].fold_now(self.stream).state.open
        body: dict[str, Any] = {"asked": self.seq if asked is None else asked[0]}
        kind = "elicit.cannot_say" if word in WORDS[2:] else "elicit.answered"
        more = {"said": word} if word in WORDS[2:] else {"order": [WORDS.index(word)]}
        got = self.send(who, kind, body | more, self.seq - behind)
        if behind:
            assert isinstance(got, errors.Conflict)
            assert got.current == self.seq
        elif not self.open:
            assert isinstance(got, errors.Closed)
        elif asked is None:
            assert isinstance(got, errors.Refused)
        else:
            self.said.append((got.seq, word))

    @rule(who=st.integers(0, 1), seq=st.integers(1, 3))
    def answer_what_is_not_open(self, who: int, seq: int) -> None:
        got = self.send(who, "elicit.answered", {"asked": self.seq + seq, "order": [0]}, None)
        assert isinstance(got, errors.Refused if self.open else errors.Closed)

    @precondition(lambda self: self.sent)
    @rule(who=st.integers(0, 1), which=st.integers(0, 99), same=st.booleans())
    def send_again(self, who: int, which: int, same: bool) -> None:
        event, seq = self.sent[which % len(self.sent)]
        if same:
            got = self.stores[who].append_now(self.stream, event, expected=0)
            assert (got.seq, got.repeated) == (seq, True)
        else:
            other = NewEvent(event.kind, {**event.body, "ms": 1}, event.key, "me")
            with pytest.raises(errors.KeyReuse):
                self.stores[who].append_now(self.stream, other, expected=None)

    @precondition(lambda self: self.said)
    @rule(who=st.integers(0, 1), last=st.booleans())
    def undo(self, who: int, last: bool) -> None:
        seq = self.said[-1][0] if last else self.said[-1][0] + 1
        got = self.send(who, "elicit.undone", {"seq": seq}, None)
        if not self.open:
            assert isinstance(got, errors.Closed)
        elif not last:
            assert isinstance(got, errors.Refused)
        else:
            self.said.pop()

    @rule(who=st.integers(0, 1))
    def pause_or_open(self, who: int) -> None:
        self.open = not self.open
        state = "open" if self.open else "paused"
        self.stores[who].set_state(self.study.public_id, state, actor="test")

    @rule(who=st.integers(0, 1))
    def restart(self, who: int) -> None:
        chosen = self.stores[who].settings
        self.stores[who].close()
        self.stores[who] = Store.open(chosen)

    @invariant()
    def both_see_what_was_said(self) -> None:
        questions = []
        for store in self.stores:
            folded = store.fold_now(self.stream)
            assert (folded.seq, words(folded.state)) == (self.seq, self.said)
            questions.append((folded.state.open, folded.state.result))
        assert questions[0] == questions[1]


LIMITS = settings(
    max_examples=8, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.claim("28.04")
def test_no_order_of_events_breaks_the_log() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Sitting, settings=LIMITS)


@pytest.mark.claim("28.04")
def test_no_order_of_events_breaks_the_log_in_postgresql(cluster: Any) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    class InPostgreSQL(Sitting):
        @staticmethod
        def fresh() -> str | None:
            url: str = cluster.new_database()
            return url

    run_state_machine_as_test(InPostgreSQL, settings=settings(LIMITS, max_examples=4))
