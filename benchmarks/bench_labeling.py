"""The labeling area against a plain NumPy builder, scikit-activeml and modAL, one run.

Questions until the true error is small enough, seconds per batch, campaigns of 100,000 items, and
checks of an audit against a fixed-time interval. Peers that are not installed are left out.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from counterplay.core.audit import allowed_wrong
from counterplay.core.finite_class import FiniteClass
from counterplay.labeling import GBS, Campaign, LabelAudit, PoolProblem, TestFirstSolo
from counterplay.labeling.scores import smallest_margins


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


def _ours(model, X, y, known, rng):
    left = np.flatnonzero(~known)
    return left[smallest_margins(model.predict_proba(X[left]), 10)]


def _random(model, X, y, known, rng):
    return rng.permutation(np.flatnonzero(~known))[:10]


def _activeml(model, X, y, known, rng):
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import UncertaintySampling

    labels = np.where(known, y.astype(float), np.nan)
    wrapped = SklearnClassifier(LogisticRegression(max_iter=300), classes=np.unique(y))
    peer = UncertaintySampling(method="margin_sampling", random_state=0)
    return peer.query(X, labels, clf=wrapped, batch_size=10)


def _modal(model, X, y, known, rng):
    from modAL.uncertainty import margin_sampling

    left = np.flatnonzero(~known)
    return left[margin_sampling(model, X[left], n_instances=10)[0]]


WAYS = {"margin here": _ours, "scikit-activeml margin": _activeml, "modAL margin": _modal,
        "random": _random}  # fmt: skip


def questions_until(X, y, eps: float, choose, seed: int) -> int:
    """Labels until the true error of answers and predictions together is at most eps."""
    rng = np.random.default_rng(seed)
    known = np.zeros(len(X), dtype=bool)
    known[rng.permutation(len(X))[:20]] = True
    while True:
        model = LogisticRegression(max_iter=300).fit(X[known], y[known])
        wrong = (model.predict(X) != y) & ~known
        if wrong.mean() <= eps or known.all():
            return int(known.sum())
        known[choose(model, X, y, known, rng)] = True


def learning_questions() -> None:
    digits, cancer = load_digits(return_X_y=True), load_breast_cancer(return_X_y=True)
    cases = (("digits 1770, 5 %", digits[0] / 16, digits[1], 1770, 0.05, 3),
             ("breast cancer 567, 2 %", StandardScaler().fit_transform(cancer[0]), cancer[1], 567,
              0.02, 6))  # fmt: skip
    for name, X, y, n, eps, seeds in cases:
        print(f"learning questions until the true error is small enough: {name}, {seeds} seeds")
        reference = None
        for way, choose in WAYS.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = [questions_until(X[:n], y[:n], eps, choose, s) for s in range(seeds)]
            except ImportError:
                print(f"  {way:26s} not installed, skipped")
                continue
            mean = float(np.mean(found))
            reference = mean if reference is None else reference
            print(f"  {way:26s} {mean:6.0f}   ours / it {reference / mean:5.2f} (bar: 1.05)")


def seconds_per_batch() -> None:
    """Ten questions at once: CPU seconds, for other programs may run beside this one."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:1770] / 16, y[:1770]
    times = {10: [], 1: []}
    for batch, found in times.items():
        campaign = Campaign(X, owners=["all"] * 1770, classes=list(range(10)), random_state=0,
                            batch=batch, learner=LogisticRegression(max_iter=300))  # fmt: skip
        answer(campaign, y, 20)  # the first questions
        for _ in range(12):  # ten questions, in one step or in ten
            start = time.process_time()
            for _ in range(10 // batch):
                answer(campaign, y, batch)
            found.append(time.process_time() - start)
        if batch == 10:  # the peer gets the same learning answers
            known = np.isin(np.arange(1770), list(campaign._state.joint.shadows[0].run.learned))
    ours, single = (float(np.median(times[batch][-5:])) for batch in (10, 1))
    plain = LogisticRegression(max_iter=300)
    fit = cpu_of(7, lambda: plain.fit(X[known], y[known]).predict_proba(X))
    print("CPU time for 10 questions, digits 1770, fit of the same model included")
    print(f"  Campaign, batch=10          {1e3 * ours:8.1f} ms")
    print(f"  Campaign, one by one        {1e3 * single:8.1f} ms  {single / ours:5.1f}x (bar: 3)")
    print(f"  one fit and prediction      {1e3 * fit:8.1f} ms  {fit / ours:5.2f} of ours")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = cpu_of(7, lambda: _activeml(None, X, y, known, None))
        print(f"  scikit-activeml margin      {1e3 * peer:8.1f} ms  {peer / ours:5.1f}x (bar: 3; "
              f"at most {peer / fit:.1f}, for both fit the model)")  # fmt: skip
    except ImportError:
        print("  scikit-activeml is not installed, skipped")


def answer(campaign: Campaign, y, n: int) -> None:
    for question in campaign.ask(n):
        campaign.tell(question, int(y[question.item]))


def cpu_of(repeats: int, job) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        job()
        times.append(time.process_time() - start)
    return float(np.median(times))


def large_campaign() -> None:
    rng = np.random.default_rng(0)
    n, members, classes = 100_000, 100, 10
    X = rng.normal(size=(n, 50)).astype(np.float64)
    y = np.argmax(X[:, :classes] + rng.normal(scale=0.5, size=(n, classes)), axis=1)
    campaign = Campaign(X, owners=["all"] * n, classes=list(range(classes)), learner=GaussianNB(),
                        committee=members, batch=50, max_error=0.02, random_state=0,
                        solo=TestFirstSolo(first=400))  # fmt: skip
    campaign_rounds(campaign, y, 2)
    times = campaign_rounds(campaign, y, 6)
    start = time.perf_counter()
    campaign.status()
    status = time.perf_counter() - start
    print(f"campaign of {n} items, {members} members, {classes} classes, batches of 50")
    print(f"  tell(50) + ask(50)          {np.median(times):8.2f} s   (bar: 1 s)")
    print(f"  status()                    {status:8.3f} s   (bar: 0.1 s)")


def campaign_rounds(campaign: Campaign, y, rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        questions = campaign.ask(100_000)
        start = time.process_time()  # of one core, whatever else runs
        for question in questions:
            campaign.tell(question, int(y[question.item]))
        campaign.ask(50)
        times.append(time.process_time() - start)
    return times


def clopper_pearson_checks(wrong, eps: float, alpha: float) -> int:
    """Checks of a fixed-time interval looked at when their number doubles, Bonferroni-corrected."""
    sizes = [60, 120, 240, 480, 960, 1920]
    for t in sizes:
        k = int(wrong[:t].sum())
        if stats.beta.ppf(1 - alpha / len(sizes), k + 1, t - k) <= eps:
            return t
    return len(wrong)


def audit_checks() -> None:
    print("checks until 5 % is shown, 2,000 labels, mean of 200 runs (bar: not more at 0 to 2 %)")
    rng = np.random.default_rng(0)
    for share in (0.0, 0.01, 0.02, 0.03):
        bad = np.arange(2000) < share * 2000
        assert bad.sum() <= allowed_wrong(2000, 0.05)
        ours, plain = [], []
        for _ in range(200):
            order = rng.permutation(2000)
            audit = LabelAudit(np.zeros(2000, dtype=int), order=order)
            while (item := audit.ask()) is not None:
                audit.tell(item, int(bad[item]))
            ours.append(audit.checked)
            plain.append(clopper_pearson_checks(bad[order], 0.05, 0.05))
        print(f"  true error {100 * share:2.0f} %   here {np.mean(ours):6.0f}   "
              f"Clopper-Pearson at doubling looks {np.mean(plain):6.0f}")  # fmt: skip


def main() -> None:
    cost_matrices()
    learning_questions()
    seconds_per_batch()
    large_campaign()
    audit_checks()


if __name__ == "__main__":
    main()
