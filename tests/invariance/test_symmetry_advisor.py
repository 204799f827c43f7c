"""One search over all ways to use a symmetry: twins, race, folds by orbit, honest errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from counterplay.errors import InvalidInputError
from counterplay.invariance import SymmetryClassifier, groups, symmetry_advisor
from counterplay.invariance.lab import tic_tac_toe_endgames
from invariance.symmetry_worlds import TURNS, swap

X, Y = load_digits(return_X_y=True)
X = X / 16
ORDER = np.random.default_rng(0).permutation(len(X))
TREE = DecisionTreeClassifier(random_state=0)


def boards(n: int, seed: int = 0):
    rows, won = tic_tac_toe_endgames()
    pick = np.random.default_rng(seed).permutation(len(rows))
    return rows[pick[:n]], won[pick[:n]], rows[pick[n:]], won[pick[n:]]


@pytest.mark.claim("22.11")
def test_turned_digits_get_the_orbit_kernel() -> None:
    train, test = ORDER[:300], ORDER[300:900]
    advice = symmetry_advisor(
        LogisticRegression(max_iter=60), X[train], Y[train], TURNS, future="transformed",
        candidates=["augment", "canonical", "kernel", "kernel, no symmetry", "kernel, augmented"],
        check=False, random_state=0,
    )  # fmt: skip
    turned = np.array([np.rot90(x.reshape(8, 8), i % 4).ravel() for i, x in enumerate(X[test])])
    assert advice.recommendation == "kernel"
    assert 1 - advice.model.score(turned, Y[test]) <= 0.07
    assert "Same model: kernel" in advice.summary()
    assert "kernel, augmented" in advice.summary()
    assert advice.fits_used < advice.fits_full
    assert (advice.theory.vcdim, advice.theory.vcao, advice.theory.vco) == (65, 65, 17)


@pytest.mark.claim("22.12")
def test_a_change_of_model_is_not_credited_to_the_symmetry() -> None:
    train = ORDER[:300]
    advice = symmetry_advisor(
        RandomForestClassifier(15, random_state=0), X[train], Y[train], TURNS,
        candidates=["augment", "kernel", "kernel, no symmetry"], check=False, random_state=0,
    )  # fmt: skip
    assert advice.recommendation == "kernel, no symmetry"
    assert advice.verdict != "use invariant learner"


@pytest.mark.claim("22.12")
def test_a_meaningless_permutation_of_columns_is_refused() -> None:
    rows, y = load_breast_cancer(return_X_y=True)
    rows = StandardScaler().fit_transform(rows)
    rolled = groups.cyclic_shifts(30, step=10)
    model = LogisticRegression(max_iter=200)
    advice = symmetry_advisor(
        model, rows[:300], y[:300], rolled, candidates=["vote", "augment", "canonical", "smallest"],
        check=False, random_state=0,
    )  # fmt: skip
    plain = 1 - model.fit(rows[:300], y[:300]).score(rows[300:], y[300:])
    assert advice.verdict in {"do not augment", "no difference"}
    assert 1 - advice.model.score(rows[300:], y[300:]) <= plain + 0.01


@pytest.mark.claim("22.13")
def test_boards_get_a_method_near_the_best_one() -> None:
    """Every use of the board's symmetries beats the plain tree; the advisor takes a good one."""
    rows, won, others, wins = boards(200)
    names = ["vote", "augment", "augment+vote", "canonical", "smallest"]
    advice = symmetry_advisor(TREE, rows, won, groups.d4((3, 3)), candidates=names, check=False,
                              random_state=0)  # fmt: skip
    plain = 1 - TREE.fit(rows, won).score(others, wins)
    error = 1 - advice.model.score(others, wins)
    assert error <= 0.04 < plain
    assert advice.known_orbit_error <= advice.naive_error + 0.02  # known orbits are looked up


@pytest.mark.claim("22.14")
def test_the_corrected_error_is_not_below_chance_on_noise() -> None:
    corrected, naive = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows, y = rng.normal(size=(80, 4)), rng.integers(0, 2, size=80)
        advice = symmetry_advisor(
            KNeighborsClassifier(3), rows, y, groups.cyclic_shifts(4), check=False, n_boot=100,
            race=None, candidates=["vote", "augment", "canonical", "smallest", "features"],
            random_state=0,
        )  # fmt: skip
        corrected.append(advice.error)
        naive.append(advice.naive_error)
        assert advice.error_low <= advice.error <= advice.error_high
    assert np.mean(corrected) > 0.47
    assert np.mean(naive) < np.mean(corrected)  # the smallest of six errors is optimistic


