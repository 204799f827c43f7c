"""Sort the replies of a round: who reported, who left, who was dropped and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from counterplay.core.replies import check_rows_sent, common_metrics
from counterplay.core.validation import check_real
from counterplay.defection.flower.messages import (
    ANCHOR,
    METRICS,
    PARTY,
    TIED,
    TIED_TO,
    ParameterSpace,
    PartyReport,
    is_goodbye,
    read_report,
)
from counterplay.defection.reports import Reports
from counterplay.defection.stack import NumpyStack
from counterplay.errors import InvalidInputError, MissingDependencyError

try:
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
except ImportError:
    raise MissingDependencyError.for_extra("flwr", "federated") from None

GOODBYE, NO_REPLY = "left", "no reply"
FARTHEST = 1e6
"""Longest gradient or update, in units of the usual length or of 1, whichever is longer."""


class Inbox:
    """Reads replies; what most of them hold gradients for is what is trained."""

    def __init__(
        self, threshold: float | None, loss_range: tuple[float, float] = (0.0, 1e6)
    ) -> None:
        self.threshold = threshold
        self.loss_range = loss_range
        self._space: ParameterSpace | None = None

    @property
    def space(self) -> ParameterSpace:
        """The trained arrays as one vector; known from the first usable reply on."""
        if self._space is None:
            raise InvalidInputError("no party has sent a gradient yet")
        return self._space

    def sort(
        self, replies: Iterable[Message], questions: Sequence[Message], model: ArrayRecord
    ) -> tuple[dict[int, PartyReport], dict[int, str]]:
        """Return the reports by party, and why the other parties that were asked are absent.

        Errors that Flower made for a party that disconnected count as the party's. Never raises
        because of what a party sent.
        """
        asked = [m.metadata.dst_node_id for m in questions]
        numbers = {m.metadata.message_id: m.metadata.dst_node_id for m in questions}
        numbers.pop("", None)
        received = list(replies)
        self._space = _space_of(received, model, self._space)
        reports: dict[int, PartyReport] = {}
        absent: dict[int, str] = {}
        for reply in received:
            sender = reply.metadata.src_node_id
            node = numbers.get(reply.metadata.reply_to_message_id, sender)
            if is_goodbye(reply):
                absent[node] = GOODBYE
            elif reply.has_error():
                absent[node] = f"error: {_last_line(reply.error.reason)}"
            else:
                try:
                    reports[node] = self._read(reply)
                except Exception as error:  # a party may send anything, the others go on
                    absent[node] = f"unusable reply: {_reason(error)}"
        for node, why in _too_long(reports).items():
            del reports[node]
            absent[node] = f"unusable reply: {why}"
        known = [node for node in asked if node in reports]
        away = {node: absent.get(node, NO_REPLY) for node in asked if node not in reports}
        return {node: reports[node] for node in known}, away

    def _read(self, reply: Message) -> PartyReport:
        if self._space is None:
            raise InvalidInputError("the reply needs a gradient record 'anchor'")
        report = read_report(reply, self._space, self.loss_range)
        if report.threshold is None and self.threshold is None:
            raise InvalidInputError(
                "it has no threshold: let the client send one, or set threshold in the strategy"
            )
        return report

    def stack(self, reports: Sequence[PartyReport], numbers: Sequence[int]) -> Reports:
        """Return what a server rule wants to see."""
        eps = [self.threshold if r.threshold is None else r.threshold for r in reports]
        errors = np.array([r.loss_se or 0.0 for r in reports])
        updates = [r.gradient if r.update is None else r.update for r in reports]
        local = any(r.update is not None for r in reports)
        return Reports(
            loss=np.array([r.loss for r in reports]),
            gradients=NumpyStack(np.stack([r.gradient for r in reports])),
            eps=np.array(eps, dtype=np.float64),
            ids=np.array(numbers),
            updates=NumpyStack(np.stack(updates)) if local else None,
            loss_se=errors if errors.any() else None,
        )


def readable_metrics(
    replies: Iterable[Message], weight: str
) -> tuple[list[Message], dict[int, str]]:
    """Return the evaluations that can be averaged, with their common metrics, and why others not.

    Parties that left are in neither.
    """
    usable: list[tuple[Message, MetricRecord]] = []
    refused: dict[int, str] = {}
    for reply in replies:
        if is_goodbye(reply):
            continue
        try:
            usable.append((reply, _metrics_of(reply, weight)))
        except Exception as error:  # as above
            refused[reply.metadata.src_node_id] = _reason(error)
    common = common_metrics([record for _, record in usable])
    for reply, record in usable:
        reply.content = RecordDict({METRICS: MetricRecord({key: record[key] for key in common})})
    return [reply for reply, _ in usable], refused


def _metrics_of(reply: Message, weight: str) -> MetricRecord:
    if reply.has_error():
        raise InvalidInputError(f"error: {_last_line(reply.error.reason)}")
    records = list(reply.content.metric_records.values())
    if len(records) != 1:
        raise InvalidInputError(f"the reply has {len(records)} metric records, expected 1")
    check_rows_sent(records[0], weight)
    for key, value in records[0].items():
        for number in value if isinstance(value, list) else [value]:
            check_real(number, key)
    return records[0]


def _too_long(reports: dict[int, PartyReport]) -> dict[int, str]:
    """The parties whose gradient or update is a million times longer than that of half the others.

    One such vector would drown everybody else's. The smaller of the two middle lengths counts, so
    that one of two parties cannot set the measure.
    """
    found: dict[int, str] = {}
    for what in ("gradient", "update"):
        sent = {node: getattr(r, what) for node, r in reports.items()}
        length = {node: float(np.linalg.norm(v)) for node, v in sent.items() if v is not None}
        middle = sorted(length.values())[(len(length) - 1) // 2] if length else 0.0
        limit = FARTHEST * max(1.0, middle)
        for node, value in length.items():
            if value > limit:
                found[node] = f"its {what} is {value:.3g} long, beyond {limit:.3g}"
    return found


def _space_of(
    replies: Sequence[Message], model: ArrayRecord, known: ParameterSpace | None
) -> ParameterSpace | None:
    """The arrays that most parties sent gradients for; as before in a tie or without any."""
    claims = Counter(
        (frozenset(reply.content.array_records[ANCHOR]), _ties(reply, model))
        for reply in replies
        if not reply.has_error() and ANCHOR in reply.content.array_records
    )
    found, most = known, 0
    for (names, ties), votes in claims.most_common():
        tied = {alias: source for alias, source in ties if source in names and alias not in names}
        if names and names <= set(model) and votes >= most:
            space = ParameterSpace.of(model, names, tied)
            if space == known:
                return known
            if votes > most:
                found, most = space, votes
    return found


def _ties(reply: Message, model: ArrayRecord) -> tuple[tuple[str, str], ...]:
    """Pairs of names of the model that the party says are one array."""
    party: Any = reply.content.config_records.get(PARTY) or {}
    aliases, sources = party.get(TIED), party.get(TIED_TO)
    if not isinstance(aliases, list) or not isinstance(sources, list):
        return ()
    return tuple(
        (alias, source)
        for alias, source in sorted(zip(map(str, aliases), map(str, sources)))
        if alias in model and source in model and model[alias].shape == model[source].shape
    )


def _reason(error: Exception) -> str:
    """What is wrong, at most 200 characters of it."""
    kind = "" if isinstance(error, InvalidInputError) else f"{type(error).__name__}: "
    return f"{kind}{error}"[:200]


def _last_line(reason: str | None) -> str:
    """Shorten a reason: the last line of a traceback says most."""
    lines = [line.strip() for line in (reason or "unknown").splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ")[:200] if lines else "unknown"
