"""From models and data to losses: batch models by replay, streaming models round by round.

Source: docs/theory/09-tradeoff.md, "Setting".
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.tables import FittedModel, Table
from counterplay.tables.cells import is_missing, listed, shown
from counterplay.tables.labels import label_values
from counterplay.tradeoff.model import check_loss_matrix

BatchLoss = Callable[[Any, Any], float]


@checked
def error_rate(y_true: Any, y_pred: Any) -> float:
    """Share of wrong predictions: the usual primary loss.

    Labels are of one coding, numbers or words; a missing prediction counts as wrong.

    Parameters
    ----------
    y_true:
        True labels.
    y_pred:
        Predicted labels.

    Examples
    --------
    >>> error_rate([1, 0, 1, 1], [1, 1, 0, 1])
    0.5

    References
    ----------
    "Setting", see docs/theory/09-tradeoff.md.
    """
    truth, guess = label_pairs(y_true, y_pred)
    return float(np.mean(truth != guess))


@checked
def missed_positives(y_true: Any, y_pred: Any, positive: Any = None) -> float:
    """Share of all cases that are positive but were not predicted so: a usual secondary loss.

    Parameters
    ----------
    y_true:
        True labels, in any coding.
    y_pred:
        Predicted labels; a missing one (None, NaN) counts as missed.
    positive:
        The label that must not be missed. None: labels are 0 and 1 (or False and True), and 1 is
        positive; any other labels are refused.

    Examples
    --------
    >>> missed_positives([1, 0, 1, 1], [1, 1, 0, 1])
    0.25
    >>> missed_positives(["spam", "ham"], ["ham", "ham"], positive="spam")
    0.5

    References
    ----------
    "Setting", see docs/theory/09-tradeoff.md.
    """
    truth, guess = label_pairs(y_true, y_pred)
    wanted = _positive_label(truth, guess, positive)
    return float(np.mean((truth == wanted) & (guess != wanted)))


def batch_harm(secondary: BatchLoss, positive: Any, models: Sequence[Any] = ()) -> BatchLoss:
    """Return the secondary loss that knows the positive label; models must know the label, too."""
    if secondary is not missed_positives:
        if positive is not None:
            raise InvalidInputError(
                "positive is for missed_positives only; build it into your own secondary loss"
            )
        return secondary
    _check_positive(positive)
    known = [label for model in models for label in _classes(model)]
    if known and positive is not None and positive not in known:
        raise InvalidInputError(
            f"positive={shown(positive)} is none of the models' labels {_told(known)}; "
            "name the label that must not be missed"
        )
    if known and positive is None and not all(_is_zero_one(label) for label in known):
        raise InvalidInputError(
            f"which label must not be missed? The models' labels are {_told(known)}; "
            f"set positive={shown(max(known, key=str), 40)} or another one"
        )
    return partial(missed_positives, positive=positive)


def batch_table(models: Sequence[FittedModel], X: Any, y: Any = None) -> Table:
    """Return a batch for these models; columns that nobody was fitted on are refused."""
    table = Table.of(X, y)
    fitted = [model.names for model in models]
    if table.names is not None and all(names is not None for names in fitted):
        known = {name for names in fitted for name in names or ()}
        odd = [name for name in table.names if name not in known]
        if odd:
            raise InvalidInputError(
                f"X has columns that no model was fitted on: {listed(odd)}; leave them out"
            )
    return table


def batch_guesses(
    models: Sequence[Any], X: Any, y: Any, *, labels: bool = True
) -> list[NDArray[Any]]:
    """Return the predictions of all models on one batch, each called with its own columns.

    Parameters
    ----------
    models:
        Fitted models.
    X:
        The rows of the batch.
    y:
        One outcome per row.
    labels:
        Whether ``y`` are classes; measurements are only counted.
    """
    fitted = [FittedModel.of(model) for model in models]
    table = batch_table(fitted, X, y if labels else None)
    if not labels and (not hasattr(y, "__len__") or len(y) != len(table)):
        raise InvalidInputError(f"y must have one entry for each of {len(table)} rows")
    return [model.predict(model.table(table, extra="drop")) for model in fitted]


@checked
def replay_losses(
    models: Sequence[Any],
    batches: Iterable[tuple[Any, Any]],
    *,
    primary: BatchLoss = error_rate,
    secondary: BatchLoss = missed_positives,
    positive: Any = None,
) -> tuple[FloatArray, FloatArray]:
    """Return both losses of every model on every batch, as if each had been in charge.

    Parameters
    ----------
    models:
        Fitted models with a ``predict`` method, such as scikit-learn's.
    batches:
        Pairs ``(X, y)``, one per round. Columns of a frame are matched by name; each model is
        called with the columns it was fitted on.
    primary:
        Function of the true and the predicted labels of a batch, with values in [0, 1].
    secondary:
        Likewise, for the harm.
    positive:
        The label that must not be missed, for ``missed_positives``; labels other than 0 and 1
        need it.

    Returns
    -------
    tuple of arrays
        Primary and secondary losses, each of shape ``(T, K)``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> X, y = np.zeros((6, 1)), np.array([0, 1, 0, 0, 1, 1])
    >>> models = [DummyClassifier(strategy="constant", constant=k).fit(X, y) for k in (0, 1)]
    >>> l1, l2 = replay_losses(models, [(X[:3], y[:3]), (X[3:], y[3:])])
    >>> l1.round(2).tolist(), l2.round(2).tolist()
    ([[0.33, 0.67], [0.67, 0.33]], [[0.33, 0.0], [0.67, 0.0]])

    References
    ----------
    "Setting", see docs/theory/09-tradeoff.md.
    """
    experts = check_models(models, "predict")
    harm = batch_harm(secondary, positive, experts)
    classes = compares_labels(primary, secondary)
    rows, labels = [], []
    for X, y in _pairs_of(batches, "batches", "(X, y)"):
        guesses = batch_guesses(experts, X, y, labels=classes)
        rows.append([_pair(primary, harm, y, guess) for guess in guesses])
        labels.append(y)
    if not rows:
        raise InvalidInputError("batches must contain at least one pair (X, y)")
    _check_occurs(positive, labels)
    losses = np.array(rows)
    return (
        check_loss_matrix(losses[:, :, 0], "primary"),
        check_loss_matrix(losses[:, :, 1], "secondary"),
    )


@checked
class RiverExperts:
    """Streaming models as experts: predict, compare, learn, one example at a time.

    Works with every model that has ``predict_one`` and ``learn_one``, such as river's.

    Parameters
    ----------
    models:
        The experts.
    primary:
        Function of the true label and one prediction with values in [0, 1]; by default whether the
        prediction is wrong. A model that cannot predict yet returns None, which counts as wrong.
    secondary:
        Likewise, for the harm; by default whether a positive was missed.
    positive:
        The label that must not be missed, for the default secondary loss; labels other than
        0 and 1 (False and True) need it.
    learn:
        Whether every model learns from every example after it was judged.

    Examples
    --------
    >>> class Always:
    ...     def __init__(self, answer): self.answer = answer
    ...     def predict_one(self, x): return self.answer
    ...     def learn_one(self, x, y): pass
    >>> experts = RiverExperts([Always(True), Always(False)])
    >>> l1, l2 = experts.replay([({"x": 1}, True), ({"x": 2}, False)])
    >>> l1.tolist(), l2.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]])

    References
    ----------
    "Setting", see docs/theory/09-tradeoff.md.
    """

    def __init__(
        self,
        models: Sequence[Any],
        *,
        primary: BatchLoss | None = None,
        secondary: BatchLoss = missed_positives,
        positive: Any = None,
        learn: bool = True,
    ) -> None:
        self.models = check_models(models, "predict_one")
        if learn:
            check_models(self.models, "learn_one")
        self.primary = _wrong if primary is None else primary
        self.secondary = batch_harm(secondary, positive)
        self.positive = positive
        self.learn = learn

    def __repr__(self) -> str:
        names = ", ".join(type(model).__name__ for model in self.models)
        return f"RiverExperts([{names}])"

    def losses(self, x: Mapping[str, Any], y: Any) -> tuple[FloatArray, FloatArray]:
        """Return both loss vectors on one example; the models then learn from it."""
        if not np.isscalar(y) or is_missing(y):
            raise InvalidInputError(f"y must be the label of one example, got {shown(y)}")
        pairs = np.array(
            [_pair(self.primary, self.secondary, y, m.predict_one(x)) for m in self.models]
        )
        if self.learn:
            for model in self.models:
                model.learn_one(x, y)
        both = check_loss_matrix(pairs, "expert")
        return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])

    @checked
    def replay(
        self, stream: Iterable[tuple[Mapping[str, Any], Any]], n: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the losses on the first ``n`` examples of a stream, each of shape ``(T, K)``."""
        limit = None if n is None else check_positive_int(n, "n")
        rows, labels = [], []
        for x, y in islice(_pairs_of(stream, "stream", "(x, y)"), limit):
            rows.append(self.losses(x, y))
            labels.append(y)
        if not rows:
            raise InvalidInputError("the stream must contain at least one example")
        _check_occurs(self.positive, labels)
        first, second = zip(*rows)
        return np.array(first), np.array(second)


