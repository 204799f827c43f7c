"""Bias of several forecasters on the same outcome series and the same events.

Source: Definition 7.2, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, spawn
from counterplay.core.validation import FloatArray, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.principal.batches import batch_slices
from counterplay.principal.behaviour import conditional_bias
from counterplay.principal.events import Decision, EventFamilies, EventFamily, Events
from counterplay.principal.forecasts import Forecaster
from counterplay.principal.games import check_codes, check_contexts, check_forecasts, check_states

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked
@dataclass(frozen=True)
class BiasComparison(Report):
    """Bias of every forecaster on every event.

    ``frame`` has one row per forecaster and event: ``forecaster``, ``family``, ``event``, ``n``,
    ``alpha`` and ``scaled`` = alpha * rounds / sqrt(n), which stays bounded for an unbiased
    forecaster. ``log_loss`` and ``brier`` score the forecasts themselves; where events are
    decisions, ``decision_cost`` is what they lost per round against the best action in hindsight
    and ``swap_gain`` what the best change of every action would have gained: bias alone ranks
    wrongly.
    """

    frame: pd.DataFrame
    scores: pd.DataFrame
    rounds: int

    def to_frame(self) -> pd.DataFrame:
        """Return the rows."""
        return self.frame

    def totals(self) -> pd.DataFrame:
        """Return, per forecaster, the total bias of the worst family, the largest scaled bias,
        and the scores."""
        by_family = self.frame.groupby(["forecaster", "family"], sort=False)["alpha"].sum()
        worst = by_family.groupby("forecaster", sort=False).max()
        scaled = self.frame.groupby("forecaster", sort=False)["scaled"].max()
        table = self.scores.copy()
        table.insert(0, "largest_scaled_bias", scaled)
        table.insert(0, "worst_family_bias", worst)
        return table

    def summary(self) -> str:
        """Return the totals as text."""
        return f"{self.rounds} rounds\n{self.totals().to_string(float_format='%.4f')}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the bias of every event against how often it was active."""
        with figure_style():
            axes = axes_or_new(ax)
            for i, (name, rows) in enumerate(self.frame.groupby("forecaster", sort=False)):
                colour = PALETTE[i % len(PALETTE)]
                total = rows["alpha"] * self.rounds
                axes.plot(rows["n"], np.maximum(total, 0.1), "o", color=colour, label=str(name))
            n = np.geomspace(1, self.rounds, 50)
            axes.plot(n, np.sqrt(n), "k--", label="$\\sqrt{n}$")
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel("rounds the event was active")
            axes.set_ylabel("summed bias (l1 norm)")
            axes.legend()
        return axes


