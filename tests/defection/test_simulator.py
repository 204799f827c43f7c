"""The simulator takes the data users have, and its tables say what the records say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier

from counterplay.defection import DefectionSimulator
from counterplay.defection.lab import SimulationResult
from counterplay.errors import InvalidInputError
from defection.problems import table

RULES = {
    "fedavg": {"step_size": 1.0},
    "mwfed": {"step_size": 1.0, "gap": 0.2},
    "adagd": {"step_size": 0.1},
    "safe_step": {"step_size": 1.0},
}


@pytest.fixture(scope="module")
def result() -> SimulationResult:
    frame = table()
    simulator = DefectionSimulator(
        "linear", frame[list("abcd")], frame["label"], frame["site"], threshold=0.3
    )
    return simulator.compare(RULES, rounds=80, random_state=0, seeds=3)


def test_tables_say_what_the_records_say(result: SimulationResult) -> None:
    frame = result.to_frame().set_index("rule")
    assert frame.index.tolist() == list(RULES)
    for rule, record in result.records.items():
        left = (record.defect_round >= 0).sum(axis=1)
        assert frame.loc[rule, "defections"] == left.mean()
        final = record.accuracy[:, -1]
        assert frame.loc[rule, "average_accuracy"] == pytest.approx(final.mean())
        assert frame.loc[rule, "worst_site_accuracy"] == pytest.approx(final.min(axis=1).mean())
        assert frame.loc[rule, "worst_site_loss"] == pytest.approx(
            record.loss[:, -1].max(axis=1).mean()
        )
    sites = result.to_frame(by="site")
    assert sites["site"].unique().tolist() == ["north", "south", "west"]
    assert len(result.to_frame(by="run")) == len(RULES) * 3
    pooled = sites.groupby("rule")["workload"].mean()
    assert np.allclose(pooled.loc[list(RULES)], frame["workload"])


def test_convex_protection_holds_on_user_data(result: SimulationResult) -> None:
    for rule in ("adagd", "safe_step"):
        assert not result.record(rule).defections.any()
        assert (result.record(rule).loss >= 0.3).all()
    assert result.record("fedavg").defections.min() > 0


def test_words_and_pictures(result: SimulationResult) -> None:
    assert "SafeStep keeps all 3 sites" in result.verdict
    assert "FedAvg loses" in result.summary()
    assert len(result.timeline().axes) == len(RULES)
    assert result.plot().get_xlabel() == "round"
    assert result.sandwich("safe_step").get_ylabel() == "loss minus threshold"
    with pytest.raises(InvalidInputError, match="did you mean 'fedavg'"):
        result.sandwich("fedavgg")


def test_one_seed_tells_who_left_when() -> None:
    frame = table()
    simulator = DefectionSimulator(
        "linear", frame[list("abcd")], frame["label"], frame["site"], threshold=0.3
    )
    result = simulator.compare(["fedavg"], rounds=150, random_state=1)
    record = result.record("fedavg")
    assert isinstance(result.to_frame().loc[0, "defections"], int | np.integer)
    for m, site in enumerate(result.sites):
        r = int(record.defect_round[0, m])
        assert (f"{site} in round {r}" in result.to_frame().loc[0, "left"]) == (r >= 0)
    again = simulator.compare(["fedavg"], rounds=150, random_state=1)
    assert np.array_equal(again.record("fedavg").loss, record.loss)


def test_seeds_in_several_batches_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table(rows=60)
    simulator = DefectionSimulator(
        "mlp", frame[list("abcd")], frame["label"], frame["site"], threshold=0.3
    )
    options: dict[str, Any] = {"rounds": 12, "random_state": 0, "seeds": 4}
    together = simulator.compare(RULES, **options)
    monkeypatch.setattr("counterplay.defection.simulator.NUMBERS_AT_ONCE", 1)
    apart = simulator.compare(RULES, **options)
    for rule in RULES:
        assert np.allclose(together.record(rule).loss, apart.record(rule).loss, atol=1e-12)


def test_thresholds_and_sites() -> None:
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    site = np.arange(40) % 4 - 1  # -1 belongs to nobody
    simulator = DefectionSimulator("linear", X, y, site, threshold={0: 0.1, 1: 0.2, 2: 0.3})
    assert simulator.sites.tolist() == [0, 1, 2]
    assert simulator.eps.tolist() == [0.1, 0.2, 0.3]
    trained = set(simulator.data.index[simulator.data.index > 0].tolist())
    assert all(site[row] >= 0 for row in trained)
    never = DefectionSimulator("linear", X, y, site, threshold=0.0, test=0.0)
    out = never.compare(["fedavg"], rounds=5, random_state=0)
    assert np.isnan(out.to_frame().loc[0, "population_accuracy"])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        SGDClassifier(loss="log_loss", alpha=0.01),
        SGDClassifier(loss="hinge", alpha=0.01),
        SGDClassifier(loss="modified_huber", penalty=None),
        LogisticRegression(C=0.5),
        MLPClassifier((5,), activation="tanh"),
    ],
    ids=lambda m: f"{type(m).__name__}-{getattr(m, 'loss', '')}",
)
def test_scikit_learn_models_train(model: Any, classes: int) -> None:
    frame = table(rows=90)
    y = np.digitize(frame["a"], np.linspace(-0.5, 0.5, classes - 1))
    simulator = DefectionSimulator(model, frame[list("abcd")], y, frame["site"], threshold=0.05)
    record = simulator.compare({"fedavg": {"step_size": 0.3}}, rounds=40, random_state=0)
    loss = record.record("fedavg").loss[0].mean(axis=1)
    assert loss[-1] < loss[0] + 1e-12
    assert record.record("fedavg").accuracy[0, -1].mean() > 1.15 / classes


def test_torch_modules_of_all_kinds() -> None:
    torch = pytest.importorskip("torch")
    frame = table(rows=60)
    X, y, site = frame[list("abcd")].to_numpy(), frame["label"], frame["site"]
    one_output = torch.nn.Sequential(torch.nn.Linear(4, 1))
    own = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU(), torch.nn.Linear(3, 2))
    before = torch.nn.utils.parameters_to_vector(own.parameters()).clone()
    for module in (one_output, own):
        simulator = DefectionSimulator(module, X, y, site, threshold=0.01)
        out = simulator.compare(["fedavg", "safe_step"], rounds=10, random_state=0)
        assert (out.record("fedavg").loss[0, -1] < out.record("fedavg").loss[0, 0]).all()
    assert torch.equal(before, torch.nn.utils.parameters_to_vector(own.parameters()))
    assert own[0].weight.dtype == torch.float32
    assert own.training
    with pytest.raises(InvalidInputError, match="2 outputs, but y has 3 classes"):
        DefectionSimulator(
            torch.nn.Sequential(torch.nn.Linear(4, 2)), X, np.arange(60) % 3, site, threshold=0.1
        )


X4, Y4, S4 = np.eye(4), [0, 1, 0, 1], [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"model": "forest"}, "no model named 'forest'"),
        ({"model": object()}, "model must be a torch module"),
        ({"X": pd.DataFrame({"a": ["x"] * 4, "b": 1.0})}, "column 'a' of X holds text"),
        ({"X": [[np.nan]] * 4}, "4 missing values"),
        ({"X": X4 * 1e200}, "scale the columns"),
        ({"y": [0, 1]}, "2 labels for 4 rows"),
        ({"y": [1, 1, 1, 1]}, "one class only"),
        ({"site": [0, 1]}, "site has 2 entries for 4 rows"),
        ({"site": np.array(["a", None, "b", "b"], dtype=object)}, "site has no label in row 1"),
        ({"site": [-1, -1, -1, -1]}, "no row belongs"),
        ({"threshold": -0.1}, "negative"),
        ({"threshold": {0: 0.1}}, "no entry for site 1"),
        ({"threshold": [0.1, 0.2, 0.3]}, "one per site"),
        ({"test": 0.95}, "test must be"),
        ({"test": (X4, [0, 1, 2, 0])}, "does not occur"),
    ],
)
def test_bad_input_gets_a_sentence(change: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"model": "linear", "X": X4, "y": Y4, "site": S4, "threshold": 0.1}
    with pytest.raises(InvalidInputError, match=text):
        DefectionSimulator(**(given | change))


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        (["fedavgg"], "did you mean 'fedavg'"),
        ({"fedavg": {"stepsize": 1.0}}, "did you mean 'step_size'"),
        ({"safe_step": {"variant": "naive"}}, "no option of 'safe_step' named 'variant'"),
        ({}, "at least one rule"),
        ({"fedavg": {"step_size": 0.0}}, "step_size must be"),
    ],
)
def test_bad_rules_get_a_sentence(rules: Any, text: str) -> None:
    simulator = DefectionSimulator("linear", X4, Y4, S4, threshold=0.1, test=0.0)
    with pytest.raises(InvalidInputError, match=text):
        simulator.compare(rules, rounds=3)


def test_labels_may_name_their_rule() -> None:
    simulator = DefectionSimulator("linear", X4, Y4, S4, threshold=0.1, test=0.0)
    rules = {"small step": {"rule": "safe_step", "step_size": 0.1}, "safe_step": {}}
    result = simulator.compare(rules, rounds=3, random_state=0)
    assert [p.title for p in result.plans] == ["small step", "SafeStep"]


def test_test_rows_are_matched_by_name() -> None:
    frame = table()
    X, y = frame[list("abcd")], frame["label"]
    found = []
    for order in ("abcd", "dcab"):
        test = (X[list(order)], y)
        simulator = DefectionSimulator("linear", X, y, frame["site"], threshold=0.2, test=test)
        found.append(simulator.compare(["fedavg"], rounds=20, random_state=0).record("fedavg"))
    assert (found[0].population == found[1].population).all()
    assert found[0].population[0, -1] > 0.8
    with pytest.raises(InvalidInputError, match="test has no column 'a'"):
        DefectionSimulator(
            "linear", X, y, frame["site"], threshold=0.2, test=(X.rename(columns={"a": "A"}), y)
        )
