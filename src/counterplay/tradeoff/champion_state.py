"""What a stored guard must fulfil before it is believed: the digest of the text, then the history.

The text holds sums of losses, switches and take-downs. Losses lie in [0, 1] and belong to rounds,
so every part bounds the others; who is live follows from them.
Source: docs/theory/26-people.md, "State".
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.online.stored import inside, require
from counterplay.core.records import refusal

if TYPE_CHECKING:
    from counterplay.tradeoff.champion import ChampionChallenger

WHAT = "the stored ChampionChallenger"


def checked_content(raw: Any) -> Any:
    """Return the content of a text whose digest and number of models fit it."""
    content = _without_digest(raw)
    _check_count(content)
    return content


def check_history(guard: ChampionChallenger) -> None:
    """Refuse a history whose parts do not fit each other; find out who is live."""
    _check_switches(guard)
    _check_sums(guard)
    _check_trace(guard)


def digest_of(stored: dict[str, Any]) -> str:
    """A short hash of a stored state, to notice damage."""
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()[:16]


def _without_digest(raw: Any) -> Any:
    """The content of a text; refuses one that was changed after it was written."""
    if not isinstance(raw, dict):
        return raw  # what follows says what is wrong
    rest = {key: value for key, value in raw.items() if key != "digest"}
    if raw.get("digest") != digest_of(rest):
        raise refusal(WHAT, "digest", "the text was changed after it was written")
    return rest


def _check_count(raw: Any) -> None:
    """Refuse a number of models that the stored arrays do not have, before memory is taken."""
    try:
        count, stored = raw["params"]["n_models"], raw["state"]["_primary"]["__array__"]
    except (KeyError, TypeError, IndexError):
        return  # what follows says what is wrong
    if type(stored) is list and (type(count) is not int or count != len(stored)):
        raise refusal(WHAT, "params.n_models", f"it is {count!r:.50}, with {len(stored)} losses")


def _check_switches(guard: ChampionChallenger) -> None:
    """Who was live when; who is live now and for how long everybody was follows from it."""
    K, R, events = guard.n_models, guard.rounds, guard._watchdog.events
    require(len(guard._switches) > 0, guard, "_switches", "must name the first model")
    for entry in guard._switches:
        typed = type(entry) is tuple and tuple(map(type, entry)) == (int, int)
        require(typed, guard, "_switches", "must be pairs of a round and a model")
    starts, models = (np.array(part) for part in zip(*guard._switches))
    fits = starts[0] == 0 and starts[-1] <= min(R, guard.horizon - 1)
    fits = fits and (np.diff(starts) > 0).all() and (np.diff(models) != 0).all()
    require(fits and 0 <= models.min() <= models.max() < K, guard, "_switches", "is impossible")
    guard._live = int(models[-1])
    if guard.horizon > R:
        live = guard._learner._choice == guard._live and guard._live in guard.allowed
        require(live, guard, "_switches", "must end with the model that is live")
    lengths = np.diff(np.append(starts, R))
    guard._live_rounds = np.bincount(models, weights=lengths, minlength=K).astype(np.int64)
    guard._downs = len({event[4] for event in events})


def _check_sums(guard: ChampionChallenger) -> None:
    """Losses lie in [0, 1] and belong to rounds: that bounds every sum by the others."""
    R, rate, live = guard.rounds, guard.budget.rate, guard._live_rounds
    tol, watchdog = 1e-9 * (1 + R), guard._watchdog
    for name, sums, played in (
        ("_primary", guard._primary, guard._played[0]),
        ("_harm", guard._harm, guard._played[1]),
    ):
        inside(guard, name, sums, 0.0, R, tol)
        least = np.maximum(0.0, sums - (R - live)).sum()
        inside(guard, "_played", played, least, np.minimum(sums, live).sum(), R * tol)
    inside(guard, "_primary", guard._primary, guard._learner._primary, guard._learner._primary, tol)
    regret, off = guard._played[0] - guard._primary, watchdog._rounds_off()
    inside(guard, "_sleep", guard._sleep, regret - off, regret + off, R * tol)
    inside(guard, "_level", guard._level, guard._harm - rate * R, guard._harm, tol)
    inside(guard, "_worst", guard._worst, np.maximum(guard._level, 0.0), guard._harm, tol)
    level, seen = np.maximum(guard._level, 0.0), np.maximum(watchdog.level, 0.0)
    highest = np.inf if guard._reviews() else seen  # the watchdog forgets at a review
    inside(guard, "_level", level, seen, highest, tol)
    for event in watchdog.events:
        inside(guard, "_worst", guard._worst[event[1]], event[3], np.inf, tol)


def _check_trace(guard: ChampionChallenger) -> None:
    """The last kept point is at most one stride old."""
    R, points = guard.rounds, guard._trace.to_array()
    last = points[-1] if len(points) else np.zeros(5)
    gap = R - last[0]
    require(0 <= gap < guard._trace.stride, guard, "_trace", "does not reach the current round")
    now = np.array([*guard._played, guard._primary.min()])
    inside(guard, "_played", now, last[1:4], last[1:4] + gap, 1e-9 * (1 + R))
    void = guard._watchdog._warned
    require(void or bool(np.isfinite(points[:, 4]).all()), guard, "_trace", "is void")
    if not void:
        require(last[4] <= guard._bound() + 1e-9 * R, guard, "_trace", "exceeds the bound")
