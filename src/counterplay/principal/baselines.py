"""Forecasters people use instead: full calibration, averages, a fixed guess, a fitted classifier.

All of them plug into the same mechanisms, so that the comparison is about the forecasts only.
Source: "Mechanisms", see docs/theory/07-principal.md.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_int,
    check_open_fraction,
    check_positive_int,
    check_probabilities,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError
from counterplay.principal.bounds import net_events
from counterplay.principal.events import EventFamilies, Events, NetPoint
from counterplay.principal.forecaster import MOST_OUTCOMES, UnbiasedForecaster
from counterplay.principal.forecasts import Forecaster
from counterplay.tables.cells import shown


@checked
class NetCalibratedForecaster(UnbiasedForecaster):
    """Fully calibrated forecasts: one event per point of an eta-net of the simplex.

    The classical requirement, with the same engine as :class:`UnbiasedForecaster`. The number of
    events is ``C(1/eta + n - 1, n - 1)``, exponential in the number of outcomes, so it is refused
    when there would be too many.

    Parameters
    ----------
    n_outcomes:
        Number of outcomes; set by the mechanism when used inside one.
    eta:
        Resolution of the net, one over an integer.
    max_events:
        Largest accepted number of net points.
    horizon:
        As in :class:`UnbiasedForecaster`.
    tolerance:
        As in :class:`UnbiasedForecaster`.
    max_evaluations:
        As in :class:`UnbiasedForecaster`.
    random_state:
        As in :class:`UnbiasedForecaster`.

    Examples
    --------
    >>> NetCalibratedForecaster(12, eta=0.1).predict_one()
    Traceback (most recent call last):
        ...
    counterplay.errors.InvalidInputError: calibration on an eta = 0.1 net of 12 outcomes ...
    """

    def __init__(
        self,
        n_outcomes: int | None = None,
        *,
        eta: float = 0.1,
        max_events: int = 100_000,
        horizon: int | None = None,
        tolerance: float = 0.1,
        max_evaluations: int = 400,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(
            n_outcomes,
            horizon=horizon,
            tolerance=tolerance,
            max_evaluations=max_evaluations,
            random_state=random_state,
        )
        self.eta = eta
        self.max_events = max_events

    def _prepare(self, batch: int = 1) -> None:
        if hasattr(self, "events_"):
            return
        if self.n_outcomes is not None:
            n = check_positive_int(self.n_outcomes, "n_outcomes")
            count = net_events(n, self.eta)
            if count > check_positive_int(self.max_events, "max_events"):
                raise InvalidInputError(
                    f"calibration on an eta = {self.eta:g} net of {n} outcomes needs {count} "
                    f"events, more than max_events = {self.max_events}; use UnbiasedForecaster "
                    "with decision events"
                )
            self.events = EventFamilies([NetPoint(self.eta)], n)
        super()._prepare(batch)

    def started(
        self, n_outcomes: int, events: Events, horizon: int | None, random_state: RandomState
    ) -> Self:
        """Return a fresh forecaster; the mechanism's events are replaced by the net."""
        fresh = self._fresh(n_outcomes, horizon, random_state)
        fresh._prepare()
        return fresh


class _PointForecaster(Forecaster):
    """A forecaster without randomness: one point per round."""

    def started(
        self, n_outcomes: int, events: Events, horizon: int | None, random_state: RandomState
    ) -> Self:
        """Return a fresh copy for ``n_outcomes`` outcomes."""
        fresh = self._fresh(n_outcomes, horizon, random_state)
        fresh._reset()
        return fresh

    def _reset(self) -> None:
        if self.n_outcomes is None:
            raise InvalidInputError("set n_outcomes to use the forecaster on its own")
        self._n = check_positive_int(self.n_outcomes, "n_outcomes")
        check_size(self._n, MOST_OUTCOMES, "outcomes")
        self.rounds_ = 0

    def _ready(self) -> None:
        if not hasattr(self, "rounds_"):
            self._reset()

    def _point(self, context: Any) -> FloatArray:
        raise NotImplementedError

    def _learn(self, y: int) -> None:
        raise NotImplementedError

    def distribution(self, context: Any = None) -> tuple[FloatArray, FloatArray]:
        """Return the forecast with weight one."""
        return self.predict_one(context)[None, :], np.ones(1)

    def predict_one(self, context: Any = None) -> FloatArray:
        """Return the forecast of the coming round."""
        self._ready()
        return self._point(context)

    def learn_one(self, y: int) -> Self:
        """Learn the outcome of the round."""
        self._ready()
        self._learn(check_int(y, "outcome", low=0, high=self._n - 1))
        self.rounds_ += 1
        return self


@checked
class EmpiricalMeanForecaster(_PointForecaster):
    """Relative frequencies so far, with ``prior_weight`` pseudo-observations spread evenly.

    Examples
    --------
    >>> forecaster = EmpiricalMeanForecaster(2).learn_one(1).learn_one(1)
    >>> forecaster.predict_one().round(3).tolist()
    [0.167, 0.833]
    """

    def __init__(self, n_outcomes: int | None = None, *, prior_weight: float = 1.0) -> None:
        self.n_outcomes = n_outcomes
        self.prior_weight = prior_weight

    def _reset(self) -> None:
        super()._reset()
        check_real(self.prior_weight, "prior_weight", low=0.0, open_low=True)
        self._counts = np.full(self._n, self.prior_weight / self._n)

    def _point(self, context: Any) -> FloatArray:
        return np.asarray(self._counts / self._counts.sum())

    def _learn(self, y: int) -> None:
        self._counts[y] += 1.0


