"""One clean point breaks the support vector machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.stats import clopper_pearson
from counterplay.poisoning import bounds
from counterplay.poisoning.instances import svm_half_sphere
from counterplay.poisoning.lab import HardMarginSVM
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Attack success measured with an independent solver, 60 runs each; see
# docs/theory/10-poisoning.md, "Theorem 10.6: one point breaks the SVM".
REFERENCE = {
    (3, 1): 0.60, (3, 5): 0.33, (3, 20): 0.12, (3, 100): 0.0, (3, 400): 0.0,
    (10, 1): 1.0, (10, 5): 0.92, (10, 20): 0.78, (10, 100): 0.48, (10, 400): 0.40,
    (20, 1): 1.0, (20, 5): 1.0, (20, 20): 0.87, (20, 100): 0.72, (20, 400): 0.72,
    (50, 1): 1.0, (50, 5): 1.0, (50, 20): 1.0, (50, 100): 0.97, (50, 400): 0.97,
    (200, 1): 1.0, (200, 5): 1.0, (200, 20): 1.0, (200, 100): 1.0, (200, 400): 1.0,
}  # fmt: skip


def _grid(scale: Scale) -> Sequence[Params]:
    runs = 40 if scale == "quick" else 300
    sizes = (1, 5, 20, 100) if scale == "quick" else (1, 5, 20, 100, 400)
    dims = (3, 10, 20, 50) if scale == "quick" else (3, 10, 20, 50, 200)
    return [{"n": n, "m_plus": m, "replicates": runs} for n in dims for m in sizes]


def _cell(params: Params, seed: int) -> Record:
    n, m, runs = (int(params[name] or 0) for name in ("n", "m_plus", "replicates"))
    rng = np.random.default_rng(seed)
    attacked = errors = 0
    for _ in range(runs):
        game = svm_half_sphere(n, m, random_state=rng)
        both = game.S + game.attacker.attack(game.target, game.S, game.X_test[0], budget=1)
        attacked += int(HardMarginSVM().fit(both.X, both.y).predict(game.X_test)[0] == 0)
        errors += int(HardMarginSVM().fit(game.S.X, game.S.y).predict(game.X_test)[0] == 0)
    span = clopper_pearson(attacked, runs, 0.999)
    return {
        "attacked": attacked / runs,
        "low": span.low,
        "high": span.high,
        "error": errors / runs,
    }


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    found = []
    for row in frame.itertuples():
        reference = REFERENCE.get((int(row.n), int(row.m_plus)))
        if reference is None:
            continue
        other = clopper_pearson(round(60 * reference), 60, 0.999)  # the reference is 60 runs, too
        found.append(
            Verdict(
                "10.26",
                f"one clean point against the SVM, n = {row.n}, {row.m_plus} positives",
                f"{row.attacked:.2f} [{row.low:.2f}, {row.high:.2f}]",
                f"{reference:.2f} from 60 independent runs",
                bool(row.low <= other.high and other.low <= row.high),
            )
        )
    return found


def _figure(frame: pd.DataFrame) -> Figure:
    """How often one correctly labelled point flips the hard-margin SVM, by dimension and number of
    positive rows; in brackets and as contours the error without poison. The theorem speaks of sizes
    left of the dashed line, max(1, e^(n/128)/96): the effect is much stronger than the bound."""
    figure, (axes,) = panels(1, width=6.4, height=4.2)
    axes.grid(False)
    table = frame.pivot(index="n", columns="m_plus", values="attacked")
    errors = frame.pivot(index="n", columns="m_plus", values="error")
    image = axes.imshow(
        table.to_numpy(), vmin=0, vmax=1, cmap="cividis", aspect="auto", origin="lower"
    )
    for i, n in enumerate(table.index):
        for j, m in enumerate(table.columns):
            value = table.loc[n, m]
            text = f"{value:.2f}\n({errors.loc[n, m]:.2f})"
            color = "white" if value < 0.5 else "black"
            axes.text(j + 0.08, i, text, ha="left", va="center", color=color, fontsize=9)
    axes.set_xticks(range(len(table.columns)), [str(c) for c in table.columns])
    axes.set_yticks(range(len(table.index)), [str(n) for n in table.index])
    frontier = [bounds.one_point_svm_size(n, 1 / 8) for n in table.index]
    place = np.interp(
        np.log(frontier), np.log(table.columns.to_numpy(float)), range(len(table.columns))
    )
    axes.plot(place, range(len(table.index)), "--", color=PALETTE[1], linewidth=2,
              label="the theorem speaks of sizes left of this")  # fmt: skip
    for level, color in ((0.1, PALETTE[3]), (0.02, "white")):
        axes.contour(errors.to_numpy(), levels=[level], colors=[color], linewidths=1.5)
        axes.plot([], [], color=PALETTE[3] if level == 0.1 else "#bbbbbb",
                  label=f"error without poison {level:g}")  # fmt: skip
    figure.legend(fontsize=8, loc="outside upper center", ncols=3)
    axes.set(xlabel="positive training rows m+", ylabel="dimension n")
    figure.colorbar(image, ax=axes, label="flipped by one clean point")
    return figure


SVM = Study(
    name="one-point-svm",
    title="One clean point breaks the SVM",
    question=(
        "Positives on a half sphere, negatives at one pole, a margin in between. How often does a "
        "single correctly labelled point make the maximum-margin separator wrong at a given point?"
    ),
    claims=("10.26",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"heat-map": _figure},
)
