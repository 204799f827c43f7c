"""Models are called with what they were fitted on."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.tables import FittedModel


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(60, 2))
    return pd.DataFrame(
        {"income": numbers[:, 0], "debt": numbers[:, 1], "city": rng.choice(["a", "b"], 60)}
    )


@pytest.fixture
def y(frame: pd.DataFrame) -> np.ndarray:
    return np.where(frame["income"] > frame["debt"], "good", "bad")


def pipelines() -> dict[str, object]:
    prepare = make_column_transformer(
        (StandardScaler(), ["income", "debt"]), (OneHotEncoder(), ["city"])
    )
    plain = make_pipeline(prepare, LogisticRegression())
    return {
        "pipeline": plain,
        "threshold": FixedThresholdClassifier(plain, threshold=0.4, pos_label="good"),
        "calibrated": CalibratedClassifierCV(plain, cv=3),
        "search": GridSearchCV(plain, {"logisticregression__C": [0.1, 1.0]}, cv=3),
        "passthrough": make_pipeline("passthrough", plain),
    }


@pytest.mark.parametrize("name", pipelines())
def test_columns_in_another_order_change_no_answer(
    name: str, frame: pd.DataFrame, y: np.ndarray
) -> None:
    fitted = pipelines()[name].fit(frame, y)  # type: ignore[attr-defined]
    model = FittedModel.of(fitted)
    assert model.names == ("income", "debt", "city")
    assert model.classes == ("bad", "good")
    turned = frame[["city", "debt", "income"]]
    np.testing.assert_array_equal(model.predict(model.table(turned)), fitted.predict(frame))
    with pytest.raises(InvalidInputError, match="no column 'debt'"):
        model.table(frame.rename(columns={"debt": "loan"}))
    with pytest.raises(InvalidInputError, match="nothing was fitted on: 'age'"):
        model.table(frame.assign(age=1))


def test_frames_stay_frames_with_categories_and_holes(y: np.ndarray, frame: pd.DataFrame) -> None:
    frame = frame.assign(city=frame["city"].astype("category"))
    frame.loc[3, "income"] = np.nan
    fitted = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    fitted.fit(frame, y)
    model = FittedModel.of(fitted)
    answers = model.predict(model.table(frame[["debt", "city", "income"]]))
    np.testing.assert_array_equal(answers, fitted.predict(frame))


def test_sparse_matrices_and_texts_pass_through(y: np.ndarray) -> None:
    texts = ["win cash", "see you"] * 30
    words = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, y)
    model = FittedModel.of(words)
    np.testing.assert_array_equal(model.predict(model.table(texts)), words.predict(texts))
    X = sparse.random(60, 8, density=0.3, random_state=0, format="csr")
    linear = FittedModel.of(LogisticRegression().fit(X, y))
    table = linear.table(X)
    assert sparse.issparse(linear.rows(table))
    assert linear.predict(table).shape == (60,)


def test_names_are_missing_on_one_side(frame: pd.DataFrame, y: np.ndarray) -> None:
    numbers = frame[["income", "debt"]]
    nameless = FittedModel.of(LogisticRegression().fit(numbers.to_numpy(), y))
    with pytest.warns(AssumptionWarning, match="by position"):
        table = nameless.table(numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nameless.predict(table)
        named = FittedModel.of(LogisticRegression().fit(numbers, y))
        named.predict(named.table(numbers.to_numpy()))
    with pytest.raises(InvalidInputError, match="3 columns, the model was fitted on 2"):
        nameless.table(np.zeros((2, 3)))
    with pytest.raises(InvalidInputError, match="3 columns, needed are 2"):
        named.table(np.zeros((2, 3)))


def test_the_wanted_class_is_asked_for(frame: pd.DataFrame, y: np.ndarray) -> None:
    numbers = frame[["income", "debt"]]
    model = FittedModel.of(LogisticRegression().fit(numbers, y))
    table = model.table(numbers, y)
    with pytest.raises(InvalidInputError, match="which outcome do people want"):
        model.positive(labels=table.labels)
    assert model.positive("good", table.labels) == "good"
    scores = model.scores(table, "good")
    np.testing.assert_array_equal(scores > 0, model.accepts(table, "good"))
    np.testing.assert_array_equal(model.scores(table, "bad"), -scores)
    coded = FittedModel.of(LogisticRegression().fit(numbers, y == "good"))
    assert coded.positive() is True or coded.positive() == 1
    with pytest.raises(InvalidInputError, match="the same coding"):
        model.positive("good", coded.table(numbers, [0, 1] * 30).labels)


def test_a_complaint_of_the_model_is_one_sentence(frame: pd.DataFrame, y: np.ndarray) -> None:
    class Moody:
        def predict(self, X: object) -> object:
            raise KeyError("x" * 5000)

    model = FittedModel.of(Moody())
    with pytest.raises(InvalidInputError, match="the model could not predict") as caught:
        model.predict(model.table(frame))
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize("bad", [None, 3, "model", LogisticRegression, [1]])
def test_what_cannot_predict_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInputError, match="fitted model with predict"):
        FittedModel.of(bad)


def test_a_model_without_data_is_not_given_shares() -> None:
    fitted = FittedModel.of(LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"]))
    with pytest.raises(InvalidInputError, match="the model answers 'no' or 'yes'") as caught:
        fitted.positive()
    assert "%" not in str(caught.value)
    assert fitted.positive("yes") == "yes"


def test_the_spelling_of_lightgbm_is_that_of_the_user() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 2)), columns=["income k", "age"])
    y = (frame["income k"] > 0).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(frame, y)
    fitted = FittedModel.of(model)
    turned = fitted.table(frame[["age", "income k"]])
    assert turned.names == ("income k", "age")
    assert fitted.predict(turned).tolist() == model.predict(frame).tolist()
    with pytest.raises(InvalidInputError, match="no column 'income_k'"):
        fitted.table(frame.rename(columns={"income k": "wage"}))
