"""Forecasts, recommendations and decisions: bias where it matters, and what a miss is worth.

Two decisions and two outcomes reveal a threshold without any utilities: whoever acts exactly when
the risk is at least tau has less risk among the cases he leaves than among those he takes, with tau
between. Source: Caplin and Martin (2015); docs/theory/25-offers.md, "Audits".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.core.stats import clopper_pearson, mean_interval
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_fraction,
    check_open_fraction,
    check_real,
)
from counterplay.errors import InvalidInputError
from counterplay.principal.offer_log import codes_of, column_of, numbers_of, read_columns
from counterplay.principal.persuasion import PersuasionGame, PersuasionGeometry, Scheme
from counterplay.tables.cells import listed, shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked
@dataclass(frozen=True)
class Proposal(Report):
    """A disclosure rule that is obeyed at the less favourable end of the revealed threshold.

    Attributes
    ----------
    scheme:
        Chance of each signal (recommendation) in each outcome.
    threshold:
        The threshold that it is made for.
    prior:
        Share of the event in the log.
    decisions:
        Names of the two decisions, waiting first.
    value:
        Our expected value if it is obeyed.
    """

    scheme: Scheme
    threshold: float
    prior: float
    decisions: tuple[str, str]
    value: float

    def summary(self) -> str:
        """Return the rule as text."""
        return (
            "recommend so that the other side obeys even with a threshold of "
            f"{self.threshold:.3f}: expected value {self.value:.4g} at a share of {self.prior:.3f} "
            "of the event\n"
            f"{self.to_frame().to_string(index=False)}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the chance of each signal in each outcome."""
        import pandas as pd

        frame = pd.DataFrame(self.scheme.matrix, columns=["if not", "if it happens"])
        frame.insert(0, "signal", np.arange(len(frame)))
        return frame


@checked
@dataclass(frozen=True, eq=False)
class DecisionReport(Report):
    """Bias per decision and the revealed threshold, from :func:`decision_audit`.

    Attributes
    ----------
    frame:
        One row per decision: ``decision``, ``rows``, ``share`` of the event, and where given the
        mean ``forecast``, ``bias`` with limits (missing where one row or one time gives none),
        ``cost`` in money, ``followed`` recommendations.
    threshold:
        Limits of the risk from which on he acts; None unless there are two decisions.
    acting:
        The decision that is acting; None with more than two decisions.
    share:
        Share of the event.
    level:
        Confidence.
    notes:
        Statements that this log does not allow.
    """

    frame: pd.DataFrame
    threshold: tuple[float, float] | None
    acting: str | None
    share: float
    level: float
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"DecisionReport({len(self.frame)} decisions, threshold {self.threshold})"

    @property
    def explained(self) -> bool:
        """Whether some threshold explains the decisions; True where there is none to reveal."""
        return self.threshold is None or self.threshold[0] <= self.threshold[1]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per decision."""
        return self.frame

    def summary(self) -> str:
        """Return the findings as text."""
        low, high = self.threshold or (0.0, 1.0)
        lines = [f"{int(self.frame['rows'].sum())} decisions, the event in {self.share:.1%}"]
        if self.acting is not None and not self.explained:
            lines.append(
                f"no threshold explains the decisions: the event is rarer under {self.acting!r}"
            )
        elif self.acting is not None:
            lines.append(f"{self.acting!r} from a risk between {low:.3f} and {high:.3f} on")
            most = f"{(1 - low) / low:.2g}" if low > 0 else "any number of"
            least = (1 - high) / high if high > 0 else float("inf")
            lines.append(f"acts as if a miss costs between {least:.2g} and {most} false alarms")
        for row in self.frame.itertuples():
            text = f"  {row.decision}: {row.rows} rows, event in {row.share:.1%}"
            if "bias" in self.frame:
                text += f", bias {row.bias:+.3f} {_limits_of(row)}"
            if "cost" in self.frame:
                text += f", cost {row.cost:.4g} per decision"
            if "followed" in self.frame:
                text += f", recommended in {row.followed:.0%}"
            lines.append(text)
        return "\n".join([*lines, *self.notes])

    def propose(self, v: Any) -> Proposal:
        """Return the disclosure rule for our values ``v`` of the decisions (a mapping by name).

        It is optimal for the end of the threshold that is less favourable for us, and obeyed at
        every threshold in the interval: acting on a signal at the highest threshold is acting at
        every lower one.
        """
        if self.acting is None or self.threshold is None or not self.explained:
            raise InvalidInputError("a rule needs two decisions that a threshold explains")
        names = [str(name) for name in self.frame["decision"]]
        waiting = next(name for name in names if name != self.acting)
        worth = [_value_of(v, name) for name in (waiting, self.acting)]
        low, high = self.threshold
        tau = high if worth[1] >= worth[0] else low
        if not 0.0 < tau < 1.0:
            raise InvalidInputError(f"the log does not bound the threshold: its end is {tau:g}")
        game = PersuasionGame(
            [[tau, 0.0], [0.0, 1.0 - tau]], worth, strategy_names=[waiting, self.acting]
        )
        geometry = PersuasionGeometry(game)
        scheme = geometry.optimal_scheme(self.share)
        value = float(geometry.v_star(self.share))
        return Proposal(scheme, tau, self.share, (waiting, self.acting), value)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of the event under each decision, and the threshold."""
        with figure_style():
            axes = axes_or_new(ax, height=2.8)
            at = np.arange(len(self.frame))
            gaps = [
                self.frame["share"] - self.frame["share_low"],
                self.frame["share_high"] - self.frame["share"],
            ]
            axes.errorbar(
                self.frame["share"], at, xerr=np.array(gaps), fmt="o", color=PALETTE[0],
                label="share of the event",
            )  # fmt: skip
            if self.threshold is not None and self.explained:
                axes.axvspan(*self.threshold, color=PALETTE[1], alpha=0.15, label="threshold")
            axes.set_yticks(at, [str(name) for name in self.frame["decision"]])
            axes.set_ylim(-0.6, len(at) - 0.4)
            axes.set_xlabel("share of the event")
            axes.legend()
        return axes


