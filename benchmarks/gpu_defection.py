"""The CIFAR-10 experiment with parties that leave, on a GPU: needs NumPy and torch only.

Two steps. Where the data are, make the compact file (needs Pillow); on the GPU machine, run it:

    python benchmarks/gpu_defection.py convert cifar10_jpegq90.npz build/defection_cifar10.npz
    python benchmarks/gpu_defection.py run build/defection_cifar10.npz \
        --out docs/results/defection/cifar10.json --device cuda --minutes 12

The setting of the source: 10 agents, a network with one hidden layer of 128 units, each agent
keeps 90 % of its own class, 5 local steps, step size 0.1, 500 rounds, 10 seeds trained at once. The
most important cells come first: the timeline of all rules, then other targets, step sizes, and
heterogeneity by local steps. The file is rewritten after each cell; a later run with
``--resume FILE`` computes only what is missing. A check of the set-up that takes seconds on a CPU:

    python benchmarks/gpu_defection.py run build/defection_cifar10.npz --device cpu \
        --seeds 2 --rows 1000 --rounds 6 --cells 5 --out build/check.json

Figures and verdicts come from the file alone (matplotlib is needed):

    python benchmarks/gpu_defection.py figures docs/results/defection/cifar10.json
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).resolve().parents[1] / "src"
FORMAT = "counterplay-defection-cifar10-1"
MEAN = np.array([0.4914, 0.4822, 0.4465], dtype=np.float32)
SD = np.array([0.2470, 0.2435, 0.2616], dtype=np.float32)
EVERY = 5  # rounds between two measured points of a curve
METHODS: dict[str, str] = {
    "fedavg": "FedAvg",
    "mw_fed": "MW-FED",
    "ada_gd_naive": "ADA-GD naive",
    "ada_gd": "ADA-GD",
    "safe_step": "SafeStep",
}


def cells() -> list[dict[str, Any]]:
    """All cells, the most important first; duplicates are left out."""
    base: dict[str, Any] = {"own": 0.9, "local_steps": 5, "step_size": 0.1, "eps": 1.25}
    found: list[dict[str, Any]] = []

    def add(method: str, **changes: Any) -> None:
        cell = {"method": method, **base, **changes}
        if cell not in found:
            found.append(cell)

    for method in METHODS:  # the timeline
        add(method)
    add("ada_gd", step_size=0.02)
    add("safe_step", step_size=0.5)
    for method in METHODS:  # the source's target to the letter, with its step size
        add(method, eps=0.2)
    for eps in (1.0, 1.5, 1.75, 0.75, 0.5):  # accuracy of the devices against the target
        for method in ("fedavg", "safe_step", "mw_fed", "ada_gd"):
            add(method, eps=eps)
        add("ada_gd", eps=eps, step_size=0.02)
    for own in (0.7, 0.5, 0.1):  # heterogeneity by local steps
        for method in ("fedavg", "safe_step"):
            add(method, own=own)
    for steps in (1, 10):
        for own in (0.9, 0.7, 0.5, 0.1):
            for method in ("fedavg", "safe_step"):
                add(method, own=own, local_steps=steps)
    for step in (0.01, 0.03, 0.1, 0.3, 1.0):  # fine-tuning: nobody leaves
        for steps in (5, 1, 10):
            add("fedavg", eps=0.0, step_size=step, local_steps=steps)
    for step in (0.3, 0.03, 1.0, 0.01):  # step sizes
        for method in ("fedavg", "ada_gd", "safe_step", "ada_gd_naive"):
            add(method, step_size=step, eps=1.0)
    add("ada_gd_naive", eps=1.0)
    add("safe_step", step_size=0.5, eps=1.0)
    for own in (0.7, 0.5, 0.1):  # heterogeneity by local steps, with a target hard to reach
        for method in ("fedavg", "safe_step"):
            add(method, own=own, eps=1.0)
    for steps in (1, 10):
        for own in (0.9, 0.7, 0.5, 0.1):
            for method in ("fedavg", "safe_step"):
                add(method, own=own, local_steps=steps, eps=1.0)
    return found


def load_engine() -> Any:
    """Import the engine from the sources beside this script; it needs NumPy and torch only."""
    sys.path.insert(0, str(SOURCE))
    import counterplay.federated as engine

    return engine


def cosines() -> np.ndarray:
    """The orthogonal 8 x 8 matrix of the discrete cosine transform."""
    k, n = np.arange(8)[:, None], np.arange(8)[None, :]
    matrix = np.cos(np.pi * (2 * n + 1) * k / 16) / 2
    matrix[0] /= np.sqrt(2)
    return matrix.astype(np.float32)


def convert(source: str, target: str) -> None:
    """Write the rounded cosine coefficients of all images: small, and read by NumPy alone.

    The source file holds JPEG images; the same transform with the same rounding loses nothing more.
    A coefficient is stored as ``256 * high + low``, and ``high`` is almost always 0.
    """
    from PIL import Image

    data = np.load(source)
    dct, parts, worst = cosines(), {}, []
    for name in [*(f"jpg_train{i}" for i in range(5)), "jpg_test"]:
        image = Image.open(io.BytesIO(data[name].tobytes()))
        tables = {k: np.array(v, np.float32).reshape(8, 8) for k, v in image.quantization.items()}
        q = np.stack([tables[0], tables[max(tables)], tables[max(tables)]])
        rgb = np.asarray(image.convert("RGB"))
        ycc = np.asarray(image.convert("YCbCr"), dtype=np.float32) - 128.0
        # rows of images, then rows and columns of 8 x 8 blocks within an image
        block = ycc.reshape(100, 4, 8, 100, 4, 8, 3).transpose(0, 3, 6, 1, 4, 2, 5)
        block = block.reshape(10_000, 3, 16, 8, 8)
        exact = np.round(dct @ block @ dct.T / q[None, :, None]).astype(np.int16)
        exact = np.ascontiguousarray(exact.transpose(1, 3, 4, 0, 2))  # frequency by frequency
        high = (exact + 128) >> 8
        parts[name], parts[f"{name}_high"] = (
            (exact - 256 * high).astype(np.int8),
            high.astype(np.int8),
        )
        again = decode(exact[:, :, :, :500], q)
        plain = rgb.reshape(100, 32, 100, 32, 3).swapaxes(1, 2).reshape(-1, 32, 32, 3)[:500]
        worst.append(np.abs(again.astype(int) - plain).mean())
        parts["q"] = q
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(target, ytrain=data["ytrain"], ytest=data["ytest"], **parts)
    size = Path(target).stat().st_size / 2**20
    print(f"60000 images -> {target}, {size:.1f} MiB, mean error {max(worst):.3f} of 255")


def decode(coefficients: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return ``(n, 32, 32, 3)`` bytes from the coefficients."""
    dct = cosines()
    n = coefficients.shape[3]
    value = coefficients.transpose(3, 0, 4, 1, 2).astype(np.float32)
    value = dct.T @ (value * q[None, :, None]) @ dct
    image = value.reshape(n, 3, 4, 4, 8, 8).transpose(0, 2, 4, 3, 5, 1).reshape(n, 32, 32, 3)
    y, b, r = image[..., 0] + 128.0, image[..., 1], image[..., 2]
    rgb = np.stack([y + 1.402 * r, y - 0.344136 * b - 0.714136 * r, y + 1.772 * b], axis=-1)
    return np.clip(np.round(rgb), 0, 255).astype(np.uint8)


