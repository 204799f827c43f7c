"""What a simulation found: tables, the verdict in words, the timeline and the loss sandwich.

Source: docs/theory/05-defection.md, "From the protocol to a running federation".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import FloatArray, check_choice
from counterplay.defection.rule_options import RulePlan
from counterplay.errors import UnknownNameError
from counterplay.federated.many import TrainingRecord

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEASURES: dict[str, Callable[[TrainingRecord], FloatArray]] = {
    "average_accuracy": lambda r: r.accuracy[:, -1].mean(axis=1),
    "worst_site_accuracy": lambda r: r.accuracy[:, -1].min(axis=1),
    "population_accuracy": lambda r: r.population[:, -1],
    "peak_average_accuracy": lambda r: r.accuracy.mean(axis=2).max(axis=1),
    "worst_site_loss": lambda r: r.loss[:, -1].max(axis=1),
}


@checked(arrays=True)
@dataclass(frozen=True, eq=False, repr=False)
class SimulationResult(Report):
    """The runs of every rule, made by :meth:`DefectionSimulator.compare`.

    ``records`` maps the label of a rule to its :class:`TrainingRecord`; ``plans`` tell how each was
    run; ``sites`` are the names of the sites and ``eps`` their thresholds.

    Examples
    --------
    >>> from counterplay.defection import DefectionSimulator
    >>> X, y = [[0.0], [1.0], [0.4], [0.6]] * 5, [0, 1, 0, 1] * 5
    >>> simulator = DefectionSimulator("linear", X, y, ["a", "a", "b", "b"] * 5, threshold=0.6)
    >>> print(simulator.compare({"fedavg": dict(step_size=1.0)}, rounds=60, random_state=0).verdict)
    FedAvg loses 2 of 2 sites (a in round 2, b in round 25), final worst-site loss 0.599.
    """

    records: dict[str, TrainingRecord]
    plans: tuple[RulePlan, ...]
    sites: tuple[Any, ...]
    eps: FloatArray
    measured: bool = True

    def __repr__(self) -> str:
        return f"SimulationResult({len(self.sites)} sites, rules {', '.join(self.records)})"

    @property
    def seeds(self) -> int:
        """Number of repetitions."""
        return len(next(iter(self.records.values())).status)

    def record(self, rule: str) -> TrainingRecord:
        """Return the record of a rule."""
        if rule not in self.records:
            raise UnknownNameError.among("rule", rule, self.records)
        return self.records[rule]

    def to_frame(self, by: Literal["rule", "site", "run"] = "rule") -> pd.DataFrame:
        """Return one row per rule (means over seeds), per rule and site, or per rule and seed.

        With several seeds the table of rules has a column ``*_ci`` beside every mean: half the
        width of its 95 % interval.
        """
        import pandas as pd

        check_choice(by, "by", ("rule", "site", "run"))
        rows: list[dict[str, Any]] = []
        for plan in self.plans:
            record = self.records[plan.label]
            if by == "rule":
                rows.append({"rule": plan.label, **self._means(record)})
            elif by == "run":
                rows.extend({"rule": plan.label, **run} for run in self._runs(record))
            else:
                rows.extend({"rule": plan.label, **site} for site in self._per_site(record))
        return pd.DataFrame(rows)

    def _means(self, record: TrainingRecord) -> dict[str, Any]:
        count = record.defections
        one = self.seeds == 1
        row: dict[str, Any] = {
            "defections": int(count[0]) if one else float(count.mean()),
            "left": self._who_left(record),
        }
        for name, measure in MEASURES.items():
            values = measure(record)
            row[name] = float(values.mean())
            if not one:
                row[f"{name}_ci"] = _half_width(values)
        row["rounds"] = int(record.rounds[0]) if one else float(record.rounds.mean())
        row["status"] = _counted(record.status)
        row["workload"] = float(record.workload.mean())
        return row

    def _runs(self, record: TrainingRecord) -> list[dict[str, Any]]:
        measures = {name: measure(record) for name, measure in MEASURES.items()}
        return [
            {
                "seed": s,
                "defections": int(record.defections[s]),
                **{name: float(values[s]) for name, values in measures.items()},
                "rounds": int(record.rounds[s]),
                "status": record.status[s],
            }
            for s in range(self.seeds)
        ]

    def _per_site(self, record: TrainingRecord) -> list[dict[str, Any]]:
        left = np.where(record.defect_round >= 0, record.defect_round, np.nan)
        return [
            {
                "site": site,
                "threshold": float(self.eps[m]),
                "loss": float(record.loss[:, -1, m].mean()),
                "accuracy": float(record.accuracy[:, -1, m].mean()),
                "left": float(np.isfinite(left[:, m]).mean()),
                "left_in_round": _mean_or_nan(left[:, m]),
                "workload": float(record.workload[:, m].mean()),
            }
            for m, site in enumerate(self.sites)
        ]

    def _who_left(self, record: TrainingRecord) -> str:
        """Who left when: rounds for one seed, how often for several."""
        if self.seeds == 1:
            order = np.argsort(record.defect_round[0], kind="stable")
            when = [(self.sites[m], int(record.defect_round[0, m])) for m in order]
            return ", ".join(f"{site} in round {r}" for site, r in when if r >= 0)
        share = (record.defect_round >= 0).mean(axis=0)
        return ", ".join(f"{site} {p:.0%}" for site, p in zip(self.sites, share) if p > 0)

    @property
    def verdict(self) -> str:
        """What happened under each rule, and which one to use, in a few sentences."""
        sentences = [self._sentence(plan) for plan in self.plans]
        if len(self.plans) > 1:
            sentences.append(self._advice(self.best))
        return " ".join(sentences)

    @property
    def best(self) -> RulePlan:
        """The rule that loses fewest sites among those that serve the worst site best.

        Rules within one point of the highest worst-site accuracy count as equally good.
        """
        worst, lost = {}, {}
        for label, record in self.records.items():
            worst[label] = float(record.accuracy[:, -1].min(axis=1).mean())
            lost[label] = float(record.defections.mean())
        good = [p for p in self.plans if worst[p.label] >= max(worst.values()) - 0.01]
        return min(good, key=lambda plan: (lost[plan.label], -worst[plan.label]))

    def _advice(self, plan: RulePlan) -> str:
        record = self.records[plan.label]
        worst = record.accuracy[:, -1].min(axis=1).mean()
        if not record.defections.any():
            return (
                f"Use {plan.title}: it keeps everybody, and the model is right on {worst:.1%} of "
                "the rows of its worst site."
            )
        return (
            f"{plan.title} serves the worst site best ({worst:.1%} right) although sites leave: "
            "departures do little harm here."
        )

    def _sentence(self, plan: RulePlan) -> str:
        record = self.records[plan.label]
        worst = float(record.loss[:, -1].max(axis=1).mean())
        lost = record.defections
        stalled = Counter(record.status)["diverged"]
        tail = f", final worst-site loss {worst:.3g}"
        if stalled:
            tail += f" ({stalled} of {self.seeds} runs diverged: use a smaller step_size)"
        if not lost.any():
            return f"{plan.title} keeps all {len(self.sites)} sites{tail}."
        if self.seeds > 1:
            return (
                f"{plan.title} loses {lost.mean():.3g} of {len(self.sites)} sites on average over "
                f"{self.seeds} seeds{tail}."
            )
        who = self._who_left(record).split(", ")
        shown = ", ".join(who[:4]) + (f" and {len(who) - 4} more" if len(who) > 4 else "")
        return f"{plan.title} loses {lost[0]} of {len(self.sites)} sites ({shown}){tail}."

    def summary(self) -> str:
        """Return the table of rules and the verdict."""
        frame = self.to_frame()
        columns = ["rule", "defections", *MEASURES, "rounds", "status"]
        if not self.measured:
            columns.remove("population_accuracy")
        names = {
            "average_accuracy": "average",
            "worst_site_accuracy": "worst site",
            "population_accuracy": "population",
            "peak_average_accuracy": "peak",
            "worst_site_loss": "worst loss",
        }
        table = frame[columns].rename(columns=names).to_string(index=False, float_format="%.3f")
        seeds = f", mean over {self.seeds} seeds" if self.seeds > 1 else ""
        return f"{len(self.sites)} sites{seeds}; accuracies of the final model\n{table}\n" + (
            self.verdict
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the average accuracy of all sites over the rounds; marks are departures."""
        from counterplay.core.figures import PALETTE, axes_or_new

        axes = axes_or_new(ax)
        for i, plan in enumerate(self.plans):
            record, colour = self.records[plan.label], PALETTE[i % len(PALETTE)]
            mean = record.accuracy.mean(axis=2).mean(axis=0)
            axes.plot(mean, color=colour, label=plan.title)
            left = record.defect_round[record.defect_round >= 0] - 1
            axes.plot(left, mean[left], "x", color=colour, markersize=6)
        axes.set(xlabel="round", ylabel="average accuracy of all sites", title="x: a site leaves")
        axes.legend()
        return axes

    def timeline(self) -> Figure:
        """Draw one panel per rule: average, worst-site, population accuracy; departures dashed."""
        from counterplay.core.figures import PALETTE, figure_style, panels

        with figure_style():
            figure, axes = panels(len(self.plans), width=4.2, height=3.6)
            for ax, plan in zip(axes, self.plans):
                record = self.records[plan.label]
                for r in np.unique(record.defect_round[record.defect_round >= 0]):
                    ax.axvline(r - 1, color="#888888", linestyle="--", linewidth=0.7)
                curves = {
                    "average": record.accuracy.mean(axis=2),
                    "worst site": record.accuracy.min(axis=2),
                    "population": record.population,
                }
                for i, (name, values) in enumerate(curves.items()):
                    mean = values.mean(axis=0)
                    seen = np.isfinite(mean)
                    ax.plot(np.flatnonzero(seen), mean[seen], color=PALETTE[i], label=name)
                ax.set(xlabel="round", title=plan.title, ylim=(-0.02, 1.02))
            axes[0].set_ylabel("accuracy")
            axes[0].legend(loc="lower right")
        return figure

    def sandwich(self, rule: str | None = None, ax: Axes | None = None, seed: int = 0) -> Axes:
        """Draw every site's loss above its threshold; dashed lines at 0, delta and 2 delta."""
        from counterplay.core.figures import PALETTE, THEORY, axes_or_new

        label = self.best.label if rule is None else rule
        record = self.record(label)
        plan = next(p for p in self.plans if p.label == label)
        axes = axes_or_new(ax)
        last = int(record.rounds[seed]) + 1
        for m, site in enumerate(self.sites):
            excess = record.loss[seed, :last, m] - self.eps[m]
            axes.plot(excess, color=PALETTE[m % len(PALETTE)], linewidth=1.2, label=str(site))
        for height in (0.0, plan.delta, 2 * plan.delta):
            axes.axhline(height, **THEORY)
        axes.set_yscale("symlog", linthresh=4 * plan.delta)
        axes.set(xlabel="round", ylabel="loss minus threshold", title=plan.title)
        if len(self.sites) <= 10:
            axes.legend(title="site", fontsize=8, ncols=2)
        return axes


def _counted(status: tuple[str, ...]) -> str:
    """Return the only status, or how often each occurred."""
    counts = Counter(status)
    if len(counts) == 1:
        return status[0]
    return ", ".join(f"{name} {n}" for name, n in counts.most_common())


def _half_width(values: FloatArray) -> float:
    from counterplay.core.stats import mean_interval

    if not np.isfinite(values).all():
        return float("nan")
    interval = mean_interval(values)
    return interval.high - interval.estimate


def _mean_or_nan(values: FloatArray) -> float:
    kept = values[np.isfinite(values)]
    return float(kept.mean()) if kept.size else float("nan")
