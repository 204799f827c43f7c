"""A party's work with torch: loss, gradient and local steps on its own data.

The formulas are those of the in-process engine, so a rehearsal and a real federation give the same
model.
Source: Alg. alg:fedavg, spec 05 sections 3.3 and 3.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.defection.agents import ThresholdAgent
from counterplay.defection.engine import agent_batches, local_work
from counterplay.defection.flower.messages import METRICS, config_of, model_of, report, round_of
from counterplay.defection.flower.rational import RationalClient
from counterplay.errors import InvalidInputError, MissingDependencyError

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
    message, context :
        What the train function received.
    module :
        A torch module; its parameters are taken from the message. Frozen ones
        (``requires_grad=False``) stay as they are, tied ones stay equal.
    data :
        The party's rows and class numbers: a pair ``(X, y)`` or a ``DataLoader`` of such pairs.
    loss :
        Name of a loss, or a function of outputs and labels that returns one loss per row.
    threshold :
        Told to the server; not needed with :class:`RationalClient`.
    name :
        How the party is called in the server's panel; default: ``name`` of its node config.
    device :
        Where to compute.

    Examples
    --------
    >>> import torch
    >>> from counterplay.defection.flower import InProcessGrid, train_message
    >>> module = torch.nn.Linear(1, 2)
    >>> zeros = [np.zeros((2, 1), np.float32), np.zeros(2, np.float32)]
    >>> data = (np.array([[1.0], [-1.0]]), np.array([0, 1]))
    >>> context = InProcessGrid(print, num_supernodes=1).contexts[1]
    >>> model = ArrayRecord(dict(zip(["weight", "bias"], map(torch.tensor, zeros))))
    >>> message = train_message(model, step_size=0.1)
    >>> reply = torch_report(message, context, module, data)
    >>> round(reply.content["metrics"]["loss"], 4)
    0.6931

    References
    ----------
    Alg. alg:fedavg; spec 05 sections 3.3 and 3.6.
    """
    X, y = _rows(data)
    arrays, config = model_of(message), config_of(message)
    w, dtype = _load(module, arrays)
    steps, batch = int(config.get("local-steps", 1)), int(config.get("batch-size", 0))
    agent = int(context.node_config.get("partition-id", 0))
    batches = None
    if batch:
        seed = int(config.get("seed", 0))
        batches = agent_batches(seed, agent, round_of(message), len(y), steps, batch)
    eta = float(config["step-size"])
    work = local_work(
        module, X, y, w, step_size=eta, local_steps=steps, batches=batches, loss=loss,
        dtype=dtype, device=device,
    )  # fmt: skip
    assert work.gradient is not None  # asked for with anchor=True
    moved = steps > 1 or batches is not None
    own = name if name is not None else context.node_config.get("name")
    return report(
        message,
        loss=work.loss,
        gradient=_named(module, work.gradient),
        update=_named(module, work.update) if moved else None,
        num_examples=len(y),
        threshold=threshold,
        name=None if own is None else str(own),
        tied=_tied(module),
    )


def torch_client_app(
    make_module: Callable[[], torch.nn.Module],
    load_data: LoadData,
    *,
    threshold: float | str = "threshold",
    behaviour: ThresholdAgent | None = None,
    loss: Any = "cross_entropy",
    device: str = "cpu",
) -> ClientApp:
    """Return a ClientApp of a rational party from a torch module and its data.

    Use it as the whole ``client_app.py`` of a Flower app.

    Parameters
    ----------
    make_module :
        Builds the module; its parameters are replaced by those of the server.
    load_data :
        Function of the party's context that returns its rows: ``(X, y)`` or a ``DataLoader``.
    threshold, behaviour :
        When the party leaves, see :class:`RationalClient`.
    loss, device :
        As in :func:`torch_report`.

    Examples
    --------
    >>> import torch
    >>> from counterplay.defection.flower import InProcessGrid, SafeStep
    >>> def load(context):
    ...     sign = 1.0 if context.node_config["partition-id"] == 0 else -1.0
    ...     return np.array([[1.0, sign], [-1.0, 0.0]]), np.array([0, 1])
    >>> module = torch.nn.Linear(2, 2, dtype=torch.float64)
    >>> _ = [torch.nn.init.zeros_(p) for p in module.parameters()]
    >>> app = torch_client_app(lambda: module, load, threshold=0.3)
    >>> strategy = SafeStep(delta=0.05, step_size=2.0)
    >>> start = ArrayRecord(module.state_dict())
    >>> _ = strategy.start(InProcessGrid(app, 2), start, num_rounds=100)
    >>> strategy.status_, strategy.history_.left
    ('converged', {})

    References
    ----------
    Spec 05 sections 2.3 and 3.6.
    """
    app = ClientApp(mods=[RationalClient(threshold, behaviour=behaviour)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        data = load_data(context)
        return torch_report(message, context, make_module(), data, loss=loss, device=device)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        module = make_module()
        X, y = _rows(load_data(context))
        w, dtype = _load(module, model_of(message))
        work = local_work(module, X, y, w, step_size=1.0, loss=loss, dtype=dtype, device=device)
        metrics = MetricRecord({"loss": work.loss, "accuracy": work.accuracy})
        metrics["num-examples"] = len(y)
        return Message(RecordDict({METRICS: metrics}), reply_to=message)

    return app


def _rows(data: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows and labels from a pair or from the batches of a DataLoader."""
    if isinstance(data, tuple) and len(data) == 2:
        return np.asarray(data[0]), np.asarray(data[1])
    batches = [(np.asarray(x), np.asarray(y)) for x, y in data]
    return np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])


def _load(module: torch.nn.Module, arrays: ArrayRecord) -> tuple[NDArray[Any], Any]:
    """Put received buffers and frozen parameters into the module; return the others as a vector."""
    import torch

    names = [name for name, p in module.named_parameters() if p.requires_grad]
    if not names:
        raise InvalidInputError("every parameter of the module is frozen; nothing can be trained")
    if missing := [name for name in names if name not in arrays]:
        raise InvalidInputError(f"the model in the message has no parameter {missing[0]!r}")
    fixed = [(name, p) for name, p in module.named_parameters() if not p.requires_grad]
    with torch.no_grad():
        for name, value in (*module.named_buffers(), *fixed):
            if name in arrays:
                value.copy_(torch.from_numpy(arrays[name].numpy().copy()))
    values = [arrays[name].numpy() for name in names]
    dtype = "float64" if any(v.dtype == np.float64 for v in values) else "float32"
    return np.concatenate([v.ravel() for v in values]), dtype


def _named(module: torch.nn.Module, vector: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Split a vector into arrays by the names of the trained parameters."""
    parts, start = {}, 0
    for name, p in module.named_parameters():
        if not p.requires_grad:
            continue
        size = p.numel()
        parts[name] = vector[start : start + size].reshape(tuple(p.shape))
        start += size
    return parts


def _tied(module: torch.nn.Module) -> dict[str, str]:
    """Further names of trained parameters, with the name that ``named_parameters`` gives them."""
    first = {id(p): name for name, p in module.named_parameters() if p.requires_grad}
    every = module.named_parameters(remove_duplicate=False)
    return {name: first[id(p)] for name, p in every if first.get(id(p), name) != name}
