"""The matched-neighbour test: exact tuples, size, coverage, power, and what it refuses to say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.datasets import load_digits

from counterplay.errors import InvalidInputError
from counterplay.invariance import check_symmetry, groups
from counterplay.invariance.errors import ShapeError
from counterplay.invariance.lab import CoordinatePermutationGroup, tic_tac_toe_endgames
from counterplay.invariance.label_test import label_test
from counterplay.invariance.matched_neighbours import geometry, landing, match, one_per_cluster
from counterplay.invariance.symmetry import read_question
from invariance.symmetry_worlds import TURNS, UPSIDE_DOWN, invariant_table, swap, turned_digits

DIGITS = load_digits(return_X_y=True)


def asked(X, y, group, seed=0, **more):
    """The test alone, without the naturalness test."""
    question = read_question(X, y, group, clusters=more.pop("clusters", None))
    return label_test(
        question.embed(question.rows), question.y, question.mover(), clusters=question.clusters,
        rng=np.random.default_rng(seed), **more,
    )  # fmt: skip


@pytest.mark.claim("22.01")
def test_digits_upside_down_half_turn_mirror_and_quarter_turns() -> None:
    X, y = DIGITS
    flipped = check_symmetry(X, y, UPSIDE_DOWN, random_state=0)
    assert flipped.verdict == "violated"
    assert flipped.p_value < 0.001
    assert "calibrated on other real data" in flipped.summary()
    top = flipped.conflicts.head(2)
    assert {tuple(row) for row in top[["label", "lands_among"]].to_numpy()} == {(2, 5), (5, 2)}
    assert top["count"].sum() >= 50  # 63 to 65 were measured, over five repeats
    half = [asked(X, y, groups.image_rotations((8, 8), 2), seed) for seed in range(3)]
    assert sum(test.p_value < 0.05 for test in half) >= 2
    assert all(test.conflicts().most_common(1)[0][0] == (6, 9) for test in half)
    mirrored = check_symmetry(X, y, groups.image_flips((8, 8), ["horizontal"]), random_state=0)
    assert mirrored.verdict == "no violation seen"
    assert asked(X, y, groups.image_jitter((8, 8))).p_value >= 0.2
    quarter = groups.from_callables(
        [lambda A, k=k: np.rot90(A.reshape(-1, 8, 8), k, (1, 2)).reshape(len(A), 64)
         for k in (0, 1, 3)], 64, is_group=False,
    )  # fmt: skip
    places = np.arange(64)
    transposed = CoordinatePermutationGroup([places, places.reshape(8, 8).T.ravel()])
    for test in (asked(X, y, quarter), asked(X, y, transposed)):
        assert test.n_tuples == 0
        assert not test.testable


@pytest.mark.claim("22.02")
@pytest.mark.parametrize(("share", "noise"), [(0.15, 0.0), (0.15, 0.3), (0.4, 0.0), (0.4, 0.3)])
def test_size_on_turned_digits(share: float, noise: float) -> None:
    """A slice of the study: 12 runs of 60."""
    rejected = 0
    for seed in range(12):
        X, y, _ = turned_digits(np.random.default_rng(seed), 500, share, noise)
        rejected += asked(X, y, TURNS, seed).p_value <= 0.05
    assert rejected <= 3  # chance of more at level 0.05: 0.002


@pytest.mark.claim("22.03")
@pytest.mark.claim("22.04")
def test_coverage_and_power_on_turned_digits() -> None:
    """A slice of the study: 5 runs with one violating class of eight, and with two."""
    for n, violating in ((1400, 1), (800, 2)):
        found = covered = 0
        for seed in range(5):
            rng = np.random.default_rng(100 + seed)
            X, y, eta = turned_digits(rng, n, 0.4, violating=violating)
            test = asked(X, y, TURNS, seed)
            found += test.p_value <= 0.05
            covered += test.low(0.05) <= eta <= test.high(0.05)
        assert found >= 4
        assert covered == 5


@pytest.mark.claim("22.05")
def test_boards_hold_and_a_wrong_swap_does_not() -> None:
    X, y = tic_tac_toe_endgames()
    good = check_symmetry(X, y, groups.d4((3, 3)), random_state=0)
    assert good.verdict == "holds up to eta0"
    assert good.eta_safe < 0.05
    assert good.n_tuples >= 300  # 301 to 303 were measured
    assert good.conflicts.empty
    assert good.natural is not None
    assert good.natural.looks_natural
    wrong = check_symmetry(X, y, swap(9, 4, 0), kind="board", random_state=0)
    assert wrong.p_value < 1e-6
    assert 0.2 <= wrong.eta_low <= wrong.eta_high <= 0.5


@pytest.mark.claim("22.06")
def test_tuples_are_disjoint_and_do_not_know_the_labels() -> None:
    X, y = DIGITS
    seen: list[list[np.ndarray]] = []
    for labels in (y, np.random.default_rng(1).permutation(y)):
        tuples: list[np.ndarray] = []
        asked(X[:600], labels[:600], UPSIDE_DOWN, n_repeats=2,
              hook=lambda t, out=tuples: out.append(np.stack([t.i, t.j, t.c, t.q])))  # fmt: skip
        seen.append(tuples)
    for first, second in zip(*seen):
        np.testing.assert_array_equal(first, second)
        rows = first[[0, 1, 3]].ravel()
        rows = rows[rows >= 0]
        assert len(rows) == len(set(rows.tolist()))
        assert ((first[2] == first[0]) | (first[2] == first[1])).all()


def duplicated(rng, n, *, copied):
    X, y = invariant_table(rng, n)
    X = np.concatenate([X, X])
    noisy = np.where(rng.random(n) < 0.3, rng.integers(0, 4, size=n), y)
    again = np.where(rng.random(n) < 0.3, rng.integers(0, 4, size=n), y)
    return X, np.concatenate([noisy, noisy if copied else again])


@pytest.mark.claim("22.07")
@pytest.mark.parametrize("copied", [False, True])
def test_duplicates_do_not_break_the_level(copied: bool) -> None:
    """Independent labels of copies are kept (clusters=False), copied ones are one row."""
    rejected, runs = 0, 100
    for seed in range(runs):
        X, y = duplicated(np.random.default_rng(seed), 150, copied=copied)
        clusters = None if copied else False
        test = asked(X, y, swap(2, 0, 1), seed, clusters=clusters, n_repeats=1)
        rejected += test.p_value <= 0.05
    assert rejected / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)


@pytest.mark.claim("22.07")
@pytest.mark.parametrize("eta", [0.08, 0.1, 0.3, 0.5, 0.8])
def test_no_violated_world_is_called_holding(eta: float) -> None:
    """Isometric swap; a label is flipped where x0 < x1, in bands that cover a share eta."""
    safe = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(500, 2))
        band = np.mod(np.abs(X[:, 0] - X[:, 1]) * 7, 1) < eta
        y = (X.sum(axis=1) > 0).astype(int) ^ (band & (X[:, 0] < X[:, 1]))
        test = asked(X, y, swap(2, 0, 1), seed)
        safe += test.safe(0.05) >= eta
        assert test.safe(0.05) >= 0.05
    assert safe >= 7


def test_distances_are_exact_and_balls_are_right() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(60, 3)).astype(float) + 1e6  # product forms would be off
    geo = geometry(X, 5)
    full = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    np.fill_diagonal(full, np.inf)
    np.testing.assert_array_equal(geo.ball, np.sort(full, axis=1)[:, 4])
    for i in range(60):
        mine = slice(geo.near.starts[i], geo.near.starts[i + 1])
        wanted = np.flatnonzero(full[i] <= geo.ball[i])
        assert set(wanted) <= set(geo.near.rows[mine].tolist())
        np.testing.assert_array_equal(geo.near.distances[mine], full[i, geo.near.rows[mine]])
    moved = X[:, ::-1].copy()
    lands = landing(geo, moved)
    cross = np.sqrt(((moved[:, None] - X[None]) ** 2).sum(axis=2))
    np.fill_diagonal(cross, np.inf)
    for i in range(60):
        mine = lands.rows[lands.starts[i] : lands.starts[i + 1]]
        assert set(np.flatnonzero(cross[i] <= geo.ball[i])) <= set(mine.tolist())


def test_one_row_of_every_cluster() -> None:
    pick = one_per_cluster(np.array([3, 3, 1, 1, 1, 2]), np.random.default_rng(0))
    assert sorted(np.array([3, 3, 1, 1, 1, 2])[pick].tolist()) == [1, 2, 3]


def test_numbers_as_labels() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    good = asked(X, X.sum(axis=1), swap(2, 0, 1))
    assert good.p_value > 0.05
    bad = check_symmetry(X, X[:, 0] - X[:, 1], swap(2, 0, 1), random_state=0)
    assert bad.verdict == "violated"
    assert bad.eta_low <= bad.eta_high
    assert 1.5 < bad.eta[0] < 2.5  # (2 (x0 - x1))^2 / 2 over the variance of x0 - x1 is 2


def test_sentences_about_numbers_speak_of_squared_changes() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    either = groups.column_permutations(2)
    for y, verdict in ((X[:, 0], "violated"), (X.sum(axis=1), "no violation seen")):
        check = check_symmetry(X, y, either, random_state=0)
        assert (check.verdict, check.about_numbers) == (verdict, True)
        told = check.summary().split("\nTransformed rows")[0]
        assert "half the mean squared change of y" in told
        assert "times its variance" in told
        for wrong in ("change label", "%, at most", "violation rate", "calibrated", "total var"):
            assert wrong not in told
        assert "squared change" in check.plot().get_title()
    assert not check_symmetry(X, X[:, 0] > 0, either, random_state=0).about_numbers


def test_sentences_for_questions_without_an_answer() -> None:
    X, y = DIGITS
    with pytest.raises(InvalidInputError, match="changes none of your rows"):
        check_symmetry(X, y, None)
    with pytest.raises(InvalidInputError, match="y has one class only; every transformation"):
        check_symmetry(X, np.zeros(len(X), int), UPSIDE_DOWN)
    both = np.array([np.arange(64), np.arange(64).reshape(8, 8).T.reshape(-1)])
    few = check_symmetry(X, y, CoordinatePermutationGroup(both), random_state=0)
    assert few.verdict == "not testable"
    assert (
        f"Only {few.n_tuples} of your rows have a transformed version that looks like your data; "
        "the labels cannot confirm or refute this symmetry."
    ) in few.summary()
    assert (few.p_value, few.eta_low, few.eta_high) == (1.0, 0.0, 1.0)
    points = np.random.default_rng(0).normal(size=(60, 2))
    short = check_symmetry(points, points[:, 0] > 0, swap(2, 0, 1), random_state=0)
    assert (short.verdict, short.testable_share > 0.9) == ("not testable", True)
    assert f"only {short.n_tuples} disjoint comparisons" in short.summary()
    assert "Only" not in short.summary()
    with pytest.raises(InvalidInputError, match="Use method='neighbours'"):
        check_symmetry(X, y, UPSIDE_DOWN, method="residual")
    with pytest.raises(ShapeError, match="quarter turns need square images, got shape"):
        groups.image_rotations((3, 4))
    with pytest.raises(ShapeError, match="rows of 64 numbers"):
        check_symmetry(X[:, :3], y, UPSIDE_DOWN)


def test_missing_values_move_with_their_row_or_are_named() -> None:
    frame = pd.DataFrame(*invariant_table(np.random.default_rng(0), 300)[:1], columns=["a", "b"])
    y = (frame.sum(axis=1) > 0).to_numpy()
    frame.iloc[3, 1] = np.nan
    assert check_symmetry(frame, y, swap(2, 0, 1), random_state=0).p_value > 0.05
    with pytest.raises(InvalidInputError, match=r"column 'b' of X has 1 missing .* impute or drop"):
        check_symmetry(frame, y, groups.plane_rotations(4))
    wide = sparse.csr_array((400, 200_000))
    with pytest.raises(InvalidInputError, match=r"needs dense rows: X.toarray\(\), or use column"):
        check_symmetry(wide, np.arange(400) % 2, groups.sequence_reversal(200_000))


def test_sign_test_and_bounds_by_hand() -> None:
    X, y = DIGITS
    test = asked(X, y, UPSIDE_DOWN, n_repeats=1)
    (one,) = test.repeats
    a = int(((one.across == 1) & (one.natural == 0)).sum())
    b = int(((one.across == 0) & (one.natural == 1)).sum())
    assert test.p_value == pytest.approx(stats.binom.sf(a - 1, a + b, 0.5))
    low = stats.beta.ppf(0.0125, a, len(one.far) - a + 1)
    assert test.low(0.05) == pytest.approx(low - stats.beta.ppf(0.9875, b + 1, len(one.far) - b))


def test_clashes_can_be_looked_at() -> None:
    X, y = DIGITS
    check = check_symmetry(X, y, groups.image_rotations((8, 8), 2), random_state=0)
    first = check.clashes[0]
    assert (first.label, first.lands_among) == (6, 9)
    assert (y[first.row], y[first.other]) == (6, 9)
    np.testing.assert_array_equal(first.moved, X[first.row][::-1])
    np.testing.assert_array_equal(first.nearest, X[first.other])
    assert first.distance == pytest.approx(np.linalg.norm(first.moved - first.nearest))
    assert len({clash.row for clash in check.clashes}) == len(check.clashes) == 4
    axes = check.plot_clashes()
    assert axes.get_xticklabels()[0].get_text() == "6 → 9"
    assert "plot_clashes()" in check.summary()
    table = check_symmetry(*invariant_table(np.random.default_rng(0), 300), swap(2, 0, 1))
    with pytest.raises(InvalidInputError, match="no pictures to show"):
        table.plot_clashes()


def test_neighbours_beyond_the_list_are_looked_up() -> None:
    """Far apart in many dimensions nearly all rows are within reach: lists are cut, not answers."""
    rng = np.random.default_rng(0)
    X = rng.random((400, 150))
    geo, moved = geometry(X, 5), rng.random((400, 150))
    assert np.isfinite(geo.near.whole).any()
    lands, usable = landing(geo, moved), np.ones(400, dtype=bool)
    for far in (True, False):
        coins = rng.random(400) < 0.5
        cut = match(geo, moved, lands, usable, coins, far=far)
        full = _without_lists(X, moved, geo.ball, coins, far)
        assert [*zip(cut.i, cut.j, cut.c, cut.q)] == full


def _without_lists(X, moved, ball, coins, far):
    """The rule of the book, from all distances."""
    N = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    T = np.sqrt(((moved[:, None] - X[None]) ** 2).sum(axis=2))
    np.fill_diagonal(N, np.inf)
    np.fill_diagonal(T, np.inf)
    free, out = np.ones(len(X), dtype=bool), []
    for i in np.argsort(T.min(axis=1), kind="stable"):
        if not free[i]:
            continue
        j = int(np.argmin(np.where(free, T[i], np.inf)))
        d = T[i, j]
        if d > min(ball[i], ball[j]):
            continue
        c = i if coins[i] else j
        others = np.where(free, N[c], np.inf)
        others[[i, j]] = np.inf
        if far:
            others[others < d] = np.inf
            q = int(np.argmin(others))
            if others[q] > max(1.15 * d, N[c].min()):
                continue
        else:
            q = int(np.argmin(others))
            q = q if others[q] <= d else -1
        free[[i, j]] = False
        if q >= 0:
            free[q] = False
        out.append((i, j, c, q))
    return out
