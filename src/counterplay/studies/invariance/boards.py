"""Real boards with an exact symmetry. Source: docs/theory/11-invariance.md, "Measured"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.studies.invariance.common import integer, plain_ticks
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


MODELS = ("tree", "linear SVM", "RBF SVM")


def boards_grid(scale: Scale) -> Sequence[Params]:
    """Models, sample sizes, splits."""
    sizes, splits = ((50, 200), 3) if scale == "quick" else ((25, 50, 100, 200, 400), 15)
    return [{"model": model, "m": m, "split": r} for model in MODELS for m in sizes
            for r in range(splits)]  # fmt: skip


def boards_cell(params: Params, seed: int) -> Record:
    """Natural test error of the five candidates on tic-tac-toe endgames."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.svm import SVC, LinearSVC
    from sklearn.tree import DecisionTreeClassifier

    from counterplay.invariance import (
        AugmentedClassifier,
        ErmInvClassifier,
        OrbitVoteClassifier,
        groups,
    )
    from counterplay.invariance.lab import one_hot_boards, tic_tac_toe_endgames

    X, y = tic_tac_toe_endgames()
    X, group = one_hot_boards(X), groups.d4((3, 3, 3))
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[: integer(params, "m")], order[integer(params, "m") :]
    base: Any = {
        "tree": DecisionTreeClassifier(random_state=0),
        "linear SVM": LinearSVC(random_state=0, C=1.0),
        "RBF SVM": SVC(C=10.0),
    }[str(params["model"])]
    erm = FrozenEstimator(base.fit(X[train], y[train]))
    da = FrozenEstimator(AugmentedClassifier(base, group).fit(X[train], y[train]))
    erm_inv = ErmInvClassifier(erm, group)
    models: dict[str, Any] = {
        "erm": erm,
        "erm_inv": erm_inv,
        "da": da,
        "da_inv": ErmInvClassifier(da, group),
        "da_vote": OrbitVoteClassifier(da, group),
    }
    out: dict[str, float] = {
        name: 1 - model.fit(X[train], y[train]).score(X[test], y[test])
        for name, model in models.items()
    }
    out["known_orbits"] = float((erm_inv.lookup(X[test]) >= 0).mean())
    return out


def boards_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Augmentation helps the tree; the look-up wins for the linear class."""
    tree = frame[(frame["model"] == "tree") & (frame["m"] == 200)]
    linear = frame[(frame["model"] == "linear SVM") & (frame["m"] == 200)]
    gain = float(tree["erm"].mean() / max(tree["da"].mean(), 1e-9))
    look = float((linear["da"] - linear["da_inv"]).mean())
    curved = frame[(frame["model"] == "RBF SVM") & (frame["m"] == 200)]
    never = float((frame["erm_inv"] - frame["erm"]).max())
    return [
        Verdict("11.24", "The look-up never makes the base worse on these boards.",
                f"{never:.4f} at most", "<= 0", never <= 1e-12),
        Verdict("11.24", "With an RBF machine augmentation helps, too (m = 200).",
                f"{curved['erm'].mean():.4f} to {curved['da'].mean():.4f}", "lower",
                bool(curved["da"].mean() < curved["erm"].mean())),
        Verdict("11.24", "With a tree (setting (i)) augmentation cuts the error at m = 200.",
                f"{gain:.1f} times", "> 3", gain > 3),
        Verdict("11.24", "With a linear class (agnostic) the look-up improves on augmentation.",
                f"{look:.4f} lower error", ">= 0", look >= 0),
    ]  # fmt: skip


def boards_figure(frame: pd.DataFrame) -> Figure:
    """Tic-tac-toe endgames with the eight symmetries of the board. Grey: share of test boards whose
    orbit is in the training set. Trees and RBF machines
    profit from augmentation, a linear class from look-ups.
    """
    figure, axes = panels(3, width=4.8)
    labels = {"erm": "ERM", "erm_inv": "ERM-INV", "da": "DA", "da_inv": "DA+INV",
              "da_vote": "DA+vote"}  # fmt: skip
    for ax, model in zip(axes, MODELS):
        part = frame[frame["model"] == model]
        share = part.groupby("m")["known_orbits"].mean()
        twin = ax.twinx()
        twin.fill_between(share.index, share, color="#CCCCCC", alpha=0.4, lw=0)
        twin.set_ylim(0, 1)
        twin.grid(False)
        twin.set_ylabel("share of known orbits")
        for (name, label), colour in zip(labels.items(), PALETTE):
            mean = part.groupby("m")[name].mean()
            style = "s--" if name.startswith("da_") else "o-"
            ax.plot(mean.index, mean, style, color=colour, label=label)
        ax.set_zorder(twin.get_zorder() + 1)
        ax.patch.set_visible(False)
        ax.set(xscale="log", xlabel="training boards", ylabel="natural test error", title=model)
        plain_ticks(ax, sorted(set(part["m"])))
        ax.legend(fontsize=8)
    return figure


BOARDS = Study(
    name="tic-tac-toe",
    title="Real boards with an exact symmetry",
    question=("958 endgames, 138 orbits. When does augmentation, when does the look-up win?"),
    claims=("11.24",),
    grid=boards_grid,
    cell=boards_cell,
    verdicts=boards_verdicts,
    figures={"tic-tac-toe": boards_figure},
    version=2,
)
