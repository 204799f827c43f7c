"""What all campaigns share: options, outcomes of calls, the table, the file of failures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

Verdict = Literal["ok", "documented", "undocumented", "nan", "slow", "memory", "crash", "forged"]
FAILURES: tuple[Verdict, ...] = ("undocumented", "nan", "slow", "memory", "crash", "forged")
SECONDS = 5.0
BYTES = 2**30
LONGEST_MESSAGE = 300


@dataclass(frozen=True)
class Options:
    """What to try."""

    areas: tuple[str, ...] = ()
    only: str = ""
    argument: str = ""
    mutation: str = ""
    per_argument: int = 14
    per_area: int | None = None
    seed: int = 0
    jobs: int = 1


@dataclass(frozen=True)
class Outcome:
    """What one hostile call did."""

    group: str
    target: str
    argument: str
    mutation: str
    verdict: Verdict
    error: str = ""
    message: str = ""
    where: str = ""
    seconds: float = 0.0
    call: str = ""
    reproduce: str = field(default="")


def failures(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the calls with an answer that the library does not promise."""
    return [outcome for outcome in outcomes if outcome.verdict in FAILURES]


def table(outcomes: Sequence[Outcome]) -> str:
    """Return one line per group: how many calls were tried, and how many failed in which way."""
    groups = list(dict.fromkeys(outcome.group for outcome in outcomes))
    counts = {g: Counter(o.verdict for o in outcomes if o.group == g) for g in groups}
    counts["all"] = Counter(outcome.verdict for outcome in outcomes)
    head = f"{'':14} {'tried':>7} " + " ".join(f"{verdict:>12}" for verdict in FAILURES)
    lines = [
        f"{group:14} {sum(count.values()):7,} "
        + " ".join(f"{count[verdict]:12,}" for verdict in FAILURES)
        for group, count in counts.items()
    ]
    return "\n".join([head, *lines])


def write(outcomes: Iterable[Outcome], path: Path) -> None:
    """Write every failure with what reproduces it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = [asdict(outcome) for outcome in failures(outcomes)]
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
