"""Pictures of a fitted log: the response band, and our money, over the offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, axes_or_new, figure_style
from counterplay.core.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from counterplay.principal.offer_fit import OfferFit

_POINTS = 401


def _grid(fit: OfferFit) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Offers between the extremes tried, with the limits of the response."""
    powers = fit.log.distinct[1]
    fine = np.unique(np.concatenate([powers, np.linspace(powers[0], powers[-1], _POINTS)]))
    low, high = fit.band.lower(fine), fit.band.upper(fine)
    if not fit.monotone:  # limits of single groups only
        low, high = (np.where(np.isfinite(high), v, np.nan) for v in (low, high))
    return fit.terms.offer(fine), low, np.where(np.isfinite(high), high, np.nan)


def _offer_label(fit: OfferFit) -> str:
    named = fit.log.offer == fit.terms.kind
    return fit.log.offer if named else f"{fit.log.offer} ({fit.terms.kind})"


def draw_response(fit: OfferFit, ax: Axes | None = None, truth: Any = None) -> Axes:
    """Draw means as points and the band as steps; ``truth`` is a response to compare with."""
    with figure_style():
        axes = axes_or_new(ax)
        if not fit.terms.ordered:
            return _draw_arms(fit, axes, fit.response(), fit.log.outcome)
        x, low, high = _grid(fit)
        axes.fill_between(x, low, high, step="mid", color=PALETTE[0], alpha=0.2, label="limits")
        means = fit.band.groups
        middle = fit.terms.offer((means.low + means.high) / 2)
        axes.plot(middle, means.mean, "o", color=PALETTE[0], label="means")
        tried = fit.response([fit.log.distinct[0][i] for i in fit.candidates])
        known = np.isfinite(tried["upper"])
        ends = tried["lower"][known], tried["upper"][known]
        axes.vlines(tried["offer"][known], *ends, color=PALETTE[0], linewidth=1.5)
        if truth is not None:
            axes.plot(x, [truth(v) for v in x], **THEORY, label="truth")
        axes.set_xlabel(_offer_label(fit))
        axes.set_ylabel(f"{fit.log.outcome} per round")
        axes.set_ylim(bottom=min(0.0, fit.band.floor))
        axes.legend()
        return axes


def draw_value(fit: OfferFit, ax: Axes | None = None) -> Axes:
    """Draw our money per round with winner, safe offer and the promise."""
    with figure_style():
        axes = axes_or_new(ax)
        unit = f" in {fit.currency}" if fit.currency else ""
        label = f"ours per round{unit}"
        if not fit.terms.ordered:
            return _draw_arms(fit, axes, fit.value(), label)
        x, low, high = _grid(fit)
        g = fit.terms.margin(x)
        axes.fill_between(x, g * low, g * high, step="mid", color=PALETTE[2], alpha=0.2)
        value = fit.value([fit.log.distinct[0][i] for i in fit.candidates])
        axes.plot(value["offer"], value["estimate"], "o", color=PALETTE[2], label="estimate")
        best, safe = fit.next_offer(), fit.next_offer("safe")
        axes.plot([best.offer], [best.estimate], "D", color=PALETTE[1], ms=9, label="winner")
        axes.plot([safe.offer], [safe.promise], "^", color=PALETTE[3], ms=9, label="safe: promise")
        axes.set_xlabel(_offer_label(fit))
        axes.set_ylabel(label)
        axes.set_ylim(bottom=min(0.0, float(np.nanmin(g * low))))
        axes.legend()
        return axes


def _draw_arms(fit: OfferFit, axes: Axes, frame: Any, label: str) -> Axes:
    at = np.arange(len(frame))
    gaps = [frame["estimate"] - frame["lower"], frame["upper"] - frame["estimate"]]
    axes.errorbar(frame["estimate"], at, xerr=np.array(gaps), fmt="o", color=PALETTE[0])
    axes.set_yticks(at, [str(name) for name in frame["offer"]])
    axes.set_ylabel(fit.log.offer)
    axes.set_xlabel(label)
    return axes
