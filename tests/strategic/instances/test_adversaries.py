"""The adversary who sees the learner's law: lazy and with a fixed target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from counterplay.errors import InformationError, InvalidInputError
from counterplay.strategic import MWMR, bounds, instances, play
from counterplay.strategic.lab import (
    AllNegative,
    DeltaOnlyElimination,
    MajorityHalving,
    SequentialElimination,
    StrategicLearner,
    UnionPredictor,
    UnionSamplingLearner,
)
from counterplay.strategic.learner import Marginals
from counterplay.strategic.transcript import join_transcripts


class AvoidProbed(MWMR):
    """Uniform over the version space, but avoids the points where agents were seen."""

    def reset(self) -> None:
        super().reset()
        self.probed: set[int] = set()

    def _pool(self) -> np.ndarray:
        fresh = np.array([h for h in self.alive if h not in self.probed])
        return fresh if fresh.size else self.alive

    def marginals(self) -> Marginals:
        members = np.zeros(self.hypotheses.n)
        members[self._pool()] = 1.0 / self._pool().size
        return Marginals(members)

    def _choose(self, x: Any) -> UnionPredictor:
        return UnionPredictor(self.hypotheses, [self._rng.choice(self._pool())])

    def _learn(self, feedback: Any) -> None:
        super()._learn(feedback)
        self.probed = set()

    def observe(self, feedback: Any) -> None:
        super().observe(feedback)
        if not feedback.mistake:
            self.probed.add(int(feedback.x) - self.hypotheses.n - 1)


@pytest.mark.claim("02.07")
def test_lazy_adversary_forces_everybody_to_err_n_minus_1_times() -> None:
    catalogue = instances.online_lb_instance(16).hypotheses
    for seed in range(3):
        learners = [
            MWMR(catalogue, random_state=seed),
            SequentialElimination(catalogue, order="random", random_state=seed),
            AvoidProbed(catalogue, random_state=seed),
            UnionSamplingLearner(catalogue, random_state=seed),
        ]
        for learner in learners:
            game = play(learner, instances.OnlineAdversary(catalogue), rounds=1500)
            assert game.mistakes == 15, type(learner).__name__


@pytest.fixture(scope="module")
def lazy_runs() -> list[np.ndarray]:
    """Mistake rounds of MWMR (n = 16) against the lazy adversary, 400 runs, until one is left."""
    catalogue = instances.online_lb_instance(16).hypotheses
    runs = []
    for seed in range(400):
        learner, adversary = (
            MWMR(catalogue, random_state=seed),
            instances.OnlineAdversary(catalogue),
        )
        parts = []
        while learner.remaining > 1:
            parts.append(adversary.play_on(learner, 40))
        runs.append(join_transcripts(parts).mistake_rounds)
    return runs


@pytest.mark.claim("02.07")
def test_lazy_adversary_needs_135_rounds_against_mwmr(lazy_runs: list[np.ndarray]) -> None:
    assert all(rounds.size == 15 for rounds in lazy_runs)
    last = [int(rounds[-1]) + 1 for rounds in lazy_runs]
    error = np.std(last, ddof=1) / np.sqrt(len(last))
    assert bounds.lazy_adversary_rounds(16) == 135
    assert abs(np.mean(last) - 135) <= 4 * error


@pytest.mark.claim("02.08")
@pytest.mark.parametrize("target", [0, 1, 5, 15])
def test_fixed_target_makes_mwmr_err_exactly_target_times(target: int) -> None:
    catalogue = instances.online_lb_instance(16).hypotheses
    adversary = instances.OnlineAdversary(catalogue, mode="fixed", target=target)
    assert play(MWMR(catalogue, random_state=target), adversary, rounds=2000).mistakes == target


@pytest.mark.claim("02.09")
@pytest.mark.parametrize(("target", "runs"), [(15, 2000), (0, 500)])
def test_random_order_is_uniform_against_a_fixed_target(target: int, runs: int) -> None:
    catalogue = instances.online_lb_instance(16).hypotheses
    counts = np.zeros(16)
    for seed in range(runs):
        learner = SequentialElimination(catalogue, order="random", random_state=seed)
        adversary = instances.OnlineAdversary(catalogue, mode="fixed", target=target)
        counts[play(learner, adversary, rounds=16).mistakes] += 1
    assert stats.chisquare(counts).pvalue > 0.001
    mean, error = counts @ np.arange(16) / runs, np.sqrt((16**2 - 1) / 12 / runs)
    assert abs(mean - bounds.random_order_mistakes(16)) <= 4 * error


@pytest.mark.claim("02.10")
@pytest.mark.parametrize("T", [60, 400, 3000])
def test_lower_bound_holds_with_probability_1_minus_delta(
    lazy_runs: list[np.ndarray], T: int
) -> None:
    n, delta = 16, 0.05
    needed = bounds.online_lower_bound(n, T, delta)
    assert 0 <= needed <= n - 1
    few = sum(int((rounds < T).sum()) < needed for rounds in lazy_runs[:200])
    assert few <= delta * 200


@pytest.mark.claim("02.10")
def test_the_lower_bound_counts_whole_mistakes() -> None:
    k = int(np.ceil(2 * (16 + 2) * np.log(16 / 0.05)))
    assert [bounds.online_lower_bound(16, T, 0.05) for T in (1, k - 1, k, 2 * k)] == [0, 0, 1, 2]
    # MWMR errs in the first round with probability 1/n only, so nothing can be promised for T = 1
    assert bounds.online_lower_bound(2, 1, 0.5) == 0


def test_adversary_cases_for_learners_outside_the_catalogue() -> None:
    catalogue = instances.online_lb_instance(5).hypotheses
    adversary = instances.OnlineAdversary(catalogue)
    game = play(MajorityHalving(catalogue), adversary, rounds=30)
    assert game.mistakes == 30  # all-negative: a positive agent at the origin every round


def test_marginals_are_probabilities_of_inclusion() -> None:
    catalogue = instances.online_lb_instance(6).hypotheses
    learner = UnionSamplingLearner(catalogue, random_state=0)
    law = learner.marginals().members
    draws = np.zeros(6)
    for _ in range(4000):
        draws[np.unique(learner.act().members)] += 1
    assert np.allclose(draws / 4000, law, atol=4 * np.sqrt(0.25 / 4000))
    for choice in ("next", "random", "union"):
        delta = DeltaOnlyElimination(catalogue, choice=choice, random_state=0)
        total = delta.marginals().members.sum()
        assert total >= 1 - 1e-12


def test_bad_combinations_are_refused() -> None:
    catalogue = instances.online_lb_instance(4).hypotheses
    with pytest.raises(InvalidInputError, match="only then"):
        instances.OnlineAdversary(catalogue, mode="lazy", target=1)
    star = instances.star_instance(3)
    silent = type("Silent", (MajorityHalving,), {"preview": property()})(star.hypotheses)
    with pytest.raises(InformationError, match="preview"):
        play(silent, star.adversary(), rounds=1)
    with pytest.raises(InformationError, match="draws its rules at random"):
        MWMR(catalogue, random_state=0).preview()


class Silent(StrategicLearner):
    """Accepts nobody."""

    def act(self, seen: Any = None) -> AllNegative:
        return AllNegative(5)

    def observe(self, feedback: Any) -> None:
        pass


def test_the_halving_adversary_punishes_a_rule_that_accepts_nobody() -> None:
    line = instances.threshold_line(5)
    game = play(Silent(), line.adversary())
    assert game.mistakes == len(game) == 5
    assert game.false_negatives == 5
