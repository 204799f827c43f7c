"""Parties in this process: rehearse a federation, with bad parties too, on your own data.

:func:`train` is the loop of a real federation with function calls in place of messages; the server
is the same :class:`~counterplay.federated.server.Coordinator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.draws import run_keys
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_int,
    check_positive_int,
    check_real,
    shorten,
)
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.federated.gauges import GOODBYE
from counterplay.federated.history import FederationHistory
from counterplay.federated.objective import Objective
from counterplay.federated.replies import Fields, Trust, reason
from counterplay.federated.reports import Rule
from counterplay.federated.server import Coordinator
from counterplay.federated.sites import (
    SiteArrays,
    Sites,
    minibatches,
    party_rows,
    without_torch,
)
from counterplay.federated.work import (
    ONE_STEP,
    LocalReport,
    LocalWork,
    batch_updates,
    party_report,
)

Rewrite = Callable[[dict[str, Any]], Fields]


def _without_gradient(answer: dict[str, Any]) -> Fields:
    """What an ordinary client sends."""
    update = answer.get("update", answer["gradient"])
    return {key: value for key, value in answer.items() if key != "gradient"} | {"update": update}


@checked
@dataclass(frozen=True, eq=False)
class LocalParties:
    """Parties of a federation as rows in memory; each leaves once its loss is small enough.

    Parameters
    ----------
    model:
        A torch module, or an objective such as :class:`LayeredObjective`.
    data:
        Rows (a frame of numbers, an array or images) and class numbers of every party,
        ``{name: (X, y)}``. Frames have the columns of the first party, in any order.
    threshold:
        Loss at which a party is satisfied and leaves: one number, or one per name. 0 is never.
    loss:
        Name of the loss, or for torch modules a function; an objective has its own.
    work:
        What each party trains before it answers: one full step by default.
    answers:
        Functions that rewrite the answer of a party, by name (see :meth:`replace`).
    learn_scale:
        Whether the server learns how long the updates of ordinary clients are. False takes them as
        mean gradients, which loses parties (chapter 23).

    Examples
    --------
    >>> from counterplay.federated import FedAvg, LayeredObjective, train
    >>> data = {"north": ([[1.0], [-1.0]], [0, 1]), "south": ([[2.0], [-3.0]], [0, 1])}
    >>> parties = LocalParties(LayeredObjective([1, 2]), data, threshold=0.3)
    >>> train(parties, FedAvg(), step_size=0.3, rounds=20).left
    {'south': 2, 'north': 5}

    References
    ----------
    "Setting", see docs/theory/23-training.md.
    """

    model: Any
    data: Mapping[str, tuple[Any, Any]]
    threshold: float | Mapping[str, float]
    loss: Any = "cross_entropy"
    work: LocalWork = ONE_STEP
    answers: Mapping[str, Rewrite] | None = None
    learn_scale: bool = True

    def __post_init__(self) -> None:
        if not self.data:
            raise InvalidInputError("data needs at least one party")
        for name in self.data:
            check_real(self.target(name), "threshold", low=0.0)

    def __repr__(self) -> str:
        return f"LocalParties({len(self.data)} parties)"

    def target(self, name: str) -> float:
        """The loss that satisfies a party."""
        if isinstance(self.threshold, Mapping):
            if name not in self.threshold:
                raise InvalidInputError(f"threshold has no entry for {name!r}")
            return self.threshold[name]
        return self.threshold

    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns of the first party's frame; None if its rows have none."""
        from counterplay.tables import Table

        X, _ = next(iter(self.data.values()))
        return Table.of(without_torch(X)).names

    def replace(self, name: str, *, answer: Rewrite) -> LocalParties:
        """Return the same parties, one of which changes its answers before it sends them.

        ``answer`` gets the honest fields (``loss``, ``gradient``, ``threshold``, ...) as a
        dictionary and returns others.
        """
        if name not in self.data:
            raise UnknownNameError.among("party", name, self.data)
        return replace(self, answers={**(self.answers or {}), name: answer})

    def ordinary(self) -> LocalParties:
        """Return the same parties as ordinary clients: they send a loss and what they trained.

        An ordinary Flower client sends its trained model, and its loss in an evaluation; no
        gradient at the model that it received.
        """
        return replace(self, answers=dict.fromkeys(self.data, _without_gradient))

    def objective(self) -> Objective:
        """The model in double precision; a torch module starts from its own parameters."""
        if isinstance(self.model, Objective):
            return self.model
        from counterplay.federated.modules import torch_objective

        return torch_objective(self.model, loss=self.loss, dtype="float64", warm_start=True)


