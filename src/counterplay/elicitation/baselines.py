"""What people do without this library, for comparison.

Sampled trajectories instead of exact sets, equal weights, random comparisons, Bradley-Terry
regression, a scan of the Pareto front.
Source: docs/theory/08-elicitation.md, "Measured" (baselines; the sample size is Hoeffding's).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_linear
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_positive_int,
    check_same_shape,
    check_size,
)
from counterplay.elicitation.catalogue import undominated
from counterplay.elicitation.comparisons import Answer, Option, User
from counterplay.elicitation.mdp import MultiObjectiveMDP
from counterplay.elicitation.oracles import LinearOracle, value_table
from counterplay.elicitation.policies import check_policy
from counterplay.elicitation.trajectories import WeightedTrajectorySet, trajectory_returns
from counterplay.errors import InvalidInputError

_MOST_QUESTIONS = 100_000


@checked
def sampled_trajectory_set(
    mdp: MultiObjectiveMDP, policy: ArrayLike, n: int, random_state: RandomState = None
) -> WeightedTrajectorySet:
    """Return n independent trajectories with equal weights; rare events are usually missing.

    :func:`bounds.sample_size` says which n brings every objective close.

    Examples
    --------
    >>> from counterplay.elicitation import instances, plan
    >>> mdp = instances.rare_crash(crash_probability=1e-9)
    >>> policy = plan(mdp, [[1.0, 1.0, 1.0, 0.0]]).policies[0]
    >>> float(sampled_trajectory_set(mdp, policy, 1000, 0).value[-1])
    0.0
    """
    size = check_positive_int(n, "n")
    check_size(size * (mdp.H + 1), 20_000_000, "steps of trajectories")
    rng = generator(random_state)
    checked = check_policy(mdp, policy)
    states = np.full((size, mdp.H + 1), mdp.s0, dtype=np.int32)
    actions = np.zeros((size, mdp.H), dtype=np.int32)
    cumulative = np.cumsum(mdp.P.data)
    for t in range(mdp.H):
        here = states[:, t].astype(np.int64)
        if checked.ndim == 2:
            action = checked[t, here].astype(np.int64)
        else:
            steps = np.cumsum(checked[t, here], axis=1)
            action = (rng.random((size, 1)) * steps[:, -1:] < steps).argmax(axis=1)
        rows = here * mdp.n_actions + action
        start, end = mdp.P.indptr[rows], mdp.P.indptr[rows + 1]
        base = np.where(start > 0, cumulative[start - 1], 0.0)
        draw = base + rng.random(size) * (cumulative[end - 1] - base)
        entry = np.clip(np.searchsorted(cumulative, draw, side="right"), start, end - 1)
        actions[:, t], states[:, t + 1] = action, mdp.P.indices[entry]
    returns = trajectory_returns(mdp, states, actions)
    return WeightedTrajectorySet(states, actions, np.full(size, 1.0 / size), returns, mdp)


@checked
def enumerate_support(
    mdp: MultiObjectiveMDP, policy: ArrayLike, *, limit: int = 200_000
) -> WeightedTrajectorySet:
    """Return every possible trajectory with its probability; exponentially many, for tests only.

    Examples
    --------
    >>> from counterplay.elicitation import instances
    >>> mdp = instances.good_bad_mediocre()
    >>> risky = np.zeros((mdp.H, mdp.n_states), dtype=int)
    >>> enumerate_support(mdp, risky).weights.tolist()
    [0.5, 0.5]
    """
    from counterplay.elicitation.expand_and_compress import expand_step

    checked = check_policy(mdp, policy)
    states = np.full((1, mdp.H + 1), mdp.s0, dtype=np.int32)
    actions = np.zeros((1, mdp.H), dtype=np.int32)
    weights = np.ones(1)
    for t in range(mdp.H):
        parent, action, successor, probability = expand_step(mdp, checked, t, states[:, t])
        if len(parent) > limit:
            raise InvalidInputError(
                f"the policy has more than {limit} trajectories; use expand_and_compress"
            )
        states, actions = states[parent], actions[parent]
        actions[:, t], states[:, t + 1] = action, successor
        weights = weights[parent] * probability
    returns = trajectory_returns(mdp, states, actions)
    return WeightedTrajectorySet(states, actions, weights, returns, mdp)


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class BaselineResult:
    """Recommendation of a baseline: weights, item, value and the questions it used.

    Examples
    --------
    >>> from counterplay.elicitation.lab import PointSetOracle
    >>> equal_weights(PointSetOracle([[1.0, 0.0], [0.6, 0.6]])).n_queries
    0
    """

    weights: FloatArray
    item: Any
    value: FloatArray
    n_queries: int


@checked
def equal_weights(oracle: LinearOracle) -> BaselineResult:
    """Ask nothing and weigh all objectives equally.

    Examples
    --------
    >>> from counterplay.elicitation.lab import PointSetOracle
    >>> equal_weights(PointSetOracle([[1.0, 0.0], [0.6, 0.6]])).item
    1
    """
    return _planned(oracle, np.full(oracle.k, 1.0 / oracle.k), 0)


@checked
def random_comparisons(
    oracle: LinearOracle, user: User, n_queries: int, random_state: RandomState = None
) -> BaselineResult:
    """Compare random optimal options, then take the Chebyshev centre of the weights that fit.

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser
    >>> from counterplay.elicitation.lab import PointSetOracle
    >>> oracle = PointSetOracle(np.random.default_rng(0).random((200, 3)))
    >>> found = random_comparisons(oracle, LinearPreferenceUser([1, 1, 1], 0.01), 20, 0)
    >>> found.n_queries
    20
    """
    differences, labels = _random_answers(oracle, user, n_queries, random_state)
    told = (labels != 0.5) & (np.abs(differences).max(axis=1) > 0)
    rows = np.sign(labels - 0.5)[told, None] * differences[told]
    return _planned(oracle, _chebyshev_weights(rows, oracle.k), n_queries)


@checked
def bradley_terry(
    oracle: LinearOracle,
    user: User,
    n_queries: int,
    *,
    ridge: float = 1e-2,
    random_state: RandomState = None,
) -> BaselineResult:
    """Logistic regression on random comparisons of optimal options (Bradley-Terry).

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser
    >>> from counterplay.elicitation.lab import PointSetOracle
    >>> oracle = PointSetOracle(np.random.default_rng(0).random((200, 3)))
    >>> found = bradley_terry(oracle, LinearPreferenceUser([1, 0, 0], 0.01), 40, random_state=0)
    >>> int(found.weights.argmax())
    0
    """
    differences, labels = _random_answers(oracle, user, n_queries, random_state)
    return _planned(oracle, logistic_weights(differences, labels, ridge), n_queries)


@checked
def logistic_weights(differences: FloatArray, labels: FloatArray, ridge: float) -> FloatArray:
    """Return non-negative weights of a ridge logistic regression; labels 1, 0 or 1/2 for "same".

    Examples
    --------
    >>> logistic_weights(np.array([[1.0, -1.0], [0.5, -1.0]]), np.array([1.0, 1.0]), 0.1).tolist()
    [1.0, 0.0]
    """
    differences = check_float_array(differences, "differences", ndim=2)
    labels = check_float_array(labels, "labels", ndim=1)
    check_same_shape(differences[:, 0], labels, ("differences[:, 0]", "labels"))
    k = differences.shape[1]
    w = np.full(k, 1.0 / k)
    for _ in range(50):
        p = expit(differences @ w)
        gradient = differences.T @ (p - labels) + ridge * w
        curvature = (differences.T * (p * (1 - p))) @ differences + ridge * np.eye(k)
        step = np.linalg.solve(curvature, gradient)
        w = w - step
        if np.abs(step).max() < 1e-10:
            break
    w = np.maximum(w, 0.0)
    return w / w.sum() if w.sum() > 0 else np.full(k, 1.0 / k)


@checked
def pareto_scan(values: ArrayLike, user: User) -> BaselineResult:
    """Compare every undominated option with the best so far: |front| - 1 questions.

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser
    >>> X = np.random.default_rng(0).random((1000, 3))
    >>> pareto_scan(X, LinearPreferenceUser([1.0, 1.0, 1.0], 1e-6)).n_queries
    34
    """
    table = value_table(values, "values").numbers()
    front = undominated(table)
    best = int(front[0])
    for row in front[1:]:
        if user.compare(Option(table[best]), Option(table[int(row)])) is Answer.SECOND:
            best = int(row)
    return BaselineResult(np.full(table.shape[1], np.nan), best, table[best], len(front) - 1)


def _planned(oracle: LinearOracle, weights: FloatArray, n_queries: int) -> BaselineResult:
    items, values = oracle.argmax(weights[None])
    return BaselineResult(weights, items[0], values[0], n_queries)


def _random_answers(
    oracle: LinearOracle, user: User, n_queries: int, random_state: RandomState
) -> tuple[FloatArray, FloatArray]:
    """Differences of random optimal options, and the answers: 1 first, 0 second, 1/2 same."""
    check_size(check_positive_int(n_queries, "n_queries"), _MOST_QUESTIONS, "questions")
    rng = generator(random_state)
    _, values = oracle.argmax(rng.dirichlet(np.ones(oracle.k), size=2 * n_queries))
    labels = {Answer.FIRST: 1.0, Answer.SECOND: 0.0, Answer.INDISTINGUISHABLE: 0.5}
    said = [
        labels[user.compare(Option(first), Option(second))]
        for first, second in zip(values[0::2], values[1::2])
    ]
    return values[0::2] - values[1::2], np.array(said)


def _chebyshev_weights(rows: FloatArray, k: int) -> FloatArray:
    """Centre of the largest ball in the weights that fit; equal weights if nothing fits."""
    system = np.vstack([np.eye(k), rows]) if len(rows) else np.eye(k)
    flat = system - system.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(flat, axis=1)
    answer = minimize_linear(
        np.append(np.zeros(k), -1.0),
        A_ub=np.hstack([-system, lengths[:, None]]),
        b_ub=np.zeros(len(system)),
        A_eq=np.append(np.ones(k), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, 1)] * k + [(0, None)],
        allow=("infeasible",),
    )
    return np.full(k, 1.0 / k) if answer.x is None else answer.x[:k]
