"""Federated training in one place: parties with data, a server rule, one loop, one Flower adapter.

A party computes its loss, its gradient and its local steps (:func:`local_work`) on any torch module
(``modules.torch_objective``) or NumPy model (:class:`LayeredObjective`); a rule (:class:`FedAvg`,
:class:`MWFed`, :class:`ADAGD`, :class:`SafeStep`) turns the reports of a round into a step.
:class:`Federation` trains many seeds at once on the CPU or a GPU; :func:`train` runs one federation
party by party, with the same server that ``counterplay.federated.flower`` puts into a Flower
strategy, so that a rehearsal and the real thing give the same model. No answer of a party can stop
the server or steer it without bound. Needs NumPy only; torch modules, GPUs and Flower need the
extra ``federated``.
"""

from counterplay.federated.arrays import NumpyArrays, TorchArrays
from counterplay.federated.history import FederationHistory
from counterplay.federated.layers import LayeredObjective
from counterplay.federated.local import LocalParties, train
from counterplay.federated.many import Federation, TrainingRecord
from counterplay.federated.objective import CallableObjective, Objective
from counterplay.federated.parameters import ParameterSpace
from counterplay.federated.replies import Trust
from counterplay.federated.reports import Decision, Reports, Rule, RuleState
from counterplay.federated.rules import ADAGD, FedAvg, MWFed, SafeStep
from counterplay.federated.sites import Sites
from counterplay.federated.work import LocalReport, LocalWork, local_work, party_batches

__all__ = [
    "ADAGD",
    "CallableObjective",
    "Decision",
    "FedAvg",
    "Federation",
    "FederationHistory",
    "LayeredObjective",
    "LocalParties",
    "LocalReport",
    "LocalWork",
    "MWFed",
    "NumpyArrays",
    "Objective",
    "ParameterSpace",
    "Reports",
    "Rule",
    "RuleState",
    "SafeStep",
    "Sites",
    "TorchArrays",
    "TrainingRecord",
    "Trust",
    "local_work",
    "party_batches",
    "train",
]
