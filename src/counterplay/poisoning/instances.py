"""Hard instances and worked examples: target, training set, test points and the attacker.

Source: docs/theory/10-poisoning.md, "Results".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_fraction,
    check_int,
    check_real,
)
from counterplay.poisoning.attackers import (
    ChainReflectionAttacker,
    CircleReflectionAttacker,
    GapCuttingAttacker,
    HollowStarAttacker,
    MarginReflectionAttacker,
    OnePointSVMAttacker,
    SphereReflectionAttacker,
)
from counterplay.poisoning.chain import Chain
from counterplay.poisoning.circle_erm import CircleTarget
from counterplay.poisoning.model import (
    Attacker,
    IntervalTarget,
    LabelledSet,
    LinearTarget,
    Points,
    TableTarget,
    Target,
)

_MOST, _MOST_AXES = 1_000_000, 2_000  # points, dimensions


@checked
@dataclass(frozen=True)
class PoisoningGame:
    """One draw of a construction: what the attacker sees and what it attacks.

    Examples
    --------
    >>> game = interval_example(m=5, random_state=0)
    >>> len(game.S), game.name
    (5, 'interval example')
    """

    name: str
    target: Target
    S: LabelledSet
    X_test: Points
    attacker: Attacker
    details: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        self.X_test.setflags(write=False)
        object.__setattr__(self, "details", MappingProxyType(dict(self.details)))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "details": dict(self.details)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "details", MappingProxyType(dict(self.details)))


@checked
def interval_example(
    m: int,
    low: float = 1.0,
    high: float = 0.0,
    n_test: int = 100,
    random_state: RandomState = None,
) -> PoisoningGame:
    """Uniform data on [0, 1]; target [low, high], by default the empty set.

    Examples
    --------
    >>> int(interval_example(m=50, low=0.2, high=0.8, random_state=0).S.y.sum()) > 0
    True
    """
    rng = generator(random_state)
    target = IntervalTarget([] if low > high else [low, high])
    X, test = (
        rng.random((check_int(m, "m", low=0, high=_MOST), 1)),
        rng.random((check_int(n_test, "n_test", low=0, high=_MOST), 1)),
    )
    S = LabelledSet(X, target(X) if len(X) else [])
    return PoisoningGame("interval example", target, S, test, GapCuttingAttacker())


@checked
def hollow_star_singletons(
    k: int, m: int, i_star: int | None = None, random_state: RandomState = None
) -> PoisoningGame:
    """Singletons on k points; the target is one of them, data are uniform on the others.

    Examples
    --------
    >>> game = hollow_star_singletons(k=11, m=5, i_star=10, random_state=0)
    >>> int(game.S.y.sum()), len(game.X_test)
    (0, 10)
    """
    n, rng = check_int(k, "k", low=2, high=_MOST), generator(random_state)
    star = (
        int(rng.integers(n)) if i_star is None else check_int(i_star, "i_star", low=0, high=n - 1)
    )
    others = np.delete(np.arange(n), star)
    rows = rng.choice(others, size=check_int(m, "m", low=0, high=_MOST))
    target = TableTarget(np.eye(n, dtype=np.uint8)[star])
    return PoisoningGame(
        "hollow star of singletons",
        target,
        LabelledSet(rows, np.zeros(len(rows), np.uint8)),
        others,
        HollowStarAttacker(np.arange(n), np.zeros(n, np.uint8)),
        {"i_star": star, "H": FiniteClass.singletons(n)},
    )


@checked
def simplex_set(n: int) -> LabelledSet:
    """Hollow star of half-spaces in R^n: the simplex vertices are 1, their centroid is 0.

    Examples
    --------
    >>> len(simplex_set(3))
    5
    """
    dim = check_int(n, "n", low=1, high=_MOST_AXES)
    vertices = np.vstack([np.zeros(dim), np.eye(dim)])
    return LabelledSet(np.vstack([vertices, vertices.mean(axis=0)]), [1] * (dim + 1) + [0])


@checked
def tangent_circles(
    m: int, eta: float, n_test: int = 1, random_state: RandomState = None
) -> PoisoningGame:
    """Two tangent circles on the unit sphere in R^3: no learner for half-spaces is safe.

    Examples
    --------
    >>> game = tangent_circles(m=30, eta=1e-6, random_state=0)
    >>> bool(np.allclose(game.S.X @ game.details["w"], 0.5))
    True
    """
    rng = generator(random_state)
    width = check_real(eta, "eta", low=0, high=1 / 6, open_low=True, open_high=True)
    w = rng.normal(size=3)
    w /= np.linalg.norm(w)
    j = int(rng.integers(2))
    if j == 1:
        target = LinearTarget(w, -0.5, tolerance=1e-12)
    else:
        target = LinearTarget(-w, (1 - width) / 2, tolerance=1e-12)
    points = _circle(
        w,
        check_int(m, "m", low=0, high=_MOST) + check_int(n_test, "n_test", low=0, high=_MOST),
        rng,
    )
    S = LabelledSet(points[:m], np.full(m, j, dtype=np.uint8))
    details = {"w": w, "j": j, "eta": width}
    attacker = SphereReflectionAttacker(width)
    return PoisoningGame("two tangent circles", target, S, points[m:], attacker, details)


def _circle(w: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Uniform points of the circle {||x|| = 1, <w, x> = 1/2}."""
    basis = np.linalg.svd(w[None, :])[2][1:]
    angle = rng.random(count) * 2 * np.pi
    plane = np.cos(angle)[:, None] * basis[0] + np.sin(angle)[:, None] * basis[1]
    points: FloatArray = 0.5 * w + np.sqrt(0.75) * plane
    return points


