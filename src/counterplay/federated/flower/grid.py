"""A Flower grid in this process: try a ServerApp and a ClientApp without Ray or a network.

Messages are handed to the ClientApp directly. For tests, notebooks and debugging; Flower's own
simulation and deployment engines do the same over processes and machines.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import check_positive_int
from counterplay.errors import MissingDependencyError

try:
    from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
    from flwr.serverapp import Grid
except ImportError:
    raise MissingDependencyError.for_extra("flwr", "federated") from None

ClientCall = Callable[[Message, Context], Message]


class InProcessGrid(Grid):
    """Parties of a Flower federation as plain function calls.

    Use it to test a strategy together with a ClientApp, in the same process and without Ray.

    Parameters
    ----------
    client :
        A ``flwr.clientapp.ClientApp`` or any function of message and context.
    num_supernodes :
        Number of parties; party ``i`` gets the node config ``partition-id = i``.
    run_config :
        Run config that the parties see.
    node_config :
        Further entries of the node config, one mapping per party.

    Attributes
    ----------
    offline :
        Node ids of parties that do not answer; add one to see what happens when it is dropped.

    Examples
    --------
    >>> grid = InProcessGrid(lambda message, context: message, num_supernodes=3)
    >>> list(grid.get_node_ids())
    [1, 2, 3]
    """

    def __init__(
        self,
        client: ClientCall,
        num_supernodes: int,
        *,
        run_config: Mapping[str, Any] | None = None,
        node_config: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        n = check_positive_int(num_supernodes, "num_supernodes")
        self.client = client
        self.offline: set[int] = set()
        own = node_config if node_config is not None else [{} for _ in range(n)]
        self.contexts = {
            i + 1: Context(
                run_id=1,
                node_id=i + 1,
                node_config={"partition-id": i, "num-partitions": n} | dict(own[i]),
                state=RecordDict(),
                run_config=dict(run_config or {}),
            )
            for i in range(n)
        }
        self._numbers = itertools.count(1)
        self._replies: dict[str, Message] = {}
        assume_identity()

    def __repr__(self) -> str:
        return f"InProcessGrid(num_supernodes={len(self.contexts)})"

    def set_run(self, run: Any) -> None:
        """Do nothing: there is one run."""

    @property
    def run(self) -> Any:
        """There is no run record in this process."""
        return None

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Return a message to a party."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        """Return the ids of the parties, reachable or not."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Let the parties work on the messages now and keep their replies."""
        ids = []
        for message in messages:
            number = str(next(self._numbers))
            message.metadata.__dict__["_message_id"] = number
            ids.append(number)
            node = message.metadata.dst_node_id
            if node not in self.offline:
                self._replies[number] = self._ask(message, self.contexts[node])
        return ids

    def _ask(self, message: Message, context: Context) -> Message:
        """Like a SuperNode: an exception in the ClientApp becomes an error reply."""
        try:
            return self.client(message, context)
        except Exception as error:
            return Message(Error(2, f"{type(error).__name__}: {error}"), reply_to=message)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Return the replies to these messages that are there."""
        return [self._replies.pop(i) for i in message_ids if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Return the replies of all parties that are not offline, at once."""
        return self.pull_messages(self.push_messages(messages))


def assume_identity() -> None:
    """Let messages be made outside a Flower app: newer versions ask which task makes them."""
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:  # older versions do not ask
        return
    for name in ("_task_id", "_run_id", "_node_id"):
        if getattr(TaskIdentity, name, None) is None:
            setattr(TaskIdentity, name, 1)


def train_message(
    arrays: Sequence[NDArray[np.floating]] | ArrayRecord,
    node: int = 1,
    **config: float | int | str,
) -> Message:
    """Return a train message as a strategy would send it, to try a train function with.

    Examples
    --------
    >>> message = train_message([np.zeros(2)], step_size=0.5)
    >>> message.content["config"]["step-size"]
    0.5
    """
    assume_identity()
    model = arrays if isinstance(arrays, ArrayRecord) else ArrayRecord(list(arrays))
    named = ConfigRecord({"server-round": 1})
    for key, value in config.items():
        named[key.replace("_", "-")] = value
    content = RecordDict({"arrays": model, "config": named})
    return Message(content, dst_node_id=node, message_type="train")
