"""Partition ensembles against ART's DeepPartitionEnsemble and against each other, blocks by account
against blocks by row, halving against the grid, collective bounds, and the dyadic learner against a
sort.

Every line is a ratio of CPU times from this run, so that other work on the machine matters little:
the two sides take turns, and the median over the turns is printed with the smallest and the
largest. Run it with one thread (``OMP_NUM_THREADS=1``, as ``make bench`` does). ART
(adversarial-robustness-toolbox) and torch are optional: without them their lines are skipped. One
split with fixed settings; ``art_partitions.py`` compares with settings chosen on validation data,
on many splits.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from art_partitions import BLOCKS, DEFAULT, EPOCHS, art, ours, prepared
from ledger import compare, growth, in_turns, skipped, timed
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import CounterplayError
from counterplay.poisoning import CertifiedAccuracy, PartitionClassifier, choose_n_partitions
from counterplay.poisoning.ballots import metric_value, plurality_ballots
from counterplay.poisoning.collective import Collective
from counterplay.poisoning.lab import DyadicDirectionLearner, HardMarginSVM
from counterplay.poisoning.partition_trial import Goal, Trial
from counterplay.studies.poisoning.sources.data import pipeline, sent

BUDGETS = (0, 1, 2, 5, 8, 10, 12, 15, 20)
LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
ART = "ART DeepPartitionEnsemble"
ART_SETTING = {"rate": 0.01, "penalty": 0.0, "smoothing": 0.2, "unit": 1}


def digits(seed: int = 0) -> tuple[Any, Any, Any, Any]:
    X, y = load_digits(return_X_y=True)
    return tuple(train_test_split(X, y, random_state=seed))


def guarded(base: Any, blocks: int, spread: int, data: Any, rule: Any = "plurality") -> Any:
    X_train, X_test, y_train, y_test = data
    guard = PartitionClassifier(base, blocks, spread=spread, aggregation=rule)
    return guard.fit(X_train, y_train).certified_accuracy(X_test, y_test)


def kept(curve: CertifiedAccuracy, rows: int) -> Any:
    """Whether every prediction is right and stays so; the mean is the certified accuracy."""
    return curve.correct & (curve.radii >= rows)


def empty_under_arts_hash(X: Any) -> int:
    """Blocks that stay empty under ART's default hash, int(sum(x)) modulo the number of blocks."""
    return BLOCKS - np.unique(X.sum(axis=1).astype(int) % BLOCKS).size


def partition_lines(data: tuple[Any, Any, Any, Any], turns: int = 7) -> None:
    def networks() -> CertifiedAccuracy:
        return ours(data, DEFAULT)

    networks()  # compile
    what = f"{BLOCKS} networks in one batch on digits, {EPOCHS} epochs"
    lines = {
        "nearest row (default)": lambda: guarded(None, BLOCKS, 1, data),
        "KNeighborsClassifier(1)": lambda: guarded(KNeighborsClassifier(1), BLOCKS, 1, data),
        "finite aggregation d=4, 1-NN": lambda: guarded(None, BLOCKS, 4, data),
        "logistic (DPA)": lambda: guarded(LOGISTIC, BLOCKS, 1, data),
        "logistic, run-off": lambda: guarded(LOGISTIC, BLOCKS, 1, data, "runoff"),
        ART: lambda: art(data, ART_SETTING),
    }
    for name, call in lines.items():
        try:
            mine, theirs = in_turns(networks, call, turns)
        except ImportError as error:
            skipped("poisoning", what, f"{name}: {error}")
            continue
        package = "adversarial-robustness-toolbox" if name == ART else "counterplay"
        compare("poisoning", f"{what}: fit, predict and certify", mine, theirs, against=name,
                package=package, bar=10 if name == ART else None)  # fmt: skip
        curves = [" ".join(f"{run.result.at(t):.3f}" for t in BUDGETS) for run in (mine, theirs)]
        compare("poisoning", f"{what}: certified accuracy at 5 planted rows", kept(mine.result, 5),
                kept(theirs.result, 5), against=name, package=package, unit="accuracy", more=True,
                bar=1.0 if name == ART else None,
                note=f"at {BUDGETS} rows {curves[0]} against {curves[1]}")  # fmt: skip
    guard = PartitionClassifier(None, BLOCKS).fit(prepared(data[0], 0), data[2])
    compare("poisoning", f"empty blocks of {BLOCKS} on digits", float(guard.n_empty_),
            float(empty_under_arts_hash(prepared(data[0], 0))), against="ART's default hash",
            package="adversarial-robustness-toolbox", unit="blocks")  # fmt: skip


def aggregation_lines(blocks: int = 25, spread: int = 16, splits: int = 5) -> None:
    """Finite aggregation and run-off: gain over the plain vote, decision trees."""
    tree = DecisionTreeClassifier(min_samples_leaf=2, random_state=0)
    sharper = {
        f"finite aggregation, d = {spread}": lambda data: guarded(tree, blocks, spread, data),
        "run-off": lambda data: guarded(tree, blocks, 1, data, "runoff"),
        "both": lambda data: guarded(tree, blocks, spread, data, "runoff"),
    }
    for name, call in sharper.items():
        curves, work = [], []
        for seed in range(splits):
            data = digits(seed)
            pair = in_turns(partial(call, data), partial(guarded, tree, blocks, 1, data), 1)
            curves.append([[run.result.at(t) for t in range(9)] for run in pair])
            work.append(pair[0].value / pair[1].value)
        sharp, plain = np.mean(curves, axis=2).T  # of every split
        cells = " ".join(f"{g:+.3f}" for g in [1, -1] @ np.mean(curves, axis=0))
        compare("poisoning", f"{name} of {blocks} trees, certified accuracy at 0 to 8 rows, "
                f"{splits} splits", sharp, plain, against="the plain vote (DPA)",
                package="counterplay", unit="accuracy", more=True,
                note=f"gains {cells}, for {np.mean(work):.1f} times the time")  # fmt: skip


