"""What labels of real data say about transformations: true symmetries, wrong ones, undecidable.

Source: docs/theory/22-symmetry.md, "The matched-neighbour test" and "The residual test".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.validation import FloatArray
from counterplay.studies.invariance.symmetry_settings import has_fashion
from counterplay.studies.invariance.symmetry_worlds import wine_sets
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BUNDLED = ("digits, upside down", "digits, half turn", "digits, mirror", "digits, 1-pixel jitter",
           "digits, +-90 degrees", "digits, transpose", "tic-tac-toe, D4",
           "tic-tac-toe, centre and corner")  # fmt: skip
PICTURES = ("MNIST, half turn", "MNIST, mirror", "MNIST, 1-pixel jitter", "MNIST, 3-pixel jitter",
            "MNIST, upside down", "EMNIST letters, mirror", "EMNIST letters, half turn",
            "CIFAR-10 grey, mirror", "CIFAR-10 grey, upside down")  # fmt: skip
CLOTHES = ("Fashion, mirror", "Fashion, half turn", "Fashion, 1-pixel jitter",
           "Fashion, upside down")  # fmt: skip
TABLES = ("wine, alcohol and density", "wine, sign of alcohol", "wine, sulphur columns",
          "wine, sets of 3", "Spambase, hp and remove")  # fmt: skip


def labels_grid(scale: Scale) -> Sequence[Params]:
    """Questions and seeds."""
    if scale == "quick":
        return [{"question": name, "replicate": 0} for name in (BUNDLED[0], BUNDLED[6])]
    clothes = CLOTHES if has_fashion() else ()
    real = (*PICTURES, *clothes, *TABLES) if os.environ.get("COUNTERPLAY_DATA") else ()
    seeds = {"digits, half turn": 3, **dict.fromkeys(TABLES, 5)}  # folds of tables are random
    return [{"question": name, "replicate": r}
            for name in (*BUNDLED, *real) for r in range(seeds.get(name, 1))]  # fmt: skip


def labels_cell(params: Params, seed: int) -> Record:
    """One check."""
    from counterplay.invariance import check_symmetry

    name = str(params["question"])
    X, y, group = _asked(name)
    method: Any = "residual" if name in TABLES else "neighbours"
    kind: Any = "board" if name.startswith("tic") else "auto"
    check = check_symmetry(X, y, group, method=method, kind=kind, max_rows=3000, random_state=seed)
    top = check.conflicts.head(2).to_numpy().tolist()
    return {
        "verdict": check.verdict, "p": check.p_value, "share": check.testable_share,
        "low": check.eta_low, "high": check.eta_high, "safe": check.eta_safe,
        "tuples": check.n_tuples, "conflicts": ", ".join(f"{a}-{b} {k}" for a, b, k in top),
        "t": float("nan") if check.residual is None else check.residual.statistic,
        "natural": float("nan") if check.natural is None else check.natural.accuracy,
    }  # fmt: skip


def _asked(name: str) -> tuple[FloatArray, Any, Any]:
    data, what = name.split(", ", 1)
    if data in ("wine", "Spambase"):
        return _table(name)
    X, y, shape = _pictures(data)
    return X, y, _map(what, shape)


def _map(what: str, shape: tuple[int, int]) -> Any:
    from counterplay.invariance import groups
    from counterplay.invariance.lab import CoordinatePermutationGroup

    places = np.arange(shape[0] * shape[1])
    grid = places.reshape(shape)
    if what == "+-90 degrees":
        turns = [np.rot90(grid, k).reshape(-1) for k in (0, 1, 3)]
        maps = [partial(np.take, indices=turn, axis=1) for turn in turns]
        return groups.from_callables(maps, grid.size, is_group=False)
    if what == "centre and corner":
        swapped = places.copy()
        swapped[[0, 4]] = 4, 0
        return CoordinatePermutationGroup(np.array([places, swapped]))
    if what == "transpose":
        return CoordinatePermutationGroup(np.array([places, grid.T.reshape(-1)]))
    made: dict[str, Callable[[], Any]] = {
        "upside down": lambda: groups.image_flips(shape, ["vertical"]),
        "mirror": lambda: groups.image_flips(shape, ["horizontal"]),
        "half turn": lambda: groups.image_rotations(shape, 2),
        "1-pixel jitter": lambda: groups.image_jitter(shape),
        "3-pixel jitter": lambda: groups.image_jitter(shape, pixels=3),
        "D4": lambda: groups.d4(shape),
    }
    return made[what]()


@lru_cache(maxsize=8)
def _pictures(name: str) -> tuple[FloatArray, Any, tuple[int, int]]:
    from sklearn.datasets import load_digits

    from counterplay import datasets
    from counterplay.invariance.lab import tic_tac_toe_endgames

    if name == "digits":
        return *load_digits(return_X_y=True), (8, 8)
    if name == "tic-tac-toe":
        return *tic_tac_toe_endgames(), (3, 3)
    rng = np.random.default_rng(0)
    if name == "CIFAR-10 grey":
        X, y = datasets.fetch("cifar10", return_X_y=True)
        pick = rng.permutation(len(X))[:3000]
        grey = np.asarray(X[np.sort(pick)], dtype=np.float64).reshape(-1, 32, 32, 3).mean(axis=3)
        return grey.reshape(len(grey), -1), np.asarray(y)[np.sort(pick)], (32, 32)
    sets = {"MNIST": "mnist", "Fashion": "fashion_mnist"}
    X, y = datasets.fetch(sets.get(name, "emnist_balanced"), return_X_y=True)
    letters = (np.asarray(y) >= 10) & (np.asarray(y) < 36)
    keep = np.arange(len(X)) if name in sets else np.flatnonzero(letters)
    pick = np.sort(rng.permutation(keep)[:3000])
    return np.asarray(X[pick], dtype=np.float64).reshape(len(pick), -1), np.asarray(y)[pick], (
        28, 28,
    )  # fmt: skip


def _table(name: str) -> tuple[FloatArray, Any, Any]:
    from sklearn.preprocessing import StandardScaler

    from counterplay import datasets
    from counterplay.invariance import groups

    if name == "wine, sets of 3":
        return wine_sets()
    if name.startswith("wine"):
        frame: Any = datasets.fetch("wine_quality").frame
        columns = frame.drop(columns="quality").select_dtypes("number")
        rows = StandardScaler().fit_transform(columns.to_numpy(dtype=np.float64))
        place = {str(c).replace(" ", "_"): k for k, c in enumerate(columns)}
        y = frame["quality"].to_numpy().astype(int)
        if name == "wine, sign of alcohol":
            return rows, y, groups.sign_flips(rows.shape[1], columns=[[place["alcohol"]]])
        sulphur = ("free_sulfur_dioxide", "total_sulfur_dioxide")
        both = ("alcohol", "density") if name.endswith("density") else sulphur
        pair = [[place[c]] for c in both]
        return rows, y, groups.column_permutations(rows.shape[1], blocks=pair)
    data: Any = datasets.fetch("spambase")
    rows = np.log1p(np.asarray(data.X, dtype=np.float64))
    names = [str(c) for c in data.feature_names]
    pair = [[names.index(f"word_freq_{word}")] for word in ("hp", "remove")]
    return rows, np.asarray(data.y), groups.column_permutations(rows.shape[1], blocks=pair)


def labels_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """The expected answers, where something is known."""
    found = frame.groupby("question", sort=False).first()
    out = []
    for name, claim, words in (
        ("digits, upside down", "22.01", ("violated",)),
        ("digits, mirror", "22.01", ("no violation seen",)),
        ("digits, 1-pixel jitter", "22.01", ("no violation seen", "holds up to eta0")),
        ("digits, +-90 degrees", "22.01", ("not testable",)),
        ("digits, transpose", "22.01", ("not testable",)),
        ("tic-tac-toe, D4", "22.05", ("holds up to eta0",)),
        ("tic-tac-toe, centre and corner", "22.05", ("violated",)),
    ):
        if name in found.index:
            said = str(found.loc[name, "verdict"])
            out.append(Verdict(claim, name, said, " or ".join(words), said in words))
    turned = frame[frame["question"] == "digits, half turn"]
    if len(turned):
        below = int((turned["p"] < 0.05).sum())
        out.append(Verdict("22.01", "digits, half turn: p < .05", f"{below} of {len(turned)}",
                           ">= 2 of 3", below >= 2))  # fmt: skip
    for name, low, high in (
        ("wine, alcohol and density", 8, np.inf), ("wine, sign of alcohol", 8, np.inf),
        ("wine, sets of 3", -3, 3), ("Spambase, hp and remove", 5, np.inf),
    ):  # fmt: skip
        if name in found.index:
            values = frame[frame["question"] == name]["t"]
            t = float(values.median())
            wanted = f"|t| < {high:g}" if np.isfinite(high) else f"t > {low:g}"
            said = f"median t = {t:.1f} ({values.min():.1f} to {values.max():.1f})"
            out.append(Verdict("22.09", f"{name}: residual test", said, wanted, low < t < high))
    return out


def labels_figure(frame: pd.DataFrame) -> Figure:
    """Interval of the violation rate of every transformation; grey bars are the share of rows that
    can be tested (overlap for tables). Orange: violated, green: holds, blue: not seen.
    """
    colours = {"violated": PALETTE[1], "holds up to eta0": PALETTE[2],
               "no violation seen": PALETTE[0], "not testable": "#999999"}  # fmt: skip
    rows = frame.groupby("question", sort=False).first()
    figure, (ax,) = panels(1, width=7.0, height=0.3 * len(rows) + 1.2)
    for place, row in enumerate(rows.to_dict(orient="records")):
        ax.barh(place, row["share"], 0.8, color="#DDDDDD")
        if row["verdict"] != "not testable":
            ax.plot([row["low"], row["high"]], [place, place], lw=4, color=colours[row["verdict"]])
    ax.set_yticks(np.arange(len(rows)), rows.index.tolist(), fontsize=8)
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="violation rate (grey: testable share)")
    return figure


def clash_figure(frame: pd.DataFrame) -> Figure:
    """Digits after a half turn that land among digits of another label: the row, its image, and the
    nearest row of the image.
    """
    from counterplay.invariance import check_symmetry

    del frame  # pictures are no numbers of a cell: drawn from the data
    X, y, group = _asked("digits, half turn")
    figure, (ax,) = panels(1, width=6.4, height=4.8)
    check_symmetry(X, y, group, random_state=0).plot_clashes(ax)
    return figure


LABELS = Study(
    name="symmetry-labels",
    title="What labels say about transformations",
    question="Which transformations of real data do labels respect, and which can be tested?",
    claims=("22.01", "22.05", "22.09"),
    grid=labels_grid,
    cell=labels_cell,
    verdicts=labels_verdicts,
    figures={"symmetry-labels": labels_figure, "clashes": clash_figure},
    version=2,
)
