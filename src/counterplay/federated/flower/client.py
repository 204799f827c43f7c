"""A party's work with torch: loss, gradient and local steps on its own data.

The formulas are those of the in-process engine, so a rehearsal and a real federation give the same
model. Source: Algorithm D.1, see docs/theory/05-defection.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError, MissingDependencyError
from counterplay.federated.arrays import Precision
from counterplay.federated.flower.messages import METRICS, config_of, model_of, report, round_of
from counterplay.federated.objective import Objective
from counterplay.federated.parameters import ParameterSpace
from counterplay.federated.sites import party_rows
from counterplay.federated.work import LocalWork, local_work, party_batches

try:
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
except ImportError:
    raise MissingDependencyError.for_extra("flwr", "federated") from None

if TYPE_CHECKING:
    import torch

LoadData = Callable[[Context], Any]


def torch_report(
    message: Message,
    context: Context,
    module: torch.nn.Module,
    data: Any,
    *,
    loss: Any = "cross_entropy",
    threshold: float | None = None,
    name: str | None = None,
    device: str = "cpu",
) -> Message:
    """Do a party's work of one round with torch and return its answer.

    Use it as the body of a ClientApp's train function. Step size, number of local steps and batch
    size come from the message; the order of minibatches follows from its seed, the round and the
    party's ``partition-id``, as in the in-process engine.

    Parameters
    ----------
    message :
        What the train function received.
    context :
        What the train function received beside it.
    module :
        A torch module; its parameters are taken from the message. Frozen ones
        (``requires_grad=False``) stay as they are, tied ones stay equal.
    data :
        The party's rows and class numbers: a pair ``(X, y)`` or a ``DataLoader`` of such pairs.
    loss :
        Name of a loss, or a function of outputs and labels that returns one loss per row.
    threshold :
        Told to the server; not needed with ``RationalClient``.
    name :
        How the party is called in the server's panel; default: ``name`` of its node
        config, or ``party`` and its ``partition-id``.
    device :
        Where to compute.

    Examples
    --------
    >>> import torch
    >>> from counterplay.federated.flower import InProcessGrid, train_message
    >>> module = torch.nn.Linear(1, 2)
    >>> zeros = [np.zeros((2, 1), np.float32), np.zeros(2, np.float32)]
    >>> data = (np.array([[1.0], [-1.0]]), np.array([0, 1]))
    >>> context = InProcessGrid(print, num_supernodes=1).contexts[1]
    >>> model = ArrayRecord(dict(zip(["weight", "bias"], map(torch.tensor, zeros))))
    >>> message = train_message(model, step_size=0.1)
    >>> reply = torch_report(message, context, module, data)
    >>> round(reply.content["metrics"]["loss"], 4)
    0.6931

    """
    arrays, config = model_of(message), config_of(message)
    space, w, objective = _load(module, arrays, loss, device)
    X, y = party_rows(objective, *_rows(data))
    batch = int(config.get("batch-size", 0))
    work = LocalWork(int(config.get("local-steps", 1)), batch or None)
    number = int(context.node_config.get("partition-id", 0))
    seed = int(config.get("seed", 0))
    done = local_work(
        objective,
        (X, y),
        w,
        step_size=float(config["step-size"]),
        work=work,
        batches=party_batches(seed, number, round_of(message), len(y), work),
    )
    assert done.gradient is not None  # asked for with anchor=True
    own = name if name is not None else context.node_config.get("name", f"party {number}")
    return report(
        message,
        loss=done.loss,
        gradient=space.split(done.gradient),
        update=space.split(done.update) if work.moves or objective.stateful else None,
        buffers=dict(done.buffers),
        num_examples=len(y),
        threshold=threshold,
        name=str(own),
        tied=space.tied,
    )


def torch_client_app(
    make_module: Callable[[], torch.nn.Module],
    load_data: LoadData,
    *,
    mods: Sequence[Any] = (),
    loss: Any = "cross_entropy",
    device: str = "cpu",
) -> ClientApp:
    """Return the ClientApp of a party from a torch module and its data.

    Use it as the whole ``client_app.py`` of a Flower app.

    Parameters
    ----------
    make_module :
        Builds the module; its parameters are replaced by those of the server.
    load_data :
        Function of the party's context that returns its rows: ``(X, y)`` or a ``DataLoader``.
    mods :
        Flower mods, such as ``counterplay.federated.flower.RationalClient(0.2)``: a party that
        leaves once its loss is at most 0.2.
    loss :
        Name of a loss, or a function of outputs and labels that returns one loss per row.
    device :
        Where to compute.

    Examples
    --------
    >>> import torch
    >>> from counterplay.federated import SafeStep
    >>> from counterplay.federated.flower import InProcessGrid, RuleStrategy
    >>> def load(context):
    ...     sign = 1.0 if context.node_config["partition-id"] == 0 else -1.0
    ...     return np.array([[1.0, sign], [-1.0, 0.0]]), np.array([0, 1])
    >>> module = torch.nn.Linear(2, 2, dtype=torch.float64)
    >>> _ = [torch.nn.init.zeros_(p) for p in module.parameters()]
    >>> app = torch_client_app(lambda: module, load)
    >>> strategy = RuleStrategy(SafeStep(0.05), step_size=2.0, threshold=0.3)
    >>> start = ArrayRecord(module.state_dict())
    >>> _ = strategy.start(InProcessGrid(app, 2), start, num_rounds=100)
    >>> strategy.status_, strategy.history_.left
    ('converged', {})
    """
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        data = load_data(context)
        return torch_report(message, context, make_module(), data, loss=loss, device=device)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        _, w, objective = _load(make_module(), model_of(message), loss, device)
        X, y = party_rows(objective, *_rows(load_data(context)))
        done = local_work(objective, (X, y), w, step_size=1.0)
        metrics = MetricRecord({"loss": done.loss, "accuracy": done.accuracy})
        metrics["num-examples"] = len(y)
        return Message(RecordDict({METRICS: metrics}), reply_to=message)

    return app


def _rows(data: Any) -> tuple[Any, Any]:
    """Rows and labels from a pair or from the batches of a DataLoader."""
    if isinstance(data, tuple) and len(data) == 2:
        return data
    batches = [(np.asarray(x), np.asarray(y)) for x, y in data]
    return np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])


def _load(
    module: torch.nn.Module, arrays: ArrayRecord, loss: Any, device: str
) -> tuple[ParameterSpace, FloatArray, Objective]:
    """Return the received parameters as a vector, and a copy of the module with all the rest."""
    from counterplay.federated.modules import torch_objective

    space = ParameterSpace.of_module(module)
    if missing := [name for name in space.shapes if name not in arrays]:
        raise InvalidInputError(f"the model in the message has no parameter {missing[0]!r}")
    values = {name: arrays[name].numpy() for name in space.shapes}
    double = any(v.dtype == np.float64 for v in values.values())
    dtype: Precision = "float64" if double else "float32"
    objective = torch_objective(module, loss=loss, dtype=dtype, device=device)
    objective.load_buffers({name: arrays[name].numpy() for name in arrays if name not in values})
    return space, space.flatten(values), objective
