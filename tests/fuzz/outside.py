"""The campaigns against what comes from outside, as the command line runs them.

``--per-area`` sets how many are tried of each; a choice of areas or names leaves them out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from .campaign import Options, Outcome, Verdict
from .tally import Tried

sys.path.append(str(Path(__file__).parents[1]))  # parties and studies of the other tests

VERDICTS: dict[str, Verdict] = {
    "refused": "documented",
    "accepted": "ok",
    "undocumented": "undocumented",
    "long": "undocumented",
    "later": "undocumented",
    "forged": "forged",
    "changed": "forged",
    "slow": "slow",
    "crash": "crash",
}


def states(options: Options) -> list[Outcome]:
    """Hostile saved states of every class that reads one."""
    from . import states as campaign

    return _outcomes("states", campaign.run, 5000, options)


def flips(options: Options) -> list[Outcome]:
    """Single changed bytes of what questionnaires and guards wrote."""
    from . import flips as campaign

    return _outcomes("flips", campaign.run, campaign.FLIPS, options)


def stores(options: Options) -> list[Outcome]:
    """Bit flips of study stores."""
    from . import stores as campaign

    return _outcomes("stores", campaign.run, 500, options)


def replies(options: Options) -> list[Outcome]:
    """Hostile replies of a party of a federation."""
    from . import replies as campaign

    return _outcomes("replies", campaign.run, 500, options)


def kills(options: Options) -> list[Outcome]:
    """Sweeps that are killed."""
    from . import kills as campaign

    return _outcomes("kills", campaign.run, 50, options)


def _outcomes(
    name: str, run: Callable[[int, int], list[Tried]], n: int, options: Options
) -> list[Outcome]:
    if options.areas or options.only:
        return []
    rows = run(options.per_area or n, options.seed)
    return [_outcome(name, row, options) for row in rows]


def _outcome(name: str, row: Tried, options: Options) -> Outcome:
    error = row.message.partition(":")[0] if row.verdict in ("undocumented", "later") else ""
    again = f"python -m tests.fuzz {name} --seed {options.seed}"
    return Outcome(
        name, row.group, "", row.what, VERDICTS[row.verdict], error, row.message, reproduce=again
    )
