"""The golden transcript: one sample, every learner, fixed seed."""

from __future__ import annotations

from pathlib import Path

from counterplay.invariance import instances
from counterplay.invariance.lab import (
    DA,
    ERM,
    AdaptiveRelaxed,
    ErmInv,
    OneInclusionInvariant,
    OneInclusionRelaxed,
)

GOLDEN = Path(__file__).parents[1] / "playthroughs" / "invariance_lower_bound.txt"


def playthrough() -> str:
    case = instances.da_lower_bound(3, 1 / 64, random_state=0)
    D = case.distribution
    lines = [repr(case), f"data points {D.points.tolist()}"]
    for m in (2, 8, 32):
        X, y = D.sample(m, m)
        lines.append(f"m = {m}: distinct points seen {sorted(set(X.tolist()))}")
        learners = {
            "ERM": ERM(case.problem),
            "DA": DA(case.problem),
            "ERM-INV": ErmInv(ERM(case.problem)),
            "one-inclusion, invariant": OneInclusionInvariant(case.problem),
            "one-inclusion, relaxed": OneInclusionRelaxed(case.problem),
            "adaptive": AdaptiveRelaxed(case.problem, practical=True, random_state=0),
        }
        for name, learner in learners.items():
            lines.append(f"  {name:26} error {D.error_of(learner.fit(X, y)):.4f}")
        kinds = OneInclusionRelaxed(case.problem).fit(X, y).certify(D.points)
        lines.append(f"  relaxed certificates: {' '.join(kinds.kinds)}")
    return "\n".join(lines) + "\n"


def test_playthrough_is_unchanged() -> None:
    assert playthrough() == GOLDEN.read_text(encoding="utf-8")
