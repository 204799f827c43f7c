"""The EMNIST defection experiment on a GPU: needs NumPy and torch only.

Two steps. Where the data are, make the compact file; on the GPU machine, run from that file:

    python benchmarks/gpu_contribution.py convert emnist47_subset.npz build/contribution_emnist.npz
    python benchmarks/gpu_contribution.py run build/contribution_emnist.npz \
        --out docs/results/contribution/emnist.json --device cuda --minutes 7.5

Cells are computed in order of importance and the file is rewritten after each of them, so a run
that is stopped early keeps what it has. Figures come from the file alone (matplotlib is needed):

    python benchmarks/gpu_contribution.py figures docs/results/contribution/emnist.json
"""

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
# Most informative cells first: the source's 25 %, then the ends of the curve.
CELLS = [(a, f) for f in (0.25, 1.0, 0.05, 0.01, 0.5, 0.75, 0.9) for a in ("FedAvg", "MWFed")]
SOLO = (1.0, 0.5, 0.25)


def load_engine() -> Any:
    """Import the training package without the rest of the area, which needs SciPy."""
    sys.path.insert(0, str(SOURCE))
    package = types.ModuleType("counterplay.contribution")
    package.__path__ = [str(SOURCE / "counterplay" / "contribution")]
    sys.modules["counterplay.contribution"] = package
    import counterplay.contribution.training as engine

    return engine


def convert(source: str, target: str) -> None:
    """Write images and labels of the EMNIST subset as one small file that NumPy reads anywhere."""
    data = np.load(source)
    X = np.concatenate([data["xtrain"], data["xtest"]]).reshape(-1, 784)
    y = np.concatenate([data["ytrain"], data["ytest"]])
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(target, X=X, y=y.astype(np.uint8))
    print(f"{len(y)} images -> {target}, {Path(target).stat().st_size / 1e6:.1f} MB")


