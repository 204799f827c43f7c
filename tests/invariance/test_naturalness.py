"""Whether transformed rows look natural: exact p-values; and the residual test on tables."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from counterplay.errors import InvalidInputError
from counterplay.invariance import check_symmetry, groups
from counterplay.invariance.naturalness import naturalness
from invariance.symmetry_worlds import UPSIDE_DOWN, swap


@pytest.mark.claim("22.08")
def test_p_values_are_uniform_where_rows_are_symmetric() -> None:
    """A slice of the study: 100 samples of 400 rows with one random sign each."""
    values = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 2)) + np.array([1.0, 0.5])
        X *= rng.choice([-1.0, 1.0], size=(400, 1))  # a random element of {1, -1} per row
        found = naturalness(X, lambda pick, _, X=X: (-X[pick], None), rng,
                            classifier=LogisticRegression())  # fmt: skip
        values.append(found.p_value)
    assert stats.kstest(values, "uniform").pvalue > 0.001  # discrete: 200 pairs each


@pytest.mark.claim("22.08")
def test_half_turned_digits_are_recognised() -> None:
    X, y = load_digits(return_X_y=True)
    found = check_symmetry(X, y, groups.image_rotations((8, 8), 2), n_repeats=1, random_state=0)
    assert found.natural is not None
    assert found.natural.accuracy > 0.9
    assert found.natural.tv_low > 0.7
    assert not found.natural.looks_natural


@pytest.mark.claim("22.09")
def test_residual_test_finds_what_noise_hides_and_refuses_pictures() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    chance = 1 / (1 + np.exp(-4 * X[:, 0]))
    noisy = (rng.random(500) < chance).astype(int)
    found = check_symmetry(X, noisy, swap(4, 0, 1), method="residual", random_state=0)
    assert found.verdict == "violated"
    assert found.residual is not None
    assert found.residual.statistic > 5
    fair = (rng.random(500) < 1 / (1 + np.exp(-2 * (X[:, 0] + X[:, 1])))).astype(int)
    good = check_symmetry(X, fair, swap(4, 0, 1), method="residual", random_state=0)
    assert good.verdict == "no violation seen"
    assert abs(good.residual.statistic) < 3
    assert "indicative only" in good.summary()
    digits, y = load_digits(return_X_y=True)
    with pytest.raises(InvalidInputError, match="Use method='neighbours'"):
        check_symmetry(digits, y, UPSIDE_DOWN, kind="image", method="residual")
    far = X + np.array([0, 9, 0, 0])
    with pytest.raises(InvalidInputError, match="needs overlap; here 0"):
        check_symmetry(far, noisy, swap(4, 0, 1), method="residual", random_state=0)


@pytest.mark.claim("22.09")
@pytest.mark.skipif("COUNTERPLAY_DATA" not in os.environ, reason="needs COUNTERPLAY_DATA (wine)")
def test_residual_test_on_wine() -> None:
    """A slice of the study symmetry-labels: 1,200 of 3,000 rows."""
    from counterplay.studies.invariance.symmetry_labels import _table

    for name, low, high in (
        ("wine, alcohol and density", 4, 99),
        ("wine, sets of 3", -3, 3),
    ):
        found = check_symmetry(*_table(name), method="residual", max_rows=1200, random_state=0)
        assert low < found.residual.statistic < high
