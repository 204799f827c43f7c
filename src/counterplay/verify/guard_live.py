"""Recount a guard that sees only its live model, late and not always: fuses, purse, draws, harm.

The numbers of the draws follow from the seed, their probabilities from the outcomes; who rests and
who may be drawn from the fuses. Written from the statements, not from the guard's own code.
Source: docs/theory/26-people.md, "The live guard".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from counterplay.core import export_bodies as lines
from counterplay.core.records import require_state
from counterplay.core.validation import FloatArray

Finding = tuple[str, str | None, str]
"""Name, what is wrong (None if nothing), and what was found."""
TOLERANCE = 1e-7


class LiveRecount:
    """The guard that sees only its live model, once more and in plain steps.

    Parameters
    ----------
    config:
        The budget, the models and the seed.
    """

    def __init__(self, config: lines.LiveGuardConfig) -> None:
        K, T = len(config.models), config.horizon
        known = all(model is None or model < K for model in (config.champion, config.safe))
        require_state(known, "the configuration", "safe", "there is no such model")
        different = len(set(config.models)) == K
        require_state(different, "the configuration", "models", "must be different")
        self.config, self.K = config, K
        self.ended = -1
        self.B, self.rest = max(1, round(math.cbrt(T))), max(1, T // 16)
        inner = int(np.random.default_rng(config.seed).integers(2**62))
        self.rng = np.random.default_rng(inner)
        share = np.full(K, 1.0 / K)
        if config.champion is not None:
            share = np.full(K, 0.5 / (K - 1))
            share[config.champion] = 0.5
        self.prior, self.regret, self.variance = share, np.zeros(K), 0.0
        self.least = math.sqrt(math.log(K) / ((K - 1) * max(1, math.ceil(T / self.B))))
        self.eta = self.least
        if config.policy == "adaptive":
            self.eta = max(self.least, self._wanted())
        self.level, self.until, self.downs = [0.0] * K, [-1] * K, [0] * K
        self.removed: set[int] = set()
        self.t, self.delay, self.returns = 0, config.max_delay, 0
        self.purse, self.in_safe, self.void = 0.0, False, False
        self.epochs: list[dict[str, Any]] = []
        self.epoch: dict[str, Any] | None = None
        self.standin: int | None = None
        self.drawn: tuple[float, FloatArray] | None = None
        self.draws = 0
        self.decisions: list[tuple[int, dict[str, Any]]] = []
        self.ids: set[str] = set()
        self.done: set[int] = set()
        self.harm, self.live = np.zeros(K), np.zeros(K, dtype=np.int64)
        self.running = self.largest = self.total = self.highest = 0.0
        self.missing = self.switches = 0
        self.refused = self.over = ""

    def decide(self, decided: lines.LiveDecided, what: str) -> None:
        """A decision must be the one that follows from the outcomes and the seed."""
        fits = decided.decision == decided.round == self.t < self.config.horizon
        require_state(fits, what, "decision", f"must be {self.t}")
        require_state(self.ended == self.t - 1, what, "decision", "the round before has not ended")
        require_state(decided.model < self.K, what, "model", "there is no such model")
        model, mode = self._act()
        if not self.refused:
            self.refused = self._differs(decided, model, mode)
        model = decided.model  # what follows is counted for the model that was live
        self.switches += bool(self.decisions) and self.decisions[-1][0] != model
        assert self.epoch is not None  # made by _act
        self.epoch["waiting"] += 1
        self.decisions.append((model, self.epoch))
        self.live[model] += 1
        self.t += 1

    def end(self, after: Any, what: str) -> None:
        """A round ends once, by its number; the next decision comes then."""
        fits = type(after) is int and after == self.ended + 1 == self.t - 1
        require_state(fits, what, "after", f"must be {self.t - 1}, once")
        self.ended = self.t - 1

    def observe(self, told: lines.LiveOutcome, what: str) -> None:
        """An outcome moves the fuse of the model that was live, and the purse."""
        require_state(told.id not in self.ids, what, "id", "was used before")
        fits = told.decision < self.t and told.decision not in self.done
        require_state(fits, what, "decision", "does not exist or has an outcome already")
        model, epoch = self.decisions[told.decision]
        require_state(told.model == self.config.models[model], what, "model", "was not live then")
        self.ids.add(told.id)
        self.done.add(told.decision)
        epoch["waiting"] -= 1
        if told.missing:
            self.missing += 1
            if self.config.missing == "worst":
                self._fuse(model, 1.0)
            return
        given = told.primary is not None and told.secondary is not None
        require_state(given, what, "primary", "and secondary are needed")
        primary, harm = float(told.primary or 0.0), float(told.secondary or 0.0)
        self.delay = max(self.delay, self.t - 1 - told.decision)
        self.harm[model] += harm
        if model == epoch["model"]:
            epoch["total"] += primary
            epoch["seen"] += 1
        above = harm - self.config.rate
        self.running = max(0.0, self.running) + above
        self.largest = max(self.largest, self.running)
        self.total += above
        self._fuse(model, harm)
        if not self.void and self.total > self._bound() + TOLERANCE and not self.over:
            self.over = f"after round {self.t}: {self.total:.6g} above the rate"

    def take_down(self, model: int, what: str) -> None:
        """Somebody took a model out by hand."""
        fits = model < self.K and model not in self.removed and model != self.config.safe
        require_state(fits, what, "model", "cannot be taken down")
        self.removed.add(model)
        self._replace_if_live(model)

    def compare(self, stated: lines.LiveStated) -> Iterable[Finding]:
        """Compare what was stated with the recount."""
        tol = TOLERANCE * (1 + self.t)
        for name, said, found in (
            ("rounds, judged, missing", (stated.rounds, stated.judged, stated.missing),
             (self.t, len(self.done) - self.missing, self.missing)),
            ("harm of each model", stated.harm, self.harm),
            ("rounds of each model", stated.live_rounds, self.live),
            ("switches", (stated.switches,), (self.switches,)),
            ("largest excess", (stated.largest_excess,), (self.largest,)),
        ):  # fmt: skip
            a, b = np.asarray(said, dtype=float), np.asarray(found, dtype=float)
            same = a.shape == b.shape and bool(np.allclose(a, b, rtol=0.0, atol=tol))
            shown = ", ".join(f"{x:.6g}" for x in b[:6])
            yield name, None if same else f"recounted {shown}", shown
        bound = None if self.void else self._bound()
        said_bound = stated.harm_bound
        lower = said_bound is not None and (bound is None or said_bound < bound - tol)
        told = f"stated {said_bound}, recomputed {bound}"
        yield "stated harm bound", told if lower else None, told

    def findings(self) -> Iterable[Finding]:
        """Return what the events themselves show."""
        yield (
            "live models", self.refused or None,
            f"{self.t} decisions, {self.draws} draws follow from the seed and the outcomes",
        )  # fmt: skip
        told = f"largest excess over any interval {self.largest:.6g}, in all {self.total:.6g}"
        if self.void:
            yield "harm bound", None, f"none: once a model was live that was not allowed; {told}"
            return
        yield "harm bound", self.over or None, f"{told}, at most {self._bound():.6g}"

    def _differs(self, decided: lines.LiveDecided, model: int, mode: str) -> str:
        told = f"decision {decided.decision}"
        allowed = np.flatnonzero(self._allowed()).tolist()
        if list(decided.allowed) != allowed:
            return f"{told}: allowed were {allowed!s:.60}"
        if (decided.model, decided.mode) != (model, mode):
            return f"{told}: model {decided.model} ({decided.mode}), it must be {model} ({mode})"
        assert self.epoch is not None  # made by _act
        if decided.epoch != self.epoch["start"]:
            return f"{told}: its epoch began in round {self.epoch['start']}"
        if mode in ("safe", "void"):
            plain = decided.draw is None and not decided.probabilities
            return "" if plain else f"{told}: nothing was drawn"
        if self.drawn is None:  # a last resort that is live while others have come back
            return "" if decided.draw is None else f"{told}: nothing was drawn"
        draw, chances = self.drawn
        if decided.draw != draw:
            return f"{told}: the number drawn is not that of the seed"
        same = len(decided.probabilities) == self.K and np.allclose(
            decided.probabilities, chances, rtol=1e-9, atol=1e-12
        )
        return "" if same else f"{told}: the probabilities do not follow from the outcomes"

    def _act(self) -> tuple[int, str]:
        config, t = self.config, self.t
        for j in range(self.K):  # models whose rest is over come back
            if 0 <= self.until[j] <= t:
                self.until[j], self.level[j] = -1, 0.0
                self.returns += 1
        self._settle()
        if self.in_safe and self.purse <= self._threshold() / 2:
            self.in_safe, self.epoch = False, None
        if self.epoch is None or t - self.epoch["start"] >= self.B:
            self._begin_epoch()
        assert self.epoch is not None
        if self.in_safe:
            model, mode = config.safe, "safe"
            self.void = self.void or not self._allowed()[model]  # live although its fuse has blown
        elif self.standin is not None:
            model, mode = self.standin, "stand-in"
        else:
            model, mode = self.epoch["model"], "epoch"
        return model, mode if self._allowed().any() else "void"

    def _begin_epoch(self) -> None:
        if self.epoch is not None:
            self.epoch["closed"] = self.t - 1
        self.standin, allowed = None, self._allowed()
        if allowed.any():
            model, p = self._draw(allowed)
        else:
            model, p = self._last_resort(), np.ones(self.K)
        self.epoch = {
            "start": self.t, "model": model, "chance": float(p[model]), "allowed": allowed,
            "teaches": not self.in_safe and bool(allowed.any()), "cut": False, "waiting": 0,
            "total": 0.0, "seen": 0, "closed": -1,
        }  # fmt: skip
        self.epochs.append(self.epoch)

    def _draw(self, allowed: FloatArray) -> tuple[int, FloatArray]:
        """Draw from prior times exp(eta regret) on the allowed models."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.prior + 1e-300) + self.eta * self.regret
        logs = np.where(allowed > 0, logs, -np.inf)
        p = np.exp(logs - logs.max())
        p = p / p.sum()
        number = float(self.rng.random())
        self.drawn = number, p
        self.draws += 1
        return min(int(np.searchsorted(np.cumsum(p), number * p.sum())), self.K - 1), p

    def _settle(self) -> None:
        """Learn from epochs that are over and whose outcomes are in or overdue."""
        while self.epochs:
            first = self.epochs[0]
            last = first["closed"] if first["closed"] >= 0 else first["start"] + self.B - 1
            over = first["closed"] >= 0 or self.t - first["start"] >= self.B
            if not over or (first["waiting"] > 0 and self.t <= last + self.config.max_delay):
                return
            self.epochs.pop(0)
            if first["teaches"] and (first["cut"] or first["seen"]):
                self._learn(first)

    def _learn(self, epoch: dict[str, Any]) -> None:
        loss = 1.0 if epoch["cut"] else epoch["total"] / epoch["seen"]
        estimate = np.zeros(self.K)
        estimate[epoch["model"]] = loss / epoch["chance"]
        self.regret = self.regret + epoch["allowed"] * (loss - estimate)
        self.variance += loss**2 * (1.0 / epoch["chance"] - 1.0)
        if self.config.policy == "adaptive":
            self.eta = min(self.eta, max(self.least, self._wanted()))

    def _wanted(self) -> float:
        return min(1.0, math.sqrt(math.log(max(self.K, 2)) / (1 + self.variance)))

    def _fuse(self, model: int, harm: float) -> None:
        config = self.config
        self.level[model] = max(0.0, self.level[model]) + harm - config.rate
        if config.purse is not None:
            self.purse = max(0.0, self.purse) + harm - config.rate
            if not self.in_safe and self.purse > self._threshold():
                self.in_safe = True
                if self.epoch is not None:
                    self.epoch["cut"] = True
        if self.level[model] > config.burst and self.until[model] < 0:
            self.until[model] = self.t + self.rest * 2 ** self.downs[model]
            self.downs[model] += 1
            self._replace_if_live(model)

    def _replace_if_live(self, model: int) -> None:
        """The live model may not go on: somebody else stands in until the epoch is over."""
        live = self.standin if self.standin is not None else (self.epoch or {}).get("model")
        if live != model or self.in_safe or self.epoch is None:
            return
        self.epoch["cut"] = True
        allowed = self._allowed()
        self.standin = self._draw(allowed)[0] if allowed.any() else self._last_resort()

    def _allowed(self) -> FloatArray:
        free = [until < 0 and j not in self.removed for j, until in enumerate(self.until)]
        return np.array(free, dtype=np.float64)

    def _last_resort(self) -> int:
        self.void, self.drawn = True, None
        return self.config.safe

    def _threshold(self) -> float:
        if self.config.purse is None:
            return math.inf
        return max(0.0, self.config.purse - (1 - self.config.rate) * self.delay)

    def _bound(self) -> float:
        c = self.config.rate
        return (self.K + self.returns) * (self.config.burst + (1 - c) * (1 + self.delay))
