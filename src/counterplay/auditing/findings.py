"""What a section of the audit says: findings, actions, tables, figures, numbers for gates.

Everything but the drawing of a foreign figure and the hardened models is plain typed data, so that
the page can be made again from ``audit.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from counterplay.auditing.quantity import Quantity, Text, Texts
from counterplay.core.records import Count, Record
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Severity = Literal["blocking", "high", "medium", "low", "good"]
SEVERITIES: tuple[Severity, ...] = ("blocking", "high", "medium", "low", "good")
Cell = Quantity | str | int | float | bool | None


class Finding(Record, frozen=True):
    """One sentence with the number behind it.

    Parameters
    ----------
    name
        Short name, such as ``"seen_rows"``.
    sentence
        What was found, for a person.
    severity
        How much it matters; a blocking finding makes other numbers untrustworthy.
    quantity
        The number behind the sentence.
    headline
        Place among the sentences of the first screen, 1 first; 0 stays in its section.
    table
        Title of the grid in the section that has the rows behind it.

    Examples
    --------
    >>> cost = Quantity(value=910, low=793, high=1023, unit="euro", basis="measured")
    >>> Finding(name="cost", sentence="It costs 910.", severity="high", quantity=cost).quantity.low
    793

    References
    ----------
    "Numbers and their basis", see docs/theory/27-audit.md.
    """

    name: Text
    sentence: Text
    severity: Severity
    quantity: Quantity | None = None
    headline: Count = 0
    table: Text = ""


class Scenario(Record, frozen=True):
    """The gain of an action if people behave in one stated way."""

    when: Text
    gain: Quantity


class Action(Record, frozen=True):
    """What to do next, what it gains, and on what that rests.

    Parameters
    ----------
    name
        Short name: ``"honest cut"``, ``"hardened cut"``, ``"verify purpose"``.
    title
        What to do.
    gain
        Gain used for ranking, in the unit of the page, credited after ``after``; None for a
        suggestion whose gain was not measured.
    how
        Command or file that does it.
    scenario
        In which situation ``gain`` holds.
    scenarios
        Gains in other situations, such as nobody games and all do.
    blocking
        Whether it must be done before other numbers can be trusted.
    instead_of
        Names of actions that it excludes.
    after
        Name of the action whose gain is credited before.
    credit
        Place in the order of credit: 1 the honest cut, 2 the hardened cut, 0 by lower end.
    effort
        Effort of doing it, in no unit, for ties.
    note
        One more sentence: break-even share, rows needed, why it is not advised.
    rows_needed
        Rows after which the gain would be distinguishable from zero; None if it is, or never.

    Examples
    --------
    >>> gain = Quantity(value=13, low=-8, high=35, unit="euro", basis="measured")
    >>> Action(name="harden", title="Raise the cut", how="by hand", gain=gain).advised
    False

    References
    ----------
    "Order of credit", see docs/theory/27-audit.md.
    """

    name: Text
    title: Text
    how: Text
    gain: Quantity | None = None
    scenario: Text = ""
    scenarios: Annotated[tuple[Scenario, ...], Meta(max_length=20)] = ()
    blocking: bool = False
    instead_of: Texts = ()
    after: Text = ""
    credit: Count = 0
    effort: Count = 1
    note: Text = ""
    rows_needed: Count | None = None

    @property
    def advised(self) -> bool:
        """Whether the gain is above zero with its whole interval."""
        return self.gain is not None and self.gain.low > 0


class Column(Record, frozen=True):
    """A column of a grid; numbers are aligned to the right."""

    name: Text
    unit: Text = ""
    number: bool = False


class Grid(Record, frozen=True):
    """A table of the page; cells are text, plain counts or quantities.

    A bare ``int`` or ``float`` is a setting (a budget, a number of blocks); a result is a
    `Quantity`.

    Parameters
    ----------
    title
        Heading.
    columns
        One `Column` for each cell of a row.
    rows
        The cells, row by row.
    note
        One sentence under the table.
    folded
        Whether the page shows it only on demand.

    Examples
    --------
    >>> grid = Grid(title="Blocks", columns=(Column(name="blocks", number=True),), rows=((11,),))
    >>> grid_frame(grid)["blocks"].item()
    11

    References
    ----------
    "Sections", see docs/theory/27-audit.md.
    """

    title: Text
    columns: Annotated[tuple[Column, ...], Meta(min_length=1, max_length=60)]
    rows: Annotated[tuple[tuple[Cell, ...], ...], Meta(max_length=20_000)]
    note: Text = ""
    folded: bool = False

    def __post_init__(self) -> None:
        """Refuse rows that are longer or shorter than the columns."""
        if any(len(row) != len(self.columns) for row in self.rows):
            raise InvalidInputError("every row of a grid needs one cell for each column")


class Series(Record, frozen=True):
    """One line, row of bars or set of marks of a chart.

    ``low`` and ``high`` are the band or whiskers; empty for none. ``style``: ``line``, ``dashed``,
    ``bars``, ``points``, ``crosses``, ``mark`` (one point with its label).
    """

    label: Text
    x: tuple[float | str, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    style: Literal["line", "dashed", "bars", "points", "crosses", "mark"] = "line"

    def __post_init__(self) -> None:
        """Refuse parts of different lengths, and places that are both words and numbers."""
        n = len(self.x)
        lengths = {len(self.y), len(self.low) or n, len(self.high) or n}
        if lengths != {n} or len({isinstance(place, str) for place in self.x}) > 1:
            raise InvalidInputError("a series needs one y, low and high for each x, all x alike")


class Chart(Record, frozen=True):
    """A picture as data: drawn for the page, and again from ``audit.json``."""

    x_label: Text
    y_label: Text
    series: Annotated[tuple[Series, ...], Meta(max_length=40)]
    horizontal: bool = False
    y_from_zero: bool = True


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture of the page with its text alternative and the table behind it.

    Parameters
    ----------
    title
        Heading.
    alt
        What the picture shows, in a sentence or two, for those who cannot see it.
    chart
        The picture as data; None where ``draw`` is given.
    draw
        A function that draws on axes (third-party sections); such a picture is on the page of the
        run, but not on one that is made again from ``audit.json``.
    table
        The numbers behind it.

    Examples
    --------
    >>> line = Series(label="as is", x=(0.0, 1.0), y=(910.0, 1354.0))
    >>> chart = Chart(x_label="effort", y_label="euro", series=(line,))
    >>> Figure(title="Money", alt="It rises.", chart=chart).chart.series[0].y[-1]
    1354.0

    References
    ----------
    "Sections", see docs/theory/27-audit.md.
    """

    title: str
    alt: str
    chart: Chart | None = None
    draw: Callable[[Axes], None] | None = None
    table: Grid | None = None


