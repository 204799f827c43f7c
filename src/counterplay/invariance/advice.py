"""What to do with a symmetry, for a person to read; the fitted model is in it.

Source: docs/theory/22-symmetry.md, "The race and the corrected error".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.invariance.advisor_families import SYMMETRIC, TWINS
from counterplay.invariance.linear_theory import TheoryView
from counterplay.invariance.symmetry_check import SymmetryCheck

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VerdictName = Literal["augment", "do not augment", "use invariant learner", "no difference"]
COLUMNS = ["candidate", "error", "seen", "survived", "twin", "p_against_twin"]


@checked
@dataclass(frozen=True)
class SymmetryAdvice(Report):
    """Which way to use a symmetry is best on your data, and the model.

    Attributes
    ----------
    model:
        The recommended candidate, fitted on all rows.
    recommendation:
        Its name; over everything, so it may be a change of model without any symmetry.
    verdict:
        About the symmetry alone, within one model: "augment", "do not augment", "use invariant
        learner" or "no difference".
    reason:
        Why.
    error:
        Expected loss of the recommended model on future rows of unseen orbits, corrected for the
        search (``error_low`` to ``error_high``: 95 % of the bootstrap).
    naive_error:
        Smallest cross-validated loss, not corrected.
    known_orbit_error:
        Loss with folds that do not keep orbits together, where known orbits are looked up; None
        where they are not.
    floor:
        Smallest natural error of any exactly invariant model, from orbits that repeat in the
        sample; None where none does.
    check:
        What the labels say; None if it was not asked for.
    theory:
        VC dimensions where they are known.
    rows:
        One row per candidate.
    notes:
        What was left out or done, and why.
    fits_by_fold:
        Number of families fitted in each fold.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from counterplay.invariance import groups, symmetry_advisor
    >>> from counterplay.invariance.lab import tic_tac_toe_endgames
    >>> X, y = tic_tac_toe_endgames()
    >>> pick = np.random.default_rng(0).permutation(len(X))[:150]
    >>> advice = symmetry_advisor(
    ...     DecisionTreeClassifier(random_state=0), X[pick], y[pick], groups.d4((3, 3)),
    ...     candidates=["vote", "augment", "canonical"], check=False, random_state=0)
    >>> advice.recommendation, bool(advice.model.score(X, y) > 0.95)
    ('canonical', True)
    """

    model: Any
    recommendation: str
    verdict: VerdictName
    reason: str
    error: float
    error_low: float
    error_high: float
    naive_error: float
    known_orbit_error: float | None
    floor: float | None
    check: SymmetryCheck | None
    theory: TheoryView
    rows: tuple[tuple[str, float, float, bool, str, float], ...]
    notes: tuple[str, ...]
    fits_used: int
    fits_full: int
    fits_by_fold: tuple[int, ...] = ()
    future: str = "natural"
    loss: str = field(default="error")

    def to_frame(self) -> pd.DataFrame:
        """One row per candidate: loss, share of rows seen, survival, comparison with its twin."""
        return pd.DataFrame(list(self.rows), columns=COLUMNS)

    def summary(self) -> str:
        """What to do, what to expect, and what the symmetry alone is worth."""
        lines = [
            f"Use: {self.recommendation}. Expected {self.loss} on {self.future} rows "
            f"{self.error:.3f} [{self.error_low:.3f}, {self.error_high:.3f}] (corrected for the "
            f"search; smallest of all candidates {self.naive_error:.3f}).",
            f"The symmetry: {self.verdict}. {self.reason}",
            *self._same_model(),
        ]
        if self.known_orbit_error is not None:
            lines.append(
                f"Known orbits are looked up: {self.known_orbit_error:.3f} where future rows may "
                "be of orbits that were seen; the number above is for unseen ones."
            )
        if self.check is not None:
            lines.append(self.check.summary().split("\n", maxsplit=1)[0])
        lines += [self.theory.sentence(), *self.notes]
        lines.append(f"{self.fits_used} of {self.fits_full} fits.")
        lines.append(self.to_frame().to_string(index=False, float_format=lambda v: f"{v:.3f}"))
        return "\n".join(lines)

    def _same_model(self) -> list[str]:
        """The recommended candidate next to the same model without the symmetry."""
        errors = {name: error for name, error, *_ in self.rows}
        twins = [t for t in TWINS.get(self.recommendation, ()) if t in errors]
        if not twins:
            return []
        shown = ", ".join(f"{twin} {errors[twin]:.3f}" for twin in twins)
        return [f"Same model: {self.recommendation} {errors[self.recommendation]:.3f}; {shown}."]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Losses of all candidates; models without the symmetry are hollow."""
        with figure_style():
            frame = self.to_frame()
            axes = axes_or_new(ax, height=0.4 * len(frame) + 1.6)
            for place, row in enumerate(frame.itertuples()):
                symmetric = row.candidate in SYMMETRIC
                axes.plot(
                    row.error, place, "o" if row.survived else "x",
                    color=PALETTE[0] if symmetric else PALETTE[1],
                    mfc=None if symmetric else "white",
                )  # fmt: skip
            best = frame["candidate"].tolist().index(self.recommendation)
            axes.plot([self.error_low, self.error_high], [best, best], color=PALETTE[2], lw=2)
            axes.set_yticks(np.arange(len(frame)), frame["candidate"])
            axes.invert_yaxis()
            axes.set(
                xlabel=f"cross-validated {self.loss} (hollow: no symmetry, x: dropped)",
                title=f"Use {self.recommendation}; symmetry: {self.verdict}",
            )
        return axes
