"""Sort the replies of a round: who reported, who left, who was dropped and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from counterplay.defection.flower.messages import (
    ANCHOR,
    ParameterSpace,
    PartyReport,
    is_goodbye,
    read_report,
)
from counterplay.defection.reports import Reports
from counterplay.defection.stack import NumpyStack
from counterplay.errors import InvalidInputError, MissingDependencyError

try:
    from flwr.app import ArrayRecord, Message
except ImportError:
    raise MissingDependencyError.for_extra("flwr", "federated") from None

GOODBYE, NO_REPLY = "left", "no reply"


class Inbox:
    """Reads replies; those of the first round say which arrays of the model are trained."""

    def __init__(self, threshold: float | None) -> None:
        self.threshold = threshold
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

        Errors that Flower made for a party that disconnected count as the party's.
        """
        asked = [m.metadata.dst_node_id for m in questions]
        numbers = {m.metadata.message_id: m.metadata.dst_node_id for m in questions}
        numbers.pop("", None)
        received = list(replies)
        if self._space is None:
            self._space = _space_of(received, model)
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
                except InvalidInputError as error:
                    absent[node] = f"unusable reply: {error}"
        known = [node for node in asked if node in reports]
        away = {node: absent.get(node, NO_REPLY) for node in asked if node not in reports}
        return {node: reports[node] for node in known}, away

    def _read(self, reply: Message) -> PartyReport:
        if self._space is None:
            raise InvalidInputError("the reply needs a gradient record 'anchor'")
        report = read_report(reply, self._space)
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


def _space_of(replies: Sequence[Message], model: ArrayRecord) -> ParameterSpace | None:
    """The arrays that most parties sent gradients for; None if nobody sent any."""
    sent = Counter(
        frozenset(reply.content.array_records[ANCHOR])
        for reply in replies
        if not reply.has_error() and ANCHOR in reply.content.array_records
    )
    for names, _ in sent.most_common():
        if names and names <= set(model):
            return ParameterSpace.of(model, names)
    return None


def _last_line(reason: str | None) -> str:
    """Shorten a reason: the last line of a traceback says most."""
    lines = [line.strip() for line in (reason or "unknown").splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ")[:200] if lines else "unknown"
