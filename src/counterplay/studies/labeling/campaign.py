"""Campaigns on real data: questions of each party alone, together and in one pool."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.seeds import derive_seed, generator
from counterplay.labeling.campaign_study import compare
from counterplay.labeling.solo import TestFirstSolo
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, equals
from counterplay.tables import Labels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CONFIDENCE = 0.95
WAYS = ("alone", "party", "union", "pooled_uncertainty", "pooled_random")
# data, parties, items each, seeds, max_error, noise, spare, share of true labels that are flipped
_ROWS: tuple[tuple[str, int, int, int, float, float, int, float], ...] = (
    ("breast_cancer", 3, 189, 40, 0.05, 0.0, 1, 0.0),
    ("breast_cancer", 3, 189, 40, 0.05, 0.0, 0, 0.0),
    ("digits", 3, 590, 10, 0.05, 0.0, 1, 0.0),
    ("digits", 3, 590, 10, 0.05, 0.0, 0, 0.0),
    ("sms_spam", 5, 1000, 12, 0.05, 0.0, 1, 0.0),
    ("sms_spam", 5, 1000, 12, 0.05, 0.0, 0, 0.0),
    ("digits_groups", 3, 500, 8, 0.05, 0.0, 1, 0.0),
    ("adult", 4, 1000, 8, 0.2, 0.0, 1, 0.0),
    ("heloc", 4, 1000, 8, 0.33, 0.0, 1, 0.0),
    ("breast_cancer", 3, 189, 20, 0.05, 0.05, 1, 0.0),
    ("breast_cancer", 3, 189, 8, 0.08, 0.15, 1, 0.0),
    ("breast_cancer", 3, 189, 30, 0.05, 0.0, 1, 0.08),
    ("breast_cancer", 3, 189, 30, 0.05, 0.0, 1, 0.12),
    ("digits", 3, 590, 4, 0.05, 0.05, 1, 0.0),
    ("digits", 3, 590, 4, 0.08, 0.15, 1, 0.0),
    ("sms_spam", 5, 1000, 4, 0.05, 0.05, 1, 0.0),
    ("mnist", 4, 1500, 4, 0.1, 0.0, 1, 0.0),
)
_QUICK: tuple[tuple[str, int, int, int, float, float, int, float], ...] = (
    ("breast_cancer", 3, 189, 2, 0.05, 0.0, 1, 0.0),
    ("breast_cancer", 3, 189, 2, 0.05, 0.0, 0, 0.0),
    ("digits_groups", 3, 250, 3, 0.05, 0.0, 1, 0.0),
    ("breast_cancer", 3, 60, 1, 0.1, 0.05, 1, 0.0),
    ("breast_cancer", 3, 60, 1, 0.1, 0.0, 1, 0.12),
)
_PICTURED = ("breast_cancer", "digits", "sms_spam", "adult")
_TITLES = {"breast_cancer": "breast cancer", "digits": "digits", "sms_spam": "SMS spam",
           "adult": "Adult", "heloc": "HELOC", "digits_groups": "digits, own classes",
           "mnist": "MNIST"}  # fmt: skip
_NAMES = ("data", "parties", "items", "max_error", "noise", "spare", "flips")


def _grid(scale: Scale) -> list[Params]:
    rows = _QUICK if scale == "quick" else _ROWS
    cells: list[Params] = []
    for row in rows:
        params: Params = dict(zip(_NAMES, (*row[:3], *row[4:])))
        cells += [{**params, "replicate": r} for r in range(row[3])]
    return cells


def _cell(params: Params, seed: int) -> Record:
    """One data set, one split: all ways of labelling it, with the same answers."""
    from sklearn.linear_model import LogisticRegression

    k, n = int(params["parties"] or 0), int(params["items"] or 0)
    replicate = int(params["replicate"] or 0)
    X, y, owners = _split(str(params["data"]), k, n, replicate)
    if params["flips"]:
        rng = generator(derive_seed("flips", replicate))
        classes, codes = np.unique(y, return_inverse=True)
        others = (codes + rng.integers(1, len(classes), len(y))) % len(classes)
        y = np.where(rng.random(len(y)) < float(params["flips"]), classes[others], y)
    settings = {
        "learner": LogisticRegression(max_iter=200),
        "max_error": float(params["max_error"] or 0),
        "confidence": CONFIDENCE,
        "noise": float(params["noise"] or 0),
        "solo": TestFirstSolo(spare=int(params["spare"] or 0)),
    }
    pooled = not params["flips"]
    found = compare(X, Labels.of(y), owners, settings, seed=replicate, pooled=pooled)
    record: dict[str, Any] = {}
    for way in WAYS:
        asked = found.work[way]
        mine = [c for c in found.certificates if c["way"] == way]
        record[way] = float(np.mean(asked))
        record[f"{way}_each"] = ",".join(map(str, asked))
        record[f"{way}_worse"] = sum(a > b for a, b in zip(asked, found.work["alone"]))
        record[f"{way}_certificates"] = len(mine)
        record[f"{way}_false"] = sum(c["false"] for c in mine)
        record[f"{way}_error"] = max((c["share"] for c in mine), default=0.0)
    return record


def _split(
    data: str, k: int, n: int, replicate: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Rows, labels and owners of one random split."""
    X, y = _table(data.removesuffix("_groups"))
    rng = generator(derive_seed("split", data, replicate))
    order = rng.permutation(len(X))
    if data.endswith("_groups"):  # each party has classes of its own
        groups = ([0, 1, 2, 3], [4, 5, 6], [7, 8, 9])
        parts = [order[np.isin(y[order], group)][:n] for group in groups]
        rows = np.concatenate(parts)
        owners = np.repeat(np.arange(k), [len(part) for part in parts])
        return X[rows], y[rows], owners
    rows = order[: k * n]
    return X[rows], y[rows], np.repeat(np.arange(k), n)


