"""What a run of the plan found, and how far its stages got."""

from __future__ import annotations

from dataclasses import dataclass, field

from counterplay.auditing.findings import Missing, SectionResult


@dataclass(frozen=True)
class StageLog:
    """What was planned for a stage, and how far it got."""

    section: str
    stage: str
    planned: int
    done: int
    wanted: int
    planned_s: float
    used_s: float
    note: str = ""


@dataclass(frozen=True)
class Run:
    """What a run of the plan found.

    Parameters
    ----------
    results
        Result of every section that ran.
    failed
        Sentence of every section that raised.
    skipped
        What the others need.
    stages
        Planned and used, stage by stage.
    plan
        Items of every stage that the results rest on: ``"section.stage"`` to a number.
    interrupted
        Whether it was stopped by Ctrl-C.
    estimate
        The plan in one line, as it was announced.
    titles
        Titles of all sections, also of those that did not run.
    """

    results: dict[str, SectionResult]
    failed: dict[str, str]
    skipped: dict[str, list[Missing]]
    stages: tuple[StageLog, ...]
    plan: dict[str, int]
    interrupted: bool
    estimate: str
    titles: dict[str, str] = field(default_factory=dict)