@pytest.mark.claim("22.15")
def test_no_orbit_is_on_both_sides() -> None:
    rows, won, _, _ = boards(300)
    group = groups.d4((3, 3))
    keys = group.orbit_key(rows)
    assert len(set(keys)) < len(keys)  # orbits repeat
    symmetry_advisor(TREE, rows, won, group, candidates=["vote"], check=False, n_boot=2,
                     random_state=0)  # fmt: skip
    with pytest.raises(InvalidInputError, match="rows of one orbit on both sides"):
        symmetry_advisor(TREE, rows, won, group, n_splits=KFold(5), check=False)


@pytest.mark.claim("22.16")
@pytest.mark.parametrize("seed", range(4))
def test_racing_changes_fits_and_not_the_choice(seed: int) -> None:
    rows, won, _, _ = boards(150, seed)
    names = ["vote", "augment", "augment+vote", "canonical", "smallest"]
    raced, full = (
        symmetry_advisor(TREE, rows, won, groups.d4((3, 3)), candidates=names, race=race,
                         check=False, n_boot=2, random_state=seed)
        for race in (0.01, None)
    )  # fmt: skip
    assert raced.recommendation == full.recommendation
    assert raced.fits_used <= raced.fits_full == full.fits_used


@pytest.mark.claim("22.29")
def test_one_and_two_processes_give_the_same_advice() -> None:
    rows, won, _, _ = boards(120)
    with parallel_config(backend="multiprocessing"):  # processes that start at once
        one, two = (
            symmetry_advisor(TREE, rows, won, groups.d4((3, 3)), candidates=["vote", "augment"],
                             check=False, n_boot=20, n_jobs=n, random_state=3)
            for n in (1, 2)
        )  # fmt: skip
    assert (one.rows, one.error, one.verdict) == (two.rows, two.error, two.verdict)


@pytest.mark.claim("22.30")
@pytest.mark.parametrize("group", [None, groups.image_rotations((8, 8), angles=1)])
def test_a_trivial_group_fits_the_plain_model_only(group) -> None:
    advice = symmetry_advisor(TREE, X[:120], Y[:120], group, n_splits=3, random_state=0)
    assert advice.to_frame()["candidate"].tolist() == ["plain"]
    assert (advice.recommendation, advice.verdict) == ("plain", "no difference")
    assert advice.fits_full == advice.fits_used == 6


@pytest.mark.claim("22.20")
def test_large_samples_are_searched_in_part_and_fitted_whole() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, size=(3000, 4)).astype(np.uint8)
    y = (rows.max(axis=1) > 200).astype(int)

    class Counting(DecisionTreeClassifier):
        sizes: list[int] = []  # noqa: RUF012

        def fit(self, X, y):
            Counting.sizes.append(len(X))
            assert X.dtype == np.uint8
            return super().fit(X, y)

    advice = symmetry_advisor(Counting(max_depth=4), rows, y, groups.cyclic_shifts(4), max_rows=400,
                              candidates=["smallest"], check=False, random_state=0)  # fmt: skip
    assert max(Counting.sizes[:-1]) < 400
    assert Counting.sizes[-1] == 3000
    assert "used 400 of 3,000 rows" in advice.summary()


def test_an_approximate_symmetry_is_called_so() -> None:
    flips = groups.image_flips((8, 8), ["vertical"])
    advice = symmetry_advisor(make_pipeline(StandardScaler(), LogisticRegression(max_iter=50)),
                              X, Y, flips, candidates=["augment"], n_splits=2, n_boot=10,
                              random_state=0)  # fmt: skip
    assert "Your symmetry is approximate: at least" in advice.reason
    assert "plant wrong labels" in advice.reason


