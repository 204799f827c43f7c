"""Forecasts that are unbiased exactly where decisions change.

Full calibration asks for unbiasedness on exponentially many events. Decisions only ask for it on
the events "this forecast makes me do that". The forecaster keeps a potential over those events and
answers every round with a forecast (or a lottery over a few forecasts) that no outcome can exploit.
Source: Noarov, Ramalingam, Roth, Xie (2023); the explicit construction is ours: Proposition 7.A,
see docs/theory/07-principal.md.
"""

from __future__ import annotations

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_open_fraction,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.errors import (
    AssumptionWarning,
    InvalidInputError,
    ProtocolError,
    UnknownNameError,
)
from counterplay.principal.events import Always, EventFamilies, EventFamily, Events, MostLikely
from counterplay.principal.games import check_contexts, check_forecasts, check_states
from counterplay.principal.minimax import METHODS, ForecastLottery, Method, solve_minimax
from counterplay.principal.potential import Potential, n_rates_for

if TYPE_CHECKING:
    import pandas as pd

EventsLike = Events | Sequence[EventFamily | Callable[[FloatArray, Any], Hashable]]
MOST_OUTCOMES = 100_000
_CACHE_SIZE = 20_000


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

    def forecast_sequence(self, outcomes: ArrayLike, contexts: Any = None) -> FloatArray:
        """Forecast and learn a whole sequence; return the forecasts, shape (rounds, outcomes)."""
        if self.n_outcomes is None:
            raise InvalidInputError("set n_outcomes to use the forecaster on its own")
        y = check_states(outcomes, self.n_outcomes)
        seen = check_contexts(contexts, y.size)
        made = np.empty((y.size, self.n_outcomes))
        for t, outcome in enumerate(y):
            made[t] = self.predict_one(None if seen is None else seen[t])
            self.learn_one(int(outcome))
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
        The bound ``K + sum of tolerances`` on the expected potential.
    worst_gap:
        Largest gap divided by its tolerance; at most 1 when every round was solved.
    worst_ratio:
        Largest |R| divided by its bound, over all events and outcomes.
    evaluations:
        Forecasts looked at per round, on average.
    delta:
        Error probability of the bounds.
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

    @property
    def holds(self) -> bool:
        """Whether every gap is within tolerance and every bias within its bound."""
        return self.worst_gap <= 1.0 and self.worst_ratio <= 1.0

    def summary(self) -> str:
        """Return the certificate as text."""
        return (
            f"{self.rounds} rounds, {self.events} events visited, "
            f"{self.evaluations:.2f} forecasts evaluated per round\n"
            f"potential {self.potential:.4g}, expected at most {self.budget:.4g}\n"
            f"largest gap / tolerance {self.worst_gap:.3g}, "
            f"largest bias / bound {self.worst_ratio:.3g} (bounds hold with probability "
            f"{1 - self.delta:g})"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as one row."""
        import pandas as pd

        return pd.DataFrame([asdict(self)])


@checked
class UnbiasedForecaster(Forecaster):
    """Probabilities of a finite outcome, unbiased on the events you name, whatever happens.

    Use it when forecasts feed decisions and nothing is known about the sequence: it may drift,
    be periodic, or be chosen by an opponent. Name the decisions (:class:`Decision`), and on the
    rounds where the forecast triggers a given action the average forecast equals the average
    outcome, up to about ``sqrt(rounds)``.

    Parameters
    ----------
    n_outcomes:
        Number of outcomes; they are the codes 0, 1, ...
    events:
        Event families, functions ``(forecast, context) -> hashable``, or an :class:`Events`
        object. Default: every round, and the most likely outcome.
    base:
        A forecast to stay close to: another :class:`Forecaster` (which learns alongside) or a
        function of the context. Whenever its forecast is unbiased enough it is used as it is, so
        a good model keeps its sharpness and gets the guarantee. Default: the forecast before.
    horizon:
        Number of rounds, if known. Without it the guarantee holds at every time and costs a
        logarithm of a logarithm more.
    inner:
        How the minimax step is solved, see :func:`solve_minimax`.
    tolerance:
        Gap asked of the minimax step, as a multiple of K / T. Smaller is less biased and slower;
        larger keeps more of the base. The bounds hold for every value and grow with the logarithm
        of 1 + tolerance.
    max_evaluations:
        Limit of the minimax step; the gap actually reached is recorded.
    allocation:
        ``"lazy"`` stores visited events only, ``"dense"`` all of them (same numbers).
    random_state:
        None, an int or a numpy Generator.

    Notes
    -----
    Guarantee (Proposition 7.A): with probability at least 1 - delta, for all events and outcomes,
    ``|R| <= min_k (eta_k Q + L / eta_k)`` with ``L = ln((1 + tolerance) K G / delta)``, that is at
    most ``max(4 L, 2.13 sqrt(Q L))``, where Q is at most the number of rounds the event was active
    and ``K = 2 |outcomes| |events|``.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.principal import Decision, UnbiasedForecaster
    >>> umbrella = Decision([[0.0, -1.0], [-0.2, -0.2]], name="umbrella", actions=["no", "yes"])
    >>> forecaster = UnbiasedForecaster(2, events=[umbrella], horizon=400, random_state=0)
    >>> rain = (np.arange(400) % 7 < 2).astype(int)
    >>> forecasts = forecaster.forecast_sequence(rain)
    >>> bool(forecaster.bias_report()["alpha"].max() < 0.03), forecaster.certificate().holds
    (True, True)

    References
    ----------
    G. Noarov, R. Ramalingam, A. Roth, S. Xie, "High-dimensional prediction for sequential decision
    making" (2023). S. Zhao et al., "Calibrating predictions to decisions" (2021).
    """

    def __init__(
        self,
        n_outcomes: int | None = None,
        *,
        events: EventsLike | None = None,
        base: Forecaster | Callable[[Any], ArrayLike] | None = None,
        horizon: int | None = None,
        inner: Method = "auto",
        tolerance: float = 0.1,
        max_evaluations: int = 400,
        allocation: Literal["lazy", "dense"] = "lazy",
        random_state: RandomState = None,
    ) -> None:
        self.n_outcomes = n_outcomes
        self.events = events
        self.base = base
        self.horizon = horizon
        self.inner: Method = inner
        self.tolerance = tolerance
        self.max_evaluations = max_evaluations
        self.allocation: Literal["lazy", "dense"] = allocation
        self.random_state = random_state

    def started(
        self, n_outcomes: int, events: Events, horizon: int | None, random_state: RandomState
    ) -> Self:
        """Return a fresh forecaster with these events; own settings of the solver are kept."""
        fresh = self._fresh(n_outcomes, horizon, random_state, events=events)
        fresh._prepare()
        return fresh

    def _prepare(self) -> None:
        if hasattr(self, "events_"):
            return
        if self.n_outcomes is None:
            raise InvalidInputError("set n_outcomes to use the forecaster on its own")
        n = check_int(self.n_outcomes, "n_outcomes", low=1)
        check_size(n, MOST_OUTCOMES, "outcomes")
        check_choice(self.inner, "inner", METHODS)
        if self.inner == "bisection" and n != 2:
            raise InvalidInputError(f"inner='bisection' needs two outcomes, got {n}")
        check_real(self.tolerance, "tolerance", low=0.0, open_low=True)
        check_positive_int(self.max_evaluations, "max_evaluations")
        check_choice(self.allocation, "allocation", ("lazy", "dense"))
        if self.horizon is not None:
            check_positive_int(self.horizon, "horizon")
        chosen = self.events if self.events is not None else (Always(), MostLikely())
        self.events_ = chosen if isinstance(chosen, Events) else EventFamilies(chosen, n)
        self.potential_ = Potential(
            n,
            self.events_.n_events,
            n_rates_for(self.horizon),
            dense=self.allocation == "dense",
        )
        self.rounds_ = 0
        self.gaps_: list[float] = []
        self.evaluations_: list[int] = []
        self.budget_ = self.potential_.start
        self.worst_gap_ = 0.0
        self._rng = generator(self.random_state)
        self._base: Forecaster | None = None
        if isinstance(self.base, Forecaster):
            self._base = self.base.started(n, self.events_, self.horizon, self._rng)
        self._seeds = np.full((1, n), 1.0 / n)
        self._support = np.empty((0, n))
        self._mixture: ForecastLottery | None = None
        self._drawn: FloatArray | None = None
        self._context: Any = None
        self._cache: dict[bytes, Sequence[int]] = {}
        self._cached_rows: dict[bytes, IntArray] = {}

    @property
    def tolerance_(self) -> float:
        """Gap asked of the coming round: a multiple of K / T, or of K / t without a horizon."""
        self._prepare()
        return self.tolerance * self.potential_.start / (self.horizon or self.rounds_ + 1)

    def _active(self, point: FloatArray) -> Sequence[int]:
        if not self.events_.context_free:
            return self.events_.active(point, self._context)
        key = point.tobytes()
        found = self._cache.get(key)
        if found is None:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
                self._cached_rows.clear()
            found = self._cache[key] = self.events_.active(point, None)
        return found

    def gain(self, point: FloatArray) -> FloatArray:
        """Return g(point): how much each outcome would hurt if this were the forecast."""
        self._prepare()
        key = point.tobytes()
        rows = self._cached_rows.get(key)
        if rows is None:
            rows = self.potential_.rows(self._active(point))
            if self.events_.context_free and rows.size == self.events_.n_families:
                self._cached_rows[key] = rows
        return self.potential_.gain(rows)

    def mixture(self, context: Any = None) -> ForecastLottery:
        """Return the distribution of the coming forecast together with its gap."""
        self._prepare()
        if self._mixture is None:
            self._context = context
            assert self.n_outcomes is not None
            self._mixture = solve_minimax(
                self.gain,
                int(self.n_outcomes),
                self.tolerance_,
                seeds=self._all_seeds(context),
                near=self.base is not None,
                method=self.inner,
                max_evaluations=int(self.max_evaluations),
            )
        return self._mixture

    def _all_seeds(self, context: Any) -> FloatArray:
        if self._base is not None:
            first = self._base.predict_one(context)
        elif self.base is not None and not isinstance(self.base, Forecaster):
            assert self.n_outcomes is not None
            first = check_forecasts(self.base(context), int(self.n_outcomes))[0]
        else:
            return self._seeds
        return np.vstack([first, self._seeds[(self._seeds != first).any(axis=1)]])

    def distribution(self, context: Any = None) -> tuple[FloatArray, FloatArray]:
        """Return the points and weights from which the coming forecast is drawn."""
        mixture = self.mixture(context)
        return mixture.points.copy(), mixture.weights.copy()

    def predict_one(self, context: Any = None) -> FloatArray:
        """Return the forecast of the coming round; repeated calls return the same one."""
        if self._pending() is None:
            mixture = self.mixture(context)
            level = self._rng.random()
            chosen = int(np.searchsorted(np.cumsum(mixture.weights), level, side="right"))
            self._drawn = mixture.points[min(chosen, len(mixture.weights) - 1)].copy()
        assert self._drawn is not None
        return self._drawn.copy()

    def _pending(self) -> FloatArray | None:
        self._prepare()
        return self._drawn

    def learn_one(self, y: int) -> UnbiasedForecaster:
        """Learn the outcome of the round; draws a forecast first if none was asked for."""
        self._prepare()
        outcome = check_int(y, "outcome", low=0, high=int(self.n_outcomes or 1) - 1)
        point = self.predict_one(self._context)
        mixture = self.mixture()
        tolerance = self.tolerance_
        residual = point.copy()
        residual[outcome] -= 1.0
        self.potential_.update(self._active(point), residual)
        if self.potential_.overflow:
            self._warn_overflow()
        self.gaps_.append(mixture.gap)
        self.evaluations_.append(mixture.evaluations)
        self.worst_gap_ = max(self.worst_gap_, mixture.gap / tolerance)
        self.budget_ += max(mixture.gap, tolerance)
        self.rounds_ += 1
        self._seeds = self._next_seeds(point, mixture.points)
        if self._base is not None:
            self._base.learn_one(outcome)
        self._drawn, self._mixture, self._context = None, None, None
        return self

    def _next_seeds(self, point: FloatArray, support: FloatArray) -> FloatArray:
        """The drawn forecast, then the support of the last round that needed more than one."""
        if len(support) > 1:
            self._support = support
        others = self._support[(self._support != point).any(axis=1)]
        return np.vstack([point, others])

    def _warn_overflow(self) -> None:
        self.potential_.overflow = False
        warnings.warn(
            "an exponent of the potential was clipped at 700; the guarantee no longer applies to "
            "this run (was the sequence far longer than horizon?)",
            AssumptionWarning,
            stacklevel=3,
        )

    def bias_report(self, delta: float = 0.05) -> pd.DataFrame:
        """Return the bias of every visited event with its bound.

        Columns: ``family``, ``event``, ``n`` (rounds active), ``alpha`` (the l1 norm of the summed
        residuals divided by all rounds) and ``bound``, which holds for all events at once with
        probability ``1 - delta``.
        """
        import pandas as pd

        self._prepare()
        check_open_fraction(delta, "delta")
        if self.rounds_ == 0:
            raise ProtocolError("there is nothing to report yet: call predict_one and learn_one")
        potential, rows = self.potential_, self.potential_.size
        seen = potential.n[:rows] > 0
        bounds = potential.bound(self.budget_, delta).sum(axis=1) / self.rounds_
        frame = pd.DataFrame(
            {
                "family": [
                    self.events_.family(event) for event in np.array(potential.events)[seen]
                ],
                "event": [self.events_.label(event) for event in np.array(potential.events)[seen]],
                "n": potential.n[:rows][seen].astype(int),
                "alpha": np.abs(potential.R[:rows][seen]).sum(axis=1) / self.rounds_,
                "bound": bounds[seen],
            }
        )
        return frame

    def certificate(self, delta: float = 0.05) -> ForecastCertificate:
        """Return the potential, the gaps and the largest bias relative to its bound."""
        self._prepare()
        check_open_fraction(delta, "delta")
        potential, rows = self.potential_, self.potential_.size
        ratio = np.abs(potential.R[:rows]) / potential.bound(self.budget_, delta)
        return ForecastCertificate(
            rounds=self.rounds_,
            events=int((potential.n[:rows] > 0).sum()),
            start=potential.start,
            potential=potential.value(),
            gap_total=float(np.sum(self.gaps_)),
            budget=self.budget_,
            worst_gap=self.worst_gap_,
            worst_ratio=float(ratio.max(initial=0.0)),
            evaluations=float(np.mean(self.evaluations_)) if self.evaluations_ else 0.0,
            delta=delta,
        )