def _wrong(y_true: Any, y_pred: Any) -> float:
    return float(y_pred is None or y_pred != y_true)


def _pair(primary: BatchLoss, secondary: BatchLoss, y: Any, guess: Any) -> tuple[float, float]:
    return float(primary(y, guess)), float(secondary(y, guess))


def _pairs_of(batches: Iterable[Any], name: str, pair: str) -> Iterator[tuple[Any, Any]]:
    for number, batch in enumerate(batches):
        if not isinstance(batch, list | tuple) or len(batch) != 2:
            raise InvalidInputError(
                f"{name} must contain pairs {pair}; number {number} is {shown(batch)}"
            )
        yield batch[0], batch[1]


def compares_labels(primary: BatchLoss, secondary: BatchLoss) -> bool:
    """Whether one of the losses compares labels, so that outcomes must be classes."""
    return primary is error_rate or secondary is missed_positives


def check_models(models: Sequence[Any], method: str) -> tuple[Any, ...]:
    """Return the models; there is at least one, and all of them have the method."""
    experts = tuple(models)
    if not experts:
        raise InvalidInputError("models must contain at least one model")
    for position, model in enumerate(experts):
        if isinstance(model, type) or not callable(getattr(model, method, None)):
            raise InvalidInputError(
                f"model {position} ({type(model).__name__}) has no method {method}"
            )
    return experts


