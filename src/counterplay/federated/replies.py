"""What parties of a federation send: read and checked before any of it reaches a rule.

Reading is total: what cannot be used is refused with a reason that names the field. A vector a
thousand times longer than the usual one is refused, too; one that is merely long is shortened by
the server.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_positive_int, check_real, shorten
from counterplay.errors import InvalidInputError

UNUSABLE = "unusable reply: "
LARGEST = 1e100  # squares of sums of such numbers are still finite
FARTHEST = 1e3  # longest vector that is believed, in units of the usual length

Fields = Mapping[str, Any]
"""The content of an answer as a transport decoded it, see :func:`read_answer`."""


@checked
@dataclass(frozen=True)
class Trust:
    """How far the server trusts a party's answer.

    Parameters
    ----------
    loss_range:
        Smallest and largest loss that is believed; cross-entropy and squares are never negative.
    clip:
        Gradients and updates longer than this many times the median (now or in the first round,
        whichever is larger) are shortened to that length where they are averaged; None takes them
        as they are. With fewer than half of the parties hostile, ``q`` of ``M`` of them add at most
        ``q * clip * B / M`` to the mean, where ``B`` is the longest honest vector so far.
    veto:
        A party that blocked every step for this many rounds is not protected any longer, and named.
        None, the default: the run ends as ``stalled`` instead. An honest party at its margin blocks
        just like a liar, and leaves once it is not protected.

    Examples
    --------
    >>> Trust(loss_range=(0.0, 10.0)).clip
    5.0

    References
    ----------
    "The inbox", "Influence", see docs/theory/23-training.md.
    """

    loss_range: tuple[float, float] = (0.0, 1e6)
    clip: float | None = 5.0
    veto: int | None = None

    def __post_init__(self) -> None:
        low, high = (check_real(end, "loss_range") for end in self.loss_range)
        if not low < high:
            raise InvalidInputError(f"loss_range must rise, got {self.loss_range}")
        if self.clip is not None:
            check_real(self.clip, "clip", low=1.0)
        if self.veto is not None:
            check_positive_int(self.veto, "veto")


@dataclass(frozen=True, eq=False)
class Answer:
    """A party's answer, read and checked.

    ``ordinary``: it comes from a client that sends its trained model only; the gradient is then its
    update, a mean gradient at best.
    """

    loss: float
    gradient: FloatArray
    update: FloatArray | None = None
    threshold: float = math.nan
    loss_se: float = 0.0
    gradient_error: float = 0.0
    name: str | None = None
    rows: int = 1
    buffers: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    ordinary: bool = False


def read_answer(fields: Fields, w: FloatArray, step_size: float, trust: Trust) -> Answer:
    """Return the answer of a party; an ``InvalidInputError`` names the field that is wrong.

    ``fields`` holds ``loss`` and ``gradient`` at the model ``w``, and, where sent, ``update`` (mean
    gradient along the local steps), ``threshold``, ``loss_se``, ``gradient_error`` (a limit of its
    length), ``num_examples``, ``buffers`` and ``name``. An ordinary client sends its trained
    ``model`` or its ``update`` instead of a gradient, and perhaps no loss.

    Examples
    --------
    >>> read_answer({"loss": 0.5, "gradient": [1.0, 2.0]}, np.zeros(2), 0.1, Trust()).loss
    0.5
    >>> read_answer({"loss": [0.5], "gradient": [1.0, 2.0]}, np.zeros(2), 0.1, Trust())
    Traceback (most recent call last):
        ...
    counterplay.errors.InvalidInputError: loss must be a number, got [0.5]
    """
    low, high = trust.loss_range
    loss = math.nan
    if "loss" in fields:
        loss = check_real(fields["loss"], "loss", low=low, high=high)
    rows = check_rows_sent({"num-examples": fields.get("num_examples", 1)}, "num-examples")
    update = _vector(fields, "update", len(w))
    gradient = _vector(fields, "gradient", len(w))
    ordinary = "gradient" not in fields
    if ordinary and "model" in fields:
        model = _vector(fields, "model", len(w))
        if model is not None:
            update = _believable((w - model) / step_size, "update")
    if ordinary:
        gradient = update
    if gradient is None:
        raise InvalidInputError("the reply needs a loss and a gradient (or a trained model)")
    name = fields.get("name")
    return Answer(
        loss=loss,
        gradient=gradient,
        update=update,
        threshold=_optional(fields, "threshold", math.nan),
        loss_se=_optional(fields, "loss_se", 0.0),
        gradient_error=_optional(fields, "gradient_error", 0.0),
        name=None if name is None else printable(str(name))[:100].strip() or None,
        rows=rows,
        buffers=_buffers(fields),
        ordinary=ordinary,
    )


def _buffers(fields: Fields) -> dict[str, NDArray[Any]]:
    """Running statistics that a party sent back; variances cannot be negative."""
    sent = fields.get("buffers")
    if sent is None:
        return {}
    if not isinstance(sent, Mapping):
        raise InvalidInputError("buffers must be arrays by name")
    found = {}
    for name, value in sent.items():
        array = np.asarray(value)
        called = f"buffer {shorten(name, 40)}"
        if array.dtype.kind not in "biuf":
            raise InvalidInputError(f"the {called} holds {array.dtype}, not real numbers")
        if array.dtype.kind == "f":
            _believable(array.astype(np.float64), called)
        if str(name).endswith("running_var") and (array < 0).any():
            raise InvalidInputError(f"the {called} has a negative variance")
        found[str(name)] = array
    return found


def _vector(fields: Fields, name: str, size: int) -> FloatArray | None:
    if fields.get(name) is None:
        return None
    value = np.asarray(fields[name])
    if value.dtype.kind not in "iuf":
        raise InvalidInputError(f"the {name} holds {value.dtype}, not real numbers")
    if value.shape != (size,):
        raise InvalidInputError(f"the {name} has shape {value.shape}, expected ({size},)")
    return _believable(value.astype(np.float64, copy=False), name)


def _believable(value: FloatArray, name: str) -> FloatArray:
    if not np.isfinite(value).all():
        raise InvalidInputError(f"the {name} has a value that is not finite")
    if np.abs(value).max(initial=0.0) > LARGEST:
        raise InvalidInputError(f"the {name} has a value beyond {LARGEST:g}")
    return value


def _optional(fields: Fields, name: str, default: float) -> float:
    if name not in fields:
        return default
    return check_real(fields[name], name.replace("_", "-"), low=0.0, high=LARGEST)


def averaged_buffers(
    answers: Sequence[Answer], clip: float | None = None
) -> dict[str, NDArray[Any]]:
    """Average running statistics by rows, take the largest of counts.

    Nobody counts more than ``clip`` times the median number of rows. Names or shapes that half of
    the parties do not share are left out.

    Examples
    --------
    >>> sent = [Answer(1.0, np.ones(1), rows=r, buffers={"mean": np.full(2, r)}) for r in (1, 3)]
    >>> averaged_buffers([answer for answer in sent])["mean"].tolist()
    [3, 3]
    """
    usual = sorted(a.rows for a in answers)[len(answers) // 2] if answers else 1
    most = math.inf if clip is None else clip * usual
    forms = Counter((k, v.shape, v.dtype) for a in answers for k, v in a.buffers.items())
    found: dict[str, NDArray[Any]] = {}
    for (name, shape, dtype), votes in forms.items():
        if 2 * votes <= len(answers):
            continue
        own = [a for a in answers if name in a.buffers and a.buffers[name].shape == shape]
        values = np.stack([a.buffers[name] for a in own])
        if dtype.kind == "f":
            weights = np.array([min(a.rows, most) for a in own])
            mean = np.average(values.astype(np.float64), axis=0, weights=weights)
            found[name] = np.asarray(mean)
        else:
            found[name] = np.asarray(values.max(axis=0))
    return found


def too_long(answers: Mapping[int, Answer], usual: float) -> dict[int, str]:
    """The parties whose vectors are a thousand times longer than the usual one.

    One such vector would drown everybody else's. Where nobody has a length (``usual`` is 0) nothing
    can be said.
    """
    found: dict[int, str] = {}
    limit = FARTHEST * usual
    for node, answer in answers.items():
        for what, vector in (("gradient", answer.gradient), ("update", answer.update)):
            length = 0.0 if vector is None else float(np.linalg.norm(vector))
            if 0.0 < limit < length:
                found[node] = f"its {what} is {length:.3g} long, beyond {limit:.3g}"
    return found


def reason(error: Exception) -> str:
    """What is wrong, at most 200 characters of it."""
    kind = "" if isinstance(error, InvalidInputError) else f"{type(error).__name__}: "
    return printable(f"{kind}{error}")[:200]


def printable(text: str) -> str:
    """The text in one line, without the signs that steer a terminal.

    Examples
    --------
    >>> printable("north\\n\\x1b[31mwing")
    'north [31mwing'
    """
    return "".join(sign if sign.isprintable() else " " for sign in text).replace("  ", " ")


def check_rows_sent(metrics: Mapping[str, Any], key: str) -> int:
    """Return the number of rows behind a reply, a whole number from 1.

    Examples
    --------
    >>> check_rows_sent({"num-examples": 20}, "num-examples")
    20
    """
    if key not in metrics:
        raise InvalidInputError(f"the reply has no metric {key!r}")
    rows = check_real(metrics[key], key, low=1.0, high=2.0**53)
    if not rows.is_integer():
        raise InvalidInputError(f"{key} must be a whole number, got {rows:g}")
    return int(rows)


def common_metrics(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the metrics that all records hold in the same form.

    Examples
    --------
    >>> common_metrics([{"loss": 1.0, "recall": [0.5, 0.5]}, {"recall": [1.0], "loss": 2.0}])
    ['loss']
    """

    def form(value: Any) -> int:
        return len(value) if isinstance(value, list) else -1

    return [
        key
        for key in (records[0] if records else ())
        if all(key in r and form(r[key]) == form(records[0][key]) for r in records)
    ]
