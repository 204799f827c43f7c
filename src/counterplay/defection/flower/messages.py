"""What a party and the server of a federation send to each other.

The server sends the model and, in the train config, ``step-size``, ``local-steps`` and
``batch-size``. A party answers with its loss on the model it received, its full gradient there
(``anchor``) and, if it took several local steps, its mean gradient along them (``update``); or it
says goodbye. Data never leave the party.
Source: Alg. alg:icfo, spec 05 sections 3.3 and 3.6.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.replies import check_rows_sent
from counterplay.core.validation import FloatArray, check_real
from counterplay.errors import InvalidInputError, MissingDependencyError

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
except ImportError:
    raise MissingDependencyError.for_extra("flwr", "federated") from None

ANCHOR, UPDATE, METRICS, PARTY = "anchor", "update", "metrics", "party"
TIED, TIED_TO = "tied", "tied-to"
LARGEST = 1e100
"""Numbers beyond it are refused: squares of sums of such numbers are still finite."""
LEFT = 5005
"""Error code of a goodbye. An error reply, so that every Flower strategy skips the party."""

Arrays = Mapping[str, NDArray[np.floating]] | Sequence[NDArray[np.floating]]


def report(
    message: Message,
    *,
    loss: float,
    gradient: Arrays,
    update: Arrays | None = None,
    num_examples: int = 1,
    threshold: float | None = None,
    loss_se: float | None = None,
    name: str | None = None,
    tied: Mapping[str, str] | None = None,
) -> Message:
    """Return a party's answer to a train message of :class:`AdaGD` or :class:`SafeStep`.

    Use it in the train function of a ClientApp that computes its gradients itself; for torch
    modules ``torch_report`` does the computation too.

    Parameters
    ----------
    message :
        The train message.
    loss :
        Loss on the party's own data at the model in the message (not after local training).
    gradient :
        Full-batch gradient of that loss: arrays by parameter name, or in the order of the model.
    update :
        Mean gradient along the local steps, ``(received - trained) / step_size``; None if there was
        one full-batch step.
    num_examples :
        Size of the party's data; only used to average metrics.
    threshold :
        The loss at which the party leaves, if it tells.
    loss_se :
        Standard error of ``loss``.
    name :
        How the party is called in the server's panel.
    tied :
        Arrays of the model that are other names of a trained one, with the name the gradient has;
        the server keeps them equal.

    Examples
    --------
    >>> from counterplay.defection.flower import train_message
    >>> asked = train_message([np.array([1.0, 2.0])], node=7)
    >>> answer = report(asked, loss=2.5, gradient=[np.array([1.0, 2.0])], threshold=0.1)
    >>> answer.content["metrics"]["loss"], answer.content["anchor"]["0"].numpy().tolist()
    (2.5, [1.0, 2.0])
    """
    names = list(model_of(message))
    metrics = MetricRecord({"loss": float(loss)})
    metrics["num-examples"] = int(num_examples)
    if threshold is not None:
        metrics["threshold"] = float(threshold)
    if loss_se is not None:
        metrics["loss-se"] = float(loss_se)
    content = RecordDict({ANCHOR: _record(gradient, names), METRICS: metrics})
    if update is not None:
        content[UPDATE] = _record(update, names)
    about = ConfigRecord() if name is None else ConfigRecord({"name": name})
    if tied:
        about[TIED], about[TIED_TO] = list(tied), list(tied.values())
    if about:
        content[PARTY] = about
    return Message(content, reply_to=message)


def goodbye(message: Message, server_round: int) -> Message:
    """Return the answer of a party that leaves for good.

    Use it in a ClientApp that decides itself; :class:`RationalClient` sends it for you. It is an
    error reply with code ``LEFT``, so that strategies that know nothing of it go on without the
    party.

    Examples
    --------
    >>> from counterplay.defection.flower import train_message
    >>> goodbye(train_message([np.zeros(2)], node=7), server_round=3).error.reason
    'left the federation in round 3'
    """
    return Message(Error(LEFT, f"left the federation in round {server_round}"), reply_to=message)


def is_goodbye(message: Message) -> bool:
    """Return whether a party says that it leaves.

    Examples
    --------
    >>> from counterplay.defection.flower import train_message
    >>> is_goodbye(goodbye(train_message([np.zeros(2)], node=7), server_round=3))
    True
    """
    return bool(message.has_error()) and message.error.code == LEFT


@dataclass(frozen=True, eq=False)
class PartyReport:
    """A party's answer, read and checked."""

    loss: float
    gradient: FloatArray
    update: FloatArray | None
    threshold: float | None
    loss_se: float | None
    num_examples: int
    name: str | None


