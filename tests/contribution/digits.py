"""A small cohort of noisy digits that several tests train on, as a user writes it."""

from __future__ import annotations

import numpy as np

from counterplay.contribution.lab import DigitsNetwork, noisy_digits
from counterplay.core.draws import run_keys

KEYS = run_keys(3, 4)
NET = DigitsNetwork()
COHORT = noisy_digits(KEYS, size=300, train=200)
START = NET.start(KEYS)


def largest_difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(abs(np.asarray(a) - np.asarray(b)).max())
