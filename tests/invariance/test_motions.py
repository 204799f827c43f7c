"""Point sets under all motions of the plane, quadrature from the frame on, pictures by moments."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import AssumptionWarning
from counterplay.invariance import (
    CanonicalClassifier,
    Canonicalizer,
    OrbitVoteClassifier,
    check_symmetry,
    groups,
    symmetry_advisor,
)
from counterplay.invariance.errors import NotAGroupError
from counterplay.invariance.motions import anchored_mean
from counterplay.invariance.random_images import random_images


def polygon(n: int) -> np.ndarray:
    angle = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)]).reshape(1, -1)


@pytest.mark.claim("22.21")
@pytest.mark.parametrize("scale", [False, True])
def test_canonical_forms_do_not_see_motions(scale: bool) -> None:
    X = np.random.default_rng(0).normal(size=(3000, 14))
    motions = groups.plane_motions(7, scale)
    other = random_images(X, motions, np.random.default_rng(1))[0]  # each set by its own motion
    forms, moved = motions.canonical(X), motions.canonical(other)
    size = np.abs(forms).max(axis=1)
    assert (np.abs(forms - moved).max(axis=1) <= 1e-9 * size).all()
    assert not motions.ambiguous(X).any()
    assert motions.orbit_key(X[:300]) == motions.orbit_key(other[:300])
    assert len(set(motions.orbit_key(X))) == 3000


@pytest.mark.claim("22.21")
def test_regular_polygons() -> None:
    for n in range(2, 7):
        motions = groups.plane_motions(n)
        forms = [motions.canonical(motions.sample(polygon(n), 1, seed)[0]) for seed in range(5)]
        for form in forms[1:]:
            np.testing.assert_allclose(form, forms[0], atol=1e-9)
    seven = groups.plane_motions(7)
    assert seven.ambiguous(polygon(7)).all()
    with pytest.warns(AssumptionWarning, match="1 of 1 point sets have no frame"):
        seven.canonical(polygon(7))


@pytest.mark.claim("22.21")
@pytest.mark.parametrize(("dimension", "scale"), [(3, False), (3, True), (5, False)])
def test_frames_of_principal_axes_in_space(dimension: int, scale: bool) -> None:
    X = np.random.default_rng(0).normal(size=(3000, 7 * dimension))
    motions = groups.space_motions(7, dimension, scale)
    other = random_images(X, motions, np.random.default_rng(1))[0]
    kept = ~motions.ambiguous(X)
    assert kept.mean() > 0.999
    forms, moved = motions.canonical(X[kept]), motions.canonical(other[kept])
    size = np.abs(forms).max(axis=1)
    gap = np.abs(forms - moved).max(axis=1) / size
    assert np.quantile(gap, 0.99) <= 1e-9
    assert gap.max() <= 1e-7  # axes of nearly equal variance turn with rounding errors
    assert len(set(motions.orbit_key(X))) == 3000


@pytest.mark.claim("22.21")
def test_sets_without_principal_axes_are_flagged_and_mirror_images_are_others() -> None:
    cube = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T.reshape(1, -1)
    motions = groups.space_motions(8)
    with pytest.warns(AssumptionWarning, match="1 of 1 point sets have no frame"):
        motions.canonical(cube)
    X = np.random.default_rng(0).normal(size=(50, 24))
    mirrored = (X.reshape(50, 8, 3) * np.array([-1.0, 1.0, 1.0])).reshape(50, 24)
    assert not set(motions.orbit_key(X)) & set(motions.orbit_key(mirrored))
    flat = np.concatenate([X.reshape(50, 8, 3)[:, :, :2], np.zeros((50, 8, 1))], axis=2)
    turned = random_images(flat.reshape(50, 24), motions, np.random.default_rng(1))[0]
    assert motions.orbit_key(turned) == motions.orbit_key(flat.reshape(50, 24))


def test_votes_turn_sets_without_a_frame_evenly() -> None:
    """A heptagon has no frame; turned by 360/(7 K) degrees it gives the same K images."""
    rng = np.random.default_rng(0)
    X = np.concatenate([polygon(7) + 0.3 * rng.normal(size=(80, 14)), rng.normal(size=(80, 14))])
    model = OrbitVoteClassifier(DecisionTreeClassifier(max_depth=4, random_state=0),
                                groups.plane_motions(7), n_images=5)  # fmt: skip
    model.fit(X, np.repeat([1, 0], 80))
    angle = 2 * np.pi / 5
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    both = np.concatenate([polygon(7), (polygon(7).reshape(-1, 2) @ turn).reshape(1, -1)])
    assert groups.plane_motions(7).ambiguous(both).all()
    chances = model.predict_proba(both)
    np.testing.assert_allclose(chances[0], chances[1], atol=1e-9)


def test_shifts_and_factors_have_no_uniform_element_and_no_exact_p_value() -> None:
    rng = np.random.default_rng(0)
    X = np.exp(rng.normal(size=(400, 3)))
    y = (X[:, 0] > X[:, 1]).astype(int)
    factor = groups.common_factor(3, [0, 1])
    found = check_symmetry(X, y, factor, random_state=0)
    assert found.verdict != "violated"
    assert found.natural is not None
    assert found.natural.p_value is None
    many, far = np.exp(rng.normal(size=(1500, 3))), groups.common_factor(3, [0, 1], most=8.0)
    wrong = check_symmetry(many, (many[:, 0] > 1).astype(int), far, n_repeats=1, random_state=0)
    assert wrong.verdict == "violated"
    assert factor.orbit_key(X) == factor.orbit_key(factor.sample(X, 1, 0)[0])
    np.testing.assert_array_equal(factor.canonical(X)[:, 2], X[:, 2])
    sets = check_symmetry(X, y, groups.set_permutations(3), random_state=0)
    assert sets.natural is not None
    assert sets.natural.p_value is not None


@pytest.mark.claim("22.22")
def test_quadrature_from_the_frame_on_is_invariant() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 10))
    motions = groups.plane_motions(5)

    def score(rows: np.ndarray) -> np.ndarray:
        return np.tanh(3 * rows[:, 0]) + (rows[:, 3] > 0.2)

    wanted, change = anchored_mean(score, X, motions, 4)
    loose = []
    for angle in rng.random(100) * 2 * np.pi:
        c, s = np.cos(angle), np.sin(angle)
        turned = (X.reshape(-1, 2) @ np.array([[c, s], [-s, c]])).reshape(X.shape)
        np.testing.assert_allclose(anchored_mean(score, turned, motions, 4)[0], wanted, atol=1e-9)
        quarters = [np.linalg.matrix_power(np.array([[0, 1], [-1, 0]]), k) for k in range(4)]
        images = [(turned.reshape(-1, 2) @ turn).reshape(X.shape) for turn in quarters]
        loose.append(np.mean([score(image) for image in images], axis=0))
    assert np.ptp(loose, axis=0).max() > 0.1  # from the row itself on, it is not
    assert (change >= 0).all()
    assert change.max() > 0


def test_pictures_are_turned_to_their_axis() -> None:
    X = load_digits().data[:60] / 16
    wide = np.pad(X.reshape(-1, 8, 8), ((0, 0), (4, 4), (4, 4))).reshape(60, -1)
    turns = groups.image_turns((16, 16), angles=4)
    assert not turns.is_group
    forms = turns.canonical(wide)
    turned = turns.canonical(turns.functions[1](wide))
    gap = np.linalg.norm(forms - turned, axis=1) / np.linalg.norm(forms, axis=1)
    assert np.median(gap) < 0.05
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(turns.functions[0](wide), wide, atol=1e-12)


def test_pictures_of_any_angle_are_classified_by_their_moments() -> None:
    """Turns of any angle are no group: the form by moments is a candidate, orbits are refused."""
    X, y = load_digits(return_X_y=True)
    keep = np.flatnonzero(np.isin(y, [0, 1, 7]))
    X = np.pad(X[keep].reshape(-1, 8, 8) / 16, ((0, 0), (3, 3), (3, 3))).reshape(len(keep), -1)
    y = y[keep]
    turns = groups.image_turns((14, 14), "any")
    model = LogisticRegression(max_iter=100)
    advice = symmetry_advisor(
        model, X[:200], y[:200], turns, future="transformed", check=False,
        candidates=["augment", "smallest", "kernel"], random_state=0,
    )  # fmt: skip
    assert set(advice.to_frame()["candidate"]) == {"plain", "augment", "smallest"}
    assert "not a group" in advice.summary()
    turned = random_images(X[200:], turns, np.random.default_rng(1))[0]
    form = CanonicalClassifier(model, turns).fit(X[:200], y[:200])
    plain = model.fit(X[:200], y[:200])
    assert form.score(turned, y[200:]) > plain.score(turned, y[200:]) + 0.1
    same = form.predict(turned) == form.predict(X[200:])
    assert same.mean() > 0.9
    assert Canonicalizer(turns).fit(X).transform(X[:5]).shape == (5, 196)
    with pytest.raises(NotAGroupError, match="is not a group"):
        Canonicalizer(groups.image_jitter((14, 14))).fit(X)
