"""The advisor on real data: every way to use a symmetry, what it chose, what it promised.

Source: docs/theory/22-symmetry.md, "The race and the corrected error".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.studies.invariance.symmetry_settings import BUNDLED, Task, available, task
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


_MANY = 10  # settings over which means are taken
_SETS = 20  # random training sets of every setting


def advice_grid(scale: Scale) -> Sequence[Params]:
    """Settings and random training sets."""
    if scale == "quick":
        return [{"setting": BUNDLED[0], "set": 0}]
    return [{"setting": name, "set": r} for r in range(_SETS) for name in available()]


def advice_cell(params: Params, seed: int) -> Record:
    """Test errors of the advisor and of all candidates, fitted on one training set."""
    from counterplay.invariance import symmetry_advisor
    from counterplay.invariance.advisor_families import CANDIDATES

    one = task(str(params["setting"]), seed)
    advice = symmetry_advisor(one.model, one.X, one.y, one.group, future=one.future, check=False,
                              random_state=seed)  # fmt: skip
    out: dict[str, float | str | int] = {
        "advisor": 1 - float(advice.model.score(one.X_test, one.y_test)),
        "promised": advice.error, "naive": advice.naive_error,
        "low": advice.error_low, "high": advice.error_high,
        "recommendation": advice.recommendation, "verdict": advice.verdict,
        "fits_used": advice.fits_used, "fits_full": advice.fits_full,
    }  # fmt: skip
    tried = set(advice.to_frame()["candidate"])
    alone = fitted(one, tried, seed)
    errors = {name: 1 - float(m.score(one.X_test, one.y_test)) for name, m in alone.items()}
    return {**out, **{name: errors.get(name, float("nan")) for name in CANDIDATES}}


def fitted(one: Task, names: set[str], seed: int) -> dict[str, Any]:
    """Candidates fitted on the training rows, without any search."""
    from counterplay.invariance.advisor_families import FAMILIES, Maker
    from counterplay.invariance.images import Form

    maker = Maker(one.model, one.group, Form(one.X.shape[1]), seed)
    out: dict[str, Any] = {}
    for family, members in FAMILIES.items():
        if names & set(members):
            out |= maker.fit(family, one.X, one.y, None)
    return {name: model for name, model in out.items() if name in names}


def _by_setting(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean errors, regret with its standard error, promise minus truth."""
    from counterplay.invariance.advisor_families import CANDIDATES

    rows = []
    for name, part in frame.groupby("setting", sort=False):
        means = part[[*CANDIDATES]].mean()
        best = str(means.idxmin())
        gap = part["advisor"] - part[best]
        spread = float(gap.std(ddof=1) / np.sqrt(len(part))) if len(part) > 1 else 0.0
        rows.append(
            {"setting": name, **means, "advisor": part["advisor"].mean(), "best": best,
             "regret": gap.mean(), "se": spread, "promised": part["promised"].mean(),
             "excess": (part["promised"] - part["advisor"]).mean(),
             "fits": f"{part['fits_used'].mean():.0f}/{part['fits_full'].mean():.0f}"}
        )  # fmt: skip
    import pandas as pd

    return pd.DataFrame(rows)


