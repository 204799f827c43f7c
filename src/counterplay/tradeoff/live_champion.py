"""Champion and challengers when only the live model's outcomes are seen, late, and not always.

Source: docs/theory/26-people.md, "The live guard"; Theorems 26.4 to 26.6.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self, TypeVar

import numpy as np
from msgspec import Meta

from counterplay.core.records import (
    Fraction,
    Nonnegative,
    Record,
    read_record,
    refusal,
    write_record,
)
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import check_choice, check_int, check_positive_int, check_real
from counterplay.errors import AssumptionWarning, InvalidInputError, ProtocolError
from counterplay.tradeoff import bounds
from counterplay.tradeoff.budget import HarmBudget
from counterplay.tradeoff.champion import ChampionChallenger, Policy, check_scale
from counterplay.tradeoff.evidence import Alarm
from counterplay.tradeoff.live_guard import GuardSettings, LiveGuard, Missing
from counterplay.tradeoff.live_report import Decision, LiveReport

WHAT = "the stored LiveChampion"
Model = Annotated[int, Meta(ge=0, lt=10_000)]
G = TypeVar("G")
Copies = Literal["single", "guaranteed"]
Late = Annotated[int, Meta(ge=0, le=10_000_000)]


class SavedGuard(Record, frozen=True):
    """Settings, seed and events: a decision is an empty list, an outcome names its decision."""

    kind: Literal["LiveChampion"]
    version: Literal[1]
    n_models: Annotated[int, Meta(ge=1, le=10_000)]
    horizon: Annotated[int, Meta(ge=1, le=10_000_000)]
    rate: Fraction
    burst: Nonnegative
    champion: Model | None
    safe: Model | None
    purse: Nonnegative | None
    max_delay: Late
    missing: Literal["ignore", "worst"]
    policy: Literal["guaranteed", "adaptive"]
    copies: Literal["single", "guaranteed"]
    seed: Annotated[int, Meta(ge=0, le=2**62)]
    decisions: Late
    outcomes: tuple[tuple[Late, Late, Fraction | None, Fraction | None], ...]
    """Decisions made before it arrived, id, primary loss and harm (both null: missing)."""
    removed: tuple[tuple[Late, Late, Model], ...]
    """Decisions and outcomes before somebody took a model down, and the model."""


class LiveChampion(ChampionChallenger):
    """What ``ChampionChallenger(feedback="live")`` builds; see there.

    Parameters
    ----------
    models:
        Unused names for the models, one per model, or None.
    budget:
        How much harm is tolerated.
    n_models:
        Number of models, when ``models`` is left out.
    horizon:
        Number of rounds to come.
    feedback:
        ``"live"``.
    champion:
        The model that is live now; it gets half of the prior.
    safe:
        The model, or human process, that takes over when the purse is empty.
    purse:
        Harm above the rate, over all models, at which ``safe`` takes over.
    max_delay:
        Largest number of rounds after which an outcome arrives.
    missing:
        ``"ignore"``: missing outcomes move no fuse and are reported. ``"worst"``: they count as
        harm 1, which takes everybody down when many are missing.
    policy:
        ``"guaranteed"``: fixed learning rate. ``"adaptive"``: faster at the start.
    copies:
        With delays: ``"single"``, one learner, which is better in practice and has no bound on the
        regret; or ``"guaranteed"``, several that take turns, each of which has heard of its last
        epoch before it draws again.
    random_state:
        Seed of the draws.

    Examples
    --------
    >>> live = ChampionChallenger(n_models=2, horizon=100, budget=HarmBudget(0.1, 5.0),
    ...                           feedback="live", max_delay=3, random_state=0)
    >>> decision = live.act()
    >>> live.observe(decision.id, primary=0.2, secondary=0.0)
    >>> live.report().judged
    1
    """

    _bound_at: tuple[tuple[int | None, ...], float]
    """What the harm bound rests on, and the bound."""

    def __init__(
        self,
        models: Any = None,
        budget: HarmBudget | None = None,
        *,
        n_models: int | None = None,
        horizon: int,
        feedback: str = "live",
        champion: int | None = None,
        safe: int | None = None,
        purse: float | None = None,
        max_delay: int = 0,
        missing: Missing = "ignore",
        policy: Policy = "guaranteed",
        copies: Copies = "single",
        random_state: RandomState = None,
    ) -> None:
        if not isinstance(budget, HarmBudget):
            raise InvalidInputError(f"pass budget=HarmBudget(rate, burst), got {budget!r:.100}")
        if n_models is None:
            if models is None:
                raise InvalidInputError("pass the models or n_models")
            n_models = len(models)
        K, T = check_positive_int(n_models, "n_models"), check_positive_int(horizon, "horizon")
        check_scale(K, T, budget)
        if purse is not None and safe is None:
            raise InvalidInputError(
                "purse needs safe=: the model (or human process) that takes over"
            )
        for name, model in (("champion", champion), ("safe", safe)):
            if model is not None:
                check_int(model, name, low=0, high=K - 1)
        self.budget, self.n_models, self.horizon = budget, K, T
        self.champion, self.safe, self.purse = champion, safe, purse
        self.max_delay = check_int(max_delay, "max_delay", low=0)
        self.missing: Missing = check_choice(missing, "missing", ("ignore", "worst"))
        self.policy = check_choice(policy, "policy", ("guaranteed", "adaptive"))
        if purse is not None:
            check_real(purse, "purse", low=0.0)
        self.copies: Copies = check_choice(copies, "copies", ("single", "guaranteed"))
        self.feedback, self.models, self.random_state = "live", models, random_state
        self._seed = int(generator(random_state).integers(2**62))
        self._open_guard()

    def act(self) -> Decision:
        """Return who is live in the coming round."""
        if self._guard.rounds >= self.horizon:
            raise ProtocolError(
                f"the horizon of {self.horizon} rounds is over; build a new ChampionChallenger"
            )
        return Decision.made(*self._guard.act())

    def observe(  # type: ignore[override]  # outcomes of decisions instead of batches
        self,
        number: int,
        *,
        primary: float | None = None,
        secondary: float | None = None,
        missing: bool = False,
    ) -> None:
        """Report the outcome of a decision: late, in any order, once.

        Parameters
        ----------
        number:
            ``id`` of the decision.
        primary:
            Primary loss of the model that was live, in [0, 1].
        secondary:
            Its harm, in [0, 1].
        missing:
            Whether the outcome will never come.
        """
        guard, number = self._guard, self._opened(number)
        if missing:
            guard.forget(number)
            self._outcomes.append((guard.rounds, number, None, None))
            return
        loss, harm = one_loss(primary, "primary", number), one_loss(secondary, "secondary", number)
        limit = guard.delay
        late = guard.observe(number, loss, harm)
        self._outcomes.append((guard.rounds, number, loss, harm))
        self._note(number, harm, late, limit)

    def take_down(self, model: int, reason: str = "") -> None:
        """Take a model out by hand, for good; what it did until then still counts.

        Parameters
        ----------
        model:
            Its number; the safe model cannot be taken down.
        reason:
            Why, for the list of alarms.
        """
        check_int(model, "model", low=0, high=self.n_models - 1)
        guard = self._guard
        if model == self.safe:
            raise InvalidInputError("the safe model takes over: it cannot be taken down")
        if model in guard.removed:
            raise ProtocolError(f"model {model} was taken down already")
        if not isinstance(reason, str | None):
            raise InvalidInputError(f"reason must be text, got {reason!r:.100}")
        why = f": {reason[:500]}" if reason else ""
        self._removed.append((guard.rounds, len(self._outcomes), model))
        guard.remove(model, f"model {model} was taken down by hand{why}")

    def _opened(self, number: Any) -> int:
        """Return the number of a decision that waits for its outcome."""
        if type(number) is int and number in self._guard.open:
            return number
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise InvalidInputError(f"there is no decision {number!r:.60}")
        if not 0 <= number < self._guard.rounds:
            raise InvalidInputError(f"there is no decision {int(number)}")
        if number not in self._guard.open:
            raise ProtocolError(f"decision {number} already has an outcome")
        return int(number)

    def _note(self, number: int, harm: float, late: int, limit: int) -> None:
        """Keep the curve of the report; an outcome that is later than stated is told."""
        guard = self._guard
        self._excess += harm - self.budget.rate
        rests_on: tuple[int | None, ...] = guard.returns, guard.delay, guard.void_since
        if rests_on != self._bound_at[0]:
            self._bound_at = rests_on, self._harm_bound()
        self._trace.append((guard.rounds, self._excess, self._bound_at[1]))
        if late > limit:
            warnings.warn(
                f"decision {number} came {late} rounds late, max_delay is {limit}: the harm bound "
                f"now uses {late}",
                AssumptionWarning,
                stacklevel=3,
            )

    @property
    def rounds(self) -> int:
        """Decisions made so far."""
        return self._guard.rounds

    @property
    def current(self) -> int:
        """The model of the last decision, or the champion."""
        switches = self._guard.switches
        return switches[-1][1] if switches else (self.champion or 0)

    @property
    def allowed(self) -> tuple[int, ...]:
        """Models that may be drawn."""
        return tuple(int(h) for h in np.flatnonzero(self._guard.allowed()))

    def alarms(self) -> list[Alarm]:
        """Return take-downs, changes and exceeded rates so far."""
        return list(self._guard.alarms)

    def report(self) -> LiveReport:  # type: ignore[override]  # other columns
        """Return everything a person wants to know so far."""
        guard = self._guard
        e_change, e_rate = guard.evidence.values()
        return LiveReport(
            rounds=guard.rounds,
            horizon=self.horizon,
            harm_rate=self.budget.rate,
            burst=self.budget.burst,
            played=(sum(guard.primary), sum(guard.harm)),
            judged=sum(guard.judged),
            open_outcomes=len(guard.open),
            missing=guard.missing,
            max_delay=guard.delay,
            live_rounds=np.array(guard.live_rounds),
            allowed=guard.allowed() > 0,
            model_harm=np.array(guard.harm),
            model_primary=np.array(guard.primary),
            model_judged=np.array(guard.judged),
            switch_log=tuple(guard.switches),
            alarms=tuple(guard.alarms),
            returns=guard.returns,
            harm_bound=self._harm_bound(),
            purse_bound=(
                None
                if self.purse is None
                else bounds.purse_harm(
                    self.purse, self.budget.rate, self.max_delay, seen=guard.delay
                )
            ),
            regret_bound=self._regret_bound(),
            void_since=guard.void_since,
            safe_share=guard.safe_rounds / max(1, guard.rounds),
            e_change=e_change,
            e_rate=e_rate,
            lowest_mean=np.array([guard.evidence.lowest_mean(j) for j in range(self.n_models)]),
            trace=np.array(self._trace, dtype=np.float64).reshape(-1, 3),
        )

    def to_json(self) -> str:
        """Return settings and events; ``ChampionChallenger.from_json`` replays them."""
        return write_record(
            SavedGuard(
                kind="LiveChampion",
                version=1,
                n_models=self.n_models,
                horizon=self.horizon,
                rate=self.budget.rate,
                burst=self.budget.burst,
                champion=self.champion,
                safe=self.safe,
                purse=self.purse,
                max_delay=self.max_delay,
                missing=self.missing,
                policy=self.policy,
                copies=self.copies,
                seed=self._seed,
                decisions=self._guard.rounds,
                outcomes=tuple(self._outcomes),
                removed=tuple(self._removed),
            )
        )

    @classmethod
    def from_json(cls, text: str, models: Any = None, **unused: Any) -> Self:
        """Continue a stored guard: its decisions and outcomes are replayed."""
        saved = read_record(text, SavedGuard, what=WHAT)

        def replay() -> LiveChampion:
            guard = cls(
                models, HarmBudget(saved.rate, saved.burst), n_models=saved.n_models,
                horizon=saved.horizon, champion=saved.champion, safe=saved.safe,
                purse=saved.purse, max_delay=saved.max_delay, missing=saved.missing,
                policy=saved.policy, copies=saved.copies, random_state=0,
            )  # fmt: skip
            guard._seed = saved.seed
            guard._open_guard()
            guard._replay(saved)
            return guard

        return resumed(replay, WHAT)  # type: ignore[return-value]  # of this class

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments by name, without the models."""
        names = (
            "budget", "n_models", "horizon", "feedback", "champion", "safe", "purse", "max_delay",
            "missing", "policy", "copies", "random_state",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def _replay(self, saved: SavedGuard) -> None:
        hands = list(saved.removed)
        for place, (before, number, primary, secondary) in enumerate(saved.outcomes):
            while hands and hands[0][1] <= place:
                self._remove_again(hands.pop(0), saved.decisions)
            self._act_until(before, number, saved.decisions)
            if (primary is None) != (secondary is None):
                raise InvalidInputError(f"decision {number} has one loss only")
            self.observe(number, primary=primary, secondary=secondary, missing=primary is None)
        for hand in hands:
            self._remove_again(hand, saved.decisions)
        self._act_until(saved.decisions, 0, saved.decisions)

    def _remove_again(self, hand: tuple[int, int, int], decisions: int) -> None:
        before, outcomes, model = hand
        self._act_until(before, 0, decisions)
        if len(self._outcomes) != outcomes:
            raise InvalidInputError(f"model {model} was taken down at no time")
        self.take_down(model)

    def _act_until(self, before: int, number: int, decisions: int) -> None:
        """Make the decisions that a stored outcome came after."""
        if not self._guard.rounds <= before <= decisions:
            raise InvalidInputError(f"the outcome of decision {number} came at no time")
        while self._guard.rounds < before:
            self.act()

    def _open_guard(self) -> None:
        self._guard = LiveGuard(self._guard_settings(), self._seed)
        self._outcomes: list[tuple[int, int, float | None, float | None]] = []
        self._removed: list[tuple[int, int, int]] = []
        self._trace: list[tuple[int, float, float]] = []  # type: ignore[assignment]
        self._excess = 0.0
        self._bound_at = (), math.inf

    def _guard_settings(self) -> GuardSettings:
        return GuardSettings(
            self.n_models, self.horizon, self.budget.rate, self.budget.burst, self.champion,
            self.safe, self.purse, self.max_delay, self.missing, self.policy == "adaptive",
            self.copies == "guaranteed",
        )  # fmt: skip

    def _harm_bound(self) -> float:
        guard = self._guard
        if guard.void_since is not None:
            return math.inf
        return bounds.live_harm(
            self.n_models, guard.returns, self.budget.burst, self.budget.rate, guard.delay
        )

    def _regret_bound(self) -> float | None:
        """The realised right-hand side; one copy with delays has none, nor do later outcomes."""
        guard = self._guard
        promised = self.max_delay if self.copies == "guaranteed" else 0
        if guard.void_since is not None or guard.delay > promised or self.n_models < 2:
            return None
        return guard.settings.epoch * sum(copy.bound() for copy in guard.copies)


def resumed(replay: Callable[[], G], what: str) -> G:
    """Replay a stored guard; what it would not have taken is damage."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)
            return replay()
    except (InvalidInputError, ProtocolError) as error:
        raise refusal(what, "outcomes", str(error)) from None


def one_loss(value: Any, name: str, number: int) -> float:
    """Return a loss in [0, 1]."""
    if type(value) is float and 0.0 <= value <= 1.0:
        return value
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not real or not 0 <= value <= 1:  # NaN fails the comparison
        raise InvalidInputError(
            f"{name} of decision {number} is {value!r:.40}, must lie in [0, 1]; use Money(...) for "
            "amounts"
        )
    return float(value)
