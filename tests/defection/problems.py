"""Shared problems, tables and runs of the defection tests; runs are computed once per process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import pandas as pd

from counterplay.defection import (
    ADAGD,
    FederationGame,
    FunctionProblem,
    LinearModelProblem,
    SafeStep,
    Server,
    instances,
    play,
)
from counterplay.defection.bounds import adagd_step_size
from counterplay.defection.instances import Construction
from counterplay.defection.lab import FederationTranscript


@dataclass(frozen=True, eq=False)
class Case:
    construction: Construction
    delta: float
    eta: float
    run: FederationTranscript


@cache
def setting(seed: int) -> tuple[Construction, float]:
    """One random overparameterised problem with its margin."""
    rng = np.random.default_rng([5, seed])
    M, n = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    delta = float(rng.choice([0.05, 0.1, 0.2]))
    eps = rng.uniform(delta, 0.4, size=M)
    construction = instances.random_overparameterised(
        M,
        n,
        M * n + int(rng.integers(3, 8)),
        tau=1.0,
        corr=float(rng.choice([0.0, 0.3])),
        eps=eps,
        delta=delta,
        spread=2.0,
        random_state=rng,
    )
    return construction, delta


@cache
def ada_gd_case(seed: int) -> Case:
    """ADA-GD with the step size of the theorem."""
    c, delta = setting(seed)
    p = c.problem
    assert p.H is not None
    assert p.L is not None
    eta = adagd_step_size(p.n_agents, p.H, p.L, delta)
    run = play(
        Server(ADAGD(delta), c.w0, step_size=eta, log_sigma=True),
        FederationGame(p, c.eps, keep_every=1),
        rounds=200_000,
    )
    return Case(c, delta, eta, run)


@cache
def safe_step_case(seed: int) -> Case:
    """SafeStep with step size 1/H."""
    c, delta = setting(seed)
    assert c.problem.H is not None
    eta = 1.0 / c.problem.H
    run = play(
        Server(SafeStep(delta), c.w0, step_size=eta, log_sigma=True),
        FederationGame(c.problem, c.eps),
        rounds=100_000,
    )
    return Case(c, delta, eta, run)


def linear_losses() -> FunctionProblem:
    slopes = np.random.default_rng(0).normal(size=(3, 4))
    return FunctionProblem(lambda w: (slopes @ w + 50.0, slopes), 3, 4)


def linear(seed: int, loss: Literal["huber", "squared"] = "huber") -> LinearModelProblem:
    c = instances.random_overparameterised(
        M=3, n=2, d=7, random_state=np.random.default_rng([21, seed])
    )
    assert isinstance(c.problem, LinearModelProblem)
    return LinearModelProblem(c.problem.A_list, w_star=c.problem.w_star, loss=loss)


def table(seed: int = 0, rows: int = 240) -> pd.DataFrame:
    """What a user reads from a CSV: numbers, text labels, text sites of different sizes."""
    rng = np.random.default_rng(seed)
    site = rng.choice(["north", "south", "west"], size=rows, p=[0.5, 0.3, 0.2])
    shift = pd.Series(site).map({"north": 0.0, "south": 0.6, "west": -0.6}).to_numpy()
    x = rng.normal(size=(rows, 4)) + shift[:, None]
    sick = x[:, 0] + 0.8 * x[:, 1] + 0.3 * rng.normal(size=rows) > shift
    frame = pd.DataFrame(x, columns=list("abcd"))
    return frame.assign(label=np.where(sick, "sick", "well"), site=site)
