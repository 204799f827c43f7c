"""From models and data to losses: batch models by replay, streaming models round by round.

Source: docs/theory/09-tradeoff.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.validation import FloatArray, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.model import check_loss_matrix

BatchLoss = Callable[[Any, Any], float]


def error_rate(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Share of wrong predictions: the usual primary loss.

    Examples
    --------
    >>> error_rate([1, 0, 1, 1], [1, 1, 0, 1])
    0.5
    """
    truth, guess = _same_length(y_true, y_pred)
    return float(np.mean(truth != guess))


def missed_positives(y_true: ArrayLike, y_pred: ArrayLike, positive: Any = None) -> float:
    """Share of all cases that are positive but were not predicted so: a usual secondary loss.

    Parameters
    ----------
    y_true:
        True labels.
    y_pred:
        Predicted labels; None counts as missed.
    positive:
        The label that must not be missed. None: labels are 0 and 1 (or False and True), and 1 is
        positive; any other labels are refused.

    Examples
    --------
    >>> missed_positives([1, 0, 1, 1], [1, 1, 0, 1])
    0.25
    >>> missed_positives(["spam", "ham"], ["ham", "ham"], positive="spam")
    0.5
    """
    truth, guess = _same_length(y_true, y_pred)
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
    if positive is not None and (not np.isscalar(positive) or positive != positive):
        raise InvalidInputError(f"positive must be one label, got {positive!r:.100}")
    known = [label for m in models for label in np.ravel(getattr(m, "classes_", ())).tolist()]
    if known and positive is not None and positive not in known:
        raise InvalidInputError(
            f"positive={positive!r} is none of the models' labels {_told(known)}; "
            "name the label that must not be missed"
        )
    return partial(missed_positives, positive=positive)


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
        Pairs ``(X, y)``, one per round.
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
    """
    experts = check_models(models, "predict")
    harm = batch_harm(secondary, positive, experts)
    rows, labels = [], []
    for X, y in batches:
        rows.append([_pair(primary, harm, y, model.predict(X)) for model in experts])
        labels.append(y)
    if not rows:
        raise InvalidInputError("batches must contain at least one pair (X, y)")
    _check_occurs(positive, labels)
    losses = np.array(rows)
    return (
        check_loss_matrix(losses[:, :, 0], "primary"),
        check_loss_matrix(losses[:, :, 1], "secondary"),
    )


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
        self.primary = _wrong if primary is None else primary
        self.secondary = batch_harm(secondary, positive)
        self.positive = positive
        self.learn = learn

    def __repr__(self) -> str:
        names = ", ".join(type(model).__name__ for model in self.models)
        return f"RiverExperts([{names}])"

    def losses(self, x: Mapping[str, Any], y: Any) -> tuple[FloatArray, FloatArray]:
        """Return both loss vectors on one example; the models then learn from it."""
        pairs = np.array(
            [_pair(self.primary, self.secondary, y, m.predict_one(x)) for m in self.models]
        )
        if self.learn:
            for model in self.models:
                model.learn_one(x, y)
        both = check_loss_matrix(pairs, "expert")
        return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])

    def replay(
        self, stream: Iterable[tuple[Mapping[str, Any], Any]], n: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the losses on the first ``n`` examples of a stream, each of shape ``(T, K)``."""
        limit = None if n is None else check_positive_int(n, "n")
        rows, labels = [], []
        for x, y in islice(stream, limit):
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


def check_models(models: Sequence[Any], method: str) -> tuple[Any, ...]:
    """Return the models; there is at least one, and all of them have the method."""
    experts = tuple(models)
    if not experts:
        raise InvalidInputError("models must contain at least one model")
    for position, model in enumerate(experts):
        if not hasattr(model, method):
            raise InvalidInputError(
                f"model {position} ({type(model).__name__}) has no method {method}"
            )
    return experts


def _same_length(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[Any, Any]:
    truth, guess = np.asarray(y_true), np.asarray(y_pred)
    if truth.shape != guess.shape or truth.size == 0:
        raise InvalidInputError(
            f"y_true and y_pred must be non-empty and of the same shape, "
            f"got {truth.shape} and {guess.shape}"
        )
    return truth, guess


def _positive_label(truth: NDArray[Any], guess: NDArray[Any], positive: Any) -> Any:
    """The positive label; refuses labels for which it is unclear or of another kind."""
    if positive is None:
        if all(_zero_one(labels) for labels in (truth, guess)):
            return 1
        shown = _labels(truth) + _labels(guess)
        raise InvalidInputError(
            f"the labels are {_told(shown)}; say which one must not be missed, for example "
            f"positive={max(shown, key=str)!r}"
        )
    words = {isinstance(label, str) for label in (*_labels(truth), *_labels(guess), positive)}
    if len(words) > 1:
        raise InvalidInputError(
            f"positive={positive!r} and the labels {_told(_labels(truth) + _labels(guess))} mix "
            "words and numbers; use the same coding for all of them"
        )
    if any(label is None or label != label for label in truth.ravel().tolist()):
        raise InvalidInputError("y_true has a missing label; leave such cases out")
    return positive


def _check_occurs(positive: Any, labels: Sequence[Any]) -> None:
    """Refuse a positive label that no case has: the harm would be 0 whatever the models do."""
    if positive is not None and not any(np.any(np.asarray(y) == positive) for y in labels):
        shown = [label for y in labels[:100] for label in _labels(np.asarray(y))]
        raise InvalidInputError(
            f"no case has the label positive={positive!r}; the labels are {_told(shown)}"
        )


def _zero_one(labels: NDArray[Any]) -> bool:
    if labels.dtype.kind in "biuf":
        return bool(((labels == 0) | (labels == 1)).all())
    return all(label is None or label in (0, 1) for label in labels.ravel().tolist())


def _labels(labels: NDArray[Any]) -> list[Any]:
    """The different labels, without None."""
    return [label for label in dict.fromkeys(labels.ravel().tolist()) if label is not None]


def _told(labels: Sequence[Any]) -> str:
    told = sorted({repr(label) for label in labels})
    return ", ".join(told[:6]) + (", ..." if len(told) > 6 else "")