def read(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return standardised training and test rows (float32) with their labels."""
    data = np.load(path)
    q = data["q"]

    def rows(name: str) -> np.ndarray:
        exact = data[name].astype(np.int16) + 256 * data[f"{name}_high"].astype(np.int16)
        images = [decode(exact[:, :, :, a : a + 2000], q) for a in range(0, 10_000, 2000)]
        pixels = np.concatenate(images).astype(np.float32) / 255.0
        return ((pixels - MEAN) / SD).reshape(len(pixels), -1)

    train = np.concatenate([rows(f"jpg_train{i}") for i in range(5)])
    ytrain, ytest = data["ytrain"].astype(np.int64), data["ytest"].astype(np.int64)
    return train, ytrain, rows("jpg_test"), ytest


class Experiment:
    """Data, model and results of one run of the script."""

    def __init__(self, options: argparse.Namespace) -> None:
        import torch

        self.options, self.began, self.torch = options, time.time(), torch
        self.engine = load_engine()
        import counterplay.federated.rules as rules
        from counterplay.defection.split import heterogeneous_split

        self.rules, self.split = rules, heterogeneous_split
        if options.device.startswith("cuda"):
            torch.backends.cuda.matmul.allow_tf32 = not options.exact
        backend = self.engine.TorchArrays(device=options.device)
        self.model = self.engine.LayeredObjective([3072, options.hidden, 10], backend=backend)
        X, y, Xt, yt = read(options.data)
        keep = np.random.default_rng(0).permutation(len(y))[: options.rows]
        self.X, self.y, self.test = X[keep], y[keep], (Xt[: options.rows], yt[: options.rows])
        self.keys = self._keys()
        self.sites: dict[float, Any] = {}
        gpu = options.device.startswith("cuda")
        self.result: dict[str, Any] = {
            "format": FORMAT,
            "device": str(torch.cuda.get_device_name()) if gpu else "cpu",
            "torch": torch.__version__,
            "seeds": options.seeds,
            "rounds": options.rounds,
            "rows": len(self.y),
            "hidden": options.hidden,
            "batch_size": options.batch_size,
            "every": EVERY,
            "cells": [],
        }
        print(f"data and model ready after {time.time() - self.began:.1f} s", flush=True)

    def _keys(self) -> Any:
        from counterplay.core.draws import run_keys

        return run_keys(0, self.options.seeds)

    def resume(self) -> None:
        """Take over the cells of an earlier run with the same settings."""
        if self.options.resume is None:
            return
        old = json.loads(Path(self.options.resume).read_text(encoding="utf-8"))
        for name in ("format", "seeds", "rounds", "rows", "hidden", "batch_size", "every"):
            if old[name] != self.result[name]:
                sys.exit(f"{self.options.resume} was run with another {name}: {old[name]}")
        self.result["cells"] = old["cells"]

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return 60.0 * self.options.minutes - (time.time() - self.began)

    def agents(self, own: float) -> Any:
        """The agents' data for all seeds, a different split in each."""
        if own not in self.sites:
            owners = [
                self.split(self.X, self.y, 10, own, random_state=seed).agent_of_row
                for seed in range(self.options.seeds)
            ]
            self.sites = {own: self.engine.Sites.from_agents(self.X, self.y, np.stack(owners))}
        return self.sites[own]

    def rule(self, cell: dict[str, Any]) -> Any:
        """The server rule of a cell; the margin is a tenth of the target."""
        delta = max(0.1 * cell["eps"], 1e-3)
        r = self.rules
        return {
            "fedavg": lambda: r.FedAvg(),
            "mw_fed": lambda: r.MWFed(gap=delta),
            "ada_gd_naive": lambda: r.ADAGD(delta, "naive"),
            "ada_gd": lambda: r.ADAGD(delta, "anchored"),
            "safe_step": lambda: r.SafeStep(delta, cap="step_size"),
        }[cell["method"]]()

    def cell(self, cell: dict[str, Any]) -> None:
        """Train all seeds of one cell and keep its curves."""
        began, o = time.time(), self.options
        federation = self.engine.Federation(
            self.model,
            self.agents(cell["own"]),
            eps=cell["eps"],
            test=self.test,
            evaluate_every=EVERY,
        )
        record = federation.train(
            self.rule(cell),
            self.keys,
            step_size=cell["step_size"],
            rounds=o.rounds,
            work=self.engine.LocalWork(cell["local_steps"], o.batch_size),
        )
        seconds = time.time() - began
        self.result["cells"].append({**cell, **summarise(record), "seconds": round(seconds, 2)})
        now = self.result["cells"][-1]
        print(
            f"{cell}: average {np.mean(now['average']):.3f}, worst {np.mean(now['worst']):.3f}, "
            f"defections {now['defections']}, {seconds:.1f} s, {self.left():.0f} s left",
            flush=True,
        )

    def save(self) -> None:
        """Write what there is, never half of it."""
        path = Path(self.options.out)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(self.result), encoding="utf-8")
        part.replace(path)


