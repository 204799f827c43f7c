"""ONNX files: refused before they are run if they name other files or foreign operators.

The file is walked as plain protocol-buffer bytes, so that nothing of it is executed for the check:
tensors stored in other files, operators outside the two standard domains, and loops, which need not
end, are refused. Then onnxruntime, which checks its trees itself, runs it on the CPU, with the
columns of a table matched to its inputs by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError, InvalidStateError, MissingDependencyError
from counterplay.tables.cells import shown

_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
_DEEPEST = 40
_NUMBERS = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64,
    "tensor(int32)": np.int32, "tensor(bool)": np.bool_,
}  # fmt: skip

# The messages that can hold tensors or nodes: message -> {field number: (what, message)}.
_INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 8: "opset", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 9: "opset", 11: "attribute"},
    "sparse": {1: "tensor", 2: "tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
}


class OnnxClassifier:
    """An ONNX model as a classifier on named columns.

    Made by `of_bytes`. Inputs of one column each are matched by name; a single input of several
    columns needs ``[model] columns``.
    """

    def __init__(self, session: Any, name: str) -> None:
        self._session = session
        self._name = name
        self._inputs = list(session.get_inputs())
        self._label, self._chances = _outputs(session, name)
        wide = len(self._inputs) == 1 and _width(self._inputs[0]) != 1
        self.n_features_in_ = _width(self._inputs[0]) if wide else len(self._inputs)
        if not wide:
            self.feature_names_in_ = np.array([i.name for i in self._inputs], dtype=object)
        self._wide = wide
        self._classes: NDArray[Any] | None = None

    @classmethod
    def of_bytes(cls, data: bytes, name: str) -> OnnxClassifier:
        """Check the bytes of a file and open a session on the CPU."""
        check_onnx(data, name)
        try:
            import onnxruntime
        except ImportError:
            raise MissingDependencyError.for_extra("onnxruntime", "audit") from None
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(
                data, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise InvalidStateError(f"{name} cannot be read: {shown(error, 160)}") from None
        return cls(session, name)

    @property
    def classes_(self) -> NDArray[Any]:
        """The answers of the model, known from its chances or from what it answered."""
        if self._classes is None:
            raise AttributeError("classes_")
        return self._classes

    def learn_classes(self, frame: pd.DataFrame) -> None:
        """Find out the answers of the model by asking it about the rows of the table."""
        label, chances = self._run(frame)
        if isinstance(chances, list) and chances:  # a list of {class: chance}
            self._classes = np.array(list(chances[0]))
            return
        found = np.unique(label)
        width = 2 if chances is None else int(np.asarray(chances).shape[1])
        if len(found) == 1 and width == 2 and found.dtype.kind in "iu":
            found = np.array([0, 1])
        if chances is not None and len(found) != width:
            raise InvalidInputError(
                f"{self._name} answers {len(found)} classes here but has {width} chances; "
                "write it with zipmap so that it names its classes."
            )
        self._classes = found

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row."""
        return self._run(X)[0]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the chance of each class, in the order of ``classes_``."""
        _, chances = self._run(X)
        if chances is None:
            raise AttributeError("this ONNX model gives no probabilities")
        if isinstance(chances, list):
            keys = self.classes_.tolist()
            return np.array([[row[key] for key in keys] for row in chances], dtype=np.float64)
        return np.asarray(chances, dtype=np.float64)

    def _run(self, X: Any) -> tuple[NDArray[Any], Any]:
        if self._wide:
            feed = {self._inputs[0].name: _cast(np.asarray(X), self._inputs[0], self._name)}
        else:
            feed = {
                i.name: _cast(X[i.name].to_numpy(dtype=object)[:, None], i, self._name)
                for i in self._inputs
            }
        wanted = [self._label] + ([self._chances] if self._chances else [])
        answers = self._session.run(wanted, feed)
        label = np.asarray(answers[0]).ravel()
        return label, answers[1] if self._chances else None


def check_onnx(data: bytes, name: str) -> None:
    """Refuse external data, foreign operators and loops, without running anything of the file."""
    try:
        for kind, fields in _messages(memoryview(data), "model", 0):
            if kind == "tensor" and (fields.get(13) or fields.get(14, 0)):
                raise InvalidStateError(
                    f"{name} keeps numbers in another file (external data): refused."
                )
            if kind == "node" and fields.get(4) == b"Loop":
                raise InvalidStateError(f"{name} has a loop, which need not end: refused.")
            domain = fields.get(1 if kind == "opset" else 7)
            if kind in ("node", "opset") and domain is not None:
                if not isinstance(domain, memoryview):  # bytes(n) of a number would be n zeros
                    raise ValueError("wrong wire type")
                text = bytes(domain).decode("utf-8", "replace")
                if text not in _DOMAINS:
                    raise InvalidStateError(
                        f"{name} uses operators of {shown(text, 60)}, which are not standard: "
                        "refused."
                    )
    except (IndexError, ValueError, TypeError) as error:
        if isinstance(error, InvalidStateError):
            raise
        raise InvalidStateError(f"{name} is not an ONNX file.") from None


def _messages(data: memoryview, kind: str, depth: int) -> Iterator[tuple[str, dict[int, Any]]]:
    """Yield every message that can hold a tensor or an operator, with its last field values."""
    if depth > _DEEPEST:
        raise ValueError("nested too deep")
    fields: dict[int, Any] = {}
    inside = _INSIDE.get(kind, {})
    for number, value in _fields(data):
        fields[number] = value
        if number in inside:
            if not isinstance(value, memoryview):
                raise ValueError("wrong wire type")
            yield from _messages(value, inside[number], depth + 1)
    if kind == "model" and 7 not in fields:
        raise ValueError("no graph")
    yield kind, fields


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of the fields of one message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ValueError("field 0")
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("cut short")
            yield number, data[at : at + size]
            at += size
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
            if at > len(data):
                raise ValueError("cut short")
        else:
            raise ValueError("unknown wire type")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for k in range(10):
        byte = data[at + k]
        value |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return value, at + k + 1
    raise ValueError("number too long")


def _outputs(session: Any, name: str) -> tuple[str, str | None]:
    """Return the names of the output with labels and of that with chances."""
    outputs = session.get_outputs()
    labels = [o.name for o in outputs if o.type in ("tensor(int64)", "tensor(string)")]
    chances = [
        o.name
        for o in outputs
        if o.type.startswith("seq(map(") or (o.type == "tensor(float)" and _width(o) != 1)
    ]
    if not labels:
        raise InvalidInputError(
            f"{name} answers no labels (int64 or string); write a classifier, not a regression."
        )
    return labels[0], chances[0] if chances else None


def _width(value: Any) -> int:
    shape = value.shape or []
    return int(shape[1]) if len(shape) == 2 and isinstance(shape[1], int) else 1


def _cast(values: NDArray[Any], wanted: Any, name: str) -> NDArray[Any]:
    """Return values in the type an input asks for."""
    if wanted.type == "tensor(string)":
        missing = pd.isna(values)
        texts: NDArray[Any] = np.where(missing, "", values).astype(str).astype(object)
        return texts
    if wanted.type not in _NUMBERS:
        raise InvalidInputError(f"{name}: input {shown(wanted.name)} has the type {wanted.type}.")
    try:
        flat = pd.Series(values.ravel()).to_numpy(dtype=np.float64, na_value=np.nan)
        numbers: NDArray[Any] = flat.reshape(values.shape).astype(_NUMBERS[wanted.type])
        return numbers
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{name}: input {shown(wanted.name)} needs numbers: {shown(error, 80)}"
        ) from None
