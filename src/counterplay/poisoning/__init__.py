"""Correct labels, bad intent: clean-label attacks, and learners that withstand them.

An attacker sees your training data and one test point, and adds rows that are all *correctly
labelled*, so that the retrained model errs at that point. The error rate hardly moves; the damage
is targeted. With data and a model, start with :func:`poisoning_report` (how exposed am I?) and
:class:`PartitionClassifier` (every prediction says how many planted rows it survives; see
:func:`choose_n_partitions`). With a situation, take a learner, a target and an attacker and measure
with :func:`attackable_rate` (real attacks below, certificates above), or draw the exact region of a
rule on one feature with :func:`line_region`. Learners that cannot be steered, attackers and
projectors are in :mod:`~counterplay.poisoning.lab`, hard cases in ``instances``, guarantees as
numbers in ``bounds``.
"""

from counterplay.poisoning import bounds, instances, lab
from counterplay.poisoning.batched_mlp import BatchedMLPClassifier
from counterplay.poisoning.block_majority import BlockMajorityClassifier
from counterplay.poisoning.certificates import CertifiedAccuracy
from counterplay.poisoning.certified_metrics import CertifiedMetrics
from counterplay.poisoning.choose_partitions import choose_n_partitions
from counterplay.poisoning.engine import attackable_rate
from counterplay.poisoning.errors import (
    BlockFailureWarning,
    GlobalFeaturesWarning,
    NotDeterministicWarning,
    RowsRejectedWarning,
)
from counterplay.poisoning.global_features import row_local
from counterplay.poisoning.line_region import line_region
from counterplay.poisoning.model import IntervalTarget, LabelledSet
from counterplay.poisoning.partition_classifier import PartitionClassifier
from counterplay.poisoning.report import poisoning_report
from counterplay.poisoning.union_of_intervals import UnionOfIntervals
from counterplay.tables import Schema

__all__ = [
    "BatchedMLPClassifier",
    "BlockFailureWarning",
    "BlockMajorityClassifier",
    "CertifiedAccuracy",
    "CertifiedMetrics",
    "GlobalFeaturesWarning",
    "IntervalTarget",
    "LabelledSet",
    "NotDeterministicWarning",
    "PartitionClassifier",
    "RowsRejectedWarning",
    "Schema",
    "UnionOfIntervals",
    "attackable_rate",
    "bounds",
    "choose_n_partitions",
    "instances",
    "lab",
    "line_region",
    "poisoning_report",
    "row_local",
]
