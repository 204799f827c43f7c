"""Champion and challengers: which model is live, with a metric to win and a harm budget to keep.

Feed the losses of all models round by round; the champion changes rarely, a model whose harm runs
over its budget is taken down at once, and gets another chance at the next review. The state is a
few numbers per model and fits into a JSON text.
Source: Algorithm 9.2 and Theorem 9.8 with maximal coupling; docs/theory/09-tradeoff.md,
"Proposition 9.M: harm on every path".
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.online.state import Stateful, pack
from counterplay.core.online.stored import fresh_twin, same_kinds, same_params
from counterplay.core.records import read_json, refusal
from counterplay.core.seeds import RandomState
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_positive_int,
)
from counterplay.errors import AssumptionWarning, InvalidInputError, ProtocolError
from counterplay.tables import FittedModel
from counterplay.tables.cells import shown
from counterplay.tradeoff import bounds
from counterplay.tradeoff.adanormalhedge import AdaNormalHedge
from counterplay.tradeoff.adapters import (
    BatchLoss,
    batch_guesses,
    batch_harm,
    batch_table,
    check_models,
    compares_labels,
    error_rate,
    missed_positives,
)
from counterplay.tradeoff.budget import HarmBudget
from counterplay.tradeoff.champion_report import ChampionReport, Trace
from counterplay.tradeoff.champion_state import WHAT, check_history, checked_content, digest_of
from counterplay.tradeoff.learner import Losses
from counterplay.tradeoff.model import as_losses
from counterplay.tradeoff.oracle import CusumOracle, Deactivation
from counterplay.tradeoff.reactivation import ReactivationLearner

Policy = Literal["guaranteed", "adaptive"]


@checked
class ChampionChallenger(Stateful):
    """Decide round by round which of several models is live.

    Use it when one metric decides (error, cost) while a harm metric has a running budget and every
    change of the live model is a nuisance. By default all models can be judged in hindsight. With
    ``feedback="live"`` only the live model's outcomes are seen, late and not always: ``act`` says
    who is live and ``observe(id, primary=..., secondary=...)`` reports what came of it; that guard
    takes ``champion``, ``safe``, ``purse``, ``max_delay``, ``missing`` and ``copies`` as well, see
    :class:`counterplay.tradeoff.lab.LiveChampion`. With ``feedback="selective"`` everybody can be
    judged in the rounds whose case was accepted, nobody in the others, see
    :class:`counterplay.tradeoff.lab.SelectiveChampion`.

    Parameters
    ----------
    models:
        Fitted models with a ``predict`` method, for ``predict`` and ``observe``; or streaming
        models such as river's, for ``predict_one`` and ``observe_one``. Leave it out to feed
        losses to ``step`` yourself.
    budget:
        How much harm is tolerated: ``HarmBudget(rate, burst)``.
    n_models:
        Number of models, when ``models`` is left out.
    horizon:
        Number of rounds to come.
    policy:
        ``"guaranteed"``: ``ReactivationLearner``, with a proven bound on switches in advance.
        ``"adaptive"``: ``AdaNormalHedge``, which finds the best model several times faster on
        real streams, with a few more switches and no bound on them in advance.
    review_every:
        Every so many rounds all models that were taken down get another chance (rounded up to a
        multiple of the decision interval); by default a quarter of the horizon.
    primary:
        Loss of a batch of predictions, for ``observe``; see ``replay_losses``.
    secondary:
        Harm of a batch of predictions, likewise.
    positive:
        The label that must not be missed, for the default secondary loss ``missed_positives``;
        labels other than 0 and 1 (False and True) need it.
    feedback:
        ``"full"`` (all models can be judged), ``"live"`` (only the live one) or ``"selective"``
        (all of them, where the case was accepted).
    random_state:
        None, an int or a ``numpy.random.Generator``.

    Notes
    -----
    For losses that do not react to the choice: for every model, the expected primary loss exceeds
    that of the model, summed over the rounds in which it was allowed, by at most
    ``bounds.reactivation_sleeping`` (or ``bounds.adanormalhedge_sleeping``). On every path, the
    harm above the rate is at most ``burst (switches + reviews + 1) + (1 - rate) (take-downs +
    reviews)``, as long as some model is allowed; from the first round in which all models are
    above the burst, the report says that nothing is guaranteed. Memory: O(K) numbers (with
    ``"guaranteed"`` one row of K per distinct history of take-downs), whatever the horizon.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> live = ChampionChallenger(
    ...     n_models=3, budget=HarmBudget(0.1, 10.0), horizon=2000, random_state=0)
    >>> for _ in range(2000):
    ...     _ = live.step(primary=rng.random(3) * [0.6, 0.5, 0.4], secondary=[0.05, 0.1, 0.13])
    >>> report = live.report()
    >>> report.switches, report.harm_excess <= report.harm_bound
    (5, True)

    References
    ----------
    A. Blum, H. Shao, Online learning with primary and secondary losses, NeurIPS 2020.
    """

    _state: ClassVar[tuple[str, ...]] = (
        "_learner", "_switches", "_primary", "_harm", "_played", "_sleep", "_level", "_worst",
        "_trace",
    )  # fmt: skip
    _learner: ReactivationLearner | AdaNormalHedge
    _live: int  # the champion of the coming round
    _switches: list[tuple[int, int]]  # round and new champion, the first one included
    _primary: FloatArray  # cumulative primary loss of every model
    _harm: FloatArray  # cumulative harm of every model
    _played: FloatArray  # cumulative primary loss and harm of the champions
    _sleep: FloatArray  # regret to every model while it was allowed
    _level: FloatArray  # CUSUM of every model, never reset
    _worst: FloatArray  # its maximum so far: the burst that would have been enough
    _live_rounds: IntArray
    _downs: int  # rounds in which somebody was taken down
    _trace: Trace

    def __new__(cls, *args: Any, feedback: str = "full", **kwargs: Any) -> Self:
        """Return a guard of the kind that the feedback needs."""
        if cls is ChampionChallenger and feedback in ("live", "selective"):
            from counterplay.tradeoff.live_champion import LiveChampion
            from counterplay.tradeoff.selective_champion import SelectiveChampion

            kind = LiveChampion if feedback == "live" else SelectiveChampion
            return object.__new__(kind)  # type: ignore[return-value]  # a subclass
        return object.__new__(cls)

    def __init__(
        self,
        models: Sequence[Any] | None = None,
        budget: HarmBudget | None = None,
        *,
        n_models: int | None = None,
        horizon: int,
        policy: Policy = "guaranteed",
        review_every: int | None = None,
        primary: BatchLoss = error_rate,
        secondary: BatchLoss = missed_positives,
        positive: Any = None,
        feedback: Literal["full", "live", "selective"] = "full",
        random_state: RandomState = None,
    ) -> None:
        check_choice(feedback, "feedback", ("full", "live", "selective"))
        self.models = None if models is None else tuple(models)
        if not isinstance(budget, HarmBudget):
            raise InvalidInputError(f"pass budget=HarmBudget(rate, burst), got {budget!r:.100}")
        self.budget = budget
        self.n_models = _one_count(self.models, n_models)
        self.horizon = check_positive_int(horizon, "horizon")
        check_scale(self.n_models, self.horizon, budget)
        self.policy: Policy = check_choice(policy, "policy", ("guaranteed", "adaptive"))
        self.review_every = review_every
        self.primary, self.secondary, self.positive = primary, secondary, positive
        batch_harm(secondary, positive, self.models or ())  # refuses a label nobody knows
        self.random_state = random_state
        self._begin()

    def get_params(self) -> dict[str, Any]:
        """Return what a stored state needs: everything but the models and the loss functions."""
        return {
            "n_models": self.n_models,
            "horizon": self.horizon,
            "budget": self.budget,
            "policy": self.policy,
            "review_every": self.review_every,
            "positive": self.positive,
            "random_state": self.random_state,
        }

    def _stored_params(self) -> dict[str, Any]:
        params = self.get_params()
        del params["budget"]
        return {**params, "harm_rate": self.budget.rate, "burst": self.budget.burst}

    @classmethod
    def _revive(cls, params: dict[str, Any]) -> Self:
        budget = HarmBudget(params.pop("harm_rate"), params.pop("burst"))
        return cls(budget=budget, **params)

    def _new_learner(self, random_state: RandomState) -> ReactivationLearner | AdaNormalHedge:
        """The learner and its watchdog before the first round; all of it follows from us."""
        K, T = self.n_models, self.horizon
        longest = max(1, T // bounds.reactivation_epochs(K))
        B = min(longest, max(1, round(self.budget.burst)))
        review = self.review_every
        review = -(-T // 4) if review is None else check_positive_int(review, "review_every")
        watchdog = CusumOracle(
            self.budget.rate,
            self.budget.burst,
            resets=-(-review // B) * B,
            granularity="round",
            on_empty="least_bad",
        )
        if self.policy == "adaptive":
            return AdaNormalHedge(T, K, B=B, oracle=watchdog, random_state=random_state)
        return ReactivationLearner(
            T, K, B=B, oracle=watchdog, sampling="coupling", random_state=random_state
        )

    def _begin(self) -> None:
        K = self.n_models
        self._learner = self._new_learner(self.random_state)
        self._live = self._learner.act()
        self._switches = [(0, self._live)]
        self._primary, self._harm = np.zeros(K), np.zeros(K)
        self._played, self._sleep = np.zeros(2), np.zeros(K)
        self._level, self._worst = np.zeros(K), np.zeros(K)
        self._live_rounds = np.zeros(K, dtype=np.int64)
        self._downs = 0
        self._trace = Trace()

    def _check_state(self) -> None:
        fresh = fresh_twin(self)
        same_params(self, "_learner", self._learner, fresh._learner)
        same_kinds(self, fresh, skip=("_learner",))
        check_history(self)

    @property
    def current(self) -> int:
        """The model that is live in the coming round."""
        return self._live

    @property
    def rounds(self) -> int:
        """Rounds seen so far."""
        return self._learner.rounds

    @property
    def allowed(self) -> tuple[int, ...]:
        """Models that may be live in the coming round."""
        return tuple(int(h) for h in np.flatnonzero(self._learner.active))

    def step(self, primary: ArrayLike, secondary: ArrayLike) -> int:
        """Report the losses of all models in this round; return who is live in the next one.

        Parameters
        ----------
        primary:
            Vector of length ``n_models`` with values in [0, 1].
        secondary:
            Likewise, for the harm; two series are matched by their labels.
        """
        secondary = _same_order(primary, secondary)
        if self.rounds >= self.horizon:
            raise ProtocolError(
                f"the horizon of {self.horizon} rounds is over; build a new ChampionChallenger"
            )
        live, active = self._live, self._learner.active
        events = len(self._watchdog.events)
        first, second = as_losses(primary, "primary"), as_losses(secondary, "secondary")
        self._learner.observe(Losses(first, second))  # checks the losses before anything changes
        self._primary += first
        self._harm += second
        self._played += (first[live], second[live])
        self._sleep += active * (first[live] - first)
        np.maximum(self._level, 0.0, out=self._level)
        self._level += second - self.budget.rate
        np.maximum(self._worst, self._level, out=self._worst)
        self._live_rounds[live] += 1
        self._downs += len(self._watchdog.events) > events
        if self.rounds < self.horizon:
            self._live = self._learner.act()
            if self._live != live:
                self._switches.append((self.rounds, self._live))
        self._trace.add(
            self.rounds,
            (*self._played, float(self._primary.min()), self._bound()),
            last=self.rounds == self.horizon,
        )
        return self._live

    def predict(self, X: Any) -> Any:
        """Return the predictions of the live model; columns of a frame are matched by name."""
        models = [FittedModel.of(model) for model in self._require_models()]
        live = models[self.current]
        return live.predict(live.table(batch_table(models, X), extra="drop"))

    def observe(self, X: Any, y: Any) -> int:
        """Judge all models on one batch with known labels; return who is live in the next round.

        Parameters
        ----------
        X:
            The rows, in any container the models were fitted on; columns of a frame are matched by
            name.
        y:
            One label per row, in any coding; for measurements give both losses yourself.
        """
        models = check_models(self._require_models(), "predict")
        labels = compares_labels(self.primary, self.secondary)
        return self._judge(y, batch_guesses(models, X, y, labels=labels))

    def predict_one(self, x: Any) -> Any:
        """Return the live model's prediction for one example, for models such as river's."""
        return self._require_models()[self.current].predict_one(x)

    def observe_one(self, x: Any, y: Any) -> int:
        """Judge all models on one example, then let each of them learn from it.

        For streaming models with ``predict_one`` and ``learn_one``; a model that cannot predict
        yet (None) counts as wrong. Labels of another kind than ``positive`` are refused; whether
        a label that never comes is misspelt, a stream cannot tell.
        """
        if self.positive is not None and isinstance(self.positive, str) != isinstance(y, str):
            raise InvalidInputError(
                f"positive={shown(self.positive, 40)} can never be missed: "
                f"{shown(y, 40)} is a label of another kind"
            )
        models = check_models(self._require_models(), "predict_one")
        check_models(models, "learn_one")
        live = self._judge(y, [model.predict_one(x) for model in models])
        for model in models:
            model.learn_one(x, y)
        return live

    def _judge(self, y: Any, guesses: Sequence[Any]) -> int:
        harm = batch_harm(self.secondary, self.positive)
        return self.step(
            [float(self.primary(y, guess)) for guess in guesses],
            [float(harm(y, guess)) for guess in guesses],
        )

    def report(self) -> ChampionReport:
        """Return everything a person wants to know so far."""
        watchdog = self._watchdog
        return ChampionReport(
            rounds=self.rounds,
            horizon=self.horizon,
            current=self._live,
            harm_rate=self.budget.rate,
            burst=self.budget.burst,
            decision_every=self._learner.grid.B,
            switch_log=tuple(self._switches),
            deactivations=tuple(Deactivation(*event) for event in watchdog.events),
            reviews=self._reviews(),
            played=(float(self._played[0]), float(self._played[1])),
            primary=self._primary.copy(),
            harm=self._harm.copy(),
            sleeping=self._sleep.copy(),
            needed_burst=self._worst.copy(),
            live_rounds=self._live_rounds.copy(),
            allowed=self._learner.active.copy(),
            nobody_left=watchdog._warned,
            harm_bound=self._bound(),
            regret_bound=(
                None if watchdog._warned else self._learner.guarantees()["sleeping regret"]
            ),
            trace=self._trace.to_array(),
            positive=self.positive,
        )

    def to_json(self) -> str:
        """Return parameters and running state as JSON text; ``from_json`` restores them."""
        stored = pack(self)
        return json.dumps({**stored, "digest": digest_of(stored)}, allow_nan=False)

    @classmethod
    def from_json(
        cls,
        text: str,
        models: Sequence[Any] | None = None,
        *,
        budget: HarmBudget | None = None,
        primary: BatchLoss = error_rate,
        secondary: BatchLoss = missed_positives,
    ) -> Self:
        """Continue from a stored state; pass the models (and loss functions) again if needed.

        With ``budget`` a state that was stored with another one is refused. The text holds sums of
        losses, switches and take-downs; every part is checked for its kind, its range and whether
        it fits the others, and the text against its digest. Who is live, who may be, and the bound
        follow from them. That finds damage (``InvalidStateError``); it is no protection against
        somebody who writes a consistent history.
        """
        parsed = read_json(text, what=WHAT)
        if isinstance(parsed, dict) and parsed.get("kind") in ("LiveChampion", "SelectiveChampion"):
            from counterplay.tradeoff.live_champion import LiveChampion
            from counterplay.tradeoff.selective_champion import SelectiveChampion

            kind = LiveChampion if parsed["kind"] == "LiveChampion" else SelectiveChampion
            return kind.from_json(text, models)  # type: ignore[return-value]  # a subclass
        restored = cls._restored(checked_content(parsed), WHAT)
        if not isinstance(restored, cls):
            raise refusal(WHAT, "", f"the text holds a {type(restored).__name__}")
        if budget is not None and budget != restored.budget:
            told = f"it was stored with the budget {restored.budget}, not {budget}"
            raise refusal(WHAT, "", told)
        if models is not None:
            restored.n_models = _one_count(tuple(models), restored.n_models)
            restored.models = tuple(models)
        if secondary is not missed_positives:
            restored.positive = None  # only the default loss needs it
        batch_harm(secondary, restored.positive, restored.models or ())
        restored.primary, restored.secondary = primary, secondary
        return restored

    @property
    def _watchdog(self) -> CusumOracle:
        watchdog = self._learner._watchdog
        assert watchdog is not None  # built with an oracle
        return watchdog

    def _reviews(self) -> int:
        resets = self._watchdog._resets
        return int(np.count_nonzero(resets <= min(self.rounds, self.horizon - 1))) - 1

    def _bound(self) -> float:
        """What the harm above the rate cannot exceed, given what happened so far.

        Once every model was above the burst and one of them had to stay live, nothing bounds it.
        """
        if self._watchdog._warned:
            return math.inf
        switches = len(self._switches) - 1
        return bounds.stint_secondary(
            self.budget.burst, self.budget.rate, switches, self._reviews(), self._downs
        )

    def _require_models(self) -> tuple[Any, ...]:
        if self.models is None:
            raise ProtocolError("there are no models; pass them to the constructor or from_json")
        return self.models


def check_scale(n_models: int, horizon: int, budget: HarmBudget) -> None:
    """Refuse a horizon in which models cannot be compared; warn of a burst below one round."""
    least = max(2 * n_models, bounds.reactivation_epochs(n_models))
    if horizon < least:
        raise InvalidInputError(
            f"horizon {horizon} is too short for {n_models} models: no learner can compare them; "
            f"use at least {least}"
        )
    if budget.burst < 1 - budget.rate:
        warnings.warn(
            f"a burst of {budget.burst:.4g} is less than one bad round; models will be taken down "
            "at the first one",
            AssumptionWarning,
            stacklevel=4,
        )


def _one_count(models: tuple[Any, ...] | None, n_models: int | None) -> int:
    if models is None:
        if n_models is None:
            raise InvalidInputError("pass the models or n_models")
        return check_positive_int(n_models, "n_models")
    if n_models is not None and n_models != len(models):
        raise InvalidInputError(f"n_models is {n_models} but there are {len(models)} models")
    return check_positive_int(len(models), "the number of models")


def _same_order(primary: Any, secondary: Any) -> Any:
    """The harm in the order of the losses, where both say which entry is whose."""
    labels: Any = getattr(primary, "index", None)
    others: Any = getattr(secondary, "index", None)
    if not hasattr(labels, "equals") or not hasattr(others, "equals") or labels.equals(others):
        return secondary
    if not labels.is_unique or set(labels) != set(others) or len(labels) != len(others):
        raise InvalidInputError(
            f"primary and secondary are about different models: {list(labels)!s:.60} and "
            f"{list(others)!s:.60}"
        )
    return secondary.loc[labels]
