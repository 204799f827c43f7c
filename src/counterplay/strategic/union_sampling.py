"""Union sampling: publish the union of randomly many rules, output the union of two.

With independent agents whose features are seen afterwards, a union of about n/k rules errs on those
negatives for whom about k rules err; drawing the size of the union on a logarithmic scale finds the
right one often enough. The output, a union of two rules of a random past version space, needs only
about log^2 n / eps agents, where every single rule as output needs about n / eps.

Source: Algorithm 2.2, Lemma 2.1, see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_choice
from counterplay.errors import ProtocolError
from counterplay.strategic.agents import Agents
from counterplay.strategic.classes import HypothesisClass
from counterplay.strategic.learner import Filter, Marginals, OnEmpty, VersionSpaceLearner
from counterplay.strategic.predictors import UnionPredictor
from counterplay.strategic.settings import FEATURES_AFTER

Output = Literal["random_time", "last"]


@checked
class UnionSamplingLearner(VersionSpaceLearner):
    """Publish unions of 1, 2, 4, .. random rules; output the union of two.

    Use it when agents are independent and their features become known after the decision (setting
    ``"features_after"``), and one rule must be fixed in the end.

    Parameters
    ----------
    hypotheses:
        The catalogue of n rules.
    output:
        ``"random_time"`` takes the two rules from the version space of a random past round, which
        is what the guarantee covers; ``"last"`` from the final one, a sensible heuristic Algorithm
        2.2.
    levels:
        ``"powers"`` draws the size of the union from 1, 2, 4, .., as in the theorem; ``"one"``
        publishes single rules only (a baseline that can fail).
    filter:
        ``"mistake"`` removes rules after mistakes only, as in the theorems; ``"safe"`` uses all the
        information of every round.
    radius_range:
        What is known about all radii, for the safe filter.
    on_empty:
        What to do when no rule explains the data: ``"raise"`` an error, ``"stop"`` learning, or
        ``"restart"`` with the whole catalogue.
    random_state:
        Seed of the draws.

    Notes
    -----
    Guarantee: after T rounds with independent realizable agents the expected error of the output is
    at most 320 log2(n) ln(n) / T (Lemma 2.1), and at most 5 floor(log2 n) ln(n) / T by
    exact evaluation (ours). See :func:`counterplay.strategic.bounds.union_sampling_rounds`.

    Examples
    --------
    >>> from counterplay.strategic import ApplicantStream, instances, play
    >>> instance = instances.SparseWrong(256, share=0.05, label=0, target=3)
    >>> learner = UnionSamplingLearner(instance.hypotheses, random_state=0)
    >>> stream = ApplicantStream(instance, "features_after", random_state=1)
    >>> game = play(learner, stream, rounds=4000, fast=True)
    >>> learner.output(random_state=0)
    UnionPredictor(members=[3, 3])

    References
    ----------
    Algorithm 2.2, Lemma 2.1, see docs/theory/02-strategic-finite.md.
    """

    needs = FEATURES_AFTER
    output_size: ClassVar[int] = 2

    def __init__(
        self,
        hypotheses: HypothesisClass,
        *,
        output: Output = "random_time",
        levels: Literal["powers", "one"] = "powers",
        filter: Filter = "mistake",
        radius_range: tuple[float, float] = (0.0, math.inf),
        on_empty: OnEmpty = "raise",
        random_state: RandomState = None,
    ) -> None:
        self.output_time: Output = check_choice(output, "output", ("random_time", "last"))
        self.levels: Literal["powers", "one"] = check_choice(levels, "levels", ("powers", "one"))
        super().__init__(
            hypotheses,
            filter=filter,
            radius_range=radius_range,
            on_empty=on_empty,
            random_state=random_state,
        )

    def mistake_bound(self, rounds: int | None = None) -> float:
        """Return n - 1: every mistake removes a rule."""
        return float(self.hypotheses.n - 1)

    def marginals(self) -> Marginals:
        """Return the law of the next published union."""
        members = np.zeros(self.hypotheses.n)
        m = self.remaining
        members[self.alive] = inclusion_probability(m) if self.levels == "powers" else 1.0 / m
        return Marginals(members)

    def _choose(self, x: Any) -> UnionPredictor:
        count = draw_level(self.remaining, self._rng) if self.levels == "powers" else 1
        return UnionPredictor(self.hypotheses, self._rng.choice(self.alive, size=count))

    def block_ranks(self, size: int, count: int) -> IntArray:
        """Return the rank of the nearest member of the published union in each round."""
        if self.levels == "one":
            return self._rng.integers(size, size=count)
        return draw_ranks(size, count, self._rng)

    def output(self, random_state: RandomState = None) -> UnionPredictor:
        """Return the final rule: the union of two rules drawn with replacement.

        They come from VS_{tau-1} with tau uniform on the rounds played (or from the last version
        space). Once drawn, the rule is fixed.
        """
        rng = self._rng if random_state is None else generator(random_state)
        pool = self._output_pool(rng)
        return UnionPredictor(self.hypotheses, rng.choice(pool, size=self.output_size))

    def expected_loss(self, agents: Agents) -> float:
        """Return the exact expected loss of the output on ``agents``, over the output's coins."""
        epochs = self.output_epochs()
        table = agents.losses(self.hypotheses)
        per_agent = epoch_losses(table, agents.y, epochs, self.output_size)
        return float(per_agent.mean())

    def _output_pool(self, rng: np.random.Generator) -> IntArray:
        if self.output_time == "last":
            return self.alive
        if self.version_space.round == 0:
            raise ProtocolError("play at least one round before asking for the output")
        return self.version_space.at_round(int(rng.integers(self.version_space.round)))

    def output_epochs(self) -> list[tuple[int, IntArray]]:
        """Return the version spaces the output is drawn from, with their weights in rounds."""
        if self.output_time == "last":
            return [(1, self.alive)]
        if self.version_space.round == 0:
            raise ProtocolError("play at least one round before asking for the output")
        return self.version_space.epochs()


