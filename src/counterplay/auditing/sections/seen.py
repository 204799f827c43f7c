"""Was the model fitted on these rows? A test with a clone that was not.

Calibrated on real tables: boosted trees that had seen the rows are found, unseen rows are rarely
called seen even where the model was fitted on many more rows than the table has; many linear models
pass although they have seen the rows, because it makes little difference to them. No proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context
from counterplay.core.stats import binomial_p_value

SURE, WIDE, LIKE = 1e-3, 0.02, 0.5  # p-value, gap in accuracy and rho of rows that were seen


@dataclass(frozen=True)
class SeenTest:
    """Whether the model looks as if it had been fitted on these rows.

    A clone of the model is cross-fitted on the rows. If they are new to the model, each of the two
    is as likely to be right where they differ (``p_value``); ``rho`` is the lead of the model over
    the clone, in units of the lead of a clone that has seen the rows.

    Parameters
    ----------
    model_only
        Rows that the model gets right and the cross-fitted clone wrong.
    clone_only
        The reverse.
    p_value
        Chance of so many of the first kind if the rows are new to the model.
    gap
        Accuracy of the model minus that of the clone.
    rho
        That gap divided by the gap of a clone fitted on all rows.
    verdict
        ``"seen"``, ``"question"`` (better than its clone: perhaps by more training rows, perhaps by
        so little that it hardly matters) or ``"not seen"``; no proof, linear models often pass.

    Examples
    --------
    >>> SeenTest.of(40, 4, 300, 0.13).verdict, SeenTest.of(40, 4, 300, 0.5).verdict
    ('seen', 'question')
    """

    model_only: int
    clone_only: int
    p_value: float
    gap: float
    rho: float
    verdict: Literal["seen", "question", "not seen"]

    @classmethod
    def of(cls, model_only: int, clone_only: int, n: int, learned: float) -> SeenTest:
        """Return the test from the rows on which model and clone differ.

        ``learned`` is the accuracy in sample of a clone minus that of the cross-fitted one.
        """
        differ = model_only + clone_only
        p = binomial_p_value(model_only, differ, 0.5, "greater") if differ else 1.0
        gap = (model_only - clone_only) / n
        rho = gap / learned if learned > 0 else (1.0 if gap > 0 else 0.0)
        better = p < SURE and gap >= WIDE
        verdict: Any = ("seen" if rho >= LIKE else "question") if better else "not seen"
        if p < SURE and rho >= LIKE and not better:  # surely better, by little: worth a question
            verdict = "question"
        return cls(model_only, clone_only, p, gap, rho, verdict)


def seen_test(context: Context, given: pd.DataFrame, folds: pd.DataFrame) -> SeenTest | None:
    """Return the test whether the model was fitted on these rows; None if folds are missing."""
    last = folds[folds["fold"] == -1]
    cross = folds[folds["fold"] >= 0].merge(given, on="row", suffixes=("", "_given"))
    if not len(last) or not len(cross):
        return None
    y = context.wanted[cross["row"].to_numpy(dtype=np.int64)]
    model = cross["accepted_given"].to_numpy(dtype=bool) == y
    clone = cross["accepted"].to_numpy(dtype=bool) == y
    inside = last.set_index("row")["accepted"].loc[cross["row"]].to_numpy(dtype=bool) == y
    return SeenTest.of(
        int((model & ~clone).sum()), int((clone & ~model).sum()), len(y),
        float(inside.mean() - clone.mean()),
    )  # fmt: skip
