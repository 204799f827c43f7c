"""Open a fitted model: the transforming steps, the final score, and the cut of all wrappers.

Searches, pipelines, threshold and calibration wrappers around one score are monotone in that
score, so the model accepts exactly the scores from some float upward. That float is found by
bisection on floats, not by retyping formulas. Column-wise steps are a short list of known classes:
only their *structure* is trusted, all values come from asking the model.

Source: "Fold by asking", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.columns import native
from counterplay.tables import FittedModel, Table
from counterplay.tables.cells import shown

Accept = Callable[[FloatArray], BoolArray]

SPAN = 1e12  # no score is larger

MONOTONE = {
    "StandardScaler",
    "MinMaxScaler",
    "MaxAbsScaler",
    "RobustScaler",
    "SimpleImputer",
    "PowerTransformer",
    "QuantileTransformer",
    "MissingIndicator",
}
ENCODERS = {"OneHotEncoder", "OrdinalEncoder", "TargetEncoder"}
SHAPED = {"KBinsDiscretizer", "SplineTransformer", "Binarizer"}
MIXING = {"PCA", "TruncatedSVD"}
AFFINE = {"StandardScaler", "MaxAbsScaler", "RobustScaler", "MinMaxScaler"}
MONOTONE_FUNCTIONS = (np.log, np.log1p, np.log2, np.log10, np.sqrt, np.exp, np.expm1, np.cbrt)
CHANCES = {  # their score is the chance of the second class
    "DecisionTreeClassifier",
    "ExtraTreeClassifier",
    "RandomForestClassifier",
    "ExtraTreesClassifier",
}
SINGLE = {"XGBClassifier", "XGBRFClassifier"}  # they compute in 32 bits
LINEAR = {
    "LogisticRegression",
    "LogisticRegressionCV",
    "LinearSVC",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "SGDClassifier",
    "Perceptron",
    "PassiveAggressiveClassifier",
    "LinearDiscriminantAnalysis",
    "StrategicLinearClassifier",
}


class Asked:
    """A fitted model that is asked about frames of people, whatever it was fitted on."""

    def __init__(self, model: Any, X: Any, positive: Any = None, y: Any = None) -> None:
        self.fitted = FittedModel.of(model)
        self.table: Table = self.fitted.table(X, y)
        if self.table.container not in ("table", "matrix") or self.table.is_sparse:
            raise InvalidInputError(
                f"moves are about the columns of a table; X is {self.table.container}"
                f"{' and sparse' if self.table.is_sparse else ''}"
            )
        known = getattr(self.fitted.model, "positive_", None)  # our own models were told
        self.positive = self.fitted.positive(known if positive is None else positive,
                                             self.table.labels)  # fmt: skip
        frame = native(self.table.frame())
        if self.fitted.names is not None and self.table.names is None:
            frame = frame.set_axis(list(self.fitted.names), axis=1)
        self.frame: pd.DataFrame = frame
        self._array = self.fitted.names is None and isinstance(self.table.rows, np.ndarray)

    @property
    def wanted(self) -> int:
        """Position of the wanted class."""
        return self.fitted.classes.index(self.positive)

    def given(self, frame: pd.DataFrame) -> Any:
        """Return people in the container that the model was fitted on."""
        if self._array:
            return frame.to_numpy(dtype=self.table.rows.dtype if _same(frame) else None)
        if self.fitted.names is None and all(d.kind in "fiub" for d in map(_kind, frame.dtypes)):
            return frame.to_numpy(dtype=np.float64)
        return frame

    def accepts(self, frame: pd.DataFrame) -> BoolArray:
        """Return who gets the wanted class, by the model's own ``predict``."""
        if not len(frame):
            return np.zeros(0, dtype=bool)
        answers = self.fitted._call("predict", self.given(frame), len(frame))
        return np.fromiter((a == self.positive for a in answers.tolist()), bool, len(frame))

    @property
    def response_method(self) -> str:
        """The score of the model: its decision function if it has one, else its chances."""
        for name in ("decision_function", "predict_proba"):
            if hasattr(self.fitted.model, name):
                return name
        raise InvalidInputError(
            f"{type(self.fitted.model).__name__!r} only says yes or no; a new cut needs "
            "decision_function or predict_proba"
        )

    def respond(self, frame: pd.DataFrame) -> FloatArray:
        """Return the model's own scores, which grow towards the wanted class."""
        if not len(frame):
            return np.zeros(0)
        name = self.response_method
        scores = np.asarray(self.fitted._call(name, self.given(frame), len(frame)), np.float64)
        if name == "predict_proba":
            return scores[:, self.wanted]
        return scores.reshape(-1) * (1.0 if self.wanted == 1 else -1.0)


