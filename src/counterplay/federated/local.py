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
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_positive_int, check_real, shorten
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.federated.history import GOODBYE, FederationHistory
from counterplay.federated.objective import Objective
from counterplay.federated.replies import Fields, Trust, reason
from counterplay.federated.reports import Rule
from counterplay.federated.server import Coordinator
from counterplay.federated.sites import party_rows, without_torch
from counterplay.federated.work import ONE_STEP, LocalWork, party_batches, party_report

Rewrite = Callable[[dict[str, Any]], Fields]


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
    answers:
        Functions that rewrite the answer of a party, by name (see :meth:`replace`).

    Examples
    --------
    >>> from counterplay.federated import FedAvg, LayeredObjective, train
    >>> data = {"north": ([[1.0], [-1.0]], [0, 1]), "south": ([[2.0], [-3.0]], [0, 1])}
    >>> parties = LocalParties(LayeredObjective([1, 2]), data, threshold=0.3)
    >>> train(parties, FedAvg(), step_size=0.3, rounds=20).left
    {'south': 2, 'north': 5}
    """

    model: Any
    data: Mapping[str, tuple[Any, Any]]
    threshold: float | Mapping[str, float]
    loss: Any = "cross_entropy"
    answers: Mapping[str, Rewrite] | None = None

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
    work: LocalWork = ONE_STEP,
    fraction: float = 1.0,
    trust: Trust | None = None,
    max_silent_rounds: int = 20,
    random_state: RandomState = None,
) -> FederationHistory:
    """Train one model with parties that leave once satisfied, one message after the other.

    Parameters
    ----------
    parties:
        Who takes part.
    rule:
        :class:`SafeStep`, :class:`ADAGD`, :class:`FedAvg`, :class:`MWFed` or your own.
    step_size:
        Server step.
    rounds:
        At most this many rounds.
    work:
        Local work of a round.
    fraction:
        Share of the parties that is asked in a round. With less than 1 nobody is promised to stay:
        a party that is not asked is not protected in that round. A run ends as ``converged`` or
        ``stalled`` only after everybody has answered at the returned model.
    trust:
        Which answers are believed.
    max_silent_rounds:
        End after this many rounds in a row without a usable answer.
    random_state:
        Seed of minibatches and of who is asked.

    Returns
    -------
    FederationHistory
        With ``w`` and ``final_losses`` of all parties at the final model, also of those who left.

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
    """
    objective = parties.objective()
    seed = int(generator(random_state).integers(2**31))
    server = Coordinator(rule, trust=trust, patience=max_silent_rounds, seed=seed)
    people = [_Party(objective, parties, name, m, seed) for m, name in enumerate(parties.data)]
    for party in people:
        server.roster.introduce(party.number, party.name)
    w = objective.start(server.key)[0]
    eta = check_real(step_size, "step_size", low=0.0, open_low=True)
    share = check_real(fraction, "fraction", low=0.0, high=1.0, open_low=True)
    everybody = range(len(people))
    for r in range(1, check_positive_int(rounds, "rounds") + 1):
        asked = server.ask(everybody, r, share)
        steps = server.local_steps(asked)
        counts = work.counts(np.array(asked)).tolist() if steps is None else steps
        tasks = {m: k for m, k in zip(asked, counts) if k}  # a party without work is left alone
        replies: dict[int, Fields | str] = {
            m: people[m].answer(w, r, eta, replace(work, steps=k)) for m, k in tasks.items()
        }
        w = server.receive(r, w, replies, list(tasks), everybody, eta)
        if server.status != "running":
            break
    else:
        server.status = "max_rounds"
    final = {party.name: party.loss(w) for party in people}
    return server.history(w=w, final=final)


class _Party:
    """One party: its rows, and whether it has left."""

    def __init__(
        self, objective: Objective, parties: LocalParties, name: str, number: int, seed: int
    ) -> None:
        self.objective, self.name, self.number, self.seed = objective, name, number, seed
        X, y = parties.data[name]
        self.rows = party_rows(objective, X, y, f"X of {shorten(name, 40)}", parties.columns())
        self.target = parties.target(name)
        self.rewrite = (parties.answers or {}).get(name)
        self.left = False

    def answer(self, w: FloatArray, r: int, eta: float, work: LocalWork) -> Fields | str:
        """Return the fields of an answer, or say why there are none."""
        X, y = self.rows
        batches = party_batches(self.seed, self.number, r, len(y), work)
        order = None if batches is None else batches[None, None]
        done = party_report(self.objective, X, y, w[None], eta, work, order)
        self.left = self.left or done.loss <= self.target
        if self.left and self.target > 0.0:
            return GOODBYE
        assert done.gradient is not None  # asked for with anchor=True
        fields = {
            "loss": done.loss,
            "gradient": done.gradient,
            "threshold": self.target,
            "num_examples": len(y),
            "name": self.name,
        }
        if work.moves:
            fields["update"] = done.update
        try:
            return fields if self.rewrite is None else self.rewrite(fields)
        except Exception as error:  # the rewriting function is the user's: as an error reply
            return f"error: {reason(error)}"

    def loss(self, w: FloatArray) -> float:
        """Loss at a model."""
        X, y = self.rows
        return party_report(self.objective, X, y, w[None], 1.0, ONE_STEP).loss
