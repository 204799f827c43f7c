"""Parties of a Flower federation that decide for themselves when to leave.

``RationalClient`` is a Flower mod: with it any ClientApp leaves once the model it received is good
enough for its own data.
Source: docs/theory/05-defection.md, "Setting" and "Other behaviours".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from counterplay.core.validation import check_real
from counterplay.defection.agents import AgentView, BetaUser, ThresholdAgent
from counterplay.errors import InvalidInputError, MissingDependencyError
from counterplay.federated.flower.messages import goodbye, round_of

try:
    from flwr.app import Context, Message, MessageType, MetricRecord
except ImportError:
    raise MissingDependencyError.for_extra("flwr", "federated") from None

MEMORY = "counterplay"
LossOf = Callable[[Message, Context], float]


class RationalClient:
    """Flower mod that makes any ClientApp leave when its own loss is at most its threshold.

    Use it in ``ClientApp(mods=[RationalClient(0.2)])`` to run a federation whose parties leave, or
    to find out who would. The wrapped train function replies its loss on the model it *received*.

    Parameters
    ----------
    threshold :
        The loss that satisfies the party, or the name of an entry of its node config or of the run
        config that holds it. 0 never leaves.
    behaviour :
        How the party decides: ``ThresholdAgent()`` (default) or another one of
        :mod:`counterplay.defection`, such as ``UnderconfidentAgent`` or ``BetaUser``.
    loss :
        Name of the metric of the train reply that holds the loss; or a function of message and
        context that computes it, and then a party that leaves does not train for nothing.
    tell :
        Whether replies carry the threshold that the behaviour reports.

    Guarantees
    ----------
    A party that left answers every later message of the run with a goodbye, does no work, and sends
    nothing about its data. The goodbye is an error reply, so any Flower strategy can run with it;
    ``RuleStrategy`` of :mod:`counterplay.federated.flower` never asks the party again.

    Examples
    --------
    >>> from flwr.clientapp import ClientApp
    >>> from counterplay.federated.flower import InProcessGrid, report, train_message
    >>> app = ClientApp(mods=[RationalClient(threshold=0.5)])
    >>> @app.train()
    ... def train(message, context):
    ...     w = message.content["arrays"]["0"].numpy()
    ...     return report(message, loss=float(w @ w) / 2, gradient=[w])
    >>> grid = InProcessGrid(app, num_supernodes=1)
    >>> [grid.send_and_receive([train_message([np.array([w])])])[0].has_error() for w in (2.0, 1.0)]
    [False, True]
    """

    def __init__(
        self,
        threshold: float | str = "threshold",
        *,
        behaviour: ThresholdAgent | None = None,
        loss: str | LossOf = "loss",
        tell: bool = True,
    ) -> None:
        if not isinstance(threshold, str):
            check_real(threshold, "threshold", low=0.0)
        self.threshold = threshold
        self.behaviour = ThresholdAgent() if behaviour is None else behaviour
        if not callable(getattr(self.behaviour, "decide", None)):
            raise InvalidInputError("behaviour must have a method decide, such as ThresholdAgent()")
        self.loss = loss
        self.tell = bool(tell)

    def __repr__(self) -> str:
        return f"RationalClient(threshold={self.threshold!r}, behaviour={self.behaviour!r})"

    def __call__(
        self, message: Message, context: Context, call_next: Callable[[Message, Context], Message]
    ) -> Message:
        """Answer a message, or say goodbye."""
        memory = _memory(context)
        if "left-in-round" in memory:
            return goodbye(message, int(memory["left-in-round"]))  # type: ignore[arg-type]  # an int
        if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return call_next(message, context)
        early = self.loss(message, context) if callable(self.loss) else None
        if early is not None and self._leaves(early, 0, message, context):
            return self._go(message, memory)
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        metrics = _metrics(reply)
        if early is None:
            loss = self._loss_in(metrics)
            if self._leaves(loss, int(metrics.get("num-examples", 0)), message, context):  # type: ignore[arg-type]  # an int
                return self._go(message, memory)
        if self.tell:
            eps = _setting(self.threshold, context)
            metrics["threshold"] = float(self.behaviour.reported(eps))
        return reply

    def _loss_in(self, metrics: MetricRecord) -> float:
        if self.loss not in metrics:
            raise InvalidInputError(
                f"the train reply has no metric {self.loss!r}: the train function must reply the "
                "loss of the model it received"
            )
        return float(metrics[self.loss])  # type: ignore[index, arg-type]  # a name, and a number

    def _leaves(self, loss: float, rows: int, message: Message, context: Context) -> bool:
        """Ask the behaviour, which may look at the last published model instead of this one."""
        server_round, memory = round_of(message), _memory(context)
        every = self.behaviour.publish_every if isinstance(self.behaviour, BetaUser) else 1
        if "public-loss" not in memory or (server_round - 1) % every == 0:
            memory["public-loss"] = loss
        view = AgentView(
            loss=np.array([loss]),
            eps=np.array([_setting(self.threshold, context)]),
            round=server_round,
            public_loss=np.array([float(memory["public-loss"])]),  # type: ignore[arg-type]  # a number
            n_samples=np.array([float(rows) if rows > 0 else np.inf]),
        )
        return bool(self.behaviour.decide(view)[0])

    def _go(self, message: Message, memory: MetricRecord) -> Message:
        memory["left-in-round"] = round_of(message)
        return goodbye(message, round_of(message))


def _memory(context: Context) -> MetricRecord:
    """The party's own notes; Flower keeps them between messages of a run."""
    if MEMORY not in context.state.metric_records:
        context.state[MEMORY] = MetricRecord()
    return context.state.metric_records[MEMORY]


def _metrics(reply: Message) -> MetricRecord:
    records = list(reply.content.metric_records.values())
    if len(records) != 1:
        raise InvalidInputError(f"the train reply has {len(records)} metric records, expected 1")
    return records[0]


def _setting(value: float | str, context: Context) -> float:
    """A number, or the entry of that name in the node config or the run config."""
    if not isinstance(value, str):
        return float(value)
    for config in (context.node_config, context.run_config):
        if value in config:
            return check_real(config[value], value, low=0.0)
    raise InvalidInputError(f"neither the node config nor the run config has an entry {value!r}")