@checked
def compare_forecasters(
    outcomes: ArrayLike,
    forecasters: Mapping[str, Forecaster | ArrayLike],
    events: Sequence[EventFamily],
    *,
    n_outcomes: int | None = None,
    contexts: Any = None,
    batches: Any = None,
    random_state: RandomState = 0,
) -> BiasComparison:
    """Run forecasters over one outcome series and report their bias on the same events.

    Parameters
    ----------
    outcomes:
        The series of outcome codes.
    forecasters:
        Name to :class:`Forecaster`, or to an array of forecasts made elsewhere (rounds x outcomes).
        Unbiased forecasters without events of their own get ``events``.
    events:
        Event families, for instance the decisions that use the forecasts.
    n_outcomes:
        Default the largest code plus one.
    contexts:
        Optional context of every round, for events and forecasters that use one; the rows of a
        frame are contexts.
    batches:
        Optional name of every row's batch (a week): rows of one batch are forecast together,
        before any of their outcomes is known. A series that is revealed place by place leaks.
    random_state:
        Seed of the forecasters.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.principal import Decision, UnbiasedForecaster, compare_forecasters
    >>> from counterplay.principal.lab import EmpiricalMeanForecaster
    >>> rain = (np.arange(600) // 100) % 2                       # long spells
    >>> umbrella = Decision([[0.0, -1.0], [-0.3, -0.3]], name="umbrella")
    >>> found = compare_forecasters(rain, {"unbiased": UnbiasedForecaster(),
    ...                             "average": EmpiricalMeanForecaster()}, [umbrella]).totals()
    >>> bool(found.loc["unbiased", "worst_family_bias"] < found.loc["average", "worst_family_bias"])
    True

    References
    ----------
    "Forecasts, events and bias", see docs/theory/07-principal.md.
    """
    import pandas as pd

    codes = check_codes(outcomes, "outcome")
    n = int(codes.max(initial=0)) + 1 if n_outcomes is None else n_outcomes
    y = check_states(codes, check_positive_int(n, "n_outcomes"))
    seen = check_contexts(contexts, y.size)
    rows, scores = [], {}
    for (name, source), rng in zip(forecasters.items(), spawn(random_state, len(forecasters))):
        made = _forecasts(source, y, n, events, seen, batches, rng)
        named = EventFamilies(events, n)
        ids = np.array(
            [named.active(made[t], None if seen is None else seen[t]) for t in range(y.size)]
        )
        rows += _rows(name, made, y, ids, named)
        hit = np.clip(made[np.arange(y.size), y], 1e-12, 1.0)
        squared = (made**2).sum(axis=1) - 2 * made[np.arange(y.size), y] + 1.0
        scores[name] = {"log_loss": float(-np.log(hit).mean()), "brier": float(squared.mean())}
        scores[name] |= _decision_scores(made, y, events)
    return BiasComparison(pd.DataFrame(rows), pd.DataFrame(scores).T, int(y.size))


def _forecasts(
    source: Any,
    y: Any,
    n: int,
    events: Sequence[EventFamily],
    contexts: Sequence[Any] | None,
    batches: Any,
    rng: np.random.Generator,
) -> FloatArray:
    if not isinstance(source, Forecaster):
        made = check_forecasts(source, n)
        if len(made) != y.size:
            raise InvalidInputError(f"give one forecast per outcome ({y.size}), got {len(made)}")
        return made
    own = getattr(source, "events", None)
    chosen: Any = EventFamilies(events if own is None else own, n)
    if isinstance(own, Events):
        chosen = own
    rounds = int(y.size)
    if batches is not None:
        runs = batch_slices(batches, y.size)
        rounds = len(runs)
        source = source.batched(max(run.stop - run.start for run in runs))
    fresh = source.started(n, chosen, rounds, rng)
    return np.asarray(fresh.forecast_sequence(y, contexts, batches=batches))


def _decision_scores(made: FloatArray, y: Any, events: Sequence[EventFamily]) -> dict[str, float]:
    """What the decisions cost, and what changing every action the best way would have gained.

    Cost is measured from the best action in hindsight of each round; several decisions add up.
    """
    decisions = [event for event in events if isinstance(event, Decision)]
    if not decisions:
        return {}
    cost = gain = 0.0
    for decision in decisions:
        taken = np.array([decision.key(point, None) for point in made])
        payoff = decision.payoff[:, y]
        earned = payoff[taken, np.arange(y.size)]
        cost += float((payoff.max(axis=0) - earned).mean())
        for action in np.unique(taken):
            own = taken == action
            gain += float((payoff[:, own].sum(axis=1).max() - earned[own].sum()) / y.size)
    return {"decision_cost": cost, "swap_gain": gain}


def _rows(
    name: str, made: FloatArray, y: Any, ids: Any, named: EventFamilies
) -> list[dict[str, Any]]:
    rows = []
    for column in ids.T:
        found, alpha = conditional_bias(made, y, column)
        counts = np.bincount(column, minlength=int(found.max()) + 1)[found]
        for event, count, bias in zip(found.tolist(), counts.tolist(), alpha.tolist()):
            rows.append(
                {
                    "forecaster": name,
                    "family": named.family(event),
                    "event": named.label(event),
                    "n": count,
                    "alpha": bias,
                    "scaled": bias * y.size / np.sqrt(count),
                }
            )
    return rows
