"""Champion and challengers when a case can be judged only if it was accepted, but then by all.

Credit is the example: of a loan that was granted one learns how it went, and so what every model's
decision would have cost; of one that was refused nobody learns anything. Accepting some of the
refused cases at random keeps the probability of learning above a floor.
Source: docs/theory/26-people.md, Theorem 26.7.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from counterplay.core.records import Fraction, Nonnegative, Record, read_record, write_record
from counterplay.core.seeds import RandomState
from counterplay.core.validation import check_real
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.budget import HarmBudget
from counterplay.tradeoff.live_champion import Late, LiveChampion, Model, one_loss, resumed
from counterplay.tradeoff.live_guard import GuardSettings, Missing

WHAT = "the stored SelectiveChampion"
Chance = Annotated[float, Meta(gt=0.0, le=1.0)]
Losses = Annotated[tuple[Fraction, ...], Meta(max_length=10_000)]


class SavedSelective(Record, frozen=True):
    """Settings, seed and events, as of the live guard; an outcome has the losses of all models."""

    kind: Literal["SelectiveChampion"]
    version: Literal[1]
    n_models: Annotated[int, Meta(ge=1, le=10_000)]
    horizon: Annotated[int, Meta(ge=1, le=10_000_000)]
    rate: Fraction
    burst: Nonnegative
    acceptance: Chance
    champion: Model | None
    safe: Model | None
    purse: Nonnegative | None
    max_delay: Late
    seed: Annotated[int, Meta(ge=0, le=2**62)]
    decisions: Late
    outcomes: tuple[tuple[Late, Late, Chance | None, Losses, Losses], ...]
    """Decisions made before it arrived, id, probability (null: not accepted), losses, harms."""


class SelectiveChampion(LiveChampion):
    """What ``ChampionChallenger(feedback="selective")`` builds; see there.

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
        ``"selective"``.
    acceptance:
        Least probability with which a round is accepted, so that everybody can be judged.
    champion:
        The model that is live now; it gets half of the prior.
    safe:
        The model, or human process, that takes over when the purse is empty.
    purse:
        Harm above the rate, over all models, at which ``safe`` takes over.
    max_delay:
        Largest number of rounds after which an outcome arrives.
    random_state:
        Seed of the draws.

    Notes
    -----
    Without delays the expected regret to every model is at most
    ``bounds.selective_regret(horizon, n_models, acceptance, B)`` with epochs of B rounds; the
    harm bounds of the live guard hold for accepted rounds.

    Examples
    --------
    >>> from counterplay.tradeoff import ChampionChallenger
    >>> live = ChampionChallenger(n_models=2, horizon=100, budget=HarmBudget(0.1, 5.0),
    ...                           feedback="selective", acceptance=0.5, random_state=0)
    >>> decision = live.act()
    >>> live.observe(decision.id, primary=[0.2, 0.4], secondary=[0.0, 0.1], probability=0.8)
    >>> live.observe(live.act().id, missing=True)  # refused: nobody can be judged
    >>> live.report().judged
    1
    """

    def __init__(
        self,
        models: Any = None,
        budget: HarmBudget | None = None,
        *,
        n_models: int | None = None,
        horizon: int,
        feedback: str = "selective",
        acceptance: float,
        champion: int | None = None,
        safe: int | None = None,
        purse: float | None = None,
        max_delay: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.acceptance = check_real(acceptance, "acceptance", low=0.0, high=1.0, open_low=True)
        super().__init__(
            models, budget, n_models=n_models, horizon=horizon, champion=champion, safe=safe,
            purse=purse, max_delay=max_delay, random_state=random_state,
        )  # fmt: skip
        self.feedback = "selective"

    def observe(  # type: ignore[override]  # losses of all models
        self,
        number: int,
        *,
        primary: ArrayLike | None = None,
        secondary: ArrayLike | None = None,
        probability: float | None = None,
        missing: bool = False,
    ) -> None:
        """Report what became of a decision: late, in any order, once.

        Parameters
        ----------
        number:
            ``id`` of the decision.
        primary:
            Primary loss of every model in an accepted round, in [0, 1].
        secondary:
            Harm of every model, in [0, 1].
        probability:
            Probability with which the round was accepted, given the past and the live model.
        missing:
            Whether the round was not accepted, so that nobody can be judged.
        """
        guard, number = self._guard, self._opened(number)
        if missing:
            guard.forget(number)
            self._judged.append((guard.rounds, number, None, (), ()))
            return
        losses = self._all(primary, "primary", number)
        harms = self._all(secondary, "secondary", number)
        chance = check_real(probability, "probability", low=self.acceptance, high=1.0)
        limit, live = guard.delay, guard.open[number][0]
        late = guard.judge(number, np.array(losses), harms[live], chance)
        self._judged.append((guard.rounds, number, chance, losses, harms))
        self._note(number, harms[live], late, limit)

    def to_json(self) -> str:
        """Return settings and events; ``ChampionChallenger.from_json`` replays them."""
        return write_record(
            SavedSelective(
                kind="SelectiveChampion", version=1, n_models=self.n_models, horizon=self.horizon,
                rate=self.budget.rate, burst=self.budget.burst, acceptance=self.acceptance,
                champion=self.champion, safe=self.safe, purse=self.purse,
                max_delay=self.max_delay, seed=self._seed, decisions=self._guard.rounds,
                outcomes=tuple(self._judged),
            )
        )  # fmt: skip

    @classmethod
    def from_json(cls, text: str, models: Any = None, **unused: Any) -> SelectiveChampion:
        """Continue a stored guard: its decisions and outcomes are replayed."""
        saved = read_record(text, SavedSelective, what=WHAT)

        def replay() -> SelectiveChampion:
            guard = cls(
                models, HarmBudget(saved.rate, saved.burst), n_models=saved.n_models,
                horizon=saved.horizon, acceptance=saved.acceptance, champion=saved.champion,
                safe=saved.safe, purse=saved.purse, max_delay=saved.max_delay, random_state=0,
            )  # fmt: skip
            guard._seed = saved.seed
            guard._open_guard()
            for before, number, chance, primary, secondary in saved.outcomes:
                guard._act_until(before, number, saved.decisions)
                guard.observe(
                    number, primary=primary, secondary=secondary, probability=chance,
                    missing=chance is None,
                )  # fmt: skip
            guard._act_until(saved.decisions, 0, saved.decisions)
            return guard

        return resumed(replay, WHAT)

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments by name, without the models."""
        params = super().get_params()
        for name in ("missing", "policy", "copies"):
            del params[name]
        return {**params, "acceptance": self.acceptance}

    def _open_guard(self) -> None:
        super()._open_guard()
        self._judged: list[
            tuple[int, int, float | None, tuple[float, ...], tuple[float, ...]]
        ] = []  # fmt: skip

    def _guard_settings(self) -> GuardSettings:
        missing: Missing = "ignore"
        return GuardSettings(
            self.n_models, self.horizon, self.budget.rate, self.budget.burst, self.champion,
            self.safe, self.purse, self.max_delay, missing, False, False, self.acceptance,
        )  # fmt: skip

    def _all(self, values: Any, name: str, number: int) -> tuple[float, ...]:
        found = np.asarray(values, dtype=object)
        if found.shape != (self.n_models,):
            raise InvalidInputError(
                f"{name} of decision {number} must be one loss for each of {self.n_models} models"
            )
        return tuple(one_loss(value, name, number) for value in found.tolist())
