"""A real table: pairs of wines, swapped columns and flipped signs.

Source: docs/theory/11-invariance.md, "Measured".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.core.validation import FloatArray
from counterplay.studies.invariance.common import integer, plain_ticks
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

CASES = ("linear, sign flips", "RBF SVM, sign flips", "forest, column swaps")
LABELS = {"erm": "ERM", "erm_inv": "ERM-INV", "da": "augmentation",
          "da_vote": "augmentation + vote"}  # fmt: skip


def table_grid(scale: Scale) -> Sequence[Params]:
    """Models with their group, sample sizes, splits."""
    sizes, splits = ((40, 160), 4) if scale == "quick" else ((20, 40, 80, 160, 320), 25)
    return [{"case": c, "m": m, "split": r} for c in CASES for m in sizes for r in range(splits)]


def wine_pairs(
    rng: np.random.Generator, n_train: int, n_test: int
) -> tuple[FloatArray, np.ndarray[Any, Any], FloatArray, np.ndarray[Any, Any]]:
    """Pairs of wines, the one with more flavanoids first; label 1: of different cultivars.

    Rows are the 13 measurements of the first and of the second wine. Training and test pairs use
    different bottles.
    """
    from sklearn.datasets import load_wine
    from sklearn.preprocessing import StandardScaler

    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    order = rng.permutation(len(X))
    out: list[Any] = []
    for bottles, n in ((order[: len(X) // 2], n_train), (order[len(X) // 2 :], n_test)):
        a, b = rng.choice(bottles, size=(2, n))
        swap = X[a, 6] < X[b, 6]  # column 6: flavanoids
        a, b = np.where(swap, b, a), np.where(swap, a, b)
        out += [np.hstack([X[a], X[b]]), (y[a] != y[b]).astype(np.int64)]
    return out[0], out[1], out[2], out[3]


def table_cell(params: Params, seed: int) -> Record:
    """Error on natural (ordered) pairs, with and without the swapped copies."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    from counterplay.invariance import (
        AugmentedClassifier,
        ErmInvClassifier,
        OrbitVoteClassifier,
        groups,
    )

    rng = np.random.default_rng(seed)
    X, y, X_test, y_test = wine_pairs(rng, integer(params, "m"), 500)
    case = str(params["case"])
    if case.endswith("sign flips"):
        X, X_test = X[:, :13] - X[:, 13:], X_test[:, :13] - X_test[:, 13:]
        group: Any = groups.sign_flips(13)
    else:
        group = groups.column_permutations(26, blocks=[range(13), range(13, 26)])
    base: Any = {
        "linear": LogisticRegression(max_iter=500),
        "RBF SVM": SVC(C=10.0),
        "forest": RandomForestClassifier(40, random_state=0),
    }[case.split(",")[0]]
    erm = FrozenEstimator(base.fit(X, y))
    da = FrozenEstimator(AugmentedClassifier(base, group).fit(X, y))
    models = {
        "erm": erm,
        "erm_inv": ErmInvClassifier(erm, group, on_conflict="majority"),
        "da": da,
        "da_vote": OrbitVoteClassifier(da, group),
    }
    out = {name: 1 - float(model.fit(X, y).score(X_test, y_test)) for name, model in models.items()}
    return {**out, "same": float((y_test == 0).mean())}


def table_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Augmentation hurts the linear class and not the curved one."""
    late = frame[frame["m"] == frame["m"].max()].set_index("case")
    harm, gain, lookup = (
        mean_interval(frame.loc[frame["case"] == case, worse] - frame.loc[frame["case"] == case,
                                                                         better], 0.99)
        for case, worse, better in ((CASES[0], "da", "erm"), (CASES[1], "erm", "da"),
                                    (CASES[0], "da", "erm_inv"))
    )  # fmt: skip
    base = float((late.loc[CASES[0], "da"] - late.loc[CASES[0], "same"]).abs().mean())
    return [
        Verdict("11.24", "A linear function of differences cannot be even: augmentation hurts.",
                str(harm), "> 0 (error above ERM)", harm.low > 0),
        Verdict("11.24", "With flipped copies the linear class answers with the base rate.",
                f"off by {base:.3f}", "< 0.05", base < 0.05),
        Verdict("11.24", "The look-up does not have that problem.", str(lookup),
                "> 0 (error of DA above ERM-INV)", lookup.low > 0),
        Verdict("11.24", "An RBF machine can be even: augmentation helps.", str(gain),
                "> 0 (error of ERM above DA)", gain.estimate > 0),
    ]  # fmt: skip


def table_figure(frame: pd.DataFrame) -> Figure:
    """Are two wines of different cultivars? The answer does not depend on which comes first.
    Natural pairs have the wine with more flavanoids first. Swapped copies help models that can use
    them and reduce the linear one to the base rate (dashed).
    """
    figure, axes = panels(3, width=4.6)
    for ax, case in zip(axes, CASES):
        part = frame[frame["case"] == case]
        for offset, ((name, label), colour) in enumerate(zip(LABELS.items(), PALETTE)):
            groups = part.groupby("m")[name]
            ax.errorbar(groups.mean().index * 1.05 ** (offset - 1.5), groups.mean(),
                        2 * groups.sem().fillna(0), fmt="os^D"[offset] + "-", capsize=3,
                        color=colour, label=label)  # fmt: skip
        ax.axhline(float(part["same"].mean()), label='always "different"', **THEORY)
        ax.set(xscale="log", xlabel="training pairs", ylabel="error on natural pairs", title=case,
               ylim=(0, 0.55))  # fmt: skip
        plain_ticks(ax, sorted(set(part["m"].astype(int))))
        ax.legend(fontsize=7)
    return figure


TABLE = Study(
    name="table",
    title="A table with interchangeable columns",
    question=(
        "Pairs of wines: swapping the two blocks of columns, or the sign of their difference, does "
        "not change whether they are of different cultivars. Who profits from swapped copies?"
    ),
    claims=("11.24",),
    grid=table_grid,
    cell=table_cell,
    verdicts=table_verdicts,
    figures={"table": table_figure},
    version=2,
)