@checked
def convex_chain(
    m: int, r: float = 4.0, unit_disc: bool = True, random_state: RandomState = None
) -> PoisoningGame:
    """The convex chain in the plane: no learner for half-planes is safe.

    Test points are the chain points that were not drawn.

    Examples
    --------
    >>> game = convex_chain(m=3, random_state=0)
    >>> len(game.S), len(game.X_test) >= 3
    (3, True)
    """
    rng, n = generator(random_state), check_int(m, "m", low=1, high=_MOST)
    radius = check_real(r, "r", low=3)
    angle, length = 2 * np.pi * rng.random(), radius * np.sqrt(rng.random())
    chain = Chain(
        m=n,
        o=(float(length * np.cos(angle)), float(length * np.sin(angle))),
        theta=float(2 * np.pi * rng.random()),
        s=int(rng.integers(2)),
        scale=radius + 2.5 if unit_disc else 1.0,
    )
    rows = rng.integers(2 * n, size=n)
    unseen = np.setdiff1d(np.arange(2 * n), rows)
    S = LabelledSet(chain.X[rows], np.full(n, chain.s, dtype=np.uint8))
    attacker = ChainReflectionAttacker(chain)
    details = {"chain": chain, "rows": rows}
    return PoisoningGame("convex chain", chain.target, S, chain.X[unseen], attacker, details)


@checked
def svm_half_sphere(
    n: int,
    m_plus: int,
    gamma: float = 0.125,
    m_minus: int = 1,
    n_test: int = 1,
    random_state: RandomState = None,
) -> PoisoningGame:
    """Positives on a half sphere, negatives at one pole: one clean point breaks the SVM.

    Examples
    --------
    >>> svm_half_sphere(n=10, m_plus=5, random_state=0).S.y.tolist()
    [0, 1, 1, 1, 1, 1]
    """
    rng, dim = generator(random_state), check_int(n, "n", low=2, high=_MOST_AXES)
    count = check_int(m_plus, "m_plus", low=0, high=_MOST)
    points = _half_sphere(dim, count + check_int(n_test, "n_test", low=1, high=_MOST), rng)
    pole = np.zeros((check_int(m_minus, "m_minus", low=0, high=_MOST), dim))
    pole[:, 0] = -1
    target = LinearTarget(np.eye(dim)[0], check_fraction(gamma, "gamma") / 2)
    S = LabelledSet(np.vstack([pole, points[:count]]), [0] * len(pole) + [1] * count)
    attacker = OnePointSVMAttacker(gamma)
    return PoisoningGame("one-point SVM", target, S, points[count:], attacker)