def _kind(dtype: Any) -> Any:
    return dtype if isinstance(dtype, np.dtype) else np.dtype(object)


def _same(frame: pd.DataFrame) -> bool:
    return len({str(d) for d in frame.dtypes}) == 1


@dataclass(frozen=True, eq=False)
class OpenModel:
    """A model taken apart: steps, final classifier, and which of its scores are accepted.

    Parameters
    ----------
    steps
        Fitted transformers, first to last.
    final
        The classifier that gives the score of its second class.
    accept
        Which scores (of the second class) lead to the wanted class; monotone.
    rising
        Whether larger scores are better for people.
    chance
        Chance of the second class at a score of it.
    second
        Whether the second class is the wanted one.
    by_chance
        Whether the decision is one about chances.
    """

    steps: tuple[Any, ...]
    final: Any
    accept: Accept
    rising: bool
    chance: Callable[[FloatArray], FloatArray]
    second: bool
    by_chance: bool

    def response(self, scores: FloatArray, method: str) -> FloatArray:
        """Return scores that grow with acceptance as the whole model would print them."""
        if method == "decision_function":
            return scores
        sign = 1.0 if self.rising else -1.0
        chance = self.chance(sign * scores)
        return chance if self.second else 1.0 - chance

    def encode(self, rows: Any) -> Any:
        """Return rows after all transforming steps."""
        for step in self.steps:
            rows = step.transform(rows)
        return rows

    def score(self, rows: Any) -> FloatArray:
        """Return the score that grows with acceptance."""
        sign = 1.0 if self.rising else -1.0
        raw = np.asarray(self.final.decision_function(self.encode(rows)), dtype=np.float64)
        return sign * raw.reshape(-1)

    def cut(self) -> tuple[float, bool]:
        """Return the cut on scores that grow with acceptance, and whether it must be exceeded."""
        sign = 1.0 if self.rising else -1.0

        def accepted(s: float) -> bool:
            return bool(self.accept(np.array([sign * s]))[0])

        least = least_accepted(accepted)
        if not np.isfinite(least):
            return least, False
        below = np.nextafter(least, -np.inf)
        if abs(least) < 1e-300:  # the first float above 0: accepted are scores above 0
            return 0.0, not accepted(0.0)
        short = float(f"{below:.15g}")  # 0.3 rather than the float next to it
        return (below, True) if short == below else (least, False)


def least_accepted(accepted: Callable[[float], bool], span: float = SPAN) -> float:
    """Return the least float in [-span, span] that is accepted; infinite if none is.

    -inf if all are accepted. The test must be monotone.

    Examples
    --------
    >>> least_accepted(lambda s: s > 2)
    2.0000000000000004
    """
    if not accepted(span):
        return np.inf
    if accepted(-span):
        return -np.inf
    low, high = (int(float_order(np.array([v]))[0]) for v in (-span, span))

    def at(place: int) -> float:
        return float(float_at(np.array([place], dtype=np.int64))[0])

    while high - low > 1:
        middle = (low + high) // 2
        if accepted(at(middle)):
            high = middle
        else:
            low = middle
    return at(high)


def float_order(values: FloatArray) -> IntArray:
    """Return the place of floats among all floats."""
    bits = np.asarray(values, dtype=np.float64).view(np.int64)
    return np.where(bits >= 0, bits, -(bits & np.int64(0x7FFFFFFFFFFFFFFF)))


def float_at(places: IntArray) -> FloatArray:
    """Return the floats at places among all floats."""
    size = np.abs(places).view(np.float64)
    return np.where(places >= 0, size, -size)


def open_model(asked: Asked) -> OpenModel | None:
    """Take a model apart into steps, a final classifier and its cut; None if that is impossible."""
    members = open_members(asked)
    return members[0][0] if members is not None and len(members) == 1 else None


def open_members(asked: Asked) -> list[tuple[OpenModel, float]] | None:
    """Take a model apart into members and their weights; None if that is impossible.

    Most models have one member. The chance of a soft vote, or of a calibration over folds, is the
    weighted mean of its members' chances; each is opened as if it decided alone.
    """
    return _open(_Layers((), None, (), asked.wanted), asked.fitted.model, 32)


@dataclass(frozen=True)
class _Layers:
    """What was taken off a model so far."""

    steps: tuple[Any, ...]
    answer: Callable[[Any], Accept] | None
    calibration: tuple[Callable[[Any, FloatArray], Any], ...]
    wanted: int