@lru_cache(maxsize=1)
def _table(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """A table as numbers, prepared without a look at its labels."""
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from counterplay import datasets

    if name in ("breast_cancer", "digits"):
        X, y = datasets.load(name, return_X_y=True)
        return StandardScaler().fit_transform(X), y
    found: Any = datasets.fetch(name, download=False)
    if name == "sms_spam":
        steps = make_pipeline(TfidfVectorizer(sublinear_tf=True), TruncatedSVD(100, random_state=0))
        return 10.0 * steps.fit_transform(found.X), np.asarray(found.y)
    if name == "mnist":
        images = np.asarray(found.X_test, dtype=np.float64).reshape(len(found.X_test), -1) / 255.0
        return PCA(50, random_state=0).fit_transform(images), np.asarray(found.y_test)
    # tables come with their categories one-hot already
    return StandardScaler().fit_transform(np.asarray(found.X, float)), np.asarray(found.y)


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    plain = frame[frame["flips"] == 0]
    stress = frame[frame["flips"] > 0]
    parties = int(2 * plain["parties"].sum())
    ways = ("alone", "party", "union", "pooled_uncertainty", "pooled_random")
    total = int(sum(plain[f"{way}_certificates"].sum() for way in ways))
    false = int(sum(plain[f"{way}_false"].sum() for way in ways))
    worse = int(plain["party_worse"].sum() + plain["union_worse"].sum())
    alpha = 1.0 - CONFIDENCE
    thrifty = plain[(plain["spare"] == 0) & (plain["noise"] == 0)]
    verdicts = [
        at_most("24.10", "False certificates, in all ways of labelling together.", false / total,
                alpha, what=f"{false} of {total}, share"),
        equals("24.11", "Party-runs with more work than the same party alone.", worse, 0,
               what=f"of {parties}"),
        at_least("24.11", "The union certificate saves work against the thrifty solo protocol.",
                 1 - thrifty["union"].sum() / thrifty["alone"].sum(), 0.2, what="share saved"),
    ]  # fmt: skip
    groups = plain[plain["data"] == "digits_groups"]
    if len(groups):
        saved = (1 - groups["union"] / groups["alone"]).to_numpy(dtype=float)
        error = 1.96 * saved.std(ddof=1) / len(saved) ** 0.5
        verdicts += [
            at_least("24.27", "Parties with different classes, union certificate.",
                     float(saved.mean()), 0.35,
                     what=f"{len(saved)} splits, share saved (+- {error:.2g})"),
            equals("24.27", "Party-runs of these with more work than alone.",
                   int(groups["union_worse"].sum()), 0),
        ]  # fmt: skip
    if len(stress):
        verdicts += _stress(stress, alpha)
    return verdicts


def _stress(stress: pd.DataFrame, alpha: float) -> list[Verdict]:
    found = []
    for way in ("alone", "party", "union"):
        n, false = int(stress[f"{way}_certificates"].sum()), int(stress[f"{way}_false"].sum())
        limit = alpha + 3 * (alpha * (1 - alpha) / max(n, 1)) ** 0.5
        found.append(at_most("24.31", f"Labels no model can know: false certificates, {way}.",
                             false / max(n, 1), limit, what=f"{false} of {n}, share"))  # fmt: skip
    worse = int(stress["party_worse"].sum() + stress["union_worse"].sum())
    found.append(equals("24.31", "Labels no model can know: party-runs worse than alone.", worse, 0,
                        what=f"of {int(2 * stress['parties'].sum())}"))  # fmt: skip
    return found


def _figure(frame: pd.DataFrame) -> Figure:
    """Questions per party: alone, together with a certificate for each party or for the union, and
    in one pool with uncertainty sampling. One dot per party and split; crosses are worse than
    alone.
    """
    from matplotlib.figure import Figure

    kinds = frame[(frame["spare"] == 1) & (frame["flips"] == 0)].groupby(
        ["data", "max_error", "noise"], sort=False
    )
    chosen = sorted(kinds, key=lambda kind: (kind[0][2] > 0, kind[0][0] not in _PICTURED))[:4]
    figure = Figure(figsize=(7.2, 6.4), layout="constrained")
    axes = figure.subplots(2, 2).ravel()
    for ax, ((data, share, noise), part) in zip(axes, chosen):
        _dots(ax, part)
        wrong = f"; {100 * noise:g} % noise" if noise else ""
        ax.set(title=f"{_TITLES.get(data, data)}\nat most {100 * share:g} % wrong{wrong}",
               ylabel="questions per party", ylim=(0, None))  # fmt: skip
    for ax in axes[len(chosen) :]:
        ax.remove()
    return figure


def _dots(ax: Axes, part: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)
    shown = ("alone", "party", "union", "pooled_uncertainty")
    each = {
        way: np.array([[int(v) for v in cell.split(",")] for cell in part[f"{way}_each"]]).ravel()
        for way in shown
    }
    for place, way in enumerate(shown):
        worse = each[way] > each["alone"]
        x = place + rng.uniform(-0.22, 0.22, worse.size)
        ax.scatter(x[~worse], each[way][~worse], s=9, color="#0072B2", alpha=0.5)
        ax.scatter(x[worse], each[way][worse], s=22, color="#D55E00", marker="x")
        ax.hlines(each[way].mean(), place - 0.32, place + 0.32, color="0.15", lw=2)
    ax.set_xticks(range(len(shown)), ["alone", "together\n(party)", "together\n(union)", "pooled"])


STUDY = Study(
    name="campaign",
    title="Real campaigns: alone, together, pooled",
    question=(
        "Several parties label real data that no model explains exactly. How many questions does "
        "each answer alone, together with a certificate for each or for all, and in one pool where "
        "nobody is protected? Are the certificates true, also when people err?"
    ),
    claims=("24.10", "24.11", "24.27", "24.31"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"questions": _figure},
    full_needs="the Adult, HELOC, SMS spam and MNIST data",
)
