"""What a person reads: one base for reports and transcripts.

A subclass says its text (``summary``), its table (``to_frame``) and its picture (``plot``, where
there is one); the dictionary for programs and the page for notebooks follow from these.
"""

from __future__ import annotations

import base64
import dataclasses
import html
import io
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_ROWS_IN_A_NOTEBOOK = 20


class Report(ABC):
    """Base class of what the library answers to a question.

    Examples
    --------
    >>> import pandas as pd
    >>> class Coins(Report):
    ...     def summary(self):
    ...         return "3 heads in 5 tosses"
    ...     def to_frame(self):
    ...         return pd.DataFrame({"side": ["head", "tail"], "count": [3, 2]})
    >>> Coins().to_dict()["rows"][0]
    {'side': 'head', 'count': 3}
    >>> "3 heads" in Coins()._repr_html_()
    True
    """

    @abstractmethod
    def summary(self) -> str:
        """Return what a person should know, in a few lines."""

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as a table."""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the picture of the report."""
        raise NotImplementedError(f"{type(self).__name__} has no picture")

    def to_dict(self) -> dict[str, Any]:
        """Return kind, text and rows as plain values that JSON can hold (NaN becomes None)."""
        frame = self.to_frame()
        named = any(name is not None for name in frame.index.names)
        rows = frame.reset_index() if named else frame
        return {
            "kind": type(self).__name__,
            "summary": self.summary(),
            "rows": [plain(row) for row in rows.to_dict(orient="records")],
        }

    def _repr_html_(self) -> str:
        """Text, picture and the first rows of the table, for notebooks."""
        frame = self.to_frame()
        table = frame.head(_ROWS_IN_A_NOTEBOOK).to_html(border=0)
        left = len(frame) - _ROWS_IN_A_NOTEBOOK
        more = f"<p>and {left} more rows: <code>to_frame()</code></p>" if left > 0 else ""
        return f"<div><pre>{html.escape(self.summary())}</pre>{self._picture()}{table}{more}</div>"

    def _picture(self) -> str:
        if type(self).plot is Report.plot:
            return ""
        from counterplay.core.figures import figure_style, panels

        with figure_style():
            figure, (ax,) = panels(1)
            self.plot(ax)
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png")
        encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
        return f'<img alt="{type(self).__name__}" src="data:image/png;base64,{encoded}">'


def plain(value: Any) -> Any:
    """Return ``value`` made of dictionaries, lists, strings, finite numbers, bools and None.

    Examples
    --------
    >>> plain({"x": np.float64("nan"), "y": np.arange(2), 3: True})
    {'x': None, 'y': [0, 1], '3': True}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def at_most(share: float) -> str:
    """A bound from above in per cent: three digits, rounded up, so that what is printed holds.

    Examples
    --------
    >>> at_most(28 / 569), at_most(0.07), at_most(1e-16)
    ('4.93 %', '7 %', '0 %')
    """
    return f"{_rounded(100.0 * share, 3, up=True):.3g} %"


def at_least(share: float) -> str:
    """A confidence or another bound from below in per cent: four digits, rounded down.

    Examples
    --------
    >>> at_least(0.95), at_least(0.99999)
    ('95 %', '99.99 %')
    """
    return f"{_rounded(100.0 * share, 4, up=False):.4g} %"


def plural(count: int, word: str, words: str | None = None) -> str:
    """Say how many.

    Examples
    --------
    >>> plural(1, "study", "studies"), plural(3, "cell")
    ('1 study', '3 cells')
    """
    return f"{count} {word if count == 1 else words or word + 's'}"


def _rounded(value: float, digits: int, *, up: bool) -> float:
    """Round to significant digits in one direction; what is left of a computation is no digit."""
    if not math.isfinite(value) or abs(value) < 1e-10:
        return value if not math.isfinite(value) else 0.0
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(abs(value))))
    slack = 1e-11 * abs(value) * scale
    whole = math.ceil(value * scale - slack) if up else math.floor(value * scale + slack)
    return whole / scale
