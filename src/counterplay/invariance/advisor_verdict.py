"""What the symmetry alone is worth: comparisons within one model, and the words for them.

Source: docs/theory/22-symmetry.md, "The race and the corrected error".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.invariance.advice import VerdictName
from counterplay.invariance.advisor_families import COPIES, SYMMETRIC, TWINS
from counterplay.invariance.advisor_race import Race
from counterplay.invariance.discovery import holm
from counterplay.invariance.symmetry_check import SymmetryCheck

_LEVEL = 0.05  # of the comparison within a model


def within_one_model(race: Race, chosen: str) -> tuple[VerdictName, str]:
    """Compare within one model: a symmetric candidate with the same model without the group."""
    tried = [
        c for c in race.candidates if c in TWINS and any(t in race.candidates for t in TWINS[c])
    ]
    models = {"base": [c for c in tried if "plain" in TWINS[c]], "features": ["features"],
              "kernel": ["kernel"]}  # fmt: skip
    best = {m: min((c for c in cs if c in tried), key=race.mean, default="")
            for m, cs in models.items()}  # fmt: skip
    kinds = [m for m, c in best.items() if c]
    p = [max(race.p_value(best[m], t) for t in TWINS[best[m]] if t in race.candidates)
         for m in kinds]  # fmt: skip
    adjusted = dict(zip(kinds, holm(np.array(p)))) if kinds else {}
    own = next((m for m, c in best.items() if c == chosen), "")
    setting = _setting(race)
    if own and adjusted.get(own, 1.0) <= _LEVEL:
        why = "it uses the orbit of the row, which augmentation cannot (Thm. 11.4)"
        return (
            "use invariant learner",
            f"{chosen} beats the same model without it: {why}. {setting}",
        )
    better, worse = _copies_against_plain(race)
    if better <= _LEVEL:
        return "augment", f"Copies lower the error of the same model (Thms. 11.1, 11.3). {setting}"
    if worse <= _LEVEL and chosen not in SYMMETRIC:
        return "do not augment", f"Copies raise the error of the same model (Thm. 11.5). {setting}"
    why = f"These data show no difference within one model. {_early(race)}{setting}"
    return "no difference", why


def _early(race: Race) -> str:
    """What the race did not let these comparisons see; empty if nothing."""
    gone = [c for c in ("plain", *COPIES) if c in race.candidates and c not in race.living]
    if not gone:
        return ""
    seen = min(float((~np.isnan(race.losses[c])).mean()) for c in gone)
    names = " and ".join(gone)
    return f"({names} lost the race and saw {seen:.0%} of the rows; race=None compares on all.) "


def _copies_against_plain(race: Race) -> tuple[float, float]:
    """P-values of "copies are better" and "copies are worse"; weights of copies are a choice."""
    tried = [c for c in COPIES if c in race.candidates]
    if not tried:
        return 1.0, 1.0
    better = min(1.0, len(tried) * min(race.p_value(c, "plain") for c in tried))
    return better, max(race.p_value("plain", c) for c in tried)


def _setting(race: Race) -> str:
    if len(race.training) < 2:
        return ""
    if race.training["augment"] <= 0.01:
        return "The model fits the augmented data: setting (i)."
    if race.training["plain"] <= 0.01:
        return "It fits the natural but not the augmented data: setting (ii), copies may hurt."
    return "The model fits neither natural nor augmented data: agnostic, setting (iii)."


def approximate(check: SymmetryCheck | None, future: Any, floor: float | None) -> str:
    """A warning where the labels violate the symmetry; empty where they do not, or it is usual."""
    if check is None or check.eta_low <= 0 or future == "transformed":
        return ""
    if check.about_numbers:
        return (
            " Your symmetry is approximate: half the mean squared change of y on the testable rows "
            f"is at least {check.eta_low:.2f} times its variance. Augmentation would plant wrong "
            "values."
        )
    text = (
        f" Your symmetry is approximate: at least {check.eta_low:.0%} of the testable rows change "
        "label"
    )
    if len(check.conflicts):
        top = check.conflicts.iloc[0]
        text += f" (most often {top['label']} -> {top['lands_among']})"
    text += ". Augmentation would plant wrong labels"
    if floor:
        text += f"; an exactly invariant model errs on at least {floor:.0%} of these rows"
    return text + "."


def candidate_row(race: Race, name: str) -> tuple[str, float, float, bool, str, float]:
    """A candidate in the table: loss, share of rows seen, survival, comparison with its twin."""
    twins = [twin for twin in TWINS.get(name, ()) if twin in race.candidates]
    if name in COPIES and "plain" in race.candidates:
        twins = ["plain"]
    worst = max(twins, key=lambda twin: race.p_value(name, twin), default="")
    p = race.p_value(name, worst) if worst else 1.0
    losses = race.losses[name]
    seen = float((~np.isnan(losses)).mean()) if losses.size else 0.0
    return name, race.mean(name), seen, name in race.living, worst, p
