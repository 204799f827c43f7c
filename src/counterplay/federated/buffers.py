"""Running statistics of a model in a federation: averaged by rows, and nobody steers them far.

A party sends the statistics after its local steps. Their change is measured as one vector, like a
gradient; one that is longer than ``clip`` times the usual change of the first round is shortened.
The measure stays fixed: a change that grows with what was broken before would let one party drive
the statistics away round by round. Source: "Influence" in docs/theory/23-training.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import FloatArray
from counterplay.federated.replies import Answer, averaged_buffers

Named = Mapping[str, NDArray[Any]]


@dataclass(eq=False)
class Buffers:
    """The statistics of the model as they are now.

    Parameters
    ----------
    clip :
        Longest change that counts, in units of the usual one; None takes all as they are.

    Examples
    --------
    >>> buffers = Buffers(clip=5.0, now={"mean": np.zeros(1)})
    >>> sent = [Answer(1.0, np.ones(1), buffers={"mean": np.array([x])}) for x in (1.0, 2.0, 1e99)]
    >>> buffers.take(sent)
    >>> buffers.now["mean"].round(9).tolist()
    [4.333333333]
    """

    clip: float | None
    now: dict[str, NDArray[Any]] = field(default_factory=dict)
    parties: int = 0
    _usual: dict[bool, float] = field(default_factory=dict)

    def take(self, answers: Sequence[Answer]) -> None:
        """Move to the average of what the parties sent, if they sent any."""
        limited = [answer.buffers for answer in answers]
        if self.clip is not None:
            for counts in (False, True):  # real numbers, and whole ones
                limited = self._limited(limited, counts)
        sent = [replace(answer, buffers=own) for answer, own in zip(answers, limited)]
        if found := averaged_buffers(sent, self.clip):
            self.now, self.parties = self.now | found, len(answers)

    def told(self) -> tuple[str, ...]:
        """What a reader of the run must know, if there is anything to know."""
        if not self.parties:
            return ()
        if any(name.endswith("running_var") for name in self.now):
            many = self.parties
            return (f"BatchNorm statistics averaged over {many} parties; GroupNorm avoids this.",)
        return (f"Buffers of the model averaged over {self.parties} parties.",)

    def _limited(self, sent: list[Named], counts: bool) -> list[Named]:
        """The buffers of every party, those of one kind not too far from what they were."""
        changes = [self._changes(own, counts) for own in sent]
        lengths = [_length(change) for change in changes]
        usual = self._usual.get(counts) or sorted(lengths)[len(lengths) // 2]
        if usual > 0.0:
            self._usual[counts] = usual  # set by the first round in which most parties move
        limit = float(self.clip or 0.0) * usual
        return [
            own if length <= limit else {**own, **self._moved(change, limit / length)}
            for own, change, length in zip(sent, changes, lengths)
        ]

    def _changes(self, own: Named, counts: bool) -> dict[str, FloatArray]:
        """By how much a party has moved the buffers of one kind."""
        return {
            name: value.astype(np.float64) - self.now[name].astype(np.float64)
            for name, value in own.items()
            if name in self.now
            and self.now[name].shape == value.shape
            and (value.dtype.kind != "f") is counts
        }

    def _moved(self, change: Mapping[str, FloatArray], share: float) -> dict[str, NDArray[Any]]:
        """The buffers after a share of a change; counts stay whole."""
        found = {}
        for name, step in change.items():
            value = self.now[name].astype(np.float64) + share * step
            whole = self.now[name].dtype.kind != "f"
            found[name] = np.rint(value).astype(self.now[name].dtype) if whole else value
        return found


def _length(change: Mapping[str, FloatArray]) -> float:
    return float(np.sqrt(sum(float(np.sum(step * step)) for step in change.values())))
