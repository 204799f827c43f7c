"""One-inclusion learners: leave-one-out bounds through the public predictors, exhaustively."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from counterplay.core.dimensions import vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.invariance import groups, instances
from counterplay.invariance.inclusion import OneInclusionGraph
from counterplay.invariance.lab import (
    DA,
    ERM,
    AbstractOrbits,
    ErmInv,
    FiniteProblem,
    Halfspaces2D,
    OneInclusionEta,
    OneInclusionInvariant,
    OneInclusionRelaxed,
    OrbitOnlyOptimal,
    mu_of,
    vcao,
    vco,
)
from invariance.problems import brute_vc, natural_pairs, random_problem


def random_rows(rng, max_points=6) -> np.ndarray:
    k = int(rng.integers(2, max_points + 1))
    return np.unique(rng.integers(0, 2, size=(rng.integers(2, 14), k)), axis=0)


@pytest.mark.claim("11.03")
def test_orientations_meet_their_bounds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(120):
        rows = random_rows(rng)
        graph = OneInclusionGraph(rows)
        d = brute_vc(rows)
        assert graph.orient("flow").max_indegree <= d
        assert graph.orient("peel").max_indegree <= 2 * d
        if len(rows) <= 10:
            density = 0.0
            for size in range(1, len(rows) + 1):
                for part in combinations(range(len(rows)), size):
                    inside = set(part)
                    edges = sum(a in inside and b in inside for a, b, _ in graph.edges.tolist())
                    density = max(density, edges / size)
            assert graph.orient("flow").max_indegree == int(np.ceil(density - 1e-12))
    for k in range(1, 8):
        cube = OneInclusionGraph(FiniteClass.all_labelings(k))
        assert cube.orient("flow").max_indegree == -(-k // 2)


@pytest.mark.claim("11.04")
def test_leave_one_out_through_the_predictor() -> None:
    """Test index and training order are shuffled at every call."""
    rng = np.random.default_rng(1)
    for _ in range(100):
        rows = random_rows(rng)
        k = rows.shape[1]
        learner = OneInclusionRelaxed(rows, AbstractOrbits(np.arange(k)))
        d = vc_dimension(rows).value
        for truth in rows:
            mistakes = 0
            for j in rng.permutation(k):
                train = rng.permutation([i for i in range(k) if i != j])
                fresh = learner.fresh().fit(train, truth[train])
                mistakes += int(fresh.predict([j])[0] != truth[j])
            assert mistakes <= d


@pytest.mark.claim("11.04")
def test_a_graph_that_depends_on_the_test_point_breaks_the_bound() -> None:
    """The control: with the test point always last, some classes exceed their VC dimension."""
    rng = np.random.default_rng(1)
    broken, sound = 0, 0
    for _ in range(300):
        rows = random_rows(rng)
        k, d = rows.shape[1], brute_vc(rows)
        fixed = OneInclusionGraph(rows)
        moving = []
        for j in range(k):
            order = [i for i in range(k) if i != j] + [j]
            moving.append((OneInclusionGraph(rows[:, order]), order))
        mistakes = [
            sum(graph.predict(k - 1, truth[order]).label != truth[j]
                for j, (graph, order) in enumerate(moving))
            for truth in rows
        ]  # fmt: skip
        broken += max(mistakes) > d
        sound += max(fixed.loo_mistakes(truth) for truth in rows) <= d
    assert sound == 300
    assert broken >= 1


def loo_mistakes(learner, points, labels) -> int:
    total = 0
    for i in range(len(points)):
        rest = [j for j in range(len(points)) if j != i]
        fitted = learner.fresh().fit(points[rest], labels[rest])
        total += int(fitted.predict(points[i : i + 1])[0] != labels[i])
    return total


@pytest.mark.claim("11.05")
@pytest.mark.parametrize("seed", range(10))
def test_invariant_learner_on_every_multiset(seed: int) -> None:
    check_every_multiset(OneInclusionInvariant, seed, max_size=2)


@pytest.mark.claim("11.06")
@pytest.mark.parametrize("seed", range(10))
def test_relaxed_learner_on_every_multiset(seed: int) -> None:
    check_every_multiset(OneInclusionRelaxed, seed, max_size=2)


@pytest.mark.slow
@pytest.mark.claim("11.05", "11.06")
@pytest.mark.parametrize("kind", [OneInclusionInvariant, OneInclusionRelaxed])
@pytest.mark.parametrize("seed", range(100, 140))
def test_more_problems_on_every_multiset(kind, seed: int) -> None:
    check_every_multiset(kind, seed, max_size=3)


def check_every_multiset(kind, seed: int, max_size: int) -> None:
    """All multisets of at most five points, all hypotheses of the setting, every test position."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, max_rows=8, max_orbits=3, max_size=max_size)
    if problem.n_points > 7:  # 7 points have 791 multisets of at most five
        return
    invariant = kind is OneInclusionInvariant
    bound = (vco if invariant else vcao)(problem).value
    wrong = WrongPoints(kind(problem))
    for size in range(1, 6):
        for multiset in combinations_with_replacement(range(problem.n_points), size):
            points = np.array(multiset)
            orbits = np.unique(problem.orbit[points])
            if invariant:
                fit = problem.H[(problem.O[:, orbits] != 2).all(axis=1)]
            else:
                fit = problem.H[natural_rows(problem, points)]
            if len(fit) == 0:
                continue
            first = [int(np.flatnonzero(problem.orbit[points] == o)[0]) for o in orbits]
            labelings = np.unique(fit[:, points], axis=0)
            d = vc_dimension(np.unique(labelings[:, first], axis=0)).value
            assert d <= bound
            for labels in labelings:
                assert wrong.leave_one_out(points, labels) <= d


