"""What a party does in a round: its loss, its local steps and its full-batch gradient.

The engine does this for all parties of all seeds at once; :func:`local_work` does it for one party,
with the same formulas, for clients of a real federation.
Source: Algorithm D.1, see docs/theory/05-defection.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.draws import run_keys
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_float_array,
    check_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError
from counterplay.federated.arrays import Array
from counterplay.federated.objective import Objective
from counterplay.federated.sites import SiteArrays, Sites, minibatches, party_rows

MOST_STEPS = 1_000_000
MOST_DRAWS = 50_000_000


@checked
@dataclass(frozen=True)
class LocalWork:
    """How much each party trains before it reports.

    Parameters
    ----------
    steps : int or tuple of one per party
        ``K_m``, local steps per round.
    batch_size : int, optional
        Rows per step, drawn with replacement; None for all rows.
    rescale : bool
        Divide the step size by ``K_m``. False takes local steps of the full step size; the update
        is then the sum of gradients.

    Guarantees
    ----------
    One full-batch step sends exactly the gradient, so FedAvg is then FedSGD bit for bit.

    Examples
    --------
    >>> LocalWork(steps=5).moves, LocalWork().moves
    (True, False)

    References
    ----------
    Algorithm D.1 in docs/theory/05-defection.md.
    """

    steps: int | tuple[int, ...] = 1
    batch_size: int | None = None
    rescale: bool = True

    def __post_init__(self) -> None:
        for k in (self.steps,) if isinstance(self.steps, int) else self.steps:
            check_int(k, "steps", low=1, high=MOST_STEPS)
        if self.batch_size is not None:
            check_int(self.batch_size, "batch_size", low=1, high=MOST_DRAWS)

    @property
    def moves(self) -> bool:
        """Whether updates differ from gradients: several steps, or minibatches."""
        return self.steps != 1 or self.batch_size is not None

    def counts(self, ids: IntArray) -> IntArray:
        """Return ``K_m`` of the parties ``ids``."""
        if isinstance(self.steps, int):
            return np.full(len(ids), self.steps)
        if len(self.steps) <= int(ids.max()):
            raise InvalidInputError(f"steps has {len(self.steps)} entries, party {ids.max()} none")
        return np.array(self.steps)[ids]


ONE_STEP = LocalWork()


@checked(arrays=True)
@dataclass(frozen=True)
class LocalReport:
    """One party's report: loss and accuracy at the model it received, update, full gradient.

    What :func:`local_work` returns and a rule of the server reads.

    Parameters
    ----------
    loss:
        Loss at the model the party received.
    accuracy:
        Accuracy there.
    update:
        Mean gradient along the local steps.
    gradient:
        Full gradient at the model the party received; None if it was not computed.
    buffers:
        Running statistics after the local steps, where the model has some.

    Examples
    --------
    >>> LocalReport(loss=0.5, accuracy=0.75, update=np.array([0.2]), gradient=None).loss
    0.5

    References
    ----------
    "FedAvg with local steps (Algorithm D.1)", see docs/theory/05-defection.md.
    """

    loss: float
    accuracy: float
    update: NDArray[Any]
    gradient: NDArray[Any] | None
    buffers: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@checked
def local_work(
    objective: Objective,
    rows: tuple[Any, Any],
    w: ArrayLike,
    *,
    step_size: float,
    work: LocalWork = ONE_STEP,
    batches: ArrayLike | None = None,
    anchor: bool = True,
) -> LocalReport:
    """Return what one party reports to the server, as the in-process engine computes it.

    Use it inside a client of a real federation: the client trains, the server runs a rule.

    Parameters
    ----------
    objective:
        The model, for example ``torch_objective(module)``.
    rows:
        The party's rows and class numbers, ``(X, y)``.
    w:
        The trained parameters as one vector, in the order of ``ParameterSpace``.
    step_size:
        Server step; each local step has length ``step_size / steps``.
    work:
        Local steps of the round; ``batch_size`` is read from ``batches``.
    batches:
        Row numbers of every local step, ``(K, b)`` (see :func:`party_batches`); None takes all
        rows in every step.
    anchor:
        Whether the full-batch gradient is wanted too.

    Returns
    -------
    LocalReport
        ``update`` is ``U = (w - w_local) / step_size``: the mean gradient along the local steps.

    Examples
    --------
    >>> from counterplay.federated import LayeredObjective
    >>> X, y = np.array([[1.0], [-1.0]]), [0, 1]
    >>> done = local_work(LayeredObjective([1, 2]), (X, y), np.zeros(4), step_size=0.1)
    >>> round(done.loss, 4), done.update.round(2).tolist()
    (0.6931, [-0.5, 0.5, 0.0, 0.0])

    References
    ----------
    Algorithm D.1 in docs/theory/05-defection.md.
    """
    eta = check_real(step_size, "step_size", low=0.0, open_low=True)
    if not isinstance(work.steps, int):
        raise InvalidInputError("steps must be one number here: this is one party")
    X, y = party_rows(objective, *rows)
    point = check_float_array(w, "w").reshape(1, -1)
    if point.shape[1] != objective.size:
        raise InvalidInputError(
            f"w must have the model's {objective.size} parameters, got {point.shape[1]}"
        )
    order = None if batches is None else _batches(batches, work.steps, len(X))
    return party_report(objective, X, y, point, eta, work, order, anchor)


def party_report(
    objective: Objective,
    X: FloatArray,
    y: IntArray,
    point: FloatArray,
    eta: float,
    work: LocalWork,
    order: IntArray | None = None,
    anchor: bool = True,
) -> LocalReport:
    """Return the report of one party on rows and parameters ``(1, d)`` that were checked."""
    backend = objective.backend
    buffers: dict[str, NDArray[Any]] = {}
    sites = Sites.from_agents(X, y, np.zeros(len(X), dtype=np.int64))
    with backend.fast_floats(float(len(X)) * objective.size):
        data = SiteArrays(sites, backend, np.zeros(1, dtype=np.int64))
        start = backend.put(point)
        alone = work.steps == 1 and order is None and not objective.stateful
        if anchor or alone:
            value, accuracy, full = objective.gradients(start, data.x, data.y, data.weight)
        else:
            (value, accuracy), full = objective.evaluate(start, data.x, data.y, data.weight), None
        if objective.stateful:
            update, buffers = objective.train_steps(start, data.x[0], data.y[0], eta, work, order)
        else:
            update = full if alone else batch_updates(objective, data, start, eta, work, order)
    return LocalReport(
        loss=float(value[0]),
        accuracy=float(accuracy[0]),
        update=backend.fetch(update)[0],
        gradient=backend.fetch(full)[0] if anchor and full is not None else None,
        buffers=buffers,
    )


def batch_updates(
    objective: Objective,
    data: SiteArrays,
    start: Array,
    step_size: float,
    work: LocalWork,
    batches: IntArray | None,
) -> Array:
    """Return ``U = (w - w_local) / step_size`` of every party, ``(S * M, d)``.

    ``start`` ``(S * M, d)`` is what each party received; ``batches`` ``(S, M, K, b)`` are positions
    within its rows.
    """
    assert isinstance(work.steps, int)  # checked by the callers
    steps = work.steps
    length = step_size / steps if work.rescale else step_size
    w, total = start, objective.backend.full(tuple(start.shape), 0.0)
    for k in range(steps):
        if batches is None:
            x, y, weight = data.x, data.y, data.weight
        else:
            x, y, weight = data.batch(batches[:, :, k])
        total += objective.gradient(w, x, y, weight)
        if k + 1 < steps:
            w = start - (length * total)
    return total / steps if work.rescale else total


@checked
def party_batches(
    seed: int, party: int, round: int, rows: int, work: LocalWork, run: int = 0
) -> IntArray | None:
    """Return the ``(K, b)`` row numbers that a party draws in one round; None for all rows.

    They follow from seed, party and round alone, in the engine as in a Flower client.

    Parameters
    ----------
    seed:
        Seed of the run.
    party:
        Number of the party.
    round:
        Number of the round.
    rows:
        How many rows the party has.
    work:
        How many local steps of which batch size it takes.
    run:
        Number of the run, where several share a seed.

    Examples
    --------
    >>> party_batches(0, party=0, round=1, rows=4, work=LocalWork(2, 3)).tolist()
    [[0, 0, 1], [0, 1, 1]]

    References
    ----------
    "FedAvg with local steps (Algorithm D.1)", see docs/theory/05-defection.md.
    """
    check_int(party, "party", low=0, high=2**53)
    check_int(round, "round", low=0, high=2**53)
    check_int(rows, "rows", low=1, high=2**53)
    check_int(seed, "seed", low=0)
    check_int(run, "run", low=0, high=2**53)
    if work.batch_size is None:
        return None
    if not isinstance(work.steps, int):
        raise InvalidInputError("steps must be one number here: this is one party")
    check_size(work.steps * work.batch_size, MOST_DRAWS, "drawn rows")
    sizes, keys = np.array([rows], dtype=np.int64), run_keys(seed, 1, first=run)
    drawn = minibatches(keys, round, sizes, work.steps, work.batch_size, first=party)
    return np.asarray(drawn[0, 0])


def _batches(batches: ArrayLike, steps: int, rows: int) -> IntArray:
    """Return the row numbers of every local step, ``(1, 1, K, b)``."""
    order = check_float_array(batches, "batches", ndim=2)
    if len(order) != steps or not order.shape[1]:
        raise InvalidInputError(
            f"batches must have a line of row numbers for each of {steps} local steps, "
            f"got shape {order.shape}"
        )
    if (order != np.floor(order)).any() or order.min() < 0 or order.max() >= rows:
        raise InvalidInputError(f"batches must hold row numbers between 0 and {rows - 1}")
    return order.astype(np.int64)[None, None]
