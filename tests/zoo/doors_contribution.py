"""Doors of counterplay.contribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from counterplay.contribution import (
    CoverageGame,
    EmpiricalGame,
    measure_sites,
)
from counterplay.contribution.lab import (
    Trials,
    cell_histograms,
    describe_site,
    difficulty_scores,
    fit_site_models,
    pretrain,
    random_search,
    score_site_models,
)
from counterplay.core.draws import run_keys
from counterplay.federated import LayeredObjective

from .animals import frame, labels, numbers

NET = LayeredObjective([3, 2])
KEYS = run_keys(0, 2)
CODED = make_pipeline(
    make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude=np.number)),
        remainder="passthrough",
    ),
    LogisticRegression(),
)


def _neighbour(X: Any) -> Any:
    """The rows of another party, in the same form."""
    return frame() if hasattr(X, "columns") else numbers()


def _empirical(X: Any, y: Any) -> Any:
    game = EmpiricalGame([(X, y), (X, y)], LogisticRegression(), mu=0.5, n_repeats=2)
    return game.utilities([1, 0]), game.standard_errors([1, 1]), game.classes.tolist()


def _sites(X: Any, y: Any) -> Any:
    sites = {"a": (_neighbour(X), labels()), "b": (X, y)}
    points = measure_sites(sites, plans="share", budget=48, progress=False)
    return points.score, points.to_frame()


def _described(X: Any, y: Any) -> Any:
    found = describe_site((X, y), name="a")
    return [n.total for n in found.numbers], found.owned


def _exchanged(X: Any, y: Any) -> Any:
    pair = {"a": (_neighbour(X), labels()), "b": (X, y)}
    sent = [fit_site_models(rows, name=name, repeats=1) for name, rows in pair.items()]
    return score_site_models(pair["b"], sent, name="b", progress=False).score


def _cells(X: Any, y: Any) -> Any:
    return cell_histograms([X, X], cells=4)


def _coverage(X: Any, y: Any) -> Any:
    return CoverageGame.from_tables([_neighbour(X), X], mu=0.7, cells=4).Q


def _difficulty(X: Any, y: Any) -> Any:
    few = Trials(count=2, max_steps=20, batch_size=4)
    return difficulty_scores(NET, X, y, method="margin", trials=few).scores


def _search(X: Any, y: Any) -> Any:
    return random_search(NET, X, y, (frame(), labels()), draws=2, steps=2, batches=[4]).accuracy


DOORS = {
    "EmpiricalGame": _empirical,
    "measure_sites": _sites,
    "describe_site": _described,
    "fit_site_models": _exchanged,
    "score_site_models": _exchanged,
    "CoverageGame.from_tables": _coverage,
    "cell_histograms": _cells,
    "difficulty_scores": _difficulty,
    "pretrain": lambda X, y: pretrain(NET, X, y, KEYS, steps=2, batch_size=4),
    "random_search": _search,
}
NOT_TABLES = {"split_indices": "its pool is a number of points"}
