"""Features computed from all rows: the certificate does not cover them, and the warning says so."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, StandardScaler

from counterplay.poisoning import GlobalFeaturesWarning, PartitionClassifier
from counterplay.poisoning.global_features import sign_of_global_features

TABLES = [load_breast_cancer, load_digits, load_iris, load_wine]


def test_a_step_outside_breaks_the_certificate_and_is_warned_about() -> None:
    """One absurd row rescales a column for everybody if the scaler sees all rows."""
    X, y = load_breast_cancer(return_X_y=True)
    odd = np.vstack([X[:400], np.full((1, X.shape[1]), 1e9)]), np.append(y[:400], 1)

    def flipped(outside: bool) -> int:
        answers = []
        for rows, labels in ((X[:400], y[:400]), odd):
            scaler = StandardScaler().fit(rows) if outside else None
            base = KNeighborsClassifier(3)
            guard = PartitionClassifier(base if outside else make_pipeline(StandardScaler(), base))
            guard.fit(rows if scaler is None else scaler.transform(rows), labels)
            test = X[400:] if scaler is None else scaler.transform(X[400:])
            answers.append((guard.predict(test), guard.certify(test) >= 1))
        return int(((answers[0][0] != answers[1][0]) & answers[0][1]).sum())

    assert flipped(outside=False) == 0
    with pytest.warns(GlobalFeaturesWarning, match="mean 0 and standard deviation 1"):
        assert flipped(outside=True) > 0


@pytest.mark.claim("21.35")
@pytest.mark.parametrize("load", TABLES)
def test_signs_of_scaling_and_principal_components(load) -> None:
    X = load().data
    assert sign_of_global_features(X) is None
    assert "standard deviation" in sign_of_global_features(StandardScaler().fit_transform(X))
    assert "principal" in sign_of_global_features(PCA().fit_transform(X))


REAL = (
    "adult_census_train", "bank_marketing", "compas_two_years", "german_credit",
    "give_me_some_credit_30k", "heloc_fico", "law_school", "spambase", "taiwan_credit_default",
    "wine_quality",
)  # fmt: skip
FOLDER = Path(os.environ.get("COUNTERPLAY_DATA", "/nowhere"))


@pytest.mark.claim("21.35")
@pytest.mark.skipif(not FOLDER.is_dir(), reason="COUNTERPLAY_DATA does not name a folder")
@pytest.mark.parametrize("name", REAL)
def test_signs_on_real_tables(name: str) -> None:
    frame = pd.read_parquet(FOLDER / f"{name}.parquet").select_dtypes("number")
    frame = frame.loc[:, frame.notna().mean() > 0.9].dropna()
    frame = frame.drop(columns=["ID", "id"], errors="ignore")  # 1..n are ranks: rightly a sign
    X = frame.loc[:, frame.nunique() > 1].to_numpy(float)
    scaled = StandardScaler().fit_transform(X)
    assert sign_of_global_features(X) is None
    assert "standard deviation" in sign_of_global_features(scaled)
    assert "principal" in sign_of_global_features(PCA().fit_transform(scaled))


@pytest.mark.claim("21.35")
def test_signs_of_other_steps() -> None:
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, 3.0, size=(400, 5))
    holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    assert "ranks" in sign_of_global_features(QuantileTransformer(n_quantiles=400).fit_transform(X))
    assert "minimum 0" in sign_of_global_features(MinMaxScaler().fit_transform(X))
    assert "imputation" in sign_of_global_features(SimpleImputer().fit_transform(holes))
    pixels = rng.integers(0, 256, size=(400, 5))
    for scale in (255, 256, 16):  # raw images are no sign
        assert sign_of_global_features(np.clip(pixels, 0, scale) / scale) is None


def test_signs_of_inverse_document_frequencies() -> None:
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, 301)
    words = np.array([f"word{i}" for i in range(300)])
    texts = [" ".join(rng.choice(words, 12, p=share / share.sum())) for _ in range(400)]
    found = TfidfVectorizer().fit_transform(texts).toarray()
    assert "tf-idf" in sign_of_global_features(found)
    hashed = HashingVectorizer(n_features=256, alternate_sign=False).transform(texts).toarray()
    assert sign_of_global_features(hashed) is None
    counts = CountVectorizer().fit_transform(texts).toarray().astype(float)
    assert sign_of_global_features(counts) is None