def advice_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Regret, honesty, and no symmetry where it harms."""
    table = _by_setting(frame)
    near = table["regret"] <= 0.01 + 2 * table["se"]
    out = [
        Verdict("22.13", "Within .01 + 2 standard errors of the best candidate in hindsight.",
                f"{int(near.sum())} of {len(near)} settings", "all but two",
                bool((~near).sum() <= 2)),
    ]  # fmt: skip
    if len(table) >= _MANY:
        excess, low = float(table["excess"].mean()), int((table["excess"] < -0.005).sum())
        out += [
            at_most("22.13", "The mean regret is small.", float(table["regret"].mean()), 0.008),
            Verdict("22.14", "The corrected error is honest on average.",
                    f"promised minus true {excess:+.4f}", "in [0, .02]", 0 <= excess <= 0.02),
            Verdict("22.14", "It is rarely too low.",
                    f"{low} settings more than .005 below the truth", "at most one", low <= 1),
        ]  # fmt: skip
    return [*out, *_twin_verdicts(frame, table)]


def _twin_verdicts(frame: pd.DataFrame, table: pd.DataFrame) -> list[Verdict]:
    """Settings in which a change of model looks like a gain from the symmetry, or it harms."""
    out = []
    means = table.set_index("setting")
    if "digits, quarter turns, LR" in means.index:
        error = float(means.loc["digits, quarter turns, LR", "advisor"])
        words = "Turned digits, logistic regression."
        out.append(Verdict("22.11", words, f"{error:.4f}", "<= .045", error <= 0.045))
        out.append(_within(means, "digits, quarter turns, LR", "canonical", "augment", 2.0))
    for name in ("digits, quarter turns, LR", "EMNIST A-L, quarter turns, LR"):
        if name in means.index:
            out.append(_within(means, name, "kernel", "kernel, augmented", 1.0))
    upright = frame[frame["setting"] == "digits upright, quarter turns, forest"]
    if len(upright):
        credited = int((upright["verdict"] == "use invariant learner").sum())
        out.append(Verdict("22.12", "Upright digits: the symmetry is not credited.",
                           f"{credited} of {len(upright)}", "0", credited == 0))  # fmt: skip
        error = float(upright["advisor"].mean())
        out.append(_often("Upright digits: the kernel without the symmetry is recommended.",
                          upright["recommendation"] == "kernel, no symmetry"))  # fmt: skip
        out.append(at_most("22.12", "Upright digits: error of the advisor.", error, 0.03))
    rolled = frame[frame["setting"] == "Spambase, words rolled, LR"]
    if len(rolled):
        gap = float((rolled["advisor"] - rolled["plain"]).mean())
        out.append(_often('Words rolled: "do not augment".', rolled["verdict"] == "do not augment"))
        out.append(at_most("22.12", "Words rolled: near the plain model.", gap, 0.005))
    return out


def _within(means: pd.DataFrame, name: str, way: str, copies: str, factor: float) -> Verdict:
    """Errors of one model: a way to use the symmetry against stacked copies."""
    mine, theirs = float(means.loc[name, way]), float(means.loc[name, copies])
    words = f"{name}: {way} against the same model on copies."
    return Verdict("22.11", words, f"{mine:.4f} / {theirs:.4f}", f"ratio at least {factor:g}",
                   factor * mine <= theirs)  # fmt: skip


def _often(words: str, said: pd.Series[bool]) -> Verdict:
    """The answer in nearly all training sets: nine of ten."""
    return Verdict("22.12", words, f"{int(said.sum())} of {len(said)} training sets",
                   "nine of ten", bool(said.mean() >= 0.9))  # fmt: skip


def advice_figure(frame: pd.DataFrame) -> Figure:
    """Test errors of all candidates (circles; hollow: without the symmetry), of the model that the
    advisor chose (bar) and what it promised (green). Means over random training sets.
    """
    from counterplay.invariance.advisor_families import CANDIDATES, SYMMETRIC

    table = _by_setting(frame)
    figure, (ax,) = panels(1, width=8.0, height=0.42 * len(table) + 1.6)
    for place, row in enumerate(table.to_dict(orient="records")):
        for name in CANDIDATES:
            known = name in SYMMETRIC
            ax.plot(row[name], place, "o", color=PALETTE[0] if known else PALETTE[1], ms=5,
                    mfc=None if known else "white")  # fmt: skip
        ax.plot(row["advisor"], place, "|", color="black", ms=16, mew=2)
        ax.plot(row["promised"], place, "d", color=PALETTE[2], ms=6)
    styles: dict[str, dict[str, Any]] = {
        "uses the symmetry": {"marker": "o", "color": PALETTE[0]},
        "does not": {"marker": "o", "color": PALETTE[1], "mfc": "white"},
        "the advisor": {"marker": "|", "color": "black"},
        "its promise": {"marker": "d", "color": PALETTE[2]},
    }
    for label, style in styles.items():
        ax.plot([], [], ls="", label=label, **style)
    ax.set_yticks(np.arange(len(table)), table["setting"], fontsize=8)
    ax.invert_yaxis()
    ax.set(xlabel="test error", xlim=(0, None))
    ax.legend(fontsize=8)
    return figure


ADVICE = Study(
    name="advisor",
    title="What to do with a symmetry, on real data",
    question=(
        "Boards, pictures, sets and tables, with true, approximate and wrong symmetries: how far "
        "is the advisor's model from the best one in hindsight, and is its error honest?"
    ),
    claims=("22.11", "22.12", "22.13", "22.14"),
    grid=advice_grid,
    cell=advice_cell,
    verdicts=advice_verdicts,
    figures={"advisor": advice_figure},
    version=4,
)
