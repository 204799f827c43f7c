"""From models and data to losses."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from counterplay.errors import InvalidInputError
from counterplay.tradeoff import (
    LazyHedge,
    LossStream,
    RiverExperts,
    error_rate,
    missed_positives,
    play,
    replay_losses,
)


def test_replay_equals_the_definition() -> None:
    rng = np.random.default_rng(0)
    X, y = np.zeros((60, 1)), rng.integers(0, 2, 60)
    models = [DummyClassifier(strategy="constant", constant=k).fit(X, y) for k in (0, 1)]
    batches = [(X[i : i + 6], y[i : i + 6]) for i in range(0, 60, 6)]
    l1, l2 = replay_losses(models, batches)
    share = y.reshape(10, 6).mean(axis=1)
    assert np.allclose(l1, np.column_stack([share, 1 - share]))
    assert np.allclose(l2, np.column_stack([share, np.zeros(10)]))


def test_own_loss_functions() -> None:
    X, y = np.zeros((4, 1)), np.array([0, 1, 1, 1])
    model = DummyClassifier(strategy="constant", constant=0).fit(X, y)
    l1, l2 = replay_losses(
        [model], [(X, y)], primary=lambda t, p: 0.25, secondary=lambda t, p: float((t > p).mean())
    )
    assert (l1[0, 0], l2[0, 0]) == (0.25, 0.75)
    with pytest.raises(InvalidInputError, match="primary losses must lie"):
        replay_losses([model], [(X, y)], primary=lambda t, p: 2.0)


def test_river_models_as_experts() -> None:
    river = pytest.importorskip("river", reason="river is not installed")
    from river import datasets, linear_model, naive_bayes, preprocessing, tree

    models = [
        preprocessing.StandardScaler() | linear_model.LogisticRegression(),
        naive_bayes.GaussianNB(),
        tree.HoeffdingTreeClassifier(),
    ]
    assert river.__version__
    l1, l2 = RiverExperts(models).replay(datasets.Phishing(), 600)
    assert l1.shape == l2.shape == (600, 3)
    assert (l2 <= l1).all()  # a missed positive is an error, too
    assert l1[300:].mean(axis=0).min() < 0.2
    run = play(
        LazyHedge(600, 3, threshold=10.0, random_state=0), LossStream(l1, l2, c=0.1), fast=True
    )
    assert run.primary_regret(clip=False) <= run.guarantees["primary regret"]


def test_models_that_cannot_predict_yet_are_wrong() -> None:
    class Silent:
        def predict_one(self, x: object) -> None:
            return None

        def learn_one(self, x: object, y: object) -> None:
            raise AssertionError("must not learn")

    l1, l2 = RiverExperts([Silent()], learn=False).losses({}, True)
    assert (l1[0], l2[0]) == (1.0, 1.0)


def test_loss_helpers() -> None:
    assert error_rate([1, 1, 0, 0], [1, 0, 0, 1]) == 0.5
    assert missed_positives([1, 1, 0, 0], [1, 0, 0, 1]) == 0.25


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: replay_losses([], [([0], [0])]), "at least one model"),
        (lambda: replay_losses([object()], [([0], [0])]), "model 0 .object. has no method predict"),
        (lambda: RiverExperts([object()]), "predict_one"),
        (lambda: error_rate([1], [1, 0]), "same shape"),
    ],
)
def test_bad_input_is_refused(call: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()  # type: ignore[operator]  # parametrised


def test_empty_stream_is_refused() -> None:
    class Model:
        def predict_one(self, x: object) -> int:
            return 0

        def learn_one(self, x: object, y: object) -> None: ...

    with pytest.raises(InvalidInputError, match="at least one example"):
        RiverExperts([Model()]).replay([])


def word_models() -> tuple[list[DummyClassifier], np.ndarray, np.ndarray]:
    X, y = np.zeros((60, 1)), np.where(np.arange(60) % 3 == 0, "yes", "no")
    models = [DummyClassifier(strategy="constant", constant=c).fit(X, y) for c in ("no", "yes")]
    return models, X, y


@pytest.mark.claim("26.22")
def test_missed_positives_counts_words() -> None:
    truth, guess = ["yes", "yes", "no"], ["no", "no", "no"]
    assert missed_positives(truth, guess, positive="yes") == pytest.approx(2 / 3)
    assert missed_positives(truth, guess, positive="no") == 0.0
    assert missed_positives([2, 2, 1], [1, 2, 1], positive=2) == pytest.approx(1 / 3)
    assert missed_positives([True, False], [False, False]) == 0.5
    assert missed_positives([1.0, 0.0], [0.0, 0.0]) == 0.5
    assert missed_positives([0, 1, 0], [0, 1, 1], positive=0) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("truth", "guess", "positive", "message"),
    [
        (
            ["yes", "no"],
            ["no", "no"],
            None,
            r"labels are 'no' \(50 % of the cases\), 'yes' \(50 %.*positive='yes'",
        ),
        ([1, 2], [1, 1], None, r"labels are 1 .*, 2 .*positive=2"),
        ([-1, 1], [1, 1], None, r"labels are -1 .*, 1 .*"),
        (["1", "0"], ["0", "0"], None, r"labels are '0' .*, '1' "),
        ([1, 0], ["yes", "no"], None, "mix words and numbers"),
        ([1, 0], [0, 0], "yes", "mix words and numbers"),
        (["yes", "no"], [1, 0], "yes", "mix words and numbers"),
        ([1.0, np.nan], [0.0, 0.0], 1, "no label in row 1"),
        ([1.0, np.nan], [0.0, 0.0], None, "no label in row 1"),
        (["yes", None], ["no", "no"], "yes", "no label in row 1"),
        (["yes", "no"], ["no", "no"], ["yes"], "positive must be one label"),
        ([1.0, 0.0], [0.0, 0.0], float("nan"), "positive must be one label"),
    ],
)
def test_labels_without_a_meaning_are_refused(
    truth: object, guess: object, positive: object, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        missed_positives(truth, guess, positive)  # type: ignore[arg-type]  # parametrised


def test_replayed_words_have_the_harm_of_their_zero_one_twins() -> None:
    models, X, y = word_models()
    batches = [(X[i : i + 6], y[i : i + 6]) for i in range(0, 60, 6)]
    _, harm = replay_losses(models, batches, positive="yes")
    assert np.allclose(harm, [[1 / 3, 0.0]] * 10)
    with pytest.raises(InvalidInputError, match="models' labels are 'no', 'yes'"):
        replay_losses(models, batches)
    with pytest.raises(InvalidInputError, match="none of the models' labels 'no', 'yes'"):
        replay_losses(models, batches, positive="Yes")
    with pytest.raises(InvalidInputError, match="your own secondary loss"):
        replay_losses(models, batches, secondary=error_rate, positive="yes")


def test_river_models_with_words() -> None:
    class Always:
        def __init__(self, answer: object) -> None:
            self.answer = answer

        def predict_one(self, x: object) -> object:
            return self.answer

        def learn_one(self, x: object, y: object) -> None: ...

    stream = [({}, "bad"), ({}, "good"), ({}, "bad")]
    models = [Always("good"), Always("bad"), Always(None)]
    _, harm = RiverExperts(models, positive="bad").replay(stream)
    assert harm.tolist() == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
    with pytest.raises(InvalidInputError, match=r"labels are 'bad' .* 'good'"):
        RiverExperts(models).replay(stream)
    with pytest.raises(InvalidInputError, match="no case has the label positive='Bad'"):
        RiverExperts(models, positive="Bad").replay(stream)
