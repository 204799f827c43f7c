"""The region of preferences that the answers of one person leave, on the triangle of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.validation import FloatArray
from counterplay.elicitation import ReliableElicitor

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

STOPS = (3, 6, 9, 12)
_FINE = 70
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def region(frame: pd.DataFrame) -> Figure:
    """Preferences that one person's answers do not exclude (blue), three attributes, one answer of
    ten wrong; orange: those among them that would regret the recommended item by more than 5 %;
    the cross is the person."""
    rng = np.random.default_rng(3)
    items, w = rng.random((300, 3)), np.array([0.5, 0.3, 0.2])
    session = ReliableElicitor(items, target_regret=0.01, check_every=0, random_state=0)
    grid = _weights()
    figure, axes = panels(len(STOPS), width=2.6, height=2.6)
    for number in range(1, STOPS[-1] + 1):
        query = session.ask()
        if query is None:
            break
        best = int(np.argmax([option.value @ w for option in query.options]))
        session.tell(1 + (1 - best if number == 5 else best))  # the fifth answer is a slip
        if number in STOPS:
            ax, state = axes[STOPS.index(number)], session._state
            left = grid[state.regions[0].contains(grid)]
            own = 1 - left @ items[state.recommended()] / (left @ items.T).max(axis=1)
            for part, colour in ((left, PALETTE[0]), (left[own > 0.05], PALETTE[1])):
                ax.plot(*(part @ _CORNERS).T, "o", color=colour, ms=1.6, mew=0)
            ax.plot(*np.vstack([_CORNERS, _CORNERS[:1]]).T, color="0.4", lw=0.8)
            ax.plot(*(w @ _CORNERS), "x", color="black", ms=6)
            ax.set(title=f"{number} answers", xticks=[], yticks=[], aspect="equal")
            ax.axis("off")
    return figure


def _weights() -> FloatArray:
    """A grid on the simplex of three weights."""
    a, b = np.meshgrid(np.arange(_FINE + 1), np.arange(_FINE + 1))
    inside = a + b <= _FINE
    return np.stack([a[inside], b[inside], _FINE - a[inside] - b[inside]], axis=1) / _FINE
