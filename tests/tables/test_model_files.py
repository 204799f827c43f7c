"""Models as skops bytes: supported estimators come back, foreign types and damaged trees do not."""

from __future__ import annotations

import io
import json
import os
import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import InvalidInputError, InvalidStateError
from counterplay.poisoning import BatchedMLPClassifier
from counterplay.poisoning.nearest_row import NearestRow
from counterplay.tables.model_files import foreign_types, model_bytes, read_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = (X[:, 0] > 0).astype(int)
FRAME = pd.DataFrame(X, columns=list("abc")).assign(g=pd.Categorical(RNG.choice(["u", "v"], 80)))
TEXTS = ["win a prize now", "see you at home"] * 40
MIXED = make_pipeline(
    make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
        (StandardScaler(), make_column_selector(dtype_include="number")),
    ),
    LogisticRegression(),
)


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        (GaussianNB(), X),
        (KNeighborsClassifier(3), X),
        (KNeighborsClassifier(3, algorithm="ball_tree"), X),
        (DecisionTreeClassifier(random_state=0), X),
        (RandomForestClassifier(3, random_state=0), X),
        (HistGradientBoostingClassifier(max_iter=2), X),
        (SVC(), X),
        (NearestRow(), X),
        (BatchedMLPClassifier(n_steps=2, random_state=0), X),
        (make_pipeline(FunctionTransformer(np.log1p), GaussianNB()), np.abs(X)),
        (make_pipeline(TfidfVectorizer(), MultinomialNB()), TEXTS),
        (MIXED, FRAME),
        (
            make_pipeline(
                make_column_transformer(
                    (OneHotEncoder(), make_column_selector(dtype_include=[object, "category"])),
                    remainder="passthrough",
                ),
                GaussianNB(),
            ),
            FRAME.astype({"g": object}),
        ),
    ],
)
def test_supported_models_come_back(model, rows) -> None:
    model.fit(rows, Y)
    again = read_model(model_bytes(model), what="the model")
    assert np.array_equal(again.predict(rows), model.predict(rows))


class Stranger:
    def fit(self, X, y):
        return self


@pytest.mark.parametrize(
    "value", [Stranger(), partial(os.system, "true"), FunctionTransformer(os.system)]
)
def test_foreign_types_are_not_opened(value) -> None:
    data = skops.io.dumps(value)
    assert foreign_types(data, what="the file")
    with pytest.raises(InvalidStateError, match="not trusted and was not opened"):
        read_model(data, what="the file")


def test_what_skops_cannot_hold_is_said() -> None:
    with pytest.raises(InvalidInputError, match="cannot be written with skops"):
        model_bytes(make_pipeline(FunctionTransformer(lambda rows: rows), GaussianNB()))


@pytest.mark.parametrize("data", [b"", b"nothing", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidStateError):
        read_model(data, what="the file")


def test_an_archive_that_unpacks_to_too_much_is_refused() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", json.dumps({"a": "0" * 50_000_000}))
    with pytest.raises(InvalidStateError, match="unpacks to"):
        read_model(out.getvalue(), what="the file")


def test_trees_whose_indices_leave_their_arrays_are_refused() -> None:
    tree = DecisionTreeClassifier(random_state=0).fit(X, Y)
    state = tree.tree_.__getstate__()
    state["nodes"]["left_child"][0] = 10**6
    tree.tree_.__setstate__(state)
    with pytest.raises(InvalidStateError, match="damaged tree"):
        read_model(skops.io.dumps(tree), what="the file")
    boosted = HistGradientBoostingClassifier(max_iter=1).fit(X, Y)
    boosted._predictors[0][0].nodes["left"][0] = 10**6
    with pytest.raises(InvalidStateError, match="damaged tree"):
        read_model(skops.io.dumps(boosted), what="the file")
    wide = DecisionTreeClassifier(random_state=0).fit(X, Y)
    wide.n_features_in_ = 1
    with pytest.raises(InvalidStateError, match="damaged tree"):
        read_model(skops.io.dumps(wide), what="the file")
