"""Comings and goings in a campaign: answers taken back, items and parties that come and leave.

What was paid for stays in use, what certificates had spent stays spent.
Source: docs/theory/24-campaign.md, "Comings, goings, retraction".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.validation import IntArray, check_int
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.labeling import campaign_log as log_lines
from counterplay.labeling.campaign_questions import CampaignQuestions, Question
from counterplay.labeling.certificate import SKIPPED
from counterplay.labeling.owners import check_names
from counterplay.tables import Table
from counterplay.tables.cells import shown


class ChangingCampaign(CampaignQuestions):
    """A campaign in which answers, items and parties may change."""

    def retract(self, question: Question | str, *, blind: bool = True) -> None:
        """Take an answer back; everything else that was paid for stays in use.

        What certificates had spent stays spent. The retracted answer, and answers that the new path
        does not ask for, are reported: the guarantee of the work is weaker by that number.

        Parameters
        ----------
        question:
            The question, or its id.
        blind:
            False if whoever retracts knows which questions are checks: then the items checked so
            far are not used for new certificates.
        """
        self._advance()
        asked = self._find(question, answered=True)
        if asked.id not in self._answered:
            raise InvalidInputError(f"question {asked.id} was not answered; nothing to retract")
        where = self._where(asked)
        self._write(log_lines.Retract(id=asked.id, blind=blind))
        del self._answered[asked.id]
        self._shown.discard(asked.id)
        self._state.retract(*where, blind=blind)
        self._emitted, self._own = 0, set()

    def expire(self, question: Question | str) -> None:
        """Take a question from a labeler who does not answer; it is asked again, of another."""
        asked = self._find(question)
        self._write(log_lines.Expire(id=asked.id))

    def withdraw(self, item: int, reason: str) -> None:
        """Take an item out of all pools; it is reported apart and covered by no certificate."""
        self._advance()
        state = self._state
        item = check_int(item, "item", low=0, high=len(state.table) - 1)
        if item in state.withdrawn:
            raise InvalidInputError(f"item {item} was withdrawn already")
        for key, told in state.given.items():
            checks = key[0] == item and state.purpose.get(key) == "audit"
            if checks and any(code != SKIPPED for code in told.values()):
                raise InvalidInputError(
                    f"item {item} was answered and cannot be withdrawn: its answer is in use"
                )
        if not isinstance(reason, str):
            raise InvalidInputError(f"reason must be text, got {shown(reason)}")
        self._write(log_lines.Withdraw(item=item, reason=str(reason[:1000])))
        state.withdraw(item, str(reason[:1000]))
        self._ahead.clear()

    def add_items(self, items: Any, *, party: str) -> IntArray:
        """Add rows to the pool of a party that still works; return their positions.

        They take random places in the audit order; labels that were frozen before are not tested
        any further.
        """
        number = self._party(party)
        party = self._state.names[number]
        self._advance()
        joint = self._state.joint
        assert joint is not None
        if self._state.finished or not joint.shadows[number].live:
            raise ProtocolError(
                f"{party!r} has finished; begin a new campaign for new items, with known= labels"
            )
        if not hasattr(joint.shadows[number].run, "add"):
            raise InvalidInputError(
                f"{type(joint.shadows[number].run).__name__} of {party!r} takes no new items"
            )
        return self._add(items, party, number, joins=False)

    def add_party(self, party: str, items: Any) -> IntArray:
        """Let a new party with its items in; return their positions."""
        check_names([party])
        if party in self._state.names:
            raise InvalidInputError(f"there is a party {party!r} already; use add_items")
        if isinstance(self._state.settings.solo, dict):
            raise InvalidInputError("solo= names a protocol for each party; a new one has none")
        self._advance()
        if self._state.finished:
            raise ProtocolError("the campaign is finished; begin a new one with known= labels")
        return self._add(items, str(party), len(self._state.names), joins=True)

    def remove_party(self, party: str, *, forget: bool = False) -> None:
        """Let a party go; its open questions are withdrawn.

        Its answers stay in use unless ``forget`` is True; then the others' guarantee is weaker by
        the answers of it that they had used.
        """
        number = self._party(party)
        self._advance()
        if number in self._state.gone:
            raise ProtocolError(f"{party!r} has left already")
        self._write(log_lines.Leave(party=self._state.names[number], forget=forget))
        self._state.leave(number, forget=forget)
        if forget:
            self._emitted, self._own = 0, set()
            for name, asked in self._questions.items():
                if asked.party == party:
                    self._answered.pop(name, None)

    def _add(self, items: Any, party: str, number: int, *, joins: bool) -> IntArray:
        from counterplay.labeling.campaign_replay import joined_tables

        old = self._state.table
        table = joined_tables(old, items)
        rows = np.arange(len(old), len(table), dtype=np.int64)
        self._enlarge(table, party, number, rows, joins=joins)
        return rows

    def _enlarge(
        self, table: Table, party: str, number: int, rows: IntArray, *, joins: bool
    ) -> None:
        state = self._state
        mark = log_lines.pool_mark(table.part(rows))
        self._write(log_lines.Add(party=party, rows=tuple(rows.tolist()), fingerprint=mark,
                                  joins=joins))  # fmt: skip
        if joins:
            state.names.append(party)
            state.rows.append(np.empty(0, dtype=np.int64))
        state.add(table, number, rows)
        if joins:
            state.joined[number] = state.amendments[-1].round