def _open(off: _Layers, model: Any, depth: int) -> list[tuple[OpenModel, float]] | None:
    name = type(model).__name__
    if depth == 0:
        return None
    if hasattr(model, "best_estimator_"):
        return _open(off, model.best_estimator_, depth - 1)
    if name == "FrozenEstimator":
        return _open(off, model.estimator, depth - 1)
    if isinstance(getattr(model, "steps", None), list):
        parts = [step for _, step in model.steps]
        kept = tuple(p for p in parts[:-1] if p is not None and not isinstance(p, str))
        return _open(replace(off, steps=off.steps + kept), parts[-1], depth - 1)
    if name in ("FixedThresholdClassifier", "TunedThresholdClassifierCV"):
        if off.answer is not None or off.calibration:
            return None
        answer = _threshold_layer(model, off.wanted)
        return _open(
            replace(off, answer=answer), getattr(model, "estimator_", model.estimator), depth - 1
        )
    if name == "CalibratedClassifierCV":
        if off.calibration:
            return None
        inner = model.calibrated_classifiers_
        found = [
            _open(replace(off, calibration=(_calibration_layer(one),)), one.estimator, depth - 1)
            for one in inner
        ]
        return _averaged(found, [1.0] * len(inner))
    if name == "VotingClassifier" and model.voting == "soft" and not off.calibration:
        weights = model._weights_not_none or [1.0] * len(model.estimators_)
        found = [_open(off, one, depth - 1) for one in model.estimators_]
        return _averaged(found, list(weights))
    if getattr(model, "preprocessor_", None) is not None and hasattr(model, "halfspace"):
        # A StrategicLinearClassifier with its own steps.
        inner = replace(off, steps=(*off.steps, model.preprocessor_))
        return _open(inner, model.halfspace(), depth - 1)
    return [(_opened(off.steps, model, off.answer, list(off.calibration), off.wanted), 1.0)]


def _averaged(
    found: list[list[tuple[OpenModel, float]] | None], weights: list[float]
) -> list[tuple[OpenModel, float]] | None:
    """Return the members of members with the weights of their mean."""
    total = sum(weights)
    members: list[tuple[OpenModel, float]] = []
    for part, weight in zip(found, weights):
        if part is None:
            return None
        members += [(one, weight / total * w) for one, w in part]
    return members


def _opened(
    steps: tuple[Any, ...],
    final: Any,
    answer: Callable[[Any], Accept] | None,
    layers: list[Callable[[Any, FloatArray], Any]],
    wanted: int,
) -> OpenModel:
    """Put the wrappers together: scores of the final classifier to decisions."""

    def chance(scores: FloatArray) -> FloatArray:
        if layers:
            return np.asarray(layers[0](final, scores), dtype=np.float64)
        return own_chance(final, scores)

    def plain(scores: FloatArray) -> BoolArray:
        second = chance(scores) > 0.5 if layers else _second(final, scores)
        return np.asarray(second if wanted == 1 else ~second, dtype=bool)

    accept = plain if answer is None else answer(chance)
    # a calibration of a score that is worse than none may turn it round
    ends = accept(np.array([-SPAN, SPAN]))
    rising = wanted == 1 if ends[0] == ends[1] else bool(ends[1])
    by_chance = bool(layers) or answer is not None
    return OpenModel(steps, final, accept, rising, chance, wanted == 1, by_chance)


def own_chance(final: Any, scores: FloatArray) -> FloatArray:
    """Return the chance of the second class that a bare classifier makes of its scores."""
    if type(final).__name__ in CHANCES:
        return scores
    if type(final).__name__ in SINGLE:
        return _single_chance(scores)
    return np.asarray(expit(scores), dtype=np.float64)


def _single_chance(scores: FloatArray) -> FloatArray:
    """Return the logistic function as a model computes it that works in 32 bits."""
    small = np.asarray(scores, dtype=np.float32)
    with np.errstate(over="ignore"):
        chance = np.float32(1) / (np.float32(1) + np.exp(-small))
    return np.asarray(chance, dtype=np.float64)


def _second(final: Any, scores: FloatArray) -> BoolArray:
    """Return which scores a bare classifier gives its second class."""
    name = type(final).__name__
    if name in ("GradientBoostingClassifier", "StrategicLinearClassifier"):
        return scores >= 0
    if name in SINGLE:
        return _single_chance(scores) > 0.5
    return scores > (0.5 if name in CHANCES else 0.0)