@checked
class ProperUnionSampling(UnionSamplingLearner):
    """Union sampling with a single rule as output, to show what that costs.

    Parameters are those of :class:`UnionSamplingLearner`.

    Notes
    -----
    Every proper learner needs about n / (6 eps) agents on some populations
    (Theorem 2.5), see :func:`counterplay.strategic.bounds.proper_lower_bound`.

    Examples
    --------
    The same run, one rule as output: the exact expected error is far larger than for two.

    >>> from counterplay.strategic import ApplicantStream, instances, play
    >>> instance = instances.ProperInstance(32, eps=0.01, target=5)
    >>> losses = []
    >>> for kind in (UnionSamplingLearner, ProperUnionSampling):
    ...     learner = kind(instance.hypotheses, random_state=0)
    ...     stream = ApplicantStream(instance, "features_after", random_state=1)
    ...     _ = play(learner, stream, rounds=500, fast=True)
    ...     losses.append(instance.output_loss(learner))
    >>> losses[1] / losses[0] > 10
    True

    References
    ----------
    Theorem 2.5, "Safe filter, exact solver, baselines", see docs/theory/02-strategic-finite.md.
    """

    output_size: ClassVar[int] = 1


def union_levels(m: int) -> IntArray:
    """Return the union sizes 1, 2, 4, .. used with m rules left: floor(log2 m) of them.

    Examples
    --------
    >>> union_levels(1), union_levels(3), union_levels(8)
    (array([1]), array([1]), array([1, 2, 4]))
    """
    return 2 ** np.arange(max(1, int(m).bit_length() - 1), dtype=np.int64)


def draw_level(m: int, rng: np.random.Generator) -> int:
    """Return a uniformly random union size."""
    return int(2 ** rng.integers(max(1, int(m).bit_length() - 1)))


def draw_ranks(m: int, count: int, rng: np.random.Generator) -> IntArray:
    """Return ranks of the nearest of k draws with replacement out of m, k random, per round.

    The smallest of k uniform draws has rank floor(m (1 - U^(1/k))), so no k draws are needed.
    """
    levels = 2 ** rng.integers(max(1, int(m).bit_length() - 1), size=count)
    u = rng.random(count)
    ranks = np.floor(m * (1.0 - u ** (1.0 / levels))).astype(np.int64)
    return np.minimum(ranks, m - 1)


def inclusion_probability(m: int) -> float:
    """Return the probability that a given one of m rules is in the published union."""
    return float(np.mean(1.0 - (1.0 - 1.0 / m) ** union_levels(m)))


def pair_loss(wrong: IntArray, m: int, y: NDArray[Any], size: int = 2) -> FloatArray:
    """Return the probability that a union of ``size`` random rules errs on each agent.

    ``wrong`` counts the erring rules among the m: a positive agent is lost only if all drawn rules
    err, a negative one already if one does.

    Examples
    --------
    >>> pair_loss(np.array([1, 1]), 4, np.array([1, 0]))
    array([0.0625, 0.4375])
    """
    share = np.asarray(wrong) / m
    return np.where(np.asarray(y) > 0, share**size, 1.0 - (1.0 - share) ** size)


def epoch_losses(
    losses: BoolArray, y: NDArray[Any], epochs: list[tuple[int, IntArray]], size: int = 2
) -> FloatArray:
    """Return the expected loss per agent of a union of random rules at a random time.

    Parameters
    ----------
    losses:
        Loss table of all rules on the agents.
    y:
        True labels.
    epochs:
        How long each version space lasted, and its members.
    size:
        How many rules are drawn.
    """
    total = sum(rounds for rounds, _ in epochs)
    out = np.zeros(losses.shape[0])
    wrong: IntArray | None = None
    previous: IntArray | None = None
    for rounds, members in epochs:
        if wrong is None or previous is None or members.size < previous.size // 2:
            wrong = losses[:, members].sum(axis=1)
        else:
            gone = np.setdiff1d(previous, members, assume_unique=True)
            wrong = wrong - losses[:, gone].sum(axis=1)
        previous = members
        out += rounds * pair_loss(wrong, members.size, y, size)
    return out / total
