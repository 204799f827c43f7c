"""What one site can measure without the others: its own learning curve, as points.

The rows of the peers are 0 in every point, so nothing is said about what they are worth; that
needs mixtures, or models that are exchanged.
Source: "The private variant", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from counterplay.contribution.sites.learners import Learner
from counterplay.contribution.sites.measuring import Job, Measurement
from counterplay.contribution.sites.points import SitePoints
from counterplay.contribution.sites.reading import MOST_SITES, check_name, read_sites
from counterplay.core.seeds import RandomState, generator
from counterplay.errors import InvalidInputError

SIZES = (1.0, 0.5, 0.25, 0.125)
REPEATS = 8


def own_points(
    table: str | Path,
    label: str,
    peers: Sequence[str],
    *,
    drop: Sequence[str] = (),
    model: Any = "logistic",
    metric: str = "accuracy",
    progress: bool = True,
    random_state: RandomState = 0,
) -> SitePoints:
    """Measure a site's own curve at four sizes, eight splits each.

    Parameters
    ----------
    table
        The site's file; its stem is the site's name.
    label
        Column of the labels.
    peers
        Names of the other sites; they must differ.
    drop
        Columns to leave out.
    model
        As in ``measure_sites``.
    metric
        As in ``measure_sites``.
    progress
        Whether to show a progress bar.
    random_state
        Seed of the splits.
    """
    name = check_name(Path(table).stem)
    others = [check_name(peer) for peer in peers]
    if len({name, *others}) != len(others) + 1 or len(others) >= MOST_SITES:
        raise InvalidInputError("the names of the sites must be different")
    alone = read_sites({name: table}, label, drop=drop, least=1)
    learner = Learner(alone, model, chances=metric in ("neg_log_loss", "roc_auc"))
    run = Measurement(learner, metric, 4, int(generator(random_state).integers(2**62)), 1)
    jobs = [Job(r, (share,)) for r in range(REPEATS) for share in SIZES]
    return replace(run.points(jobs, time_limit=None, progress=progress), held_out=None, guess=None)
