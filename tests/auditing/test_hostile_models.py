"""Model files and archives made to do harm: refused with a sentence, and nothing of them runs."""

from __future__ import annotations

import functools
import gzip
import io
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from counterplay.auditing import audit
from counterplay.auditing.models import load_model
from counterplay.errors import CounterplayError, InvalidInputError
from counterplay.tables import read_table

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(120, 3)), columns=["income", "debt", "age"])
Y = (FRAME["income"] > 0).astype(int)


class Canary:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def rewritten(data: bytes, change: Any) -> bytes:
    """Return a skops archive with every member passed through a function."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(result, "w") as new:
        for item in old.infolist():
            new.writestr(item.filename, change(item.filename, old.read(item.filename)))
    return result.getvalue()


@pytest.mark.claim("27.20")
def test_a_partial_of_a_foreign_function_is_refused_and_not_called(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    harm = functools.partial(os.system, f"touch {canary}")
    model = make_pipeline(FunctionTransformer(None), LogisticRegression()).fit(FRAME, Y)
    model.steps[0][1].func = harm
    skops.io.dump(model, tmp_path / "m.skops")
    with pytest.raises(InvalidInputError, match="which is not on the trusted list"):
        load_model(tmp_path / "m.skops")
    with pytest.raises(InvalidInputError, match="which is not on the trusted list"):
        audit(tmp_path / "m.skops", FRAME.assign(good=Y), label="good", positive=1)
    assert not canary.exists()


@pytest.mark.claim("27.20")
def test_a_pickle_inside_an_archive_is_not_opened(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    held = np.empty(1, dtype=object)
    held[0] = Canary(canary)
    hidden = io.BytesIO()
    np.save(hidden, held, allow_pickle=True)

    def change(name: str, content: bytes) -> bytes:
        return hidden.getvalue() if name.endswith(".npy") else content

    data = rewritten(skops.io.dumps(LogisticRegression().fit(FRAME, Y)), change)
    (tmp_path / "m.skops").write_bytes(data)
    with pytest.raises(CounterplayError, match=r"m\.skops"):
        load_model(tmp_path / "m.skops")
    assert not canary.exists()
    pickle.loads(pickle.dumps(Canary(canary)))  # it would have worked
    assert canary.exists()


def with_nodes(model: Any, field: str, value: int) -> Any:
    """Return a tree one of whose nodes points elsewhere."""
    state = model.tree_.__getstate__()
    state["nodes"] = state["nodes"].copy()
    state["nodes"][field][0] = value
    model.tree_.__setstate__(state)
    return model


@pytest.mark.claim("27.20")
@pytest.mark.parametrize(
    ("field", "value"),
    [("left_child", 9_999), ("right_child", 0), ("feature", 77), ("feature", -7)],
)
def test_crafted_trees_of_scikit_learn_are_refused(field: str, value: int, tmp_path: Path) -> None:
    tree = with_nodes(DecisionTreeClassifier(max_depth=3).fit(FRAME, Y), field, value)
    forest = RandomForestClassifier(2, max_depth=3, random_state=0).fit(FRAME, Y)
    with_nodes(forest.estimators_[1], field, value)
    for model in (tree, forest, make_pipeline(forest)):
        skops.io.dump(model, tmp_path / "m.skops")
        with pytest.raises(CounterplayError, match="damaged tree"):
            load_model(tmp_path / "m.skops")


UNCHECKED = """
import sys, numpy, skops.io
model = skops.io.load(sys.argv[1], trusted=skops.io.get_untrusted_types(file=sys.argv[1]))
model.predict(["win cash now"] if hasattr(model, "steps") else numpy.zeros((9, 3)))
"""


def dies(path: Path) -> bool:
    """Whether a model kills the process that asks it, if nobody looks at it before."""
    words = [sys.executable, "-W", "ignore", "-c", UNCHECKED, str(path)]
    return subprocess.run(words, capture_output=True, timeout=120).returncode < 0


@pytest.mark.claim("27.20")
@pytest.mark.parametrize("kind", ["tree", "boosted"])
def test_without_the_check_a_crafted_tree_kills_the_process(kind: str, tmp_path: Path) -> None:
    if kind == "tree":
        model = with_nodes(DecisionTreeClassifier(max_depth=3).fit(FRAME, Y), "left_child", 2**40)
    else:
        model = HistGradientBoostingClassifier(max_iter=2).fit(FRAME, Y)
        model._predictors[0][0].nodes[["left", "right"]][0] = (4_000_000_000, 4_000_000_000)
    skops.io.dump(model, tmp_path / "m.skops")
    with pytest.raises(CounterplayError, match="damaged tree"):
        load_model(tmp_path / "m.skops")
    assert dies(tmp_path / "m.skops")


@pytest.mark.claim("27.20")
@pytest.mark.parametrize("place", [2**31 - 1, 10**9, -1])
def test_a_vocabulary_that_counts_outside_is_refused(place: int, tmp_path: Path) -> None:
    texts = ["win cash now", "see you later"] * 60
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, [0, 1] * 60)
    model.steps[0][1].vocabulary_["cash"] = place
    skops.io.dump(model, tmp_path / "m.skops")
    with pytest.raises(CounterplayError, match="damaged vocabulary"):
        load_model(tmp_path / "m.skops")
    if place == 2**31 - 1:  # without the check it kills the process that asks it
        assert dies(tmp_path / "m.skops")


@pytest.mark.claim("27.20")
@pytest.mark.parametrize(("field", "value"), [("indices", 10**8), ("indptr", 10**8)])
def test_a_sparse_matrix_that_points_outside_is_refused(
    field: str, value: int, tmp_path: Path
) -> None:
    model = LogisticRegression().fit(FRAME, Y).sparsify()
    getattr(model.coef_, field)[1] = value
    skops.io.dump(model, tmp_path / "m.skops")
    with pytest.raises(CounterplayError, match=r"m\.skops (holds a damaged matrix|cannot be read)"):
        load_model(tmp_path / "m.skops")


@pytest.mark.claim("27.20")
def test_three_gigabytes_in_three_megabytes_are_refused(tmp_path: Path) -> None:
    part = gzip.compress(b"0" * 10_000_000)
    small, bomb = tmp_path / "small.csv.gz", tmp_path / "table.csv.gz"
    small.write_bytes(part * 30)
    with pytest.raises(InvalidInputError, match=r"small\.csv\.gz unpacks to more than"):
        read_table(small)
    bomb.write_bytes(part * 300)
    assert bomb.stat().st_size < 3_000_000
    with pytest.raises(InvalidInputError, match=r"table\.csv\.gz unpacks to more than"):
        audit(LogisticRegression().fit(FRAME, Y), bomb, label="good", positive=1)


@pytest.mark.claim("27.20")
def test_an_archive_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b"0" * 50_000_000)
    honest = held.getvalue()
    told = (50_000_000).to_bytes(4, "little")
    for data in (honest, honest.replace(told, (10).to_bytes(4, "little"))):
        (tmp_path / "m.skops").write_bytes(data)
        with pytest.raises(CounterplayError, match=r"m\.skops"):
            load_model(tmp_path / "m.skops")


@pytest.mark.claim("27.20")
def test_onnx_with_data_elsewhere_is_refused_from_its_file(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, 3])
    answer = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None, 3])
    secret = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[3])
    secret.data_location = onnx.TensorProto.EXTERNAL
    secret.external_data.add(key="location", value="../../etc/passwd")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [given], [answer], [secret])
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(CounterplayError, match=r"m\.onnx.*external data"):
        load_model(tmp_path / "m.onnx")


@pytest.mark.claim("27.20")
def test_onnx_with_a_loop_is_refused(tmp_path: Path) -> None:
    """4e18 turns of nothing: onnxruntime would take them one by one."""
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Identity", ["v"], ["w"])],
        "body",
        [info("i", kinds.INT64, []), info("c", kinds.BOOL, []), info("v", kinds.FLOAT, None)],
        [info("d", kinds.BOOL, []), info("w", kinds.FLOAT, None)],
    )  # fmt: skip
    nodes = [
        helper.make_node("Loop", ["turns", "go", "x"], ["z"], body=body),
        helper.make_node("ArgMax", ["z"], ["label"], axis=1, keepdims=0),
    ]
    held = [
        helper.make_tensor("turns", kinds.INT64, [], [2**62]),
        helper.make_tensor("go", kinds.BOOL, [], [True]),
    ]
    ends = [info("x", kinds.FLOAT, [None, 3])], [info("label", kinds.INT64, [None])]
    graph = helper.make_graph(nodes, "g", *ends, held)
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(CounterplayError, match=r"m\.onnx has a loop"):
        load_model(tmp_path / "m.onnx")
