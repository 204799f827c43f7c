"""A lender chooses among scorecards by deploying them: what each kind of feedback buys.

Applicants have ten features; scorecards are logistic regressions on bootstrap samples of past data.
One of them is right about everybody after they have moved. Abilities are log-normal and larger in
the better-off group.

Source: "Results", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.core.validation import FloatArray
from counterplay.strategic import Agents, Applicants, LinearClass, bounds
from counterplay.strategic.lab import FiniteERM
from counterplay.strategic.value_of_information import PLAYERS, final_error
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_CHECKPOINTS = (10, 20, 50, 100, 200, 500, 1000, 2000)
_WORDS = {
    "StrategicHalving": "features first: StrategicHalving",
    "MWMR": "features afterwards: MWMR",
    "UnionSamplingLearner": "features afterwards: union sampling",
    "DeltaOnlyElimination": "reports only: DeltaOnlyElimination",
    "SequentialElimination": "nothing: SequentialElimination",
}


def past_data(rng: np.random.Generator, m: int) -> tuple[FloatArray, Any]:
    """Return credit-like features and noisy labels."""
    X = rng.normal(size=(m, 10))
    X[:, 1] += 0.5 * X[:, 0]
    weights = np.array([1.0, 0.8, -0.6, 0.5, 0.4, 0.3, -0.3, 0.2, 0.0, 0.0])
    return X, (X @ weights + rng.logistic(size=m) > 0).astype(int)


def bootstrap_scorecards(rng: np.random.Generator, n: int, rows: int = 150) -> LinearClass:
    """Return ``n`` logistic regressions, each fitted on a bootstrap sample of past data."""
    X, y = past_data(rng, 1000)
    models = []
    for _ in range(n):
        index = rng.integers(len(y), size=rows)
        models.append(LogisticRegression(solver="liblinear").fit(X[index], y[index]))
    return LinearClass.from_estimators(models)


def _grid(scale: Scale) -> list[Params]:
    n, runs = (120, 8) if scale == "quick" else (500, 20)
    return [{"n": n, "replicate": i} for i in range(runs)]


def _cell(params: Params, seed: int) -> Record:
    n = int(params["n"] or 0)
    rng = np.random.default_rng(seed)
    rules = bootstrap_scorecards(rng, n)
    X, _ = past_data(rng, 4000)
    rich = X[:, 0] > 0
    radius = rng.lognormal(np.where(rich, -0.5, -1.2), 0.5)
    people = Agents.from_target(rules, X, radius=radius, target=int(rng.integers(n)))
    stream, test = people.take(np.arange(2000)), people.take(np.arange(2000, 4000))
    losses = test.losses(rules).mean(axis=0)
    naive = FiniteERM(rules, strategic=False).fit(stream).member_
    accepted = people.accepted(rules, [naive])[:, 0] != (people.y > 0)
    record: dict[str, float | int] = {
        "naive": float(losses[naive]),
        "naive_rich": float(accepted[rich].mean()),
        "naive_poor": float(accepted[~rich].mean()),
        "typical": float(np.median(losses)),
    }
    for name, (setting, make) in PLAYERS.items():
        learner = make(rules, random_state=rng.spawn(1)[0])
        applicants = Applicants(stream, setting)
        applicants.start()
        played = mistakes = 0
        for t in _CHECKPOINTS:
            game = applicants.play_on(learner, t - played)
            played, mistakes = t, mistakes + game.mistakes
            record[f"{name}:error:{t}"] = final_error(learner, test, losses)
            record[f"{name}:mistakes:{t}"] = mistakes
    return record


def _mistakes(frame: pd.DataFrame, name: str) -> Any:
    return frame[f"{name}:mistakes:{_CHECKPOINTS[-1]}"]


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    n = int(frame["n"].iloc[0])
    halving, mwmr, blind = (
        _mistakes(frame, name) for name in ("StrategicHalving", "MWMR", "SequentialElimination")
    )
    final = frame[f"StrategicHalving:error:{_CHECKPOINTS[-1]}"]
    return [
        at_most(
            "02.02",
            f"With features seen first at most floor(log2 {n}) mistakes on 2000 applicants.",
            float(halving.max()),
            bounds.halving_mistakes(n),
            what=f"mean {mean_interval(halving)}, most",
        ),
        Verdict(
            "02.11",
            "Features afterwards cost more, nothing costs most.",
            f"mean mistakes {halving.mean():.1f} < {mwmr.mean():.1f} < {blind.mean():.1f}",
            "increasing",
            bool(halving.mean() < mwmr.mean() < blind.mean()),
        ),
        Verdict(
            "02.25",
            "The rule found beats the one chosen as if nobody moved.",
            f"error {final.mean():.4f} against {frame['naive'].mean():.4f}",
            "smaller",
            bool(final.mean() < frame["naive"].mean()),
        ),
    ]


def _curves(frame: pd.DataFrame) -> Figure:
    """Error, on fresh applicants who move, of what would be published after so many applicants.
    The dashed line is the rule chosen on the same applicants as if nobody moved.
    """
    figure, (ax,) = panels(1, width=7.5)
    for (name, label), color, marker in zip(_WORDS.items(), PALETTE, "o^vsx"):
        values = np.array([frame[f"{name}:error:{t}"] for t in _CHECKPOINTS], dtype=float)
        half = 2 * values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
        ax.errorbar(
            _CHECKPOINTS, values.mean(axis=1), half, marker=marker, color=color, label=label,
            linewidth=1, capsize=2,
        )  # fmt: skip
    ax.axhline(float(frame["naive"].mean()), label="chosen as if nobody moved", **THEORY)
    ax.set(
        xscale="log",
        xlabel="applicants seen",
        ylabel="error after people have moved",
        title="Choosing a scorecard by deploying it",
    )
    ax.set_ylim(bottom=0)
    ax.legend(fontsize=8)
    return figure


def _bars(frame: pd.DataFrame) -> Figure:
    """Mistakes on 2000 applicants in each information setting: the value of information."""
    figure, (ax,) = panels(1, width=7.5, height=3.2)
    intervals = [mean_interval(_mistakes(frame, name)) for name in _WORDS]
    means = [i.estimate for i in intervals]
    below = [i.estimate - max(0.0, i.low) for i in intervals]
    above = [i.high - i.estimate for i in intervals]
    ax.barh(list(_WORDS.values()), means, xerr=[below, above], color=PALETTE[0], alpha=0.8)
    ax.axvline(bounds.halving_mistakes(int(frame["n"].iloc[0])), label="floor(log2 n)", **THEORY)
    ax.invert_yaxis()
    ax.set(xlabel="mistakes on 2000 applicants")
    ax.legend()
    return figure


SCORECARDS = Study(
    name="scorecards",
    title="Choosing a scorecard by deploying it",
    question=(
        "A lender has a catalogue of scorecards and applicants who adapt by unknown amounts. How "
        "many wrong decisions does each kind of feedback cost, and how good is the rule found, "
        "compared with fitting on past data as if nobody moved?"
    ),
    claims=("02.02", "02.11", "02.25"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"error": _curves, "mistakes": _bars},
)
