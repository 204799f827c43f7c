"""The in-process engine: all agents of all seeds in one batched pass, on the CPU or a GPU.

Needs NumPy and the server rules only. Torch modules (``torch_modules``), tensors as stacks
(``torch_stack``) and GPUs need torch.
"""

from counterplay.defection.engine.arrays import NumpyArrays, TorchArrays
from counterplay.defection.engine.callables import CallableObjective
from counterplay.defection.engine.layers import LayeredObjective
from counterplay.defection.engine.local import LocalReport, agent_batches, local_work
from counterplay.defection.engine.objective import Objective
from counterplay.defection.engine.sites import Sites, minibatches
from counterplay.defection.engine.spans import Spans, SpanStack
from counterplay.defection.engine.training import TrainingRecord, train

__all__ = [
    "CallableObjective",
    "LayeredObjective",
    "LocalReport",
    "NumpyArrays",
    "Objective",
    "Sites",
    "SpanStack",
    "Spans",
    "TorchArrays",
    "TrainingRecord",
    "agent_batches",
    "local_work",
    "minibatches",
    "train",
]
