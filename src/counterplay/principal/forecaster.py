"""Forecasts that are unbiased exactly where decisions change.

Full calibration asks for unbiasedness on exponentially many events. Decisions only ask for it on
the events "this forecast makes me do that". The forecaster keeps a potential over those events and
answers every round with a forecast (or a lottery over a few forecasts) that no outcome can exploit.
Source: Noarov, Ramalingam, Roth, Xie (2023); the explicit construction is ours: Proposition 7.A,
see docs/theory/07-principal.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
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
from counterplay.errors import AssumptionWarning, InvalidInputError, ProtocolError
from counterplay.principal.batches import Moves, batch_outcomes, check_batch, summed_residuals
from counterplay.principal.events import Always, EventFamilies, EventFamily, Events, MostLikely
from counterplay.principal.forecast_certificate import (
    ForecastCertificate,
    bias_frame,
    largest_ratio,
)
from counterplay.principal.forecasts import Forecaster
from counterplay.principal.games import check_forecasts
from counterplay.principal.guard import Guard
from counterplay.principal.minimax import METHODS, ForecastLottery, Method
from counterplay.principal.potential import Potential, n_rates_for
from counterplay.principal.warm_minimax import WarmMinimax

if TYPE_CHECKING:
    import pandas as pd

EventsLike = Events | Sequence[EventFamily | Callable[[FloatArray, Any], Hashable]]
MOST_OUTCOMES = 100_000
_CACHE_SIZE = 20_000


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
        A forecast to keep: another :class:`Forecaster` (which learns alongside, such as
        :class:`RecentAverage`) or a function of the context. It is used as it is until it has used
        up its budget of the potential, so a good model is kept bit for bit and gets the
        guarantee. Default: none.
    budget:
        What the base may add to the potential, as a multiple of its start K; 1 costs at most a
        logarithm of 2 in every bound.
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
    batch:
        Most outcomes that become known together; default the size of the first batch, 1 without
        batches.
    random_state:
        None, an int or a numpy Generator.

    Notes
    -----
    Guarantee (Proposition 7.A): with probability at least 1 - delta, for all events and outcomes,
    ``|R| <= min_k (eta_k Q + L / eta_k)`` with ``L = ln((1 + budget + tolerance) K G / delta)``
    (no budget without a base), that is at most ``max(4 L, 2.13 sqrt(Q L))``, where Q is at most the
    number of rounds the event was active and ``K = 2 |outcomes| |events|``. With batches of D
    outcomes: at most ``max(4 D L, 2.13 sqrt(Q L))`` (Proposition 25.F).

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
        budget: float = 1.0,
        batch: int | None = None,
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
        self.budget = budget
        self.batch = batch
        self.random_state = random_state

    def started(
        self, n_outcomes: int, events: Events, horizon: int | None, random_state: RandomState
    ) -> Self:
        """Return a fresh forecaster with these events; own settings of the solver are kept."""
        fresh = self._fresh(n_outcomes, horizon, random_state, events=events)
        fresh._prepare()
        return fresh

    def _prepare(self, batch: int = 1) -> None:
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
        check_real(self.budget, "budget", low=0.0)
        self.batch_ = batch if self.batch is None else check_positive_int(self.batch, "batch")
        if self.horizon is not None:
            check_positive_int(self.horizon, "horizon")
        chosen = self.events if self.events is not None else (Always(), MostLikely())
        self.events_ = chosen if isinstance(chosen, Events) else EventFamilies(chosen, n)
        self.potential_ = Potential(
            n,
            self.events_.n_events,
            n_rates_for(self.horizon),
            dense=self.allocation == "dense",
            batch=self.batch_,
        )
        self.guard_ = None if self.base is None else Guard(self.potential_, float(self.budget))
        self.rounds_ = 0
        self.outcomes_ = 0
        self.gaps_: list[float] = []
        self.evaluations_: list[int] = []
        self.budget_ = self.potential_.start * (1.0 + (self.budget if self.guard_ else 0.0))
        self.worst_gap_ = 0.0
        self._rng = generator(self.random_state)
        self._base: Forecaster | None = None
        if isinstance(self.base, Forecaster):
            source = self.base.batched(self.batch_)
            self._base = source.started(n, self.events_, self.horizon, self._rng)
        self._solver = WarmMinimax(n, self.inner, int(self.max_evaluations))
        self._mixture: ForecastLottery | None = None
        self._guarded = False
        self._pending_batch: tuple[FloatArray, list[Any], float, int] | None = None
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

    def _active_rows(self, batch: list[Any], points: FloatArray) -> list[Sequence[int]]:
        """The events of every row of a batch, each in its own context."""
        found: list[Sequence[int]] = []
        for self._context, point in zip(batch, points):
            found.append(tuple(self._active(point)))
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
            first = self._proposal(context)
            self._guarded = False
            if first is not None and self.guard_ is not None:
                self._guarded = self.guard_.accepts([self._active(first)], first[None, :])
            if self._guarded and first is not None:
                self._mixture = ForecastLottery(first[None, :], np.ones(1), 0.0, 1)
            else:
                self._mixture = self._minimax(first, self.tolerance_)
        return self._mixture

    def _minimax(self, first: FloatArray | None, tolerance: float) -> ForecastLottery:
        """The random forecast that no outcome can exploit; near the base where there is one."""
        return self._solver.solve(self.gain, first, tolerance, near=self.base is not None)

    def _proposal(self, context: Any) -> FloatArray | None:
        """What the base would forecast."""
        if self._base is not None:
            return self._base.predict_one(context)
        if self.base is None or isinstance(self.base, Forecaster):
            return None
        return np.asarray(check_forecasts(self.base(context), int(self.n_outcomes or 1))[0])

    def distribution(self, context: Any = None) -> tuple[FloatArray, FloatArray]:
        """Return the points and weights from which the coming forecast is drawn."""
        mixture = self.mixture(context)
        return mixture.points.copy(), mixture.weights.copy()

    def predict_one(self, context: Any = None) -> FloatArray:
        """Return the forecast of the coming round; repeated calls return the same one."""
        if self._pending() is None:
            mixture = self.mixture(context)
            self._drawn = mixture.drawn(self._rng.random()).copy()
        assert self._drawn is not None
        return self._drawn.copy()

    def _pending(self) -> FloatArray | None:
        self._prepare()
        return self._drawn

    def learn_one(self, y: int) -> Self:
        """Learn the outcome of the round; draws a forecast first if none was asked for."""
        self._prepare()
        outcome = check_int(y, "outcome", low=0, high=int(self.n_outcomes or 1) - 1)
        point = self.predict_one(self._context)
        mixture = self.mixture()
        residual = point.copy()
        residual[outcome] -= 1.0
        self._book([(self._active(point), residual, 1)], mixture.gap)
        self.outcomes_ += 1
        self.evaluations_.append(mixture.evaluations)
        self._solver.remember(point, mixture)
        if self._base is not None:
            self._base.learn_one(outcome)
        self._drawn, self._mixture, self._context = None, None, None
        return self

    def _book(self, moves: Moves, gap: float) -> None:
        """Close a round: the potential moves, and the base or the minimax step answers for it."""
        tolerance, before = self.tolerance_, self.potential_.value() if self._guarded else 0.0
        for events, residual, count in moves:
            self.potential_.update(events, residual, count)
        if self.potential_.overflow:
            self._warn_overflow()
        if self._guarded and self.guard_ is not None:
            self.guard_.settle(self.potential_.value() - before)
        else:
            self.gaps_.append(gap)
            self.worst_gap_ = max(self.worst_gap_, gap / tolerance)
            self.budget_ += max(gap, tolerance)
        self.rounds_ += 1

    def predict_batch(self, contexts: Sequence[Any]) -> FloatArray:
        """Return forecasts for outcomes that become known together, one row per context."""
        batch = check_batch(contexts)
        self._prepare(len(batch))
        if len(batch) > self.batch_:
            raise InvalidInputError(
                f"a batch of {len(batch)} after batches of at most {self.batch_}: set batch="
                f"{len(batch)} before the first forecast"
            )
        if self._pending_batch is not None:
            return self._pending_batch[0].copy()
        if len(batch) == 1:
            made = self.predict_one(batch[0])[None, :]
            self._pending_batch = (made, batch, 0.0, 0)
            return made.copy()
        wanted = [self._proposal(context) for context in batch]
        self._guarded, gap, evaluations = False, 0.0, 1
        if self.guard_ is not None:
            points = np.stack([w for w in wanted if w is not None])
            self._guarded = self.guard_.accepts(self._active_rows(batch, points), points)
        if not self._guarded:
            points, gap, evaluations = self._batch_minimax(batch, wanted)
        self._pending_batch = (points, batch, gap, evaluations)
        return points.copy()

    def _batch_minimax(
        self, batch: list[Any], wanted: list[FloatArray | None]
    ) -> tuple[FloatArray, float, int]:
        """One lottery per context against the same weights; one for all where contexts are not
        used. The residuals add up, so the gaps do, too."""
        share, drawn, gap, evaluations = self.tolerance_ / len(batch), [], 0.0, 0
        lottery: ForecastLottery | None = None
        for self._context, first in zip(batch, wanted):
            if lottery is None or not self.events_.context_free:
                lottery = self._minimax(first, share)
                evaluations += lottery.evaluations
            gap += lottery.gap
            drawn.append(lottery.drawn(self._rng.random()))
        assert lottery is not None
        self._solver.remember(drawn[-1], lottery)
        return np.stack(drawn), gap, evaluations

    def learn_batch(self, outcomes: ArrayLike) -> Self:
        """Learn the outcomes of the last batch: one round, residuals summed per event."""
        pending = getattr(self, "_pending_batch", None)
        y = batch_outcomes(outcomes, None if pending is None else pending[1], self.n_outcomes)
        assert pending is not None
        points, batch, gap, evaluations = pending
        self._pending_batch = None
        if len(batch) == 1:
            return self.learn_one(int(y[0]))
        active = self._active_rows(batch, points)
        self._book(summed_residuals(active, points, y.tolist()), gap)
        self.outcomes_ += len(batch)
        self.evaluations_.append(evaluations)
        if self._base is not None:
            self._base.predict_batch(batch)
            self._base.learn_batch(y)
        self._context = None
        return self

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
        self._prepare()
        check_open_fraction(delta, "delta")
        if self.rounds_ == 0:
            raise ProtocolError("there is nothing to report yet: call predict_one and learn_one")
        return bias_frame(self.potential_, self.events_, self.budget_, self.outcomes_, delta)

    def certificate(self, delta: float = 0.05) -> ForecastCertificate:
        """Return the potential, the gaps and the largest bias relative to its bound."""
        self._prepare()
        check_open_fraction(delta, "delta")
        guard = self.guard_
        return ForecastCertificate(
            rounds=self.rounds_,
            events=int((self.potential_.n[: self.potential_.size] > 0).sum()),
            start=self.potential_.start,
            potential=self.potential_.value(),
            gap_total=float(np.sum(self.gaps_)),
            budget=self.budget_,
            worst_gap=self.worst_gap_,
            worst_ratio=largest_ratio(self.potential_, self.budget_, delta),
            evaluations=float(np.mean(self.evaluations_)) if self.evaluations_ else 0.0,
            delta=delta,
            account=0.0 if guard is None else guard.account / self.potential_.start,
            allowed=0.0 if guard is None else float(self.budget),
            kept=0.0 if guard is None else guard.kept / max(self.rounds_, 1),
        )
