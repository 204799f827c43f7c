"""Doors of counterplay.elicitation: tables of values and catalogues."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.elicitation import (
    Catalogue,
    ChoicePanel,
    LinearPreferenceUser,
    PolytopeElicitor,
    PreferenceElicitor,
    ReliableElicitor,
    answered_by,
    elicit_many,
)
from counterplay.elicitation.lab import PointSetOracle, equal_weights, pareto_scan, undominated


def user(k: int = 3) -> LinearPreferenceUser:
    """Somebody who cares about everything, the first thing most."""
    weights = np.ones(k)
    weights[0] = 2.0
    return LinearPreferenceUser(weights, eps=0.05)


def columns(X: Any) -> list[Any]:
    """Names of the first three columns as a person would type them."""
    return list(getattr(X, "columns", range(3)))[:3]


def catalogue(X: Any) -> Catalogue:
    """The first column is a benefit, the next ones are costs."""
    names = columns(X)
    return Catalogue(X, benefits=names[:1], costs=names[1:])


def chosen(X: Any) -> Any:
    """The recommendation of a whole questionnaire about a catalogue."""
    items = catalogue(X)
    session = PolytopeElicitor(items, target_regret=0.1, random_state=0)
    result = answered_by(session, user(items.values.shape[1]))
    return result, session.ranking(3).to_dict("list"), result.to_frame().to_dict("list")


def reliable(X: Any) -> Any:
    """The recommendation of a short reliable questionnaire about a catalogue."""
    session = ReliableElicitor(catalogue(X), target_regret=0.3, max_questions=4, random_state=0)
    result = answered_by(session, user(session._items.k))
    return result.row, result.label, session.predict_choice([0, 1]).tolist()


def recorded(X: Any) -> Any:
    """A panel in which everybody chose the first of two."""
    import pandas as pd

    from counterplay.tables import Table

    names, n = columns(X), len(Table.of(X)) // 2 * 2
    frame = pd.DataFrame({str(name): Table.of(X).column(j) for j, name in enumerate(names)})[:n]
    keys = {"who": np.arange(n) // 4, "task": np.arange(n) // 2, "item": np.arange(n) % 2}
    frame = frame.assign(**keys, taken=np.arange(n) % 2 == 0)
    panel = ChoicePanel(
        frame, person="who", task="task", alternative="item", chosen="taken",
        attributes=[str(name) for name in names],
    )  # fmt: skip
    return panel.padded()[0]


def not_negative(X: Any) -> Any:
    """Numbers without their sign where that makes sense: values must not be negative."""
    try:
        return [[abs(x) for x in row] for row in X] if isinstance(X, list) else abs(X)
    except (TypeError, NotImplementedError):
        return X


def elicited(X: Any) -> Any:
    """The recommendation of the guaranteed procedure on a table of values."""
    oracle = PointSetOracle(not_negative(X))
    return answered_by(PreferenceElicitor(oracle), user(oracle.k))


def planned(X: Any) -> Any:
    """The guaranteed procedure for two people who share bases."""
    oracle = PointSetOracle(not_negative(X))
    return elicit_many(oracle, [user(oracle.k), user(oracle.k)])[0]


DOORS = {
    "Catalogue": lambda X, y: catalogue(X).values,
    "Catalogue:max": lambda X, y: (
        Catalogue(not_negative(X), benefits=columns(X)[:1], scale="max").values
    ),
    "PolytopeElicitor": lambda X, y: chosen(X),
    "PolytopeElicitor:labels": lambda X, y: answered_by(
        PolytopeElicitor(PointSetOracle(not_negative(X), names=y), random_state=0), user()
    ),
    "ReliableElicitor": lambda X, y: reliable(X),
    "ChoicePanel": lambda X, y: recorded(X),
    "PreferenceElicitor": lambda X, y: elicited(X),
    "elicit_many": lambda X, y: planned(X),
    "PointSetOracle": lambda X, y: PointSetOracle(not_negative(X)).argmax(np.eye(3)),
    "equal_weights": lambda X, y: equal_weights(PointSetOracle(not_negative(X))).value,
    "pareto_scan": lambda X, y: pareto_scan(X, user()).value,
    "undominated": lambda X, y: undominated(X),
}
NOT_TABLES: dict[str, str] = {}
