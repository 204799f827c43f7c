"""What several studies of the area share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from counterplay.core.figures import PALETTE
from counterplay.core.stats import mean_interval
from counterplay.studies.study import Params, Verdict
from counterplay.studies.verdicts import covers

if TYPE_CHECKING:
    import pandas as pd

EPS = 1 / 64


def integer(params: Params, key: str) -> int:
    """A whole number among the parameters."""
    return int(params[key] or 0)


def plain_ticks(ax: Any, values: Sequence[int]) -> None:
    """Ticks at these values, written as plain numbers."""
    ax.set_xticks(values, [str(v) for v in values])
    ax.minorticks_off()


def draw_means(
    ax: Any,
    frame: pd.DataFrame,
    x: str,
    labels: Mapping[str, str],
    *,
    fmt: str | Sequence[str] = "o",
    shift: float = 1.0,
) -> None:
    """Means with two standard errors of the columns ``labels``, moved apart by factors."""
    for place, ((name, label), colour) in enumerate(zip(labels.items(), PALETTE)):
        groups = frame.groupby(x)[name]
        ax.errorbar(
            groups.mean().index * shift ** (place - 1.5), groups.mean(), 2 * groups.sem().fillna(0),
            fmt=fmt if isinstance(fmt, str) else fmt[place], capsize=3, color=colour, label=label,
        )  # fmt: skip


def on_curve(claim: str, statement: str, values: Any, exact: float) -> Verdict:
    """The exact value lies in the interval of the mean (at level 0.9999)."""
    return covers(claim, statement, mean_interval(values, 0.9999), exact)


def wrapped(base: Any, group: Any, X: Any, y: Any, *, on_conflict: Any = "raise") -> dict[str, Any]:
    """The fitted classifier, the augmented one, and the look-up and the vote on top of them."""
    from sklearn.frozen import FrozenEstimator

    from counterplay.invariance import AugmentedClassifier, ErmInvClassifier, OrbitVoteClassifier

    erm = FrozenEstimator(base.fit(X, y))
    da = FrozenEstimator(AugmentedClassifier(base, group).fit(X, y))
    models = {
        "erm": erm,
        "erm_inv": ErmInvClassifier(erm, group, on_conflict=on_conflict),
        "da": da,
        "da_inv": ErmInvClassifier(da, group, on_conflict=on_conflict),
        "da_vote": OrbitVoteClassifier(da, group),
    }
    return {name: model.fit(X, y) for name, model in models.items()}
