"""Run-off certificates against every possible change of up to t models, on tiny elections."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from counterplay.errors import InvalidInputError
from counterplay.poisoning import BatchedMLPClassifier, PartitionClassifier
from counterplay.poisoning.certificates import spread_parts
from counterplay.poisoning.errors import BlockFailureWarning
from counterplay.poisoning.run_off import run_off, run_off_radius, run_off_spread_radius

UNKNOWN = -np.inf


def opinions(k: int) -> list[tuple[int, tuple[float, ...]]]:
    """Every vote with every order of the classes, no opinion at all, and blocks of one class."""
    orders = list(itertools.permutations(range(k)))
    full = [(vote, tuple(map(float, order))) for vote in range(k) for order in orders]
    single = [(c, tuple(0.0 if i == c else UNKNOWN for i in range(k))) for c in range(k)]
    return [*full, (-1, (UNKNOWN,) * k), *single]


def winners(ballots: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Elections side by side: ballots (models, elections)."""
    return run_off(ballots, scores).winner


def changed(votes, scores, models, choices, k):
    """All elections in which the given models change their opinion in any way."""
    ballots, values = [], []
    for new in itertools.product(choices, repeat=len(models)):
        vote, score = votes.copy(), scores.copy()
        for i, (ballot, value) in zip(models, new):
            vote[i], score[i] = ballot, value
        ballots.append(vote)
        values.append(score)
    return np.array(ballots).T, np.array(values).transpose(1, 0, 2)


def random_election(rng, models: int, k: int):
    """An election with one class more than it uses: a label nobody has seen, and that wins ties."""
    known = opinions(k - 1)
    chosen = [known[i] for i in rng.integers(len(known), size=models)]
    votes = np.array([vote + (vote >= 0) for vote, _ in chosen])
    scores = np.array([(UNKNOWN, *value) for _, value in chosen])
    return votes, scores


@pytest.mark.claim("10.44")
def test_no_change_within_the_radius_turns_the_run_off() -> None:
    rng, radii, tight = np.random.default_rng(0), [], 0
    choices = opinions(4)
    for _ in range(120):
        models = int(rng.integers(2, 8))
        votes, scores = random_election(rng, models, 4)
        if (votes < 0).all():
            continue
        seen = run_off(votes[:, None] - (votes[:, None] > 0), scores[:, None, 1:])
        radius, winner = int(run_off_radius(seen)[0]), int(seen.winner[0]) + 1
        radii.append(radius)
        if radius >= 1:
            for i in range(models):
                assert (winners(*changed(votes, scores, [i], choices, 4)) == winner).all()
        else:  # is the certificate tight? then some single change turns the election
            tight += any(
                (winners(*changed(votes, scores, [i], choices, 4)) != winner).any()
                for i in range(models)
            )
    assert sum(r >= 1 for r in radii) > 20
    assert tight >= 0.9 * sum(r == 0 for r in radii)


@pytest.mark.claim("10.44")
def test_two_changes_within_the_radius_do_not_turn_the_run_off() -> None:
    rng, tested = np.random.default_rng(1), 0
    choices = opinions(3)
    for _ in range(40):
        models = int(rng.integers(6, 9))
        lean = rng.random(models) < 0.7  # most models agree, so that two changes can be survived
        votes, scores = random_election(rng, models, 3)
        votes, scores = np.where(lean, 1, votes), np.where(lean[:, None], [UNKNOWN, 1, 0], scores)
        seen = run_off(votes[:, None] - (votes[:, None] > 0), scores[:, None, 1:])
        if int(run_off_radius(seen)[0]) < 2:
            continue
        tested += 1
        for pair in itertools.combinations(range(models), 2):
            found = winners(*changed(votes, scores, list(pair), choices, 3))
            assert (found == int(seen.winner[0]) + 1).all()
    assert tested >= 8