class Missing(Record, frozen=True):
    """What a section needs and does not have: a sentence, and the setting to add.

    Examples
    --------
    >>> Missing(sentence="Say what one person can spend.", key="[effort] budgets").key
    '[effort] budgets'

    References
    ----------
    "Sections", see docs/theory/27-audit.md.
    """

    sentence: Text
    key: Text = ""


@dataclass(frozen=True, kw_only=True)
class RowValues:
    """The rows behind a quantity: ``scale * mean(values)`` is its value; pairs two audits."""

    rows: IntArray
    values: FloatArray
    scale: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A model to deploy instead, and its decisions on the rows of the table.

    Parameters
    ----------
    name
        ``"hardened"`` or a variant such as ``"cut"``.
    model
        The fitted estimator with ``predict``, ``predict_proba`` and ``feature_names_in_``.
    accepted
        Its decisions on all rows of the table, as the page states them.
    sentence
        What it is.
    action
        Name of the action that it carries out.
    """

    name: str
    model: Any
    accepted: BoolArray
    sentence: str
    action: str = ""


@dataclass(frozen=True, kw_only=True)
class SectionResult:
    """What a section found.

    Parameters
    ----------
    name
        Name of the section.
    title
        Heading on the page: a question or a short phrase.
    lead
        Paragraphs under the heading.
    findings
        Sentences with their numbers, most important first.
    actions
        What to do.
    tables
        Tables, in order.
    figures
        Pictures, in order.
    quantities
        Numbers by `quantity_key`; the key without a place is the headline.
    plain
        What ``best_plain`` is for a gate on each quantity, by its name without a place.
    row_values
        The rows behind quantities, by key, where they are means over rows.
    assumptions
        What the section assumed, a sentence each.
    variants
        Models to deploy instead.

    Examples
    --------
    >>> twice = Quantity.certain(403, unit="rows", n=5574)
    >>> found = SectionResult(name="twins", title="Twins", quantities={"twice": twice})
    >>> str(found.quantities["twice"])
    '403'

    References
    ----------
    "Sections", see docs/theory/27-audit.md.
    """

    name: str
    title: str
    lead: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    actions: tuple[Action, ...] = ()
    tables: tuple[Grid, ...] = ()
    figures: tuple[Figure, ...] = ()
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    plain: Mapping[str, Quantity] = field(default_factory=dict)
    row_values: Mapping[str, RowValues] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return the first table of the section; empty if it has none."""
        return grid_frame(self.tables[0]) if self.tables else _empty()


def grid_frame(grid: Grid) -> pd.DataFrame:
    """Return a grid as a frame; quantities become their value, with low, high and basis beside."""
    import pandas as pd

    columns: dict[str, list[Any]] = {}
    for j, column in enumerate(grid.columns):
        cells = [row[j] for row in grid.rows]
        columns[column.name] = [c.value if isinstance(c, Quantity) else c for c in cells]
        if any(isinstance(cell, Quantity) for cell in cells):
            for part in ("low", "high", "basis"):
                columns[f"{column.name} {part}"] = [
                    getattr(c, part) if isinstance(c, Quantity) else None for c in cells
                ]
    return pd.DataFrame(columns)


def _empty() -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame()
