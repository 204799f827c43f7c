"""Check delivered labels: random items, one after the other, until the bound is shown.

Source: docs/theory/24-campaign.md, "The audit".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.audit import allowed_wrong, is_too_bad
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.session import Session
from counterplay.core.validation import IntArray, check_open_fraction
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.labeling.certificate import SKIPPED, FrozenVector, LabelCertificate
from counterplay.tables import Labels
from counterplay.tables.cells import listed, shown
from counterplay.tables.labels import label_values

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SKIP = "skip"
"""What a person says who does not know."""


@checked
class LabelAudit(Report, Session):
    """Audit of delivered labels: how many must be checked before you can vouch for them?

    Items come in random order. The bound may be read after every answer and stopped at will; a
    false certificate has probability at most one minus the confidence, whatever made the labels.

    Parameters
    ----------
    labels:
        The delivered labels, one per item, in any coding.
    max_error:
        Share of wrong labels that is tolerated.
    confidence:
        One minus the probability of a false certificate.
    order:
        Order in which items are checked; it must have been drawn at random, in secret.
    random_state:
        Seed of the order; leave it out in a real audit, so that nobody can guess what is checked.

    Examples
    --------
    >>> truth = np.arange(2000) % 3
    >>> delivered = np.where(np.arange(2000) % 100 == 0, 0, truth)
    >>> audit = LabelAudit(delivered, max_error=0.05, random_state=0)
    >>> while (item := audit.ask()) is not None:
    ...     audit.tell(item, truth[item])
    >>> audit.verdict, audit.checked
    ('at most 5 % wrong', 65)

    References
    ----------
    "The audit", Proposition 24.A, see docs/theory/24-campaign.md.
    """

    def __init__(
        self,
        labels: Any,
        *,
        max_error: float = 0.05,
        confidence: float = 0.95,
        order: Any = None,
        random_state: RandomState = None,
    ) -> None:
        self._read = Labels.of(labels, what="labels")
        n = len(self._read.codes)
        self.max_error = check_open_fraction(max_error, "max_error")
        self.confidence = check_open_fraction(confidence, "confidence")
        self._alpha = 1.0 - self.confidence
        places = _order(order, n, random_state)
        codes = self._read.codes.astype(np.int64)
        self._vector = FrozenVector(
            0, places, codes[places], n=n, max_error=self.max_error, alpha=self._alpha
        )
        self._answers: dict[int, Any] = {}
        self._codes: IntArray = np.full(n, -1, dtype=np.int64)
        self._bounds: list[float] = [self.certificate.bound]

    @property
    def events(self) -> tuple[tuple[int, Any], ...]:
        """Items and what was said about them, in order."""
        return tuple(self._answers.items())

    @property
    def checked(self) -> int:
        """Number of items checked so far."""
        return self._vector.checked

    @property
    def certificate(self) -> LabelCertificate:
        """What has been shown so far."""
        return self._vector.certificate("all labels", self.confidence)

    @property
    def verdict(self) -> str:
        """In words: enough, not yet, or too many wrong labels."""
        v = self._vector
        if v.is_certified():
            return f"at most {100 * self.max_error:g} % wrong"
        allowed = allowed_wrong(v.n, self.max_error)
        if is_too_bad(allowed, v.n, v.checked, v.wrong, self.max_error, self._alpha):
            return "too many wrong labels"
        return "not yet known"

    @property
    def labels(self) -> NDArray[Any]:
        """The delivered labels with the corrections that were found."""
        labels = [self._read.classes[code] for code in self._read.codes.tolist()]
        for item, label in self._answers.items():
            if not _is_skip(label):
                labels[item] = label
        return label_values(labels, "labels")

    def ask(self) -> int | None:
        """The position of the next item to check; None once the bound is shown or all are done."""
        v = self._vector
        if v.is_certified() or v.checked == len(v.items):
            return None
        return int(v.items[v.checked])

    def ahead(self, n: int) -> list[int]:
        """The next items, at most ``n`` and at most as many as the bound surely needs."""
        return [] if self.ask() is None else self._vector.to_check()[:n].tolist()

    def tell(self, item: Any, label: Any = ...) -> None:
        """Record what the item's label should be; ``"skip"`` counts as wrong."""
        current = self.ask()
        if label is ...:
            item, label = current, item
        if current is None:
            raise ProtocolError("the audit is finished; there is nothing to tell")
        if item != current:
            raise ProtocolError(f"item {shown(item)} was not asked; the open one is {current}")
        code = SKIPPED if _is_skip(label) else self._code(label)
        known = self._read.classes
        self._answers[current] = known[code] if 0 <= code < len(known) else label
        v = self._vector
        v.advance(lambda x: code if x == current else None)
        self._codes[current] = code
        v.note_answers(self._codes)
        self._bounds.append(self.certificate.bound)

    def result(self) -> LabelCertificate:
        """What has been shown so far."""
        return self.certificate

    def summary(self) -> str:
        """The verdict with its numbers."""
        skipped = sum(map(_is_skip, self._answers.values()))
        lines = [f"{self.verdict} ({len(self._read.codes)} labels)", str(self.certificate)]
        if skipped:
            lines.append(
                f"{skipped} of the checked items were skipped; a skip counts as a wrong label, "
                "for nothing shows that it is right"
            )
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per checked item: delivered label, answer, bound after it."""
        import pandas as pd

        items = list(self._answers)
        classes = self._read.classes
        return pd.DataFrame(
            {
                "delivered": [classes[self._read.codes[i]] for i in items],
                "answer": list(self._answers.values()),
                "bound": self._bounds[1:],
            },
            index=pd.Index(items, name="item"),
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the bound against the number of answers."""
        from counterplay.core.figures import axes_or_new

        axes = axes_or_new(ax)
        axes.step(range(len(self._bounds)), self._bounds, where="post", label="bound")
        axes.axhline(self.max_error, ls="--", color="0.4", label="to be shown")
        axes.set(xlabel="items checked", ylabel="share of wrong labels", ylim=(0, None))
        axes.legend()
        return axes

    def __repr__(self) -> str:
        return f"LabelAudit({len(self._read.codes)} labels, {self.checked} checked)"

    def _code(self, label: Any) -> int:
        try:
            given = Labels.of([label], what="the answer")
        except InvalidInputError:
            words = listed(self._read.classes)
            raise InvalidInputError(f"{shown(label)} is no label; labels are {words}") from None
        return _place(given.classes[0], self._read.classes)


def _place(label: Any, known: Sequence[Any]) -> int:
    """Position among the delivered classes, whether a number or its text; else a new class."""
    if label in known:
        return known.index(label)
    text = str(label).strip()
    for code, delivered in enumerate(known):
        flag = isinstance(delivered, bool)
        if text == str(delivered) or (flag and text.lower() == str(delivered).lower()):
            return code
    try:
        number = float(text)
    except ValueError:
        return len(known)
    same = [not isinstance(d, str | bool) and float(d) == number for d in known]
    return same.index(True) if True in same else len(known)


def _order(order: Any, n: int, random_state: RandomState) -> IntArray:
    if order is None:
        return generator(random_state).permutation(n).astype(np.int64)
    try:
        places = np.asarray(order).astype(np.int64)
    except (TypeError, ValueError):
        places = np.empty(0, dtype=np.int64)
    if places.shape != (n,) or not np.array_equal(np.sort(places), np.arange(n)):
        raise InvalidInputError(f"order must have every position from 0 to {n - 1} once")
    return places


def _is_skip(label: Any) -> bool:
    return isinstance(label, str) and label == SKIP
