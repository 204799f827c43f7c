"""One call for a consortium: who brings how much, what stability and fairness cost, who objects.

Picks the right solver for the game, checks every plan with the audits, and says in sentences what a
coordinator needs to know.
Source: "Planning for a consortium", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.contribution.audit import (
    Allocation,
    EnvyReport,
    draw_envy_graph,
    envy_report,
    party_bars,
    price_ratio,
    stability_report,
)
from counterplay.contribution.empirical import EmpiricalGame
from counterplay.contribution.equal import smallest_common_level
from counterplay.contribution.game import CollabGame
from counterplay.contribution.plan_solvers import Plans, solve_plans
from counterplay.core.arguments import checked
from counterplay.core.figures import axes_or_new, figure_style, panels
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState
from counterplay.core.validation import check_real
from counterplay.errors import ConvergenceError, UnknownNameError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

PLANS = ("optimal", "stable", "envy_free", "equal")


@checked
def plan_contributions(
    game: CollabGame,
    names: Sequence[str] | None = None,
    *,
    time_limit: float = 10.0,
    random_state: RandomState = 0,
) -> GameReport:
    """Plan who contributes how much: cheapest, stable, envy-free and equal plans side by side.

    Parameters
    ----------
    game:
        Any data-sharing game: :class:`LinearGame` from an overlap matrix,
        :class:`CoverageGame` from histograms, :class:`EmpiricalGame` from data and a model.
    names:
        Names of the parties, for tables, text and plots.
    time_limit:
        Seconds for each mixed-integer program, and for all fits of an :class:`EmpiricalGame`;
        after that the best plan found is used.
    random_state:
        Seed of restarts, where a solver needs them.

    Returns
    -------
    GameReport
        ``summary()``, ``to_frame()``, ``plot()``, ``what_if(...)``; fields ``optimal``, ``stable``,
        ``envy_free``, ``equal``, and the prices of stability, fairness and anarchy.

    Notes
    -----
    Linear games: the cheapest plan is exact; the stable plan is exact for symmetric positive
    semidefinite overlaps and up to 40 parties otherwise; the envy-free plan is searched exactly up
    to 60 parties within the time limit. Coverage games: lower bounds are proven, plans are best
    found unless marked proved; small ones are exact (see ``is_proved``). Fits of a measured game
    stop at the time limit; ``plan_consortium`` needs far fewer of them.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), *One for One, or All for All*, ICML.

    Examples
    --------
    >>> from counterplay.contribution import LinearGame
    >>> game = LinearGame([[1, 0.8, 0.8], [0.8, 1, 0.3], [0.8, 0.3, 1]], mu=1.0)
    >>> plan = plan_contributions(game, names=["hub", "east", "west"])
    >>> plan.to_frame().loc["hub", ["optimal", "stable"]].round(3).tolist()
    [1.25, 0.0]
    >>> round(plan.price_of_stability, 3)
    1.231
    """
    check_real(time_limit, "time_limit", low=0.0, open_low=True)
    named = game if names is None else game.with_names(names)
    if isinstance(named, EmpiricalGame):
        named = named.until(time_limit)
    return GameReport(**vars(solve_plans(named, time_limit, random_state)), game=named)


@checked
@dataclass(frozen=True)
class GameReport(Plans, Report):
    """Plans of a consortium side by side, with prices, bounds and remarks.

    ``stable``, ``envy_free`` and ``equal`` are None where no such plan exists or was found;
    ``flags`` then says why. ``bounds["optimal_lower"]`` is proven: no plan costs less; so is
    ``bounds["envy_free_lower"]`` for envy-free plans (linear games only). ``is_proved`` says which
    plans are known to be the cheapest of their kind; the others are the best that was found.
    """

    game: CollabGame

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parties, their numbers if they have none."""
        return self.game.names or tuple(str(i) for i in range(self.game.k))

    @property
    def price_of_stability(self) -> float:
        """Total of the stable plan over the cheapest total; NaN without a stable plan."""
        if self.stable is None:
            return float("nan")
        return price_ratio(self.stable.total, self.optimal.total)

    @property
    def price_of_fairness(self) -> float:
        """Total of the envy-free plan over the cheapest total; NaN without one."""
        if self.envy_free is None:
            return float("nan")
        return price_ratio(self.envy_free.total, self.optimal.total)

    @property
    def price_of_anarchy(self) -> float:
        """Highest total of a stable plan over the cheapest total.

        Of the stable plans that were found where ``is_proved("stable")`` is false: then the true
        price may be higher.
        """
        highest = self.bounds.get("stable_highest")
        if highest is None:
            return self.price_of_stability
        return price_ratio(highest, self.optimal.total)

    @property
    def plans(self) -> dict[str, Allocation]:
        """The plans that exist, by name."""
        found = {name: getattr(self, name) for name in PLANS}
        return {name: plan for name, plan in found.items() if plan is not None}

    def is_proved(self, plan: str) -> bool:
        """Return whether a plan is known to be the cheapest of its kind."""
        found = self._plan(plan)
        if plan == "optimal":
            return self.bounds["optimal_lower"] >= found.total - 1e-6
        return plan == "equal" or bool(found.certificate.get("proved", False))

    def envy(self, plan: str = "optimal") -> EnvyReport:
        """Return who envies whom in one of the plans."""
        return envy_report(self.game, self._plan(plan).theta)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per party: target, stand-alone level and contribution in every plan."""
        import pandas as pd

        columns: dict[str, Any] = {"target": self.game.mu}
        columns["alone"] = self._alone()
        for name in PLANS:
            plan = getattr(self, name)
            columns[name] = np.full(self.game.k, np.nan) if plan is None else plan.theta
        frame = pd.DataFrame(columns, index=pd.Index(self.names, name="party"))
        return frame.dropna(axis=1, how="all") if np.isnan(columns["alone"]).all() else frame

    def findings(self) -> list[str]:
        """Return what a coordinator should know, one sentence each."""
        try:
            return self._findings()
        except ConvergenceError as error:
            return [f"who would hold back was not measured: {error}"]

    def _findings(self) -> list[str]:
        sentences: list[str] = []
        report = stability_report(self.game, self.optimal.theta)
        share = self.optimal.theta / max(self.optimal.theta.sum(), 1e-300)
        for i in np.argsort(-report.gap):
            if report.gap[i] > 1e-6 and len(sentences) < 3:
                sentences.append(
                    f"{self.game.party(i)} carries {share[i]:.0%} of the cheapest plan but would "
                    f"stop at {report.best_response[i]:.4g} instead of {self.optimal.theta[i]:.4g}"
                )
        envious = self.envy("optimal").pairs
        for i, j in envious[:2]:
            sentences.append(
                f"in the cheapest plan {self.game.party(i)} envies {self.game.party(j)}"
            )
        if self.stable is not None:
            idle = [self.game.party(i) for i in np.flatnonzero(self.stable.theta <= 1e-9)]
            if idle:
                verb = "brings" if len(idle) == 1 else "bring"
                sentences.append(f"in the stable plan {', '.join(idle[:5])} {verb} nothing")
            jealous = self.envy("stable").pairs
            word = "nobody envies anybody" if not jealous else f"{len(jealous)} pairs envy"
            sentences.append(f"in the stable plan nobody gains from withholding and {word}")
        return sentences

    def summary(self) -> str:
        """Return the whole report as text."""
        proof = self._best_found("optimal") or "   (proved)"
        lines = [
            *([self.game.remark] if self.game.remark else []),
            f"{self.game!r}",
            f"cheapest plan    total {self.optimal.total:10.4f}{proof}",
        ]
        for name, price in (
            ("stable", self.price_of_stability),
            ("envy_free", self.price_of_fairness),
        ):
            plan = getattr(self, name)
            label = name.replace("_", "-") + " plan"
            if plan is None:
                lines.append(f"{label:<16} none")
            else:
                lines.append(
                    f"{label:<16} total {plan.total:10.4f}   {price:.3f} x cheapest"
                    + self._best_found(name)
                )
        if self.equal is not None:
            ratio = price_ratio(self.equal.total, self.optimal.total)
            lines.append(
                f"equal plan       total {self.equal.total:10.4f}   {ratio:.3f} x cheapest"
            )
        lines += ["", self.to_frame().round(4).to_string(), ""]
        lines += [f"- {sentence}" for sentence in (*self.findings(), *self.flags)]
        return "\n".join(lines).rstrip()

    def _best_found(self, name: str) -> str:
        """What to add to the total of a plan that is not proved to be the cheapest of its kind."""
        if self.is_proved(name):
            return ""
        found = self._plan(name)
        if "gap" in found.certificate:
            return f"   (infimum, within {found.certificate['gap']:.0%})"
        lower = max(self.bounds.get(f"{name}_lower", 0.0), self.bounds["optimal_lower"])
        return f"   (best found{f', nothing below {lower:.4g}' if lower > 0 else ''})"

    def plot(self, ax: Axes | None = None, *, envy_of: str = "optimal") -> Axes:
        """Draw the contributions per party and plan; on a new figure also the envy graph.

        An arrow from i to j in the envy graph means that i would rather carry j's load.
        """
        with figure_style():
            if ax is not None:
                _draw_bars(ax, self)
                return ax
            _, axes = panels(2, width=5.5)
            _draw_bars(axes[0], self)
            draw_envy_graph(axes[1], self.envy(envy_of).graph(self.names))
            axes[1].set_title(f"who envies whom in the {envy_of.replace('_', '-')} plan")
            return axes[0]

    def what_if(
        self,
        *,
        targets: Mapping[str, float] | None = None,
        caps: Mapping[str, float] | None = None,
        remove: Sequence[str] = (),
        game: CollabGame | None = None,
        names: Sequence[str] | None = None,
    ) -> WhatIf:
        """Plan again under a change and say who is affected.

        Parameters
        ----------
        targets:
            New targets by party name.
        caps:
            Largest contributions by party name.
        remove:
            Parties that leave.
        game:
            A different game altogether, for example with one more party.
        names:
            Names of the parties of that game.

        Examples
        --------
        >>> from counterplay.contribution import LinearGame, plan_contributions
        >>> plan = plan_contributions(LinearGame([[1, 0.5], [0.5, 1]]), names=["a", "b"])
        >>> plan.what_if(targets={"a": 2.0}).after.stable.theta.round(3).tolist()
        [2.0, 0.0]
        """
        changed, labels = self._changed(targets, caps, remove, game, names)
        return WhatIf(self, plan_contributions(changed, labels))

    def _changed(
        self,
        targets: Mapping[str, float] | None,
        caps: Mapping[str, float] | None,
        remove: Sequence[str],
        game: CollabGame | None,
        names: Sequence[str] | None,
    ) -> tuple[CollabGame, tuple[str, ...]]:
        changed, labels = self.game, self.names
        if game is not None:
            changed = game
            labels = tuple(names) if names is not None else self.names
        if remove:
            gone = {self._index(name, labels) for name in remove}
            kept = [i for i in range(changed.k) if i not in gone]
            changed, labels = changed.subset(kept), tuple(labels[i] for i in kept)
        if targets:
            mu = np.array(changed.mu)
            for name, value in targets.items():
                mu[self._index(name, labels)] = value
            changed = changed.with_mu(mu)
        if caps:
            top = _wide_caps(changed) if changed.upper is None else np.array(changed.upper)
            for name, value in caps.items():
                top[self._index(name, labels)] = value
            changed = changed.with_upper(top)
        return changed, labels

    @staticmethod
    def _index(name: str, labels: Sequence[str]) -> int:
        if name not in labels:
            raise UnknownNameError.among("party", name, labels)
        return list(labels).index(name)

    def _plan(self, name: str) -> Allocation:
        plans = self.plans
        if name not in plans:
            raise UnknownNameError.among("plan", name, plans)
        return plans[name]

    def _alone(self) -> Any:
        try:
            return self.game.standalone()
        except ValueError:
            return np.full(self.game.k, np.nan)


@checked
@dataclass(frozen=True)
class WhatIf(Report):
    """A plan before and after a change."""

    before: GameReport
    after: GameReport

    def to_frame(self, plan: str = "stable") -> pd.DataFrame:
        """Return contributions before and after, one row per party of either report."""
        import pandas as pd

        columns = {label: report.to_frame()[plan] for label, report in self._both().items()}
        order = list(dict.fromkeys([*self.before.names, *self.after.names]))
        frame = pd.DataFrame(columns).reindex(order)
        frame["change"] = frame["after"].fillna(0.0) - frame["before"].fillna(0.0)
        return frame

    def summary(self) -> str:
        """Return totals before and after, and who is affected in the stable plan."""
        lines = []
        for name in PLANS:
            totals = [
                plan.total if (plan := getattr(report, name)) is not None else float("nan")
                for report in (self.before, self.after)
            ]
            lines.append(f"{name.replace('_', '-'):<10} total {totals[0]:.4f} -> {totals[1]:.4f}")
        if self.before.stable is not None and self.after.stable is not None:
            change = self.to_frame()["change"]
            moved = change[change.abs() > 1e-6].sort_values()
            lines += [f"- {name} brings {value:+.4g}" for name, value in moved.items()]
        lines += [f"- {flag}" for flag in self.after.flags]
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None, plan: str = "stable") -> Axes:
        """Draw one of the plans before and after."""
        frame = self.to_frame(plan)
        bars = {label: frame[label].fillna(0.0) for label in self._both()}
        return party_bars(axes_or_new(ax), bars, [str(name) for name in frame.index])

    def _both(self) -> dict[str, GameReport]:
        return {"before": self.before, "after": self.after}


def _draw_bars(ax: Axes, report: GameReport) -> None:
    bars = {}
    for name, plan in report.plans.items():
        known = "" if report.is_proved(name) else ", best found"
        bars[f"{name.replace('_', '-')} (total {plan.total:.3g}{known})"] = plan.theta
    party_bars(ax, bars, report.names)
    unit = "samples" if report.game.integral else "units of data"
    ax.set_ylabel(f"contribution ({unit})")


def _wide_caps(game: CollabGame) -> np.ndarray:
    """Caps that bind nobody, as a base for capping single parties."""
    total = max(smallest_common_level(game) * game.k, float(np.asarray(game.standalone()).sum()))
    return np.full(game.k, 10.0 * np.ceil(total + 1.0))
