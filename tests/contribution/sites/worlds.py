"""Small consortia for the tests: measured once per session."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from counterplay.contribution import SitePoints, measure_sites
from counterplay.contribution.sites.fitting import curve


@cache
def three_sites() -> dict[str, Any]:
    """One rule, three sites of 240, 120 and 60 rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(420, 5))
    y = (X @ np.array([1.0, -1.0, 0.5, 0.0, 0.0]) + 0.6 * rng.normal(size=420) > 0).astype(int)
    cut = [0, 240, 360, 420]
    return {name: (X[a:b], y[a:b]) for name, a, b in zip("abc", cut, cut[1:])}


@cache
def measured() -> SitePoints:
    return measure_sites(three_sites(), budget=80, progress=False)


@cache
def opposite() -> SitePoints:
    """Two sites, 500 and 400 rows, with opposite labels."""
    rng = np.random.default_rng(1)
    sites = {}
    for name, n, sign in (("left", 500, 1.0), ("right", 400, -1.0)):
        X = rng.normal(size=(n, 3))
        sites[name] = (X, (sign * (X[:, 0] + 0.5 * rng.normal(size=n)) > 0).astype(int))
    return measure_sites(sites, budget=110, progress=False)


def clinics(sizes: tuple[int, ...], seed: int = 0) -> dict[str, pd.DataFrame]:
    """Frames with numbers, words, gaps and labels that are words."""
    rng = np.random.default_rng(seed)
    found = {}
    for i, n in enumerate(sizes):
        age, ward = rng.normal(50, 15, n), rng.choice(["A", "B", "C"], n)
        sick = (age - 50) / 15 + (ward == "A") + rng.normal(scale=0.6, size=n) > 0.4
        frame = pd.DataFrame({"age": age, "ward": ward, "y": np.where(sick, "sick", "well")})
        frame.loc[rng.random(n) < 0.05, "age"] = np.nan
        found[f"clinic {i}"] = frame
    return found


def invented(k: int, seed: int, fits: int = 60) -> SitePoints:
    """Points of known curves with noise, without any fit."""
    rng = np.random.default_rng([seed, k])
    owned = rng.integers(80, 600, k)
    rates = rng.uniform(0.1, 1.1, (k, k))
    np.fill_diagonal(rates, 1.0)
    theta = np.column_stack(
        [rng.uniform(0.1, 0.2, k), rng.uniform(0.1, 0.25, k), np.log(rng.uniform(20, 80, k)),
         rng.uniform(0.5, 0.9, k)]
    )  # fmt: skip
    shares = np.exp(rng.uniform(np.log(0.03), 0, (fits, k))) * (rng.random((fits, k)) < 0.7)
    shares[shares.sum(axis=1) == 0] = 0.5
    ray = np.repeat(np.geomspace(0.04, 1, 12), 4)[:, None] * np.ones(k)
    rows = np.maximum(np.round(np.vstack([ray, shares]) * 0.75 * owned), 0).astype(np.int64)
    on_ray = np.arange(len(rows)) < len(ray)
    items = [(r, i, on) for r, on in zip(rows, on_ray) for i in range(k)]
    tests = (owned // 4).astype(float)
    score = []
    for r, i, _ in items:
        e = float(curve(theta[i], np.array([rates[i] @ r]))[0])
        score.append(1 - rng.binomial(int(tests[i]), e) / tests[i])
    return SitePoints(
        tuple(f"s{i}" for i in range(k)), owned.astype(np.int64), "accuracy",
        np.array([r for r, _, _ in items]), np.array([i for _, i, _ in items]), np.array(score),
        np.array([tests[i] for _, i, _ in items]), np.array([on for _, _, on in items]),
    )  # fmt: skip
