"""What the labels say about a transformation, for a person to read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.errors import InvalidInputError
from counterplay.invariance.clashes import Clash, draw_clashes
from counterplay.invariance.label_test import LEAST_TUPLES, LabelTest
from counterplay.invariance.naturalness import Naturalness
from counterplay.invariance.residual_test import LEVEL, ResidualTest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Verdict = Literal["not testable", "violated", "holds up to eta0", "no violation seen"]
ASSUMPTION = (
    "Assumes (R1) that labels of natural rows do not disagree less when rows are farther apart, "
    "and (R2) that they disagree no less around a row and around its counterpart than around the "
    "transformed row. Distances are those of the embedding (feats=)."
)

# Largest number of true symmetries called violated at level .05 in a cell of the study
# invariance/symmetry-size: data that had no part in tuning the test, 200 runs per cell.
_REJECTED = {"one": 13, "several": 2}
_MANY = 0.2  # share of testable rows from which a test fails for want of rows


@checked
@dataclass(frozen=True)
class SymmetryCheck(Report):
    """What the labels say about a transformation.

    Attributes
    ----------
    verdict:
        "not testable", "violated", "holds up to eta0" or "no violation seen".
    p_value:
        Of "labels do not change", under the assumption.
    eta:
        Range of the two point estimates of the violation rate. For numbers instead of classes every
        rate is half the mean squared change of y, divided by its variance; it may exceed 1.
    eta_low:
        Lower bound of the violation rate (total variation for noisy labels at a distance).
    eta_high:
        Upper bound; needs in addition that no label change undoes a violation: it is too small
        where more than about half of the rows violate. ``eta_safe`` is not.
    eta_safe:
        Upper bound for any label noise: "holds up to eta0" rests on it.
    testable_share:
        Share of moved rows whose image lies among natural rows; every eta is of this part.
    n_tuples:
        Disjoint comparisons.
    conflicts:
        Table: label, lands_among, count.
    natural:
        Whether transformed rows can be told from natural ones.
    per_element:
        Table by element, for groups of at most 16.
    assumption:
        What the numbers rest on.
    clashes:
        Up to four comparisons behind the largest conflicts, to be looked at.
    shape:
        Shape of one picture, where rows are pictures.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from counterplay.invariance import check_symmetry, groups
    >>> X, y = load_digits(return_X_y=True)
    >>> check_symmetry(X, y, groups.image_flips((8, 8), ["vertical"]), random_state=0).verdict
    'violated'
    """

    verdict: Verdict
    p_value: float
    eta: tuple[float, float]
    eta_low: float
    eta_high: float
    eta_safe: float
    testable_share: float
    n_tuples: int
    conflicts: pd.DataFrame
    natural: Naturalness | None
    per_element: pd.DataFrame
    fixed_share: float = 0.0
    eta0: float = 0.05
    alpha: float = 0.05
    method: str = "neighbours"
    detectable: float = 1.0
    assumption: str = ASSUMPTION
    test: LabelTest | None = field(default=None, repr=False)
    residual: ResidualTest | None = None
    clashes: tuple[Clash, ...] = field(default=(), repr=False)
    shape: tuple[int, ...] | None = None

    def to_frame(self) -> pd.DataFrame:
        """One row with all numbers."""
        natural = self.natural
        return pd.DataFrame(
            {
                "verdict": [self.verdict],
                "p_value": [self.p_value],
                "eta_low": [self.eta_low],
                "eta_high": [self.eta_high],
                "eta_safe": [self.eta_safe],
                "testable_share": [self.testable_share],
                "n_tuples": [self.n_tuples],
                "natural_accuracy": [np.nan if natural is None else natural.accuracy],
                "method": [self.method],
            }
        )

    def summary(self) -> str:
        """The verdict in words, the share it is about, the clashes, and what it rests on."""
        lines = [f"Labels: {self.verdict}. {self._sentence()}"]
        if self.method == "residual" and self.residual is not None:
            lines.append(
                f"Residual test, overlap {self.residual.overlap:.2f}: indicative only, its size at "
                f"small n exceeds the level; violated means p <= {LEVEL:g}."
            )
        elif self.verdict != "not testable":
            lines.append(
                f"{self.testable_share:.0%} of the moved rows are testable ({self.n_tuples} "
                f"comparisons); {self._rates()}"
            )
            if not self.about_numbers:
                lines.append(self._calibration())
        top = self.conflicts.head(3).to_numpy().tolist()
        clash = [f"{own} -> {other} ({count})" for own, other, count in top]
        if clash:
            look = " Look at them: plot_clashes()." if self.clashes and self.shape else ""
            lines.append("Most frequent clashes: " + ", ".join(clash) + f".{look} If these look "
                         "wrong, the distances are at fault: pass feats=.")  # fmt: skip
        if self.fixed_share > 0:
            lines.append(f"{self.fixed_share:.0%} of the rows are left as they are.")
        if self.natural is not None:
            lines.append(_natural_sentence(self.natural))
        lines.append(self.assumption)
        return "\n".join(lines)

    @property
    def about_numbers(self) -> bool:
        """Whether labels are numbers, so that rates are squared changes, not shares of rows."""
        return self.test is not None and any(r.scale != 1.0 for r in self.test.repeats)

    def _rates(self) -> str:
        if self.about_numbers:
            return (
                f"half the mean squared change of y on these is {self.eta_low:.2f} to "
                f"{self.eta_high:.2f} times its variance (the upper end only if no other change "
                f"undoes it), at most {self.eta_safe:.2f} for any noise of y."
            )
        return (
            f"of these {self.eta_low:.1%} to {self.eta_high:.1%} change label (the upper end only "
            "if few do, and no other change of label undoes it), at most "
            f"{self.eta_safe:.1%} for any label noise."
        )

    def _calibration(self) -> str:
        """What was measured about the p-value."""
        one = self.test is not None and len(self.test.repeats) == 1
        wrong = _REJECTED["one" if one else "several"]
        return (
            "The p-value is calibrated on other real data (default settings, level .05): at most "
            f"{wrong} of 200 runs called a true symmetry violated. It misses small violations "
            "where neighbours often differ in label."
        )

    def _sentence(self) -> str:
        if self.verdict == "not testable" and self.testable_share >= _MANY:
            return (
                f"{self.testable_share:.0%} of the moved rows have a transformed version that "
                f"looks like your data, but only {self.n_tuples} disjoint comparisons can be made "
                f"of so few rows; {LEAST_TUPLES} are needed."
            )
        if self.verdict == "not testable":
            return (
                f"Only {self.n_tuples} of your rows have a transformed version that looks like "
                "your data; the labels cannot confirm or refute this symmetry."
            )
        if self.verdict == "violated":
            return f"p = {self.p_value:.2g}: labels change under this transformation."
        if self.about_numbers and self.verdict == "holds up to eta0":
            return (
                "Half the mean squared change of y on the testable rows is at most "
                f"{self.eta_safe:.3f} (< {self.eta0:g}) times its variance."
            )
        if self.about_numbers:
            return f"p = {self.p_value:.2g}. That is not a proof: small changes are not seen."
        if self.verdict == "holds up to eta0":
            return f"At most {self.eta_safe:.1%} (< {self.eta0:.0%}) of the testable rows change."
        return (
            f"p = {self.p_value:.2g}. That is not a proof: even if spread evenly, a violation rate "
            f"below about {self.detectable:.0%} would not have been seen (80 % power)."
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Counts of the largest clashes, or the interval where there is none."""
        with figure_style():
            axes = axes_or_new(ax)
            shown = self.conflicts.head(8)
            what = "squared change / 2 variance" if self.about_numbers else "violation rate"
            names = [f"{a} → {b}" for a, b in zip(shown["label"], shown["lands_among"])]
            axes.barh(np.arange(len(shown)), shown["count"], color=PALETTE[1])
            axes.set_yticks(np.arange(len(shown)), names)
            axes.invert_yaxis()
            axes.set(
                xlabel="comparisons (all repeats)",
                title=f"{self.verdict}: {what} {self.eta_low:.2f} to {self.eta_high:.2f}",
            )
        return axes

    def plot_clashes(self, ax: Axes | None = None) -> Axes:
        """Pictures that land among another label: the row, its image, the nearest row.

        If these look wrong, the distances are at fault and not the labels: pass ``feats=``.
        """
        if not self.clashes or self.shape is None or len(self.shape) < 2:
            why = "no clash was seen" if self.shape is not None else "rows are not pictures"
            raise InvalidInputError(f"there are no pictures to show: {why}")
        return draw_clashes(self.clashes, self.shape, ax)


def _natural_sentence(natural: Naturalness) -> str:
    told = f"Transformed rows are told from natural ones in {natural.accuracy:.0%} of pairs"
    if natural.looks_natural:
        return f"{told}: they look natural."
    return f"{told} (total variation at least {natural.tv_low:.2f})."