def natural_rows(problem: FiniteProblem, points: np.ndarray) -> np.ndarray:
    """Hypotheses that give the points of one orbit one label."""
    good = np.ones(len(problem.H), dtype=bool)
    for orbit in np.unique(problem.orbit[points]):
        part = problem.H[:, points[problem.orbit[points] == orbit]]
        good &= (part == part[:, :1]).all(axis=1)
    return good


class WrongPoints:
    """Predictions of the public predictor on the whole pool, remembered per training sample."""

    def __init__(self, learner) -> None:
        self.learner, self.memo = learner, {}
        self.pool = np.arange(learner.hypotheses.matrix.shape[1])

    def leave_one_out(self, points: np.ndarray, labels: np.ndarray) -> int:
        total = 0
        for i in range(len(points)):
            rest = np.delete(points, i), np.delete(labels, i)
            key = rest[0].tobytes(), rest[1].tobytes()
            if key not in self.memo:
                self.memo[key] = self.learner.fresh().fit(*rest).predict(self.pool)
            total += int(self.memo[key][points[i]] != labels[i])
        return total


@pytest.mark.claim("11.05")
def test_invariant_learner_only_uses_orbits() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        problem = random_problem(rng, max_rows=8, max_orbits=4)
        members = [np.flatnonzero(problem.orbit == o) for o in range(problem.n_orbits)]
        sample = rng.integers(problem.n_points, size=3)
        labels = rng.integers(0, 2, size=problem.n_orbits)[problem.orbit[sample]]
        other = np.array([rng.choice(members[problem.orbit[x]]) for x in sample])
        pool = np.arange(problem.n_points)
        learner = OneInclusionInvariant(problem)
        first = learner.fresh().fit(sample, labels).predict(pool)
        second = learner.fresh().fit(other, labels).predict(pool)
        np.testing.assert_array_equal(first, second)


@pytest.mark.claim("11.06")
def test_relaxed_learner_may_depend_on_the_natural_copy() -> None:
    birds = instances.background_birds(3, random_state=0)
    learner = OneInclusionRelaxed(birds.problem)
    first = learner.fresh().fit([0], [1]).predict([2])[0]
    second = learner.fresh().fit([1], [1]).predict([2])[0]
    assert (first, second) == (1, 0)


@pytest.mark.claim("11.18")
def test_components_save_the_learner_for_maps() -> None:
    case = instances.nongroup_funnel(6)
    points, labels = case.distribution.points, case.distribution.labels
    assert vcao(case.problem).value == 1
    assert loo_mistakes(OneInclusionRelaxed(case.problem), points, labels) <= 1
    literal = FiniteProblem(case.problem.H, np.arange(7))  # ties nothing but equal points
    assert loo_mistakes(OneInclusionRelaxed(literal), points, labels) == 3


@pytest.mark.claim("11.15")
def test_the_test_point_counts_in_the_budget() -> None:
    """One natural point and the test point: |X| = 2, so eta = 1/2 allows one mixed orbit."""
    # h is mixed on the orbit of the test point and constant on the other one.
    rows, orbit = [[0, 0, 1, 0]], [0, 0, 1, 1]
    for eta, kind in ((0.0, "arbitrary"), (0.49, "arbitrary"), (0.5, "forced"), (1.0, "forced")):
        learner = OneInclusionEta(FiniteProblem(rows, orbit), eta=eta).fit([0], [0])
        assert learner.certify([2]).kinds == (kind,)
    # With three natural points |X| = 4: a quarter is enough.
    for eta, kind in ((0.24, "arbitrary"), (0.25, "forced")):
        learner = OneInclusionEta(FiniteProblem(rows, orbit), eta=eta).fit([0, 0, 1], [0, 0, 0])
        assert learner.certify([2]).kinds == (kind,)