@checked
def train(
    parties: LocalParties,
    rule: Rule,
    *,
    step_size: float,
    rounds: int = 1000,
    fraction: float = 1.0,
    full_every: int = 20,
    trust: Trust | None = None,
    convex: bool | None = None,
    max_silent_rounds: int = 20,
    random_state: RandomState = None,
) -> FederationHistory:
    """Train one model with parties that leave once satisfied, as a real federation would.

    Parameters
    ----------
    parties:
        Who takes part, and how much each trains before it answers.
    rule:
        :class:`SafeStep`, :class:`ADAGD`, :class:`FedAvg`, :class:`MWFed` or your own.
    step_size:
        Server step.
    rounds:
        At most this many rounds.
    fraction:
        Share of the parties that is asked in a round. :class:`SafeStep` and :class:`ADAGD` protect
        the others by their latest answers, ask everybody in the first round, and end as
        ``converged`` or ``stalled`` only after everybody has answered at the returned model.
    full_every:
        With these rules every such round asks everybody.
    trust:
        Which answers are believed, and who may block.
    convex:
        Whether every party's loss is convex in the parameters; None looks at the model (linear ones
        are). An answer that refutes it is named, and bounds get a slack from then on.
    max_silent_rounds:
        End after this many rounds in a row without a usable answer.
    random_state:
        Seed of minibatches and of who is asked; an integer means the same on Flower.

    Returns
    -------
    FederationHistory
        With ``w``, ``guarantee`` and ``final_losses`` of all parties at the final model, also of
        those who left.

    Guarantees
    ----------
    Convex losses, exact answers, :class:`SafeStep` or :class:`ADAGD`: nobody leaves, whoever is
    asked in which round, at any step size (Theorem 23.A). Otherwise ``history.guarantee`` tells
    what holds.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.federated import LayeredObjective, SafeStep
    >>> data = {"north": ([[1.0], [-1.0]], [0, 1]), "south": ([[2.0], [-3.0]], [0, 1])}
    >>> parties = LocalParties(LayeredObjective([1, 2]), data, threshold=0.3)
    >>> liar = parties.replace("south", answer=lambda a: a | {"gradient": a["gradient"] * np.nan})
    >>> history = train(liar, SafeStep(0.05), step_size=1.0, rounds=50, max_silent_rounds=3)
    >>> history.refused["south"][0]
    'round 1: unusable reply: the gradient has a value that is not finite'
    >>> history.guarantee
    'proved (convex)'

    References
    ----------
    Theorems A to C in docs/theory/23-training.md.
    """
    objective = parties.objective()
    seed = _seed(random_state)
    server = Coordinator(
        rule,
        trust=trust,
        patience=max_silent_rounds,
        seed=seed,
        convex=objective.convex if convex is None else convex,
        full_every=full_every,
        learn_scale=parties.learn_scale,
    )
    eta = check_real(step_size, "step_size", low=0.0, open_low=True)
    share = check_real(fraction, "fraction", low=0.0, high=1.0, open_low=True)
    crowd = _Crowd(objective, parties, seed)
    for m, name in enumerate(crowd.names):
        server.roster.introduce(m, name)
    w = objective.start(server.schedule.key)[0]
    server.buffers.now = objective.buffers()
    everybody = range(len(crowd.names))
    for r in range(1, check_positive_int(rounds, "rounds") + 1):
        asked = server.ask(everybody, r, share)
        steps = server.local_steps(asked)
        counts = parties.work.counts(np.array(asked)).tolist() if steps is None else steps
        tasks = {m: k for m, k in zip(asked, counts) if k}  # a party without work is left alone
        w = server.receive(r, w, crowd.answers(w, r, eta, tasks), list(tasks), everybody, eta)
        objective.load_buffers(server.buffers.now)
        if server.status != "running":
            break
    else:
        server.status = "max_rounds"
    return server.history(w=w, final=crowd.losses(w), buffers=objective.buffers())


def _seed(random_state: RandomState) -> int:
    """An integer as it is, so that a real federation can use the same; else drawn."""
    if isinstance(random_state, int) and not isinstance(random_state, bool):
        return check_int(random_state, "random_state", low=0)
    return int(generator(random_state).integers(2**31))


