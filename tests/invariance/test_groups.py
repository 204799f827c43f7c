"""Ready-made groups and users' functions: group laws, orbit keys, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.invariance import groups
from counterplay.invariance.lab import (
    AbstractOrbits,
    CoordinatePermutationGroup,
    IdentityMissingError,
    InfiniteOrbitError,
    MapSet,
    MatrixGroup,
    NotAGroupError,
    ShapeError,
)

FINITE = {
    "rotations": groups.image_rotations((3, 3)),
    "half turns": groups.image_rotations((2, 3), angles=2),
    "flips": groups.image_flips((2, 3)),
    "d4": groups.d4((3, 3)),
    "d4 with channels": groups.d4((2, 2, 3)),
    "shifts": groups.image_shifts((2, 3)),
    "colours": groups.colour_permutations((1, 2, 3)),
    "reversal": groups.sequence_reversal(5),
    "cyclic": groups.cyclic_shifts(6, step=2),
    "columns": groups.column_permutations(4, blocks=[[0, 1], [2, 3]]),
    "signs": groups.sign_flips(3, columns=[[0], [1, 2]]),
    "plane": groups.plane_rotations(4),
    "callables": groups.from_callables([lambda X: X, lambda X: X[:, ::-1]], n_features=3),
}


@pytest.mark.parametrize("name", FINITE)
def test_groups_keep_the_group_laws_and_their_keys(name: str) -> None:
    group = FINITE[name]
    X = np.random.default_rng(0).integers(-2, 3, size=(30, group.n_features)).astype(float)
    report = groups.check_validity(group, X)
    assert report.is_group
    group.validate(X)
    images = group.apply(X)
    assert images.shape == (group.order, *X.shape)
    keys = group.orbit_key(X)
    for g in range(int(group.order)):
        assert group.orbit_key(images[g]) == keys
        np.testing.assert_array_equal(group.act(g, X[0]), images[g, 0])
    # Different orbits have different keys: compare with the set of images of each point.
    orbits = [frozenset(map(bytes, np.ascontiguousarray(images[:, i] + 0.0))) for i in range(30)]
    for i in range(30):
        for j in range(30):
            assert (keys[i] == keys[j]) == (orbits[i] == orbits[j])


def test_rotations_are_numpy_rotations() -> None:
    image = np.arange(16.0).reshape(4, 4)
    group = groups.image_rotations((4, 4))
    for k in range(4):
        np.testing.assert_array_equal(
            group.act(k, image.reshape(-1)).reshape(4, 4), np.rot90(image, k)
        )


def test_user_functions_are_checked_on_real_numbers() -> None:
    """Rounding must not make a group of rotations look like none, nor x + 1 like one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (np.hypot(*X.T) > 1).astype(int)
    turn = np.array([[-0.5, -np.sqrt(0.75)], [np.sqrt(0.75), -0.5]])
    thirds = [np.eye(2), turn, turn @ turn]
    rotations = groups.from_callables([lambda X, M=M: X @ M.T for M in thirds], n_features=2)
    report = groups.check_validity(rotations, X, y)
    assert report.is_group
    assert report.n_orbits == 80
    rotations.validate(X)
    shifts = groups.from_callables([lambda X: X, lambda X: X + 1.0], n_features=2)
    report = groups.check_validity(shifts, X)
    assert (report.has_identity, report.closed, report.missing_pair) == (True, False, (1, 1))
    flip = groups.from_callables([lambda X: -X], n_features=2)
    assert not groups.check_validity(flip, X).has_identity
    squash = groups.from_callables([lambda X: X, lambda X: 0 * X], n_features=2)
    report = groups.check_validity(squash, X)
    assert (report.closed, report.has_inverses) == (True, False)


def test_what_is_refused() -> None:
    with pytest.raises(NotAGroupError, match="transformations 1 and 1") as caught:
        CoordinatePermutationGroup([[0, 1, 2], [1, 2, 0]])
    assert caught.value.pair == (1, 1)
    assert CoordinatePermutationGroup.closure([[1, 2, 0]]).order == 3
    with pytest.raises(IdentityMissingError):
        CoordinatePermutationGroup([[1, 0]])
    with pytest.raises(IdentityMissingError):
        MapSet([[1], [0]])
    with pytest.raises(NotAGroupError):
        MatrixGroup([np.eye(2), [[0, -1], [1, 0]]])
    with pytest.raises(ShapeError, match="NaN"):
        groups.plane_rotations(3).orbit_key(np.full((1, 2), np.nan))
    with pytest.raises(ShapeError, match="infinity"):
        groups.d4((3, 3)).orbit_key(np.full((1, 9), np.inf))
    with pytest.raises(ShapeError):
        groups.d4((3, 3)).orbit_key(np.zeros((2, 8)))
    with pytest.raises(InvalidInputError):
        AbstractOrbits([0, 0]).orbit_key([2])
    with pytest.raises(ShapeError):
        groups.image_rotations((2, 3))
    with pytest.raises(InvalidInputError):
        groups.image_rotations((3, 3), angles=8)
    with pytest.raises(InfiniteOrbitError):
        groups.column_permutations(12)
    with pytest.raises(InfiniteOrbitError):
        groups.colour_permutations((2, 2, 9))
    for call in (
        lambda: groups.sign_flips(4, columns=[0, 1]),
        lambda: groups.sign_flips(4, columns=[]),
        lambda: groups.column_permutations(4, blocks=[["a"], ["b"]]),
        lambda: groups.column_permutations(4, blocks=[[0], [4]]),
        lambda: groups.image_shifts((4, 4), steps=2),
        lambda: groups.d4(64),
        lambda: groups.from_callables([1, 2], n_features=3),
        lambda: groups.from_callables(np.sort, n_features=3),
        lambda: groups.set_permutations(2).canonical([["a", "b"]]),
        lambda: groups.graph_relabelling(2).canonical([["a", "b", "c", "d"]]),
        lambda: groups.check_validity(groups.sign_flips(1), [[1.0], [2.0]], [0]),
    ):
        with pytest.raises(InvalidInputError):
            call()
