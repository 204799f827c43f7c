"""The best way to use a symmetry depends on which rows will come: error against their mixture.

Source: docs/theory/22-symmetry.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.studies.invariance.common import integer
from counterplay.studies.invariance.symmetry_advice import fitted
from counterplay.studies.invariance.symmetry_settings import task
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

WAYS = ("plain", "augment", "canonical", "kernel", "kernel, no symmetry")
SHOWN = ("plain", "vote", "augment", "augment+vote", "canonical", "smallest", "features", "kernel",
         "features, no symmetry", "kernel, no symmetry", "kernel, augmented")  # fmt: skip
SETTING = "digits upright, quarter turns, forest"


def future_grid(scale: Scale) -> Sequence[Params]:
    """Random training sets, their rows, and the shares of turned rows that are asked for."""
    if scale == "quick":
        return [{"set": 0, "rows": 150, "shares": "0 1"}]
    return [{"set": r, "rows": 400, "shares": "0 0.05 0.2 1"} for r in range(6)]


def future_cell(params: Params, seed: int) -> Record:
    """Errors of all ways on natural and on turned digits, and of the advisor for some mixtures."""
    from counterplay.invariance import symmetry_advisor
    from counterplay.invariance.random_images import random_images

    one = task(SETTING, seed)
    rows = integer(params, "rows")
    one = replace(one, X=one.X[:rows], y=one.y[:rows])
    turned = random_images(one.X_test, one.group, np.random.default_rng(seed))[0]
    out: dict[str, float | str] = {}
    for name, model in fitted(one, set(WAYS), seed).items():
        for kind, asked in (("natural", one.X_test), ("turned", turned)):
            out[f"{name}, {kind}"] = 1 - float(model.score(asked, one.y_test))
    for share in map(float, str(params["shares"]).split()):
        advice = symmetry_advisor(one.model, one.X, one.y, one.group, future=share, check=False,
                                  candidates=list(SHOWN), random_state=seed)  # fmt: skip
        natural, moved = (1 - advice.model.score(X, one.y_test) for X in (one.X_test, turned))
        out[f"advisor {share:g}"] = float((1 - share) * natural + share * moved)
        out[f"choice {share:g}"] = advice.recommendation
        tried = advice.to_frame().set_index("candidate")["error"]
        out |= {f"{name} {share:g}": float(tried[name]) for name in SHOWN}
        out |= {f"low {share:g}": advice.error_low, f"high {share:g}": advice.error_high,
                f"error {share:g}": advice.error}  # fmt: skip
    return out


def _lines(frame: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Mean error of every way on natural and on turned rows."""
    return {
        name: (float(frame[f"{name}, natural"].mean()), float(frame[f"{name}, turned"].mean()))
        for name in WAYS
    }


def _shares(frame: pd.DataFrame) -> list[float]:
    return [float(share) for share in str(frame["shares"].iloc[0]).split()]


def _best(lines: dict[str, tuple[float, float]], share: float) -> tuple[str, float]:
    errors = {name: (1 - share) * a + share * b for name, (a, b) in lines.items()}
    best = min(errors, key=lambda name: errors[name])
    return best, errors[best]


def future_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """The best way changes with the mixture, and the advisor follows it."""
    lines = _lines(frame)
    best = [_best(lines, share)[1] for share in _shares(frame)]
    mine = [float(frame[f"advisor {share:g}"].mean()) for share in _shares(frame)]
    place = int(np.argmax(np.array(mine) - best))
    regret = mine[place] - best[place]
    tests = 1300 * len(frame)  # pictures that are asked
    slack = 2 * np.sqrt(mine[place] * (1 - mine[place]) / tests)
    ways = {_best(lines, share)[0] for share in (0.0, 1.0)}
    return [
        Verdict("22.13", "The advisor is near the best way for every mixture of future rows.",
                f"largest mean regret {regret:.4f}", f"<= .01 + {slack:.4f} (2 standard errors)",
                bool(regret <= 0.01 + slack)),
        Verdict("22.12", "The best way for natural rows is not the best for turned ones.",
                " / ".join(sorted(ways)), "two ways", len(ways) == 2),
    ]  # fmt: skip


def future_figure(frame: pd.DataFrame) -> Figure:
    """Error of every way on digits of which a share comes turned (lines; hollow ends: without the
    symmetry), where the best way changes (dotted), and the model that the advisor chose (crosses).
    """
    lines = _lines(frame)
    figure, (ax,) = panels(1, width=6.5, height=4.2)
    q = np.linspace(0, 1, 2001)
    for name, colour in zip(WAYS, PALETTE):
        a, b = lines[name]
        plain = name in ("plain", "kernel, no symmetry")
        ax.plot(q, (1 - q) * a + q * b, color=colour, label=name)
        ax.plot([0, 1], [a, b], "o", color=colour, mfc="white" if plain else colour)
    winners = [_best(lines, float(share))[0] for share in q]
    for place in np.flatnonzero(np.array(winners[1:]) != np.array(winners[:-1])):
        ax.axvline(q[place + 1], color="#444444", ls=":", lw=1)
        ax.text(q[place + 1], 0.012, f" {q[place + 1]:.2f}", fontsize=8, va="bottom")
    shares = _shares(frame)
    ax.plot(shares, [frame[f"advisor {share:g}"].mean() for share in shares], "kx", ms=8, mew=2,
            label="the advisor")  # fmt: skip
    ax.set(xlabel="share of future rows that are turned", ylabel="test error (log scale)",
           yscale="log", ylim=(0.01, 1.0))  # fmt: skip
    ax.legend(fontsize=8, loc="upper left")
    return figure


def candidates_figure(frame: pd.DataFrame) -> Figure:
    """Cross-validated errors of all candidates on upright digits and on digits that will come
    turned (hollow: without the symmetry), and the error of the advisor's choice
    with its corrected interval (green). Means over random training sets.
    """
    from counterplay.invariance.advisor_families import SYMMETRIC

    figure, axes = panels(2, width=4.6, height=4.4)
    for ax, share, title in zip(axes, ("0", "1"), ("natural rows", "turned rows")):
        for place, name in enumerate(SHOWN):
            known = name in SYMMETRIC
            ax.plot(frame[f"{name} {share}"].mean(), place, "o",
                    color=PALETTE[0] if known else PALETTE[1],
                    mfc=PALETTE[0] if known else "white")  # fmt: skip
        low, error, high = (float(frame[f"{word} {share}"].mean())
                            for word in ("low", "error", "high"))  # fmt: skip
        ax.plot([low, high], [len(SHOWN)] * 2, color=PALETTE[2], lw=3)
        ax.plot(error, len(SHOWN), "d", color=PALETTE[2])
        ax.set_yticks(np.arange(len(SHOWN) + 1), [*SHOWN, "the advisor"], fontsize=8)
        ax.invert_yaxis()
        ax.set(xlabel="cross-validated error", xlim=(0, None))
        ax.set_title(title, fontsize=10)
    return figure


FUTURE = Study(
    name="symmetry-future",
    title="Which rows will come",
    question="How does the best way to use a symmetry change with the share of transformed rows?",
    claims=("22.12", "22.13"),
    grid=future_grid,
    cell=future_cell,
    verdicts=future_verdicts,
    figures={"symmetry-future": future_figure, "candidates": candidates_figure},
    version=2,
)