@dataclass(frozen=True)
class ParameterSpace:
    """The trained arrays of a model as one float64 vector.

    Arrays of the model without a gradient (counters, running statistics, frozen parameters) stay as
    they are, except ``tied`` ones: further names of a trained array, which get its values.
    """

    shapes: Mapping[str, tuple[int, ...]]
    tied: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        arrays: ArrayRecord,
        names: Collection[str],
        tied: Mapping[str, str] | None = None,
    ) -> ParameterSpace:
        """Return the space of these arrays of the model, in the model's order."""
        return cls({key: tuple(arrays[key].shape) for key in arrays if key in names}, tied or {})

    def flatten(self, arrays: ArrayRecord) -> FloatArray:
        """Return the arrays as one vector."""
        if missing := [key for key in self.shapes if key not in arrays]:
            raise InvalidInputError(f"there is no array {missing[0]!r}")
        parts = []
        for key, shape in self.shapes.items():
            value = arrays[key].numpy()
            if value.shape != shape:
                raise InvalidInputError(
                    f"the array {key!r} has shape {value.shape}, expected {shape}"
                )
            if value.dtype.kind not in "iuf":
                raise InvalidInputError(f"the array {key!r} holds {value.dtype}, not real numbers")
            parts.append(value.astype(np.float64, copy=False).ravel())
        return np.concatenate(parts)

    def rebuild(self, vector: FloatArray, model: ArrayRecord) -> ArrayRecord:
        """Return the model with the arrays of this space replaced, in the model's own dtypes."""
        new, start = dict(model), 0
        for key, shape in self.shapes.items():
            size = int(np.prod(shape))
            part = vector[start : start + size].reshape(shape)
            new[key] = Array(part.astype(model[key].numpy().dtype))
            start += size
        new |= {alias: new[source] for alias, source in self.tied.items()}
        return ArrayRecord(new)


def read_report(
    reply: Message, space: ParameterSpace, loss_range: tuple[float, float] = (0.0, 1e6)
) -> PartyReport:
    """Return the content of an answer; an exception says what is wrong with it."""
    content = reply.content
    metrics = content.metric_records.get(METRICS)
    if metrics is None or "loss" not in metrics or ANCHOR not in content.array_records:
        raise InvalidInputError("the reply needs a metric 'loss' and a gradient record 'anchor'")
    sent = [content.array_records[key] for key in (ANCHOR, UPDATE) if key in content.array_records]
    if unknown := sorted({key for record in sent for key in record} - set(space.shapes)):
        raise InvalidInputError(f"the gradient of {unknown[0]!r} is not wanted here")
    gradient, update = space.flatten(sent[0]), space.flatten(sent[1]) if sent[1:] else None
    loss = check_real(metrics["loss"], "loss", low=loss_range[0], high=loss_range[1])
    for what, value in (("gradient", gradient), ("update", update)):
        if value is not None and not np.isfinite(value).all():
            raise InvalidInputError(f"the {what} has a value that is not finite")
        if value is not None and np.abs(value).max(initial=0.0) > LARGEST:
            raise InvalidInputError(f"the {what} has a value beyond {LARGEST:g}")
    party = content.config_records.get(PARTY) or ConfigRecord()
    return PartyReport(
        loss=loss,
        gradient=gradient,
        update=update,
        threshold=_optional(metrics, "threshold"),
        loss_se=_optional(metrics, "loss-se"),
        num_examples=check_rows_sent({"num-examples": 1} | dict(metrics), "num-examples"),
        name=str(party["name"]) if "name" in party else None,
    )


def _optional(metrics: MetricRecord, key: str) -> float | None:
    return check_real(metrics[key], key, low=0.0, high=LARGEST) if key in metrics else None


def model_of(message: Message) -> ArrayRecord:
    """Return the model in a train or evaluate message, whatever its key is."""
    records = list(message.content.array_records.values())
    if len(records) != 1:
        raise InvalidInputError(f"the message holds {len(records)} models, expected 1")
    return records[0]


def config_of(message: Message) -> Mapping[str, Any]:
    """Return the config in a message; empty if there is none."""
    records = list(message.content.config_records.values())
    return records[0] if records else {}


def round_of(message: Message) -> int:
    """Return the round that a message belongs to, from 1."""
    return int(config_of(message).get("server-round", 1))


def _record(values: Arrays, names: Sequence[str]) -> ArrayRecord:
    if not isinstance(values, Mapping):
        if len(values) != len(names):
            raise InvalidInputError(f"got {len(values)} arrays for {len(names)} of the model")
        values = dict(zip(names, values))
    return ArrayRecord({key: Array(np.asarray(value)) for key, value in values.items()})
