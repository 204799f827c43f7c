"""Models in production: only the live one is seen, late, and the harm budget comes from history."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import AssumptionWarning
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.tradeoff.live_streams import CHAMPIONS, SAFE, stream_of
from counterplay.studies.verdicts import at_most, seen
from counterplay.tradeoff import HarmBudget, bounds
from counterplay.tradeoff.lab import CalibratedBudget, LiveChampion, count_switches

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

POINTS = 60
GUARD, PURSE, LATE = "guard", "guard + safe", "guard, late and missing"
GUARDS = (GUARD, PURSE, LATE)
PLAIN = ("champion", "A/B 20 %", *GUARDS)
RIVER = ("eps-greedy", "UCB", "Exp3", "Thompson")
DELAY, GAPS = 20, 0.2
RATES = {"digits": 0.08, "flu": 0.2}


def _grid(scale: Scale) -> Sequence[Params]:
    if scale == "quick":
        return [{"stream": "digits", "policy": policy, "replicate": 0} for policy in PLAIN]
    return [
        {"stream": stream, "policy": policy, "replicate": i}
        for stream in ("bank", "Taiwan", "GMSC", "flu", "Elec2")
        for policy in (*PLAIN, *RIVER)
        for i in range(1 if policy == "champion" else 10)
    ]


def _cell(params: Params, seed: int) -> Record:
    name, policy = str(params["stream"]), str(params["policy"])
    stream = stream_of(name)
    champion, safe = _roles(name)
    l1, l2 = stream.future
    budget = budget_of(name)
    rng = np.random.default_rng(seed)
    extra: dict[str, Any] = {"bound": None, "void": None, "downs": ""}
    if policy in GUARDS:
        path, extra = _guarded(policy, l1, l2, budget, champion, safe, rng)
    else:
        path = _pulled(policy, l1, champion, rng)
    rows = np.arange(len(path))
    excess = np.cumsum(l2[rows, path] - budget.rate)
    at = np.linspace(0, len(path) - 1, POINTS).astype(int)
    future, reach = _cusum(l2[:, champion] - budget.rate), np.quantile(budget.paths, 0.95, axis=0)
    record: dict[str, Any] = {f"excess_{k:02d}": float(excess[t]) for k, t in enumerate(at)}
    if policy == "champion":  # the calibration picture
        record |= {f"future_{k:02d}": float(future[t]) for k, t in enumerate(at)}
        record |= {f"reach_{k:02d}": float(reach[t]) for k, t in enumerate(at)}
    else:
        record |= {f"{what}_{k:02d}": None for what in ("future", "reach") for k in range(POINTS)}
    return record | {
        "rounds": len(path), "models": l1.shape[1], "rate": budget.rate, "burst": budget.burst,
        "error": float(l1[rows, path].mean()), "largest": max(0.0, float(excess.max())),
        "switches": count_switches(path), **extra,
    }  # fmt: skip


def _roles(name: str) -> tuple[int, int]:
    """The champion is the best model of history where none is named; the safe one the mildest."""
    if name in RATES:
        l1, l2 = stream_of(name).history
        return int(l1.sum(axis=0).argmin()), int(l2.sum(axis=0).argmin())
    return CHAMPIONS[name], SAFE


def budget_of(name: str) -> CalibratedBudget:
    """Return the champion's budget from its history; the rate is given for some streams."""
    stream, (champion, _) = stream_of(name), _roles(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)  # a rate below the largest mean
        return HarmBudget.calibrate(
            stream.history[1][:, champion], horizon=len(stream.future[0]), rate=RATES.get(name),
            random_state=0,
        )  # fmt: skip


