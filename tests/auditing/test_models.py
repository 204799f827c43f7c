"""Models from files: what is opened, what is refused, and that columns are matched by name."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from counterplay.auditing.config import Config
from counterplay.auditing.models import as_audit_model, load_model
from counterplay.auditing.onnx_files import check_onnx
from counterplay.auditing.outcome import read_outcome
from counterplay.errors import CounterplayError, InvalidInputError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(200, 3)), columns=["income", "debt", "age"])
Y = (FRAME["income"] + 0.3 * RNG.normal(size=200) > 0).astype(int)
TABLE = FRAME.assign(good=Y)
CONFIG = Config.of({"data": {"label": "good", "positive": 1}})


def written(model: Any, path: Path) -> Path:
    skops.io.dump(model, path)
    return path


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        RandomForestClassifier(5, random_state=0),
        GradientBoostingClassifier(n_estimators=3),
        HistGradientBoostingClassifier(max_iter=3),
        KNeighborsClassifier(),
        CalibratedClassifierCV(LogisticRegression(), cv=2),
        CalibratedClassifierCV(LogisticRegression(), cv=2, method="isotonic"),
        MLPClassifier((3,), max_iter=5),
        VotingClassifier([("one", LogisticRegression()), ("two", KNeighborsClassifier())]),
        make_pipeline(SelectKBest(k=2), LogisticRegression()),
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), SVC()),  # sparse inside
    ],
    ids=lambda model: type(model).__name__,
)
def test_supported_estimators_come_back(model: Any, tmp_path: Path) -> None:
    model.fit(FRAME, Y)
    loaded = load_model(written(model, tmp_path / "m.skops"))
    outcome = read_outcome(TABLE, CONFIG)
    audited = as_audit_model(loaded, FRAME).for_outcome(outcome, {})
    assert (audited.accepts(FRAME) == (model.predict(FRAME) == 1)).all()
    order = np.argsort(audited.scores(FRAME), kind="stable")
    assert np.diff(audited.accepts(FRAME)[order].astype(int)).min() >= 0  # grows with acceptance
    again = audited.refit(FRAME.iloc[:150], outcome.values[:150])
    assert again is not None
    assert again.accepts(FRAME).shape == (200,)


@pytest.mark.claim("27.20")
def test_a_pickle_is_not_even_opened(tmp_path: Path) -> None:
    missing = tmp_path / "model.pkl"  # there is no such file: it would fail if it were opened
    with pytest.raises(InvalidInputError) as told:
        load_model(missing)
    assert str(told.value) == (
        "model.pkl is a pickle: loading it runs whatever code is inside. If you made it, add "
        "--trust-pickle; better: skops.io.dump(model, 'model.skops')."
    )


class Canary:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.mark.claim("27.20")
def test_nothing_runs_without_the_switch(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Canary(canary)))
    with pytest.raises(InvalidInputError, match="is a pickle"):
        load_model(tmp_path / "model.pkl")
    assert not canary.exists()
    load_model(tmp_path / "model.pkl", trust_pickle=True)
    assert canary.exists()


class Thing(BaseEstimator):
    """A stranger's estimator."""


@pytest.mark.claim("27.20")
def test_a_foreign_type_is_named_and_not_built(tmp_path: Path) -> None:
    name = f"{Thing.__module__}.Thing"
    file = written(make_pipeline(StandardScaler(), Thing()), tmp_path / "model.skops")
    with pytest.raises(InvalidInputError) as told:
        load_model(file)
    assert str(told.value) == (
        f"model.skops contains {name}, which is not on the trusted list. If you know it, add "
        f"--trust {name}."
    )
    load_model(file, trust=[name])


