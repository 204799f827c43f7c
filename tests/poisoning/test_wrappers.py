"""Wrappers for a known budget: block majority, projection, subsample, and the evaluation engine."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr
from scipy.stats import ks_2samp
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from counterplay.core.dimensions import hollow_star_number, projection_number
from counterplay.core.finite_class import FiniteClass
from counterplay.core.stats import Interval, clopper_pearson
from counterplay.core.votes import random_blocks
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.poisoning import (
    AcrossBoundaryAttacker,
    BlockMajority,
    BudgetError,
    FiniteProjector,
    HalfspaceProjector,
    IntervalProjector,
    IntervalTarget,
    LabelledSet,
    Learner,
    LinearTarget,
    MaxOpenInterval,
    NotCleanError,
    OrderedERM,
    PoolGreedyAttacker,
    ProjectedMajority,
    ProjectionFailed,
    SubsampleERM,
    TableTarget,
    ThresholdProjector,
    TooFewSamplesError,
    attackable_rate,
    bounds,
    certified_upper_rate,
    instances,
    open_interval_rate,
)
from counterplay.poisoning.clean_rate import chernoff_interval, crossed_interval
from counterplay.poisoning.model import Attacker
from counterplay.poisoning.projected_majority import clear_points


class Recorder(Learner):
    """Says 1 everywhere, but 0 if its block holds a marked row (x >= 1000) or is told to err."""

    def __init__(self, wrong_below: float = -1.0) -> None:
        self.wrong_below = wrong_below

    def fit(self, X, y):
        rows = np.asarray(X)[:, 0]
        self.marked_ = bool((rows >= 1000).any())
        self.errs_ = bool(rows.min() < self.wrong_below)
        return self

    def predict(self, X):
        return np.full(len(X), 0 if self.marked_ or self.errs_ else 1, dtype=np.uint8)


@pytest.mark.claim("10.29")
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(0, 40), st.integers(0, 2**31), st.floats(0, 0.4))
def test_block_majority_is_right_while_few_blocks_are_wrong(t, more, seed, share) -> None:
    blocks = 10 * t + 1
    m = 3 * blocks + more
    X = np.vstack([np.linspace(0, 1, m)[:, None], np.full((t, 1), 2000.0)])  # t marked rows
    y = np.concatenate([np.ones(m), np.arange(t) % 2]).astype(int)
    learner = BlockMajority(Recorder(share / 10), t=t, random_state=seed).fit(X, y)
    assert learner.n_blocks_ == blocks
    assert learner.block_size_ == (m + t) // blocks
    votes = learner.votes(np.zeros((1, 1)))[:, 0]
    assert votes.size == blocks
    wrong = int((votes == 0).sum())
    marked = sum(model.marked_ for model in learner.models_)  # these vote against, all of them
    clean_wrong = sum(model.errs_ and not model.marked_ for model in learner.models_)
    assert marked <= t
    assert wrong == marked + clean_wrong
    assert (learner.predict(np.zeros((1, 1)))[0] == 1) == (wrong <= 5 * t)
    if clean_wrong <= 4 * t:
        assert learner.predict(np.zeros((1, 1)))[0] == 1


@pytest.mark.claim("10.29")
def test_block_majority_drops_the_remainder() -> None:
    class Sizes(Recorder):
        def fit(self, X, y):
            self.rows_ = np.asarray(X)[:, 0]
            return super().fit(X, y)

    for m in (11, 21, 22, 105):
        X = np.arange(m, dtype=float)
        models = BlockMajority(Sizes(), 1, random_state=m).fit(X, np.zeros(m)).models_
        assert [len(model.rows_) for model in models] == [m // 11] * 11
        used = np.concatenate([model.rows_ for model in models])
        assert np.unique(used).size == used.size == 11 * (m // 11)


@pytest.mark.claim("10.29")
def test_block_majority_does_not_depend_on_the_row_order() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((121, 1)), np.zeros(121, int)
    order = rng.permutation(121)

    def margins(X, y):
        return [
            BlockMajority(MaxOpenInterval(), 1, random_state=s).fit(X, y).vote_margin([[0.5]])[0]
            for s in range(300)
        ]

    first, second = np.array(margins(X, y)), np.array(margins(X[order], y[order]))
    pooled = np.sqrt((first.var() + second.var()) / 300) + 1e-12
    assert abs(first.mean() - second.mean()) <= 4 * pooled
    assert ks_2samp(first, second).pvalue > 1e-4  # the whole distribution
    with pytest.raises(TooFewSamplesError):
        BlockMajority(MaxOpenInterval(), 2).fit(X[:20], y[:20])
    with pytest.warns(AssumptionWarning, match="too small"):
        BlockMajority(MaxOpenInterval(), 1, d=50).fit(X, y)


@pytest.mark.claim("10.30")
def test_unclean_poison_does_not_break_block_majority() -> None:
    rng = np.random.default_rng(1)
    X = rng.random(440)
    target = IntervalTarget([0.3, 0.7])
    S = LabelledSet(X, target(X))
    for t, base in ((1, MaxOpenInterval()), (2, MaxOpenInterval()), (1, SVC(kernel="linear"))):
        test = rng.random((50, 1))
        poison = LabelledSet(np.full((t, 1), 0.5), np.zeros(t))  # wrong labels, not realizable
        both = S + poison
        learner = BlockMajority(base, t, random_state=0).fit(both.X, both.y)
        wrong = learner.votes(test) != target(test)[None, :]
        right = learner.predict(test) == target(test)
        assert np.array_equal(right, wrong.sum(axis=0) <= 5 * t)
        blocks = random_blocks(len(both), learner.n_blocks_, random_state=0)  # the same coins
        touched = np.array([(rows >= len(S)).any() for rows in blocks])
        assert 1 <= touched.sum() <= t
        few = wrong[~touched].sum(axis=0) <= 4 * t
        assert few.any()
        assert right[few].all()


@pytest.mark.claim("10.29")
def test_certified_rate_of_blocks_beats_the_plain_learner() -> None:
    rng = np.random.default_rng(2)
    X = rng.random(1000)
    S = LabelledSet(X, np.zeros(1000))
    test = np.linspace(0, 1, 1001)
    for t, draws in ((1, 320), (5, 120)):
        rate = certified_upper_rate(
            BlockMajority(MaxOpenInterval(), t), S, test, np.zeros(1001), n_permutations=draws,
            random_state=0,
        )  # fmt: skip
        assert rate.high < open_interval_rate(X, t)
        assert rate.estimate <= 0.0005  # the prototype: .000 and .0001


@pytest.mark.claim("10.31")
def test_projected_majority_equals_the_clear_majority() -> None:
    rng = np.random.default_rng(3)
    for H in (FiniteClass.thresholds(range(10)), FiniteClass.intervals(range(6))):
        k_p = projection_number(H).value
        for _ in range(4):
            target = H.labels[rng.integers(len(H))].astype(np.uint8)
            rows = rng.integers(H.n_points, size=4 * (10 * k_p + 1))
            learner = ProjectedMajority(
                OrderedERM(H, rng.permutation(len(H))), 1, k_p, FiniteProjector(H), random_state=0
            ).fit(rows, target[rows])
            answer = learner.predict(np.arange(H.n_points))
            assert H.index_of(answer) is not None
            clear = learner.clear_
            assert np.array_equal(answer[clear], learner.majority_[clear])


@pytest.mark.claim("10.31")
def test_projection_on_thresholds_is_the_median() -> None:
    rng = np.random.default_rng(4)
    points = np.arange(30.0)
    projector = ThresholdProjector(points)
    for _ in range(30):
        cuts = rng.integers(0, 31, size=21)
        votes = (points[None, :] >= cuts[:, None]).astype(int)
        labels = votes.sum(axis=0) * 2 > 21
        cut = projector.project(labels.astype(np.uint8), clear_points(votes, 2), 2)
        assert cut == np.median(cuts) or (np.isinf(cut) and np.median(cuts) == 30)


@pytest.mark.claim("10.31")
def test_projection_fails_below_the_hollow_star_number() -> None:
    H = FiniteClass.singletons(5)
    star = hollow_star_number(H)
    votes = H.labels[list(star.witnesses)].astype(int)  # each point has one dissenter in five
    labels = np.asarray(star.labels, dtype=np.uint8)
    assert star.value == 5
    with pytest.raises(ProjectionFailed, match="k=4"):
        FiniteProjector(H).project(labels, clear_points(votes, 4), 4)
    FiniteProjector(H).project(labels, clear_points(votes, 5), 5)  # nothing is clear any more


@pytest.mark.claim("10.31")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_half_spaces_need_k_p_equal_n_plus_two(n: int) -> None:
    T = instances.simplex_set(n)
    votes = np.tile(T.y.astype(int), (n + 2, 1))
    votes[np.arange(n + 2), np.arange(n + 2)] ^= 1  # the neighbours h_1, ..., h_{n+2}
    projector = HalfspaceProjector(T.X)
    with pytest.raises(ProjectionFailed, match=f"k={n + 1}"):
        projector.project(T.y, clear_points(votes, n + 1), n + 1)
    projector.project(T.y, clear_points(votes, n + 2), n + 2)
    rng, failed = np.random.default_rng(n), 0
    for _ in range(60):
        X = rng.normal(size=(25, n))
        planes = rng.normal(size=(31, n + 1))
        votes = (X @ planes[:, :n].T + planes[:, n] >= 0).T.astype(int)
        labels = (votes.sum(axis=0) * 2 > 31).astype(np.uint8)
        HalfspaceProjector(X).project(labels, clear_points(votes, n + 2), n + 2)  # always works
        try:
            HalfspaceProjector(X).project(labels, clear_points(votes, 2), 2)
        except ProjectionFailed:
            failed += 1
    assert failed > (0, 30, 30)[n - 1]


@pytest.mark.claim("10.31")
def test_projection_on_intervals_is_the_hull_of_the_clear_positives() -> None:
    rng = np.random.default_rng(8)
    points = np.arange(20.0)
    projector = IntervalProjector(points)
    for _ in range(60):
        ends = np.sort(rng.integers(0, 20, size=(21, 2)), axis=1)
        votes = ((points >= ends[:, :1]) & (points <= ends[:, 1:])).astype(int)
        labels = (votes.sum(axis=0) * 2 > 21).astype(np.uint8)
        clear = clear_points(votes, 3)  # k_p = 3: always an interval
        answer = projector.predict(projector.project(labels, clear, 3), points)
        assert np.array_equal(answer[clear], labels[clear])
    with pytest.raises(ProjectionFailed, match="k_p = 3"):
        projector.project(np.arange(20) % 2, np.ones(20, bool), 2)


@pytest.mark.claim("10.31", "10.32")
def test_certified_rates_of_the_other_wrappers() -> None:
    rng = np.random.default_rng(9)
    S = LabelledSet(rng.random(1240), np.zeros(1240))
    test = np.linspace(0, 1, 201)
    projected = ProjectedMajority(MaxOpenInterval(), 1, 3, IntervalProjector(test))
    rate = certified_upper_rate(projected, S, test, np.zeros(201), random_state=0)
    assert rate.high < 0.02
    subsample = SubsampleERM(MaxOpenInterval(), 2, 0.3)
    span = certified_upper_rate(subsample, S, test, np.zeros(201), random_state=0)
    drawn = 1 - (1240 / 1242) ** bounds.subsample_size(1242, 2, 0.3)
    assert drawn <= 0.1
    assert drawn < span.low < span.estimate < span.high
    expected = bounds.largest_gap_error(bounds.subsample_size(1242, 2, 0.3))
    assert expected in Interval(expected, *_base_error(span, drawn))
    with pytest.raises(TooFewSamplesError):
        certified_upper_rate(SubsampleERM(MaxOpenInterval(), 90, 0.3), LabelledSet([0.1], [0]),
                             test, np.zeros(201))  # fmt: skip


def _base_error(span: Interval, drawn: float) -> tuple[float, float]:
    """Undo drawn + (1 - drawn) * error."""
    return (span.low - drawn) / (1 - drawn), (span.high - drawn) / (1 - drawn)


class LuckyDraw(Learner):
    """Wrong on a quarter of the points, at all of them at once or not at all: one row decides."""

    def fit(self, X, y):
        self.bad_ = bool((np.asarray(X)[:, 0] == 0).any())
        return self

    def predict(self, X):
        return (self.bad_ & (np.asarray(X)[:, 0] < 0.25)).astype(np.uint8)


@pytest.mark.claim("10.45")
def test_interval_of_a_rate_covers_although_points_share_the_draw() -> None:
    m, t, eps, n, draws = 40, 1, 0.5, 50, 40
    rows = np.concatenate([[0.0], np.linspace(0.3, 1, m - 1)])
    S = LabelledSet(rows, np.zeros(m))
    size = bounds.subsample_size(m + t, t, eps)
    drawn = 1 - (m / (m + t)) ** size
    truth = drawn + (1 - drawn) * (1 - (1 - 1 / m) ** size) * 0.25  # exact
    covered, naive = 0, 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        span = certified_upper_rate(
            SubsampleERM(LuckyDraw(), t, eps), S, rng.random((n, 1)), np.zeros(n),
            n_permutations=draws, random_state=rng,
        )  # fmt: skip
        covered += truth in span
        base = (span.estimate - drawn) / (1 - drawn)
        pairs = clopper_pearson(round(base * n * draws), n * draws)
        naive += (truth - drawn) / (1 - drawn) in pairs
    assert covered >= 0.95 * 300
    assert naive < 0.85 * 300  # pairs are not independent trials


@pytest.mark.claim("10.45")
@pytest.mark.parametrize(("draws", "points"), [(12, 300), (300, 12), (25, 25)])
def test_crossed_interval_covers_in_both_directions(draws: int, points: int) -> None:
    rng, covered = np.random.default_rng(draws), 0
    for _ in range(400):
        row, column = rng.random(draws) < 0.2, rng.random(points) < 0.3
        covered += 0.2 + 0.8 * 0.3 in crossed_interval(row[:, None] | column[None, :])
    assert covered >= 0.95 * 400


@pytest.mark.claim("10.45")
def test_chernoff_interval_is_the_inverse_of_its_bound() -> None:
    for mean in (0.0, 0.03, 0.5, 1.0):
        for n in (1, 20, 500):
            span = chernoff_interval(mean, n)
            for end in (span.low, span.high):
                if 1e-9 < end < 1:
                    kl = rel_entr(mean, end) + rel_entr(1 - mean, 1 - end)
                    assert n * kl == pytest.approx(np.log(40))
            exact = clopper_pearson(round(mean * n), n)
            if (mean * n).is_integer():
                assert span.low <= exact.low + 1e-9
                assert exact.high <= span.high + 1e-9


@pytest.mark.claim("10.32")
def test_subsample_rarely_sees_poison() -> None:
    m, t, eps = 300, 2, 0.3
    rng = np.random.default_rng(6)
    X = np.concatenate([rng.random(m - t), np.full(t, 0.5)])[:, None]
    y = np.zeros(m, int)
    clean = 0
    for seed in range(1500):
        learner = SubsampleERM(MaxOpenInterval(), t, eps, random_state=seed).fit(X, y)
        clean += bool((learner.rows_ < m - t).all())
    assert learner.m0_ == 15 == bounds.subsample_size(m, t, eps)
    exact = (1 - t / m) ** 15
    assert exact >= 1 - eps / 3
    assert abs(clean / 1500 - exact) <= 4 * np.sqrt(exact * (1 - exact) / 1500)
    assert bounds.subsample_size(99, 1, 0.1) == 3
    assert isinstance(learner.model_, MaxOpenInterval)  # proper: the base's own hypothesis
    with pytest.raises(TooFewSamplesError):
        SubsampleERM(MaxOpenInterval(), 5, 0.01).fit(X, y)


@pytest.mark.claim("10.33")
def test_explicit_sample_sizes() -> None:
    assert bounds.block_majority_sample_size(1, 1, 0.1, 0.05) == 1_186_999
    assert bounds.projected_majority_sample_size(1, 1, 3, 0.1, 0.05) == 11_961_862
    assert bounds.subsample_sample_size(1, 1, 0.1, 0.05) == 3_242_357
    for t, d, eps, delta in itertools.product((1, 5, 50), (1, 5), (0.3, 0.1, 0.01), (0.2, 1e-4)):
        for size in (bounds.block_majority_sample_size, bounds.subsample_sample_size):
            base = size(t, d, eps, delta)
            assert size(t + 1, d, eps, delta) > base
            assert size(t, d + 1, eps, delta) > base
            assert size(t, d, eps / 2, delta) > base
            assert size(t, d, eps, delta / 2) >= base
        projected = bounds.projected_majority_sample_size
        base = projected(t, d, 2, eps, delta)
        assert projected(t, d, 5, eps, delta) > base
        assert projected(t + 1, d, 2, eps, delta) > base
        assert projected(t, d + 1, 2, eps, delta) > base
        assert projected(t, d, 2, eps / 2, delta) > base
        assert projected(t, d, 2, eps, delta / 2) >= base
    with pytest.raises(InvalidInputError):
        bounds.block_majority_sample_size(0, 1, 0.1, 0.1)


class CoinLearner(Learner):
    """The coin decides which of two one-row poisons it falls for."""

    randomised = True

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X, y):
        weakness = self.random_state % 2
        self.fooled_ = bool((np.asarray(X) == 1 + weakness).any())
        return self

    def predict(self, X):
        return np.full(len(X), int(self.fooled_), dtype=np.uint8)


class AddRow(Attacker):
    def __init__(self, row: int) -> None:
        self.row = row

    def _attack(self, h_star, S, x0, budget):
        return LabelledSet([self.row], [int(h_star([self.row])[0])])


@pytest.mark.claim("10.36")
def test_engine_takes_the_maximum_of_means() -> None:
    target = TableTarget([0, 0, 0])
    S = LabelledSet(np.array([0]), [0])
    attackers = [AddRow(1), AddRow(2)]
    report = attackable_rate(
        CoinLearner(), target, S, np.array([0]), attackers, n_coins=400, seed=1
    )
    assert report.err == 0
    assert report.atk_lower == pytest.approx(0.5, abs=4 * 0.5 / 20)  # a mean of maxima would be 1
    first = attackable_rate(
        CoinLearner(), target, S, np.array([0]), attackers[:1], n_coins=400, seed=1
    )
    second = attackable_rate(
        CoinLearner(), target, S, np.array([0]), attackers[1:], n_coins=400, seed=1
    )
    assert first.atk_lower + second.atk_lower == pytest.approx(1)  # the same coins for both
    assert report.atk_lower == max(first.atk_lower, second.atk_lower)


@pytest.mark.claim("10.36")
def test_attackers_cannot_cheat() -> None:
    class Liar(AddRow):
        def _attack(self, h_star, S, x0, budget):
            return LabelledSet([1, 2], [0, 1])

    S = LabelledSet(np.array([0]), [0])
    with pytest.raises(NotCleanError, match="row 1 has label 1") as caught:
        Liar(0).attack(TableTarget([0, 0, 0]), S, 0)
    assert caught.value.row == 1
    with pytest.raises(BudgetError):
        Liar(0).attack(TableTarget([0, 0, 1]), S, 0, budget=1)
    with pytest.raises(InvalidInputError):
        LabelledSet([[0.0], [np.nan]], [0, 1])
    with pytest.raises(InvalidInputError):
        LabelledSet([[0.0]], [2])


def test_practical_attackers_find_what_is_there() -> None:
    rng = np.random.default_rng(7)
    target = LinearTarget([1.0, 0.5], 0.1)
    X = rng.normal(size=(80, 2))
    S, pool = LabelledSet(X[:20], target(X[:20])), X[20:]
    learner = SVC(kernel="linear", C=1e6)
    attackers: list[Attacker] = [AcrossBoundaryAttacker(learner=learner)]
    attackers.append(PoolGreedyAttacker(learner, pool, target(pool)))
    report = attackable_rate(
        learner, target, S, rng.normal(size=(40, 2)), attackers, budget=2, n_jobs=2
    )
    assert report.atk_lower > report.err
    for i in report.exposed():
        assert len(report.poison[i]) <= 2
        assert np.array_equal(target(report.poison[i].X), report.poison[i].y)
    assert "poison budget 2" in report.summary()
    again = attackable_rate(learner, target, S, rng.normal(size=(3, 2)), [], budget=2)
    assert again.atk_upper == 1


@pytest.mark.parametrize(("m", "attack"), [(60, 0.31), (200, 0.16)])
def test_one_true_row_flips_a_linear_svm_on_digits(m: int, attack: float) -> None:
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, (3, 8))
    X, y = X[chosen], (y[chosen] == 8).astype(int)
    teacher = SVC(kernel="linear").fit(X, y)
    target = LinearTarget(teacher.coef_[0], float(teacher.intercept_[0]))
    order = np.random.default_rng(0).permutation(len(X))
    S = LabelledSet(X[order[:m]], target(X[order[:m]]))
    learner = SVC(kernel="linear")
    report = attackable_rate(
        learner, target, S, X[order[m : m + 90]], [AcrossBoundaryAttacker(learner=learner)], 1
    )
    spread = np.sqrt(attack * (1 - attack) * (1 / 90 + 1 / 180))  # the reference: 180 points
    assert abs(report.atk_lower - attack) <= 4 * spread
    assert report.atk_lower > report.err


def test_interval_example_is_a_game() -> None:
    game = instances.interval_example(m=40, random_state=0)
    report = attackable_rate(
        MaxOpenInterval(), game.target, game.S, game.X_test, [game.attacker], 5
    )
    # with a budget the certificate is exact: attacked and certified complement each other
    assert np.array_equal(report.attacked == 1, ~report.certified)