@pytest.mark.claim("10.44")
def test_spread_run_off_survives_every_change_of_a_part() -> None:
    rng, tested = np.random.default_rng(2), 0
    choices = opinions(3)
    for _ in range(60):
        design = spread_parts(5, 2)
        lean = rng.random(10) < 0.6
        votes, scores = random_election(rng, 10, 3)
        votes, scores = np.where(lean, 2, votes), np.where(lean[:, None], [UNKNOWN, 0, 1], scores)
        table, value = votes[:, None] - (votes[:, None] > 0), scores[:, None, 1:]
        seen = run_off(table, value)
        radius = int(run_off_spread_radius(table, value, design, seen)[0])
        single = run_off_spread_radius(table, value, np.arange(10)[:, None], seen)
        assert single[0] <= run_off_radius(seen)[0]  # the plain count knows the whole first round
        if radius < 1:
            continue
        tested += 1
        for models in design:
            found = winners(*changed(votes, scores, models.tolist(), choices, 3))
            assert (found == int(seen.winner[0]) + 1).all()
    assert tested > 10


@pytest.mark.claim("10.44")
@pytest.mark.parametrize("spread", [1, 2])
@pytest.mark.parametrize(
    "estimator",
    [BatchedMLPClassifier(8, 10), DecisionTreeClassifier(max_depth=2), SVC(), None],
    ids=["networks", "trees", "svm", "nearest"],
)
def test_no_certified_run_off_flips_when_a_row_is_planted(estimator, spread: int) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3)
    guard = PartitionClassifier(estimator, 7, spread=spread, aggregation="runoff").fit(X, y)
    test = rng.normal(size=(60, 2))
    before, safe = guard.predict(test), guard.certify(test) >= 1
    assert safe.sum() > 0
    for row in rng.normal(size=(4, 2)):
        for label in (0, 2, -1, 9):  # clean or not, also labels nobody has seen
            again = clone(guard).fit(np.vstack([X, row]), np.append(y, label))
            assert np.array_equal(again.predict(test)[safe], before[safe])
    shares = guard.predict_proba(test)
    assert np.allclose(shares.sum(axis=1), 1)
    best = shares[np.arange(60), np.searchsorted(guard.classes_, before)]
    assert (best >= shares.max(axis=1) - 1e-12).all()


@pytest.mark.claim("10.44")
def test_run_off_certifies_more_for_trees_on_digits() -> None:
    X, y = load_digits(return_X_y=True)
    tree, gains = DecisionTreeClassifier(min_samples_leaf=3, random_state=0), []
    for split in range(3):
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=split)
        curves = [
            PartitionClassifier(tree, 15, aggregation=rule)
            .fit(X_train, y_train)
            .certified_accuracy(X_test, y_test)
            for rule in ("plurality", "runoff")
        ]
        gains.append(np.mean([curves[1].at(t) - curves[0].at(t) for t in range(8)]))
    assert min(gains) > 0


def test_run_off_is_a_scikit_learn_classifier() -> None:
    odd_rows = {
        "check_dtype_object": "a row with a cell that is no value is left out",
        "check_estimators_nan_inf": "a row that the estimator cannot take costs its block only",
    }
    guard = PartitionClassifier(n_partitions=5, aggregation="runoff")
    check_estimator(guard, expected_failed_checks=odd_rows, on_skip=None)


@pytest.mark.filterwarnings("ignore:.*blocks are empty")
def test_run_off_handles_odd_models_and_bad_input() -> None:
    X, y = load_digits(return_X_y=True)
    guard = PartitionClassifier(KNeighborsClassifier(9), 27, aggregation="runoff", min_lead=3)
    with pytest.warns(BlockFailureWarning, match="n_neighbors"):
        guard.fit(X[:300], y[:300])  # small blocks refuse to predict with nine neighbours
    assert (guard.votes(X[300:400]) == -1).any()
    radius = guard.certify(X[300:400])
    assert np.array_equal(radius == -1, guard.abstains(X[300:400]))
    assert guard.certified_accuracy(X[300:400], y[300:400]).at(0) > 0
    with pytest.raises(InvalidInputError, match="aggregation"):
        PartitionClassifier(aggregation="lottery").fit(X[:50], y[:50])
    with pytest.raises(InvalidInputError, match="scores"):
        run_off([[0]], [[1.0]])
    one = PartitionClassifier(aggregation="runoff").fit(X[:5], np.zeros(5, int))
    assert (one.predict(X[:5]) == 0).all()