def _threshold_layer(model: Any, wanted: int) -> Callable[[Any], Accept]:
    """Return the decision of a threshold wrapper as a function of the chance or score."""
    threshold = getattr(model, "best_threshold_", None)
    if threshold is None:
        threshold = model.threshold
    method = model.response_method
    if method == "auto":
        method = (
            "predict_proba"
            if hasattr(getattr(model, "estimator_", model.estimator), "predict_proba")
            else "score"
        )
    probabilities = method == "predict_proba"
    if threshold == "auto":
        threshold = 0.5 if probabilities else 0.0
    label = getattr(model, "_curve_scorer", None)
    pos = getattr(model, "pos_label", None)
    if pos is None and label is not None:
        pos = label._get_pos_label()
    classes = list(model.classes_)
    first = pos is not None and pos == classes[0]

    def make(chance: Callable[[FloatArray], FloatArray]) -> Accept:
        def accept(scores: FloatArray) -> BoolArray:
            value = chance(scores) if probabilities else scores
            if first:  # the wrapper watches the other class
                value = 1.0 - value if probabilities else -value
            says_pos = value >= threshold
            return np.asarray(says_pos == (wanted == (0 if first else 1)), dtype=bool)

        return accept

    return make


def _calibration_layer(fitted: Any) -> Callable[[Any, FloatArray], Any]:
    calibrator = fitted.calibrators[0]

    def chance(final: Any, scores: FloatArray) -> NDArray[Any]:
        # a classifier without scores of its own is calibrated on its chances
        given = scores if hasattr(final, "decision_function") else own_chance(final, scores)
        return np.asarray(calibrator.predict(np.asarray(given, dtype=np.float64)))

    return chance


def has_probabilities(opened: OpenModel, rows: Any) -> bool:
    """Return whether chances of the final classifier are the logistic function of its scores."""
    final = opened.final
    if not hasattr(final, "predict_proba"):
        return False
    encoded = opened.encode(rows)
    chances = np.asarray(final.predict_proba(encoded))[:, 1]
    return bool(np.allclose(chances, expit(final.decision_function(encoded)), rtol=0, atol=1e-9))


def column_wise(steps: tuple[Any, ...]) -> bool:
    """Return whether a linear score after these steps is a sum over raw columns.

    Every step must treat columns alone; after a linear mixing (PCA) only affine steps may follow.
    """
    mixed = False
    for step in steps:
        name = type(step).__name__
        if name in MIXING:
            mixed = True
        elif (mixed and not (name in AFFINE and not getattr(step, "clip", False))) or not (
            known_step(step)
        ):
            return False
    return True


def known_step(step: Any, allow: frozenset[str] = frozenset(MONOTONE | ENCODERS | SHAPED)) -> bool:
    """Return whether a step is known to treat every column alone."""
    name = type(step).__name__
    if isinstance(step, str) or step is None:
        return step in ("passthrough", "drop", None)
    if name == "Pipeline":
        return all(known_step(part, allow) for _, part in step.steps)
    if name == "FeatureUnion":
        return all(known_step(part, allow) for _, part in step.transformer_list)
    if name == "ColumnTransformer":
        return all(known_step(part, allow) for _, part, _ in step.transformers_)
    if name == "FunctionTransformer":
        return step.func is None or any(step.func is f for f in MONOTONE_FUNCTIONS)
    if hasattr(step, "get_support") and hasattr(step, "transform"):
        return True
    return name in allow


def keeps_order(steps: Sequence[Any], place: int) -> bool:
    """Return whether a raw column, given by its place, only meets steps that keep its order.

    An encoder of a number does not: its categories have no order that the next step would see.
    """
    ordered = frozenset(MONOTONE)
    for k, step in enumerate(_flat(steps)):
        if k == 0 and type(step).__name__ == "ColumnTransformer":
            inputs = step._transformer_to_input_indices
            met = [part for name, part, _ in step.transformers_ if place in inputs.get(name, ())]
            if not all(known_step(part, ordered) for part in met):
                return False
        elif not known_step(step, ordered):
            return False
    return True


def _flat(steps: Sequence[Any]) -> list[Any]:
    """Return steps with those of pipelines among them in their place."""
    found: list[Any] = []
    for step in steps:
        inner = [part for _, part in step.steps] if type(step).__name__ == "Pipeline" else None
        found += [step] if inner is None else _flat(inner)
    return found


def describe_model(model: Any) -> str:
    """Return the class of a model for messages."""
    return shown(type(model).__name__)[1:-1]