def label_pairs(y_true: Any, y_pred: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return true and predicted labels, one each per case and of one coding."""
    truth, guess = _read_labels(y_true, "y_true"), _read_guesses(y_pred)
    if truth.shape != guess.shape or truth.size == 0:
        raise InvalidInputError(
            f"y_true and y_pred must be non-empty and of the same shape, "
            f"got {truth.shape} and {guess.shape}"
        )
    if len(_kinds(truth) | _kinds(guess)) > 1:
        raise InvalidInputError(
            f"the labels {_told([*_labels(truth), *_labels(guess)])} mix words and numbers; "
            "use the same coding for all of them"
        )
    return truth, guess


def _read_labels(y: Any, what: str) -> NDArray[Any]:
    """Return labels of any container as one axis; a single label is a case of its own."""
    if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "biuU":
        return y
    if isinstance(y, str | numbers.Real | np.bool_) and not is_missing(y):
        one = np.empty(1, dtype=object)  # a streaming model's; a series would take longer
        one[0] = y.item() if isinstance(y, np.generic) else y
        return one
    return label_values([y] if _is_one(y) else y, what)


def _read_guesses(y_pred: Any) -> NDArray[Any]:
    """Return predictions, None where there is none."""
    if isinstance(y_pred, str | numbers.Real | np.bool_) and not is_missing(y_pred):
        return _read_labels(y_pred, "y_pred")
    if _is_one(y_pred):
        y_pred = [y_pred]
    if not isinstance(y_pred, list | tuple | pd.Series) and not (
        isinstance(y_pred, np.ndarray) and y_pred.dtype.kind in "Of"
    ):
        return _read_labels(y_pred, "y_pred")
    cells = list(np.ravel(y_pred)) if isinstance(y_pred, np.ndarray) else list(y_pred)
    told = [position for position, cell in enumerate(cells) if not is_missing(cell)]
    if len(told) == len(cells):
        return _read_labels(y_pred, "y_pred")
    guess = np.full(len(cells), None, dtype=object)
    guess[told] = label_values([cells[position] for position in told], "y_pred")
    return guess


def _is_one(y: Any) -> bool:
    return y is None or np.isscalar(y)


def _positive_label(truth: NDArray[Any], guess: NDArray[Any], positive: Any) -> Any:
    """Return the positive label; refuse labels for which it is unclear or of another kind."""
    known = dict.fromkeys([*_labels(truth), *_labels(guess)])
    if positive is None:
        if all(map(_is_zero_one, known)):
            return 1
        raise InvalidInputError(_question(truth, list(known)))
    _check_positive(positive)
    if any(isinstance(label, str) != isinstance(positive, str) for label in known):
        raise InvalidInputError(
            f"positive={shown(positive)} and the labels {_told(list(known))} mix words and "
            "numbers; use the same coding for all of them"
        )
    return positive


def _question(truth: NDArray[Any], known: list[Any]) -> str:
    """Ask which label is meant, with the share of each in the data."""
    values = truth.tolist()
    shares = [
        f"{shown(label, 40)} ({100 * values.count(label) / len(values):.0f} % of the cases)"
        for label in sorted(known, key=str)[:4]
    ]
    more = f" and {len(known) - 4} more" if len(known) > 4 else ""
    example = shown(max(known, key=str), 40)
    return (
        f"which label must not be missed? The labels are {', '.join(shares)}{more}; "
        f"set positive={example} or another one"
    )


def _check_positive(positive: Any) -> None:
    if positive is not None and (not np.isscalar(positive) or is_missing(positive)):
        raise InvalidInputError(f"positive must be one label, got {shown(positive)}")


def _check_occurs(positive: Any, labels: Sequence[Any]) -> None:
    """Refuse a positive label that no case has: the harm would be 0 whatever the models do."""
    if positive is None or any((_read_labels(y, "y") == positive).any() for y in labels):
        return
    known = [label for y in labels[:100] for label in _labels(_read_labels(y, "y"))]
    raise InvalidInputError(
        f"no case has the label positive={shown(positive)}; the labels are {_told(known)}"
    )


def _classes(model: Any) -> list[Any]:
    """Return the labels a model knows; none if it does not say, or predicts numbers."""
    if not callable(getattr(model, "predict", None)):
        return []
    return list(FittedModel.of(model).classes)


def _is_zero_one(label: Any) -> bool:
    return not isinstance(label, str) and label in (0, 1)


def _kinds(labels: NDArray[Any]) -> set[str]:
    """Return which of words and numbers occur; None is neither."""
    if labels.dtype.kind != "O":
        return {"words" if labels.dtype.kind == "U" else "numbers"}
    return {
        "words" if isinstance(label, str) else "numbers"
        for label in labels.tolist()
        if label is not None
    }


def _labels(labels: NDArray[Any]) -> list[Any]:
    """Return the different labels, without None."""
    return [label for label in dict.fromkeys(labels.tolist()) if label is not None]


def _told(labels: Sequence[Any]) -> str:
    told = sorted({shown(label, 30) for label in labels})
    return ", ".join(told[:6]) + (", ..." if len(told) > 6 else "")
