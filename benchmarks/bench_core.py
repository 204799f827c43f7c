"""Combinatorial core against the plain versions of the same algorithms, in one run.

Each line: what, size, result, our time, the reference's time, how many times faster. The references
are the algorithms as one would write them first (Python integers, NumPy counting, side tests pair
by pair); the results must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
from ledger import Times, compare, growth, timed
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.dimensions import vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.invariance.lab import vcao, vco
from counterplay.poisoning.stars import hollow_star_number, star_number
from counterplay.strategic.lab import SOA, Halving, littlestone_dimension


def halving_trap(r: int, k: int) -> FiniteClass:
    """Proposition 3.D: |H| grows geometrically, the Littlestone dimension stays 2."""
    sets: list[list[int]] = [[], [0], [1], [0, 1]]
    points = 2
    for _ in range(r):
        fresh = max(2, -(-len(sets) // (k + 1)))
        sets += [[points, points + 1 + i] for i in range(fresh)]
        points += 1 + fresh
    rows = np.zeros((len(sets), points), dtype=bool)
    for row, members in zip(rows, sets):
        row[members] = True
    return FiniteClass.from_matrix(rows)


def littlestone_with_ints(cls: FiniteClass) -> int:
    columns = list(dict.fromkeys(cls.column_ints))
    memo: dict[tuple[int, int], bool] = {}

    def at_least(V: int, d: int) -> bool:
        size = V.bit_count()
        if d <= 1 or size < 1 << d:
            return size >= 1 << d
        if (V, d) not in memo:
            memo[V, d] = False
            seen = set()
            for column in columns:
                one = V & column
                small, large = sorted((one, V ^ one), key=int.bit_count)
                if small.bit_count() < 1 << (d - 1) or small in seen:
                    continue
                seen.add(small)
                if at_least(small, d - 1) and at_least(large, d - 1):
                    memo[V, d] = True
                    break
        return memo[V, d]

    d, full = 0, (1 << len(cls)) - 1
    while at_least(full, d + 1):
        d += 1
    return d


def vc_with_counting(cls: FiniteClass) -> int:
    labels = cls.labels.astype(np.int64)
    best = 0

    def extend(pattern: np.ndarray, k: int, start: int) -> None:
        nonlocal best
        best = max(best, k)
        if len(labels) < 2 ** (k + 1):
            return
        for x in range(start, cls.n_points):
            if k + cls.n_points - x <= best:
                return
            new = 2 * pattern + labels[:, x]
            if np.bincount(new, minlength=2 ** (k + 1)).all():
                extend(new, k + 1, x + 1)

    extend(np.zeros(len(labels), dtype=np.int64), 0, 0)
    return best


def halfspaces_pair_by_pair(points: np.ndarray) -> int:
    rows = [np.zeros(len(points), bool)]
    for i, j in combinations(range(len(points)), 2):
        a, b = points[i], points[j]
        side = (b[0] - a[0]) * (points[:, 1] - a[1]) - (b[1] - a[1]) * (points[:, 0] - a[0]) > 0
        for first, second in ((0, 0), (0, 1), (1, 0), (1, 1)):
            row = side.copy()
            row[i], row[j] = first, second
            rows.append(row)
    packed = np.packbits(np.array(rows), axis=1)
    both = np.vstack([packed, np.packbits(~np.array(rows), axis=1)])
    return len(np.unique(both, axis=0))


def dimensions() -> None:
    line = FiniteClass.thresholds(range(127))
    _ = line.columns, line.column_ints
    ours = timed(lambda: littlestone_dimension(line))
    plain = timed(lambda: littlestone_with_ints(line))
    assert ours.result.value == plain.result == 7
    against_plain("Littlestone dimension of thresholds, 127 points", ours, plain)
    for r, k in ((40, 4), (20, 2), (40, 8)):
        trap = halving_trap(r, k)
        _ = trap.columns, trap.column_ints
        ours = timed(lambda trap=trap: littlestone_dimension(trap))
        plain = timed(lambda trap=trap: littlestone_with_ints(trap))
        assert ours.result.value == plain.result == 2
        size = f"{len(trap)} rules, k={k}, r={r}"
        against_plain(f"Littlestone dimension of the halving trap, {size}", ours, plain)
    rng = np.random.default_rng(0)
    curve = {}
    for m in (12, 25, 40):
        points = rng.normal(size=(m, 2))
        cls = FiniteClass.halfspaces_2d(points)
        fresh = iter([FiniteClass.halfspaces_2d(points) for _ in range(3)])  # nothing remembered
        ours = timed(lambda fresh=fresh: vc_dimension(next(fresh)))
        plain = timed(lambda cls=cls: vc_with_counting(cls))
        assert ours.result.value == plain.result == 3
        curve[len(cls)] = ours
        against_plain(f"VC dimension of planar halfspaces, {m} points", ours, plain)
    growth("core", "VC dimension of planar halfspaces", curve, size="rules")
    base = rng.normal(size=(5, 2))
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    pool = np.vstack([base @ np.linalg.matrix_power(turn, r).T for r in range(4)])
    cls, orbits = FiniteClass.halfspaces_2d(pool), np.tile(np.arange(5), 4)
    three = timed(
        lambda: (
            vc_dimension(cls).value,
            vcao(cls, orbits).value,
            vco(cls, orbits).value,
        )
    )
    assert three.result == (3, 3, 1)
    growth("core", "VC, VCao and VCo under rotations, 5 orbits", {len(cls): three}, size="rules")
    pool20 = FiniteClass.halfspaces_2d(rng.normal(size=(20, 2)))
    for name, function in (("star number", star_number), ("hollow star", hollow_star_number)):
        ours = timed(lambda function=function: function(pool20))
        what = f"{name} of planar halfspaces, 20 points"
        growth("core", what, {len(pool20): ours}, size="rules", note=f"it is {ours.result.value}")


def against_plain(what: str, ours: Times, plain: Times) -> None:
    compare("core", what, ours, plain, against="the same algorithm written plainly",
            package="numpy", note="same result")  # fmt: skip


def enumeration() -> None:
    curve = {}
    for m in (50, 100, 200):
        points = np.random.default_rng(m).normal(size=(m, 2))
        ours = timed(lambda points=points: FiniteClass.halfspaces_2d(points))
        plain = timed(lambda points=points: halfspaces_pair_by_pair(points))
        assert len(ours.result) == plain.result == m * (m - 1) + 2
        curve[m] = ours
        against_plain(f"all planar halfspaces of {m} points", ours, plain)
    growth("core", "all planar halfspaces", curve, size="points")


def online() -> None:
    rng = np.random.default_rng(1)
    trace = FiniteClass.from_matrix(rng.integers(2, size=(2000, 2000)))
    learner = Halving(trace)
    _ = trace.columns
    table = timed(lambda: learner.predict(np.arange(2000)))
    copy = timed(lambda: [learner.updated(x, 1 - learner.predict(x)) for x in range(100)])
    growth("core", "Halving, all predictions at 2,000 points", {2000: table}, size="rules")
    growth("core", "Halving, 100 copies after a mistake", {2000: copy}, size="rules")
    trap = halving_trap(40, 4)
    soa = SOA(trap)
    points = [i for i in range(trap.n_points) if trap.point_counts[i] > 2][-40:]
    wrong = timed(lambda: int(sum(soa.predict(x) for x in points)))
    note = f"{wrong.result} mistakes"
    growth("core", "SOA, 40 predictions", {len(trap): wrong}, size="rules", note=note)


def warm_up() -> None:
    small = FiniteClass.intervals(range(4))
    for function in (vc_dimension, littlestone_dimension, star_number, hollow_star_number):
        function(small)
    vcao(small, [0, 0, 1, 1])
    FiniteClass.halfspaces_2d(np.random.default_rng(0).normal(size=(4, 2)))
    SOA(small).predict(0)
    littlestone_dimension(FiniteClass.singletons(1300))  # large enough for the compiled counts


def kinds() -> None:
    """A check of kinds at every call, against the same function without it."""

    def plain(n: int, rate: float, values: ArrayLike, mode: str = "up") -> int:
        return n

    guarded, matrix, calls = checked(plain), np.zeros((1000, 1000)), 100_000
    guarded(1, 0.5, matrix)

    def repeat(function: Callable[..., int]) -> int:
        return sum(function(1, 0.5, matrix, "up") for _ in range(calls))

    ours, reference = timed(lambda: repeat(guarded)), timed(lambda: repeat(plain))
    cost = f"{(ours.value - reference.value) / calls * 1e6:.2f} us more per call"
    compare("core", "100,000 calls of a function that checks the kinds of four arguments", ours,
            reference, against="the function without checks", note=cost)  # fmt: skip


def main() -> None:
    warm_up()
    for part in (dimensions, enumeration, online, kinds):
        part()


if __name__ == "__main__":
    main()
