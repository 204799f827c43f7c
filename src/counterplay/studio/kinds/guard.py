"""The guard as a study: decisions for a running service, outcomes as they come, one stream.

A service asks who is live, ends rounds and reports outcomes; the guard is the library's own, so
that its guarantees hold as they are stated there. Everything a service sends is checked before it
is stored, and a batch is stored as a whole or not at all.
Source: docs/theory/28-studio.md, "The guard".
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from counterplay.core import export_bodies as bodies
from counterplay.core.exports import Event
from counterplay.core.records import to_record
from counterplay.errors import InvalidInputError
from counterplay.studio.errors import Refused
from counterplay.studio.kinds import NewEvent, typed
from counterplay.studio.kinds.guard_fold import GuardFold, new_guard
from counterplay.tables.cells import listed, shown

SERVER = "studio"
MOST_OUTCOMES = 1_000
_LIVE_ONLY = ("champion", "purse", "max_delay", "missing")


class Fields(msgspec.Struct, frozen=True):
    """What a guard's TOML file may say."""

    kind: str | None = None
    name: str | None = None
    models: list[str] | None = None
    safe: str | None = None
    champion: str | None = None
    mode: str | None = None
    horizon: int | None = None
    rate: float | None = None
    burst: float | None = None
    purse: float | None = None
    max_delay: int | None = None
    missing: str | None = None
    policy: str | None = None
    seed: int | None = None
    valid_for_s: int | None = None
    title: str | None = None
    intro: str | None = None
    locale: str | None = None


