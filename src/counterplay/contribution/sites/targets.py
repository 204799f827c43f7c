"""What a site is promised: a score of its own, or little less than pooling everything gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.contribution.sites.scoring import to_error
from counterplay.core.validation import FloatArray, shorten
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.tables.cells import shown

if TYPE_CHECKING:
    from counterplay.contribution.sites.curves import SiteCurves

WITHIN = 0.01
"""The promise where none is stated, and where an absolute one cannot be checked."""


@dataclass(frozen=True)
class Targets:
    """One promise per site: ``within`` (points below pooling) or ``least`` (a score), else NaN."""

    within: FloatArray
    least: FloatArray
    text: str

    @property
    def relative(self) -> np.ndarray:
        """Which promises are relative to pooling everything."""
        return np.isfinite(self.within)

    def errors(self, curves: SiteCurves, cap: FloatArray | None = None) -> FloatArray:
        """Largest error per curve that keeps the promise, at the estimates, in its own units."""
        own = list(curves.scored)
        pooled = curves.errors(curves.points.owned.astype(float) if cap is None else cap)
        absolute = to_error(self.least[own], curves.points.metric) * curves.scale
        return np.where(self.relative[own], pooled + self.within[own] * curves.scale, absolute)

    def named(self, i: int) -> str:
        """The promise of site ``i`` as a user writes it."""
        if self.relative[i]:
            return f"within={self.within[i]:g}"
        return f"{self.text.split('=')[0] if '=' in self.text else 'score'}={self.least[i]:g}"


def read_targets(target: Any, names: Sequence[str], metric: str) -> Targets:
    """Read ``"within=0.01"``, ``"accuracy=0.85"`` or a dictionary from sites to either."""
    within, least = np.full(len(names), np.nan), np.full(len(names), np.nan)
    if isinstance(target, str):
        given = dict.fromkeys(names, target)
        text = target
    elif isinstance(target, Mapping):
        for name in target:
            if name not in names:
                raise UnknownNameError.among("site", str(name), names)
        given = {name: target.get(name, f"within={WITHIN}") for name in names}
        text = "of their own"
    else:
        raise InvalidInputError(f"target must be {_forms(metric)}, got {shorten(target, 60)}")
    for i, name in enumerate(names):
        kind, value = _parse(given[name], metric)
        (within if kind == "within" else least)[i] = value
    return Targets(within, least, text)


def _parse(text: Any, metric: str) -> tuple[str, float]:
    kind, _, number = str(text).partition("=")
    kind = kind.strip()
    try:
        value = float(number)
    except ValueError:
        value = np.nan
    if kind not in ("within", metric) or not np.isfinite(value):
        raise InvalidInputError(f"target must be {_forms(metric)}, got {shown(text, 60)}")
    if kind == "within" and not 0.0 <= value <= 1e3:
        raise InvalidInputError(
            f"within must not be negative, got {shown(text, 60)}; it is how far below pooling "
            "everything a site may end"
        )
    if kind != "within" and metric != "neg_log_loss" and not 0.0 < value < 1.0:
        raise InvalidInputError(f"{kind} must be between 0 and 1, got {shown(text, 60)}")
    return kind, value


def _forms(metric: str) -> str:
    example = "neg_log_loss=-0.4" if metric == "neg_log_loss" else f"{metric}=0.85"
    return f"'within=0.01', '{example}' or a dictionary from sites to these"
