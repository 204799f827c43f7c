"""Partitions at scale: a million rows, memory, single updates, and the price of taking any rows.

Times are CPU seconds of this run; what is compared takes turns, and the median ratio is printed
with the smallest and the largest. Run it with one thread (``OMP_NUM_THREADS=1``, as ``make bench``
does). Memory is what the process holds beyond the data while it fits, looked at every 5 ms.
"""

from __future__ import annotations

import hashlib
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ledger import Times, compare, growth, in_turns, timed
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from counterplay.poisoning import PartitionClassifier, Schema
from counterplay.poisoning.nearest_row import NearestRow
from counterplay.tables.encoding import blocks_of, encode_rows, row_digests

ROWS, WIDTH, BLOCKS = 1_000_000, 20, 1000
PIECE = 50_000


def seconds(call: Callable[[], Any], turns: int = 1) -> Times:
    """Return the CPU time of a call."""
    return timed(call, turns, cpu=True)


def drawn(n: int, dtype: str = "float32") -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, WIDTH), dtype=np.float32).astype(dtype, copy=False)
    return X, (X[:, :3].sum(axis=1) > 0).astype(int)


def plain_votes(base: Any, X: Any, y: Any, test: Any, blocks: int) -> Any:
    """Deep partition aggregation with nothing around it: raw bytes, slices, counts."""
    marks = [hashlib.blake2b(row, digest_size=16).digest() for row in np.ascontiguousarray(X)]
    block = blocks_of(np.frombuffer(b"".join(marks), dtype=np.uint8).reshape(-1, 16), blocks)
    order = np.argsort(block, kind="stable")
    ends = np.searchsorted(block[order], np.arange(blocks + 1))
    votes = []
    for a, b in zip(ends[:-1], ends[1:]):
        places = order[a:b]
        votes.append(clone(base).fit(X[places], y[places]).predict(test))
    return np.mean(votes, axis=0)


def path_lines(n: int = 100_000, blocks: int = 250) -> None:
    X, y = drawn(n, "float64")
    for name, base in (("1-NN", NearestRow()), ("LR", LogisticRegression())):
        guard = PartitionClassifier(base, blocks, check=False)
        ours = partial(fitted_votes, guard, X, y, X[:200])
        plain = partial(plain_votes, base, X, y, X[:200], blocks)
        compare("poisoning", f"any rows with certificates, {name}, {n} rows, {blocks} blocks",
                *in_turns(ours, plain, 5), against="a bare loop over raw bytes")  # fmt: skip


def fitted_votes(guard: PartitionClassifier, X: Any, y: Any, test: Any) -> Any:
    return clone(guard).fit(X, y).predict(test)


def hash_lines() -> None:
    X, _ = drawn(ROWS)
    rng = np.random.default_rng(1)
    letters = rng.integers(97, 123, size=(ROWS, 80), dtype=np.uint8).view("S80").ravel()
    texts = [text.decode() for text in letters.tolist()]

    def hashed(rows: Any) -> None:
        schema = Schema.infer(rows[:1000])
        for i in range(0, len(rows), PIECE):
            row_digests(encode_rows(schema.cast(rows[i : i + PIECE])))

    for name, rows in ((f"rows of {WIDTH} floats", X), ("texts of 80 characters", texts)):
        spent = seconds(lambda rows=rows: hashed(rows))
        growth("poisoning", f"encode and hash {name}", {ROWS: spent}, size="rows", bar=5.0)


class Memory:
    """Watches how much memory this process holds."""

    def __enter__(self) -> Memory:
        self.start = self.peak = self._held()
        self._on = True
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._on = False
        self._thread.join()

    def _watch(self) -> None:
        while self._on:
            self.peak = max(self.peak, self._held())
            time.sleep(0.005)

    def _held(self) -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def million_line(dtype: str) -> None:
    X, y = drawn(ROWS, dtype)
    guard = PartitionClassifier(GaussianNB(), BLOCKS)
    clone(guard).set_params(n_partitions=2).fit(X[:100], y[:100])  # imports
    with Memory() as memory:
        fit = seconds(lambda: guard.fit(X, y), 3)
    above, data = memory.peak - memory.start, X.nbytes + y.nbytes
    vote = seconds(lambda: guard.certified_accuracy(X[:10_000], y[:10_000]))
    update = timed(lambda: guard.update(X[:1], [1]), 5, how="median", cpu=True)
    what = f"{BLOCKS} Gaussian naive Bayes, {WIDTH} columns, {dtype}"
    growth("poisoning", f"fit of {what}", {ROWS: fit}, size="rows", bar=30.0)
    growth(
        "poisoning",
        f"memory above the data, fit of {what}",
        {ROWS: above / 2**20},
        size="rows",
        unit="MiB",
        bar=1024,
        note=f"{above / data:.2f} times the data",
    )
    growth("poisoning", f"10,000 points voted and certified, {what}", {ROWS: vote}, size="rows",
           note=f"certified accuracy at 100 rows {vote.result.at(100):.3f}")  # fmt: skip
    compare("poisoning", f"update of one row among {ROWS}, {what}", update, fit,
            against="fitting again", package="counterplay", bar=200)  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    path_lines()
    hash_lines()
    if Path("/proc/self/statm").exists():
        million_line("float32")
        million_line("float64")


if __name__ == "__main__":
    main()
