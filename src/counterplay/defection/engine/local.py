"""What one agent does in a round: its loss, its local steps and its full-batch gradient.

The engine does this for all agents of all seeds at once; :func:`local_work` does it for one agent,
with the same formulas, for clients of a real federation.
Source: Alg. alg:fedavg, spec 05 sections 3.3 and 3.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.draws import run_keys
from counterplay.core.validation import FloatArray, IntArray, check_positive_int, check_real
from counterplay.defection.engine.arrays import Array, Precision
from counterplay.defection.engine.objective import Objective
from counterplay.defection.engine.sites import SiteArrays, Sites, minibatches
from counterplay.errors import InvalidInputError


@dataclass(frozen=True)
class LocalReport:
    """One agent's report: loss and accuracy at the model it received, update, full gradient."""

    loss: float
    accuracy: float
    update: NDArray[Any]
    gradient: NDArray[Any] | None


def local_work(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    w: ArrayLike,
    *,
    step_size: float,
    local_steps: int = 1,
    batches: ArrayLike | None = None,
    rescale_local_lr: bool = True,
    anchor: bool = True,
    loss: Any = "cross_entropy",
    dtype: Precision = "float32",
    device: str = "cpu",
) -> LocalReport:
    """Return what one agent reports to the server, as the in-process engine computes it.

    Use it inside a client of a real federation: the client trains, the server runs a rule.

    Parameters
    ----------
    model:
        A torch module or an :class:`Objective`.
    X, y:
        The agent's rows and class numbers.
    w:
        The global parameter vector: the trained parameters in the order of ``named_parameters``.
    step_size:
        Server step ``eta``; each local step has length ``eta / local_steps``.
    local_steps:
        Number ``K`` of local steps.
    batches:
        Row numbers of every local step, ``(K, b)`` (see :func:`agent_batches`); None takes all
        rows in every step.
    rescale_local_lr:
        False takes local steps of length ``eta`` instead; the update is then the sum of gradients.
    anchor:
        Whether the full-batch gradient is wanted too.
    loss, dtype, device:
        As in :func:`torch_objective`.

    Returns
    -------
    LocalReport
        ``update`` is ``U = (w - w_local) / eta``: the mean gradient along the local steps.

    References
    ----------
    Alg. alg:fedavg, spec 05 section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.defection.engine import LayeredObjective
    >>> X, y = np.array([[1.0], [-1.0]]), [0, 1]
    >>> work = local_work(LayeredObjective([1, 2]), X, y, np.zeros(4), step_size=0.1)
    >>> round(work.loss, 4), work.update.round(2).tolist()
    (0.6931, [-0.5, 0.5, 0.0, 0.0])
    """
    objective = _objective(model, loss, dtype, device)
    backend = objective.backend
    eta = check_real(step_size, "step_size", low=0.0, open_low=True)
    steps = check_positive_int(local_steps, "local_steps")
    rows = objective.rows(np.asarray(X))
    sites = Sites.from_agents(_floats(rows), y, np.zeros(len(rows), dtype=np.int64))
    point = np.asarray(w, dtype=np.float64).reshape(1, -1)
    if point.shape[1] != objective.size:
        raise InvalidInputError(
            f"w must have the model's {objective.size} parameters, got {point.shape[1]}"
        )
    order = None if batches is None else np.asarray(batches, dtype=np.int64)[None, None]
    with backend.fast_floats(float(len(rows)) * objective.size):
        data = SiteArrays(sites, backend, np.zeros(1, dtype=np.int64))
        start = backend.put(point)
        alone = steps == 1 and order is None
        if anchor or alone:
            value, accuracy, full = objective.gradients(start, data.x, data.y, data.weight)
        else:
            (value, accuracy), full = objective.evaluate(start, data.x, data.y, data.weight), None
        update = (
            full if alone else local_updates(objective, data, start, eta, steps, order,
                                             rescale_local_lr)
        )  # fmt: skip
    return LocalReport(
        loss=float(value[0]),
        accuracy=float(accuracy[0]),
        update=backend.fetch(update)[0],
        gradient=backend.fetch(full)[0] if anchor and full is not None else None,
    )


def local_updates(
    objective: Objective,
    data: SiteArrays,
    start: Array,
    eta: float,
    steps: int,
    batches: IntArray | None,
    rescale: bool = True,
) -> Array:
    """Return ``U = (w - w_local) / eta`` of every agent, ``(S * M, d)``, after ``steps`` steps.

    ``start`` ``(S * M, d)`` is what each agent received; ``batches`` ``(S, M, K, b)`` are positions
    within its rows.
    """
    length = eta / steps if rescale else eta
    w, total = start, objective.backend.full(tuple(start.shape), 0.0)
    for k in range(steps):
        if batches is None:
            x, y, weight = data.x, data.y, data.weight
        else:
            x, y, weight = data.batch(batches[:, :, k])
        gradient = objective.gradient(w, x, y, weight)
        total += gradient
        if k + 1 < steps:
            w = start - (length * total)
    return total / steps if rescale else total


def agent_batches(
    seed: int, agent: int, round: int, rows: int, local_steps: int, batch_size: int, run: int = 0
) -> IntArray:
    """Return the ``(K, b)`` row numbers that the engine draws for one agent in one round.

    Examples
    --------
    >>> agent_batches(0, agent=0, round=1, rows=4, local_steps=2, batch_size=3).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    sizes = np.full(agent + 1, rows, dtype=np.int64)
    keys = run_keys(seed, 1, first=run)
    return np.asarray(minibatches(keys, round, sizes, local_steps, batch_size)[0, agent])


def _objective(model: Any, loss: Any, dtype: Precision, device: str) -> Objective:
    if isinstance(model, Objective):
        return model
    from counterplay.defection.engine.torch_modules import torch_objective

    return torch_objective(model, loss=loss, dtype=dtype, device=device)


def _floats(X: NDArray[Any]) -> FloatArray:
    return X.astype(np.float64) if X.dtype.kind in "biu" else X
