"""Studies of clean-label poisoning: same error but different fates, and what certificates buy."""

from counterplay.studies.poisoning.aggregation import AGGREGATION
from counterplay.studies.poisoning.budget import BUDGET
from counterplay.studies.poisoning.escape import ESCAPE
from counterplay.studies.poisoning.intervals import INTERVALS
from counterplay.studies.poisoning.plane import PLANE
from counterplay.studies.poisoning.proper import PROPER
from counterplay.studies.poisoning.sources import SOURCES
from counterplay.studies.poisoning.svm import SVM
from counterplay.studies.study import Area

AREA = Area(
    name="poisoning",
    title="Correct labels, bad intent: clean-label poisoning",
    story=(
        "An attacker sees your training data and one test point, and adds rows that are all "
        "correctly labelled, so that the retrained model errs at that point. The error rate hardly "
        "moves, so nobody notices. Two learners with the same error can have opposite fates: one "
        "cannot be moved at all, the other can be steered anywhere. The library measures the "
        "attackable rate from both sides, real attacks below and certificates above, ships the "
        "learners that withstand, and wraps any scikit-learn model so that every prediction says "
        "how many planted rows it survives."
    ),
    harm=(
        "One planted row, correctly labelled, flips the one prediction that somebody cares about, "
        "while the error rate hardly moves. A spam filter errs on 1 of 40 messages; with one "
        "planted copy of each, on 16."
    ),
    remedy=(
        "Attack your own pipeline, then wrap it: every prediction says how many planted rows, or "
        "accounts, it survives."
    ),
    start="PartitionClassifier(pipeline, 51).fit(table, labels, sources=accounts)",
    picture="one-point-svm/heat-map",
    studies=(INTERVALS, PROPER, SVM, PLANE, BUDGET, AGGREGATION, SOURCES, ESCAPE),
)

__all__ = ["AREA"]
