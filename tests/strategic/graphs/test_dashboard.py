"""The live dashboard shows the learner's own numbers, and weights fall as the proofs say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.errors import NotRealizableError
from counterplay.strategic import ManipulationGraph, bounds, instances, play
from counterplay.strategic.lab import (
    SOA,
    GridThreshold,
    LearnerDashboard,
    Red2OnlineFI,
    Red2OnlinePMF,
    respond,
)
from strategic.graph_problems import random_instance


def live(board: LearnerDashboard, graph: ManipulationGraph, h, rounds: int, rng) -> int:
    """A loop that shows the board only (v, N[v], y); returns the mistakes it counted itself."""
    mistakes = 0
    for x in rng.integers(graph.n, size=rounds):
        x, y = int(x), int(h[graph.closed(int(x))].any())
        if isinstance(board.learner, Red2OnlinePMF):
            rule = board.learner.accepts(np.arange(graph.n))
        else:
            rule = np.zeros(graph.n, dtype=bool)
            rule[x] = board.learner.decide(graph.closed(x))
        v = respond(rule, x, graph, "first")
        wrong = board.update(v, graph.closed(v), y)
        assert wrong == (bool(rule[v]) != bool(y))
        mistakes += wrong
    return mistakes


@pytest.mark.claim("03.07")
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", ["known", "hidden"])
def test_numbers_are_the_learners_and_weights_fall_as_proved(kind: str, exact: bool) -> None:
    rng = np.random.default_rng(5)
    seen = 0
    for _ in range(40):
        rules, graph = random_instance(rng, n=7, m=14, k=4)
        h, M = rules.labels[int(rng.integers(len(rules)))], SOA(rules).mistake_bound
        if kind == "known":
            board = LearnerDashboard(Red2OnlineFI(SOA(rules), exact=exact))
        else:
            board = LearnerDashboard(Red2OnlinePMF(SOA(rules), graph.k, exact=exact))
        assert live(board, graph, h, 40, rng) == board.mistakes <= board.bound
        frame = board.to_frame()
        assert (board.rounds, len(frame)) == (40, board.mistakes + 1)
        assert frame["experts"].iloc[-1] == len(board.learner.experts)
        falls = np.diff(frame["log10_weight"])
        yes = (frame["kind"] == "false positive").to_numpy()[1:] & (kind == "hidden")
        proved = np.where(yes, math.log10(1 - 1 / (4 * (board.k + 1))), math.log10(3 / 4))
        assert (falls <= proved + 1e-12).all()
        assert np.allclose(np.diff(frame["log10_promised"]), proved)
        assert frame["log10_weight"].iloc[-1] >= -M * math.log10(2 * (graph.k + 1)) - 1e-12
        if exact:
            total = math.log10(board.learner.experts.total)
            assert frame["log10_weight"].iloc[-1] == pytest.approx(total, abs=1e-12)
        seen += board.mistakes
    assert seen > 20


def test_normalised_weights_lead_to_the_same_total_as_exact_ones() -> None:
    star = instances.star_singletons(8, 2)
    boards = [
        LearnerDashboard(Red2OnlinePMF(SOA(star.hypotheses), 8, exact=exact))
        for exact in (False, True)
    ]
    for board in boards:
        assert play(board, star.adversary()).mistakes == board.mistakes == 16
        assert board.bound == bounds.red2online_pmf_mistakes(2, 8)
    floats, fractions = (board.to_frame() for board in boards)
    assert floats["kind"].tolist() == fractions["kind"].tolist()
    assert np.allclose(floats["log10_weight"], fractions["log10_weight"], atol=1e-9)


def test_known_graph_bound_grows_with_the_moves_seen() -> None:
    board = LearnerDashboard(Red2OnlineFI(GridThreshold(15)))
    board.update(3, [3], 0)
    assert board.bound == bounds.red2online_fi_mistakes(4, 0)
    board.update(3, [3, 4, 5], 0)
    assert board.bound == bounds.red2online_fi_mistakes(4, 2)


def test_a_mistake_that_refutes_every_rule_is_counted() -> None:
    board = LearnerDashboard(Red2OnlinePMF(SOA(FiniteClass.from_matrix([[0, 1]])), 0))
    with pytest.raises(NotRealizableError, match="round 1"):
        board.update(1, [1], 0)
    assert board.mistakes == 1 > board.bound == 0
    assert "1 mistakes (bound 0.0)" in board.summary()


def test_the_picture_has_mistakes_with_the_bound_experts_and_weight() -> None:
    star = instances.star_singletons(4, 1)
    board = LearnerDashboard(Red2OnlinePMF(SOA(star.hypotheses), 4))
    play(board, star.adversary())
    mistakes, experts, weight = board.plot().axes
    made, bound = mistakes.lines
    assert made.get_ydata()[-1] == board.mistakes == 4
    assert set(bound.get_ydata()) == {board.bound}
    assert experts.lines[0].get_ydata()[-1] == len(board.learner.experts)
    measured, promised = (line.get_ydata() for line in weight.lines)
    assert (np.asarray(measured) <= np.asarray(promised) + 1e-12).all()


def test_dropping_experts_is_said() -> None:
    star = instances.star_singletons(4, 1)
    board = LearnerDashboard(Red2OnlinePMF(SOA(star.hypotheses), 4, max_experts=1))
    board.update(0, star.graph.closed(0), 1)
    assert "the bound does not hold" in board.summary()