def _guarded(
    policy: str, l1: FloatArray, l2: FloatArray, budget: HarmBudget, champion: int, safe: int,
    rng: np.random.Generator,
) -> tuple[IntArray, dict[str, Any]]:  # fmt: skip
    T, K = l1.shape
    late = policy == LATE
    options: dict[str, Any] = {"max_delay": DELAY} if late else {}
    if policy == PURSE:
        options |= {"safe": safe, "purse": budget.burst}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        live = LiveChampion(
            n_models=K, horizon=T, budget=HarmBudget(budget.rate, budget.burst),
            champion=champion, random_state=rng, **options,
        )  # fmt: skip
    path, missing = np.empty(T, dtype=np.int64), np.less(rng.random(T), GAPS if late else 0.0)
    for t in range(T):
        path[t] = live.act().model
        due = t - DELAY if late else t
        if due < 0:
            continue
        if missing[due]:
            live.observe(due, missing=True)
        else:
            model = path[due]
            live.observe(due, primary=float(l1[due, model]), secondary=float(l2[due, model]))
    report = live.report()
    downs = [alarm.round for alarm in report.alarms if alarm.kind == "taken down"]
    bound = report.harm_bound if np.isfinite(report.harm_bound) else None
    if policy == PURSE:
        own = float(_cusum(l2[:, safe] - budget.rate).max())
        bound = bounds.purse_harm(budget.burst, budget.rate, 0, own)
    return path, {"bound": bound, "void": report.void_since, "downs": " ".join(map(str, downs))}


def _pulled(policy: str, l1: FloatArray, champion: int, rng: np.random.Generator) -> IntArray:
    """What is done without a guard: keep the champion, a fixed split, or a bandit of river."""
    T, K = l1.shape
    path = np.full(T, champion)
    if policy == "champion":
        return path
    if policy == "A/B 20 %":
        others = np.array([j for j in range(K) if j != champion])
        tested = np.flatnonzero(rng.random(T) < 0.2)
        path[tested] = rng.choice(others, size=len(tested))
        return path
    from river import bandit

    seed = int(rng.integers(2**31))
    pullers: dict[str, Any] = {
        "eps-greedy": lambda: bandit.EpsilonGreedy(epsilon=0.1, seed=seed),
        "UCB": lambda: bandit.UCB(delta=1, seed=seed),
        "Exp3": lambda: bandit.Exp3(gamma=0.1, seed=seed),
        "Thompson": lambda: _thompson(seed),
    }
    puller, arms = pullers[policy](), list(range(K))
    for t in range(T):
        path[t] = puller.pull(arms)
        reward = 1.0 - float(l1[t, path[t]])
        # river's Thompson sampling counts successes: a batch succeeds with its share of right ones
        puller.update(int(path[t]), int(rng.random() < reward) if policy == "Thompson" else reward)
    return path


def _thompson(seed: int) -> Any:
    from river import bandit, proba

    return bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=seed)


def _cusum(steps: FloatArray) -> FloatArray:
    sums = np.concatenate([[0.0], np.cumsum(steps)])
    return np.asarray((sums - np.minimum.accumulate(sums))[1:])


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    verdicts = []
    for (stream, policy), rows in frame[frame.policy.isin(GUARDS)].groupby(["stream", "policy"]):
        held = rows[rows.bound.notna()]
        if len(held) and policy != LATE:
            ratio = float((held.largest / held.bound.astype(float)).max())
            claim = "26.28" if policy == GUARD else "26.29"
            told = f"{stream}, {policy}: largest harm above the budget as a share of its bound"
            verdicts.append(at_most(claim, told, ratio, 1.0))
    for stream in frame.stream.unique():
        rows = frame[frame.stream == stream]
        river = rows[rows.policy.isin(RIVER)]
        if len(river):
            told = f"{stream}: switches of the guard, beside the least of river's bandits"
            least = float(river.groupby("policy").switches.mean().min())
            mine = float(rows[rows.policy == GUARD].switches.mean())
            verdicts.append(at_most("26.28", told, mine, least))
    for (stream, policy), rows in frame.groupby(["stream", "policy"], sort=False):
        row = rows.iloc[0]
        told = (
            f"{stream} ({row.rounds} rounds, rate {row.rate:.3g}, burst {row.burst:.3g}), {policy}"
        )
        verdicts.append(seen("26.28", f"{told}: error, largest harm, switches", _row(rows)))
    return verdicts


