"""Real federations: one Flower strategy with a server rule inside, and what parties answer it.

Replace ``flwr.serverapp.strategy.FedAvg`` by ``RuleStrategy(SafeStep(...), ...)`` in the ServerApp,
and let the ClientApp answer with :func:`torch_report`, or with :func:`report` if it does not use
torch. Parties send their loss, their gradient and their local update, never rows.
``strategy.history_`` and ``strategy.panel()`` show each party's distance to its target, who is
about to leave, who left, who was dropped, and which gradients block each other.
:class:`InProcessGrid` runs all of it in one process. Needs the extra ``federated``.
"""

from counterplay.federated.flower.client import torch_client_app, torch_report
from counterplay.federated.flower.grid import InProcessGrid, train_message
from counterplay.federated.flower.messages import goodbye, is_goodbye, report
from counterplay.federated.flower.strategy import RuleStrategy

__all__ = [
    "InProcessGrid",
    "RuleStrategy",
    "goodbye",
    "is_goodbye",
    "report",
    "torch_client_app",
    "torch_report",
    "train_message",
]
