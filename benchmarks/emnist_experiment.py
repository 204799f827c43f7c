"""Data, networks and cells of the EMNIST defection experiment (see gpu_contribution.py)."""

from __future__ import annotations

import argparse
import json
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).resolve().parents[1] / "src"
FORMAT = "counterplay-contribution-emnist-1"
MEAN, SD = 0.1307, 0.3081
MIXTURES = {4: (1.0, 0.9, 0.1, 0.0), 8: (1.0, 1.0, 0.9, 0.9, 0.1, 0.1, 0.0, 0.0)}
SETTINGS = ("format", "rounds", "runs", "threshold", "reliability", "split")


def load_engine() -> Any:
    """Import the training runs without the rest of the area, which needs SciPy."""
    sys.path.insert(0, str(SOURCE))
    package = types.ModuleType("counterplay.contribution")
    package.__path__ = [str(SOURCE / "counterplay" / "contribution")]
    sys.modules["counterplay.contribution"] = package
    import counterplay.contribution.defectors as engine

    return engine


class Experiment:
    """Data, networks and results of one run of the script."""

    def __init__(self, options: argparse.Namespace) -> None:
        import torch

        self.options, self.start = options, time.time()
        self.rounds = options.rounds or options.epochs * options.rounds_per_epoch
        self.engine, self.torch = load_engine(), torch
        if options.device.startswith("cuda"):
            torch.backends.cuda.matmul.allow_tf32 = True
            torch.backends.cudnn.allow_tf32 = True
            torch.backends.cudnn.benchmark = True
        self.network = self.make_network(self.gpu)
        self._read(options.data)
        self.cohorts: dict[int, Any] = {}
        self.result: dict[str, Any] = {
            "format": FORMAT,
            "device": torch.cuda.get_device_name() if self.gpu else "cpu",
            "torch": torch.__version__,
            "rounds": self.rounds,
            "runs": options.runs,
            "threshold": 0.7,
            "reliability": options.reliability,
            "split": options.split,
            "seconds": {},
            "cells": [],
            "solo": [],
            "eight": [],
        }

    @property
    def gpu(self) -> bool:
        return str(self.options.device).startswith("cuda")

    def make_network(self, half: bool) -> Any:
        """Return the network of the experiment, predictions in half precision if asked to."""
        from emnist_network import EmnistNetwork

        return EmnistNetwork(device=self.options.device, half=half)

    def resume(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Take over the cells of an earlier run with the same settings; return what they are."""
        if self.options.resume is None:
            return []
        old = json.loads(Path(self.options.resume).read_text(encoding="utf-8"))
        for name in SETTINGS:
            if old[name] != self.result[name]:
                sys.exit(f"{self.options.resume} was run with another {name}: {old[name]}")
        kept = [name for name in ("cells", "solo", "eight", "search", "speed") if name in old]
        self.result |= {name: old[name] for name in kept}
        self.result["seconds"] = old["seconds"] | self.result["seconds"]
        done: list[tuple[str, tuple[Any, ...]]] = [
            (kind, (cell["algorithm"], cell["fraction"]))
            for kind, name in (("cell", "cells"), ("eight", "eight"))
            for cell in self.result[name]
        ]
        done += [("solo", (solo["fraction"],)) for solo in old["solo"]]
        return done + ([("search", ())] if "search" in old else [])

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return 60.0 * float(self.options.minutes) - (time.time() - self.start)

    def timed(self, name: str, began: float) -> None:
        self.result["seconds"][name] = round(time.time() - began, 2)
        print(f"{name}: {time.time() - began:.1f} s, {self.left():.0f} s left", flush=True)

    def save(self) -> None:
        """Write what there is, never half of it."""
        path = Path(self.options.out)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(self.result), encoding="utf-8")
        part.replace(path)

    def _read(self, path: str) -> None:
        data = np.load(path)
        self.X = (data["X"].astype(np.float32) / 255.0 - MEAN) / SD
        self.y = data["y"].astype(np.int64)
        pool, pretrain = self.options.split
        parts = self.engine.split_indices(len(self.y), pool, pretrain, seed=0)
        self.pool, self.pretrain, self.rest = parts

    def deal(self) -> None:
        """Score the difficulty of the pool and choose the hard and the easy points."""
        o, began = self.options, time.time()
        scores = self.engine.difficulty_scores(
            self.network,
            self.X[self.pool],
            self.y[self.pool],
            method="margin",
            trials=self.engine.Trials(
                count=o.scorers, batch_size=64, max_steps=o.scorer_steps, chunk=o.scorers
            ),
        ).scores
        self.timed("difficulty", began)
        hard, easy = self.engine.hard_and_easy(with_noise(scores, o.reliability))
        self.hard, self.easy = self.pool[hard], self.pool[easy]
        self.keys = run_keys(o.runs)

    def cohort(self, parties: int) -> Any:
        """Parties' data: four parties share no point; for eight there are not enough points."""
        if parties not in self.cohorts:
            o = self.options
            train, val = self.engine.mixture_parties(
                self.hard,
                self.easy,
                MIXTURES[parties],
                size=o.size,
                train=o.train,
                keys=self.keys,
                disjoint=parties == 4,
            )
            sizes = np.full(train.shape[:2], o.train, dtype=np.int64)
            self.cohorts[parties] = self.engine.Cohort(self.X, self.y, train, sizes, val, self.keys)
        return self.cohorts[parties]

    def pretrain_runs(self) -> None:
        """Train one network per run until it is right in 55 % of the cases."""
        began, holdout = time.time(), self.rest[:500]
        self.params = self.engine.pretrain(
            self.network,
            self.X[self.pretrain],
            self.y[self.pretrain],
            self.keys,
            steps=self.options.pretrain_steps,
            target=0.55,
            holdout=(self.X[holdout], self.y[holdout]),
        )
        self.timed("pretraining", began)
        first = self.engine.PooledTraining(rounds=1, step_size=0.0)
        before = first.fit(self.network, self.cohort(4), self.params).accuracy[:, 0]
        self.result["start_accuracy"] = before.mean(axis=0).round(4).tolist()
        print("accuracy of the parties before training", self.result["start_accuracy"], flush=True)

    def cell(self, name: str, fraction: float) -> None:
        """One bar of the figure: all runs at one share, four parties."""
        began = time.time()
        self.result["cells"].append(self._defection(name, fraction, 4))
        self.timed(f"{name} {fraction:g}", began)

    def eight(self, name: str, fraction: float) -> None:
        """The same with eight parties."""
        began = time.time()
        self.result["eight"].append(self._defection(name, fraction, 8))
        self.timed(f"{name} {fraction:g}, eight parties", began)

    def _defection(self, name: str, fraction: float, parties: int) -> dict[str, Any]:
        o = self.options
        from counterplay.federated import FedAvg, MWFed

        rule = MWFed(growth=4.0) if name == "MWFed" else FedAvg()
        curve = self.engine.defection_curve(
            self.engine.PooledTraining(rule, rounds=self.rounds, eval_points=o.eval_points),
            self.network,
            self.cohort(parties),
            self.params,
            fractions=(fraction,),
            chunk=max(1, o.chunk * 4 // parties),
        )
        hard = curve.defector < parties // 2
        return {
            "algorithm": name,
            "fraction": fraction,
            "agents": parties,
            "defector": curve.defector.tolist(),
            "satisfied_at_end": curve.at[0, :, -1].astype(int).tolist(),
            "satisfied_ever": curve.by[0, :, -1].astype(int).tolist(),
            "satisfied_by_round": curve.at[0].mean(axis=0).round(4).tolist(),
            "ever_by_round": curve.by[0].mean(axis=0).round(4).tolist(),
            "hard_by_round": curve.at[0, hard].mean(axis=0).round(4).tolist(),
            "easy_by_round": curve.at[0, ~hard].mean(axis=0).round(4).tolist(),
            "drawn": curve.drawn[0].sum(axis=0).tolist(),
        }

    def solo(self, fraction: float) -> None:
        """Mean accuracy of the parties that train alone with a share of their data."""
        began, cohort = time.time(), self.cohort(4)
        for party in range(cohort.parties):
            cohort = cohort.defect(party, fraction)
        o = self.options
        protocol = self.engine.PooledTraining(
            rounds=o.solo_rounds, batch_size=256, eval_points=o.eval_points
        )
        curves = []
        step = max(1, o.chunk // cohort.parties)
        for start in range(0, cohort.runs, step):
            part = slice(start, start + step)
            runs = cohort.take(np.arange(cohort.runs)[part])
            history = protocol.fit_alone(self.network, runs, self.params[part])
            curves.append(history.accuracy.reshape(runs.runs, cohort.parties, -1))
        mean = np.concatenate(curves).mean(axis=0)
        self.result["solo"].append({"fraction": fraction, "accuracy": mean.round(4).tolist()})
        self.timed(f"alone {fraction:g}", began)

    def search(self) -> None:
        """The random search for a learning rate and a batch size, on data that no party holds."""
        began, o = time.time(), self.options
        holdout = self.rest[:2000]
        found = self.engine.random_search(
            self.network,
            self.X[self.pretrain],
            self.y[self.pretrain],
            (self.X[holdout], self.y[holdout]),
            draws=o.search_draws,
            steps=o.search_steps,
        )
        self.result["search"] = {
            "steps": found.steps,
            "lr": [float(f"{rate:.4g}") for rate in found.lr],
            "batch_size": found.batch_size.tolist(),
            "accuracy": found.accuracy.round(4).tolist(),
        }
        print(found.summary())
        self.timed("search", began)


def run_keys(runs: int) -> np.ndarray:
    """Return the keys of the runs; known once the engine is loaded."""
    from counterplay.core.draws import run_keys as keys

    return keys(0, runs)


def with_noise(scores: np.ndarray, reliability: float) -> np.ndarray:
    """Return scores whose rank correlates with the true difficulty by about ``reliability``.

    Averages over random subsets, as in the source, are noisy: their top tenth is only somewhat
    harder than the rest. Held-out losses are not, and their top tenth cannot be learned at all.
    """
    rng = np.random.default_rng(np.random.SeedSequence(1))
    normal = np.sort(rng.standard_normal(len(scores)))
    rank = np.argsort(np.argsort(scores))
    noise = rng.standard_normal(len(scores))
    return np.asarray(reliability * normal[rank] + np.sqrt(1.0 - reliability**2) * noise)