def _row(rows: pd.DataFrame) -> str:
    """Means over the seeds with 95 % intervals."""
    told = []
    for column, digits in (("error", 3), ("largest", 1), ("switches", 0)):
        text = f"{rows[column].mean():.{digits}f}"
        if len(rows) > 1:
            found = mean_interval(rows[column].to_numpy(dtype=float))
            text += f" [{found.low:.{digits}f}, {found.high:.{digits}f}]"
        told.append(text)
    void = int(rows.void.notna().sum())
    return ", ".join(told) + (f"; void in {void} of {len(rows)} runs" if void else "")


def _budget(frame: pd.DataFrame) -> Figure:
    """Harm above the budget over time, one line per policy (mean over seeds). Dashed: what the
    guard guarantees, and the purse with the safe model's own excess; ticks: take-downs."""
    names = list(frame.stream.unique())
    figure, axes = panels(len(names), width=4.6, height=4.2, columns=3)
    for ax, name in zip(axes, names):
        rows = frame[frame.stream == name]
        t = np.linspace(1, float(rows.rounds.iloc[0]), POINTS)
        for k, policy in enumerate(p for p in (*PLAIN, *RIVER) if (rows.policy == p).any()):
            part = rows[rows.policy == policy]
            curve = part[[f"excess_{i:02d}" for i in range(POINTS)]].astype(float).mean()
            style = "-" if policy in GUARDS else (":" if k < len(PALETTE) else "-.")
            ax.plot(t, curve, style, color=PALETTE[k % len(PALETTE)], label=policy, lw=1.4)
        for policy, line in ((GUARD, "--"), (PURSE, "-.")):
            bound = rows[rows.policy == policy].bound.dropna().astype(float)
            if len(bound):
                label = f"bound, {policy}"
                ax.axhline(bound.mean(), label=label, **{**THEORY, "linestyle": line})
        downs = " ".join(rows[(rows.policy == GUARD) & (rows.replicate == 0)].downs).split()
        ax.plot([int(d) for d in downs], np.zeros(len(downs)), "|", color="black", ms=9)
        ax.set(title=name, xlabel="round", ylabel="harm above the rate (sum)")
        ax.legend(fontsize=6, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    return figure


def _calibration(frame: pd.DataFrame) -> Figure:
    """Reach of the champion's harm above the rate (CUSUM) in 95 % of the futures that are like its
    history, its burst, and what the future was. Where it leaves the band, the future is not like
    the history."""
    rows = frame[frame.policy == "champion"]
    figure, axes = panels(len(rows), width=3.6, height=3.4, columns=3)
    for ax, (_, row) in zip(axes, rows.iterrows()):
        t = np.linspace(1, float(row.rounds), POINTS)
        reach = [row[f"reach_{i:02d}"] for i in range(POINTS)]
        ax.fill_between(t, 0, reach, color=PALETTE[0], alpha=0.2, label="95 % of like futures")
        ax.plot(t, [row[f"future_{i:02d}"] for i in range(POINTS)], color=PALETTE[1],
                label="the future")  # fmt: skip
        ax.axhline(row.burst, label=f"burst {row.burst:.3g}", **THEORY)
        ax.set(title=f"{row.stream}, rate {row.rate:.3g}", xlabel="round",
               ylabel="harm above the rate (CUSUM)")  # fmt: skip
        ax.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    return figure


LIVE = Study(
    name="live",
    title="Models in production",
    question=(
        "Only the live model's outcomes are seen. The budget is calibrated on the champion's "
        "history. How much harm above it, which error and how many switches do the guard, an A/B "
        "test and bandits have on real streams?"
    ),
    claims=("26.28", "26.29"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"budget": _budget, "calibration": _calibration},
    data=("bank_marketing", "taiwan", "give_me_some_credit", "flusight", "elec2"),
    full_extra="river",
    full_needs="the credit, bank and FluSight data",
)
