"""The cells of the study of contributors: tables, numbers of blocks, leak, brackets and attacks."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.metrics import precision_recall_fscore_support

from counterplay.core.votes import Vote, plurality
from counterplay.errors import CounterplayWarning
from counterplay.poisoning import PartitionClassifier, choose_n_partitions, poisoning_report
from counterplay.poisoning.certificates import partition_radius
from counterplay.poisoning.nearest_row import NearestRow
from counterplay.poisoning.partition_trial import Goal, Trial
from counterplay.studies.poisoning.sources.data import BLOCKS, POSITIVE, Sent, pipeline, sent
from counterplay.studies.study import Params, Record

BUDGETS = (0, 1, 3, 5, 10, 20)
CURVE = range(16)
CANDIDATES = (21, 35, 51, 75, 101, 151, 201, 301)
HALVING_BUDGET = 10


def cell(params: Params, seed: int) -> Record:
    """One cell; ``part`` says which kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        return _PARTS[str(params["part"])](params)


def _table(params: Params) -> Record:
    """Plain accuracy, and the partition by row or by source: one line of the table."""
    name, by, split = str(params["data"]), str(params["by"]), int(params["split"] or 0)
    data = sent(name, split)
    train, test = data.rows(data.train), data.rows(data.test)
    y, truth = data.y[data.train], data.y[data.test]
    owners = data.sources[data.train]
    guard = _guard(name)
    guard.fit(train, y, sources=owners if by == "source" else None)
    curve = guard.certified_accuracy(test, truth)
    sizes, counts = guard.partition_sizes_, np.unique(owners.astype(str), return_counts=True)[1]
    record: dict[str, Any] = {
        "rows": len(y), "sources": len(counts), "largest": int(counts.max()), "n": len(truth),
        "smallest_block": int(sizes.min()), "largest_block": int(sizes.max()),
        "curve": json.dumps([round(float(v), 5) for v in curve.curve()]),
    }  # fmt: skip
    for t in BUDGETS:
        span = curve.interval(t)
        record |= {f"at_{t}": span.estimate, f"low_{t}": span.low, f"high_{t}": span.high}
    if by == "row":
        record |= _plain(name, data)
    if name in POSITIVE:
        record |= _rates(guard, test, truth, name)
        if by == "source":
            record |= _halves(guard, test, truth, name, split)
    return record


def _guard(name: str, blocks: int | None = None, **given: Any) -> PartitionClassifier:
    classes = {"mnist": tuple(range(10)), "bank": ("no", "yes"), "adult": ("above", "below"),
               "tumours": ("benign", "malignant")}.get(name, ("ham", "spam"))  # fmt: skip
    return PartitionClassifier(
        pipeline(name), blocks or BLOCKS[name], classes=classes, check=False, **given
    )


def _plain(name: str, data: Sent) -> dict[str, Any]:
    base = NearestRow() if pipeline(name) is None else pipeline(name)
    model = base.fit(data.rows(data.train), data.y[data.train])
    said, truth = model.predict(data.rows(data.test)), data.y[data.test]
    found = {"plain": float((said == truth).mean())}
    if name in POSITIVE:
        rates = precision_recall_fscore_support(truth, said, labels=[POSITIVE[name]])
        for word, value in zip(("precision", "recall", "f1"), rates):
            found[f"plain_{word}"] = float(value[0])
    return found


def _rates(guard: PartitionClassifier, test: Any, truth: Any, name: str) -> dict[str, float]:
    report = guard.certified_metrics(test, truth, positive=POSITIVE[name], budgets=(0, 5, 10))
    return {
        f"{metric}_{t}": report.at(metric, t)
        for metric in ("precision", "recall", "f1")
        for t in (0, 5, 10)
    }


def _halves(
    guard: PartitionClassifier, test: Any, truth: Any, name: str, split: int
) -> dict[str, Any]:
    """Threshold chosen for certified F1 on one half of the test rows, judged on the other."""
    order = np.random.default_rng([split, 22]).permutation(len(truth))
    halves = [np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])]
    positive = POSITIVE[name]
    rows = [test.iloc[h] if isinstance(test, pd.DataFrame) else test[h] for h in halves]
    found: dict[str, Any] = {}
    for i, j in ((0, 1), (1, 0)):
        chooser = guard.certified_metrics(rows[i], truth[halves[i]], positive=positive)
        for t in (0, 5):
            share = chooser.best_threshold("f1", t)
            plain, judged = (
                guard.set_params(vote_threshold=rule).certified_metrics(
                    rows[j], truth[halves[j]], positive=positive, budgets=CURVE
                )
                for rule in (None, {positive: share})
            )
            guard.set_params(vote_threshold=None)
            found[f"majority_{t}_{j}"] = plain.at("f1", t)
            found[f"chosen_{t}_{j}"] = judged.at("f1", t)
            found[f"share_{t}_{j}"] = share
            if (t, j) == (5, 1):
                found["curves"] = json.dumps({"majority": _lines(plain), "chosen": _lines(judged)})
    return found


def _lines(report: Any) -> dict[str, Any]:
    frame = report.to_frame()
    return {
        f"{metric} {kind}": [round(float(v), 5) for v in frame[frame.metric == metric][kind]]
        for metric in ("precision", "recall", "f1")
        for kind in ("certified", "attained")
    }


