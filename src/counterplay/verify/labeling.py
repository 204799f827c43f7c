"""Recount a finite labelling problem: which labelings are left, how probable each label is.

Source: docs/theory/06-labeling.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from counterplay.core import export_bodies as lines
from counterplay.core.exports import Export
from counterplay.core.records import require_state, to_record
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.verify.checks import TOLERANCE, Check, agree, read_body


def labeling_checks(export: Export) -> Iterable[Check]:
    """Check every result of the session."""
    config = to_record(export.study.config, lines.LabelingConfig, what="the configuration")
    labelings, weights, owns = _pool(config)
    answers: list[lines.Told] = []
    erased = False
    for event in export.events:
        if event.body is None or erased:
            erased = True
            if event.kind == "label.result":
                yield Check("labels", "erased", "what they rest on was erased")
        elif event.kind == "label.tell":
            told = read_body(event, lines.Told)
            what = f"event {event.seq} of {event.stream[:60]}"
            inside = told.party < len(owns) and told.item < labelings.shape[1]
            require_state(inside, what, "", "there is no such party or point")
            require_state(owns[told.party, told.item], what, "party", "does not own the point")
            require_state(told.label < len(config.classes), what, "label", "is no class")
            answers.append(told)
        elif event.kind == "label.retract":
            item = read_body(event, lines.Retracted).item
            answers = [answer for answer in answers if answer.item != item]
        elif event.kind == "label.result":
            stated = read_body(event, lines.LabelingStated)
            yield from _labels(stated, answers, labelings, weights, len(owns))


def _pool(config: lines.LabelingConfig) -> tuple[IntArray, FloatArray, BoolArray]:
    """Labelings, their weights, and who owns what; all in range."""
    what, m = "the configuration", len(config.labelings[0])
    same = m > 0 and all(len(row) == m for row in config.labelings)
    require_state(same, what, "labelings", "all labelings must have as many points")
    labelings = np.array(config.labelings)
    fits = labelings.max() < len(config.classes)
    require_state(fits, what, "labelings", "a label is no class")
    weights = np.array(config.weights)
    fits = weights.shape == (len(labelings),) and weights.sum() > 0
    require_state(fits, what, "weights", "there must be one per labeling, not all 0")
    owns = np.zeros((len(config.owners), m), dtype=bool)
    for party, points in enumerate(config.owners):
        require_state(max(points, default=0) < m, what, f"owners[{party}]", "is no point")
        owns[party, list(points)] = True
    return labelings, weights / weights.sum(), owns


def _labels(
    stated: lines.LabelingStated,
    answers: Sequence[lines.Told],
    labelings: IntArray,
    weights: FloatArray,
    parties: int,
) -> Iterable[Check]:
    """Which labelings are left, how probable each stated label is, and who answered how much."""
    counts = [sum(answer.party == i for answer in answers) for i in range(parties)]
    wrong = None if list(stated.answers) == counts else f"there are {counts!s:.100}"
    yield agree("answers of each party", wrong, f"{counts!s:.100}")
    errors = np.zeros(len(labelings), dtype=np.int64)
    for answer in answers:
        errors += labelings[:, answer.item] != answer.label
    left = int((errors == 0).sum())
    told = f"stated {stated.labelings_left}, recounted {left}"
    yield agree("labelings left", None if left == stated.labelings_left else told, told)
    if left == 0:
        yield Check("labels", "failed", "no labeling agrees with all answers")
        return
    mass = weights * (errors == 0)
    mass /= mass.sum()
    labels = np.array(stated.labels)
    if labels.shape != (labelings.shape[1],) or len(stated.confidence) != labels.size:
        yield Check("labels", "failed", f"there are {labelings.shape[1]} points")
        return
    sure = ((labelings == labels) * mass[:, None]).sum(axis=0)
    over = np.flatnonzero(np.array(stated.confidence) > sure + TOLERANCE)
    wrong = None
    if over.size:
        x = int(over[0])
        wrong = f"point {x}: stated {stated.confidence[x]:.4g}, recomputed {sure[x]:.4g}"
    decided = int((sure > 1 - 1e-12).sum())
    yield agree("labels", wrong, f"{decided} of {sure.size} follow from {len(answers)} answers")
