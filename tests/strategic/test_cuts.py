"""One cut for a range of budgets: hand cases, certificates between budgets, mixtures, floats."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.strategic.cuts import (
    CutProblem,
    best_cut,
    bootstrap_regret,
    cut_over_budgets,
    error_prices,
)


def shown(rng: np.random.Generator, people: int, budgets: int) -> np.ndarray:
    """Scores that grow with the budget, with ties."""
    start = rng.integers(0, 6, size=people).astype(float)
    return start[:, None] + np.cumsum(rng.integers(0, 3, size=(people, budgets)), axis=1)


def loss(scores: np.ndarray, y: np.ndarray, cut: float) -> float:
    """Share of wrong decisions, by counting."""
    return float(np.mean((scores >= cut) != y))


def all_cuts(scores: np.ndarray) -> np.ndarray:
    values = np.unique(scores)
    return np.concatenate(([-np.inf], (values[1:] + values[:-1]) / 2, [np.inf]))


@pytest.mark.claim("20.18")
def test_two_budgets_by_hand() -> None:
    scores = np.array([0.0, 1.0, 2.0, 3.0])
    y = np.array([False, False, True, True])
    M = scores[:, None] + np.array([0.0, 1.0])
    problem = CutProblem(np.array([0.0, 1.0]), M, M, y, np.ones(4))
    for cut in (1.0 + 1e-9, 1.5, 2.0, 2.5, 3.0):
        assert problem.regret(cut).max() == pytest.approx(0.25)
    assert problem.regret(0.5).max() == pytest.approx(0.5)
    found = cut_over_budgets(M, M, y, [0.0, 1.0])
    assert found.worst == pytest.approx(0.25)
    assert 1 < found.cut <= 3
    half = scores[:, None] + np.linspace(0, 0.5, 21)
    easy = cut_over_budgets(half, half, y, np.linspace(0, 0.5, 21))
    assert easy.worst == pytest.approx(0.0)
    assert 1.5 < easy.cut <= 2


@pytest.mark.claim("20.18")
def test_no_cut_has_less_worst_regret() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        M = shown(rng, int(rng.integers(3, 30)), int(rng.integers(1, 6)))
        y = rng.random(len(M)) < 0.5
        budgets = np.arange(float(M.shape[1]))
        cuts = all_cuts(M)
        table = np.array([[loss(M[:, k], y, c) for c in cuts] for k in range(M.shape[1])])
        regret = (table - table.min(axis=1, keepdims=True)).max(axis=0)
        found = best_cut(CutProblem(budgets, M, M, y, np.ones(len(M))), "regret")
        assert found.worst == pytest.approx(regret.min(), abs=1e-12)
        mine = [loss(M[:, k], y, found.cut) - table[k].min() for k in range(M.shape[1])]
        assert max(mine) == pytest.approx(found.worst, abs=1e-12)


@pytest.mark.claim("20.19")
def test_every_mixture_of_budgets_is_covered() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        M = shown(rng, 25, 5)
        y = rng.random(25) < 0.5
        found = best_cut(CutProblem(np.arange(5.0), M, M, y, np.ones(25)), "regret")
        cuts = np.append(all_cuts(M), found.cut)
        table = np.array([[loss(M[:, k], y, c) for c in cuts] for k in range(5)])
        laws = rng.dirichlet(np.full(5, 0.5), size=200)
        mixed = laws @ table
        assert ((mixed[:, -1] - mixed.min(axis=1)) <= found.worst + 1e-12).all()


@pytest.mark.claim("20.19")
def test_the_certificate_holds_at_every_budget_between() -> None:
    """Crossings anywhere between the budgets; 10,000 random budgets."""
    rng = np.random.default_rng(2)
    n = 60
    start = rng.normal(size=n)
    speed = rng.exponential(1.0, size=n)
    late = rng.random(n)  # a step at a random budget: between two budgets nobody can interpolate

    def at(r: np.ndarray) -> np.ndarray:
        return start[:, None] + speed[:, None] * r + (r >= late[:, None])

    y = start + rng.normal(size=n) > 0
    budgets = np.linspace(0, 1, 21)
    M = at(budgets)
    problem = CutProblem(budgets, M, M, y, np.ones(n))
    found = best_cut(problem, "regret")
    certified = max(found.worst, problem.certified(found.cut).max())
    T = at(rng.random(10_000))
    order = np.argsort(T, axis=0)
    fits = np.where(y, 1.0, -1.0)[order] / n  # rejecting one more, from the lowest score on
    best = (~y).mean() + np.minimum(0.0, np.cumsum(fits, axis=0).min(axis=0))
    worst = (((found.cut <= T) != y[:, None]).mean(axis=0) - best).max()
    assert found.worst <= certified + 1e-12
    assert worst <= certified + 1e-12


@pytest.mark.claim("20.19")
def test_brackets_of_scores_never_give_a_false_certificate() -> None:
    """Truth anywhere inside the bracket; the same errors in both terms would be wrong."""
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(500):
        n = int(rng.integers(3, 10))
        low = np.sort(rng.integers(0, 5, size=(n, 3)).astype(float), axis=1)
        high = np.maximum.accumulate(low + rng.integers(0, 3, size=(n, 3)), axis=1)
        truth = low + np.round(rng.random((n, 1)) * (high - low))
        truth = np.maximum.accumulate(truth, axis=1)
        assert (truth <= high).all()
        y = rng.random(n) < 0.5
        problem = CutProblem(np.arange(3.0), low, high, y, np.ones(n))
        found = best_cut(problem, "regret")
        cuts = all_cuts(np.concatenate((low, high)))
        real = [
            loss(truth[:, k], y, found.cut) - min(loss(truth[:, k], y, c) for c in cuts)
            for k in range(3)
        ]
        assert max(real) <= found.worst + 1e-12
        pessimist = [
            np.where(y, low[:, k] < found.cut, high[:, k] >= found.cut).mean()
            - min(np.where(y, low[:, k] < c, high[:, k] >= c).mean() for c in cuts)
            for k in range(3)
        ]
        wrong += max(real) > max(pessimist) + 1e-12
    assert wrong > 0  # what the bracket in the subtracted minimum is for


def test_individual_and_expected_objectives() -> None:
    rng = np.random.default_rng(4)
    M = shown(rng, 40, 4)
    y = rng.random(40) < 0.5
    cuts = all_cuts(M)
    each = [np.where(y, M[:, 0] < c, M[:, -1] >= c).mean() for c in cuts]
    found = cut_over_budgets(M, M, y, np.arange(4.0), "individual")
    assert found.worst == pytest.approx(min(each))
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    mean = [shares @ [loss(M[:, k], y, c) for k in range(4)] for c in cuts]
    found = cut_over_budgets(M, M, y, np.arange(4.0), "expected", shares=shares)
    assert found.worst == pytest.approx(min(mean))


def test_values_and_weights_are_prices_of_errors() -> None:
    rng = np.random.default_rng(5)
    M = shown(rng, 30, 1)
    y = rng.random(30) < 0.5
    times = rng.integers(1, 4, size=30)
    copied = np.repeat(np.arange(30), times)
    value = np.array([[0.0, -5.0], [0.0, 1.0]])
    one = CutProblem(np.zeros(1), M, M, y, times.astype(float), error_prices(value))
    two = CutProblem(
        np.zeros(1), M[copied], M[copied], y[copied], np.ones(copied.size), error_prices(value)
    )
    cut = best_cut(one, "worst")
    assert cut.worst == pytest.approx(best_cut(two, "worst").worst)
    gain = times @ value[y.astype(int), (M[:, 0] >= cut.cut).astype(int)]
    best = max(times @ value[y.astype(int), (M[:, 0] >= c).astype(int)] for c in all_cuts(M))
    assert gain == pytest.approx(best)
    with pytest.raises(InvalidInputError, match="tn - fp = -1"):
        error_prices(np.array([[0.0, 1.0], [0.0, 1.0]]))


def test_the_bootstrap_interval_surrounds_the_regret() -> None:
    rng = np.random.default_rng(6)
    M = shown(rng, 200, 3)
    y = M[:, 0] + rng.normal(size=200) > 5
    problem = CutProblem(np.arange(3.0), M, M, y, np.ones(200))
    found = best_cut(problem, "regret")
    low, high = bootstrap_regret(problem, found.cut, np.random.default_rng(0))
    assert 0 <= low <= high <= 1
    assert low <= found.worst + 0.1
    assert high >= found.worst


@pytest.mark.claim("20.21")
@pytest.mark.parametrize(
    "values", [[1.0, np.nextafter(1.0, 2.0)], [1.6e18, np.nextafter(1.6e18, 2e18)], [-0.0, 5e-324]]
)
def test_neighbouring_floats_are_separated(values: list[float]) -> None:
    """The cut is the upper of two neighbours, and does what its loss says."""
    M = np.repeat(np.array(values), 3)[:, None]
    y = np.repeat([False, True], 3)
    found = cut_over_budgets(M, M, y, [0.0])
    assert found.worst == 0.0
    assert loss(M[:, 0], y, found.cut) == 0.0


def test_unknown_scores_are_ties_as_well() -> None:
    """People whose best score is unknown pass every cut together, or none does."""
    low = np.array([[0.0], [0.0], [1.0]])
    high = np.full((3, 1), np.inf)
    y = np.array([True, True, False])
    problem = CutProblem(np.array([0.0]), low, high, y, np.array([1.0, 1.0, 5.0]))
    with np.errstate(all="raise"):
        least = problem.least()[0]
    assert least == pytest.approx([0.0])  # all good people above the cut, the bad one below
