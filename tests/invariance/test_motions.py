"""Point sets under all motions of the plane, quadrature from the frame on, pictures by moments."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from counterplay.errors import AssumptionWarning
from counterplay.invariance import groups
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
