"""How often each labeler is right, from items that several people answered.

One number per labeler, by expectation maximisation (Dawid & Skene 1979 with one parameter each) and
a Beta(2, 18) prior on the share of wrong answers. Estimates help to plan who is asked; no
certificate uses them.
Source: docs/theory/24-campaign.md, "Noise".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import FloatArray, check_int
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

PRIOR = (2.0, 18.0)
FEW = 10
_STEPS = 200


@checked
@dataclass(frozen=True)
class LabelerRecord:
    """What is known about one labeler; ``low`` and ``high`` are an approximate 95 % interval."""

    labeler: str
    wrong_share: float
    low: float
    high: float
    answers: int
    repeated: int


@checked
@dataclass(frozen=True)
class Reliability(Report):
    """Estimated share of wrong answers of each labeler."""

    labelers: tuple[LabelerRecord, ...]

    def summary(self) -> str:
        """One line per labeler."""
        lines = []
        for r in self.labelers:
            text = f"{r.labeler}: {100 * r.wrong_share:.0f} % wrong"
            text += f" (approximately {100 * r.low:.0f} to {100 * r.high:.0f} %)"
            text += f", {r.answers} answers, {r.repeated} on items with several"
            if r.repeated < FEW:
                text += f"; fewer than {FEW} repeated items: prior only"
            lines.append(text)
        return "\n".join(lines) or "no labeler is named in the answers"

    def to_frame(self) -> pd.DataFrame:
        """One row per labeler."""
        import pandas as pd

        names = ["labeler", "wrong_share", "low", "high", "answers", "repeated"]
        return pd.DataFrame([vars(r) for r in self.labelers], columns=names).set_index("labeler")


@checked
def labeler_reliability(answers: Sequence[tuple[int, str, int]], n_classes: int = 2) -> Reliability:
    """Estimate each labeler's share of wrong answers.

    Parameters
    ----------
    answers:
        ``(item, labeler, code of the label)``, one per answer.
    n_classes:
        Number of classes.

    Examples
    --------
    >>> told = [(x, who, int(who == "eve")) for x in range(30) for who in ("ann", "bob", "eve")]
    >>> labeler_reliability(told).to_frame()["wrong_share"].round(2).to_dict()
    {'ann': 0.04, 'bob': 0.04, 'eve': 0.64}
    """
    check_int(n_classes, "n_classes", low=2)
    names = sorted({str(who) for _, who, _ in answers})
    items = sorted({int(item) for item, _, _ in answers})
    place, where = {w: i for i, w in enumerate(names)}, {x: i for i, x in enumerate(items)}
    who = np.array([place[str(w)] for _, w, _ in answers], dtype=np.int64)
    item = np.array([where[int(x)] for x, _, _ in answers], dtype=np.int64)
    code = np.array([int(c) for _, _, c in answers], dtype=np.int64)
    if code.size and (code.min() < 0 or code.max() >= n_classes):
        raise InvalidInputError(f"labels must be codes from 0 to {n_classes - 1}")
    total = np.bincount(who, minlength=len(names))
    several = np.bincount(item, minlength=len(items))[item] > 1
    who, item, code = who[several], item[several], code[several]
    seen = np.bincount(who, minlength=len(names))
    wrong: FloatArray = np.full(len(names), PRIOR[0] / sum(PRIOR))
    missed: FloatArray = np.zeros(len(names))
    for _ in range(_STEPS):
        # expectation: the posterior of each item's label, answers weighed by reliability
        logs = np.zeros((len(items), n_classes))
        miss = np.log(wrong[who] / (n_classes - 1))
        logs += np.bincount(item, weights=miss, minlength=len(items))[:, None]
        np.add.at(logs, (item, code), np.log1p(-wrong[who]) - miss)
        p = np.exp(logs - logs.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        # maximisation: expected wrong answers of each labeler, with the prior
        doubts = 1.0 - p[item, code]
        missed = np.bincount(who, weights=doubts, minlength=len(names)).astype(np.float64)
        new = (PRIOR[0] + missed) / (sum(PRIOR) + seen)
        if np.abs(new - wrong).max(initial=0.0) < 1e-10:
            break
        wrong = new
    a, b = PRIOR[0] + missed, PRIOR[1] + seen - missed
    low, high = stats.beta.ppf(0.025, a, b), stats.beta.ppf(0.975, a, b)
    return Reliability(
        tuple(
            LabelerRecord(n, float(w), float(lo), float(hi), int(t), int(s))
            for n, w, lo, hi, t, s in zip(names, wrong, low, high, total, seen)
        )
    )