class Experiment:
    """Data, networks and results of one run of the script."""

    def __init__(self, options: argparse.Namespace) -> None:
        import torch

        self.options, self.start = options, time.time()
        self.engine, self.torch = load_engine(), torch
        from counterplay.contribution.training.torch_networks import TorchCNN

        if options.device.startswith("cuda"):
            torch.backends.cuda.matmul.allow_tf32 = True
            torch.backends.cudnn.allow_tf32 = True
        torch.set_flush_denormal(True)
        self.network = TorchCNN(device=options.device, conv="patches")
        self._read(options.data)
        self.result: dict[str, Any] = {
            "format": FORMAT,
            "device": self._device_name(),
            "torch": torch.__version__,
            "rounds": options.rounds,
            "runs": options.runs,
            "threshold": 0.7,
            "reliability": options.reliability,
            "split": options.split,
            "seconds": {},
            "cells": [],
            "solo": [],
        }

    def resume(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Take over the cells of an earlier run with the same settings; return what they are."""
        if self.options.resume is None:
            return []
        old = json.loads(Path(self.options.resume).read_text(encoding="utf-8"))
        for name in ("format", "rounds", "runs", "threshold", "reliability", "split"):
            if old[name] != self.result[name]:
                sys.exit(f"{self.options.resume} was run with another {name}: {old[name]}")
        self.result |= {name: old[name] for name in ("speed", "cells", "solo")}
        self.result["seconds"] = old["seconds"] | self.result["seconds"]
        cells = [("cell", (cell["algorithm"], cell["fraction"])) for cell in old["cells"]]
        return cells + [("solo", (solo["fraction"],)) for solo in old["solo"]]

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return 60.0 * self.options.minutes - (time.time() - self.start)

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

    def _device_name(self) -> str:
        if self.options.device.startswith("cuda"):
            return str(self.torch.cuda.get_device_name())
        return "cpu"

    def _read(self, path: str) -> None:
        data = np.load(path)
        self.X = (data["X"].astype(np.float32) / 255.0 - MEAN) / SD
        self.y = data["y"].astype(np.int64)
        pool, pretrain = self.options.split
        parts = self.engine.split_indices(len(self.y), pool, pretrain, seed=0)
        self.pool, self.pretrain, self.rest = parts

    def prepare(self) -> None:
        """Score difficulty, deal the agents' data, pre-train one network per run."""
        o, began = self.options, time.time()
        scores = self.engine.difficulty_scores(
            self.network,
            self.X[self.pool],
            self.y[self.pool],
            method="margin",
            n_trials=o.scorers,
            batch_size=64,
            max_steps=o.scorer_steps,
            chunk=o.scorers,
        ).scores
        self.timed("difficulty", began)
        hard, easy = self.engine.hard_and_easy(with_noise(scores, o.reliability))
        self.keys = self.engine.run_keys(0, o.runs)
        train, val = self.engine.mixture_agents(
            self.pool[hard],
            self.pool[easy],
            size=o.size,
            train=o.train,
            keys=self.keys,
            disjoint=True,
        )
        sizes = np.full(train.shape[:2], o.train, dtype=np.int64)
        self.cohort = self.engine.Cohort(self.X, self.y, train, sizes, val, self.keys)
        began = time.time()
        holdout = self.rest[:500]
        self.params = self.engine.pretrain(
            self.network,
            self.X[self.pretrain],
            self.y[self.pretrain],
            self.keys,
            steps=o.pretrain_steps,
            target=0.55,
            holdout=(self.X[holdout], self.y[holdout]),
        )
        self.timed("pretraining", began)
        first = self.engine.FedAvg(rounds=1, lr=0.0, eval_points=None)
        before = first.fit(self.network, self.cohort, self.params).accuracy[:, 0]
        self.result["start_accuracy"] = before.mean(axis=0).round(4).tolist()
        print("accuracy of the agents before training", self.result["start_accuracy"], flush=True)

    def cell(self, name: str, fraction: float) -> None:
        """One bar of the figure: all runs at one share."""
        began = time.time()
        protocol = getattr(self.engine, name)(
            rounds=self.options.rounds, eval_points=self.options.eval_points
        )
        curve = self.engine.defection_curve(
            protocol,
            self.network,
            self.cohort,
            self.params,
            fractions=(fraction,),
            chunk=self.options.chunk,
        )
        hard = curve.defector < 2
        self.result["cells"].append(
            {
                "algorithm": name,
                "fraction": fraction,
                "defector": curve.defector.tolist(),
                "satisfied_at_end": curve.at[0, :, -1].astype(int).tolist(),
                "satisfied_ever": curve.by[0, :, -1].astype(int).tolist(),
                "satisfied_by_round": curve.at[0].mean(axis=0).round(4).tolist(),
                "ever_by_round": curve.by[0].mean(axis=0).round(4).tolist(),
                "hard_by_round": curve.at[0, hard].mean(axis=0).round(4).tolist(),
                "easy_by_round": curve.at[0, ~hard].mean(axis=0).round(4).tolist(),
                "drawn": curve.drawn[0].sum(axis=0).tolist(),
            }
        )
        self.timed(f"{name} {fraction:g}", began)

    def solo(self, fraction: float) -> None:
        """Mean accuracy of the agents that train alone with a share of their data."""
        began = time.time()
        cohort = self.cohort
        for agent in range(cohort.agents):
            cohort = cohort.defect(agent, fraction)
        protocol = self.engine.IndividualTraining(
            rounds=self.options.solo_rounds, eval_points=self.options.eval_points
        )
        curves = []
        step = max(1, self.options.chunk // cohort.agents)
        for start in range(0, cohort.runs, step):
            part = slice(start, start + step)
            runs = cohort.take(np.arange(cohort.runs)[part])
            history = protocol.fit(self.network, runs, [p[part] for p in self.params])
            curves.append(history.accuracy.reshape(runs.runs, cohort.agents, -1))
        mean = np.concatenate(curves).mean(axis=0)
        self.result["solo"].append({"fraction": fraction, "accuracy": mean.round(4).tolist()})
        self.timed(f"alone {fraction:g}", began)

    def speed(self) -> None:
        """Seconds per run, batched and one after the other, on this device."""
        rounds, single = self.options.speed_rounds, min(3, self.options.runs)
        protocol = self.engine.FedAvg(rounds=rounds, eval_points=self.options.eval_points)
        batch = min(self.options.chunk, self.options.runs)
        times = {}
        for name, groups in (
            ("one by one", [[r] for r in range(single)]),
            ("batched", [list(range(batch))]),
        ):
            self._fit(protocol, groups[0])  # warm up
            began = time.time()
            for group in groups:
                self._fit(protocol, group)
            times[name] = (time.time() - began) / sum(len(g) for g in groups)
        ratio = times["one by one"] / times["batched"]
        self.result["speed"] = {
            "seconds_per_run": {k: round(v, 5) for k, v in times.items()},
            "batch": batch,
            "rounds": rounds,
            "ratio": round(ratio, 2),
        }
        print(f"batched training is {ratio:.1f} times faster per run", flush=True)

    def _fit(self, protocol: Any, group: list[int]) -> None:
        params = [p[group] for p in self.params]
        protocol.fit(self.network, self.cohort.take(group), params)
        if self.options.device.startswith("cuda"):
            self.torch.cuda.synchronize()


def with_noise(scores: np.ndarray, reliability: float) -> np.ndarray:
    """Return scores whose rank correlates with the true difficulty by about ``reliability``.

    Averages over random subsets, as in the source, are noisy: their top tenth is only somewhat
    harder than the rest. Held-out losses are not, and their top tenth cannot be learned at all.
    """
    rng = np.random.default_rng(np.random.SeedSequence(1))
    normal = np.sort(rng.standard_normal(len(scores)))
    rank = np.argsort(np.argsort(scores))
    noise = rng.standard_normal(len(scores))
    return reliability * normal[rank] + np.sqrt(1.0 - reliability**2) * noise


def run(options: argparse.Namespace) -> None:
    experiment = Experiment(options)
    experiment.prepare()
    done = experiment.resume()
    if "speed" not in experiment.result:
        experiment.speed()
    experiment.save()
    longest = 0.0
    work = [("cell", c) for c in CELLS[:8]] + [("solo", (SOLO[0],))]
    work += [("cell", c) for c in CELLS[8:]] + [("solo", (f,)) for f in SOLO[1:]]
    work = [job for job in work if job not in done]
    skipped = []
    for number, (kind, arguments) in enumerate(work):
        if number >= 2 and experiment.left() < 1.2 * longest:  # the first pair always runs
            skipped.append([kind, *arguments])
            continue
        began = time.time()
        getattr(experiment, kind)(*arguments)
        longest = max(longest, time.time() - began)
        experiment.save()
    experiment.result["skipped"] = skipped
    experiment.result["total_seconds"] = round(time.time() - experiment.start, 1)
    experiment.save()
    print(f"written to {options.out}; skipped for lack of time: {skipped}")


def figures(path: str) -> None:
    """Draw the figures beside the file, and print what they say."""
    sys.path.insert(0, str(SOURCE))
    from counterplay.studies.contribution import emnist_figures, emnist_verdicts

    for name, figure in emnist_figures(path).items():
        target = Path(path).with_name(f"{Path(path).stem}-{name}.png")
        figure.savefig(target)
        print(target)
    for verdict in emnist_verdicts(path):
        print("holds" if verdict.holds else "FAILS", verdict.statement, verdict.measured)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = top.add_subparsers(dest="command", required=True)
    make = commands.add_parser("convert", help="make the compact data file")
    make.add_argument("source")
    make.add_argument("target")
    draw = commands.add_parser("figures", help="draw figures from the results")
    draw.add_argument("results")
    go = commands.add_parser("run", help="run the experiment")
    go.add_argument("data")
    go.add_argument("--out", default="docs/results/contribution/emnist.json")
    go.add_argument("--resume", help="results of an earlier run; only missing cells are computed")
    go.add_argument("--device", default="cuda")
    go.add_argument("--minutes", type=float, default=7.5, help="budget; later cells are skipped")
    go.add_argument("--runs", type=int, default=100)
    go.add_argument("--rounds", type=int, default=250, help="10 epochs of 25 rounds")
    go.add_argument("--solo-rounds", type=int, default=200)
    go.add_argument("--eval-points", type=int, default=200)
    go.add_argument("--chunk", type=int, default=100, help="runs trained together")
    go.add_argument("--split", type=int, nargs=2, default=[40_000, 10_000])
    go.add_argument("--size", type=int, default=2000)
    go.add_argument("--train", type=int, default=1600)
    go.add_argument("--reliability", type=float, default=0.1)
    go.add_argument("--scorers", type=int, default=8)
    go.add_argument("--scorer-steps", type=int, default=400)
    go.add_argument("--pretrain-steps", type=int, default=300)
    go.add_argument("--speed-rounds", type=int, default=10)
    return top


def main() -> None:
    options = parser().parse_args()
    if options.command == "convert":
        convert(options.source, options.target)
    elif options.command == "figures":
        figures(options.results)
    else:
        run(options)


if __name__ == "__main__":
    main()
