"""Models travel, rows stay: every site fits models on its own rows, and scores everybody's.

The models are linear on coded columns and plain numbers in JSON, so that a site can read what a
stranger sends without running any of it. Scores of models of one site each are points on the axes:
what a row of another site is worth is measured, that rows of several sites add up is not.
Source: "The private variant", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from scipy.special import softmax

from counterplay.contribution.sites.coding import Coding, coded, scales, with_coding
from counterplay.contribution.sites.description import (
    RARE,
    Class,
    Rows,
    SentRecord,
    WordColumn,
    common_words,
    given_or_read,
    plain_classes,
    read_alone,
)
from counterplay.contribution.sites.learners import fit_logistic
from counterplay.contribution.sites.points import Item, SitePoints
from counterplay.contribution.sites.reading import Sites, check_name
from counterplay.contribution.sites.scoring import METRICS, Score, score_rows
from counterplay.contribution.sites.splits import split_rows
from counterplay.core.arguments import checked
from counterplay.core.files import read_limited
from counterplay.core.progress import progress_bar
from counterplay.core.records import (
    LIMIT,
    Count,
    Name,
    Record,
    float_array,
    read_record,
    refusal,
    require_state,
)
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_int
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import shown

SIZES = (1.0, 0.5, 0.25, 0.125)
REPEATS = 8
LARGEST = 1e12
Row = Annotated[list[float], Meta(max_length=200_000)]


class LinearModel(Record, frozen=True):
    """Weights of one fit: a row per class, for numbers that were centred and scaled, then words."""

    rows: Rows
    split: Count
    centre: Row
    scale: Row
    weights: Annotated[list[Row], Meta(min_length=1, max_length=1000)]
    bias: Annotated[list[float], Meta(min_length=1, max_length=1000)]


class SiteModels(SentRecord, frozen=True):
    """Models of one site's rows; made by :func:`fit_site_models`, scored by ``score_site_models``.

    ``to_json(path)`` writes them. No row is in it, but rows can partly be reconstructed from
    models of few rows.
    """

    kind: Literal["counterplay models"]
    version: Literal[1]
    site: Name
    owned: Rows
    seed: Count
    classes: Annotated[list[Class], Meta(min_length=2, max_length=1000)]
    numbers: Annotated[list[Name], Meta(max_length=100_000)]
    words: Annotated[list[WordColumn], Meta(max_length=100_000)]
    models: Annotated[list[LinearModel], Meta(min_length=1, max_length=1000)]


@checked
def fit_site_models(
    table: Any,
    label: str | None = None,
    *,
    name: str | None = None,
    drop: Sequence[str] = (),
    rare: int = RARE,
    repeats: int = REPEATS,
    random_state: RandomState = 0,
) -> SiteModels:
    """Fit logistic models on a site's own rows: four sizes, ``repeats`` splits each.

    Runs at the site, before models are exchanged. A quarter of the rows is held out of every model.

    Parameters
    ----------
    table
        The site's file, frame or ``(X, y)``.
    label
        Column of the labels, for files and frames.
    name
        Name of the site; the stem of the file if None.
    drop
        Columns to leave out.
    rare
        Words of fewer rows are left out of the models: they are not told.
    repeats
        Splits.
    random_state
        Seed of the splits.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> found = fit_site_models((X[:100], y[:100]), name="north", repeats=1)
    >>> [model.rows for model in found.models]
    [75, 38, 19, 9]
    """
    alone, own = read_alone(table, label, name, drop)
    every, _, dummies = coded(alone)
    coding = common_words(every, dummies, check_int(rare, "rare", low=1))
    blocks = with_coding(alone.pool, coding, own)
    seed = int(generator(random_state).integers(2**53))
    size, models = int(alone.sizes[0]), []
    for split in range(check_int(repeats, "repeats", low=1, high=200)):
        for share in SIZES:
            train, _ = split_rows(seed, 0, size, split, share)
            models.append(_fitted(blocks, alone.labels.codes, train, split))
    return SiteModels(
        kind="counterplay models",
        version=1,
        site=own,
        owned=size,
        seed=seed,
        classes=plain_classes(alone),
        numbers=list(coding.numbers),
        words=[WordColumn(column=column, words=list(told)) for column, told in coding.words],
        models=models,
    )


def _fitted(
    blocks: tuple[FloatArray, FloatArray], codes: IntArray, train: IntArray, split: int
) -> LinearModel:
    """One model as numbers; where the rows have one class, that class for everybody."""
    numeric, dummies = (block[train] for block in blocks)
    centre, scale = scales(numeric)
    X = np.hstack([np.nan_to_num((numeric - centre) / scale), dummies])
    classes = int(codes.max()) + 1
    weights, bias = np.zeros((classes, X.shape[1])), np.full(classes, -LARGEST)
    own = np.unique(codes[train])
    bias[own] = 0.0
    if len(own) > 1:
        model = fit_logistic(X, codes[train])
        if len(own) == 2:  # one row of weights, for the second class
            weights[own[1]], bias[own[1]] = model.coef_[0], model.intercept_[0]
        else:
            weights[own], bias[own] = model.coef_, model.intercept_
    return LinearModel(
        rows=len(train), split=split, centre=centre.tolist(), scale=scale.tolist(),
        weights=weights.tolist(), bias=bias.tolist(),
    )  # fmt: skip


@checked
def score_site_models(
    table: Any,
    models: Sequence[Any],
    label: str | None = None,
    *,
    name: str | None = None,
    metric: str = "accuracy",
    drop: Sequence[str] = (),
    progress: bool = True,
) -> SitePoints:
    """Score everybody's models on a site's own rows: the points of this site.

    Runs at the site, after models were exchanged. Own models are scored on the rows that were held
    out of them, the models of others on all rows. ``SitePoints.from_json`` joins the points of all
    sites.

    Parameters
    ----------
    table
        The site's file, frame or ``(X, y)``: the same rows as for ``fit_site_models``.
    models
        Files of models, or :class:`SiteModels`, of all sites, the own ones included.
    label
        Column of the labels, for files and frames.
    name
        Name of the site; the stem of the file if None.
    metric
        ``"accuracy"``, ``"balanced_accuracy"``, ``"neg_log_loss"`` or ``"roc_auc"``.
    drop
        Columns to leave out.
    progress
        Whether to show a progress bar.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> sites = {"north": (X[:300], y[:300]), "south": (X[300:], y[300:])}
    >>> sent = [fit_site_models(rows, name=name, repeats=2) for name, rows in sites.items()]
    >>> points = score_site_models(sites["south"], sent, name="south", progress=False)
    >>> points.owned.tolist(), points.axes_only, bool(points.score.min() > 0.8)
    ([300, 269], True, True)
    """
    if metric not in METRICS:
        raise InvalidInputError(
            f"metric must be one of {', '.join(METRICS)}, got {shown(metric, 60)}"
        )
    alone, own = read_alone(table, label, name, drop)
    sent = [given_or_read(m, SiteModels, read_models, "fit_site_models") for m in models]
    names = [found.site for found in sent]
    if own not in names or len(set(names)) != len(names) or len(names) < 2:
        raise InvalidInputError(
            f"models of {own[:60]} and of at least one other site are needed, one file each"
        )
    if metric == "roc_auc" and len(alone.labels.classes) != 2:
        raise InvalidInputError("roc_auc needs two classes; use accuracy")
    mine = sent[names.index(own)]
    if mine.owned != alone.sizes[0]:
        raise InvalidInputError(
            f"the models of {own[:60]} were fitted with {mine.owned} rows, its table now has "
            f"{alone.sizes[0]}: fit them again"
        )
    items: list[Item] = []
    with progress_bar(progress) as bar:
        task = bar.add_task("scoring models", total=sum(len(found.models) for found in sent))
        for j, found in enumerate(sent):
            for used, score in _scores(alone, found, metric, held_out=found.site == own):
                rows = np.where(np.arange(len(sent)) == j, used, 0)
                items.append((rows, names.index(own), score.value, score.test_rows, False))
            bar.update(task, advance=len(found.models))
    if not items:
        raise InvalidInputError(f"{metric} could not be measured at {own[:60]}")
    owned = [found.owned for found in sent]
    return SitePoints.of_items(names, owned, metric, items)


def read_models(path: str | os.PathLike[str]) -> SiteModels:
    """Read a file of models; whatever is wrong with it is one sentence."""
    what = Path(path).name[:60]
    found = read_record(read_limited(path, what=what, limit=LIMIT), SiteModels, what=what)
    try:
        check_name(found.site)
    except InvalidInputError as error:
        raise refusal(what, "site", str(error)) from None
    width = len(found.numbers)
    total, classes = width + sum(len(w.words) for w in found.words), len(found.classes)
    for i, model in enumerate(found.models):
        place = f"models[{i}]"
        _check(model.centre, f"{place}.centre", what, (width,))
        _check(model.scale, f"{place}.scale", what, (width,), low=1e-300)
        _check(model.weights, f"{place}.weights", what, (classes, total))
        _check(model.bias, f"{place}.bias", what, (classes,))
        above = f"{model.rows} rows of {found.site[:60]}, who owns {found.owned}"
        require_state(model.rows <= found.owned, what, f"{place}.rows", above)
    return found


def _check(
    values: Any, where: str, what: str, shape: tuple[int, ...], low: float = -LARGEST
) -> None:
    """Numbers of a model: this many, finite, and not beyond all measure."""
    float_array(values, where, what=what, shape=shape, low=low, high=LARGEST)


def _scores(
    alone: Sites, found: SiteModels, metric: str, *, held_out: bool
) -> list[tuple[int, Score]]:
    """Rows of every model, and its score here."""
    coding = Coding(tuple(found.numbers), tuple((w.column, tuple(w.words)) for w in found.words))
    numeric, dummies = with_coding(alone.pool, coding, alone.names[0])
    theirs = {str(value): c for c, value in enumerate(found.classes)}
    column = np.array([theirs.get(str(value), -1) for value in plain_classes(alone)])
    known = column >= 0  # classes here that the model can name
    named = np.full(len(found.classes), -1)  # classes of the model by their number here
    named[column[known]] = np.flatnonzero(known)
    items = []
    for model in found.models:
        test = (
            split_rows(found.seed, 0, found.owned, model.split, 0.0)[1]
            if held_out
            else np.arange(len(alone.labels.codes))
        )
        X = np.hstack([np.nan_to_num((numeric[test] - model.centre) / model.scale), dummies[test]])
        said = softmax(X @ np.array(model.weights).T + np.array(model.bias), axis=1)
        chance = np.where(known, said[:, column], 0.0)
        answer = named[np.argmax(said, axis=1)]
        score = score_rows(metric, alone.labels.codes[test], answer, chance)
        if score is not None:
            items.append((model.rows, score))
    return items
