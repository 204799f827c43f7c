"""Replies of Flower clients as plain fields, and which arrays of the model they train.

What is trained is what most parties say, by their latest replies and not by those of one round:
with a few parties asked at a time, one of them would else decide for all.
Source: "The inbox" in docs/theory/23-training.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError, MissingDependencyError
from counterplay.federated.flower.messages import (
    ANCHOR,
    BUFFERS,
    METRICS,
    PARTY,
    TIED,
    TIED_TO,
    UPDATE,
    is_goodbye,
    last_line,
)
from counterplay.federated.gauges import GOODBYE
from counterplay.federated.parameters import ParameterSpace
from counterplay.federated.replies import UNUSABLE, Fields, reason

try:
    from flwr.app import Array, ArrayRecord, Message, RecordDict
except ImportError:
    raise MissingDependencyError.for_extra("flwr", "federated") from None

RUNNING = ("running_mean", "running_var", "num_batches_tracked")  # torch's names of statistics
Claim = tuple[frozenset[str], tuple[tuple[str, str], ...]]
"""Names of trained arrays, and pairs of names that are one array."""


class Decoder:
    """Turns replies into plain fields; what most parties hold gradients for is what is trained."""

    def __init__(self) -> None:
        self.space: ParameterSpace | None = None
        self._claims: dict[int, Claim] = {}  # of parties that send gradients
        self._moved: dict[int, frozenset[str] | None] = {}  # arrays that ordinary clients changed

    def read(
        self,
        replies: Sequence[Message],
        questions: Sequence[Message],
        model: ArrayRecord,
        losses: Mapping[int, Any] | None = None,
    ) -> dict[int, Fields | str]:
        """Return the fields of every reply by party, or why there are none. Never raises.

        Errors that Flower made for a party that disconnected count as the party's. ``losses`` are
        those of ordinary clients at the model that they were sent.
        """
        numbers = {m.metadata.message_id: m.metadata.dst_node_id for m in questions}
        numbers.pop("", None)
        self._hear({numbers.get(r.metadata.reply_to_message_id, r.metadata.src_node_id): r
                    for r in replies}, model)  # fmt: skip
        self.space = self._chosen(model)
        found: dict[int, Fields | str] = {}
        for reply in replies:
            sender = reply.metadata.src_node_id
            fields = self._fields(reply, model)
            if not isinstance(fields, str) and sender in (losses or {}):
                fields = {**fields, "loss": (losses or {})[sender]}
            found[numbers.get(reply.metadata.reply_to_message_id, sender)] = fields
        return found

    def _hear(self, replies: Mapping[int, Message], model: ArrayRecord) -> None:
        """Note what every party says it trains, or has trained."""
        usable = {node: r for node, r in replies.items() if not r.has_error()}
        for node, reply in usable.items():
            if ANCHOR in reply.content.array_records:
                names = frozenset(reply.content.array_records[ANCHOR])
                if names and names <= set(model):
                    self._claims[node] = (names, _ties(reply, model))
                    self._moved.pop(node, None)
        for node, reply in usable.items():
            if _is_ordinary(reply.content):
                # Arrays are compared only where somebody says that fewer are trained.
                moved = _moved(reply.content, model) if self._claims else None
                self._moved[node] = moved
                self._claims.pop(node, None)

    def _chosen(self, model: ArrayRecord) -> ParameterSpace | None:
        """The arrays with most votes; as before in a tie, or if nobody says anything.

        An ordinary client sends the whole model: it votes for every set that covers what it
        changed, and for all arrays of numbers but running statistics.
        """
        shapes = {key: np.empty(tuple(model[key].shape)) for key in model}
        found: list[tuple[int, ParameterSpace]] = []
        for (names, ties), votes in Counter(self._claims.values()).most_common():
            tied = {
                alias: source for alias, source in ties if source in names and alias not in names
            }
            space = ParameterSpace.of_arrays(shapes, names, tied)
            agree = sum(m is not None and m <= names | tied.keys() for m in self._moved.values())
            found.append((votes + agree, space))
        if self._moved and (floats := _floats(model)):
            found.append((len(self._moved), ParameterSpace.of_arrays(shapes, floats)))
        most = max((votes for votes, _ in found), default=0)
        best = [space for votes, space in found if votes == most]
        return self.space if self.space in best or not best else best[0]

    @staticmethod
    def without_loss(replies: Iterable[Message]) -> list[int]:
        """The parties that sent a trained model and no gradient."""
        return [
            reply.metadata.src_node_id
            for reply in replies
            if not reply.has_error() and _is_ordinary(reply.content)
        ]

    @staticmethod
    def tolerance(model: ArrayRecord) -> float:
        """How exact bounds are that were computed in the precision of the model."""
        single = any(model[key].dtype in ("float32", "float16", "bfloat16") for key in model)
        return 1e-5 if single else 1e-9

    def _fields(self, reply: Message, model: ArrayRecord) -> Fields | str:
        if is_goodbye(reply):
            return GOODBYE
        if reply.has_error():
            return f"error: {last_line(reply.error.reason)}"
        try:
            return self._decode(reply.content, model)
        except Exception as error:  # a party may send anything; the others go on
            return UNUSABLE + reason(error)

    def _decode(self, content: RecordDict, model: ArrayRecord) -> Fields:
        """Return the fields of :func:`counterplay.federated.replies.read_answer`."""
        if self.space is None:
            raise InvalidInputError("the reply needs a gradient record 'anchor'")
        metrics: Any = content.metric_records.get(METRICS) or {}
        arrays = content.array_records
        vectors = {"gradient": ANCHOR, "update": UPDATE}
        ordinary = _is_ordinary(content)
        if ordinary:  # its trained model
            vectors = {"model": next(iter(arrays))}
        fields: dict[str, Any] = {
            what: self._flatten(arrays[key], what) for what, key in vectors.items() if key in arrays
        }
        if not fields or ("loss" not in metrics and "model" not in fields):
            raise InvalidInputError(
                "the reply needs a metric 'loss' and a gradient record 'anchor'"
            )
        for key in ("loss", "threshold", "loss-se", "gradient-error", "num-examples"):
            # The train reply of an ordinary client may hold the loss of what it trained.
            if key in metrics and not (ordinary and key == "loss"):
                fields[key.replace("-", "_")] = metrics[key]
        buffers = arrays[vectors["model"]] if ordinary else arrays.get(BUFFERS)
        if buffers is not None:
            fields["buffers"] = self._buffers_in(buffers, model, strict=not ordinary)
        party: Any = content.config_records.get(PARTY) or {}
        return fields | ({"name": party["name"]} if "name" in party else {})

    def _buffers_in(self, record: ArrayRecord, model: ArrayRecord, strict: bool) -> dict[str, Any]:
        """Arrays of the model that are not trained; an ordinary client sends them with the rest."""
        assert self.space is not None  # checked by the caller
        trained = {*self.space.shapes, *self.space.tied}
        found = {}
        for key in record:
            known = key in model and key not in trained
            if known and tuple(record[key].shape) == tuple(model[key].shape):
                found[key] = record[key].numpy()
            elif strict:
                raise InvalidInputError(f"the buffer {key!r} is not one of the model")
        return found

    def _flatten(self, record: ArrayRecord, what: str) -> FloatArray:
        assert self.space is not None  # checked by the caller
        unknown = sorted(set(record) - set(self.space.shapes)) if what != "model" else []
        if unknown:
            raise InvalidInputError(f"the {what} of {unknown[0]!r} is not wanted here")
        return self.space.flatten({key: record[key].numpy() for key in record})

    def others(self, model: ArrayRecord) -> dict[str, NDArray[Any]]:
        """Return the arrays of the model that are not trained: buffers and frozen ones."""
        trained = {*self.space.shapes, *self.space.tied} if self.space is not None else set(model)
        return {key: model[key].numpy() for key in model if key not in trained}

    def vector(self, model: ArrayRecord) -> FloatArray:
        """Return the trained arrays of the model as one vector."""
        if self.space is None:
            raise InvalidInputError("no party has sent a gradient yet")
        return self.space.flatten({key: model[key].numpy() for key in self.space.shapes})

    def rebuild(
        self,
        vector: FloatArray,
        model: ArrayRecord,
        buffers: Mapping[str, NDArray[Any]] | None = None,
    ) -> ArrayRecord:
        """Return the model with these values and buffers; other arrays stay as they are."""
        assert self.space is not None  # a vector was made before
        old = {key: model[key].numpy() for key in model}
        new = self.space.rebuild(vector, old)
        trained = {*self.space.shapes, *self.space.tied}
        for key, value in (buffers or {}).items():
            if key in old and key not in trained:
                new[key] = np.asarray(value.astype(old[key].dtype))
        return ArrayRecord(
            {key: model[key] if new[key] is old[key] else Array(new[key]) for key in model}
        )


def _is_ordinary(content: RecordDict) -> bool:
    """Whether a reply holds one set of arrays, a trained model, and no gradient."""
    return ANCHOR not in content.array_records and len(content.array_records) == 1


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


def _floats(model: ArrayRecord) -> list[str]:
    """Arrays that an ordinary client may train; it cannot tell them from frozen ones."""
    return [
        key for key in model if model[key].dtype.startswith("float") and not key.endswith(RUNNING)
    ]


def _moved(content: RecordDict, model: ArrayRecord) -> frozenset[str] | None:
    """The arrays that an ordinary client has changed; None if its model cannot be read."""
    try:
        sent = next(iter(content.array_records.values()))
        return frozenset(
            key
            for key in _floats(model)
            if not np.array_equal(sent[key].numpy(), model[key].numpy())
        )
    except Exception:  # a party may send anything
        return None
