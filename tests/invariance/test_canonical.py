"""One member stands for its orbit: the loop by hand, and exact invariance."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import InvalidInputError
from counterplay.invariance import CanonicalClassifier, Canonicalizer, groups
from counterplay.invariance.canonical import alignment_template, closest_images
from counterplay.invariance.lab import InfiniteOrbitError, NotAGroupError
from invariance.problems import BASES, digits, extreme_turn


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


def test_single_and_double_precision_have_the_same_representative() -> None:
    """Ties and near ties are decided in the numbers that were given."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(300, 16)).astype(np.float32) / 3
    group = groups.d4((4, 4))
    double = X.astype(np.float64)
    np.testing.assert_array_equal(group.canonical(X), group.canonical(double))
    assert group.orbit_key(X) == group.orbit_key(double)
    forms = [Canonicalizer(group).fit(rows).transform(rows) for rows in (X, double)]
    np.testing.assert_array_equal(forms[0], forms[1])
