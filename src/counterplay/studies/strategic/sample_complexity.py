"""How many agents until the answer is good, in every information setting.

Source: Theorem 2.6, Theorem 2.7, Theorem 2.8, Theorem 2.9, "Results", see
docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import Interval, loglog_slope
from counterplay.core.validation import FloatArray
from counterplay.strategic import ApplicantStream, bounds, instances
from counterplay.strategic.lab import (
    FEATURES_AFTER,
    REPORT_ONLY,
    DeltaOnlyElimination,
    SequentialElimination,
    UnionSamplingLearner,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import slope

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

EPS = 0.02
_POINTS = 40
_LABELS = {
    "x after": "features seen afterwards, pair",
    "delta only": "only reported features seen",
    "nothing": "nothing seen",
    "sets": "unknown manipulation sets",
}


def _times(n: int) -> list[int]:
    """Rounds at which the error is recorded; enough for the slowest setting."""
    return sorted({round(t) for t in np.geomspace(20, 60 * n / EPS, _POINTS)})


def _grid(scale: Scale) -> list[Params]:
    sizes = [8, 16, 32, 64] if scale == "quick" else [8, 16, 32, 64, 128, 256]
    runs = 12 if scale == "quick" else 30
    return [
        {"case": case, "n": n, "replicate": i, "place": (i + 0.5) / runs}
        for case in _LABELS
        for n in sizes
        for i in range(runs)
    ]


def _cell(params: Params, seed: int) -> Record:
    n, case = int(params["n"] or 0), str(params["case"])
    rng = np.random.default_rng(seed)
    target = int(float(params["place"] or 0) * n)  # every part of the catalogue equally often
    if case in ("nothing", "sets"):
        return _elimination(case, n, target, rng)
    population = instances.ConservativeInstance(n, EPS, target=target)
    kind: Any = UnionSamplingLearner if case == "x after" else DeltaOnlyElimination
    learner = kind(population.hypotheses, random_state=rng.spawn(1)[0])
    setting = FEATURES_AFTER if case == "x after" else REPORT_ONLY
    stream = ApplicantStream(population, setting, random_state=rng.spawn(1)[0])
    losses, played, left = 0.0, 0, n
    record: dict[str, float | int] = {"rounds": 0.0}
    for k, t in enumerate(_times(n)):
        if learner.remaining == 1:
            game_loss = 0.0  # nothing changes any more
        else:
            game = stream.play_on(learner, t - played)
            before = np.concatenate([[left], game.version_space_sizes[:-1]])
            sizes, rounds = np.unique(before, return_counts=True)
            game_loss = sum(c * population.space_loss(int(m)) for m, c in zip(sizes, rounds))
            left = learner.remaining
        losses, played = losses + game_loss, t
        record[f"e{k}"] = losses / t / EPS
    return record


def _elimination(case: str, n: int, target: int, rng: np.random.Generator) -> Record:
    """Rounds until the perfect rule is the one that is played."""
    eps = min(EPS, 1 / (6 * n)) if case == "nothing" else EPS
    make = instances.BlindInstance if case == "nothing" else instances.NonBallInstance
    population = make(n, eps, target=target)
    learner = SequentialElimination(population.hypotheses)
    stream = ApplicantStream(population, "blind", tie="random", random_state=rng.spawn(1)[0])
    played = last = 0
    while learner.current != target:
        game = stream.play_on(learner, 256)
        if game.mistakes:
            last = played + int(game.mistake_rounds[-1]) + 1
        played += len(game)
    empty = {f"e{k}": float("nan") for k in range(len(_times(n)))}
    return {"rounds": last * eps / EPS, **empty}  # scaled to the same eps for all n


def needed(frame: pd.DataFrame, case: str) -> tuple[FloatArray, FloatArray]:
    """Return the sizes and, for each, the smallest T with mean error at most eps."""
    sizes, found = [], []
    for n, part in frame[frame["case"] == case].groupby("n"):
        if case in ("nothing", "sets"):
            sizes.append(float(n))
            found.append(float(part["rounds"].mean()))
            continue
        times = np.array(_times(int(n)), dtype=float)
        mean = part[[f"e{k}" for k in range(times.size)]].to_numpy(dtype=float).mean(axis=0)
        if not (mean <= 1).any():
            continue
        k = int(np.argmax(mean <= 1))
        t = times[0]
        if k:  # interpolate on the logarithmic scale
            share = (mean[k - 1] - 1) / (mean[k - 1] - mean[k])
            t = float(np.exp(np.log(times[k - 1]) + share * np.log(times[k] / times[k - 1])))
        sizes.append(float(n))
        found.append(t)
    return np.array(sizes), np.array(found)


def _slope(frame: pd.DataFrame, case: str) -> Interval:
    sizes, found = needed(frame, case)
    return loglog_slope(sizes, found)


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    after, nothing, sets = (_slope(frame, case) for case in ("x after", "nothing", "sets"))
    return [
        Verdict(
            "02.14",
            "With features seen afterwards the number of agents grows like a small power of n.",
            f"exponent {after}",
            "< 0.6",
            after.estimate < 0.6,
        ),
        slope(
            "02.19",
            "With reported features only, a conservative learner needs about n times as many.",
            *needed(frame, "delta only"),
            expected=1.0,
            tolerance=0.25,
        ),
        Verdict(
            "02.19",
            "With nothing seen, and with unknown manipulation sets, elimination grows like n.",
            f"exponents {nothing} and {sets}",
            "about 1 (0.75 to 1.25)",
            all(0.75 <= s.estimate <= 1.25 for s in (nothing, sets)),
        ),
    ]


def _figure(frame: pd.DataFrame) -> Figure:
    """Agents needed until the expected error is at most eps (pairs), or until the perfect rule is
    found and verified (elimination; the exponent is that of the search alone), against the number
    of rules. Dashed: proportional to n and to log^2 n.
    """
    figure, (ax,) = panels(1, width=7.0)
    for (case, label), marker, color in zip(_LABELS.items(), "o^sv", PALETTE):
        sizes, found = needed(frame, case)
        exponent = _slope(frame, case).estimate
        if case in ("nothing", "sets"):  # one rule must also be verified
            found = found + [bounds.survivor_length(int(n) - 1, EPS, 1 / 8) for n in sizes]
        ax.plot(sizes, found, marker + "-", color=color, label=f"{label} (exponent {exponent:.2f})")
    n = np.array(sorted(frame["n"].unique()), dtype=float)
    x = needed(frame, "x after")[1][0]
    d = needed(frame, "delta only")[1][0]
    ax.plot(n, d * n / n[0], label="proportional to n", **THEORY)
    log = np.log(n) ** 2 / np.log(n[0]) ** 2
    ax.plot(n, x * log, label="proportional to log^2 n", **{**THEORY, "linestyle": ":"})
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="number of rules n",
        ylabel=f"agents needed (eps = {EPS:g})",
        title="The price of seeing less, in agents",
    )
    ax.set_xticks(n, [f"{int(v)}" for v in n])
    ax.xaxis.minorticks_off()
    ax.legend(fontsize=8)
    return figure


SAMPLE_COMPLEXITY = Study(
    name="sample-complexity",
    title="Agents needed in every information setting",
    question=(
        "How does the number of independent agents grow with the catalogue? Like log^2 n when "
        "their features are seen afterwards, like n when only reports or nothing is seen, or when "
        "manipulation sets are arbitrary."
    ),
    claims=("02.14", "02.19"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"agents": _figure},
)