def dyadic_line(m: int = 1_000_000, turns: int = 5) -> None:
    rng = np.random.default_rng(0)
    angle, radius = 2 * np.pi * rng.random(m), np.sqrt(rng.random(m))
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    y = (X @ [np.cos(1.2), np.sin(1.2)] >= 0.1).astype(np.uint8)
    DyadicDirectionLearner().fit(X[:2000], y[:2000])  # compile
    pair = in_turns(
        lambda: DyadicDirectionLearner().fit(X, y),
        lambda: X[np.argsort(X[:, 0], kind="stable")],
        turns,
    )
    compare("poisoning", f"dyadic learner, {m} rows", *pair, against="one sort of the rows",
            package="numpy", bar=1 / 5)  # fmt: skip


def svm_line() -> None:
    rng = np.random.default_rng(1)
    w = rng.normal(size=50)
    X = rng.normal(size=(101, 50))
    y = (X @ w >= 0).astype(int)
    exact, libsvm = in_turns(
        lambda: HardMarginSVM().fit(X, y),
        lambda: SVC(kernel="linear", C=1e8, tol=1e-8).fit(X, y),
        9,
    )
    model, other = exact.result, libsvm.result
    loss = 1 - 1 / np.linalg.norm(other.coef_) / model.margin_
    compare("poisoning", "exact hard-margin SVM, 101 x 50", exact, libsvm,
            against="libsvm at C=1e8", package="scikit-learn",
            note=f"libsvm's margin is off by {loss:+.1e}, ours by {model.gap_:.0e}")  # fmt: skip


def account_line(accounts: int = 3, rows: int = 20) -> None:
    """Certified accuracy against accounts that send many rows: blocks by account and by row."""
    what = f"certified accuracy on SMS, {accounts} accounts of {rows} rows, blocks by account"
    try:
        data = sent("sms", 0)
    except CounterplayError as error:
        skipped("poisoning", what, str(error).splitlines()[0])
        return
    values = []
    for owners in (None, data.sources[data.train]):
        guard = PartitionClassifier(pipeline("sms"), 50, classes=("ham", "spam"), check=False)
        guard.fit(data.rows(data.train), data.y[data.train], sources=owners)
        curve = guard.certified_accuracy(data.rows(data.test), data.y[data.test])
        values.append(kept(curve, accounts if owners is not None else accounts * rows))
    compare("poisoning", what, values[1], values[0], against="blocks by row (DPA)",
            package="counterplay", unit="accuracy", more=True,
            note="wanted: at least 0.9 apart")  # fmt: skip


def halving_line(turns: int = 3) -> None:
    """Choice of the number of blocks: halving against fitting all candidates."""
    X, y = load_digits(return_X_y=True)
    counts = (21, 35, 51, 75, 101, 151, 201, 301)

    def halving() -> Any:
        return choose_n_partitions(LOGISTIC, X, y, budget=10, candidates=counts)

    def grid() -> dict[int, float]:
        trial = Trial.of(LOGISTIC, X, y, None, None, None)
        goal = Goal.of("accuracy", trial.classes)
        return {count: trial.exact(count, 10, goal)[1] for count in counts}

    pair = in_turns(halving, grid, turns)
    chosen, values = pair[0].result, pair[1].result
    regret = max(values.values()) - values[chosen.best]
    share = chosen.ensembles_fitted / chosen.n_candidates
    compare("poisoning", f"choice among {len(counts)} numbers of blocks by halving", *pair,
            against="the grid", package="counterplay", bar=2,
            note=f"{share:.2f} of the fits, regret {regret:.4f}")  # fmt: skip


def collective_line(blocks: int = 100, n: int = 1000, classes: int = 10, parts: int = 20) -> None:
    """The linear bound for one set of blocks, votes as of nearest neighbours on images."""
    rng = np.random.default_rng(0)
    truth, skill = rng.integers(classes, size=n), rng.beta(3, 1, size=n)
    confused = rng.integers(classes, size=n)  # every image looks like one other class
    other = np.where(
        rng.random((blocks, n)) < 0.7, confused, rng.integers(classes, size=(blocks, n))
    )
    votes = np.where(rng.random((blocks, n)) < skill, truth, other)
    ballots = plurality_ballots(votes, truth, classes, closed=True)
    low = metric_value("accuracy", ballots, 0, ballots.reachable(parts, blocks - 1))

    def bound() -> tuple[float, float]:
        game = Collective.of("accuracy", ballots, 0, parts)
        return game.certified(low, game.attained(low), "linear")

    spent = timed(bound, cpu=True)
    certified, attained = spent.result
    what = f"collective bound, {blocks} blocks, {classes} classes, {parts} touched"
    growth("poisoning", what, {n: spent}, size="rows", bar=2.0)
    compare("poisoning", f"{what}: certified accuracy together", certified, low,
            against="per decision", package="counterplay", unit="accuracy", more=True,
            note=f"attained {attained:.3f}")  # fmt: skip


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        partition_lines(digits())
        account_line()
        halving_line()
        collective_line()
    aggregation_lines()
    dyadic_line()
    svm_line()


if __name__ == "__main__":
    main()
