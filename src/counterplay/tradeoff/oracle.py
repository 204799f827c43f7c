"""The watchdog: switches an expert off as soon as its secondary loss exceeds the burst budget.

It keeps one CUSUM per expert. The first kind never switches anybody on again; the second kind gives
everybody a fresh start at fixed reset times.
Source: sections "The first oracle" and "The second oracle" of the chapter;
docs/theory/09-tradeoff.md, "CUSUM and the watchdog".
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.online.state import Stateful
from counterplay.core.online.stored import inside, require, same_kinds
from counterplay.core.report import Report
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_fraction,
    check_positive_int,
    check_real,
    check_size,
    shorten,
)
from counterplay.errors import AssumptionWarning, InvalidInputError, ProtocolError
from counterplay.tradeoff.model import (
    MOST_EXPERTS,
    as_losses,
    check_loss_matrix,
    empty_message,
    limit_of,
)

if TYPE_CHECKING:
    import pandas as pd

Granularity = Literal["round", "epoch"]
Resets = Sequence[int] | int | Literal["weekly", "monthly", "quarterly", "yearly"] | None
PERIODS = {"weekly": 7, "monthly": 30, "quarterly": 91, "yearly": 365}
"""Named reset periods, for streams with one round per day."""
_MOST_RESETS = 10_000_000


@checked
@dataclass(frozen=True)
class Deactivation:
    """One expert switched off: when it was detected, and the interval that gave the reason.

    Examples
    --------
    >>> print(Deactivation(round=812, expert=3, start=790, excess=20.4, off_from=813))
    round 812: expert 3 switched off, 20.4 above the rate since round 790
    """

    round: int
    """Round in which the excess was seen."""
    expert: int
    start: int
    """First round of the interval with the largest excess that ends in ``round``."""
    excess: float
    off_from: int
    """First round in which the expert cannot be played: the next round, or the next epoch."""

    def __str__(self) -> str:
        return (
            f"round {self.round}: expert {self.expert} switched off, "
            f"{self.excess:.4g} above the rate since round {self.start}"
        )


@checked(arrays=True)
@dataclass(frozen=True)
class OracleRun(Report):
    """What the watchdog did on a complete sequence.

    Examples
    --------
    >>> import numpy as np
    >>> l2 = np.zeros((20, 2))
    >>> l2[5:10, 0] = 1.0
    >>> run = CusumOracle(c=0.5, threshold=2.0).judge(l2)
    >>> print(run.summary())
    1 deactivations, 0 resets; active rounds per expert: 10, 20
    round 9: expert 0 switched off, 2.5 above the rate since round 5
    """

    active: BoolArray = field(repr=False)
    """Which experts were active in every round, shape ``(T, K)``."""
    events: tuple[Deactivation, ...]
    resets: tuple[int, ...]
    """Rounds at which everybody was switched on, the first one included."""

    @property
    def deactivating_rounds(self) -> int:
        """Number of rounds (or epochs) at whose end at least one expert was switched off."""
        return len({event.off_from for event in self.events})

    def summary(self) -> str:
        """Return the number of active rounds per expert and the reason of every deactivation."""
        rounds = ", ".join(str(n) for n in self.active.sum(axis=0))
        head = (
            f"{len(self.events)} deactivations, {len(self.resets) - 1} resets; "
            f"active rounds per expert: {rounds}"
        )
        return "\n".join([head, *map(str, self.events)])

    def to_frame(self) -> pd.DataFrame:
        """Return one row per deactivation."""
        import pandas as pd

        columns = ["round", "expert", "start", "excess", "off_from"]
        return pd.DataFrame([astuple(event) for event in self.events], columns=columns)


@checked
class CusumOracle(Stateful):
    """Watchdog that switches off experts whose secondary loss exceeds the burst budget.

    Use it inside ``DeactivationLearner`` (no resets) or ``ReactivationLearner`` (with resets),
    alone on recorded losses with ``judge``, or in a stream with ``start`` and ``observe``.

    Parameters
    ----------
    c:
        Tolerated secondary loss per round.
    threshold:
        Burst budget: an expert is switched off when some interval that ends now (and began after
        the last reset) exceeds the rate ``c`` by strictly more. ``burst_threshold`` computes the
        ``delta * T**alpha`` of the theory.
    resets:
        Rounds at which everybody is switched on again: a list that starts with 0; a period in
        rounds; or ``"weekly"``, ``"monthly"``, ``"quarterly"``, ``"yearly"`` (7, 30, 91, 365
        rounds, for one round per day). None: never.
    granularity:
        ``"round"``: off from the next round on. ``"epoch"``: off from the next epoch on. None: the
        learner that uses the oracle decides.
    on_empty:
        When the last expert would be switched off: ``"error"``, or ``"least_bad"`` to keep the
        one with the smallest excess and warn (outside the theory).

    Examples
    --------
    >>> import numpy as np
    >>> l2 = np.full((1000, 3), 0.1)
    >>> l2[:, 2] = 0.15
    >>> run = CusumOracle(c=0.1, threshold=10.0).judge(l2)
    >>> run.active.sum(axis=0).tolist()
    [1000, 1000, 201]

    References
    ----------
    E. Page, Continuous inspection schemes, 1954.
    """

    _state: ClassVar[tuple[str, ...]] = (
        "K", "horizon", "B", "round", "active", "events",
        "_level", "_since", "_caught", "_excess", "_resets", "_by_epoch", "_warned",
    )  # fmt: skip

    K: int = 0
    horizon: int = 0
    B: int = 1
    round: int = 0
    """The coming round; all updates before it have been seen."""
    active: BoolArray
    """Who may be played in the coming round."""
    events: list[tuple[int, int, int, float, int]]
    """Deactivations so far, with the fields of ``Deactivation``."""
    _level: FloatArray  # CUSUM of every expert
    _since: IntArray  # first round of the interval behind it
    _caught: IntArray  # round and start of a violation that waits to take effect; -1: none
    _excess: FloatArray  # and its excess
    _resets: IntArray
    _by_epoch: bool
    _warned: bool

    def __init__(
        self,
        c: float,
        threshold: float,
        *,
        resets: Resets = None,
        granularity: Granularity | None = None,
        on_empty: Literal["error", "least_bad"] = "error",
    ) -> None:
        self.c = check_fraction(c, "c")
        self.threshold = check_real(threshold, "threshold", low=0.0)
        check_choice(granularity, "granularity", ("round", "epoch", None))
        self.resets = resets
        self.granularity = granularity
        self.on_empty = check_choice(on_empty, "on_empty", ("error", "least_bad"))
        reset_rounds(resets, 1)

    def start(
        self, K: int, horizon: int, *, B: int = 1, granularity: Granularity = "round"
    ) -> Self:
        """Begin a stream of ``horizon`` rounds with ``K`` experts, all of them active.

        Parameters
        ----------
        K:
            Number of experts.
        horizon:
            Number of rounds.
        B:
            Epoch length; reset times are rounded up to the next epoch start, with a warning.
        granularity:
            Used when the oracle was built without one.
        """
        self.K, self.horizon = check_positive_int(K, "K"), check_positive_int(horizon, "horizon")
        check_size(self.K, MOST_EXPERTS, "experts")
        self.B = check_positive_int(B, "B")
        self._resets = aligned_resets(reset_rounds(self.resets, self.horizon), self.horizon, self.B)
        self._by_epoch = (self.granularity or granularity) == "epoch"
        self.round, self.events, self._warned = 0, [], False
        self.active = np.ones(self.K, dtype=bool)
        self._level, self._since = np.zeros(self.K), np.zeros(self.K, dtype=np.int64)
        self._caught, self._excess = np.full((self.K, 2), -1), np.zeros(self.K)
        return self

    def _check_state(self) -> None:
        if type(self.K) is int and self.K == 0:
            unused = (self.horizon, self.B, self.round) == (0, 1, 0)
            require(unused, self, "round", "must be 0 before the start")
            return
        active = getattr(self, "active", None)
        fits = isinstance(active, np.ndarray) and active.shape == (self.K,)
        fits = fits and type(self.K) is int
        require(fits, self, "K", "must be the number of experts")
        for name in ("horizon", "B"):
            value = getattr(self, name)
            require(type(value) is int and value > 0, self, name, "must be a positive integer")
        require(type(self._by_epoch) is bool, self, "_by_epoch", "must be true or false")
        if self.granularity is not None:
            expected = self.granularity == "epoch"
            require(self._by_epoch == expected, self, "_by_epoch", "differs from the granularity")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)  # told when the oracle started
            fresh = self.clone().start(self.K, self.horizon, B=self.B)
        same_kinds(self, fresh, skip=("_by_epoch",))
        require(np.array_equal(self._resets, fresh._resets), self, "_resets", "must be the resets")
        require(0 <= self.round <= self.horizon, self, "round", f"must be in [0, {self.horizon}]")
        self._check_levels()
        self._check_events()

    def _check_levels(self) -> None:
        tol, last = 1e-9 * (1 + self.round), max(0, self.round - 1)
        inside(self, "_since", self._since, 0, last, 0.0)
        inside(self, "_caught", self._caught, -1, last if self._by_epoch or self._warned else -1, 0)
        inside(self, "_excess", self._excess, 0.0, self.round, tol)
        inside(self, "_level", self._level, -self.c, (1 - self.c) * self.round, tol)
        longest = (1 - self.c) * np.where(self._level > 0, self.round - self._since, self.round)
        inside(self, "_since", self._level, -np.inf, longest, tol)
        calm = self.active & (self._caught[:, 0] < 0)
        if not self._warned:  # who is above the limit is caught or off
            limit = limit_of(self.threshold)
            inside(self, "_level", self._level[calm], -self.c, limit, tol)

    def _check_events(self) -> None:
        """Events are ordered and above the threshold; who is off follows from them."""
        latest, taken = 0, set()
        for event in self.events:
            kinds = (int, int, int, float, int)
            typed = type(event) is tuple and tuple(map(type, event)) == kinds
            require(typed, self, "events", "must be tuples of three integers, a number, an integer")
            seen, expert, since, excess, off_from = event
            fits = 0 <= since <= seen < off_from <= self.round and 0 <= expert < self.K
            fits = fits and latest <= off_from and (self._by_epoch or off_from == seen + 1)
            fits = fits and limit_of(self.threshold) < excess <= seen - since + 1
            require(fits, self, "events", f"cannot have {event!r:.100}")
            latest, life = off_from, (expert, int(np.searchsorted(self._resets, off_from)))
            require(life not in taken, self, "events", f"take expert {expert} down twice")
            taken.add(life)
        same = np.array_equal(self._active_in(self.round), self.active)
        require(same, self, "active", "must follow from the events")

    def _active_in(self, t: int) -> BoolArray:
        """Who could be played in a past round: everybody not taken down since the last reset."""
        start = self._resets[self._resets <= t][-1]
        active = np.ones(self.K, dtype=bool)
        active[[event[1] for event in self.events if start < event[4] <= t]] = False
        return active

    def _rounds_off(self) -> IntArray:
        """For how many of the rounds so far each expert was off."""
        off = np.zeros(self.K, dtype=np.int64)
        ends = np.append(self._resets, self.round)
        for event in self.events:
            end = min(self.round, int(ends[np.searchsorted(self._resets, event[4])]))
            off[event[1]] += end - event[4]
        return off

    @property
    def level(self) -> FloatArray:
        """Current CUSUM of every expert: the largest excess of an interval that ends now."""
        return self._level

    def observe(self, l2: ArrayLike) -> BoolArray:
        """Take in the secondary losses of one round; return who has just been switched off.

        After the call ``active`` says who may be played in the next round.
        """
        if self.K == 0:
            raise ProtocolError("call start(K, horizon) before observe")
        if self.round >= self.horizon:
            raise ProtocolError(f"all {self.horizon} rounds are over; call start for a new stream")
        loss = as_losses(l2, "secondary")
        if loss.shape != (self.K,):
            raise InvalidInputError(f"l2 must have shape ({self.K},), got {loss.shape}")
        check_loss_matrix(loss[None, :], "secondary")
        off = np.zeros(self.K, dtype=bool)
        parts = (self._level, self._since, self._caught, self._excess, self.active)
        before = [part.copy() for part in parts]
        emptied = _observe(
            loss, self.c, limit_of(self.threshold), self.round, self._acts_after(self.round),
            *parts, off,
        )  # fmt: skip
        if emptied and self.on_empty == "error":  # leave everything as it was
            for part, old in zip(parts, before):
                part[...] = old
        self._handle_empty(self.round if emptied else -1)
        self.round += 1
        for h in np.flatnonzero(off):
            seen, start = self._caught[h]
            self.events.append((int(seen), int(h), int(start), float(self._excess[h]), self.round))
        self._caught[off] = -1
        if self.is_reset(self.round):
            _switch_on(self._level, self._caught, self.active)
        return off

    def is_reset(self, t: int) -> bool:
        """Whether everybody is switched on before round ``t`` (round 0 counts)."""
        i = int(np.searchsorted(self._resets, t))
        return i < self._resets.size and int(self._resets[i]) == t

    def segments(self, horizon: int, B: int = 1) -> int:
        """Return how many stretches the resets cut ``horizon`` rounds into."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)  # told when the oracle starts
            return int(aligned_resets(reset_rounds(self.resets, horizon), horizon, B).size)

    def judge(self, l2: ArrayLike, *, B: int = 1, granularity: Granularity = "round") -> OracleRun:
        """Return what the watchdog does on recorded losses; leaves a running stream alone.

        Parameters
        ----------
        l2:
            Secondary losses, shape ``(T, K)``.
        B:
            As in ``start``.
        granularity:
            As in ``start``.
        """
        losses = check_loss_matrix(l2, "secondary")
        T, K = losses.shape
        other = self.clone().start(K, T, B=B, granularity=granularity)
        active = np.empty((T, K), dtype=bool)
        rows, emptied = _judge(losses, self.c, limit_of(self.threshold), other._schedule(), active)
        other._handle_empty(emptied)
        events = tuple(Deactivation(*row) for row in rows)
        return OracleRun(active, events, tuple(int(t) for t in other._resets))

    def _acts_after(self, t: int) -> int:
        """What follows round ``t``: the end 3, a reset 2, violations take effect 1, or wait 0."""
        if t + 1 >= self.horizon:
            return 3
        if self.is_reset(t + 1):
            return 2
        return 0 if self._by_epoch and (t + 1) % self.B else 1

    def _schedule(self) -> IntArray:
        """``_acts_after`` for all rounds."""
        after = np.arange(1, self.horizon + 1)
        acts = np.ones(self.horizon, dtype=np.int64)
        if self._by_epoch:
            acts[after % self.B != 0] = 0
        acts[self._resets[1:] - 1] = 2
        acts[-1] = 3
        return acts

    def _handle_empty(self, emptied: int) -> None:
        if emptied < 0:
            return
        if self.on_empty == "error":
            raise InvalidInputError(empty_message(emptied + 1))
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"round {emptied + 1}: every expert exceeds the budget; the least bad one stays "
                f"on, without any guarantee",
                AssumptionWarning,
                stacklevel=3,
            )


