"""What a saved labelling session holds: the problem's fingerprint, the seed, and every event.

Labels, posterior and who is asked next are recomputed by replaying the events.
Source: docs/theory/06-labeling.md, "Sessions with people".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from counterplay.core import export_bodies as lines
from counterplay.core.exports import EventChain, write_export
from counterplay.core.records import Count, Fingerprint, Record, fingerprint
from counterplay.core.validation import IntArray
from counterplay.labeling.answers import (
    Answer,
    Event,
    LabelingResult,
    Retraction,
    contradicted,
)
from counterplay.labeling.model import PoolProblem

WHAT = "the saved session"


class SavedAnswer(Record, frozen=True, tag_field="event", tag="tell"):
    """Somebody gave a label."""

    agent: Count
    point: Count
    label: Count


class SavedRetraction(Record, frozen=True, tag_field="event", tag="retract"):
    """The answers for a point were taken back."""

    point: Count


SavedEvent: TypeAlias = SavedAnswer | SavedRetraction


class SavedSession(Record, frozen=True):
    """State of :class:`LabelingSession`."""

    kind: Literal["LabelingSession"]
    version: Literal[5]
    problem: Fingerprint
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    events: Annotated[tuple[SavedEvent, ...], Meta(max_length=1_000_000)]


def saved_event(event: Event) -> SavedEvent:
    """Return an event as it is saved."""
    match event:
        case Answer(agent, point, label):
            return SavedAnswer(agent=agent, point=point, label=label)
        case Retraction(point):
            return SavedRetraction(point=point)


def problem_fingerprint(problem: PoolProblem, classes: Sequence[Any]) -> dict[str, str]:
    """Return everything that gives the numbers of a saved answer their meaning."""
    return fingerprint(
        {
            "points": problem.m,
            "agents": problem.k,
            "classes": [str(label) for label in classes],
            "label codes": problem.n_classes,
            "labelings": np.asarray(problem.H, dtype=np.int64),
            "owners": [columns.tolist() for columns in problem.agents],
            # nine digits: weights computed on another machine may differ in the last bits
            "weights": [f"{float(w):.9g}" for w in problem.prior],
            "names": [problem.point_ids, problem.agent_names],
        }
    )


def export_text(
    study: str, events: Sequence[Event], result: LabelingResult, codes: IntArray
) -> str:
    """Return events and result as an export that ``counterplay verify`` recomputes."""
    problem, chain = result.problem, EventChain("campaign")
    for event in events:
        match event:
            case Answer(agent, point, label):
                told = lines.Told(party=agent, item=point, label=label)
                actor = problem.name(agent)
                chain.add("label.tell", msgspec.to_builtins(told), actor=actor)
            case Retraction(point):
                chain.add("label.retract", {"item": point}, actor="coordinator")
    wrong = contradicted(problem, result.answers).any(axis=1)
    stated = lines.LabelingStated(
        labels=tuple(codes.tolist()),
        confidence=tuple(np.minimum(result.confidence_if_realizable, 1.0).tolist()),
        answers=tuple(np.bincount([a.agent for a in result.answers], minlength=problem.k).tolist()),
        labelings_left=int((~wrong).sum()),
    )
    chain.add("label.result", msgspec.to_builtins(stated), actor="coordinator")
    config = lines.LabelingConfig(
        labelings=tuple(map(tuple, problem.H.tolist())),
        weights=tuple(float(w) for w in problem.prior),
        owners=tuple(tuple(columns.tolist()) for columns in problem.agents),
        classes=tuple(str(label) for label in result.classes),
    )
    return write_export(study, "labeling", msgspec.to_builtins(config), [chain])
