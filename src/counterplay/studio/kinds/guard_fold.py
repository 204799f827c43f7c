"""The state of a guard in the studio: the library's own guard, moved by decisions and outcomes.

Rounds advance by ``guard.ended`` alone, never by a clock: the decision that follows is made by the
guard in the order of the events, so a replay is the in-process run. A decision is what its event
says: where the rule of today would have decided otherwise, the guard goes on from what was decided
and promises no bound any more, since its own bound is about its own decisions.
Source: docs/theory/28-studio.md, "The guard"; docs/theory/26-people.md, "The live guard".
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from counterplay.core import export_bodies as bodies
from counterplay.core.exports import Event
from counterplay.core.records import require_state, to_record
from counterplay.errors import AssumptionWarning
from counterplay.tradeoff import ChampionChallenger, HarmBudget

MOST_POINTS = 400
"""Points of the harm curve that a page draws."""


@dataclass
class GuardFold:
    """Everything that follows from the events of a guard."""

    config: dict[str, Any]
    engine: Any
    decisions: list[tuple[int, str]] = field(default_factory=list)
    """Model and mode of every round."""
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By the caller's id."""
    judged: dict[int, str] = field(default_factory=dict)
    """Id of the outcome of a decision."""
    excess: float = 0.0
    used: float = 0.0
    """Largest harm above the rate over any interval so far."""
    total: float = 0.0
    curve: list[tuple[int, float, float | None]] = field(default_factory=list)
    switches: list[tuple[int, int, str]] = field(default_factory=list)
    removed: dict[int, tuple[int, str]] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)
    pending: dict[str, Any] | None = None
    stride: int = 1
    other_rule: int | None = None
    """First decision that the rule of today would have made otherwise."""

    @classmethod
    def begin(cls, config: dict[str, Any]) -> GuardFold:
        """Return the state before the first decision."""
        return cls(config, new_guard(config))

    @property
    def live(self) -> bool:
        """Whether only the live model's outcomes are seen."""
        return bool(self.config["promise"] == "live")

    @property
    def bound(self) -> float | None:
        """Most harm above the rate; None once a model was live that was not allowed."""
        if self.other_rule is not None or self.void:
            return None
        found = self.engine._harm_bound() if self.live else self.engine._bound()
        return found if math.isfinite(found) else None

    @property
    def void(self) -> bool:
        """Whether a model was live that was not allowed: then nothing is promised any more."""
        if self.live:
            return self.engine._guard.void_since is not None
        return bool(self.engine._watchdog._warned)

    def decide(self) -> dict[str, Any]:
        """Make the next decision; the event that records it holds this."""
        config, engine = self.config, self.engine
        number = len(self.decisions)
        if not self.live:
            allowed = tuple(engine.allowed)
            mode: Any = "void" if self.void else "full"
            decided = bodies.LiveDecided(
                decision=number, round=number, epoch=number, allowed=allowed, mode=mode,
                model=config["safe"] if self.void else engine.current,
            )  # fmt: skip
        else:
            found = engine.act()
            guard = engine._guard
            epoch = guard.epoch
            mode = "void" if not guard.allowed().any() else found.mode
            draw, chances = guard.drawn or (None, ())
            safe = mode in ("safe", "void")
            decided = bodies.LiveDecided(
                decision=number, round=number, epoch=epoch.start, model=found.model, mode=mode,
                allowed=engine.allowed, probabilities=() if safe else tuple(map(float, chances)),
                draw=None if safe else draw,
            )  # fmt: skip
        return dict(msgspec.to_builtins(decided))

    def take(self, event: Event) -> None:
        """Apply an event of the guard."""
        if event.body is None:
            return
        match event.kind:
            case "guard.decided":
                self._decided(event, event.body)
            case "guard.outcome":
                self._outcome(event.body)
            case "guard.taken_down":
                down = to_record(event.body, bodies.TakenDown, what="the event")
                self.engine.take_down(down.model, down.reason)
                self.removed[down.model] = (len(self.decisions), down.reason)

    def _decided(self, event: Event, body: dict[str, Any]) -> None:
        made = self.pending if self.pending is not None else self.decide()
        self.pending = None
        if msgspec.json.decode(msgspec.json.encode(made)) != body:
            self._adopt(made, to_record(body, bodies.LiveDecided, what=f"event {event.seq}"))
        model, mode = int(body["model"]), str(body["mode"])
        if not self.switches or self.switches[-1][1] != model:
            self.switches.append((len(self.decisions), model, mode))
        self.decisions.append((model, mode))
        self.last = {**body, "at": event.at}

    def _adopt(self, made: dict[str, Any], told: bodies.LiveDecided) -> None:
        """Take a decision as it was recorded; ``verify`` says whether it was right."""
        number = len(self.decisions)
        fits = told.decision == number and 0 <= told.model < len(self.config["models"])
        require_state(fits, "the guard", f"decision {number}", "it is no decision of this guard")
        if self.other_rule is None:
            self.other_rule = number
        if self.live and (made["model"], made["mode"]) != (told.model, told.mode):
            chances = np.array(told.probabilities)
            if len(chances) != len(self.config["models"]) or not chances[told.model] > 0:
                chances = np.eye(len(self.config["models"]))[told.model]
            mode: Any = "safe" if told.mode == "void" else told.mode
            self.engine._guard.adopt(told.model, mode, chances)

    def _outcome(self, body: dict[str, Any]) -> None:
        told = to_record(body, bodies.LiveOutcome, what="the outcome")
        self.outcomes[told.id] = body
        self.judged[told.decision] = told.id
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)  # the page says how late it was
            if not self.live:
                names = self.config["models"]
                pairs = [(told.all or {})[name] for name in names]
                self.engine.step([p for p, _ in pairs], [s for _, s in pairs])
            elif told.missing:
                self.engine.observe(told.decision, missing=True)
            else:
                self.engine.observe(told.decision, primary=told.primary, secondary=told.secondary)
        if told.missing:
            return
        harm = told.secondary if self.live else (told.all or {})[told.model][1]
        self._harm(told.decision, float(harm or 0.0))

    def _harm(self, decision: int, harm: float) -> None:
        """Keep the largest excess over any interval, and the curve of the page."""
        above = harm - self.config["rate"]
        self.excess = max(0.0, self.excess) + above
        self.used = max(self.used, self.excess)
        self.total += above
        if len(self.judged) % self.stride == 0:
            self.curve.append((decision, self.total, self.bound))
        if len(self.curve) > MOST_POINTS:
            self.curve, self.stride = self.curve[::2], 2 * self.stride


def new_guard(config: dict[str, Any]) -> Any:
    """Return the library's guard of a configuration, before its first round."""
    budget = HarmBudget(config["rate"], config["burst"])
    common = {"n_models": len(config["models"]), "horizon": config["horizon"]}
    if config["promise"] == "full":
        return ChampionChallenger(
            budget=budget, **common, policy=config["policy"], random_state=config["seed"]
        )
    live: Any = ChampionChallenger  # which builds the guard for this feedback
    return live(
        budget=budget, **common, feedback="live", champion=config["champion"],
        safe=config["safe"], purse=config["purse"], max_delay=config["max_delay"],
        missing=config["missing"], policy=config["policy"], random_state=config["seed"],
    )  # fmt: skip
