"""Votes and features that never change on an orbit, keys at every scale, floors, half-spaces."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from counterplay.invariance import OrbitFeatures, OrbitMeanRegressor, OrbitVoteClassifier, groups
from counterplay.invariance.lab import FiniteProblem, MatrixGroup, invariance_floor, vco
from counterplay.invariance.linear_theory import fixed_dimension, theory_view
from counterplay.invariance.random_images import random_images
from invariance.symmetry_worlds import TURNS

SETS = np.random.default_rng(0).normal(size=(600, 6))
LABELS = (np.ptp(SETS, axis=1) > 2.5).astype(int)
BASES = {
    "tree": DecisionTreeClassifier(random_state=0),
    "forest": RandomForestClassifier(10, random_state=0),
    "neighbours": KNeighborsClassifier(3),
}


@pytest.mark.claim("22.17")
@pytest.mark.parametrize("name", BASES)
def test_votes_over_unlisted_groups_are_constant(name: str) -> None:
    model = OrbitVoteClassifier(BASES[name], groups.set_permutations(6), random_state=0)
    model.fit(SETS[:300], LABELS[:300])
    wanted = model.predict(SETS[300:])
    rng = np.random.default_rng(1)
    for _ in range(20):
        shuffled = SETS[300:, rng.permutation(6)]
        np.testing.assert_array_equal(model.predict(shuffled), wanted)


@pytest.mark.claim("22.17")
def test_votes_are_unbiased_for_the_mean_over_all_images() -> None:
    """200 draws of eight members, against the mean over all 720 images."""
    tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(SETS[:300], LABELS[:300])
    x = np.sort(SETS[300])
    exact = np.mean([tree.predict_proba(x[list(p)][None])[0, 1] for p in permutations(range(6))])
    found = []
    for seed in range(200):
        model = OrbitVoteClassifier(BASES["tree"], groups.set_permutations(6), random_state=seed)
        model.fit(SETS[:300], LABELS[:300]).estimator_ = tree
        found.append(model.predict_proba(SETS[300][None])[0, 1])
    assert abs(np.mean(found) - exact) <= 4 * np.std(found) / np.sqrt(200)


@pytest.mark.claim("22.17")
@pytest.mark.parametrize("group", [groups.set_permutations(6), groups.plane_motions(3)], ids=str)
def test_an_answer_does_not_depend_on_the_rows_beside_it(group) -> None:
    """Members of an orbit are drawn once, not row by row."""
    model = OrbitVoteClassifier(BASES["tree"], group, random_state=0).fit(SETS[:300], LABELS[:300])
    features = OrbitFeatures(group, 5, random_state=0).fit(SETS[:300])
    rows = SETS[300:340]
    moved = random_images(rows, group, np.random.default_rng(1))[0][::-1]
    wanted = model.predict_proba(rows)
    np.testing.assert_array_equal(model.predict_proba(moved)[::-1], wanted)
    np.testing.assert_array_equal(np.vstack([model.predict_proba(x[None]) for x in rows]), wanted)
    np.testing.assert_allclose(features.transform(moved)[::-1], features.transform(rows), atol=1e-9)


def conjugated(n: int) -> MatrixGroup:
    base = np.array([[2.0, 1.0], [0.3, 1.0]])
    return MatrixGroup(base @ groups.plane_rotations(n).mats @ np.linalg.inv(base))


@pytest.mark.claim("22.18")
@pytest.mark.parametrize("n", [3, 5, 12])
@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e5, 1e7, 1e12])
def test_keys_are_kept_at_every_scale(n: int, scale: float) -> None:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(20_000, 2)) * scale
    for group in (groups.plane_rotations(n), conjugated(n)):
        keys = group.orbit_key(X)
        assert len(set(keys)) == len(X)  # no false merges
        turned = np.einsum("nij,nj->ni", group.mats[rng.integers(n, size=len(X))], X)
        assert group.orbit_key(turned) == keys
        assert groups.check_validity(group, X).is_group


@pytest.mark.claim("22.18")
def test_validity_looks_at_the_keys_of_the_rows() -> None:
    coarse = MatrixGroup(groups.plane_rotations(3).mats, digits=15)  # finer than rounding errors
    X = np.random.default_rng(0).normal(size=(50, 2)) * 1e7
    kept = coarse.orbit_key(coarse.act(1, X)) == coarse.orbit_key(X)
    assert groups.check_validity(coarse, X).is_group == kept is False


def halfspace_problem(group, grid: list[tuple[float, ...]]) -> FiniteProblem:
    """All labelings of a grid by affine half-spaces with small whole weights."""
    p = len(grid[0])
    points = np.array(grid)
    weights = np.array(np.meshgrid(*[range(-3, 4)] * p)).reshape(p, -1).T
    offsets = np.arange(-6.5, 7)
    values = (points @ weights.T)[:, :, None] + offsets
    table = np.unique((values > 0).reshape(len(points), -1).T.astype(int), axis=0)
    keys = group.orbit_key(points)
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return FiniteProblem(table, [number[key] for key in keys])


@pytest.mark.claim("22.23")
@pytest.mark.parametrize(
    ("group", "p", "wanted"),
    [
        (groups.plane_rotations(4), 2, 1),
        (groups.sign_flips(2, [[0]]), 2, 2),
        (groups.column_permutations(3), 3, 2),
        (groups.cyclic_shifts(4), 4, 2),
    ],
)
def test_orbit_dimension_of_half_spaces(group, p: int, wanted: int) -> None:
    values = (-1.0, 0.0, 1.0) if p < 4 else (0.0, 1.0)
    grid = [tuple(point) for point in np.array(np.meshgrid(*[values] * p)).reshape(p, -1).T]
    assert fixed_dimension(group, p) + 1 == wanted
    assert vco(halfspace_problem(group, grid)).value == wanted


@pytest.mark.claim("22.23")
def test_digits_under_quarter_turns() -> None:
    view = theory_view(LogisticRegression(), TURNS, 64)
    assert (view.vcdim, view.vcao, view.vco) == (65, 65, 17)
    sizes = view.n_for(0.1, 0.05)
    assert sizes["augmentation"] > 65
    assert "not known" in theory_view(DecisionTreeClassifier(), TURNS, 64).sentence()


@pytest.mark.claim("22.24")
def test_floor_is_the_best_constant_predictor() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        mass = rng.integers(0, 5, size=(rng.integers(1, 5), 3)).astype(float)
        mass[0, 0] += 1
        mass /= mass.sum()
        answers = np.array(np.meshgrid(*[range(3)] * len(mass))).reshape(len(mass), -1).T
        best = min(1 - mass[np.arange(len(mass)), a].sum() for a in answers)
        assert invariance_floor(mass) == pytest.approx(best)
        sizes = mass.sum(axis=1)
        pairs = sum(s - (row**2).sum() / s for s, row in zip(sizes, mass) if s > 0)
        assert invariance_floor(mass) >= pairs / 2 - 1e-12


def test_features_and_means_are_constant_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 16))
    group = groups.d4((4, 4))
    features = OrbitFeatures(group, n_templates=10, random_state=0).fit(X)
    mean = OrbitMeanRegressor(DecisionTreeClassifier(random_state=0), group).fit(X, np.arange(80.0))
    for g in range(8):
        np.testing.assert_array_equal(features.transform(group.act(g, X)), features.transform(X))
        np.testing.assert_array_equal(mean.predict(group.act(g, X)), mean.predict(X))
    assert features.transform(X).shape == (80, 30)
    bags = OrbitFeatures(groups.set_permutations(16), 5, random_state=0).fit(X)
    np.testing.assert_array_equal(bags.transform(X[:, ::-1]), bags.transform(X))
