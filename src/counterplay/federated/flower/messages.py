"""What a party and the server of a federation send to each other.

The server sends the model and, in the train config, ``step-size``, ``local-steps`` and
``batch-size``. A party answers with its loss on the model it received, its full gradient there
(``anchor``) and, if it took several local steps, its mean gradient along them (``update``); or it
says goodbye. An ordinary Flower client answers with its trained model. Rows never leave the party
(gradients do, and tell something about them).
Source: Algorithms 5.1 and D.1, see docs/theory/05-defection.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import check_real
from counterplay.errors import InvalidInputError, MissingDependencyError
from counterplay.federated.replies import check_rows_sent, common_metrics, printable, reason

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
except ImportError:
    raise MissingDependencyError.for_extra("flwr", "federated") from None

ANCHOR, UPDATE, BUFFERS, METRICS, PARTY = "anchor", "update", "buffers", "metrics", "party"
LOSSES = ("loss", "eval_loss", "eval-loss")  # what clients call the loss of an evaluation
TIED, TIED_TO = "tied", "tied-to"
LEFT = 5005
"""Error code of a goodbye. An error reply, so that every Flower strategy skips the party."""

Arrays = Mapping[str, NDArray[Any]] | Sequence[NDArray[Any]]


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
    buffers: Arrays | None = None,
) -> Message:
    """Return a party's answer to a train message of :class:`RuleStrategy`.

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
    buffers :
        Running statistics after the local steps, by name; the server averages them.

    Examples
    --------
    >>> from counterplay.federated.flower import train_message
    >>> asked = train_message([np.array([1.0, 2.0])], node=7)
    >>> answer = report(asked, loss=2.5, gradient=[np.array([1.0, 2.0])], threshold=0.1)
    >>> answer.content["metrics"]["loss"], answer.content["anchor"]["0"].numpy().tolist()
    (2.5, [1.0, 2.0])
    """
    names = list(model_of(message))
    metrics = MetricRecord({"loss": float(loss), "num-examples": int(num_examples)})
    if threshold is not None:
        metrics["threshold"] = float(threshold)
    if loss_se is not None:
        metrics["loss-se"] = float(loss_se)
    content = RecordDict({ANCHOR: _record(gradient, names), METRICS: metrics})
    if update is not None:
        content[UPDATE] = _record(update, names)
    if buffers:
        content[BUFFERS] = _record(buffers, names)
    about: dict[str, Any] = {} if name is None else {"name": name}
    if tied:
        about |= {TIED: list(tied), TIED_TO: list(tied.values())}
    if about:
        content[PARTY] = ConfigRecord(about)
    return Message(content, reply_to=message)


def goodbye(message: Message, server_round: int) -> Message:
    """Return the answer of a party that leaves for good.

    Use it in a ClientApp that decides itself; ``RationalClient`` sends it for you. It is an error
    reply with code ``LEFT``, so that strategies that know nothing of it go on without the party.

    Examples
    --------
    >>> from counterplay.federated.flower import train_message
    >>> goodbye(train_message([np.zeros(2)], node=7), server_round=3).error.reason
    'left the federation in round 3'
    """
    return Message(Error(LEFT, f"left the federation in round {server_round}"), reply_to=message)


def is_goodbye(message: Message) -> bool:
    """Return whether a party says that it leaves.

    Examples
    --------
    >>> from counterplay.federated.flower import train_message
    >>> is_goodbye(goodbye(train_message([np.zeros(2)], node=7), server_round=3))
    True
    """
    return bool(message.has_error()) and message.error.code == LEFT


def readable_losses(replies: Iterable[Message]) -> dict[int, Any]:
    """The losses that parties sent with an evaluation, under one of the usual names."""
    found: dict[int, Any] = {}
    for reply in replies:
        if reply.has_error():
            continue
        for metrics in reply.content.metric_records.values():
            for key in LOSSES:
                if key in metrics:
                    found.setdefault(reply.metadata.src_node_id, metrics[key])
    return found


def readable_metrics(
    replies: Sequence[Message], weight: str
) -> tuple[list[tuple[Message, dict[str, Any]]], dict[int, str]]:
    """Return evaluations whose numbers can be averaged, and why the others cannot.

    Parties that left are in neither.
    """
    usable: list[tuple[Message, dict[str, Any]]] = []
    refused: dict[int, str] = {}
    for reply in replies:
        try:
            if reply.has_error():
                if not is_goodbye(reply):
                    refused[reply.metadata.src_node_id] = f"error: {last_line(reply.error.reason)}"
                continue
            usable.append((reply, _metrics_of(reply, weight)))
        except Exception as error:  # as above
            refused[reply.metadata.src_node_id] = reason(error)
    return usable, refused


def _metrics_of(reply: Message, weight: str) -> dict[str, Any]:
    records = list(reply.content.metric_records.values())
    if len(records) != 1:
        raise InvalidInputError(f"the reply has {len(records)} metric records, expected 1")
    metrics: dict[str, Any] = dict(records[0])
    check_rows_sent(metrics, weight)
    for key, value in metrics.items():
        for number in value if isinstance(value, list) else [value]:
            check_real(number, key)
    return metrics


def averageable(usable: Sequence[tuple[Message, dict[str, Any]]]) -> list[Message]:
    """Leave only the metrics that all replies have in the same form; Flower averages no others."""
    common = common_metrics([own for _, own in usable])
    for reply, own in usable:
        reply.content = RecordDict({METRICS: MetricRecord({key: own[key] for key in common})})
    return [reply for reply, _ in usable]


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


def last_line(why: str | None) -> str:
    """Shorten a reason: the last line of a traceback says most."""
    lines = [line.strip() for line in (why or "unknown").splitlines() if line.strip()]
    return printable(lines[-1].removeprefix("Error: "))[:200] if lines else "unknown"


def _record(values: Arrays, names: Sequence[str]) -> ArrayRecord:
    if not isinstance(values, Mapping):
        if len(values) != len(names):
            raise InvalidInputError(f"got {len(values)} arrays for {len(names)} of the model")
        values = dict(zip(names, values))
    return ArrayRecord({key: Array(np.asarray(value)) for key, value in values.items()})
