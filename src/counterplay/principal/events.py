"""Events: the questions on which a forecast must be unbiased.

An event is a 0/1 function of the forecast (and, if you like, of a context known before it). All
events come in families that partition the simplex, so a family is a function from forecasts to
ids, and exactly one event per family is active in every round.
Source: Definition 7.2, Theorems 7.2 and 7.5, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_fraction,
    check_int,
    check_positive_int,
    check_real,
    check_size,
    shorten,
)
from counterplay.errors import InvalidInputError
from counterplay.principal.bounds import net_events

MOST_PARTS = 10**9  # of the unit interval; their names stay distinct floats


def check_point(forecast: FloatArray, low: int = 1, high: int | None = None) -> FloatArray:
    """Return the forecast if it is one array of floats with ``low`` to ``high`` outcomes; cheap."""
    if not isinstance(forecast, np.ndarray) or forecast.dtype != np.float64 or forecast.ndim != 1:
        raise InvalidInputError(f"forecast must be one array of floats, got {shorten(forecast)}")
    if forecast.size < low or (high is not None and forecast.size > high):
        raise InvalidInputError(f"forecast must have {low} probabilities, got {forecast.size}")
    return forecast


class Events(ABC):
    """Everything a forecaster needs to know about its events.

    ``active`` must be a deterministic function of its arguments: the same floats, the same ids.
    """

    n_families: int
    n_events: int | None
    """How many events there can be; None when unknown, then only visited events are counted."""
    context_free: bool = False
    """Whether the ids depend on the forecast alone; such ids may be cached."""

    @abstractmethod
    def active(self, forecast: FloatArray, context: Any = None) -> Sequence[int]:
        """Return the ids of the active events, one per family, different between families."""

    @abstractmethod
    def family(self, event: int) -> str:
        """Return the name of the family an event belongs to."""

    def label(self, event: int) -> str:
        """Return a readable name of an event."""
        return f"{self.family(event)}={event}"


class EventFamily(ABC):
    """One partition of the forecasts into events. Subclass it, or pass any function."""

    name: str = "family"
    context_free: bool = True

    def n_events(self, n_outcomes: int) -> int | None:
        """Return the number of events, or None if it is not known in advance."""
        return None

    @abstractmethod
    def key(self, forecast: FloatArray, context: Any) -> Hashable:
        """Return which event of the family is active."""

    def describe(self, key: Hashable) -> str:
        """Return a readable name of an event of this family."""
        return str(key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Always(EventFamily):
    """The event that is always active: plain unbiasedness."""

    name = "always"

    def n_events(self, n_outcomes: int) -> int:
        """One event."""
        return 1

    def key(self, forecast: FloatArray, context: Any) -> int:
        """Return 0."""
        return 0

    def describe(self, key: Hashable) -> str:
        """Name the event."""
        return "every round"


class MostLikely(EventFamily):
    """Which outcome the forecast finds most likely: unbiased for everyone who bets on the mode."""

    name = "most likely"

    def n_events(self, n_outcomes: int) -> int:
        """One event per outcome."""
        return n_outcomes

    def key(self, forecast: FloatArray, context: Any) -> int:
        """Return the index of the largest probability, the lowest on ties."""
        return int(check_point(forecast).argmax())


@checked
class Decision(EventFamily):
    """Which action a decision maker with a payoff matrix takes when he trusts the forecast.

    Parameters
    ----------
    payoff:
        ``payoff[action, outcome]``.
    name:
        Name of the decision in reports.
    actions:
        Optional names of the actions.

    Examples
    --------
    >>> import numpy as np
    >>> umbrella = Decision([[0.0, -1.0], [-0.2, -0.2]], name="umbrella", actions=["no", "yes"])
    >>> umbrella.describe(umbrella.key(np.array([0.7, 0.3]), None))
    'yes'

    References
    ----------
    "Forecasts, events and bias", see docs/theory/07-principal.md.
    """

    def __init__(
        self, payoff: ArrayLike, name: str = "decision", actions: Sequence[str] | None = None
    ) -> None:
        self.payoff = check_float_array(payoff, "payoff", ndim=2)
        self.name = name
        if actions is not None and len(actions) != len(self.payoff):
            raise InvalidInputError(f"actions must have {len(self.payoff)} names")
        self.actions = None if actions is None else tuple(actions)

    def n_events(self, n_outcomes: int) -> int:
        """One event per action."""
        if self.payoff.shape[1] != n_outcomes:
            raise InvalidInputError(
                f"the payoff of decision {self.name!r} must have {n_outcomes} columns, "
                f"got {self.payoff.shape[1]}"
            )
        return int(self.payoff.shape[0])

    def key(self, forecast: FloatArray, context: Any) -> int:
        """Return the best action, the lowest on ties."""
        n = self.payoff.shape[1]
        worth = (self.payoff * check_point(forecast, n, n)).sum(axis=1)
        return int(np.argmax(worth >= worth.max() - 1e-12))

    def describe(self, key: Hashable) -> str:
        """Return the name of the action."""
        return self.actions[int(str(key))] if self.actions else str(key)


@checked
class Bins(EventFamily):
    """Calibration bins: in which of ``n_bins`` equal parts the probability of ``outcome`` lies."""

    def __init__(self, outcome: int, n_bins: int = 10) -> None:
        self.outcome = check_int(outcome, "outcome", low=0)
        self.n_bins = check_positive_int(n_bins, "n_bins")
        self.name = f"bin of outcome {self.outcome}"

    def n_events(self, n_outcomes: int) -> int:
        """One event per bin."""
        check_int(self.outcome, "outcome", low=0, high=n_outcomes - 1)
        return self.n_bins

    def key(self, forecast: FloatArray, context: Any) -> int:
        """Return the index of the bin; the last one is closed."""
        chance = check_fraction(check_point(forecast, self.outcome + 1)[self.outcome], "forecast")
        return min(int(chance * self.n_bins), self.n_bins - 1)

    def describe(self, key: Hashable) -> str:
        """Return the bin as an interval."""
        low = check_int(key, "key", low=0, high=self.n_bins - 1) / self.n_bins
        return f"[{low:.3g},{low + 1 / self.n_bins:.3g})"


@checked
class NetPoint(EventFamily):
    """Nearest point of an ``eta``-net of the simplex: full calibration, with all its events.

    There are ``C(1/eta + n - 1, n - 1)`` points, so this family is only for few outcomes.
    """

    def __init__(self, eta: float) -> None:
        step = check_real(eta, "eta", low=0.0, high=1.0, open_low=True)
        check_size(1 / step, MOST_PARTS, "parts of the net")
        self.parts = round(1 / step)
        if abs(self.parts * step - 1) > 1e-9:
            raise InvalidInputError(f"1/eta must be an integer, got eta = {step:g}")
        self.eta = 1 / self.parts
        self.name = f"net point (eta={self.eta:g})"

    def n_events(self, n_outcomes: int) -> int:
        """Return the number of points of the net."""
        return net_events(n_outcomes, self.eta)

    def key(self, forecast: FloatArray, context: Any) -> tuple[int, ...]:
        """Return the counts of the nearest net point (largest remainders are rounded up)."""
        if not abs(check_point(forecast).sum() - 1.0) <= 1e-6:
            raise InvalidInputError(f"forecast must sum to 1, got {forecast.sum():g}")
        scaled = forecast * self.parts
        counts = np.floor(scaled).astype(np.int64)
        missing = self.parts - int(counts.sum())
        if missing > 0:
            order = np.argsort(counts - scaled, kind="stable")
            counts[order[:missing]] += 1
        return tuple(counts.tolist())

    def describe(self, key: Hashable) -> str:
        """Return the net point."""
        assert isinstance(key, tuple)
        return "(" + ", ".join(f"{count * self.eta:.3g}" for count in key) + ")"


@checked
class Context(EventFamily):
    """The context itself: unbiased for every day of the week, every region, every regime.

    Parameters
    ----------
    n_contexts:
        Number of different contexts, if known.
    of:
        Optional function that extracts the part of the context that matters.
    name:
        Name in reports.
    """

    context_free = False

    def __init__(
        self,
        n_contexts: int | None = None,
        of: Callable[[Any], Hashable] | None = None,
        name: str = "context",
    ) -> None:
        self.n_contexts = (
            None if n_contexts is None else check_positive_int(n_contexts, "n_contexts")
        )
        self.of = of
        self.name = name

    def n_events(self, n_outcomes: int) -> int | None:
        """Return the number of contexts."""
        return self.n_contexts

    def key(self, forecast: FloatArray, context: Any) -> Hashable:
        """Return the context."""
        found: Hashable = context if self.of is None else self.of(context)
        return found


class FunctionFamily(EventFamily):
    """A family given by any function ``(forecast, context) -> hashable``."""

    context_free = False

    def __init__(self, function: Callable[[FloatArray, Any], Hashable], name: str) -> None:
        self.function = function
        self.name = name

    def key(self, forecast: FloatArray, context: Any) -> Hashable:
        """Return what the function returns."""
        return self.function(forecast, context)


@checked
class EventFamilies(Events):
    """Several families together.

    Parameters
    ----------
    families:
        :class:`EventFamily` objects or functions ``(forecast, context) -> hashable``.
    n_outcomes:
        Number of outcomes of the forecast.

    Examples
    --------
    >>> import numpy as np
    >>> events = EventFamilies([MostLikely(), Bins(0, 4)], n_outcomes=3)
    >>> [events.label(event) for event in events.active(np.array([0.2, 0.5, 0.3]))]
    ['most likely: 1', 'bin of outcome 0: [0,0.25)']
    """

    def __init__(
        self,
        families: Sequence[EventFamily | Callable[[FloatArray, Any], Hashable]],
        n_outcomes: int,
    ) -> None:
        self.families = tuple(
            f if isinstance(f, EventFamily) else FunctionFamily(f, getattr(f, "__name__", "events"))
            for f in families
        )
        if not self.families:
            raise InvalidInputError("events must contain at least one family")
        self.n_families = len(self.families)
        sizes = [family.n_events(n_outcomes) for family in self.families]
        known = [size for size in sizes if size is not None]
        self.n_events = sum(known) if len(known) == len(sizes) else None
        self.context_free = all(family.context_free for family in self.families)
        self._ids: dict[tuple[int, Hashable], int] = {}
        self._keys: list[tuple[int, Hashable]] = []

    def active(self, forecast: FloatArray, context: Any = None) -> list[int]:
        """Return one id per family; ids are given out in the order of first use."""
        found = []
        for index, family in enumerate(self.families):
            pair = (index, family.key(forecast, context))
            event = self._ids.get(pair)
            if event is None:
                event = self._ids[pair] = len(self._keys)
                self._keys.append(pair)
            found.append(event)
        return found

    def __repr__(self) -> str:
        return f"EventFamilies({list(self.families)!r})"

    def family(self, event: int) -> str:
        """Return the name of the family."""
        return self.families[self._keys[event][0]].name

    def label(self, event: int) -> str:
        """Return the family and the event."""
        index, key = self._keys[event]
        return f"{self.families[index].name}: {self.families[index].describe(key)}"
