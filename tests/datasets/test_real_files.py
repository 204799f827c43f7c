"""The real files, where the folder COUNTERPLAY_DATA has them: published counts and meanings."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterplay import datasets
from counterplay.datasets.catalogue import CATALOGUE
from counterplay.datasets.dataset import Dataset
from counterplay.errors import DataUnavailableError

# name: rows, rows with label 1 (the outcome people want), published or by the source's table
TABLES = {
    "german_credit": (1000, 700),
    "give_me_some_credit": (30_000, 27_957),
    "taiwan": (30_000, 23_364),
    "adult": (32_561, 7841),
    "heloc": (10_459, 5000),
    "compas": (7214, 7214 - 3251),
    "law_school": (20_798, 18_505),
    "bank_marketing": (40_004, 4667),
    "spambase": (4601, 4601 - 1813),
    "sms_spam": (5574, 5574 - 747),
}


def get(name: str, folder: Path) -> Dataset:
    if any(form.files[0].endswith(".parquet") for form in CATALOGUE[name].forms):
        pytest.importorskip("pyarrow")
    try:
        return datasets.fetch(name, folder=folder, download=False)
    except DataUnavailableError:
        pytest.skip(f"{name} is not in {folder}")


@pytest.mark.parametrize("name", TABLES)
def test_rows_and_label_1(name: str, real_data: Path) -> None:
    data = get(name, real_data)
    rows, wanted = TABLES[name]
    assert len(data.X) == len(data.y) == len(data.frame) == rows
    assert int(data.y.sum()) == wanted
    assert set(np.unique(data.y)) == {0, 1}
    if data.kind == "table":
        assert data.X.shape == (rows, len(data.feature_names))
        assert np.isfinite(data.X).all()
        assert len(set(data.feature_names)) == len(data.feature_names)


@pytest.mark.parametrize(
    ("name", "feature", "sign"),
    [
        ("german_credit", "duration_months", -1),  # long loans go bad more often
        ("give_me_some_credit", "NumberOfTimes90DaysLate", -1),
        ("taiwan", "PAY_0", -1),  # months of delay
        ("adult", "education_num", 1),
        ("heloc", "ExternalRiskEstimate", 1),  # a credit score
        ("compas", "priors_count", -1),
        ("law_school", "lsat", 1),
        ("bank_marketing", "poutcome=success", 1),
        ("spambase", "word_freq_free", -1),
    ],
)
def test_label_1_points_in_the_wanted_direction(
    name: str, feature: str, sign: int, real_data: Path
) -> None:
    data = get(name, real_data)
    values = data.X[:, data.feature_names.index(feature)]
    assert sign * (values[data.y == 1].mean() - values[data.y == 0].mean()) > 0


def test_german_credit_is_a_usable_task(real_data: Path) -> None:
    data = get("german_credit", real_data)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    assert cross_val_score(model, data.X, data.y, cv=3, scoring="roc_auc").mean() > 0.75


@pytest.mark.parametrize(
    ("name", "separator", "end", "target"),
    [("german_credit", " ", "\n", "german.data"), ("adult", ", ", "\n\n", "adult.data")],
)
def test_checksums_of_the_original_files(
    name: str, separator: str, end: str, target: str, real_data: Path, tmp_path: Path
) -> None:
    """The frame, written in the original layout, has the checksum that downloads must have."""
    data = get(name, real_data)
    lines = (separator.join(map(str, row)) for row in data.frame.itertuples(index=False))
    content = ("\n".join(lines) + end).encode()
    (remote,) = CATALOGUE[name].remotes
    (member,) = remote.extract
    assert member.target == target
    assert hashlib.sha256(content).hexdigest() == member.sha256
    (tmp_path / target).write_bytes(content)
    again = datasets.fetch(name, folder=tmp_path, download=False)
    assert again.frame.equals(data.frame)
    assert np.array_equal(again.X, data.X)


def test_mnist(real_data: Path) -> None:
    data = get("mnist", real_data)
    assert data.X.shape == (60_000, 28, 28)
    assert data.X_test.shape == (10_000, 28, 28)
    # Published label counts and moments.
    assert np.bincount(data.y).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip
    assert round(float(data.X.mean()) / 255, 4) == 0.1307
    assert round(float(data.X.std()) / 255, 4) == 0.3081


def test_emnist(real_data: Path) -> None:
    data = get("emnist_balanced", real_data)
    assert data.X.shape[1:] == (28, 28)
    assert np.array_equal(np.unique(data.y), np.arange(47))
    one = data.X[data.y == data.target_names.index("1")].mean(axis=0)
    # An upright 1 is taller than wide.
    assert (one.max(axis=1) > 60).sum() > 1.3 * (one.max(axis=0) > 60).sum()


def test_cifar10(real_data: Path) -> None:
    pytest.importorskip("PIL.Image")
    data = get("cifar10", real_data)
    assert np.bincount(data.y).tolist() == [5000] * 10
    assert np.bincount(data.y_test).tolist() == [1000] * 10
    # Published channel means of the exact images; the lossy copy is close.
    means = data.X.reshape(-1, 3).mean(axis=0) / 255
    assert np.allclose(means, [0.4914, 0.4822, 0.4465], atol=2e-3)


def test_frames_without_labels(real_data: Path) -> None:
    assert get("laptops", real_data).frame.shape == (1275, 15)
    assert get("cars", real_data).frame.shape == (406, 9)
    flu = get("flusight", real_data).frame
    assert flu["model"].nunique() == 83
    assert (flu["q10"] <= flu["q90"]).mean() > 0.999
    people = get("gjp", real_data).frame
    assert people["user_id"].nunique() == 546
    assert people["value"].between(0, 1).all()


def test_wine_quality(real_data: Path) -> None:
    data = get("wine_quality", real_data)
    assert data.X.shape == (6497, 12)
    assert (data.y.min(), data.y.max()) == (3, 9)


def test_list_shows_the_local_files(real_data: Path) -> None:
    listed = {entry.name: entry for entry in datasets.list_datasets(real_data)}
    present = [e for e in listed.values() if e.where.startswith(str(real_data))]
    if not present:
        pytest.skip(f"none of the files is in {real_data}")
    assert all(entry.available for entry in present)
