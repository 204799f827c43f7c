"""Dimensions by definition, for tiny classes."""

from itertools import combinations

import numpy as np


def brute_vc(values: np.ndarray, allowed: object = lambda points: True) -> int:
    best = 0
    for k in range(1, len(values).bit_length()):  # k points need 2^k rows
        for points in combinations(range(values.shape[1]), k):
            patterns = {tuple(row) for row in values[:, points].tolist() if 2 not in row}
            if len(patterns) == 2**k and allowed(points):  # type: ignore[operator]
                best = k
                break
    return best