class GuardKind:
    """Rules of a guard; see :class:`counterplay.studio.kinds.Kind`."""

    name = "guard"
    fold_version = 1

    def read_config(self, raw: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Read models, budget and mode."""
        return read_config(raw)

    def begin(self, config: dict[str, Any]) -> GuardFold:
        """Return the state of an empty stream."""
        return GuardFold.begin(config)

    def apply(self, config: dict[str, Any], state: GuardFold, event: Event) -> GuardFold:
        """Take an event; what does not concern the guard is passed over."""
        if event.kind.startswith("guard."):
            state.take(event)
        return state

    def check(self, config: dict[str, Any], state: GuardFold, event: NewEvent) -> None:
        """Refuse rounds out of turn, outcomes that are not legal, and models that do not exist."""
        match event.kind:
            case "guard.ended":
                _check_ended(config, state, event.body)
            case "guard.outcome":
                if told := outcome_problem(state, event.body):
                    raise Refused(told, "outcome")
            case "guard.taken_down":
                _check_taken_down(config, state, event.body)
            case kind if kind.startswith("guard.") and event.actor != SERVER:
                raise Refused(f"A guard takes no event {kind[:40]!r}.")

    def follow(self, config: dict[str, Any], state: GuardFold, event: Event) -> Sequence[NewEvent]:
        """Make the first decision when the study opens, and the next when a round ends.

        A live model that is taken down ends its round at once.
        """
        if event.kind == "study.closed" and state.decisions:
            return [NewEvent("guard.result", _stated(state), f"result:{event.hash[:32]}", SERVER)]
        if event.kind == "guard.taken_down" and event.body is not None and state.decisions:
            last = len(state.decisions) - 1
            live = event.body["model"] == state.decisions[last][0]
            if not live or len(state.decisions) >= config["horizon"]:
                return []
            return [NewEvent("guard.ended", {"after": last}, f"ended:{last}", SERVER)]
        first = event.kind == "study.opened" and not state.decisions
        if not first and event.kind != "guard.ended":
            return []
        state.pending = state.decide()
        key = f"decided:{state.pending['decision']}"
        return [NewEvent("guard.decided", state.pending, key, SERVER)]

    def export(self, config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return what line 1 of an export states."""
        return "guard", config


def read_config(raw: dict[str, Any]) -> dict[str, Any]:
    """Turn the fields of a TOML file into a frozen configuration."""
    raw = typed(raw, Fields, "a guard")
    for name in ("models", "safe", "rate", "burst", "horizon"):
        if raw.get(name) is None:
            raise InvalidInputError(f"a guard needs {name} = ...")
    models = raw["models"]
    if not all(map(str.strip, models)) or len(set(models)) != len(models) or len(models) < 2:
        raise InvalidInputError('models must be two or more different names, such as ["v7", "v8"]')
    place = {name: i for i, name in enumerate(models)}
    for field in ("safe", "champion"):
        if raw.get(field) is not None and raw[field] not in place:
            raise InvalidInputError(
                f"{field} = {shown(raw[field], 40)} is none of the models {listed(models)}"
            )
    mode = raw.get("mode", "live")
    if mode not in ("live", "full"):
        raise InvalidInputError(f"mode must be 'live' or 'full', got {shown(mode, 40)}")
    given = [name for name in _LIVE_ONLY if raw.get(name) not in (None, 0, "ignore")]
    if mode == "full" and given:
        raise InvalidInputError(
            f"mode = 'full' takes no {given[0]}: every model is judged in every round, at once"
        )
    valid = raw.get("valid_for_s", 60)
    if not 0 <= valid <= 86_400:
        raise InvalidInputError(f"valid_for_s must be from 0 to 86400, got {shown(valid, 40)}")
    config = {
        "promise": mode, "models": models, "horizon": raw["horizon"], "rate": raw["rate"],
        "burst": raw["burst"], "champion": place.get(raw.get("champion", "")),
        "safe": place[raw["safe"]], "purse": raw.get("purse"),
        "max_delay": raw.get("max_delay", 0), "missing": raw.get("missing", "ignore"),
        "policy": raw.get("policy", "guaranteed"), "seed": raw.get("seed", secrets.randbits(60)),
        "page": {"valid_for_s": valid, "title": raw.get("title"),
                 "intro": raw.get("intro")},
    }  # fmt: skip
    config = msgspec.to_builtins(to_record(config, bodies.LiveGuardConfig, what="the guard"))
    guard = new_guard(config)
    if mode == "full":
        config["reviews"] = [int(t) for t in guard._watchdog._resets[1:]]
    return dict(config)


def outcome_problem(
    state: GuardFold, item: Any, seen: Mapping[int, str] | None = None
) -> str | None:
    """What is wrong with an outcome, in one sentence; None if it can be stored.

    An outcome that is stored already and equal is no problem: it changes nothing.

    Parameters
    ----------
    state:
        The guard now.
    item:
        What the service sent.
    seen:
        Decisions of outcomes in the same batch, with their ids.
    """
    try:
        told = to_record(item, bodies.LiveOutcome, what="the outcome")
    except InvalidInputError as error:
        return str(error)
    known = state.outcomes.get(told.id)
    if known is not None:
        return None if known == item else f"id {told.id!r} was used for another outcome"
    if told.decision >= len(state.decisions):
        return f"there is no decision {told.decision}"
    name = state.config["models"][state.decisions[told.decision][0]]
    if told.model not in state.config["models"]:
        return f"there is no model {told.model!r}"
    if told.model != name:
        return f"decision {told.decision} was made for {name!r}, not for {told.model!r}"
    other = state.judged.get(told.decision) or (seen or {}).get(told.decision)
    if other is not None:
        return f"decision {told.decision} has an outcome already, {other!r}"
    return _value_problem(state, told)


def _value_problem(state: GuardFold, told: bodies.LiveOutcome) -> str | None:
    if not state.live:
        if told.missing or told.all is None or set(told.all) != set(state.config["models"]):
            return "this guard needs the losses of all models: all = {model: [primary, secondary]}"
        if told.decision != len(state.decisions) - 1:
            return f"round {told.decision} is over: full feedback comes before the next decision"
        return None
    if told.missing:
        given = told.primary is not None or told.secondary is not None
        return "a missing outcome has no primary or secondary loss" if given else None
    if told.primary is None or told.secondary is None:
        return "primary and secondary are needed, unless missing is true"
    return None


def _check_ended(config: dict[str, Any], state: GuardFold, body: dict[str, Any]) -> None:
    after = body.get("after")
    last = len(state.decisions) - 1
    if type(after) is not int or after != last:
        raise Refused(f"The last decision is {last}; a round ends once.", "after")
    if len(state.decisions) >= config["horizon"]:
        raise Refused(
            f"The horizon of {config['horizon']} rounds is over. Make a new study with the models "
            "that are left.", "after",
        )  # fmt: skip
    if not state.live and last not in state.judged:
        raise Refused(
            f"Round {last} has no outcome yet: with full feedback every round ends with the losses "
            "of all models.", "after",
        )  # fmt: skip


def _check_taken_down(config: dict[str, Any], state: GuardFold, body: dict[str, Any]) -> None:
    model, reason = body.get("model"), str(body.get("reason", "")).strip()
    if type(model) is not int or not 0 <= model < len(config["models"]):
        raise Refused("There is no such model.", "model")
    if not reason:
        raise Refused("Say why the model is taken down.", "reason")
    if not state.live:
        raise Refused("With full feedback the guard itself takes models down.", "model")
    if model == config["safe"]:
        raise Refused("The safe model takes over from others: it cannot be taken down.", "model")
    if model in state.removed:
        raise Refused("That model was taken down already.", "model")


def _stated(state: GuardFold) -> dict[str, Any]:
    K = len(state.config["models"])
    live = [0] * K
    for model, _ in state.decisions:
        live[model] += 1
    harm = state.engine._guard.harm if state.live else state.engine.report().harm.tolist()
    missing = sum(bool(o.get("missing")) for o in state.outcomes.values())
    stated = bodies.LiveStated(
        rounds=len(state.decisions), judged=len(state.judged) - missing, missing=missing,
        harm=tuple(map(float, harm)), live_rounds=tuple(live),
        switches=max(0, len(state.switches) - 1), largest_excess=state.used,
        harm_bound=state.bound,
    )  # fmt: skip
    return dict(msgspec.to_builtins(stated))


KIND = GuardKind()
