"""Real federations that nobody leaves: ADA-GD and SafeStep as Flower strategies.

Replace ``flwr.serverapp.strategy.FedAvg`` by :class:`SafeStep` (or :class:`AdaGD`) in the
ServerApp, and let the ClientApp answer with :func:`torch_report`, or with :func:`report` if it does
not use torch. Parties send their loss, their gradient and their local update, never data.
:class:`RationalClient` is a mod that makes any ClientApp leave once it is satisfied, so that a
federation can be rehearsed: ``RuleStrategy(FedAvg(), ...)`` shows who leaves under averaging.
``strategy.history_`` and ``strategy.panel()`` show each party's distance to its target, who is
about to leave, who left, who was dropped, and which gradients block each other.
:class:`InProcessGrid` runs all of it in one process. Needs the extra ``federated``.
"""

from counterplay.defection.flower.base import RuleStrategy
from counterplay.defection.flower.grid import InProcessGrid, train_message
from counterplay.defection.flower.history import FederationHistory, PartyGauge, RoundGauge
from counterplay.defection.flower.messages import goodbye, is_goodbye, report
from counterplay.defection.flower.rational import RationalClient
from counterplay.defection.flower.strategies import AdaGD, SafeStep
from counterplay.defection.flower.torch_client import torch_client_app, torch_report

__all__ = [
    "AdaGD",
    "FederationHistory",
    "InProcessGrid",
    "PartyGauge",
    "RationalClient",
    "RoundGauge",
    "RuleStrategy",
    "SafeStep",
    "goodbye",
    "is_goodbye",
    "report",
    "torch_client_app",
    "torch_report",
    "train_message",
]