def edited_types(data: bytes, module: str, name: str) -> bytes:
    """Give the outermost object of a skops file another class."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(result, "w") as new:
        for item in old.infolist():
            content = old.read(item.filename)
            if item.filename == "schema.json":
                schema = json.loads(content)
                schema["__module__"], schema["__class__"] = module, name
                content = json.dumps(schema).encode()
            new.writestr(item, content)
    return result.getvalue()


@pytest.mark.claim("27.20")
@pytest.mark.parametrize(
    ("module", "name"),
    [("builtins", "eval"), ("os", "system"), ("posix", "system"), ("subprocess", "Popen")],
)
def test_code_stays_refused(module: str, name: str, tmp_path: Path) -> None:
    data = skops.io.dumps(LogisticRegression().fit(FRAME, Y))
    (tmp_path / "model.skops").write_bytes(edited_types(data, module, name))
    with pytest.raises(InvalidInputError, match=f"{name}, which is not on the trusted list"):
        load_model(tmp_path / "model.skops")


@pytest.mark.claim("27.20")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("left", 10_000),
        ("left", 0),
        ("right", 4_000_000_000),
        ("feature_idx", 77),
        ("is_categorical", 1),
    ],
)
def test_gradient_boosting_out_of_range_is_refused(field: str, value: int, tmp_path: Path) -> None:
    model = HistGradientBoostingClassifier(max_iter=2).fit(FRAME, Y)
    model._predictors[0][0].nodes[field][0] = value
    with pytest.raises(CounterplayError, match="damaged tree"):
        load_model(written(model, tmp_path / "m.skops"))


@pytest.mark.claim("27.20")
def test_a_forest_may_not_ask_for_more_columns_than_it_is_given(tmp_path: Path) -> None:
    for model in (RandomForestClassifier(2), GradientBoostingClassifier(n_estimators=2)):
        model.fit(FRAME, Y)
        model.n_features_in_ = 1
        model.feature_names_in_ = np.array(["income"], dtype=object)
        with pytest.raises(CounterplayError, match="damaged tree"):
            load_model(written(model, tmp_path / "m.skops"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.skops", b"not an archive"),
        ("m.onnx", b"PK\x03\x04 not onnx"),
        ("m.onnx", b""),
        ("m.txt", b"x"),
    ],
)
def test_a_file_of_another_kind_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CounterplayError, match=name):
        load_model(tmp_path / name)
    (tmp_path / "m.pkl").write_bytes(b"PK\x03\x04")
    with pytest.raises(InvalidInputError, match="is an archive, not a pickle"):
        load_model(tmp_path / "m.pkl", trust_pickle=True)


def test_missing_columns_are_named_with_the_nearest(tmp_path: Path) -> None:
    loaded = load_model(LogisticRegression().fit(FRAME, Y))
    with pytest.raises(InvalidInputError) as told:
        as_audit_model(loaded, FRAME.rename(columns={"income": "incomes"}))
    assert str(told.value) == (
        "The model needs 'income'; the table has no such column (nearest: 'incomes')."
    )


def test_a_model_of_an_array_needs_names() -> None:
    loaded = load_model(LogisticRegression().fit(FRAME.to_numpy(), Y))
    with pytest.raises(InvalidInputError, match=r"Say them in its order: \[model\] columns"):
        as_audit_model(loaded, FRAME)
    with pytest.raises(InvalidInputError, match="fitted on 3 columns"):
        as_audit_model(loaded, FRAME, columns=["income"])
    shuffled = FRAME[["age", "income", "debt"]]
    model = as_audit_model(loaded, shuffled, columns=["income", "debt", "age"])
    assert (model.predict(shuffled) == loaded[0].predict(FRAME.to_numpy())).all()


def test_functions_and_texts_and_odd_labels() -> None:
    table = TABLE.assign(good=np.where(Y == 1, "1 ", "0 "))
    outcome = read_outcome(table, CONFIG)
    assert outcome.classes == (0, 1)
    model = as_audit_model(load_model(lambda frame: frame["income"]), FRAME)
    model = model.for_outcome(outcome, {})
    assert (model.accepts(FRAME) == (FRAME["income"] > 0)).all()
    assert model.refit(FRAME, outcome.values) is None
    texts = pd.DataFrame({"text": ["win cash now", "see you later"] * 100})
    words = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts["text"], [0, 1] * 100)
    read = as_audit_model(load_model(words), texts)
    assert (read.columns, read.texts) == (("text",), True)


def test_other_answers_than_the_table_has_are_mapped() -> None:
    model = LogisticRegression().fit(FRAME, np.where(Y == 1, "good", "bad"))
    loaded = as_audit_model(load_model(model), FRAME)
    coded = TABLE.assign(good=np.where(Y == 1, 1, 2))
    outcome = read_outcome(coded, CONFIG)
    with pytest.raises(InvalidInputError) as told:
        loaded.for_outcome(outcome, {})
    assert str(told.value) == (
        "The model answers 'bad'/'good', the table has 1/2. Say which answer means which: "
        "[data] classes = {1 = ..., 2 = ...}."
    )
    mapped = loaded.for_outcome(outcome, {"1": "good", "2": "bad"})
    assert (mapped.accepts(FRAME) == (model.predict(FRAME) == "good")).all()


@pytest.mark.parametrize("keys", [("True", "False"), ("true", "false"), ("1", "0")])
def test_flags_are_mapped_by_the_names_that_the_message_asks_for(keys: tuple[str, str]) -> None:
    model = LogisticRegression().fit(FRAME, np.where(Y == 1, "good", "bad"))
    loaded = as_audit_model(load_model(model), FRAME)
    outcome = read_outcome(TABLE.assign(good=Y == 1), CONFIG)
    with pytest.raises(InvalidInputError, match=r"classes = \{False = ..., True = ...\}"):
        loaded.for_outcome(outcome, {})
    mapped = loaded.for_outcome(outcome, dict(zip(keys, ("good", "bad"))))
    assert (mapped.accepts(FRAME) == (model.predict(FRAME) == "good")).all()


@pytest.fixture(scope="module")
def onnx_model() -> tuple[Any, bytes, pd.DataFrame]:
    pytest.importorskip("onnxruntime")
    skl2onnx = pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.compose import make_column_transformer

    frame = FRAME.astype(np.float32).assign(purpose=RNG.choice(["car", "home"], 200))
    pipe = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["purpose"]),
            (StandardScaler(), ["income", "debt", "age"]),
        ),
        LogisticRegression(),
    ).fit(frame, Y)
    kinds = {"purpose": StringTensorType([None, 1])}
    types = [(name, kinds.get(name, FloatTensorType([None, 1]))) for name in frame.columns]
    onnx = skl2onnx.to_onnx(pipe, initial_types=types, options={"zipmap": False})
    return pipe, onnx.SerializeToString(), frame


@pytest.mark.claim("27.21")
def test_an_onnx_model_decides_as_the_pipeline_it_was_made_of(
    onnx_model: tuple[Any, bytes, pd.DataFrame], tmp_path: Path
) -> None:
    pipe, data, frame = onnx_model
    (tmp_path / "m.onnx").write_bytes(data)
    outcome = read_outcome(TABLE, CONFIG)
    shuffled = frame[["purpose", "age", "income", "debt"]]
    model = as_audit_model(load_model(tmp_path / "m.onnx"), shuffled).for_outcome(outcome, {})
    assert (model.predict(shuffled) == pipe.predict(frame)).all()
    gap = model.estimator.predict_proba(model.rows(shuffled)) - pipe.predict_proba(frame)
    assert np.abs(gap).max() < 1e-6
    assert (model.refittable, model.why_not) == (False, "not possible for ONNX")


@pytest.mark.claim("27.21")
def test_german_as_onnx(real: Any, tmp_path: Path) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.compose import make_column_transformer

    german = real("german_credit")
    X = german.drop(columns="class")
    words = [name for name in X if X[name].dtype != np.int64]
    numbers = [name for name in X if name not in words]
    pipe = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), words), (StandardScaler(), numbers)
        ),
        LogisticRegression(max_iter=1000),
    ).fit(X.astype(dict.fromkeys(numbers, np.float32)), german["class"])
    types = [
        (n, StringTensorType([None, 1]) if n in words else FloatTensorType([None, 1])) for n in X
    ]
    onnx = skl2onnx.to_onnx(pipe, initial_types=types)
    (tmp_path / "m.onnx").write_bytes(onnx.SerializeToString())
    model = as_audit_model(load_model(tmp_path / "m.onnx"), X)
    assert (model.predict(X) == pipe.predict(X)).sum() == 1000
    assert np.abs(model.estimator.predict_proba(X) - pipe.predict_proba(X)).max() < 1e-6


@pytest.mark.claim("27.20")
def test_onnx_with_other_files_or_operators_is_refused(
    onnx_model: tuple[Any, bytes, pd.DataFrame], tmp_path: Path
) -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.load_from_string(onnx_model[1])
    check_onnx(model.SerializeToString(), "m.onnx")
    outside = onnx.load_from_string(onnx_model[1])
    tensor = outside.graph.initializer.add()
    tensor.name = "secret"
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"
    with pytest.raises(CounterplayError, match="external data"):
        check_onnx(outside.SerializeToString(), "m.onnx")
    hidden = onnx.load_from_string(onnx_model[1])  # inside the attribute of a node
    held = hidden.graph.node[0].attribute.add()
    held.name, held.type = "t", onnx.AttributeProto.TENSOR
    held.t.data_location = onnx.TensorProto.EXTERNAL
    with pytest.raises(CounterplayError, match="external data"):
        check_onnx(hidden.SerializeToString(), "m.onnx")
    foreign = onnx.load_from_string(onnx_model[1])
    foreign.graph.node[0].domain = "evil.ops"
    (tmp_path / "m.onnx").write_bytes(foreign.SerializeToString())
    with pytest.raises(CounterplayError, match=r"operators of 'evil\.ops'"):
        load_model(tmp_path / "m.onnx")


def test_damaged_onnx_files_end_in_a_sentence(
    onnx_model: tuple[Any, bytes, pd.DataFrame], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    data = onnx_model[1]
    for k in range(60):
        broken = bytearray(data[: rng.integers(1, len(data))] if k % 2 else data)
        for place in rng.integers(0, len(broken), 5):
            broken[place] = rng.integers(256)
        with contextlib.suppress(CounterplayError):  # nothing else may come out
            check_onnx(bytes(broken), "m.onnx")


def test_a_domain_that_is_a_number_is_no_onnx_file() -> None:
    number = bytes([0x38]) + b"\xff" * 8 + b"\x01"  # field 7 of a node as a huge varint
    node = bytes([0x0A, len(number)]) + number
    graph = bytes([0x3A, len(node)]) + node
    with pytest.raises(CounterplayError, match="is not an ONNX file"):
        check_onnx(graph, "m.onnx")
