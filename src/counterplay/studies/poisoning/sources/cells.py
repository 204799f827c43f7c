"""The cells of the study of contributors: tables, numbers of blocks, leak, brackets and attacks."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.metrics import precision_recall_fscore_support

from counterplay.errors import CounterplayWarning
from counterplay.poisoning import PartitionClassifier, choose_n_partitions, poisoning_report
from counterplay.poisoning.ballots import (
    Ballots,
    best_threshold,
    metric_value,
    plurality_ballots,
)
from counterplay.poisoning.choose_partitions import PartitionCurve
from counterplay.poisoning.metric_table import MetricTable
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
        votes = guard.votes(test)
        code = guard.classes_.tolist().index(POSITIVE[name])
        places = np.searchsorted(guard.classes_.astype(str), truth.astype(str))
        ballots = plurality_ballots(votes, places, 2, closed=True)
        record |= _rates(ballots, code)
        if by == "source":
            record |= _halves(ballots, code, split)
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


def _rates(b: Ballots, code: int) -> dict[str, float]:
    """Certified precision, recall and F1 of the majority."""
    return {
        f"{metric}_{t}": metric_value(metric, b, code, b.reachable(t, b.parts - 1))
        for metric in ("precision", "recall", "f1")
        for t in (0, 5, 10)
    }


def _halves(b: Ballots, code: int, split: int) -> dict[str, Any]:
    """Threshold chosen for certified F1 on one half of the test rows, judged on the other."""
    order = np.random.default_rng([split, 22]).permutation(len(b.truth))
    most, found = b.parts - 1, dict[str, Any]()
    for j in (0, 1):
        judged = np.zeros(len(order), dtype=bool)
        judged[order[j::2]] = True
        for t in (0, 5):
            share = best_threshold("f1", b.part(~judged), code, t, most)
            plain = b.part(judged)
            other = plain.with_threshold(code, round(share * b.parts))
            for rule, part in (("majority", plain), ("chosen", other)):
                hit = part.reachable(t, most)
                found[f"{rule}_{t}_{j}"] = metric_value("f1", part, code, hit)
            found[f"share_{t}_{j}"] = share
            if (t, j) == (5, 1):
                lines = {"majority": _lines(plain, code), "chosen": _lines(other, code)}
                found["curves"] = json.dumps(lines)
    return found


def _lines(b: Ballots, code: int) -> dict[str, list[float]]:
    """Certified and attained curves of the class."""
    table = MetricTable(list(CURVE), 1, b.parts - 1, (0, 1), [code]).lines(b, None)
    return {
        f"{metric} {kind}": [round(line[kind], 5) for line in table if line["metric"] == metric]
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
        "share_of_fits": curve.ensembles_fitted / curve.n_candidates,
        "share_of_blocks": _blocks_fitted(curve) / sum(CANDIDATES),
        "path": json.dumps([[int(k), int(m)] for k, m, _ in curve.estimated]
                           + [[int(k), int(k)] for k in curve.n_partitions]),
    }  # fmt: skip


def _blocks_fitted(curve: PartitionCurve) -> int:
    """Blocks that the halving fitted; a candidate's later blocks come on top of its first."""
    fitted = {count: blocks for count, blocks, _ in curve.estimated}
    return sum((fitted | {int(k): int(k) for k in curve.n_partitions}).values())


def _leak(params: Params) -> Record:
    """One record with an odd cell is added: blocks sliced from the frame, and a frozen schema.

    What the slices lose depends on how the pipeline selects its columns: by type it drops those
    that are no longer numbers or categories; otherwise it codes them as words.
    """
    data = sent("adult", 0)
    train, test = data.rows(data.train[:8000]), data.rows(data.test[:1000])
    y = data.y[data.train[:8000]]
    guard = _guard("adult", 40).fit(train, y)
    odd = pd.DataFrame([dict(train.iloc[0]) | {"age": "39 years"}])
    more, labels = pd.concat([train, odd], ignore_index=True), np.append(y, y[0])
    again = clone(guard).set_params(schema=guard.schema_).fit(more, labels)
    frozen = (again.predict(test) != guard.predict(test)) & (guard.certify(test) >= 1)
    found: dict[str, Any] = {
        "frozen_flips": int(frozen.sum()), "rejected": again.rows_rejected_,
        "blocks_changed": int((again.votes(test) != guard.votes(test)).any(axis=1).sum()),
    }  # fmt: skip
    for name, by_type in (("naive", True), ("coded", False)):
        first, second = (_sliced(f, z, test, by_type) for f, z in ((train, y), (more, labels)))
        radius = np.min([first.radius(c) for c in first.rivals], axis=0)
        hit = (first.winner != second.winner) & (radius >= 1)
        found |= {
            f"{name}_flips": int(hit.sum()), f"{name}_largest": int(radius[hit].max(initial=0)),
            f"{name}_radii": json.dumps(radius[hit].tolist()),
            f"{name}_all": json.dumps(radius.tolist()),
        }  # fmt: skip
    return found


def _sliced(frame: pd.DataFrame, y: Any, test: pd.DataFrame, by_type: bool) -> Ballots:
    """Vote of 40 blocks that are slices of a frame and keep the frame's types."""
    block = np.random.default_rng(24).integers(40, size=8000)
    block = np.append(block, 0)[: len(frame)]
    votes = np.full((40, len(test)), -1)
    for b in range(40):
        try:
            model = pipeline("adult", by_type=by_type).fit(frame[block == b], y[block == b])
        except TypeError:  # numbers and a text in one column: the block of the odd row abstains
            continue
        votes[b] = model.predict(test.astype(frame.dtypes)) == "below"
    return plurality_ballots(votes, np.zeros(len(test), dtype=np.int64), 2, closed=True)


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
        time_limit=240,
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
