"""What a study is: a grid of cells, verdicts that compare measured with theory, figures.

A cell is a pure function of (parameters, seed) that returns a flat record of numbers and strings.
The engine decides where and when cells run; a study never sees workers, files or progress bars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Scale: TypeAlias = Literal["quick", "full"]
Value: TypeAlias = "bool | int | float | str | None"
Params: TypeAlias = Mapping[str, Value]
Record: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True)
class Verdict:
    """One comparison of a measured number with what theory says it must be."""

    claim: str
    """Id of the claim made visible, such as ``"09.03"``."""
    statement: str
    """What was compared, in one sentence a newcomer understands."""
    measured: str
    """The measured number, with its interval where it was simulated."""
    expected: str
    """What theory says, such as ``"<= 3034.9"``."""
    holds: bool | None
    """Whether the measurement agrees with theory; None if nothing was promised about it."""


@dataclass(frozen=True)
class Study:
    """An experiment that makes claims visible.

    Parameters
    ----------
    name:
        Short kebab-case name; the study is run as ``AREA/NAME``.
    title:
        One line for tables and headings.
    question:
        Two or three sentences: what is compared and what one should see.
    claims:
        Ids of the claims the study makes visible.
    grid:
        Function of the scale that returns the parameters of every cell. Replicates are
        parameters, too: add a key such as ``"replicate"``.
    cell:
        Module-level pure function ``(params, seed) -> record``. It must give the same record in
        any process. Keys of the record must not repeat keys of the parameters.
    verdicts:
        Function of the frame of all cells (parameters and record columns) to verdicts.
    figures:
        Named functions of the same frame to matplotlib figures. The first paragraph of a
        function's docstring is the caption in the report.
    version:
        Increase it when the meaning of a cell changes; stored cells of other versions are not used.

    Examples
    --------
    >>> from counterplay.studies.study import Study
    >>> study = Study(
    ...     name="coin", title="A fair coin", question="Does a fair coin fall on both sides?",
    ...     claims=(), grid=lambda scale: [{"flips": 10}],
    ...     cell=lambda params, seed: {"heads": seed % 2}, verdicts=lambda frame: [])
    >>> study.grid("quick")
    [{'flips': 10}]
    """

    name: str
    title: str
    question: str
    claims: tuple[str, ...]
    grid: Callable[[Scale], Sequence[Params]]
    cell: Callable[[Params, int], Record]
    verdicts: Callable[[pd.DataFrame], Sequence[Verdict]]
    figures: Mapping[str, Callable[[pd.DataFrame], Figure]] = field(default_factory=dict)
    version: int = 1
    extra: str | None = None
    """Extra of the package without which no cell can run, such as ``"federated"``."""
    data: tuple[str, ...] = ()
    """Data sets that cells fetch; results computed from other files of that name are not used."""
    full_extra: str | None = None
    """Extra of the package that the full scale needs beyond ``extra``."""
    full_needs: str | None = None
    """What the full scale needs beyond a CPU, such as ``"a GPU"`` or ``"the CIFAR-10 data"``."""


@dataclass(frozen=True)
class Area:
    """One game of the library, as it is presented in the report."""

    name: str
    """Package name, such as ``"tradeoff"``."""
    title: str
    """Headline in plain words."""
    story: str
    """About five lines: who plays, what goes wrong without care, what the library does."""
    studies: tuple[Study, ...]
    harm: str = ""
    """One or two sentences for a practitioner: what goes wrong."""
    remedy: str = ""
    """One or two sentences: what to do about it."""
    start: str = ""
    """The command or the call to begin with."""
    picture: str = ""
    """The figure that shows it, as ``"study/figure"``."""
