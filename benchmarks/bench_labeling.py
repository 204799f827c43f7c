"""The labeling area against a plain NumPy builder, scikit-activeml and modAL, one run.

Questions until the true error is small enough, seconds per batch, campaigns of 100,000 items, and
checks of an audit against a fixed-time interval. Peers that are not installed are left out.
"""

from __future__ import annotations

import warnings

import numpy as np
from ledger import Times, compare, growth, skipped, timed
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from counterplay.core.audit import allowed_wrong
from counterplay.core.finite_class import FiniteClass
from counterplay.labeling import GBS, Campaign, LabelAudit, PoolProblem, TestFirstSolo
from counterplay.labeling.scores import smallest_margins


def cost_matrices() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    pools = [np.arange(i, 200, 4) for i in range(4)]
    problem = PoolProblem.from_class(FiniteClass.halfspaces_2d(X), pools)
    GBS().cost_matrix(PoolProblem.from_class(FiniteClass.halfspaces_2d(X[:9]), [np.arange(9)]))
    ours = timed(lambda: GBS().cost_matrix(problem), 3)
    plain = timed(lambda: GBS(builder="level").cost_matrix(problem))
    compare("labeling", f"joint cost matrix, 200 items, {problem.N} rules", ours, plain,
            against="a plain NumPy builder by levels", package="counterplay", bar=2)  # fmt: skip


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


PEERS = {"scikit-activeml margin": (_activeml, "scikit-activeml"),
         "modAL margin": (_modal, "modAL-python"), "random": (_random, None)}  # fmt: skip


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

        def asked(choose, X=X[:n], y=y[:n], eps=eps, seeds=seeds) -> list[int]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return [questions_until(X, y, eps, choose, s) for s in range(seeds)]

        what = f"margin questions until the true error is small enough, {name}, {seeds} seeds"
        ours = asked(_ours)
        for way, (choose, package) in PEERS.items():
            try:
                theirs = asked(choose)
            except ImportError:
                skipped("labeling", what, f"{package} is not installed")
                continue
            compare("labeling", what, ours, theirs, against=way, package=package,
                    unit="questions", bar=1 / 1.05)  # fmt: skip


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

            def ten(campaign=campaign, batch=batch) -> None:
                for _ in range(10 // batch):
                    answer(campaign, y, batch)

            found.append(timed(ten, 1, cpu=True).value)
        if batch == 10:  # the peer gets the same learning answers
            known = np.isin(np.arange(1770), list(campaign._state.joint.shadows[0].run.learned))
    ours, single = (Times(tuple(times[batch][-5:]), "median") for batch in (10, 1))
    plain = LogisticRegression(max_iter=300)
    fit = timed(lambda: plain.fit(X[known], y[known]).predict_proba(X), 7, how="median", cpu=True)
    what = "ten questions at once of a campaign, digits 1770, fit included"
    compare("labeling", what, ours, single, against="one question at a time",
            package="counterplay", bar=3)  # fmt: skip
    compare("labeling", what, ours, fit, against="one fit and prediction", package="scikit-learn")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = timed(lambda: _activeml(None, X, y, known, None), 7, how="median", cpu=True)
    except ImportError:
        skipped("labeling", what, "scikit-activeml is not installed")
        return
    compare(
        "labeling",
        what,
        ours,
        peer,
        against="margin query",
        package="scikit-activeml",
        bar=3,
        note=f"at most {peer.value / fit.value:.1f}, for both fit the model",
    )


def answer(campaign: Campaign, y, n: int) -> None:
    for question in campaign.ask(n):
        campaign.tell(question, int(y[question.item]))


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
    status = timed(campaign.status)
    what = f"campaign with {members} members and {classes} classes"
    growth("labeling", f"{what}, 50 answers and 50 questions",
           {n: Times(tuple(times), "median")}, size="items", bar=1.0)  # fmt: skip
    growth("labeling", f"{what}, status", {n: status}, size="items", bar=0.1)


def campaign_rounds(campaign: Campaign, y, rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        questions = campaign.ask(100_000)

        def batch(questions=questions) -> None:
            for question in questions:
                campaign.tell(question, int(y[question.item]))
            campaign.ask(50)

        times.append(timed(batch, 1, cpu=True).value)  # of one core, whatever else runs
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
        compare("labeling", f"checks until 5 % is shown, 2,000 labels, true error {share:.0%}",
                ours, plain, against="Clopper-Pearson at doubling looks", package="scipy",
                unit="checks", bar=1.0 if share <= 0.02 else None)  # fmt: skip


def main() -> None:
    cost_matrices()
    learning_questions()
    seconds_per_batch()
    large_campaign()
    audit_checks()


if __name__ == "__main__":
    main()