def summarise(record: Any) -> dict[str, Any]:
    """Final numbers of every seed, and curves as mean and standard deviation over seeds."""
    accuracy, excess = record.accuracy, record.loss - record.eps
    curves = {
        "average": accuracy.mean(axis=2),
        "worst": accuracy.min(axis=2),
        "best": accuracy.max(axis=2),
        "population": record.population,
        "lowest_excess": excess.min(axis=2),
        "highest_excess": excess.max(axis=2),
        "remaining": record.active.sum(axis=2).astype(float),
    }
    thin = {name: curve[:, ::EVERY] for name, curve in curves.items()}
    average = curves["average"]
    return {
        "average": average[:, -1].round(4).tolist(),
        "worst": accuracy[:, -1].min(axis=1).round(4).tolist(),
        "best": accuracy[:, -1].max(axis=1).round(4).tolist(),
        "population": record.population[:, -1].round(4).tolist(),
        "peak": average.max(axis=1).round(4).tolist(),
        "peak_round": average.argmax(axis=1).tolist(),
        "worst_loss": record.loss[:, -1].max(axis=1).round(4).tolist(),
        "defections": record.defections.tolist(),
        "defect_round": record.defect_round.tolist(),
        "rounds_used": record.rounds.tolist(),
        "status": list(record.status),
        "curves": {
            name: {
                "mean": curve.mean(axis=0).round(4).tolist(),
                "sd": curve.std(axis=0, ddof=min(1, len(curve) - 1)).round(4).tolist(),
            }
            for name, curve in thin.items()
        },
    }