def reset_rounds(resets: Resets, horizon: int) -> IntArray:
    """Return the rounds of the resets before ``horizon``; the first is 0."""
    if resets is None:
        return np.zeros(1, dtype=np.int64)
    if isinstance(resets, str):
        check_choice(resets, "resets", tuple(PERIODS))
        resets = PERIODS[resets]
    if isinstance(resets, int | np.integer) and not isinstance(resets, bool):
        period = check_positive_int(resets, "resets")
        if horizon // period > _MOST_RESETS:
            raise InvalidInputError(
                f"a reset every {period} of {shorten(horizon)} rounds makes more than "
                f"{_MOST_RESETS} resets; use a longer period"
            )
        return np.arange(0, horizon, period)
    times = np.asarray(resets)
    if times.ndim != 1 or times.size == 0 or not np.issubdtype(times.dtype, np.integer):
        raise InvalidInputError(f"resets must be a list of rounds or a period, got {resets!r}")
    if times[0] != 0:
        raise InvalidInputError(f"resets must start with round 0, got {int(times[0])}")
    if (np.diff(times) <= 0).any():
        raise InvalidInputError(f"resets must be strictly increasing, got {times.tolist()[:20]}")
    return times[times < horizon].astype(np.int64)


def aligned_resets(times: IntArray, horizon: int, B: int) -> IntArray:
    """Round reset times up to the next epoch start; warns when one moves."""
    rounded = -(-times // B) * B
    if not np.array_equal(rounded, times):
        moved = times[rounded != times]
        warnings.warn(
            f"{moved.size} reset times are not multiples of the epoch length {B} and were rounded "
            f"up, for example {moved[0]} to {-(-moved[0] // B) * B}",
            AssumptionWarning,
            stacklevel=4,
        )
    unique: IntArray = np.unique(rounded[rounded < horizon])
    return unique


@njit(cache=True)
def _observe(
    loss: FloatArray,
    c: float,
    limit: float,
    t: int,
    acts: int,
    level: FloatArray,
    since: IntArray,
    caught: IntArray,
    excess: FloatArray,
    active: BoolArray,
    off: BoolArray,
) -> bool:
    """One round of the watchdog; True when nobody would have been left."""
    # CUSUM: an interval that is not above the rate so far is never worth extending
    for h in range(loss.size):
        if level[h] <= 0.0:
            level[h] = 0.0
            since[h] = t
        level[h] += loss[h] - c
        if active[h] and caught[h, 0] < 0 and level[h] > limit:
            caught[h, 0], caught[h, 1], excess[h] = t, since[h], level[h]
    if acts == 0 or acts == 2:  # inside an epoch, or forgiven by the reset that follows
        return False
    # who is left without a violation, and the least bad of the others
    left, best = 0, -1
    for h in range(loss.size):
        if active[h] and caught[h, 0] < 0:
            left += 1
        elif active[h] and (best < 0 or level[h] < level[best]):
            best = h
    # violations take effect; the least bad one stays if nobody else would be left
    for h in range(loss.size):
        if caught[h, 0] >= 0:
            if left > 0 or h != best or acts == 3:  # after the end nobody needs to be left
                active[h] = False
                off[h] = True
            else:
                caught[h, 0] = -1
    return left == 0 and acts != 3


@njit(cache=True)
def _switch_on(level: FloatArray, caught: IntArray, active: BoolArray) -> None:
    level[:] = 0.0
    caught[:] = -1
    active[:] = True


@njit(cache=True)
def _judge(
    losses: FloatArray, c: float, limit: float, acts: IntArray, active: BoolArray
) -> tuple[list[tuple[int, int, int, float, int]], int]:
    T, K = losses.shape
    level, since = np.zeros(K), np.zeros(K, dtype=np.int64)
    caught, excess = np.full((K, 2), -1), np.zeros(K)
    on, off = np.ones(K, dtype=np.bool_), np.zeros(K, dtype=np.bool_)
    emptied = -1
    events = [(0, 0, 0, 0.0, 0)]  # one row tells the compiler the type of the list
    events.clear()
    for t in range(T):
        # who may be played is known before the losses of the round
        active[t] = on
        off[:] = False
        none_left = _observe(losses[t], c, limit, t, acts[t], level, since, caught, excess, on, off)
        if none_left and emptied < 0:
            emptied = t
        # who was switched off, with the interval that gave the reason
        for h in range(K):
            if off[h]:
                events.append((caught[h, 0], h, caught[h, 1], excess[h], t + 1))
                caught[h] = -1
        if acts[t] == 2:  # a reset gives everybody a fresh start
            _switch_on(level, caught, on)
    return events, emptied