@pytest.mark.claim("11.25")
def test_certificates() -> None:
    """Forced predictions are right for every target; the three kinds all occur."""
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(40):
        problem = random_problem(rng, max_rows=8, max_orbits=4, max_size=2)
        learner = OneInclusionRelaxed(problem)
        for row in problem.H:
            points = rng.choice(problem.n_points, size=2)
            if problem.orbit[points[0]] == problem.orbit[points[1]]:
                points = points[:1]
            fitted = learner.fresh().fit(points, row[points])
            test = np.array(
                [
                    x
                    for x in range(problem.n_points)
                    if problem.orbit[x] not in problem.orbit[points]
                ],
                dtype=int,
            )
            certified = fitted.certify(test)
            seen |= set(certified.kinds)
            forced = np.array([kind == "forced" for kind in certified.kinds], dtype=bool)
            assert (certified.labels[forced] == row[test][forced]).all()
            assert (certified.error_bounds[forced] == 0).all()
            assert (certified.error_bounds <= 1).all()
    assert seen == {"forced", "oriented"}  # realizable: never arbitrary
    broken = OneInclusionRelaxed(np.array([[0, 0]]), AbstractOrbits([0, 1])).fit([0], [1])
    assert broken.certify([1]).kinds == ("arbitrary",)


def test_halfspaces_with_rotations_and_a_picture(tmp_path) -> None:
    rng = np.random.default_rng(0)
    group = groups.plane_rotations(2)
    X = rng.normal(size=(5, 2))
    y = (X[:, 0] > 0).astype(int)
    learner = OneInclusionRelaxed(Halfspaces2D(), group).fit(X, y)
    certified = learner.certify(np.vstack([rng.normal(size=(4, 2)), -X[:1]]))
    assert certified.labels[-1] == y[0]  # its orbit is known
    view = next(
        learner.explain(x)
        for x, kind in zip(rng.normal(size=(50, 2)), ["any"] * 50)
        if learner.certify(x[None]).kinds == ("oriented",)
    )
    assert view.kind == "oriented"
    assert view.consistent.size == 2
    axes = view.plot()
    axes.figure.savefig(tmp_path / "graph.png")
    assert len(view.to_frame()) == len(view.edges)


@pytest.mark.claim("11.10")
def test_orbit_only_learner_meets_mu() -> None:
    rng = np.random.default_rng(6)
    for _ in range(25):
        problem = random_problem(rng, max_rows=5, max_orbits=3, max_size=2)
        phi = sorted(rng.integers(problem.n_orbits, size=rng.integers(1, 4)).tolist())
        orbits, times = np.unique(phi, return_counts=True)
        bound = mu_of(problem, None, orbits, times).value
        learner = OrbitOnlyOptimal(problem, random_state=0)
        for f, x in natural_pairs(problem, phi):
            total = 0.0
            for i in range(len(phi)):
                rest = [j for j in range(len(phi)) if j != i]
                fitted = learner.fresh().fit([x[j] for j in rest], [f[j] for j in rest])
                total += 1 - fitted.predict_proba([x[i]])[0, f[i]]
            assert total <= bound + 1e-7


@pytest.mark.claim("11.02")
def test_all_baselines_agree_without_symmetry() -> None:
    rng = np.random.default_rng(7)
    for _ in range(40):
        rows = rng.integers(0, 2, size=(8, 5))
        problem = FiniteProblem(rows, np.arange(5))
        X = rng.integers(5, size=4)
        y = problem.H[rng.integers(len(problem.H))][X]
        pool = np.arange(5)
        erm = ERM(problem).fit(X, y).predict(pool)
        np.testing.assert_array_equal(erm, DA(problem).fit(X, y).predict(pool))
        np.testing.assert_array_equal(erm, ErmInv(ERM(problem)).fit(X, y).predict(pool))


@pytest.mark.claim("11.28")
def test_large_graphs_are_oriented_within_the_bound() -> None:
    """Labelings of 16 points with at most 7 ones: more than 26,000 vertices, VC dimension 7."""
    rows = np.array(list(product((0, 1), repeat=16)), dtype=np.uint8)
    rows = rows[rows.sum(axis=1) <= 7]
    graph = OneInclusionGraph(rows)
    assert graph.n_vertices >= 26_000
    assert graph.n_edges >= 75_000
    orientation = graph.orient("flow")
    assert orientation.max_indegree <= 7
    assert orientation.max_indegree >= -(-graph.n_edges // graph.n_vertices)
