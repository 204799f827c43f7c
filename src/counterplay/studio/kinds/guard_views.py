"""What services and people are told about a guard: the answer of ``serve``, and the dashboard."""

from __future__ import annotations

from typing import Any

from counterplay.studio.kinds.guard_fold import GuardFold


def served(state: GuardFold) -> dict[str, Any]:
    """Who is live now, why, and how much of the harm is used; reading changes nothing."""
    config = state.config
    names = config["models"]
    number = len(state.decisions) - 1
    answer: dict[str, Any] = {
        "model": None,
        "decision": number,
        "valid_for_s": config["page"]["valid_for_s"],
        "reason": reason(state),
        "harm": {"used": round(state.used, 6), "allowed": state.bound},
    }
    if number < 0 or state.last["mode"] == "void":
        return {**answer, "fallback": names[config["safe"]]}
    return {**answer, "model": names[state.last["model"]]}


def decision(state: GuardFold, number: int) -> dict[str, Any]:
    """A former decision, for a request that is repeated after rounds went on."""
    names, config = state.config["models"], state.config
    model, mode = state.decisions[number]
    told: dict[str, Any] = {"decision": number, "valid_for_s": 0, "reason": "a former decision"}
    if mode == "void":
        return {"model": None, "fallback": names[config["safe"]], **told}
    return {"model": names[model], **told}


def reason(state: GuardFold) -> str:
    """Why this model is live, in one sentence."""
    if not state.decisions:
        return "the guard has not begun"
    names, last = state.config["models"], state.last
    name = names[last["model"]]
    match last["mode"]:
        case "safe":
            return f"the purse is used up: {name} is live until it has recovered"
        case "void":
            return f"no model is left within its budget: use {name}"
        case "stand-in":
            return f"{name} stands in: the drawn model was taken down"
        case "full":
            return f"{name} is live; all models are judged every round"
    chance = last["probabilities"][last["model"]] if last["probabilities"] else 1.0
    return (
        f"{name} was drawn with probability {chance:.2f} among {len(last['allowed'])} allowed "
        f"models, from round {last['epoch']} on"
    )


def state_of(state: GuardFold) -> dict[str, Any]:
    """Everything a dashboard or a monitor needs, as plain values."""
    config, names = state.config, state.config["models"]
    rows = [_row(state, j) for j in range(len(names))]
    missing = _missing(state)
    return {
        **served(state),
        "mode": config["promise"],
        "rounds": len(state.decisions),
        "horizon": config["horizon"],
        "rate": config["rate"],
        "burst": config["burst"],
        "purse": config["purse"],
        "safe": names[config["safe"]],
        "models": rows,
        "judged": len(state.judged) - missing,
        "open": len(state.decisions) - len(state.judged),
        "missing": missing,
        "delay": state.engine._guard.delay if state.live else 0,
        "void": state.void,
        "other_rule": state.other_rule,
        "switches": [
            {"round": t, "model": names[j], "mode": mode} for t, j, mode in state.switches[-50:]
        ],
        "n_switches": max(0, len(state.switches) - 1),
        "alarms": _alarms(state),
        "curve": [list(point) for point in state.curve],
        "total": state.total,
    }


def live_numbers(state: GuardFold, words: Any) -> dict[str, str]:
    """The numbers that change while a page is open, as texts by name in the reader's language."""
    told = served(state)
    bound = state.bound
    rows = (_row(state, j) for j in range(len(state.config["models"])))
    return {
        **{
            f"{name}-{row['number']}": text
            for row in rows
            for name, text in _cells(state, row, words).items()
        },
        "model": told["model"] or told["fallback"],
        "reason": str(words.said(told["reason"])),
        "rounds": words.number(len(state.decisions)),
        "used": words.number(state.used, 1),
        "allowed": "–" if bound is None else words.above(bound, 1),
        "open": words.number(len(state.decisions) - len(state.judged)),
        "missing": words.number(_missing(state)),
        "switches": words.number(max(0, len(state.switches) - 1)),
    }


def _cells(state: GuardFold, row: dict[str, Any], words: Any) -> dict[str, str]:
    """The row of a model as texts."""
    may = words("guard.yes") if row["allowed"] else words("guard.no")
    if "removed" in row:
        may = words("guard.removed", **row["removed"])
    elif not row["allowed"] and row.get("rests_until") is not None:
        may = words("guard.rests", round=row["rests_until"])
    told = {"may": may, "rounds": words.number(row["rounds"])}
    if state.live:
        judged = row["judged"]
        for name, key in (("harm", "harm"), ("loss", "primary")):
            told[name] = words.number(row[key] / judged, 3) if judged else "–"
        burst = words.number(state.config["burst"], 1)
        told["fuse"] = f"{words.number(row['fuse'], 1)} / {burst}"
    return told


def _missing(state: GuardFold) -> int:
    return sum(bool(o.get("missing")) for o in state.outcomes.values())


def promise(state: GuardFold) -> str:
    """Which guarantee holds, as the page states it."""
    if state.void:
        return "void"
    if state.other_rule is not None:
        return "other"
    if not state.live:
        return "full"
    return "delayed" if state.engine._guard.delay else "live"


def _row(state: GuardFold, j: int) -> dict[str, Any]:
    name = state.config["models"][j]
    rounds = sum(model == j for model, _ in state.decisions)
    waiting = sum(m == j and t not in state.judged for t, (m, _) in enumerate(state.decisions))
    row: dict[str, Any] = {"name": name, "rounds": rounds, "number": j, "open": waiting}
    if j in state.removed:
        row["removed"] = {"round": state.removed[j][0], "reason": state.removed[j][1]}
    if not state.live:
        row["allowed"] = j in state.engine.allowed
        return row
    guard = state.engine._guard
    return {
        **row,
        "allowed": bool(guard.allowed()[j]),
        "judged": guard.judged[j],
        "harm": guard.harm[j],
        "primary": guard.primary[j],
        "fuse": max(0.0, guard.level[j]),
        "rests_until": guard.until[j] if guard.resting[j] else None,
    }


def _alarms(state: GuardFold) -> list[dict[str, Any]]:
    if not state.live:
        return []
    names = state.config["models"]
    found = []
    for alarm in state.engine._guard.alarms[-50:]:
        told = alarm.sentence.replace(f"model {alarm.model}", names[alarm.model], 1)
        found.append({"round": alarm.round, "model": names[alarm.model], "kind": alarm.kind,
                      "sentence": told})  # fmt: skip
    return found
