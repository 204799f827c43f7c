"""Recorded choices: who chose what from which set, in the long form of choice surveys.

Source: docs/theory/26-people.md, "Recorded choices".
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import AssumptionWarning, InvalidInputError, UnknownNameError
from counterplay.tables import Table
from counterplay.tables.cells import first_missing, shown

if TYPE_CHECKING:
    import pandas as pd

    from counterplay.elicitation.choice_population import Population


@checked
class ChoicePanel:
    """Choices that people made: one row per alternative that was on offer.

    Sets may have any size, and may differ in size.

    Parameters
    ----------
    frame:
        The long form: one row per person, task and alternative.
    person:
        Column that says who chose.
    task:
        Column that says in which task; numbers may start again for every person.
    alternative:
        Column that names the alternative.
    chosen:
        Column that is true (1, "yes") for the one alternative that was chosen.
    attributes:
        Columns of numbers that describe the alternatives.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({
    ...     "who": [1, 1, 1, 1], "task": [1, 1, 2, 2], "train": ["a", "b", "a", "b"],
    ...     "price": [20.0, 30.0, 40.0, 35.0], "time": [50, 40, 30, 45], "taken": [0, 1, 1, 0]})
    >>> panel = ChoicePanel(frame, person="who", task="task", alternative="train", chosen="taken",
    ...                     attributes=["price", "time"])
    >>> panel.n_people, panel.n_choices, panel.sizes
    (1, 2, (2, 2))

    References
    ----------
    "Recorded choices", see docs/theory/26-people.md.
    """

    def __init__(
        self,
        frame: Any,
        *,
        person: str,
        task: str,
        alternative: str,
        chosen: str,
        attributes: Sequence[str],
    ) -> None:
        import pandas as pd

        table = Table.of(frame, what="the panel")
        if table.names is None:
            raise InvalidInputError("the panel must be a frame with named columns")
        if isinstance(attributes, str) or len(attributes) == 0:
            raise InvalidInputError("attributes must be a list of at least one column")
        names = list(table.names)
        for column in (person, task, alternative, chosen, *attributes):
            if column not in names:
                raise UnknownNameError.among("column", str(column)[:60], [n[:60] for n in names])
        told = [*attributes, chosen]
        twice = next((name for name in told if told.count(name) > 1), None)
        if twice is not None:
            raise InvalidInputError(
                f"column {shown(twice, 40)} is named twice among attributes and chosen"
            )
        columns = {name: table.column(names.index(name)) for name in names}
        for name in (person, task, alternative):
            row = first_missing(columns[name])
            if row is not None:
                raise InvalidInputError(
                    f"row {table.index[row]!s:.40} has nothing in {shown(name, 40)}; fill it in or "
                    "drop the task"
                )
        self.person, self.task, self.alternative = person, task, alternative
        self.attributes = tuple(attributes)
        self.index = pd.MultiIndex.from_arrays(
            [columns[name].to_numpy(dtype=object) for name in (person, task, alternative)],
            names=[person, task, alternative],
        )
        self.rows = table.index
        self.values = np.column_stack(
            [_numbers(columns[name], name, self.rows) for name in self.attributes]
        )
        self.chosen = _truths(columns[chosen], chosen, self.rows)
        self._group()

    @classmethod
    def from_wide(
        cls,
        frame: Any,
        *,
        person: str,
        chosen: str,
        pattern: str = "{attribute}{alternative}",
        attributes: Sequence[str],
        alternatives: Sequence[Any],
    ) -> ChoicePanel:
        """Read the wide form: one row per task, one column per attribute and alternative.

        Parameters
        ----------
        frame:
            One row per person and task.
        person:
            Column that says who chose.
        chosen:
            Column with the name of the chosen alternative.
        pattern:
            How columns are named, with ``{attribute}`` and ``{alternative}``.
        attributes:
            Names of the attributes.
        alternatives:
            Names of the alternatives, as they stand in ``chosen`` and in the columns.
        """
        import pandas as pd

        table = Table.of(frame, what="the panel")
        if table.names is None:
            raise InvalidInputError("the panel must be a frame with named columns")
        names = list(table.names)
        wanted = {
            (a, alternative): pattern.format(attribute=a, alternative=alternative)
            for a in attributes for alternative in alternatives
        }  # fmt: skip
        for column in (person, chosen, *wanted.values()):
            if column not in names:
                raise UnknownNameError.among("column", str(column)[:60], [n[:60] for n in names])
        read = {name: table.column(names.index(name)).to_numpy() for name in names}
        n = len(table)
        parts = []
        for alternative in alternatives:
            part = {"person": read[person], "task": np.arange(n), "alternative": alternative}
            part |= {a: read[wanted[a, alternative]] for a in attributes}
            part["chosen"] = [str(c) == str(alternative) for c in read[chosen]]
            parts.append(pd.DataFrame(part))
        return cls(
            pd.concat(parts, ignore_index=True), person="person", task="task",
            alternative="alternative", chosen="chosen", attributes=attributes,
        )  # fmt: skip

    @property
    def n_people(self) -> int:
        """Number of people."""
        return len(self.people)

    @property
    def n_choices(self) -> int:
        """Number of choices."""
        return len(self.who)

    @property
    def sizes(self) -> tuple[int, int]:
        """Smallest and largest set."""
        counts = np.bincount(self.set_of)
        return int(counts.min()), int(counts.max())

    def __repr__(self) -> str:
        return (
            f"ChoicePanel({self.n_choices} choices of {self.n_people} people, "
            f"attributes={list(self.attributes)})"
        )

    def describe(self) -> str:
        """Return the panel in one line."""
        low, high = self.sizes
        told = str(low) if low == high else f"{low} to {high}"
        return (
            f"{self.n_choices} choices of {self.n_people} people from sets of {told}, described by "
            f"{', '.join(self.attributes)}"
        )

    def fit_population(self, random_state: RandomState = None, **settings: Any) -> Population:
        """Learn how tastes are spread over people.

        Parameters
        ----------
        random_state:
            Seed of the sampler.
        settings:
            ``iterations``, ``kept`` of :class:`counterplay.elicitation.lab.Population`.
        """
        from counterplay.elicitation.choice_population import fit_population

        spread = self.values - self._set_means()
        for j, name in enumerate(self.attributes):
            if not np.abs(spread[:, j]).max(initial=0.0) > 0:
                raise InvalidInputError(
                    f"attribute {shown(name, 40)} never differs within a task, so choices cannot "
                    "reveal it"
                )
        if np.bincount(self.who).max() == 1:
            warnings.warn(
                "one choice per person: taste differences are not identified, a pooled logit is "
                "fitted",
                AssumptionWarning,
                stacklevel=2,
            )
        return fit_population(self, random_state, **settings)

    def padded(self) -> tuple[FloatArray, BoolArray, IntArray]:
        """Return values (C, m, k), which alternatives were there (C, m), and the chosen ones."""
        C, m = self.n_choices, self.sizes[1]
        values, there = np.zeros((C, m, self.values.shape[1])), np.zeros((C, m), dtype=bool)
        values[self.set_of, self.place] = self.values
        there[self.set_of, self.place] = True
        picked = np.zeros(C, dtype=np.int64)
        picked[self.set_of[self.chosen]] = self.place[self.chosen]
        return values, there, picked

    def subset(self, choices: BoolArray) -> ChoicePanel:
        """Return the panel with some of its choices."""
        keep = choices[self.set_of]
        part = object.__new__(ChoicePanel)
        vars(part).update(vars(self))
        part.index, part.rows = self.index[keep], self.rows[keep]
        part.values, part.chosen = self.values[keep], self.chosen[keep]
        part._group()
        return part

    def _set_means(self) -> FloatArray:
        counts = np.bincount(self.set_of)
        sums = np.stack([np.bincount(self.set_of, column) for column in self.values.T], axis=1)
        return np.asarray((sums / counts[:, None])[self.set_of])

    def _group(self) -> None:
        """Number people and choices in order of appearance; each choice has one chosen row."""
        import pandas as pd

        people, tasks = (self.index.get_level_values(i) for i in (0, 1))
        who, self.people = pd.factorize(people)
        pairs = pd.MultiIndex.from_arrays([who, pd.factorize(tasks)[0]])
        self.set_of, sets = pd.factorize(pairs)
        self.who = np.array([pair[0] for pair in sets], dtype=np.int64)
        self.place = ranks_within(self.set_of)
        counts = np.bincount(self.set_of)
        picked = np.bincount(self.set_of, self.chosen.astype(float))
        first = np.zeros(len(counts), dtype=np.int64)
        first[self.set_of[::-1]] = np.arange(len(self.set_of))[::-1]
        for wrong, told in (
            (counts == 1, "offers one alternative only"),
            (picked != 1, "has {n} chosen alternatives, expected 1"),
        ):
            if wrong.any():
                at = int(wrong.argmax())
                row = int(first[at])
                n = int(picked[at])
                whose = f"task {tasks[row]!s:.40} of person {people[row]!s:.40}"
                raise InvalidInputError(f"{whose} {told.format(n=n)}")
        again = pd.MultiIndex.from_arrays([self.set_of, self.index.get_level_values(2)])
        if (twice := again.duplicated()).any():
            row = int(twice.argmax())
            raise InvalidInputError(
                f"task {tasks[row]!s:.40} of person {people[row]!s:.40} offers "
                f"{shown(self.index[row][2], 40)} twice"
            )


def _numbers(column: pd.Series, name: str, rows: Any) -> FloatArray:
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.isfinite(numbers).all():
        row = int((~np.isfinite(numbers)).argmax())
        raise InvalidInputError(f"row {rows[row]!s:.40} has no number in {shown(name, 40)}")
    return np.asarray(numbers)


def _truths(column: pd.Series, name: str, rows: Any) -> BoolArray:
    """Return a column of 0/1, False/True, no/yes as truth values."""
    words = {"1": True, "true": True, "yes": True, "1.0": True}
    words |= {"0": False, "false": False, "no": False, "0.0": False}
    found = [words.get(str(cell).strip().lower()) for cell in column]
    for row, truth in enumerate(found):
        if truth is None:
            raise InvalidInputError(
                f"row {rows[row]!s:.40} has {shown(column.iloc[row], 40)} in {shown(name, 40)}; "
                "mark the chosen alternative by 1 and the others by 0"
            )
    return np.array(found, dtype=bool)


def ranks_within(groups: IntArray) -> IntArray:
    """Position of each entry within its group, in order of appearance."""
    order = np.argsort(groups, kind="stable")
    counts = np.bincount(groups)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(groups)) - np.repeat(starts, counts)
    return ranks
