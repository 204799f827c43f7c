"""What every forecaster offers.

One outcome at a time (``predict_one``, ``learn_one``), or many that become known together
(``predict_batch``, ``learn_batch``). Source: Proposition 7.A, see docs/theory/07-principal.md.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.principal.batches import batch_outcomes, batch_slices, check_batch
from counterplay.principal.events import Events
from counterplay.principal.games import check_contexts, check_states


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