def _blocks(params: Params) -> Record:
    """Certified accuracy and F1 of one number of blocks, on the rows that halving holds out."""
    name, count = str(params["data"]), int(params["blocks"] or 1)
    data = sent(name, 0)
    trial = _trial(name, data)
    ballots, most = trial.ballots(count)
    goals = {"accuracy": "accuracy", "f1": ("f1", POSITIVE[name])}
    found: dict[str, Any] = {}
    for word, metric in goals.items():
        goal = Goal.of(metric, trial.classes)
        values = [goal.certified(ballots, t, most) for t in range(21)]
        found[f"certified_{word}"] = json.dumps([round(v, 6) for v in values])
    return found


def _trial(name: str, data: Sent) -> Trial:
    rows, owners = data.rows(data.train), data.sources[data.train]
    return Trial.of(pipeline(name), rows, data.y[data.train], owners, None, 0)


def _halving(params: Params) -> Record:
    """The choice by halving, with the blocks it fits."""
    name = str(params["data"])
    data = sent(name, 0)
    metric: Any = params["metric"] if params["metric"] == "accuracy" else ("f1", POSITIVE[name])
    curve = choose_n_partitions(
        pipeline(name), data.rows(data.train), data.y[data.train],
        sources=data.sources[data.train], budget=HALVING_BUDGET, metric=metric,
        candidates=CANDIDATES, random_state=0,
    )  # fmt: skip
    place = int(np.flatnonzero(curve.n_partitions == curve.best)[0])
    return {
        "best": curve.best, "certified": float(curve.certified[place]),
        "share_of_fits": curve.blocks_fitted / curve.blocks_of_grid,
        "path": json.dumps([[int(k), int(m)] for k, m, _ in curve.estimated]
                           + [[int(k), int(k)] for k in curve.n_partitions]),
    }  # fmt: skip


def _leak(params: Params) -> Record:
    """One odd cell in a table: blocks sliced from the frame, and with a frozen schema."""
    data = sent("adult", 0)
    train, test = data.rows(data.train[:8000]), data.rows(data.test[:1000])
    y = data.y[data.train[:8000]]
    guard = _guard("adult", 40).fit(train, y)
    odd = train.iloc[[0]].astype(object)
    odd.iloc[0, odd.columns.get_loc("age")] = "39 years"
    more, labels = pd.concat([train.astype({"age": object}), odd]), np.append(y, y[0])
    again = clone(guard).set_params(schema=guard.schema_).fit(more, labels)
    frozen = (again.predict(test) != guard.predict(test)) & (guard.certify(test) >= 1)
    first, second = _sliced(train, y, test), _sliced(more, labels, test)
    radius = partition_radius(first)
    hit = (first.winner != second.winner) & (radius >= 1)
    return {
        "naive_flips": int(hit.sum()), "naive_largest": int(radius[hit].max(initial=0)),
        "frozen_flips": int(frozen.sum()), "rejected": again.rows_rejected_,
        "blocks_changed": int((again.votes(test) != guard.votes(test)).any(axis=1).sum()),
        "naive_radii": json.dumps(radius[hit].tolist()), "radii": json.dumps(radius.tolist()),
    }  # fmt: skip


def _sliced(frame: pd.DataFrame, y: Any, test: pd.DataFrame) -> Vote:
    """Vote of 40 blocks that are slices of a frame and keep the frame's types."""
    block = np.random.default_rng(24).integers(40, size=8000)
    block = np.append(block, 0)[: len(frame)]
    votes = [
        pipeline("adult").fit(frame[block == b], y[block == b]).predict(test) == "below"
        for b in range(40)
    ]
    return plurality(np.array(votes).astype(int), np.array(["above", "below"]))


def _collective(params: Params) -> Record:
    """Per point, certified for one set of blocks, and attained, at some budgets."""
    name = str(params["data"])
    data = sent(name, 0)
    guard = _guard(name).fit(
        data.rows(data.train), data.y[data.train], sources=data.sources[data.train]
    )
    test, truth = data.rows(data.test), data.y[data.test]
    budgets = BUDGETS
    rows = guard.certified_accuracy(test, truth)
    report = guard.certified_metrics(
        test, truth, positive=POSITIVE.get(name, 8), budgets=budgets, collective=True,
        time_limit=600,
    ).to_frame()  # fmt: skip
    report = report[report.metric == "accuracy"].set_index("budget")
    found: dict[str, Any] = {}
    for t in budgets:
        found |= {
            f"per_point_{t}": rows.at(t), f"together_{t}": float(report.certified[t]),
            f"attained_{t}": float(report.attained[t]),
        }  # fmt: skip
    return found


def _attack(params: Params) -> Record:
    """Attacks on the plain pipeline and on the guarded one, with what is not certified."""
    name = str(params["data"])
    data = sent(name, 0)
    places = np.random.default_rng(23).permutation(data.train)[:800]
    X, y, most = data.rows(places), data.y[places], 10
    found: dict[str, Any] = {}
    for kind in ("true_rows", "wrong_label"):
        report = poisoning_report(
            pipeline(name), X, y, budget=most, effort=24, n_test=40, attacks=(kind,),
            n_partitions=25, random_state=0,
        )  # fmt: skip
        found |= {f"{kind}_{t}": report.attacked(t) for t in range(most + 1)}
    found |= {f"open_{t}": float((~report.guarded[:, t]).mean()) for t in range(most + 1)}
    guarded = poisoning_report(
        _guard(name, 25), X, y, budget=most, effort=5, n_test=40, attacks=("wrong_label",),
        random_state=0,
    )  # fmt: skip
    return found | {f"guarded_{t}": guarded.attacked(t) for t in range(most + 1)}


_PARTS = {
    "table": _table, "blocks": _blocks, "halving": _halving, "leak": _leak,
    "collective": _collective, "attack": _attack,
}  # fmt: skip
