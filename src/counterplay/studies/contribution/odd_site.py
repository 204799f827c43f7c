"""A consortium where a common share can fail: three sites with one rule, a small one with its own.

The small site's few rows cannot check a promise of 1.5 points. The plan must say so.
Source: docs/theory/23-consortium.md, "One common share".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.contribution.sites.learners import Learner
from counterplay.contribution.sites.measuring import measure_sites
from counterplay.contribution.sites.plan import plan_consortium
from counterplay.contribution.sites.reading import read_sites
from counterplay.core.validation import FloatArray
from counterplay.studies.study import Record

SIZES = (700, 350, 150, 60)
NAMES = ("north", "south", "east", "odd")
FEATURES = 8
WITHIN = 0.015
FRESH = 4000
REDRAWS = 12


def odd_consortium(seed: int, fresh: int = FRESH) -> tuple[dict[str, Any], dict[str, Any]]:
    """Owned rows and fresh rows of every site.

    The last has a rule of its own in columns that are zero elsewhere: a linear model can learn it,
    but only from that site's rows.
    """
    rng = np.random.default_rng([seed, 11])
    rules = rng.standard_normal((2, FEATURES))
    owned: dict[str, Any] = {}
    test: dict[str, Any] = {}
    for name, size in zip(NAMES, SIZES):
        odd = name == "odd"
        for rows, into in ((size, owned), (fresh, test)):
            Z = rng.standard_normal((rows, FEATURES))
            chance = 1.0 / (1.0 + np.exp(-2.0 * Z @ rules[int(odd)]))
            y = (rng.random(rows) < chance).astype(int)
            into[name] = (np.hstack([Z, Z * odd]), y)
    return owned, test


def odd_cell(seed: int, fresh: int = FRESH) -> Record:
    """Whether the promises of the share plan are kept on fresh rows, and what they rest on."""
    owned, test = odd_consortium(seed, fresh)
    points = measure_sites(owned, plans="share", progress=False, random_state=seed)
    plan = plan_consortium(points, f"within={WITHIN}", random_state=seed)
    without = type(points)(**(vars(points) | {"held_out": None}))
    plain = plan_consortium(without, f"within={WITHIN}", random_state=seed)
    pooled = truth(owned, test, np.array(SIZES, dtype=float), 1, seed)
    score = truth(owned, test, plan.share.rows.to_numpy(dtype=float), REDRAWS, seed)
    other = truth(owned, test, plain.share.rows.to_numpy(dtype=float), REDRAWS, seed)
    kept = score >= pooled - WITHIN - 1e-12
    verified = (plan.share.basis == "verified").to_numpy()
    return {
        "odd_basis": str(plan.share.basis["odd"]),
        "odd_kept": bool(kept[-1]),
        "odd_kept_plain": bool((other >= pooled - WITHIN - 1e-12)[-1]),
        "others_kept": int(kept[:-1].sum()),
        "verified": int(verified.sum()),
        "verified_kept": int((verified & kept).sum()),
        "share": float(plan.ray.share),
        "share_plain": float(plain.ray.share),
        "odd_noise": float(plan.ray.noise[-1]),
        "other_noise": float(plan.ray.noise[:-1].max()),
    }


def truth(
    owned: dict[str, Any], test: dict[str, Any], rows: FloatArray, redraws: int, seed: int
) -> FloatArray:
    """Mean accuracy on fresh rows of models trained on that many rows of each site."""
    sites = read_sites(
        {n: tuple(np.concatenate(pair) for pair in zip(owned[n], test[n])) for n in owned}
    )
    learner = Learner(sites, "logistic", chances=False)
    rng = np.random.default_rng([seed, 13])
    own = [s + np.arange(len(owned[n][1])) for n, s in zip(sites.names, sites.starts)]
    fresh = [s + len(owned[n][1]) + np.arange(len(test[n][1]))
             for n, s in zip(sites.names, sites.starts)]  # fmt: skip
    codes = sites.labels.codes
    found = []
    for _ in range(redraws):
        train = np.concatenate([rng.permutation(o)[: int(n)] for o, n in zip(own, rows)])
        answer, _ = learner.answer(train, np.concatenate(fresh))
        right = answer == codes[np.concatenate(fresh)]
        found.append([part.mean() for part in np.split(right, len(fresh))])
    return np.asarray(np.mean(found, axis=0))
