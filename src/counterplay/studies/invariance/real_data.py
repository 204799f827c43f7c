"""Boards, pairs of wines, digits on coloured paper: real rows with an exact symmetry.

Source: docs/theory/11-invariance.md, "Measured" and "Example 11.5: birds".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.core.validation import FloatArray
from counterplay.studies.invariance.common import (
    draw_means,
    integer,
    plain_ticks,
    wrapped,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, equals

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
    from sklearn.svm import SVC, LinearSVC
    from sklearn.tree import DecisionTreeClassifier

    from counterplay.invariance import groups
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
    models = wrapped(base, group, X[train], y[train])
    out = {name: 1 - float(model.score(X[test], y[test])) for name, model in models.items()}
    return {**out, "known_orbits": float((models["erm_inv"].lookup(X[test]) >= 0).mean())}


def boards_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Augmentation helps the tree; the look-up wins for the linear class."""
    tree = frame[(frame["model"] == "tree") & (frame["m"] == 200)]
    linear = frame[(frame["model"] == "linear SVM") & (frame["m"] == 200)]
    gain = float(tree["erm"].mean() / max(tree["da"].mean(), 1e-9))
    look = float((linear["da"] - linear["da_inv"]).mean())
    curved = frame[(frame["model"] == "RBF SVM") & (frame["m"] == 200)]
    never = float((frame["erm_inv"] - frame["erm"]).max())
    return [
        at_most("11.24", "The look-up never makes the base worse on these boards.", never, 0,
                slack=1e-12),
        Verdict("11.24", "With an RBF machine augmentation helps, too (m = 200).",
                f"{curved['erm'].mean():.4f} to {curved['da'].mean():.4f}", "lower",
                bool(curved["da"].mean() < curved["erm"].mean())),
        at_least("11.24", "With a tree (setting (i)) augmentation cuts the error at m = 200.",
                 gain, 3, what="times"),
        at_least("11.24", "With a linear class (agnostic) the look-up improves on augmentation.",
                 look, 0, what="error lower by"),
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


CASES = ("linear, sign flips", "RBF SVM, sign flips", "forest, column swaps")
PAIR_LABELS = {"erm": "ERM", "erm_inv": "ERM-INV", "da": "augmentation",
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
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    from counterplay.invariance import groups

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
    models = wrapped(base, group, X, y, on_conflict="majority")
    out = {name: 1 - float(models[name].score(X_test, y_test)) for name in PAIR_LABELS}
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
        at_most("11.24", "With flipped copies the linear class answers with the base rate.", base,
                0.05, what="off by"),
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
        draw_means(ax, part, "m", PAIR_LABELS, fmt=["o-", "s-", "^-", "D-"], shift=1.05)
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


FEATURES = ("colour alone", "all pixels")
COLOUR_LABELS = {
    "erm": "ERM",
    "erm_inv": "ERM-INV",
    "da": "augmentation",
    "da_inv": "augmentation + INV",
}


def colours_grid(scale: Scale) -> Sequence[Params]:
    """Features, sample sizes, splits."""
    sizes, splits = ((10, 80), 5) if scale == "quick" else ((5, 10, 20, 40, 80, 160), 20)
    return [{"features": f, "m": m, "split": r} for f in FEATURES for m in sizes
            for r in range(splits)]  # fmt: skip


def coloured_digits(rng: np.random.Generator) -> tuple[FloatArray, np.ndarray[Any, Any]]:
    """Threes on the first background colour and eights on the second, shape (n, 8, 8, 2)."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    keep = rng.permutation(np.flatnonzero((y == 3) | (y == 8)))
    other = int(np.flatnonzero(y[keep] != y[keep[0]])[0])
    keep[[1, other]] = keep[[other, 1]]  # both classes are among the first two
    ink, labels = X[keep].reshape(-1, 8, 8) / 16.0, (y[keep] == 8).astype(np.int64)
    images = np.repeat(ink[..., None], 2, axis=3)
    own = np.arange(2) == labels[:, None]  # natural data: the colour tells the class
    strength = 0.5 + 0.2 * rng.random(len(ink))
    paper = (1.0 - ink) * strength[:, None, None]
    return images + paper[..., None] * own[:, None, None, :], labels


def colours_cell(params: Params, seed: int) -> Record:
    """Error on natural images of logistic regression with and without swapped colours."""
    from sklearn.linear_model import LogisticRegression

    from counterplay.invariance import groups

    images, y = coloured_digits(np.random.default_rng(seed))
    group: Any
    if params["features"] == "colour alone":
        hue = images.mean(axis=(1, 2)) @ [[1.0], [-1.0]]  # which paper, and how bright
        X, group = hue, groups.sign_flips(1)
    else:
        X, group = images.reshape(len(images), -1), groups.colour_permutations((8, 8, 2))
    m = integer(params, "m")
    models = wrapped(LogisticRegression(C=100.0, max_iter=500), group, X[:m], y[:m])
    return {name: 1 - float(models[name].score(X[m:], y[m:])) for name in COLOUR_LABELS}


def colours_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Perfect without, a coin toss with augmentation if only the colour is seen."""
    late = frame[frame["m"] == frame["m"].max()]
    colour, pixels = (late[late["features"] == name] for name in FEATURES)
    cost = mean_interval(pixels["da"] - pixels["erm"], 0.99)
    return [
        equals("11.11", "On the colour alone, ERM and the look-up are perfect.",
               float(colour["erm_inv"].max()), 0),
        equals("11.11", "On the colour alone, augmentation leaves a coin toss.",
               float(colour["da"].mean()), 0.5, tolerance=0.06),
        Verdict("11.11", "With all pixels augmentation learns the shape; it never beats ERM here.",
                str(cost), ">= 0 (error above ERM)", cost.high >= 0),
    ]  # fmt: skip


def colours_figure(frame: pd.DataFrame) -> Figure:
    """Threes and eights pasted on two background colours, the group swaps the colours. A model that
    sees only the colour is destroyed by augmentation (dashed: a coin toss, the exact value);
    one that sees all pixels has to learn the shape instead.
    """
    figure, axes = panels(2, width=5.2)
    for ax, name in zip(axes, FEATURES):
        part = frame[frame["features"] == name]
        draw_means(ax, part, "m", COLOUR_LABELS, fmt=list("os^D"), shift=1.04)
        if name == "colour alone":
            ax.axhline(0.5, label="exact: 1/2", **THEORY)
        ax.set(xscale="log", xlabel="training images", ylabel="error on natural images",
               ylim=(-0.02, 0.7), title=f"logistic regression on {name}")  # fmt: skip
        plain_ticks(ax, sorted(set(part["m"].astype(int))))
        ax.legend(fontsize=8)
    return figure


COLOURS = Study(
    name="coloured-digits",
    title="Digits on coloured backgrounds",
    question=(
        "Real digits on two paper colours that could be swapped without changing the label. What "
        "does augmentation do to a model that sees only the colour, and to one that sees all?"
    ),
    claims=("11.11",),
    grid=colours_grid,
    cell=colours_cell,
    verdicts=colours_verdicts,
    figures={"coloured-digits": colours_figure},
    version=2,
)