def _half_sphere(n: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Uniform points of the half sphere {||x|| = 1, x_1 >= 0}."""
    points = rng.normal(size=(count, n))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[:, 0] = np.abs(points[:, 0])
    return np.asarray(points, dtype=np.float64)


@checked
def margin_half_sphere(
    n: int,
    m_plus: int,
    gamma: float = 0.125,
    mode: Any = "maximal",
    n_test: int = 1,
    random_state: RandomState = None,
) -> PoisoningGame:
    """Half-spaces with a margin in high dimension: no learner is safe.

    The geometric margin of the construction is gamma / sqrt(2), not gamma (Theorem 10.7, "Margin").

    Examples
    --------
    >>> game = margin_half_sphere(n=20, m_plus=4, random_state=0)
    >>> game.S.X.shape, int((game.target(game.S.X) != game.S.y).sum())
    ((5, 20), 0)
    """
    rng, dim = generator(random_state), check_int(n, "n", low=4, high=_MOST_AXES)
    g = check_real(gamma, "gamma", low=0, high=1, open_low=True)
    w = rng.normal(size=dim - 1)
    w /= np.linalg.norm(w)
    j = int(rng.choice([-1, 1]))
    count = check_int(m_plus, "m_plus", low=0, high=_MOST)
    sphere = rng.normal(size=(count + check_int(n_test, "n_test", low=1, high=_MOST), dim - 1))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    height = sphere @ w
    sphere += np.outer(np.abs(height) - height, w) + g * w
    points = np.column_stack([sphere, np.zeros(len(sphere))])
    pole = np.zeros((1, dim))
    pole[0, -1] = 1.0
    target = LinearTarget(np.append(j * w, 1.0), -j * g / 2)
    label = 1 if j == 1 else 0
    S = LabelledSet(np.vstack([pole, points[:count]]), [1] + [label] * count)
    attacker = MarginReflectionAttacker(w, gamma=g, mode=mode)
    return PoisoningGame(
        "margin half sphere", target, S, points[count:], attacker, {"w": w, "j": j, "gamma": g}
    )


@checked
def singletons_and_zero(
    k: int, m: int, i_star: int | None = None, random_state: RandomState = None
) -> PoisoningGame:
    """Singletons and the zero function: infinite star number as k grows, and yet robust.

    Examples
    --------
    >>> game = singletons_and_zero(k=100, m=20, random_state=0)
    >>> len(game.details["H"])
    101
    """
    n, rng = check_int(k, "k", low=1, high=_MOST), generator(random_state)
    star = (
        int(rng.integers(n)) if i_star is None else check_int(i_star, "i_star", low=0, high=n - 1)
    )
    target = TableTarget(np.eye(n, dtype=np.uint8)[star])
    rows: IntArray = rng.integers(n, size=check_int(m, "m", low=0, high=_MOST))
    S = LabelledSet(rows, target(rows))
    attacker = HollowStarAttacker(np.arange(n), np.zeros(n, np.uint8))
    H = FiniteClass.singletons(n, include_empty=True)
    return PoisoningGame(
        "singletons and zero", target, S, np.arange(n), attacker, {"i_star": star, "H": H}
    )


@checked
def circles_on_spheres(
    m: int, t: int, d: int = 1, n_test: int = 1, random_state: RandomState = None
) -> PoisoningGame:
    """Circles on d unit spheres: t clean points beat every learner at rate min(3td/64m, 3/8).

    Test points lie on the circles, evenly over the spheres; multiply rates by the mass d zeta.

    Examples
    --------
    >>> game = circles_on_spheres(m=200, t=4, d=3, random_state=0)
    >>> round(game.details["zeta"], 4)
    0.0025
    """
    rng = generator(random_state)
    n, budget, dim = (
        check_int(m, "m", low=1, high=_MOST),
        check_int(t, "t", low=1),
        check_int(d, "d", low=1, high=_MOST),
    )
    centers = 3.0 * np.outer(np.arange(1, dim + 1), [1.0, 0.0, 0.0])
    q = rng.normal(size=(dim, 3))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    s = rng.integers(2, size=dim)
    zeta = min(1 / dim, budget / (8 * n))
    counts = rng.multinomial(n, [*[zeta] * dim, max(0.0, 1 - dim * zeta)])
    parts = [_circle(q[i], counts[i], rng) + centers[i] for i in range(dim)]
    X = np.vstack([*parts, np.zeros((counts[-1], 3))])
    y = np.concatenate([np.repeat(s, counts[:-1]), np.zeros(counts[-1])]).astype(np.uint8)
    sphere = np.arange(check_int(n_test, "n_test", low=1, high=_MOST)) % dim
    test = np.vstack([_circle(q[i], 1, rng) + centers[i] for i in sphere])
    target = CircleTarget(centers, q, s)
    details = {"centers": centers, "zeta": zeta, "counts": counts, "t": budget}
    return PoisoningGame(
        "circles on spheres",
        target,
        LabelledSet(X, y),
        test,
        CircleReflectionAttacker(centers),
        details,
    )
