"""Deal a labelled data set to agents that each hold mostly their own classes.

Every agent starts with its own classes only, keeps a share of them, puts the rest into a common
pool, and gets an equal random part of the pool back. The source prints the formula with the share
``q`` the other way round than its figures use it, so ``q`` needs a ``convention``.
Source: Appendix D.6, docs/theory/05-defection.md, "Heterogeneous data".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import check_choice, check_fraction, check_positive_int, shorten
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

NOBODY = -1
"""Agent number of rows that were left out to make all agents equally large."""


@checked(arrays=True)
@dataclass(frozen=True, repr=False)
class HeterogeneousSplit:
    """Who holds which row, as made by :func:`heterogeneous_split`.

    ``agent_of_row`` ``(N,)`` is the agent of every row, -1 for rows nobody holds; ``classes`` are
    the labels; ``own_classes`` ``(M,)`` tuples tell which classes each agent started with.
    """

    agent_of_row: NDArray[np.int64]
    labels: NDArray[Any]
    classes: NDArray[Any]
    own_classes: tuple[tuple[Any, ...], ...]
    own_fraction: float

    def __repr__(self) -> str:
        return (
            f"HeterogeneousSplit({self.n_agents} agents, {self.sizes.min()} to {self.sizes.max()} "
            f"rows each, own_fraction={self.own_fraction:g})"
        )

    @property
    def n_agents(self) -> int:
        """Number of agents."""
        return len(self.own_classes)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows per agent."""
        return np.asarray(self.class_counts.sum(axis=1))

    @property
    def class_counts(self) -> NDArray[np.int64]:
        """``(M, C)``: how many rows of each class every agent holds."""
        place = {label: c for c, label in enumerate(self.classes.tolist())}
        column = np.array([place[label] for label in self.labels.tolist()])
        held = self.agent_of_row != NOBODY
        cell = self.agent_of_row[held] * len(self.classes) + column[held]
        counts = np.bincount(cell, minlength=self.n_agents * len(self.classes))
        return counts.reshape(self.n_agents, len(self.classes)).astype(np.int64)

    def rows(self, agent: int) -> NDArray[np.int64]:
        """Return the row numbers of one agent."""
        return np.flatnonzero(self.agent_of_row == agent)

    def summary(self) -> str:
        """Say how mixed the agents are, in two sentences."""
        counts = self.class_counts
        largest = (counts.max(axis=1) / np.maximum(1, counts.sum(axis=1))).mean()
        left = int((self.agent_of_row == NOBODY).sum())
        return (
            f"{len(self.labels) - left} rows dealt to {self.n_agents} agents; on average "
            f"{largest:.0%} of an agent's rows are of its most frequent class. "
            f"{left} rows were left out to make the agents equally large."
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the table of class counts, one row per agent."""
        import pandas as pd

        index = pd.RangeIndex(self.n_agents, name="agent")
        return pd.DataFrame(self.class_counts, index=index, columns=self.classes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the class counts of every agent as a heat map."""
        from counterplay.core.figures import axes_or_new

        axes = axes_or_new(ax)
        image = axes.imshow(self.class_counts, cmap="Blues", aspect="auto")
        axes.set(xlabel="class", ylabel="agent", title="rows of each class per agent")
        axes.set_xticks(range(len(self.classes)), [str(c) for c in self.classes])
        axes.grid(False)
        axes.figure.colorbar(image, ax=axes, label="rows")
        return axes


@checked
def heterogeneous_split(
    X: Any,
    y: Any,
    n_agents: int = 10,
    own_fraction: float | None = None,
    *,
    q: float | None = None,
    convention: Literal["figures", "formula"] | None = None,
    equalise: bool = True,
    random_state: RandomState = None,
) -> HeterogeneousSplit:
    """Partition rows among agents so that each holds mostly its own classes.

    Use it to turn any labelled data set into a federation with a chosen degree of heterogeneity:
    1 gives agents with disjoint classes, 0 gives agents that all look alike.

    Parameters
    ----------
    X:
        Rows, in any container; only used for their number.
    y:
        Labels of the rows: numbers, booleans or texts.
    n_agents:
        Number of agents. Classes are dealt round-robin; with more agents than classes, agents of
        the same class share its rows.
    own_fraction:
        Share of its own rows that an agent keeps before pooling.
    q:
        The share in the words of the source, instead of ``own_fraction``.
    convention:
        ``"figures"`` means ``own_fraction = q``, the literal ``"formula"`` means
        ``own_fraction = 1 - q``.
    equalise:
        Leave out random rows so that all agents are equally large; those get agent -1.
    random_state:
        Seed.

    Returns
    -------
    HeterogeneousSplit
        With ``agent_of_row``. No row is held by two agents.

    References
    ----------
    "Heterogeneous data", see docs/theory/05-defection.md.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.repeat([0, 1, 2], 100)
    >>> split = heterogeneous_split(np.zeros((300, 1)), y, 3, own_fraction=0.7, random_state=0)
    >>> split.class_counts.tolist()
    [[79, 8, 13], [7, 83, 10], [14, 9, 77]]
    """
    from counterplay.tables import Labels, Table
    from counterplay.tables.labels import as_labels

    n = len(Table.of(X))
    known = Labels.of(y, rows=n)
    labels, classes = known.values, as_labels(known.classes)
    agents = check_positive_int(n_agents, "n_agents")
    share = _own_fraction(own_fraction, q, convention)
    if agents > n:
        raise InvalidInputError(
            f"{n} rows are too few for {shorten(agents)} agents; use fewer agents"
        )
    rng = generator(random_state)
    own, own_classes = _own_rows(labels, classes, agents, rng)
    if equalise:
        smallest = min(len(rows) for rows in own)
        own = [rows[:smallest] for rows in own]
    if min(len(rows) for rows in own) == 0:
        raise InvalidInputError(
            f"{len(labels)} rows of {len(classes)} classes are too few for {agents} agents; "
            "use fewer agents"
        )
    keep = [round(share * len(rows)) for rows in own]
    pool = rng.permutation(np.concatenate([rows[k:] for rows, k in zip(own, keep)]))
    agent_of_row = np.full(len(labels), NOBODY, dtype=np.int64)
    for agent, (rows, k, part) in enumerate(zip(own, keep, np.array_split(pool, agents))):
        agent_of_row[rows[:k]] = agent
        agent_of_row[part] = agent
    return HeterogeneousSplit(agent_of_row, labels, classes, own_classes, share)


def _own_fraction(own_fraction: float | None, q: float | None, convention: str | None) -> float:
    """Return the share of own rows from whichever of the two ways was used."""
    if (own_fraction is None) == (q is None):
        raise InvalidInputError("give own_fraction, or q together with convention, not both")
    if q is None:
        if convention is not None:
            raise InvalidInputError("convention says what q means; own_fraction needs none")
        return check_fraction(own_fraction, "own_fraction")
    if convention is None:
        raise InvalidInputError(
            "q needs convention='figures' (own_fraction = q) or 'formula' (own_fraction = 1 - q): "
            "the source uses both"
        )
    check_choice(convention, "convention", ("figures", "formula"))
    value = check_fraction(q, "q")
    return value if convention == "figures" else 1.0 - value


def _own_rows(
    labels: NDArray[Any], classes: NDArray[Any], agents: int, rng: np.random.Generator
) -> tuple[list[NDArray[np.int64]], tuple[tuple[Any, ...], ...]]:
    """Return each agent's own rows in random order, and which classes they are of."""
    of_class = [rng.permutation(np.flatnonzero(labels == c)) for c in classes]
    c = len(classes)
    if agents >= c:  # agent i takes class i mod C; agents of the same class share its rows
        parts: list[list[NDArray[np.int64]]] = [[] for _ in range(agents)]
        for j, rows in enumerate(of_class):
            holders = range(j, agents, c)
            for holder, part in zip(holders, np.array_split(rows, len(holders))):
                parts[holder].append(part)
        names = tuple((classes.tolist()[i % c],) for i in range(agents))
    else:
        parts = [of_class[i::agents] for i in range(agents)]
        names = tuple(tuple(classes[i::agents].tolist()) for i in range(agents))
    return [rng.permutation(np.concatenate(p)) for p in parts], names
