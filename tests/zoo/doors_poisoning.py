"""Doors of counterplay.poisoning."""

from __future__ import annotations

import tempfile

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from counterplay import poisoning as p


def _guard(X, y):
    model = p.PartitionClassifier(n_partitions=5).fit(X, y)
    return model.votes(X), model.certify(X), model.predict_proba(X), model.rows_rejected_


def _by_source(X, y):
    sources = np.arange(len(y)) % 7
    model = p.PartitionClassifier(n_partitions=5, committee=2).fit(X, y, sources=sources)
    return model.certify(X), model.is_safe(X, sources=1)


def _metrics(X, y):
    report = p.PartitionClassifier(n_partitions=5).fit(X, y).certified_metrics(X, y)
    return report.to_frame()[["certified", "attained"]].to_numpy()


def _update(X, y):
    model = p.PartitionClassifier(n_partitions=5).fit(X, y)
    return model.update(X, y).rows_added


def _stored(X, y):
    with tempfile.TemporaryDirectory() as folder:
        model = p.PartitionClassifier(n_partitions=5, key="zoo", store=folder).fit(X, y)
        again = p.PartitionClassifier.load(folder, key="zoo")
        assert np.array_equal(again.votes(X), model.votes(X))
        return again.certify(X)


def _majority(X, y):
    return p.BlockMajorityClassifier(random_state=0).fit(X, y).predict_proba(X)


def _report(X, y):
    report = p.poisoning_report(
        KNeighborsClassifier(1), X, y, budget=1, effort=2, n_test=2, random_state=0
    )
    return report.attacked(1), report.error, report.guarded


DOORS = {
    "PartitionClassifier": _guard,
    "PartitionClassifier.by_source": _by_source,
    "PartitionClassifier.certified_metrics": _metrics,
    "PartitionClassifier.update": _update,
    "PartitionClassifier.load": _stored,
    "BlockMajorityClassifier": _majority,
    "BatchedMLPClassifier": lambda X, y: p.BatchedMLPClassifier(n_steps=2).fit(X, y).network_.mean,
    "choose_n_partitions": lambda X, y: p.choose_n_partitions(None, X, y, candidates=(3, 5)).best,
    "poisoning_report": _report,
    "row_local": lambda X, y: p.row_local(lambda rows: rows, X, n=2),
    "Schema": lambda X, y: p.Schema.infer(X).to_dict(),
}
_POINTS = "points of the learner's domain, not a table"
NOT_TABLES: dict[str, str] = dict.fromkeys(
    (
        "UnionOfIntervals",
        "BatchLearner",
        "CallableTreeOrderLearner",
        "CircleERM",
        "ClosureLearner",
        "CoverLearner",
        "DyadicDirectionLearner",
        "FiniteProjector",
        "HalfspaceProjector",
        "HardMarginSVM",
        "IntervalProjector",
        "MaxOpenInterval",
        "MinClosedInterval",
        "OrderedERM",
        "ProjectedMajority",
        "SubsampleERM",
        "ThresholdProjector",
        "TreeOrderLearner",
        "disagreement_rate",
        "disagreement_region",
        "open_interval_rate",
        "separable",
        "UnitDiscScaler",
    ),
    _POINTS,
)
