"""Recount a harm budget from its rounds: who was allowed, who was drawn, how much harm was done.

Two guards are recounted, each with arithmetic of its own: the one that sees all models' losses, and
the one that sees the live model's only, late and not always. Of the second even the draws follow:
their numbers from the seed, their probabilities from the outcomes.
Source: docs/theory/09-tradeoff.md, "CUSUM and the watchdog"; docs/theory/26-people.md, "The live
guard".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from counterplay.core import export_bodies as lines
from counterplay.core.exports import Event, Export
from counterplay.core.records import require_state, to_record
from counterplay.verify.checks import Check, agree, read_body
from counterplay.verify.guard_live import TOLERANCE, Finding, LiveRecount


def guard_checks(export: Export) -> Iterable[Check]:
    """Recount a guard: the log of a stream in a program, or a service behind an interface."""
    config = export.study.config
    checks = live_guard if "promise" in config else guard_log
    for finding in checks(config, export.events):
        if isinstance(finding, str):
            yield Check(finding, "erased", "what it rests on was erased")
        else:
            yield agree(*finding)


def guard_log(config: dict[str, Any], events: Sequence[Event]) -> Iterable[Finding | str]:
    """Findings of a log with full feedback; a text stands for something that was erased."""
    recount = FullRecount(to_record(config, lines.GuardConfig, what="the configuration"))
    erased = False
    for event in events:
        if event.body is None or erased:
            erased = True
            if event.kind == "guard.result":
                yield "harm bound"
        elif event.kind == "guard.decided":
            recount.decide(read_body(event, lines.Decided), f"event {event.seq}")
        elif event.kind == "guard.outcome":
            recount.observe(read_body(event, lines.Outcome), f"event {event.seq}")
        elif event.kind == "guard.result":
            yield from recount.compare(read_body(event, lines.GuardStated))


def live_guard(config: dict[str, Any], events: Sequence[Event]) -> Iterable[Finding | str]:
    """Findings of a guard behind an interface; a text stands for something that was erased."""
    settings = to_record(config, lines.LiveGuardConfig, what="the configuration")
    for name, model in (("safe", settings.safe), ("champion", settings.champion)):
        fits = model is None or model < len(settings.models)
        require_state(fits, "the configuration", name, "there is no such model")
    recount: LiveRecount | AllRecount
    recount = LiveRecount(settings) if settings.promise == "live" else AllRecount(settings)
    erased = False
    for event in events:
        if not event.kind.startswith("guard."):
            continue
        if event.body is None or erased:
            erased = True
        elif event.kind == "guard.ended":
            recount.end(event.body.get("after"), f"event {event.seq}")
        elif event.kind == "guard.decided":
            recount.decide(read_body(event, lines.LiveDecided), f"event {event.seq}")
        elif event.kind == "guard.outcome":
            recount.observe(read_body(event, lines.LiveOutcome), f"event {event.seq}")
        elif event.kind == "guard.taken_down":
            recount.take_down(read_body(event, lines.TakenDown).model, f"event {event.seq}")
        elif event.kind == "guard.result":
            yield from recount.compare(read_body(event, lines.LiveStated))
    if erased:
        yield "harm bound"
    else:
        yield from recount.findings()


class FullRecount:
    """The watchdog once more: one CUSUM per model, in plain steps.

    Parameters
    ----------
    config:
        The budget.
    """

    def __init__(self, config: lines.GuardConfig) -> None:
        K = config.models
        self.config, self.round = config, 0
        self.limit = config.burst + 1e-9 * max(1.0, config.burst)
        self.reviews = {t for t in config.reviews if t < config.horizon}
        self.allowed = np.ones(K, dtype=bool)
        self.level, self.running, self.worst = np.zeros(K), np.zeros(K), np.zeros(K)
        self.harm, self.live_rounds = np.zeros(K), np.zeros(K, dtype=np.int64)
        self.played = np.zeros(2)
        self.live: int | None = None
        self.decided, self.switches, self.downs = -1, 0, 0
        self.excess = self.largest = 0.0
        self.void, self.refused = False, ""

    def decide(self, decided: lines.Decided, what: str) -> None:
        """Who is live in the coming round must be allowed."""
        fits = decided.round == self.round == self.decided + 1
        require_state(fits, what, "round", f"must be {self.decided + 1}")
        inside = decided.model < self.config.models
        require_state(inside, what, "model", "there is no such model")
        allowed = np.flatnonzero(self.allowed).tolist()
        if list(decided.allowed) != allowed or not self.allowed[decided.model]:
            self.refused = self.refused or (
                f"round {decided.round}: model {decided.model} of {list(decided.allowed)!s:.40}, "
                f"allowed were {allowed!s:.40}"
            )
        self.switches += self.live is not None and self.live != decided.model
        self.live, self.decided = decided.model, decided.round

    def observe(self, outcome: lines.Outcome, what: str) -> None:
        """One round of losses: sums, levels, who is taken down, who comes back."""
        K, c = self.config.models, self.config.rate
        fits = outcome.round == self.round == self.decided < self.config.horizon
        require_state(fits, what, "round", f"must be {self.round}, after its decision")
        fits = len(outcome.primary) == len(outcome.secondary) == K
        require_state(fits, what, "primary", f"must have {K} losses, like secondary")
        assert self.live is not None  # a decision came first
        second = np.array(outcome.secondary)
        self.harm += second
        self.played += (outcome.primary[self.live], second[self.live])
        self.live_rounds[self.live] += 1
        self.excess = max(self.excess, 0.0) + second[self.live] - c
        self.largest = max(self.largest, self.excess)
        self.running = np.maximum(self.running, 0.0) + second - c
        self.worst = np.maximum(self.worst, self.running)
        self.level = np.maximum(self.level, 0.0) + second - c
        self.round += 1
        if self.round in self.reviews:
            self.allowed[:], self.level[:] = True, 0.0
            return
        caught = self.allowed & (self.level > self.limit)
        if self.round < self.config.horizon and caught.any() and not (self.allowed & ~caught).any():
            self.void = True
            caught[np.flatnonzero(caught)[self.level[caught].argmin()]] = False
        self.allowed &= ~caught
        self.downs += bool(caught.any())

    def compare(self, stated: lines.GuardStated) -> Iterable[Finding]:
        """Compare what was stated with the recount."""
        told = f"{self.decided + 1} decisions, each of an allowed model"
        yield ("live models", self.refused or None, told)
        tol = TOLERANCE * (1 + self.round)
        reviews = sum(t <= min(self.round, self.config.horizon - 1) for t in self.reviews)
        for name, said, found in (
            ("rounds", (stated.rounds,), (self.round,)),
            ("losses of the live models", stated.played, self.played),
            ("harm of each model", stated.harm, self.harm),
            ("burst each model needed", stated.needed_burst, self.worst),
            ("rounds of each model", stated.live_rounds, self.live_rounds),
            ("switches, reviews, take-downs", (stated.switches, stated.reviews, stated.take_downs),
             (self.switches, reviews, self.downs)),
        ):  # fmt: skip
            a, b = np.asarray(said, dtype=float), np.asarray(found, dtype=float)
            same = a.shape == b.shape and bool(np.allclose(a, b, rtol=0.0, atol=tol))
            shown = ", ".join(f"{x:.6g}" for x in b[:6]) + (", ..." if b.size > 6 else "")
            yield (name, None if same else f"recounted {shown}", shown)
        yield self._bound(stated.harm_bound, reviews, tol)

    def _bound(self, stated: float | None, reviews: int, tol: float) -> Finding:
        """Each stint between reviews keeps the burst, but for the round of the take-down."""
        c, stints, late = self.config.rate, self.switches + reviews + 1, self.downs + reviews
        bound = self.config.burst * stints + (1 - c) * late
        above = f"the largest excess was {self.largest:.6g}"
        if self.void or stated is None:
            wrong = "stated a bound, but once no model was within the budget"
            return ("harm bound", wrong if stated is not None else None, f"none; {above}")
        told = f"stated {stated:.6g}, recomputed {bound:.6g}; {above}"
        fails = stated < bound - tol or self.largest > bound + tol
        return ("harm bound", told if fails else None, told)


class AllRecount:
    """A guard behind an interface that is told the losses of all models.

    Parameters
    ----------
    config:
        The budget and the models.
    """

    def __init__(self, config: lines.LiveGuardConfig) -> None:
        self.config = config
        self.full = FullRecount(
            lines.GuardConfig(
                models=len(config.models), horizon=config.horizon, rate=config.rate,
                burst=config.burst, reviews=config.reviews,
            )
        )  # fmt: skip
        known = config.safe < len(config.models) == len(set(config.models))
        require_state(known, "the configuration", "models", "must be different; safe one of them")
        self.ids: set[str] = set()
        self.running = self.largest = 0.0
        self.t, self.ended = 0, -1

    def decide(self, decided: lines.LiveDecided, what: str) -> None:
        """Take a decision; once nobody is within the budget the safe model is named."""
        fits = decided.decision == decided.round == decided.epoch == self.t == self.ended + 1
        require_state(fits, what, "decision", f"must be {self.t}, after the round before has ended")
        self.t += 1
        if self.full.void:
            return
        plain = lines.Decided(round=decided.round, model=decided.model, allowed=decided.allowed)
        self.full.decide(plain, what)

    def end(self, after: Any, what: str) -> None:
        """A round ends once, by its number."""
        fits = type(after) is int and after == self.ended + 1 == self.t - 1
        require_state(fits, what, "after", f"must be {self.t - 1}, once")
        self.ended = self.t - 1

    def observe(self, told: lines.LiveOutcome, what: str) -> None:
        """Take the losses of all models in a round."""
        require_state(told.id not in self.ids, what, "id", "was used before")
        self.ids.add(told.id)
        given = told.all or {}
        fits = set(given) == set(self.config.models)
        require_state(fits, what, "all", "must have the losses of every model")
        require_state(told.model in given, what, "model", "there is no such model")
        self.running = max(0.0, self.running) + given[told.model][1] - self.config.rate
        self.largest = max(self.largest, self.running)
        if self.full.void:
            return
        pairs = [given[name] for name in self.config.models]
        primary, secondary = tuple(p for p, _ in pairs), tuple(s for _, s in pairs)
        self.full.observe(
            lines.Outcome(round=told.decision, primary=primary, secondary=secondary), what
        )

    def take_down(self, model: int, what: str) -> None:
        """Refuse: with full feedback nobody takes models down by hand."""
        require_state(False, what, "kind", "is not possible with full feedback")

    def compare(self, stated: lines.LiveStated) -> Iterable[Finding]:
        """Compare what was stated with the recount."""
        wrong = None
        if self.full.void and stated.harm_bound is not None:
            wrong = "stated a bound, but once no model was within the budget"
        elif abs(stated.largest_excess - self.largest) > TOLERANCE:
            wrong = f"stated {stated.largest_excess:.6g}, recounted {self.largest:.6g}"
        yield "stated harm", wrong, f"largest excess over any interval {self.largest:.6g}"

    def findings(self) -> Iterable[Finding]:
        """Return what the events themselves show."""
        full = self.full
        told = f"{full.decided + 1} decisions, each of an allowed model"
        yield "live models", full.refused or None, told
        reviews = sum(t <= min(full.round, self.config.horizon - 1) for t in full.reviews)
        bound = self.config.burst * (full.switches + reviews + 1)
        bound += (1 - self.config.rate) * (full.downs + reviews)
        told = f"largest excess over any interval {self.largest:.6g}"
        if full.void:
            yield "harm bound", None, f"none: once no model was within the budget; {told}"
            return
        wrong = f"{told} exceeds {bound:.6g}" if self.largest > bound + TOLERANCE else None
        yield "harm bound", wrong, f"{told}, at most {bound:.6g}"
