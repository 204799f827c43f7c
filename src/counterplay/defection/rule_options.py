"""Server rules by name and options, with defaults that make sense for the model at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from counterplay.core.validation import FloatArray, check_positive_int, check_real, shorten
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.federated.reports import Rule
from counterplay.federated.rules import ADAGD, FedAvg, MWFed, SafeStep
from counterplay.federated.work import LocalWork

STEP = {"fedavg": 0.1, "mwfed": 0.1, "adagd": 0.02, "safe_step": 0.5}
TITLE = {"fedavg": "FedAvg", "mwfed": "MW-FED", "adagd": "ADA-GD", "safe_step": "SafeStep"}
WORK = ("rule", "step_size", "local_steps", "batch_size", "rescale_local_lr", "delta")
OWN = {
    "fedavg": (),
    "mwfed": ("gap", "growth"),
    "adagd": ("variant", "z", "stall_tol"),
    "safe_step": ("cap", "z", "stall_tol"),
}


@dataclass(frozen=True)
class RulePlan:
    """A rule and the local work that goes with it, as they will be run."""

    label: str
    name: str
    rule: Rule
    delta: float
    step_size: float
    work: LocalWork

    @property
    def title(self) -> str:
        """Name for tables and figures."""
        return TITLE.get(self.label, self.label)


def plan_rules(
    rules: Mapping[str, Mapping[str, Any]] | Iterable[str], eps: FloatArray, convex: bool
) -> list[RulePlan]:
    """Return the plans for a list of names, or a dict from label to options.

    Examples
    --------
    >>> import numpy as np
    >>> [p.title for p in plan_rules(["fedavg", "safe_step"], np.array([0.2]), convex=False)]
    ['FedAvg', 'SafeStep']
    """
    if isinstance(rules, str):
        rules = [rules]
    chosen: dict[str, Mapping[str, Any]] = {}
    known = isinstance(rules, Iterable)
    if isinstance(rules, Mapping):
        chosen = dict(rules)
        known = all(isinstance(options, Mapping) for options in chosen.values())
    elif known:
        names = list(rules)
        chosen = {name: {} for name in names if isinstance(name, str)}
        known = len(chosen) == len(names)
    if not chosen or not known:
        raise InvalidInputError(
            "give at least one rule by name, such as ['fedavg', 'safe_step'], or a dict from label "
            f"to options, got {shorten(rules, 100)}"
        )
    return [_plan(label, dict(options), eps, convex) for label, options in chosen.items()]


def _plan(label: str, options: dict[str, Any], eps: FloatArray, convex: bool) -> RulePlan:
    name = options.pop("rule", label)
    if not isinstance(name, str) or name not in TITLE:
        raise UnknownNameError.among("rule", _text(name), TITLE)
    for option in options:
        if option not in WORK + OWN[name]:
            kind = f"option of {shorten(label, 60)}"
            raise UnknownNameError.among(kind, _text(option), WORK + OWN[name])
    positive = eps[eps > 0]
    default = 0.1 * float(positive.min()) if positive.size else 0.01
    delta = check_real(options.pop("delta", default), "delta", low=0.0, open_low=True)
    step = check_real(options.pop("step_size", STEP[name]), "step_size", low=0.0, open_low=True)
    steps = check_positive_int(options.pop("local_steps", 1), "local_steps")
    batch = options.pop("batch_size", None if steps == 1 else 32)
    work = LocalWork(
        steps,
        None if batch is None else check_positive_int(batch, "batch_size"),
        bool(options.pop("rescale_local_lr", True)),
    )
    return RulePlan(label, name, _rule(name, options, delta, convex), delta, step, work)


def _text(name: Any) -> str:
    return name if isinstance(name, str) else shorten(name, 60)


def _rule(name: str, own: dict[str, Any], delta: float, convex: bool) -> Rule:
    if name == "fedavg":
        return FedAvg()
    if name == "mwfed":
        return MWFed(**{"gap": delta, **own})
    if name == "adagd":
        return ADAGD(delta, **own)
    return SafeStep(delta, **{"cap": None if convex else "step_size", **own})
