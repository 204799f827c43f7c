"""People before they have answered: what is assumed about preferences when nothing is known.

The prior is an even mixture of symmetric Dirichlet distributions, from people who care about one
objective to people who care about all of them alike. It ranks questions and guesses only;
certificates hold for every consistent preference, however unlikely.
Source: docs/theory/08-elicitation.md, "The adaptive questionnaire".
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import gammaln

from counterplay.core.validation import FloatArray

ENOUGH = 128  # with fewer people left, preferences are sampled from the consistent set
_CONCENTRATIONS = (0.3, 1.0, 3.0)
_PEOPLE = 3 * 2**12
_SEED = 8
_MOST = 30.0  # a sampled preference counts at most this often


@lru_cache(maxsize=32)
def population(k: int) -> FloatArray:
    """Return weights of many people, one per row, in random order; always the same ones.

    Examples
    --------
    >>> population(3).shape, bool(np.allclose(population(3).sum(axis=1), 1.0))
    ((12288, 3), True)
    """
    rng = np.random.default_rng(_SEED)
    concentration = np.repeat(_CONCENTRATIONS, _PEOPLE // len(_CONCENTRATIONS))
    parts = rng.standard_gamma(np.repeat(concentration[:, None], k, axis=1))
    parts = np.maximum(parts, 1e-300)  # very sparse weights may all round to 0
    people = rng.permutation(parts / parts.sum(axis=1, keepdims=True))
    people.setflags(write=False)
    return people


def prior_shares(weights: FloatArray) -> FloatArray:
    """Return how much each preference counts when they were sampled uniformly.

    Examples
    --------
    >>> shares = prior_shares(np.array([[0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]]))
    >>> bool(shares[0] > shares[1])
    True
    """
    k = weights.shape[1]
    logs = np.log(np.maximum(weights, 1e-12)).sum(axis=1)
    density = np.zeros(len(weights))
    for a, constant in _dirichlet_constants(k):
        density += np.exp(constant + (a - 1) * logs)
    density = np.minimum(density / len(_CONCENTRATIONS), _MOST)
    return np.asarray(density / density.sum())


@lru_cache(maxsize=128)
def _dirichlet_constants(k: int) -> list[tuple[float, float]]:
    """Concentrations and the logarithms of the factors that make their densities sum to 1."""
    return [(a, float(gammaln(k * a) - k * gammaln(a) - gammaln(k))) for a in _CONCENTRATIONS]