def test_shares_scorers_weights_regressors_and_sparse_rows() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(160, 3))
    y = (rows.sum(axis=1) > 0).astype(int)
    group = groups.column_permutations(3)
    few = {"candidates": ["vote", "augment"], "check": False, "n_boot": 5, "n_splits": 3}
    half = symmetry_advisor(LinearSVC(), rows, y, group, future=0.5, random_state=0, **few)
    assert "50% transformed" in half.summary()
    assert "votes are counted" in half.summary()
    soft = symmetry_advisor(LogisticRegression(), rows, y, group, scoring="log_loss",
                            random_state=0, **few)  # fmt: skip
    assert 0 < soft.error < 0.5
    weights = rng.integers(1, 3, size=160)
    weighted = symmetry_advisor(LogisticRegression(), rows, y, group, sample_weight=weights,
                                random_state=0, **few)  # fmt: skip
    assert np.isfinite(weighted.error)
    numbers = symmetry_advisor(Ridge(), rows, rows.sum(axis=1), group, random_state=0, **few)
    assert numbers.loss == "squared error"
    stump, sets = DecisionTreeRegressor(max_depth=3), groups.set_permutations(3)
    trees = symmetry_advisor(stump, rows, rows.max(axis=1), sets, check=False, n_boot=5,
                             random_state=0)  # fmt: skip
    assert {"canonical", "kernel"}.isdisjoint(trees.to_frame()["candidate"])
    thin = sparse.csr_array(np.where(np.abs(rows) > 0.5, rows, 0.0))
    few["candidates"] = ["vote", "augment", "smallest"]
    dense = symmetry_advisor(LogisticRegression(), thin.toarray(), y, swap(3, 0, 1),
                             future="transformed", random_state=0, **few)  # fmt: skip
    found = symmetry_advisor(LogisticRegression(), thin, y, swap(3, 0, 1), future="transformed",
                             random_state=0, **few)  # fmt: skip
    assert set(found.to_frame()["candidate"]) == set(dense.to_frame()["candidate"])


def test_what_the_race_hid_from_the_verdict_is_said() -> None:
    """A tree loses to the kernel at once, and is compared with its copies on two folds only."""
    rows, won, _, _ = boards(200, 1)
    names = ["augment", "kernel", "kernel, no symmetry", "kernel, augmented"]
    advice = symmetry_advisor(TREE, rows, won, groups.d4((3, 3)), candidates=names, check=False,
                              n_boot=2, random_state=0)  # fmt: skip
    seen = advice.to_frame().set_index("candidate")["seen"]
    assert seen["plain"] < 1
    assert advice.verdict == "no difference"
    assert f"lost the race and saw {seen['plain']:.0%} of the rows" in advice.reason


def test_few_orbits_are_said() -> None:
    rows, y = np.repeat(np.eye(4), 5, axis=0), np.repeat([0, 0, 1, 1], 5)
    with pytest.raises(InvalidInputError, match="orbits; use n_splits <= 2"):
        symmetry_advisor(TREE, rows, y, groups.sign_flips(4))


@pytest.mark.claim("22.28")
def test_the_estimator_uses_the_advice() -> None:
    rows, won, others, wins = boards(150)
    model = SymmetryClassifier(TREE, groups.d4((3, 3)), candidates=["augment", "canonical"],
                               random_state=0).fit(rows, won)  # fmt: skip
    assert model.score(others, wins) == pytest.approx(model.advice_.model.score(others, wins))
    assert model.predict_proba(others).shape == (len(others), 2)


def test_weights_of_copies_are_tried_where_a_penalty_makes_them_matter() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(150, 4))
    y = (rows.sum(axis=1) + rng.normal(size=150) > 0).astype(int)
    wanted = ["augment", "augment, by points"]
    tried = {}
    for model in (LogisticRegression(C=0.01), TREE, make_pipeline(StandardScaler(), TREE)):
        advice = symmetry_advisor(model, rows, y, groups.column_permutations(4), candidates=wanted,
                                  check=False, random_state=0)  # fmt: skip
        tried[type(model).__name__] = advice.to_frame()["candidate"].tolist()
    assert tried == {"LogisticRegression": ["plain", *wanted],
                     "DecisionTreeClassifier": ["plain", "augment"],
                     "Pipeline": ["plain", "augment"]}  # fmt: skip


def test_no_warning_where_nothing_can_be_compared() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        advice = symmetry_advisor(TREE, [[0.0], [1.0], [2.0]], [0, 1, 1], None, check=False)
    assert advice.to_frame()["seen"].tolist() == [0.0]
