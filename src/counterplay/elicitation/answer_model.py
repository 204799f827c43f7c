"""Wrong answers of a model with unknown lapse and temperature: bounds of its likelihood.

The mixture's likelihood over the likelihood of the true preference and noise is a martingale, so
preferences whose best likelihood over all noise is too far below the mixture's are excluded. On a
cell and a box of noise every term of an answer is bounded at the end that favours the answer.
Source: docs/theory/26-people.md, "Unknown noise".
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplay.elicitation.forecast import LAPSE_EDGES, TEMPERATURE_EDGES


@njit(cache=True)
def _share(d, temperature):  # type: ignore[no-untyped-def]  # compiled by numba
    """``exp(-d / temperature)``, at temperature 0 as a limit."""
    if temperature == 0.0:
        return 0.0 if d > 0.0 else (1.0 if d == 0.0 else np.inf)
    return np.exp(min(-d / temperature, 700.0))


@njit(cache=True)
def best_likelihood(high, sizes):  # type: ignore[no-untyped-def]
    """Largest log likelihood over all boxes of noise, given the largest difference in favour of
    the answer against every other option, ``high`` (t, 3)."""
    boxes = (LAPSE_EDGES.size - 1) * (TEMPERATURE_EDGES.size - 1)
    total = np.zeros(boxes)
    for s in range(sizes.size):
        m = sizes[s] + 1
        for t in range(TEMPERATURE_EDGES.size - 1):
            rest = 1.0
            for b in range(sizes[s]):
                d = high[s, b]
                # a cold person likes what is better, a hot one what is worse
                rest += _share(d, TEMPERATURE_EDGES[t] if d > 0.0 else TEMPERATURE_EDGES[t + 1])
            chosen = 1.0 / rest
            for at in range(LAPSE_EDGES.size - 1):
                # linear in the lapse: the larger of its two ends
                low, top = LAPSE_EDGES[at] / (m - 1), LAPSE_EDGES[at + 1] / (m - 1)
                p = max(low + (1.0 - m * low) * chosen, top + (1.0 - m * top) * chosen)
                total[at * (TEMPERATURE_EDGES.size - 1) + t] += np.log(max(p, 1e-300))
    return total.max()


@njit(cache=True)
def known_likelihood(gaps, sizes):  # type: ignore[no-untyped-def]
    """Log likelihood at the best corner of the boxes: a lower bound of the best likelihood."""
    best = -np.inf
    for t in range(1, TEMPERATURE_EDGES.size):
        for at in range(LAPSE_EDGES.size):
            total = 0.0
            for s in range(sizes.size):
                m = sizes[s] + 1
                rest = 1.0
                for b in range(sizes[s]):
                    rest += _share(gaps[s, b], TEMPERATURE_EDGES[t])
                slip = LAPSE_EDGES[at] / (m - 1)
                total += np.log(max(slip + (1.0 - m * slip) / rest, 1e-300))
            best = max(best, total)
    return best
