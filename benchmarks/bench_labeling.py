"""Speed of the labeling area against a plain NumPy builder, scikit-activeml and modAL, one run."""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

from counterplay.core.finite_class import FiniteClass
from counterplay.labeling import GBS, CommitteeSplitStrategy, PoolProblem


def best_of(repeats: int, job) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return min(times)


def cost_matrices() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    pools = [np.arange(i, 200, 4) for i in range(4)]
    problem = PoolProblem.from_class(FiniteClass.halfspaces_2d(X), pools)
    GBS().cost_matrix(PoolProblem.from_class(FiniteClass.halfspaces_2d(X[:9]), [np.arange(9)]))
    ours = best_of(3, lambda: GBS().cost_matrix(problem))
    plain = best_of(1, lambda: GBS(builder="level").cost_matrix(problem))
    print(f"joint cost matrix, m=200, N={problem.N}")
    print(f"  compiled stack builder      {ours:8.3f} s")
    print(f"  plain NumPy level builder   {plain:8.3f} s   {plain / ours:6.1f}x slower (bar: 2)")


def committee_queries() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1000, 5))
    y = (X @ rng.normal(size=5) > 0).astype(int)
    members = []
    while len(members) < 100:
        rows = rng.integers(0, 1000, 25)
        if len(set(y[rows])) == 2:
            members.append(LogisticRegression().fit(X[rows], y[rows]))
    known = np.full(1000, np.nan)
    known[:5] = y[:5]
    strategy = CommitteeSplitStrategy(members, tolerance=0.1)
    strategy.query(X, known)
    ours = best_of(20, lambda: strategy.query(X, known))
    print("one query, pool of 1000, committee of 100 fitted members")
    print(f"  counterplay                 {1e3 * ours:8.3f} ms")
    _scikit_activeml(members, X, known, ours)
    _modal(members, X, y, ours)


def _scikit_activeml(members, X, known, ours: float) -> None:
    try:
        from skactiveml.classifier import SklearnClassifier
        from skactiveml.pool import QueryByCommittee
    except ImportError:
        print("  scikit-activeml is not installed, skipped")
        return
    wrapped = [SklearnClassifier(member, classes=[0, 1]).fit(X[:30], (X[:30, 0] > 0).astype(int))
               for member in members]  # fmt: skip
    peer = QueryByCommittee(method="vote_entropy", random_state=0)

    def job() -> None:
        peer.query(X, known, ensemble=wrapped, fit_ensemble=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = best_of(3, job)
    print(f"  scikit-activeml QBC         {1e3 * seconds:8.3f} ms  {seconds / ours:6.1f}x slower"
          " (bar: 10)")  # fmt: skip


def _modal(members, X, y, ours: float) -> None:
    try:
        from modAL.models import ActiveLearner, Committee
    except ImportError:
        print("  modAL is not installed, skipped")
        return
    few, labels = X[:30], (X[:30, 0] > 0).astype(int)
    learners = [ActiveLearner(estimator=m, X_training=few, y_training=labels) for m in members]
    committee = Committee(learner_list=learners)
    seconds = best_of(3, lambda: committee.query(X))
    print(f"  modAL committee             {1e3 * seconds:8.3f} ms  {seconds / ours:6.1f}x slower"
          " (bar: 3)")  # fmt: skip


def main() -> None:
    cost_matrices()
    committee_queries()


if __name__ == "__main__":
    main()