@checked
def decision_audit(
    log: Any,
    *,
    decision: str,
    outcome: str,
    forecast: str | None = None,
    recommendation: str | None = None,
    time: str | None = None,
    utilities: Mapping[Any, Any] | None = None,
    acting: str | None = None,
    level: float = 0.95,
) -> DecisionReport:
    """What decisions reveal: bias where they were taken, and what a miss is worth to the decider.

    Parameters
    ----------
    log:
        A frame or dictionary, one row per decision.
    decision:
        Column of the decisions.
    outcome:
        Column of the outcome: 1 if the event happened, else 0.
    forecast:
        Column of the forecast probability of the event.
    recommendation:
        Column of the recommendations, in the words of the decisions.
    time:
        Column of the time: rows of one time are one observation in the limits of the bias.
    utilities:
        For every decision the money if the event does not and does happen; then what decisions
        cost against the best one in hindsight is reported.
    acting:
        The decision that answers a high risk; default the one under which the event is commoner.
    level:
        Confidence of the limits.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.random(2000)
    >>> log = {"risk": risk, "done": np.where(risk >= 0.4, "act", "wait"),
    ...        "event": (rng.random(2000) < risk).astype(int)}
    >>> report = decision_audit(log, decision="done", outcome="event", forecast="risk")
    >>> low, high = report.threshold
    >>> bool(low <= 0.4 <= high), report.acting
    (True, 'act')

    References
    ----------
    "Audits", see docs/theory/25-offers.md.
    """
    check_open_fraction(level, "level")
    wanted = {
        "decision": decision, "outcome": outcome, "forecast": forecast,
        "recommendation": recommendation, "time": time,
    }  # fmt: skip
    table = read_columns(log, wanted)
    rows = table.index
    y = _events(numbers_of(column_of(table, outcome), outcome, rows), outcome, rows)
    codes, known = codes_of(column_of(table, decision), decision, rows)
    columns: dict[str, Any] = {"y": y, "codes": codes}
    if forecast is not None:
        columns["forecast"] = _chances(
            numbers_of(column_of(table, forecast), forecast, rows), forecast, rows
        )
    if recommendation is not None:
        advice, words = codes_of(column_of(table, recommendation), recommendation, rows)
        columns["followed"] = np.array([known[c] == words[a] for c, a in zip(codes, advice)])
    if time is not None:
        columns["time"] = codes_of(column_of(table, time), time, rows)[0]
    if utilities is not None:
        columns["payoff"] = _payoffs(utilities, known)
    frame = _rows(columns, known, level)
    chosen = _acting(frame, known, acting)
    notes = [] if recommendation else ["no recommendation column: obedience is not judged"]
    if time is not None and chosen is not None:
        notes.append(f"limits of the threshold take rows of one {time} as independent")
    threshold = _threshold(frame, chosen)
    return DecisionReport(frame, threshold, chosen, float(y.mean()), level, tuple(notes))