@checked
class EWMAForecaster(_PointForecaster):
    """Exponentially weighted relative frequencies: forgets at rate ``decay``.

    Examples
    --------
    >>> EWMAForecaster(2, decay=0.5).learn_one(1).predict_one().tolist()
    [0.25, 0.75]
    """

    def __init__(self, n_outcomes: int | None = None, *, decay: float = 0.05) -> None:
        self.n_outcomes = n_outcomes
        self.decay = decay

    def _reset(self) -> None:
        super()._reset()
        check_open_fraction(self.decay, "decay")
        self._mean = np.full(self._n, 1.0 / self._n)

    def _point(self, context: Any) -> FloatArray:
        return self._mean.copy()

    def _learn(self, y: int) -> None:
        self._mean *= 1.0 - self.decay
        self._mean[y] += self.decay


@checked
class ConstantForecaster(_PointForecaster):
    """The same probabilities for ever; uniform if none are given.

    Examples
    --------
    >>> ConstantForecaster(4).predict_one().tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    def __init__(
        self, n_outcomes: int | None = None, *, probabilities: ArrayLike | None = None
    ) -> None:
        self.n_outcomes = n_outcomes
        self.probabilities = probabilities

    def _reset(self) -> None:
        super()._reset()
        if self.probabilities is None:
            self._fixed = np.full(self._n, 1.0 / self._n)
            return
        self._fixed = check_probabilities(self.probabilities, "probabilities")
        if self._fixed.shape != (self._n,):
            raise InvalidInputError(f"probabilities must have {self._n} entries")

    def _point(self, context: Any) -> FloatArray:
        return self._fixed.copy()

    def _learn(self, y: int) -> None:
        pass


@checked
class ClassifierForecaster(_PointForecaster):
    """Any scikit-learn classifier with ``partial_fit`` and ``predict_proba`` as a forecaster.

    Parameters
    ----------
    n_outcomes:
        Number of outcomes.
    classifier:
        For instance ``SGDClassifier(loss="log_loss")``.
    memory:
        The features of a round are its context, if one is given, else the last ``memory`` outcomes
        in one-hot form.

    Examples
    --------
    >>> from sklearn.naive_bayes import BernoulliNB
    >>> forecaster = ClassifierForecaster(2, classifier=BernoulliNB(), memory=1)
    >>> for t in range(200):
    ...     _ = forecaster.learn_one(t % 2)                   # strictly alternating
    >>> bool(forecaster.predict_one()[0] > 0.95)
    True
    """

    def __init__(
        self, n_outcomes: int | None = None, *, classifier: Any = None, memory: int = 5
    ) -> None:
        self.n_outcomes = n_outcomes
        self.classifier = classifier
        self.memory = memory

    def _reset(self) -> None:
        super()._reset()
        for method in ("partial_fit", "predict_proba"):
            if not hasattr(self.classifier, method):
                raise InvalidInputError(f"classifier must have the method {method}")
        check_positive_int(self.memory, "memory")
        from sklearn.base import clone

        self._model = clone(self.classifier)
        self._past = np.zeros((int(self.memory), self._n))
        self._features: FloatArray | None = None

    def _inputs(self, context: Any) -> FloatArray:
        if context is None:
            return self._past.ravel()[None, :].copy()
        return np.atleast_2d(check_float_array(context, "context"))

    def _point(self, context: Any) -> FloatArray:
        self._features = self._inputs(context)
        if self.rounds_ == 0:
            return np.full(self._n, 1.0 / self._n)
        return self._probabilities(self._call("predict_proba", self._features))

    def _learn(self, y: int) -> None:
        features = self._inputs(None) if self._features is None else self._features
        self._call("partial_fit", features, [y], classes=np.arange(self._n))
        self._past = np.roll(self._past, 1, axis=0)
        self._past[0] = 0.0
        self._past[0, y] = 1.0
        self._features = None

    def _call(self, method: str, *given: Any, **named: Any) -> Any:
        """Call the classifier; its own complaint becomes one sentence."""
        try:
            return getattr(self._model, method)(*given, **named)
        except Exception as error:
            raise InvalidInputError(
                f"the classifier failed in {method}, round {self.rounds_}: {shown(error, 160)}"
            ) from error

    def _probabilities(self, answer: Any) -> FloatArray:
        """Return the classifier's answer for one row, if it is a probability for each outcome."""
        found = np.asarray(answer, dtype=np.float64)
        if found.shape != (1, self._n):
            raise InvalidInputError(
                f"the classifier must give {self._n} probabilities for one row, it gave shape "
                f"{found.shape}"
            )
        if not (found >= 0).all() or not abs(found.sum() - 1.0) <= 1e-6:
            raise InvalidInputError(
                f"the classifier gave no probabilities in round {self.rounds_}: "
                f"{shown(found[0].tolist(), 100)}; some models need more rounds, or other features"
            )
        return np.asarray(found[0] / found.sum())
