"""What every forecaster offers, and what a guarded one certifies about itself.

One outcome at a time (``predict_one``, ``learn_one``), or many that become known together
(``predict_batch``, ``learn_batch``). Source: Propositions 7.A and 25.E, see
docs/theory/07-principal.md and docs/theory/25-offers.md.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError, ProtocolError, UnknownNameError
from counterplay.principal.events import Events
from counterplay.principal.games import check_contexts, check_states

if TYPE_CHECKING:
    import pandas as pd


class Forecaster(ABC):
    """What every forecaster offers: a distribution over forecasts, one outcome at a time.

    The verbs are those of river (``predict_one``, ``learn_one``). Parameters are read and set as in
    scikit-learn (``get_params``, ``set_params``, ``sklearn.base.clone``).
    """

    n_outcomes: int | None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters given to the constructor."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name != "self"}

    def set_params(self, **params: Any) -> Self:
        """Set parameters before the first forecast."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise UnknownNameError.among("parameter", name, known)
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = (
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not defaults[name].default
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def _fresh(
        self, n_outcomes: int, horizon: int | None, random_state: RandomState, **options: Any
    ) -> Self:
        """Return a copy for a game; a horizon and a seed of its own are kept."""
        params = self.get_params() | {"n_outcomes": n_outcomes} | options
        for name, given in (("horizon", horizon), ("random_state", random_state)):
            if name in params and params[name] is None:
                params[name] = given
        return type(self)(**params)

    def batched(self, batch: int) -> Self:
        """Return a forecaster that takes batches of this size; most take any."""
        params = self.get_params()
        if "batch" not in params or params["batch"] is not None:
            return self
        return type(self)(**(params | {"batch": batch}))

    @abstractmethod
    def started(
        self, n_outcomes: int, events: Events, horizon: int | None, random_state: RandomState
    ) -> Self:
        """Return a fresh copy for a mechanism with the given events."""

    @abstractmethod
    def distribution(self, context: Any = None) -> tuple[FloatArray, FloatArray]:
        """Return the points and weights from which the coming forecast is drawn."""

    @abstractmethod
    def predict_one(self, context: Any = None) -> FloatArray:
        """Return the probabilities of the coming outcome; repeated calls return the same ones."""

    @abstractmethod
    def learn_one(self, y: int) -> Self:
        """Learn the outcome that happened; draws a forecast first if none was asked for."""

    def predict_batch(self, contexts: Sequence[Any]) -> FloatArray:
        """Return forecasts for outcomes that become known together, one row per context."""
        self._batch = check_batch(contexts)
        return np.stack([self.predict_one(context) for context in self._batch])

    def learn_batch(self, outcomes: ArrayLike) -> Self:
        """Learn the outcomes of the last batch, in the order of its contexts."""
        contexts = getattr(self, "_batch", None)
        y = batch_outcomes(outcomes, contexts, self.n_outcomes)
        for context, outcome in zip(contexts or (), y.tolist()):
            self.predict_one(context)
            self.learn_one(outcome)
        self._batch = None
        return self

    _batch: list[Any] | None

    def forecast_sequence(
        self, outcomes: ArrayLike, contexts: Any = None, *, batches: Any = None
    ) -> FloatArray:
        """Forecast and learn a whole sequence; return the forecasts, shape (rounds, outcomes).

        ``batches`` gives every row the name of its batch (a week, a day): rows of one batch stand
        together and are all forecast before any of their outcomes is learned.
        """
        if self.n_outcomes is None:
            raise InvalidInputError("set n_outcomes to use the forecaster on its own")
        y = check_states(outcomes, self.n_outcomes)
        seen = check_contexts(contexts, y.size)
        made = np.empty((y.size, self.n_outcomes))
        if batches is None:
            for t, outcome in enumerate(y):
                made[t] = self.predict_one(None if seen is None else seen[t])
                self.learn_one(int(outcome))
            return made
        for rows in batch_slices(batches, y.size):
            some = [None] * (rows.stop - rows.start) if seen is None else list(seen[rows])
            made[rows] = self.predict_batch(some)
            self.learn_batch(y[rows])
        return made


@checked
@dataclass(frozen=True)
class ForecastCertificate(Report):
    """What a run of :class:`UnbiasedForecaster` guarantees about itself.

    Attributes
    ----------
    rounds:
        Rounds played.
    events:
        Events visited.
    start:
        The potential before the first round, K.
    potential:
        The potential now.
    gap_total:
        The sum of the minimax gaps.
    budget:
        The bound ``(1 + budget) K + sum of tolerances`` on the expected potential (K without a
        base).
    worst_gap:
        Largest gap of a minimax round divided by its tolerance; at most 1 when every round was
        solved.
    worst_ratio:
        Largest |R| divided by its bound, over all events and outcomes.
    evaluations:
        Forecasts looked at per round, on average.
    delta:
        Error probability of the bounds.
    account:
        What the rounds of the base have added to the potential, as a multiple of K.
    allowed:
        The most that they may add: the budget, as a multiple of K.
    kept:
        Share of the rounds in which the base's own forecast was used.
    """

    rounds: int
    events: int
    start: float
    potential: float
    gap_total: float
    budget: float
    worst_gap: float
    worst_ratio: float
    evaluations: float
    delta: float
    account: float = 0.0
    allowed: float = 0.0
    kept: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether every gap is within tolerance, every bias within its bound, and the base within
        its budget."""
        spent = self.account <= self.allowed + 1e-9
        return self.worst_gap <= 1.0 and self.worst_ratio <= 1.0 and spent

    def summary(self) -> str:
        """Return the certificate as text."""
        base = ""
        if self.allowed > 0:
            base = (
                f"\nbase kept in {self.kept:.1%} of the rounds; it has used {self.account:.3f} K "
                f"of its budget of {self.allowed:g} K"
            )
        return (
            f"{self.rounds} rounds, {self.events} events visited, "
            f"{self.evaluations:.2f} forecasts evaluated per round\n"
            f"potential {self.potential:.4g}, expected at most {self.budget:.4g}\n"
            f"largest gap / tolerance {self.worst_gap:.3g}, "
            f"largest bias / bound {self.worst_ratio:.3g} (bounds hold with probability "
            f"{1 - self.delta:g}){base}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as one row."""
        import pandas as pd

        return pd.DataFrame([asdict(self)])


def check_batch(contexts: Any) -> list[Any]:
    """Return the contexts of a batch as a list; at least one."""
    if isinstance(contexts, str) or not hasattr(contexts, "__iter__"):
        raise InvalidInputError("predict_batch takes one context per outcome, such as [None] * 10")
    batch = list(contexts)
    if not batch:
        raise InvalidInputError("a batch needs at least one context")
    return batch


def batch_outcomes(outcomes: ArrayLike, contexts: list[Any] | None, n: int | None) -> Any:
    """Return the outcomes of the batch that was forecast, one per context."""
    if contexts is None:
        raise ProtocolError("call predict_batch before learn_batch")
    y = check_states(outcomes, int(n or 1))
    if y.size != len(contexts):
        raise InvalidInputError(f"the batch has {len(contexts)} forecasts, got {y.size} outcomes")
    return y


def batch_slices(batches: Any, rounds: int) -> list[slice]:
    """Return the runs of equal names; a name that comes back later is an error."""
    names = list(batches)
    if len(names) != rounds:
        raise InvalidInputError(f"batches must name the batch of each of {rounds} rows")
    edges = [0] + [t for t in range(1, rounds) if names[t] != names[t - 1]] + [rounds]
    firsts = [names[a] for a in edges[:-1]]
    if len(set(firsts)) < len(firsts):
        raise InvalidInputError("rows of one batch must stand together; sort by the batch")
    return [slice(a, b) for a, b in zip(edges, edges[1:])]
