"""The EMNIST defection experiment on a GPU: needs NumPy and torch only.

Where the data are, make the compact file (28 MB):

    python benchmarks/gpu_contribution.py convert emnist47_subset.npz build/contribution_emnist.npz

On the GPU machine, time batched against one-by-one training (about a minute):

    python benchmarks/gpu_contribution.py time build/contribution_emnist.npz --device cuda

Then run the cells. All of them take about 15 minutes on an H200 (23 s per cell, 46 s with eight
parties); what does not fit into the minutes given is skipped and done by the next call:

    python benchmarks/gpu_contribution.py run build/contribution_emnist.npz --device cuda \
        --minutes 8 --out docs/results/contribution/emnist.json
    python benchmarks/gpu_contribution.py run build/contribution_emnist.npz --device cuda \
        --minutes 8 --out docs/results/contribution/emnist.json \
        --resume docs/results/contribution/emnist.json

``run`` also measures the speed. Cells are computed in order of importance and the file is rewritten
after each of them, so a run that is stopped early keeps what it has; ``--resume FILE`` computes
only what FILE lacks (same protocol and seeds).

Figures come from the file alone (needs matplotlib):

    python benchmarks/gpu_contribution.py figures docs/results/contribution/emnist.json
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emnist_experiment import SOURCE, Experiment, run_keys

# Most informative cells first: the source's 25 %, then the ends of the curve.
CELLS = [(a, f) for f in (0.25, 1.0, 0.05, 0.01, 0.5, 0.75, 0.9) for a in ("FedAvg", "MWFed")]
EIGHT = [(a, f) for f in (0.25, 1.0, 0.05, 0.01) for a in ("FedAvg", "MWFed")]
SOLO = (1.0, 0.5, 0.25)
WORK: list[tuple[str, tuple[Any, ...]]] = [
    *[("cell", cell) for cell in CELLS],
    *[("solo", (fraction,)) for fraction in SOLO],
    ("search", ()),
    *[("eight", cell) for cell in EIGHT],
]


def convert(source: str, target: str) -> None:
    """Write images and labels of the EMNIST subset as one small file that NumPy reads anywhere."""
    data = np.load(source)
    X = np.concatenate([data["xtrain"], data["xtest"]]).reshape(-1, 784)
    y = np.concatenate([data["ytrain"], data["ytest"]])
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(target, X=X, y=y.astype(np.uint8))
    print(f"{len(y)} images -> {target}, {Path(target).stat().st_size / 1e6:.1f} MB")


class Stopwatch:
    """Seconds per run and round of the same training code, many runs together or one by one."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.options = experiment, experiment.options

    def engine(self, network: Any, runs: list[int], rounds: int) -> float:
        """Federated averaging of some runs in one batch, after a round to warm up."""
        e = self.experiment
        cohort, start = e.cohort(4).take(runs), e.params[runs]

        def fit(rounds: int) -> None:
            e.engine.PooledTraining(rounds=rounds, eval_points=self.options.eval_points).fit(
                network, cohort, start
            )

        fit(1)
        return self._seconds(lambda: fit(rounds)) / len(runs) / rounds

    def plain(self, runs: list[int], rounds: int) -> float:
        """What one would write for a single run: nn.Module, torch's Adam, everything on device."""
        return statistics.mean(
            self._seconds(lambda run=run: self._plain_run(run, rounds)) / rounds for run in runs
        )

    def best(self, runs: list[int]) -> tuple[Any, dict[str, Any]]:
        """Return the fastest way to compute the network for a batch, and the times of all ways."""
        times: dict[str, Any] = {}
        fastest: tuple[float, Any] = (np.inf, self.experiment.network)
        for half in (True, False) if self.experiment.gpu else (False,):
            name = "half" if half else "full"
            network = self.experiment.make_network(half)
            try:
                seconds = self.engine(network, runs, 2)
            except RuntimeError as error:  # not enough memory, or no such kernel on this device
                times[name] = f"failed: {str(error)[:80]}"
                continue
            finally:
                if self.experiment.gpu:
                    self.experiment.torch.cuda.empty_cache()
            times[name] = round(seconds, 6)
            fastest = min(fastest, (seconds, network), key=lambda pair: pair[0])
        return fastest[1], times

    def measure(self) -> dict[str, Any]:
        """Compare on this device, in this process, each mode in its fastest way; medians."""
        e, o = self.experiment, self.options
        together = list(range(min(o.chunk, o.runs)))
        alone = list(range(min(4, o.runs)))
        network, ways = self.best(together)
        single, single_ways = self.best(alone[:1])
        times: dict[str, list[float]] = {"together": [], "one by one": [], "plain torch": []}
        self.plain(alone[:1], 2)
        for _ in range(o.speed_repeats):
            times["together"].append(self.engine(network, together, o.speed_rounds))
            times["one by one"].append(
                statistics.mean(self.engine(single, [run], o.speed_rounds) for run in alone)
            )
            times["plain torch"].append(self.plain(alone, o.speed_rounds))
        middle = {name: statistics.median(values) for name, values in times.items()}
        e.network = network
        speed = {
            "seconds_per_run_and_round": {name: round(v, 6) for name, v in middle.items()},
            "batch": len(together),
            "rounds": o.speed_rounds,
            "ratio": round(middle["one by one"] / middle["together"], 2),
            "ratio_plain": round(middle["plain torch"] / middle["together"], 2),
            "ways_together": ways,
            "ways_alone": single_ways,
            "same_predictions": self._agreement(network, together),
        }
        for name, value in speed.items():
            print(f"  {name}: {value}", flush=True)
        return speed

    def _agreement(self, network: Any, runs: list[int]) -> float:
        """Share of points that the chosen way judges like the plainest one in full precision."""
        from counterplay.contribution.defectors.rounds import correct, placed

        e, exact = self.experiment, self.experiment.make_network(False)
        few = runs[:8]
        place = e.cohort(4).val[few].reshape(len(few), -1)[:, :400]
        x, y = exact.backend.put(e.X[place]), exact.backend.put(e.y[place])
        start = placed(exact, e.params[few], len(e.params[few]))
        first, second = (correct(net, start, x, y) for net in (network, exact))
        return float(np.mean(first == second).round(5))

    def _plain_run(self, run: int, rounds: int) -> None:
        e, o, torch = self.experiment, self.options, self.experiment.torch
        cohort = e.cohort(4).take([run])
        put = e.network.backend.put
        X, y = put(cohort.X).view(-1, 1, 28, 28), put(cohort.y)
        train, val = put(cohort.train[0]), put(cohort.val[0])
        layers = torch.nn
        model = layers.Sequential(
            layers.Conv2d(1, 32, 3),
            layers.ReLU(),
            layers.Conv2d(32, 64, 3),
            layers.ReLU(),
            layers.MaxPool2d(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Linear(9216, 128),
            layers.ReLU(),
            layers.Dropout(0.5),
            layers.Linear(128, 47),
        ).to(X.device)
        adam = torch.optim.Adam(model.parameters(), lr=0.002)
        loss, batch = layers.CrossEntropyLoss(), min(64, train.shape[1])
        for _ in range(rounds):
            model.train()
            pick = train.gather(1, torch.randint(train.shape[1], (4, batch), device=X.device))
            adam.zero_grad()
            loss(model(X[pick.flatten()]), y[pick.flatten()]).backward()
            adam.step()
            model.eval()
            with torch.no_grad():
                for points in val:  # 200 random validation points of every party
                    part = points[torch.randperm(len(points), device=X.device)[: o.eval_points]]
                    float((model(X[part]).argmax(-1) == y[part]).float().mean())

    def _seconds(self, call: Callable[[], Any]) -> float:
        self._wait()
        began = time.perf_counter()
        call()
        self._wait()
        return time.perf_counter() - began

    def _wait(self) -> None:
        if self.experiment.gpu:
            self.experiment.torch.cuda.synchronize()


def measure_time(options: argparse.Namespace) -> None:
    """Time only: batched against one by one, on random parties."""
    experiment = Experiment(options)
    order = np.random.default_rng(0).permutation(experiment.pool)
    half = len(order) // 2
    experiment.hard, experiment.easy = order[:half], order[half:]
    experiment.keys = run_keys(options.runs)
    network = experiment.network
    experiment.params = network.backend.put(network.start(experiment.keys))
    speed = Stopwatch(experiment).measure()
    print(f"batched training is {speed['ratio']} times faster per run")


def run(options: argparse.Namespace) -> None:
    """Compute the cells that are missing, most informative first, within the minutes given."""
    experiment = Experiment(options)
    experiment.deal()
    experiment.pretrain_runs()
    done = experiment.resume()
    experiment.result["speed"] = Stopwatch(experiment).measure()
    experiment.save()
    skipped = work(experiment, [job for job in WORK if job not in done])
    experiment.result["skipped"] = skipped
    experiment.result["total_seconds"] = round(time.time() - experiment.start, 1)
    experiment.save()
    print(f"written to {options.out}; skipped for lack of time: {skipped}")


def work(experiment: Experiment, jobs: list[tuple[str, tuple[Any, ...]]]) -> list[list[Any]]:
    """Do one job after the other and save each; return those for which no time was left."""
    longest, skipped = 0.0, []
    for number, (kind, arguments) in enumerate(jobs):
        if number >= 2 and experiment.left() < 1.2 * longest:  # the first pair always runs
            skipped.append([kind, *arguments])
            continue
        began = time.time()
        getattr(experiment, kind)(*arguments)
        longest = max(longest, time.time() - began)
        experiment.save()
    return skipped


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
    for name, text in (("run", "run the experiment"), ("time", "time the training only")):
        go = commands.add_parser(name, help=text)
        go.add_argument("data")
        go.add_argument("--out", default="docs/results/contribution/emnist.json")
        go.add_argument("--resume", help="results of an earlier run; only missing cells are run")
        go.add_argument("--device", default="cuda")
        go.add_argument("--minutes", type=float, default=8.0, help="then cells are skipped")
        go.add_argument("--runs", type=int, default=100)
        go.add_argument("--epochs", type=int, default=10)
        go.add_argument("--rounds-per-epoch", type=int, default=25, help="1600 points by 64")
        go.add_argument("--rounds", type=int, help="instead of epochs")
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
        go.add_argument("--search-draws", type=int, default=40)
        go.add_argument("--search-steps", type=int, default=300)
        go.add_argument("--speed-rounds", type=int, default=25, help="one epoch")
        go.add_argument("--speed-repeats", type=int, default=3)
    return top


def main() -> None:
    options = parser().parse_args()
    if options.command == "convert":
        convert(options.source, options.target)
    elif options.command == "figures":
        figures(options.results)
    elif options.command == "time":
        measure_time(options)
    else:
        run(options)


if __name__ == "__main__":
    main()
