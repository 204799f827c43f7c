"""What happens to a fitted model when applicants game it: honest and gamed accuracy side by side.

Everybody who is rejected and can afford the way to acceptance goes there; true labels stay. The
report counts what that does to accuracy, who moves and where to, and what it costs the qualified.

Source: "The report", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from counterplay.core.arguments import checked
from counterplay.errors import AssumptionWarning, InvalidInputError, UnknownNameError
from counterplay.strategic.changes import Change
from counterplay.strategic.features import read_costs
from counterplay.strategic.fold import Asked
from counterplay.strategic.moves import Moves, check_budgets
from counterplay.strategic.moves_report import MovesReport, moves_report


@checked
def gaming_report(
    model: Any,
    X: Any,
    y: Any,
    moves: Any = None,
    *,
    budget: Any = None,
    positive: Any = None,
    ability: Any = None,
    value: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    confidence: float = 0.95,
    **ball: Any,
) -> MovesReport:
    """Report what happens to a fitted binary classifier when applicants game it.

    Use it before deployment: the model may be perfect on past data and useless once people know it.

    Parameters
    ----------
    model:
        Fitted scikit-learn classifier, pipeline or search with two classes.
    X:
        Test applicants; the columns of a frame are matched by name with those the model was fitted
        on.
    y:
        Their true labels.
    moves:
        What people can change and what it costs them: :class:`Moves`. Exact for linear models
        behind column-wise steps and for tree ensembles, on frames with words and missing values.
        Without it people move in a Euclidean ball: numeric columns both ways, a standard deviation
        at a price of 1, other columns stay.
    budget:
        What one person can spend on ``moves``: a number or several. Default: the budget of
        ``moves``, else 0, 0.25, 0.5 and 1.
    positive:
        The class people want; may be left out when the labels are 0 and 1 or True and False.
    ability:
        The distribution of budgets, from :func:`estimate_ability`, instead of ``budget``.
    value:
        What decisions are worth, ``[[tn, fp], [fn, tp]]`` per person.
    sample_weight:
        Weight of each person, in every mean.
    groups:
        Group of each person, for the gaps in burden and acceptance.
    confidence:
        Level of the sampling intervals.
    ball:
        Old arguments of a ball, for one more release: ``radius``, ``norm`` and ``costs`` per raw
        unit; use ``Moves.ball`` and ``budget``.

    Notes
    -----
    With growing budget nobody who was accepted is rejected, so false positives never decrease and
    false negatives never increase. People whose price is only bracketed count both ways in
    ``accuracy_low`` and ``accuracy_high``. In a ball nearest neighbours, Gaussian kernels and
    neural nets have certified bounds, too; other models that are searched have none from below.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterplay.strategic import Change, Moves
    >>> people = pd.DataFrame({"late": [0.0, 1.0, 3.0, 4.0], "age": [30.0, 50.0, 40.0, 20.0]})
    >>> model = LogisticRegression().fit(people, [1, 1, 0, 0])
    >>> moves = Moves({"late": Change("down", step=1, cost=2.0, per="unit", low=0)})
    >>> report = gaming_report(model, people, [1, 1, 0, 0], moves, budget=[0, 2, 8])
    >>> report.to_frame()["accuracy"].tolist()
    [1.0, 0.75, 0.5]

    A norm ball around every row:

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    >>> report = gaming_report(model, X, y, Moves.ball(X), budget=[0.0, 2.0])
    >>> report.to_frame()["accuracy"].round(3).tolist()
    [0.988, 0.842]

    References
    ----------
    "The report", see docs/theory/20-moves.md; "The gaming report", see
    docs/theory/02-strategic-finite.md.
    """
    if odd := [name for name in ball if name not in ("radius", "norm", "costs")]:
        raise UnknownNameError.among("argument", odd[0][:80], _ARGUMENTS)
    if moves is not None and not isinstance(moves, Moves):
        if "radius" in ball:
            raise InvalidInputError("give radius once")
        ball["radius"], moves = moves, None
    if ball and moves is not None:
        raise InvalidInputError(f"{next(iter(ball))} belongs to the ball; moves say what "
                                "things cost")  # fmt: skip
    if ball:
        warnings.warn(
            "radius, norm and costs go with the next release: use moves=Moves.ball(X, norm=..., "
            "per=...), or Moves with a Change per column, and budget=",
            DeprecationWarning,
            stacklevel=3,
        )
        if budget is not None or "radius" not in ball:
            raise InvalidInputError("give radius with norm and costs, and no budget")
        budget = check_budgets(ball["radius"])
    if moves is None:
        frame = Asked(model, X, positive, y).frame
        moves = _ball(frame, **ball) if ball else Moves.ball(frame)
    report = moves_report(
        model,
        X,
        y,
        moves,
        budget=budget,
        positive=positive,
        ability=ability,
        value=value,
        sample_weight=sample_weight,
        groups=groups,
        confidence=confidence,
    )
    return replace(report, old=True) if ball else report


_ARGUMENTS = (
    "moves", "budget", "positive", "ability", "value", "sample_weight", "groups", "confidence",
    "radius", "norm", "costs",
)  # fmt: skip


def _ball(frame: pd.DataFrame, radius: Any, norm: Any = 2, costs: Any = None) -> Moves:
    """Return the ball of the old arguments: prices per raw unit; what costs infinity stays."""
    ball = Moves.ball(frame, norm=norm, per="unit")
    if costs is None:
        return ball
    prices = read_costs(costs, tuple(map(str, frame.columns)))
    assert prices is not None
    if prices.shape != (frame.shape[1],) or not (prices > 0).all():
        raise InvalidInputError(
            f"costs must be a positive number for each of the {frame.shape[1]} columns"
        )
    priced = {
        name: Change("both", price, per="unit", low=-np.inf, high=np.inf)
        for name, price in zip(frame.columns, prices.tolist())
        if name in ball.columns and np.isfinite(price)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)  # a ball has no steps on purpose
        return Moves(priced, reference=frame, combine=ball.combine)