def run(options: argparse.Namespace) -> None:
    experiment = Experiment(options)
    experiment.resume()
    keys = ("method", "own", "local_steps", "step_size", "eps")
    done = [{k: cell[k] for k in keys} for cell in experiment.result["cells"]]
    work = [cell for cell in cells() if cell not in done][: options.cells]
    longest, skipped = 0.0, 0
    for cell in work:
        if experiment.left() < 1.2 * longest:
            skipped += 1
            continue
        began = time.time()
        experiment.cell(cell)
        longest = max(longest, time.time() - began)
        experiment.result["total_seconds"] = round(time.time() - experiment.began, 1)
        experiment.save()
    experiment.save()
    print(f"written to {options.out}; {skipped} cells skipped for lack of time")


def figures(path: str) -> None:
    """Draw the figures beside the file, and print what they say."""
    sys.path.insert(0, str(SOURCE))
    import cifar10_results

    from counterplay.core.figures import figure_style

    data = cifar10_results.load_results(path)
    with figure_style():
        for name, figure in cifar10_results.figures(data).items():
            target = Path(path).with_name(f"{Path(path).stem}-{name}.png")
            figure.savefig(target)
            print(target)
    print(cifar10_results.table(data).to_string(index=False))
    for verdict in cifar10_results.verdicts(data):
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
    go.add_argument("--out", default="docs/results/defection/cifar10.json")
    go.add_argument("--resume", help="results of an earlier run; only missing cells are computed")
    go.add_argument("--device", default="cuda")
    go.add_argument("--minutes", type=float, default=12.0, help="budget; later cells are skipped")
    go.add_argument("--cells", type=int, default=1000, help="at most this many cells")
    go.add_argument("--seeds", type=int, default=10)
    go.add_argument("--rounds", type=int, default=500)
    go.add_argument("--rows", type=int, default=50_000, help="training rows (and test rows)")
    go.add_argument("--hidden", type=int, default=128)
    go.add_argument("--batch-size", type=int, default=64)
    go.add_argument("--exact", action="store_true", help="full float32 products, slower")
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
