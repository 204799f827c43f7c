"""Worked examples and hard instances of joint labelling campaigns.

Source: docs/theory/06-labeling.md, "Results".
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import check_int, check_positive_int, check_size, shorten
from counterplay.errors import InvalidInputError
from counterplay.labeling.model import PoolProblem


@checked
def threshold_example(*, five: bool = False) -> PoolProblem:
    """Four (or five) thresholds on seven points of two agents; alone each needs 2 queries.

    Examples
    --------
    >>> threshold_example().N, threshold_example(five=True).N
    (4, 5)
    """
    cuts = [0.2, 0.4, 0.5, 0.6, 0.8] if five else [0.2, 0.4, 0.6, 0.8]
    points = np.array([0.25, 0.5, 0.75, 0.3, 0.45, 0.55, 0.7])
    labels = points >= np.array(cuts)[:, None]
    return PoolProblem.from_labelings(
        labels,
        [1] * len(cuts),
        [[0, 1, 2], [3, 4, 5, 6]],
        exact=True,
        point_ids=[f"x={x:g}" for x in points],
    )


@checked
def gbs_counterexample(n: int, delta: Fraction | float = 0, *, exact: bool = True) -> PoolProblem:
    """The instance on which joining costs agent 1 about n/4 queries instead of 8/3.

    Agent 1 owns columns 0 to n+1: the points (0,1,0), (0,2,0), (0,0,1), ..., (0,0,n); agent 2 owns
    the last column, (1,0,0). With ``delta`` = 0 the violation needs the tie preference "agent 2's
    point first" (``GBS(tie_break=[n + 2])``); 0 < delta < 1/24 removes the tie.

    Examples
    --------
    >>> from counterplay.labeling import GBS
    >>> problem, gbs = gbs_counterexample(10), GBS(tie_break=[12])
    >>> print(gbs.expected_costs(problem)[0], gbs.expected_costs(problem, (0,))[0])
    305083/78732 46655/17496
    """
    n = check_int(n, "n", low=3)
    check_size(n, 2000, "levels")
    shift = Fraction(delta).limit_denominator(10**12)
    if not 0 <= shift < Fraction(1, 24):
        raise InvalidInputError(f"delta must be in [0, 1/24), got {shorten(delta)}")
    rows, weights = [np.zeros(n + 3, dtype=np.uint8)], [Fraction(1, 4) + 2 * shift]
    for with_first in (False, True):
        for j in (1,) if with_first else (1, 2):
            for level in range(1, n + 1):
                row = np.zeros(n + 3, dtype=np.uint8)
                row[[j - 1, level + 1]] = 1
                row[n + 2] = with_first
                mass = Fraction(1, 3**level) if level < n else Fraction(1, 2 * 3 ** (n - 1))
                mass = mass if with_first else mass / 4
                weights.append(mass - shift if level == 1 and not with_first else mass)
                rows.append(row)
    scale = 8 * 3 ** (n - 1) * shift.denominator
    integers = [int(weight * scale) for weight in weights]
    agents = [np.arange(n + 2), np.array([n + 2])]
    ids = ["(0,1,0)", "(0,2,0)", *(f"(0,0,{i})" for i in range(1, n + 1)), "(1,0,0)"]
    values = integers if exact else [float(weight) for weight in weights]
    return PoolProblem.from_labelings(np.array(rows), values, agents, exact=exact, point_ids=ids)


@checked
def gbs_violation_7x6() -> PoolProblem:
    """Seven labelings of six points on which joint GBS hurts agent 1 under every tie order.

    Examples
    --------
    >>> from counterplay.labeling import GBS
    >>> print(GBS().expected_costs(gbs_violation_7x6()))
    [Fraction(1526, 527) Fraction(1, 1)]
    """
    table = {
        "000010": 494, "001011": 4, "100000": 12, "011110": 1, "111110": 11, "000000": 3,
        "010101": 2,
    }  # fmt: skip
    rows = [[int(bit) for bit in row] for row in table]
    return PoolProblem.from_labelings(
        rows, list(table.values()), [[1, 2, 3, 4, 5], [0]], exact=True
    )


@checked
def independent_points(k: int) -> PoolProblem:
    """One point per agent and all labelings: nobody can help anybody.

    Examples
    --------
    >>> independent_points(3)
    PoolProblem(8 labelings, 3 points, 3 agents, exact)
    """
    k = check_positive_int(k, "k")
    check_size(k, 16, "independent points")
    labels = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    return PoolProblem.from_labelings(labels, [1] * 2**k, [[i] for i in range(k)], exact=True)


@checked
def identical_pools(k: int = 4, m: int = 7) -> PoolProblem:
    """All agents own the same ``m`` points on a line, labeled by one of m + 1 thresholds.

    Examples
    --------
    >>> from counterplay.labeling import GBS
    >>> print(GBS(assignment="uniform").expected_costs(identical_pools())[0])
    3/4
    """
    m = check_positive_int(m, "m")
    check_size(m, 5000, "points")
    check_size(check_positive_int(k, "k"), 1000, "agents")
    labels = np.arange(m) >= np.arange(m + 1)[:, None]
    pools = [np.arange(m)] * k
    return PoolProblem.from_labelings(labels, [1] * (m + 1), pools, exact=True)


@checked
def correlated_pairs() -> PoolProblem:
    """Assumption 1 without Assumption 2: a full product whose prior correlates the two agents.

    Examples
    --------
    >>> correlated_pairs().N
    9
    """
    half = np.array([[0, 0], [0, 1], [1, 1]])
    rows = [np.concatenate([half[a], half[b]]) for a in range(3) for b in range(3)]
    weights = [4 if a == b else 1 for a in range(3) for b in range(3)]
    return PoolProblem.from_labelings(np.array(rows), weights, [[0, 1], [2, 3]], exact=True)


@checked
def weak_pruning_trap() -> PoolProblem:
    """All labelings of (a, b | z) but a=b=0, z=1: pruning must use the answers already given.

    Examples
    --------
    >>> weak_pruning_trap().N
    7
    """
    labels = (np.arange(8)[:, None] >> np.arange(3)) & 1
    keep = ~((labels[:, 0] == 0) & (labels[:, 1] == 0) & (labels[:, 2] == 1))
    return PoolProblem.from_labelings(labels[keep], [1] * 7, [[0, 1], [2]], exact=True)
