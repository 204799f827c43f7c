"""The wrappers against the loops one would write by hand: the same numbers, not similar ones."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import InvalidInputError
from counterplay.invariance import (
    AugmentedClassifier,
    CanonicalClassifier,
    ErmInvClassifier,
    OrbitVoteClassifier,
    groups,
)
from counterplay.invariance.canonical import alignment_template, closest_images
from counterplay.invariance.lab import InfiniteOrbitError, NotAGroupError
from invariance.problems import all_turns, extreme_turn

BASES = {
    "logistic": LogisticRegression(max_iter=300),
    "scaled logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    "tree": DecisionTreeClassifier(random_state=0),
    "support vectors": SVC(C=10.0, random_state=0),
    "nearest": KNeighborsClassifier(1),
}


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """240 upright digits, some of them symmetric, their labels, and 300 turned ones."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    X[:20] = (X[:20] + X[:20, ::-1]) / 2  # half turns do not change these
    turns = np.random.default_rng(0).integers(4, size=300)
    test = [np.rot90(x.reshape(8, 8), k).ravel() for x, k in zip(X[240:540], turns)]
    return X[:240], y[:240], np.array(test)


@pytest.mark.claim("11.29")
@pytest.mark.parametrize("name", BASES)
def test_augmentation_is_the_loop(name: str) -> None:
    X, y, test = digits()
    by_hand = BASES[name].fit(np.concatenate(all_turns(X)), np.tile(y, 4))
    group = groups.image_rotations((8, 8))
    ours = AugmentedClassifier(BASES[name], group).fit(X, y)
    assert ours.n_copies_ == 960
    np.testing.assert_array_equal(ours.predict(test), by_hand.predict(test))
    both = ErmInvClassifier(BASES[name], group, augment=True).fit(X, y)
    np.testing.assert_array_equal(both.predict(test), by_hand.predict(test))  # no orbit is known
    if hasattr(by_hand, "predict_proba"):
        np.testing.assert_array_equal(ours.predict_proba(test), by_hand.predict_proba(test))
        mean = np.mean([by_hand.predict_proba(turned) for turned in all_turns(test)], axis=0)
        vote = OrbitVoteClassifier(ours, group).fit(X, y)
        np.testing.assert_allclose(vote.predict_proba(test), mean, rtol=0, atol=1e-12)


@pytest.mark.claim("11.29")
@pytest.mark.parametrize("name", BASES)
def test_canonical_form_is_the_loop(name: str) -> None:
    X, y, test = digits()
    smallest = partial(extreme_turn, pick=min)
    by_hand = BASES[name].fit(smallest(X), y)
    ours = CanonicalClassifier(BASES[name], groups.image_rotations((8, 8)), form="smallest")
    ours.fit(X, y)
    np.testing.assert_array_equal(ours.representatives(test), smallest(test))
    np.testing.assert_array_equal(ours.predict(test), by_hand.predict(smallest(test)))


@pytest.mark.claim("11.29")
def test_lookup_is_the_loop() -> None:
    X, y, test = digits()
    test = np.concatenate([test, *(turned[:60] for turned in all_turns(X))])
    table = {min(turned, key=tuple).tobytes(): label for turned, label in zip_turns(X, y)}
    base = LogisticRegression(max_iter=300).fit(X, y)
    expected = [
        table.get(min(turned, key=tuple).tobytes(), guess)
        for turned, guess in zip_turns(test, base.predict(test))
    ]
    ours = ErmInvClassifier(LogisticRegression(max_iter=300), groups.image_rotations((8, 8)))
    np.testing.assert_array_equal(ours.fit(X, y).predict(test), expected)


def zip_turns(X: np.ndarray, y: np.ndarray):
    return zip(zip(*all_turns(X)), y)


def test_weighting_by_points_keeps_the_penalty_of_the_natural_sample() -> None:
    """Sharing weight one among |G| copies is the loop with the penalty |G| times stronger."""
    X, y, test = digits()
    X, y = X[20:], y[20:]  # no symmetric images: four distinct copies each
    group = groups.image_rotations((8, 8))
    options = {"max_iter": 5000, "tol": 1e-10}
    shared = AugmentedClassifier(LogisticRegression(**options), group, weighting="points")
    loop = LogisticRegression(C=0.25, **options).fit(np.concatenate(all_turns(X)), np.tile(y, 4))
    np.testing.assert_allclose(
        shared.fit(X, y).predict_proba(test), loop.predict_proba(test), atol=1e-5
    )
    with pytest.raises(InvalidInputError, match="sample_weight"):
        AugmentedClassifier(KNeighborsClassifier(1), group, weighting="points").fit(X, y)


@pytest.mark.claim("11.30")
@pytest.mark.parametrize(
    "group",
    [groups.image_rotations((8, 8)), groups.d4((8, 8)), groups.cyclic_shifts(64, step=8),
     groups.sign_flips(64), groups.column_permutations(64, [[0, 1], [2, 3], [62, 63]])],
    ids=repr,
)  # fmt: skip
def test_aligned_representatives_are_exactly_invariant(group) -> None:
    X, y, test = digits()
    model = CanonicalClassifier(DecisionTreeClassifier(random_state=0), group).fit(X, y)
    first = model.representatives(test)
    orbit = group.apply(test)
    assert ((orbit == first).all(axis=2).any(axis=0)).all()  # each is a member of its orbit
    for image in orbit[1:]:
        np.testing.assert_array_equal(model.representatives(image), first)
        np.testing.assert_array_equal(model.representatives(image[:1]), first[:1])  # alone, too
    # None of the orbit is closer to the template, up to rounding.
    distances = ((orbit - model.template_) ** 2).sum(axis=2)
    chosen = ((first - model.template_) ** 2).sum(axis=1)
    np.testing.assert_allclose(chosen, distances.min(axis=0), rtol=1e-12)


@pytest.mark.claim("11.30")
def test_alignment_never_spreads_the_sample() -> None:
    X, _, _ = digits()
    group = groups.d4((8, 8))
    template, spread = X.mean(axis=0), [((X - X.mean(axis=0)) ** 2).sum()]
    for _ in range(30):
        moved = closest_images(X, group, template)
        template = moved.mean(axis=0)
        spread.append(((moved - template) ** 2).sum())
    assert all(after <= before + 1e-9 for before, after in pairwise(spread))
    assert spread[-1] < 0.9 * spread[0]
    np.testing.assert_array_equal(alignment_template(X, group), template)  # it has settled


def test_canonical_forms_that_do_not_exist_are_refused() -> None:
    X, y = np.array([[1.0, 2.0], [3.0, 5.0]]), [0, 1]
    base = KNeighborsClassifier(1)
    assert CanonicalClassifier(base, groups.set_permutations(2)).fit(X, y).template_ is None
    with pytest.raises(InfiniteOrbitError, match="smallest"):
        CanonicalClassifier(base, groups.set_permutations(2), form="aligned").fit(X, y)
    with pytest.raises(NotAGroupError):
        CanonicalClassifier(base, groups.image_jitter((1, 2))).fit(X, y)
    with pytest.raises(InvalidInputError, match="form"):
        CanonicalClassifier(base, groups.sequence_reversal, form="largest").fit(X, y)
