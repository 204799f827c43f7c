"""The convex chain, in local coordinates and in the plane."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.poisoning.chain import (
    Chain,
    axis_point,
    chain_angles,
    local_chain,
    reflect_chain,
)


@pytest.mark.claim("10.19")
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50])
def test_chain_in_local_coordinates(m: int) -> None:
    chain = local_chain(m)
    assert (np.diff(chain_angles(m)) > 0).all()  # turning angles grow: strictly convex
    assert (chain[1:, 1] > 0).all()
    for i in range(1, 2 * m + 1):
        mirrored = reflect_chain(chain[1:], m, i)
        rest = np.delete(np.arange(2 * m), i - 1)
        assert (mirrored[rest, 1] < 0).all()
        assert np.allclose(mirrored[i - 1], chain[i], atol=1e-15)
        z = np.array([[axis_point(m, i), 0.0]])
        assert np.allclose(reflect_chain(z, m, i), z, atol=1e-14)


@pytest.mark.claim("10.19")
@pytest.mark.parametrize(
    ("m", "worst"),
    [(1, -2.42e-3), (2, None), (3, None), (5, -8.3e-11), (10, None), (20, -9.2e-37)],
)
def test_chain_with_many_digits(m: int, worst: float | None) -> None:
    mp = pytest.importorskip("mpmath")
    mp.mp.dps = 400
    beta = [mp.pi / 6 * mp.mpf(7) ** (i - 2 * m) for i in range(2 * m + 1)]
    step = mp.mpf(1) / (2 * m)
    x = [(mp.mpf(0), mp.mpf(0))]
    for b in beta[:-1]:
        x.append((x[-1][0] + step * mp.cos(b), x[-1][1] + step * mp.sin(b)))
    highest = None
    for i in range(1, 2 * m + 1):
        share = (mp.cos(beta[i - 1]) + mp.cos(beta[i])) / (mp.sin(beta[i - 1]) + mp.sin(beta[i]))
        cosines, sines = mp.fsum(map(mp.cos, beta[: i + 1])), mp.fsum(map(mp.sin, beta[: i + 1]))
        z = (step * cosines - step * share * sines, mp.mpf(0))
        d = (x[i][0] - z[0], x[i][1])
        norm = d[0] ** 2 + d[1] ** 2
        for j in range(1, 2 * m + 1):
            if j == i:
                continue
            v = (x[j][0] - z[0], x[j][1])
            dot = (v[0] * d[0] + v[1] * d[1]) / norm
            y = 2 * dot * d[1] - v[1]
            highest = y if highest is None else max(highest, y)
    assert highest < 0
    if worst is None:
        return
    assert float(highest / mp.mpf(str(worst))) == pytest.approx(1, rel=0.02)


@pytest.mark.claim("10.19")
@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("s", [0, 1])
def test_reflected_chain_is_the_chain_of_the_mirrored_world(m: int, s: int) -> None:
    rng = np.random.default_rng(m)
    for i in range(2 * m):
        chain = Chain(m=m, o=tuple(rng.normal(size=2)), theta=2 * np.pi * rng.random(), s=s)
        mirrored = chain.to_world(chain.reflected(i))
        axis = chain.to_world([[axis_point(m, i + 1), 0.0]])[0]  # z_i; the line goes to x_i
        unit = (chain.X[i] - axis) / np.linalg.norm(chain.X[i] - axis)
        flip = 2 * np.outer(unit, unit) - np.eye(2)
        v1 = flip @ [np.sin(chain.theta), -np.cos(chain.theta)]
        other = Chain(
            m=m, o=tuple(axis + flip @ (np.array(chain.o) - axis)),
            theta=float(np.arctan2(v1[0], -v1[1])), s=1 - s,
        )  # fmt: skip
        assert np.allclose(other.X, mirrored, atol=1e-12)  # generated from (Ref(o), 1 - s)
        assert np.allclose(other.X[i], chain.X[i], atol=1e-12)