class _Crowd:
    """All parties: their rows side by side, and who has left."""

    def __init__(self, objective: Objective, parties: LocalParties, seed: int) -> None:
        self.objective, self.parties, self.seed = objective, parties, seed
        self.names = list(parties.data)
        columns = parties.columns()
        self.rows = [
            party_rows(objective, X, y, f"X of {shorten(name, 40)}", columns)
            for name, (X, y) in parties.data.items()
        ]
        self.targets = [parties.target(name) for name in self.names]
        self.left = np.zeros(len(self.names), dtype=bool)
        owner = np.repeat(np.arange(len(self.rows)), [len(y) for _, y in self.rows])
        X, y = (np.concatenate([own[part] for own in self.rows]) for part in (0, 1))
        self.sites = Sites.from_agents(X, y, owner)
        self.data = SiteArrays(self.sites, objective.backend, np.zeros(1, dtype=np.int64))
        self.size = float(len(X)) * objective.size

    def answers(
        self, w: FloatArray, r: int, eta: float, tasks: Mapping[int, int]
    ) -> dict[int, Fields | str]:
        """Return what the parties answer that were asked for so many local steps."""
        found: dict[int, Fields | str] = {}
        for steps in sorted(set(tasks.values())):
            some = np.array([m for m, k in tasks.items() if k == steps])
            work = replace(self.parties.work, steps=steps)
            compute = self._one_by_one if self.objective.stateful else self._together
            with self.objective.backend.fast_floats(self.size):
                reports = compute(some, w, r, eta, work)
            found |= {m: self._answer(m, done, work) for m, done in zip(some.tolist(), reports)}
        return {m: found[m] for m in tasks}

    def _together(
        self, some: IntArray, w: FloatArray, r: int, eta: float, work: LocalWork
    ) -> list[LocalReport]:
        """One batched pass over all parties that were asked."""
        model, fetch = self.objective, self.objective.backend.fetch
        in_order = np.array_equal(some, np.arange(len(self.names)))  # asked by name, held as given
        data = self.data if in_order else self.data.only(some)
        start = model.backend.repeat(model.backend.put(w[None]), len(some))
        loss, accuracy, full = model.gradients(start, data.x, data.y, data.weight)
        update = full
        if work.moves:
            order = self._order(some, r, work)
            update = batch_updates(model, data, start, eta, work, order)
        gradients, updates = fetch(full), fetch(update)
        return [
            LocalReport(float(loss[i]), float(accuracy[i]), updates[i], gradients[i])
            for i in range(len(some))
        ]

    def _one_by_one(
        self, some: IntArray, w: FloatArray, r: int, eta: float, work: LocalWork
    ) -> list[LocalReport]:
        """Models whose training steps have a state of their own."""
        order, found = self._order(some, r, work), []
        for i, m in enumerate(some):
            own = None if order is None else order[:, i : i + 1]
            X, y = self.rows[m]
            found.append(party_report(self.objective, X, y, w[None], eta, work, own))
        return found

    def _order(self, some: IntArray, r: int, work: LocalWork) -> IntArray | None:
        """Row numbers of the minibatches, ``(1, M, K, b)``, as a client draws them."""
        if work.batch_size is None:
            return None
        assert isinstance(work.steps, int)  # of one group of parties
        keys = run_keys(self.seed, 1)
        return minibatches(keys, r, self.sites.sizes, work.steps, work.batch_size)[:, some]

    def _answer(self, m: int, done: LocalReport, work: LocalWork) -> Fields | str:
        """Return the fields of an answer, or say why there are none."""
        name, target = self.names[m], self.targets[m]
        self.left[m] |= done.loss <= target
        if self.left[m] and target > 0.0:
            return GOODBYE
        fields: dict[str, Any] = {
            "loss": done.loss,
            "gradient": done.gradient,
            "threshold": target,
            "num_examples": len(self.rows[m][1]),
            "name": name,
        }
        if work.moves or self.objective.stateful:
            fields["update"] = done.update
        if done.buffers:
            fields["buffers"] = done.buffers
        rewrite = (self.parties.answers or {}).get(name)
        try:
            return fields if rewrite is None else rewrite(fields)
        except Exception as error:  # the rewriting function is the user's: as an error reply
            return f"error: {reason(error)}"

    def losses(self, w: FloatArray) -> dict[str, float]:
        """Loss of every party at a model."""
        model, data = self.objective, self.data
        start = model.backend.repeat(model.backend.put(w[None]), len(self.names))
        with model.backend.fast_floats(self.size):
            loss, _ = model.evaluate(start, data.x, data.y, data.weight)
        return dict(zip(self.names, map(float, model.backend.fetch(loss))))