def _events(values: FloatArray, name: str, rows: Any) -> FloatArray:
    bad = ~np.isin(values, (0.0, 1.0))
    if bad.any():
        at = int(np.argmax(bad))
        found = "missing" if np.isnan(values[at]) else f"{values[at]:g}"
        raise InvalidInputError(
            f"{name} of row {shown(rows[at], 30)} is {found}: expected 1 if the event happened, "
            "else 0"
        )
    return values


def _chances(values: FloatArray, name: str, rows: Any) -> FloatArray:
    bad = ~((values >= 0) & (values <= 1))
    if bad.any():
        at = int(np.argmax(bad))
        raise InvalidInputError(
            f"{name} of row {shown(rows[at], 30)} is {values[at]:g}: expected a probability"
        )
    return values


def _payoffs(utilities: Mapping[Any, Any], known: list[Any]) -> FloatArray:
    table = []
    for name in known:
        pair = utilities.get(name)
        if pair is None or np.shape(pair) != (2,):
            raise InvalidInputError(
                f"utilities needs two amounts for {shown(name, 40)}: without and with the event"
            )
        table.append([check_real(value, "utilities") for value in pair])
    return np.array(table)


def _rows(columns: dict[str, Any], known: list[Any], level: float) -> Any:
    import pandas as pd

    y, codes = columns["y"], columns["codes"]
    found = []
    for code, name in enumerate(known):
        own = codes == code
        # one-sided errors of (1 - level) / 2 at both ends of the threshold
        exact = clopper_pearson(int(y[own].sum()), int(own.sum()), level)
        row = {
            "decision": str(name),
            "rows": int(own.sum()),
            "share": exact.estimate,
            "share_low": exact.low,
            "share_high": exact.high,
        }
        if "forecast" in columns:
            gap = columns["forecast"][own] - y[own]
            row |= {"forecast": float(columns["forecast"][own].mean())}
            row |= _bias(gap, columns.get("time"), own, level)
        if "payoff" in columns:
            best = columns["payoff"].max(axis=0)[y[own].astype(int)]
            row["cost"] = float((best - columns["payoff"][code, y[own].astype(int)]).mean())
        if "followed" in columns:
            row["followed"] = float(columns["followed"][own].mean())
        found.append(row)
    return pd.DataFrame(found)


def _bias(gap: FloatArray, time: IntArray | None, own: Any, level: float) -> dict[str, float]:
    """Mean of forecast minus outcome with t limits; rows of one time are one observation."""
    mean = float(gap.mean())
    if time is None:
        units = gap
    else:
        sums = np.bincount(time[own], weights=gap - mean)
        counts = np.bincount(time[own])
        present = counts > 0
        # totals of the clusters, scaled so that their mean has the variance of the ratio
        units = mean + sums[present] * present.sum() / gap.size
    if units.size < 2:
        return {"bias": mean, "bias_low": float("nan"), "bias_high": float("nan")}
    limits = mean_interval(units, level)
    return {"bias": mean, "bias_low": limits.low, "bias_high": limits.high}


def _limits_of(row: Any) -> str:
    """Limits of the bias of a decision as text; one observation has none."""
    if np.isnan(row.bias_low):
        return f"(no interval can be given from one {'row' if row.rows == 1 else 'time'})"
    return f"[{row.bias_low:+.3f}, {row.bias_high:+.3f}]"


def _acting(frame: Any, known: list[Any], acting: str | None) -> str | None:
    names = [str(name) for name in known]
    if acting is not None and acting not in names:
        raise InvalidInputError(f"{shown(acting, 40)} is no decision of the log: {listed(names)}")
    if len(names) != 2:
        return None
    return acting or names[int(frame["share"].to_numpy().argmax())]


def _threshold(frame: Any, acting: str | None) -> tuple[float, float] | None:
    """Lower limit of the risk he leaves, upper limit of the risk he takes."""
    if acting is None:
        return None
    took = frame[frame["decision"] == acting].iloc[0]
    left = frame[frame["decision"] != acting].iloc[0]
    return float(left["share_low"]), float(took["share_high"])


def _value_of(v: Any, name: str) -> float:
    if not isinstance(v, Mapping) or name not in v:
        raise InvalidInputError(f"v must give our value in [0, 1] of {shown(name, 40)}")
    return check_fraction(v[name], f"value of {shown(name, 40)}")
