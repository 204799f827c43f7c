"""The one reader of people's models: what a file may do is decided before it is opened.

A skops file is opened when every type in it is on the curated list; a pickle only by switch; an
ONNX file without external data and foreign operators; an import path runs the user's own module.
Columns are matched by name. Whatever was given, the sections see one thing: a fitted estimator that
is called with a frame of its own columns.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.auditing.outcome import Outcome, model_classes, same_value
from counterplay.core.files import read_limited
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import CounterplayError, InvalidInputError
from counterplay.tables.cells import nearest, shown
from counterplay.tables.model_files import LARGEST_MODEL, foreign_types, read_model
from counterplay.tables.models import FittedModel, model_names, spelt

ModelKind = Literal["estimator", "onnx", "function", "default"]
PICKLES = (".pkl", ".pickle", ".joblib")


@dataclass(frozen=True, eq=False)
class AuditModel:
    """A model as the sections of the audit use it.

    Parameters
    ----------
    estimator
        The fitted model, or a wrapper that behaves like a scikit-learn classifier.
    name
        How the page calls it.
    kind
        What was given.
    columns
        Columns it is called with, in its order.
    digest
        SHA-256 of the file, or of what else identifies it.
    texts
        Whether it takes one column of raw texts instead of a frame.
    answers
        For each outcome of the table the answer of the model that means it.
    positive
        The wanted ones among the model's answers.
    why_not
        Why it cannot be fitted again; empty if it can.
    """

    estimator: Any
    name: str
    kind: ModelKind
    columns: tuple[str, ...]
    digest: str
    texts: bool = False
    answers: Mapping[Any, Any] = field(default_factory=dict)
    positive: tuple[Any, ...] = ()
    why_not: str = ""
    notes: tuple[str, ...] = ()

    @property
    def refittable(self) -> bool:
        """Whether a clone can be fitted on other rows."""
        return not self.why_not

    def rows(self, frame: pd.DataFrame) -> Any:
        """Return the rows as the estimator takes them: its columns, by name, in its order."""
        if self.texts:
            return frame[self.columns[0]].astype(object).where(frame[self.columns[0]].notna(), "")
        return frame[list(self.columns)]

    def predict(self, frame: pd.DataFrame) -> NDArray[Any]:
        """Return the model's own answers."""
        return self._call("predict", frame)

    def accepts(self, frame: pd.DataFrame) -> BoolArray:
        """Return which rows get the wanted class."""
        answers = self.predict(frame).tolist()
        return np.fromiter((answer in self.positive for answer in answers), bool, len(answers))

    def scores(self, frame: pd.DataFrame) -> FloatArray:
        """Return a score that grows with acceptance."""
        model, classes = self.estimator, self.classes
        if len(classes) == 2 and hasattr(model, "decision_function"):
            sign = 1.0 if same_value(classes[1], self.positive[0]) else -1.0
            return sign * self._call("decision_function", frame).astype(np.float64)
        if hasattr(model, "predict_proba"):
            chances = self._call("predict_proba", frame)
            places = [k for k, c in enumerate(classes) if c in self.positive]
            return np.asarray(chances[:, places].sum(axis=1), dtype=np.float64)
        return self.accepts(frame).astype(np.float64)

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes of the estimator, in its order."""
        return FittedModel.of(self.estimator).classes

    def refit(self, frame: pd.DataFrame, y: Any, *, seed: int = 0) -> AuditModel | None:
        """Return a clone fitted on other rows; ``y`` is in the coding of the table."""
        if not self.refittable:
            return None
        from sklearn.base import clone

        fresh = clone(self.estimator)
        unset = {
            key: seed
            for key, value in fresh.get_params(deep=True).items()
            if key.split("__")[-1] == "random_state" and value is None
        }
        fresh.set_params(**unset)
        target = np.array([self.answers[value] for value in list(y)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fresh.fit(self.rows(frame), target)
        return replace(self, estimator=fresh)

    def for_outcome(self, outcome: Outcome, classes: Mapping[str, Any]) -> AuditModel:
        """Return the model with its answers tied to the outcomes of the table."""
        own = self.classes
        if not own:
            raise InvalidInputError(
                f"{self.name} has no classes: a classifier is needed, not a regression."
            )
        answers = model_classes(outcome, own, dict(classes))
        positive = tuple(dict.fromkeys(answers[value] for value in outcome.positive))
        return replace(self, answers=answers, positive=positive)

    def _call(self, method: str, frame: pd.DataFrame) -> NDArray[Any]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = np.asarray(getattr(self.estimator, method)(self.rows(frame)))
        except CounterplayError:
            raise
        except Exception as error:
            raise InvalidInputError(
                f"The model could not {method.replace('_', ' ')}: {shown(error, 160)}"
            ) from error
        if len(answer) != len(frame):
            raise InvalidInputError(f"The model gave {len(answer)} answers for {len(frame)} rows.")
        return answer


def load_model(
    source: Any, *, trust: Sequence[str] = (), trust_pickle: bool = False
) -> tuple[Any, str, ModelKind, str]:
    """Return the object behind a file, an import path or a fitted model, its name, kind and digest.

    Parameters
    ----------
    source
        Path of a file, ``module:object``, or the fitted model itself.
    trust
        Further types of a skops file that the user knows.
    trust_pickle
        Whether a pickle may be opened; it runs whatever code is inside.
    """
    if not isinstance(source, str | Path):
        return source, _called(source), _kind(source), _object_digest(source)
    text = str(source)
    path = Path(text)
    suffix = path.suffix.lower()
    if suffix not in (*PICKLES, ".skops", ".onnx"):
        if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", text):
            return _imported(text)
        raise InvalidInputError(
            f"{shown(path.name, 80)} is no model file: .skops, .onnx, .joblib, .pkl or "
            "module:object is needed."
        )
    name = path.name[:120]
    if suffix in PICKLES and not trust_pickle:
        raise InvalidInputError(
            f"{name} is a pickle: loading it runs whatever code is inside. If you made it, add "
            f"--trust-pickle; better: skops.io.dump(model, '{path.stem[:80]}.skops')."
        )
    data = read_limited(path, what="the model", limit=LARGEST_MODEL)
    digest = hashlib.sha256(data).hexdigest()
    if suffix == ".onnx":
        from counterplay.auditing.onnx_files import OnnxClassifier

        return OnnxClassifier.of_bytes(data, name), name, "onnx", digest
    if suffix == ".skops":
        return _from_skops(data, name, trust), name, "estimator", digest
    return _from_pickle(path, data, name), name, "estimator", digest


def as_audit_model(
    loaded: tuple[Any, str, ModelKind, str],
    frame: pd.DataFrame,
    *,
    columns: Sequence[str] | None = None,
    texts: Sequence[str] = (),
) -> AuditModel:
    """Return a loaded model tied to the columns of a table.

    Parameters
    ----------
    loaded
        What `load_model` returned.
    frame
        The columns of the table that the model may be called with.
    columns
        ``[model] columns``, for a model that knows no names.
    texts
        Columns of raw text.
    """
    model, name, kind, digest = loaded
    if kind == "function":
        from counterplay.auditing.wrappers import ScoreFunction

        model = ScoreFunction(model, tuple(columns or map(str, frame.columns)))
    if isinstance(model, type) or not callable(getattr(model, "predict", None)):
        raise InvalidInputError(f"{name} holds {shown(model, 80)}, no fitted model with predict.")
    model, names, takes_texts = _columns(model, name, frame, columns, texts)
    why = _why_not(model, kind)
    if kind == "onnx":
        model.learn_classes(frame[list(names)])
    return AuditModel(model, name, kind, names, digest, texts=takes_texts, why_not=why)


def check_columns(frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Refuse a table that lacks a column of the model; the sentence names the nearest one."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        near = nearest(missing[0], [str(c) for c in frame.columns if c not in set(names)])
        more = f" Also missing: {len(missing) - 1} more." if len(missing) > 1 else ""
        raise InvalidInputError(
            f"The model needs {shown(missing[0], 60)}; the table has no such column{near}.{more}"
        )


def _columns(
    model: Any,
    name: str,
    frame: pd.DataFrame,
    columns: Sequence[str] | None,
    texts: Sequence[str],
) -> tuple[Any, tuple[str, ...], bool]:
    """Return the model that knows its columns, their names, and whether it takes raw texts."""
    names = model_names(model)
    if names is not None:
        names = spelt(model, names, list(map(str, frame.columns)))
        check_columns(frame, names)
        return model, names, False
    from counterplay.auditing.wrappers import named, takes_raw_texts

    if takes_raw_texts(model):
        chosen = tuple(columns) if columns else tuple(texts) or _only(frame)
        check_columns(frame, chosen)
        if len(chosen) != 1:
            raise InvalidInputError(
                f"{name} takes raw texts. Say which column holds them: "
                "[model] columns = ['message']."
            )
        return model, chosen, True
    if columns is None:
        raise InvalidInputError(
            f"{name} was fitted without column names. Say them in its order: "
            "[model] columns = [...]."
        )
    check_columns(frame, columns)
    return named(model, tuple(columns), name), tuple(columns), False


def _only(frame: pd.DataFrame) -> tuple[str, ...]:
    return tuple(map(str, frame.columns)) if frame.shape[1] == 1 else ()


def _from_skops(data: bytes, name: str, trust: Sequence[str]) -> Any:
    foreign = foreign_types(data, what=name, trust=trust)
    if foreign:
        kind = foreign[0][:120]
        more = f" (and {len(foreign) - 1} more)" if len(foreign) > 1 else ""
        raise InvalidInputError(
            f"{name} contains {kind}, which is not on the trusted list{more}. If you know it, add "
            f"--trust {kind}."
        )
    return read_model(data, what=name, trust=trust)


def _from_pickle(path: Path, data: bytes, name: str) -> Any:
    if data[:2] == b"PK":
        raise InvalidInputError(f"{name} is an archive, not a pickle: is it a .skops file?")
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:
        raise InvalidInputError(f"{name} cannot be read: {shown(error, 160)}") from None


def _imported(text: str) -> tuple[Any, str, ModelKind, str]:
    module_name, _, attribute = text.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise InvalidInputError(f"{text[:120]} cannot be imported: {shown(error, 120)}") from None
    root = importlib.import_module(module_name.split(".")[0])
    version = str(getattr(root, "__version__", ""))
    digest = hashlib.sha256(f"{text} {version}".encode()).hexdigest()
    return found, text, _kind(found), digest


def _kind(model: Any) -> ModelKind:
    is_function = callable(model) and not hasattr(model, "predict")
    return "function" if is_function and not isinstance(model, type) else "estimator"


def _called(model: Any) -> str:
    steps = getattr(model, "steps", None)
    last = steps[-1][1] if isinstance(steps, list) and steps else model
    return str(getattr(last, "__name__", type(last).__name__))[:120]


def _object_digest(model: Any) -> str:
    """SHA-256 of a fitted object: of its pickle, which holds its fitted numbers."""
    import io

    import joblib

    buffer = io.BytesIO()
    try:
        joblib.dump(model, buffer)
    except Exception:  # a function of a notebook, say: known by its name only
        return hashlib.sha256(repr(type(model)).encode()).hexdigest()
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def _why_not(model: Any, kind: ModelKind) -> str:
    if kind == "onnx":
        return "not possible for ONNX"
    if kind == "function":
        return "not possible for a function"
    if not callable(getattr(model, "fit", None)) or not hasattr(model, "get_params"):
        return "the model has no fit"
    return ""
