"""What a campaign is given, checked once: classes, learner, protocols, owners, known labels."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import counterplay
from counterplay.core.audit import allowed_wrong
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import IntArray, check_int
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.labeling import campaign_log as log_lines
from counterplay.labeling.bounds import adjudication_error
from counterplay.labeling.campaign_questions import label_code
from counterplay.labeling.campaign_state import CampaignState
from counterplay.labeling.models import check_learner, default_learner
from counterplay.labeling.solo import TestFirstSolo
from counterplay.tables import Table
from counterplay.tables.cells import listed, shown


def read_classes(classes: Sequence[Any]) -> tuple[Any, ...]:
    """The labels people may give."""
    from counterplay.tables.labels import label_values

    found = tuple(label_values(list(classes), "classes").tolist())
    if len(set(map(str, found))) < len(found) or not 2 <= len(found) <= 255:
        raise InvalidInputError(f"classes must be 2 to 255 different labels, got {listed(found)}")
    return found


def read_seed(random_state: RandomState) -> int:
    """The seed of all orders; a secret one where none is given."""
    if random_state is None:
        return secrets.randbits(63)
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return check_int(random_state, "random_state", low=0, high=2**63 - 1)
    return int(generator(random_state).integers(2**63 - 1))


def read_learner(learner: Any, table: Table) -> Any:
    """The classifier, or the committee of them."""
    if learner is None:
        return default_learner(table)
    if isinstance(learner, list | tuple):
        if not learner:
            raise InvalidInputError("learner must not be an empty list")
        return [check_learner(one) for one in learner]
    return check_learner(learner)


def read_solo(solo: Any, names: Sequence[str]) -> Any:
    """What parties would do alone."""
    if solo is None:
        return TestFirstSolo()
    each = [solo.get(n, None) for n in names] if isinstance(solo, dict) else [solo]
    if not all(hasattr(one, "start") for one in each):
        raise InvalidInputError(
            "solo must be TestFirstSolo(...), an object with start(pool), or one for each party by "
            "name"
        )
    return solo


def read_labeler(labeler: Any) -> str | None:
    """Who answered, as text."""
    if labeler is None:
        return None
    number = isinstance(labeler, int | np.integer) and not isinstance(labeler, bool)
    if not (number or isinstance(labeler, str)):
        raise InvalidInputError(f"labeler must be text, an integer or None, got {shown(labeler)}")
    return str(labeler)


def read_first_to(first_to: int | None, noise: float, max_error: float) -> int:
    """Answers that one label needs in a check."""
    enough = next((r for r in (1, 2, 4, 6, 10, 20) if _good(r, noise)), 20)
    if first_to is None:
        return enough
    count = check_int(first_to, "first_to", low=1, high=20)
    if count == 1 and noise >= max_error:
        raise InvalidInputError(
            f"with {100 * noise:g} % wrong answers a single answer cannot show "
            f"{100 * max_error:g} %; use first_to={enough} (error of the adjudicated answer "
            f"{100 * adjudication_error(noise, enough):.1f} %)"
        )
    return count


def _good(first_to: int, noise: float) -> bool:
    """1 without noise, 2 up to 10 % wrong answers, 4 up to 20 %, more above."""
    most = {1: 0.0, 2: 0.10, 4: 0.20, 6: 0.27, 10: 0.34, 20: 0.5}
    return noise <= most[first_to]


def read_rows(name: str, rows: Any, n: int) -> IntArray:
    """The rows of a party."""
    try:
        array = np.asarray(rows)
        whole = array.ndim == 1 and (array.size == 0 or array.dtype.kind in "iu")
    except (TypeError, ValueError):
        whole = False
    if not whole or not len(array) or array.min() < 0 or array.max() >= n:
        raise InvalidInputError(f"the rows of {name!r} must be positions from 0 to {n - 1}")
    return np.unique(array).astype(np.int64)


def check_owned(rows: Sequence[IntArray], n: int) -> None:
    """Refuse rows that nobody owns."""
    free = np.setdiff1d(np.arange(n), np.concatenate(rows))
    if free.size:
        raise InvalidInputError(
            f"row {int(free[0])} has no owner; give every row an owner or drop it"
        )


def read_known(
    known: Mapping[int, Any] | None, classes: Sequence[Any], table: Table
) -> dict[int, int]:
    """Labels that are known already, as codes by row."""
    found = {}
    for item, label in (known or {}).items():
        place = check_int(item, "a row of known", low=0, high=len(table) - 1)
        found[place] = label_code(label, classes)
    return found


def start_line(
    state: CampaignState, *, default_learner: bool, default_solo: bool
) -> log_lines.Start:
    """The first line of the log."""
    s = state.settings
    owned = {name: tuple(rows.tolist()) for name, rows in zip(state.names, state.rows)}
    return log_lines.Start(
        v=1,
        fingerprint=log_lines.pool_mark(state.table),
        n=len(state.table),
        parties=owned,
        classes=s.classes,
        settings=log_lines.Settings(
            max_error=s.max_error, confidence=s.confidence, scope=s.scope, noise=s.noise,
            first_to=s.first_to, free=s.free, stake=s.stake, batch=s.batch,
            committee=s.committee, learner=log_lines.describe(s.learner, default_learner),
            solo=log_lines.describe(s.solo, default_solo),
        ),
        seed=s.seed,
        commit=state.commitment(),
        known={str(item): code for item, code in state.known.items()},
        library=counterplay.__version__,
        owners=log_lines.owners_mark(owned),
        versions=log_lines.versions(),
    )  # fmt: skip


def warn_small(state: CampaignState) -> None:
    """Warn of pools in which no label at all may be wrong."""
    s = state.settings
    total = len(state.table)
    if s.scope == "union" and allowed_wrong(total, s.max_error) == 0:
        warnings.warn(
            f"all pools together have {total} items: at most {100 * s.max_error:g} % wrong means "
            "no wrong label at all; every item will be asked",
            AssumptionWarning,
            stacklevel=4,
        )
    for name, rows in zip(state.names, state.rows):
        if allowed_wrong(len(rows), s.max_error) == 0 and s.scope == "party":
            warnings.warn(
                f"pool {name!r} has {len(rows)} items: at most {100 * s.max_error:g} % wrong "
                "means no wrong label at all; every item will be asked",
                AssumptionWarning,
                stacklevel=4,
            )
