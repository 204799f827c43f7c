"""The question rule of the reliable questionnaire, driven by a stream of events.

Particles, items and settings belong to the study and are shared; posterior, bets and log belong to
one person. Bets use the forecasts that were recorded with the questions, so what is stated is what
``counterplay verify`` recomputes. Engines are large, so only the most recent ones are kept; any
other is rebuilt from the answers.
Source: docs/theory/26-people.md, "Forecasts and questions".
"""

from __future__ import annotations

import copy
import math
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from counterplay.core import export_bodies as lines
from counterplay.core.records import require_state, to_record
from counterplay.core.seeds import derive_seed
from counterplay.core.validation import FloatArray
from counterplay.elicitation.catalogue import undominated
from counterplay.elicitation.choice_log import ChoiceAnswer, ChoiceQuery
from counterplay.elicitation.forecast import PARTICLES
from counterplay.elicitation.item_table import ItemTable
from counterplay.elicitation.question_policy import Choice, most_telling
from counterplay.elicitation.reliable_export import stated_result
from counterplay.elicitation.reliable_standing import standing
from counterplay.elicitation.reliable_state import (
    MOST_DIMENSIONS,
    ReliableState,
    Repeats,
    Settings,
)
from counterplay.elicitation.reliable_state import _new_regions as new_regions
from counterplay.elicitation.slips import AtMost
from counterplay.errors import InvalidInputError
from counterplay.studio.kinds.elicitation_config import check_page

MOST_ENGINES = 256
"""Engines in memory, about 0.9 MB each."""
IDLE_SECONDS = 600.0
"""An engine that was not used for so long is forgotten."""
CHECK_EVERY = 6
CLEAR = 0.9
_CELLS, _MANY_CELLS = 40_000, 200_000
_RATE = 0.25
"""Growth of the log evidence per answer that is counted on at least."""
_SOLVENT = 50
TYPICAL = (3, 8, 12, 20, 26, 40)
"""Questions of a typical questionnaire, by the number of columns."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What all participants of a study share."""

    config: lines.ReliableConfig
    items: ItemTable
    errors: AtMost
    template: ReliableState

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Problem:
        """Return the problem of a frozen configuration."""
        config = to_record(raw, lines.ReliableConfig, what="the configuration")
        k = len(config.items[0])
        even = all(len(row) == k for row in config.items)
        require_state(even, "the configuration", "items", "all items must have as many values")
        values = np.array(config.items)
        if k > MOST_DIMENSIONS:
            raise InvalidInputError(
                f"{k} columns are compared; certificates go up to {MOST_DIMENSIONS}: leave some out"
            )
        if config.page is not None:
            check_page(config)
        page = config.page or {}
        unknown = np.array(config.unknown, dtype=np.int64)
        pool = undominated(values) if not unknown.size else np.arange(len(values))
        rows = np.arange(len(values)) if config.columns is None else np.array(config.columns.rows)
        names = tuple(column["name"] for column in page.get("columns", ())) or tuple(
            map(str, range(k))
        )
        labels = page.get("names") or [str(row) for row in rows]
        items = ItemTable(
            values, unknown, pool, rows, labels, names, None, 1.0, pd.RangeIndex(len(values))
        )
        rate = config.rates[0] if len(config.rates) == 1 else config.rates
        errors = AtMost(rate, config.jnd, config.running)
        settings = Settings(
            config.confidence, config.target, errors, 2, False, CHECK_EVERY, "reliable",
            int(page.get("max_questions", 60)), _CELLS if k < 5 else _MANY_CELLS,
        )  # fmt: skip
        rng = np.random.default_rng(derive_seed(page.get("seed", 0), "particles"))
        particles = rng.dirichlet(np.ones(k), PARTICLES)
        if unknown.size:
            particles[:, unknown] *= rng.choice([-1.0, 1.0], size=(PARTICLES, unknown.size))
        return cls(config, items, errors, ReliableState(items, settings, 0, particles))


class Engine(ReliableState):
    """One person's posterior and bets; takes answers with the forecasts that were recorded."""

    @classmethod
    def fresh(cls, problem: Problem, stream: str) -> Engine:
        """Return the engine of a person who has not answered yet."""
        template = problem.template
        engine = cls.__new__(cls)
        engine.__dict__.update(copy.copy(template.__dict__))
        seed = (problem.config.page or {}).get("seed", 0)
        engine.seed = derive_seed(seed, stream) % 2**31
        engine.forecast = template.forecast.copy()
        engine.regions = new_regions(template.settings, template.items.k)
        engine.log, engine.clear, engine.repeats = [], [], Repeats()
        engine.stopped, engine._view = False, None
        return engine

    def take(self, entry: ChoiceAnswer, forecast: tuple[float, ...]) -> None:
        """Take one answer; ``forecast`` was fixed before it was given."""
        answered = entry.kind == "asked" and entry.said == "choice"
        if answered and max(forecast) >= CLEAR:
            self.clear.append(len(self.log))
        if entry.kind == "repeat" and entry.repeats is not None and entry.said == "choice":
            before = self.log[entry.repeats]
            if before.order:
                self.repeats.pairs.append(
                    before.rows[before.order[0]] != entry.rows[entry.order[0]]
                )
        for options, chosen in entry.choices():
            self.forecast.learn(options, chosen)
            for region in self.regions:
                region.add(options, chosen, forecast[chosen])
        self.log.append(entry)
        self._view = None

    def question(self) -> tuple[ChoiceQuery, lines.Asked] | None:
        """Return the next question with its forecast, or None when there is nothing to ask."""
        query = self.next_query()
        if query is None:
            return None
        values = self.items.values[list(query.rows)]
        repeated = None
        if query.repeats is not None:
            before = self.log[: query.repeats]
            repeated = sum(entry.kind != "volunteered" for entry in before)
        shown = tuple(
            lines.Shown(id=row, values=tuple(numbers))
            for row, numbers in zip(query.rows, values.tolist())
        )
        forecast = tuple(self.forecast.predict(values).tolist())
        asked = lines.Asked(
            number=self.asked, shown=shown, forecast=forecast, repeat_of=repeated, left=self.left()
        )
        self.forecast.rest()
        self._view = None  # threats are large and of no use before the next answer
        return query, asked

    def left(self) -> int:
        """Return about how many questions are still to come, this one included."""
        view = self.view
        if view.bound is None:
            return 1
        threats = np.sort(view.threats.evidence)[:_SOLVENT]
        if not threats.size:
            return 1
        limit = self.regions[view.bound].limit
        answered = sum(entry.said == "choice" for entry in self.log)
        most = self.settings.max_questions - self.asked
        if answered < 2:  # no rate yet: as the start page says
            return max(1, min(TYPICAL[self.items.k - 1] - self.asked, most))
        reached = float(threats.mean())
        found = math.ceil(max(0.0, limit - reached) / max(_RATE, reached / answered))
        typical = max(2, 2 * TYPICAL[self.items.k - 1] - self.asked)
        return max(1, min(found, typical, most))

    def stated(self, errors: AtMost) -> lines.ReliableStated:
        """Return the result with its numbers, each under its condition."""
        found = standing(self, finished=True)
        weights = found.weights[["mean", "low", "high"]].to_numpy()
        return msgspec.structs.replace(
            stated_result(found, errors.rates[self.view.bound or 0]),
            compared=tuple(self._worth(item) for item in self._best(found.item)),
            weights=tuple((float(a), float(b), float(c)) for a, b, c in weights),
        )

    def _best(self, item: int, n: int = 3) -> list[int]:
        """The recommended item and the next ones by expected regret."""
        order = np.argsort(self.forecast.shares @ self._regrets, kind="stable")[: n + 1]
        rows = [int(self.items.pool[j]) for j in order]
        return [item, *(row for row in rows if row != item)][: n + 1]

    def _worth(self, item: int) -> lines.Worth:
        weights = self.forecast.weights
        values = np.where(weights < 0, self.items.values[item] - 1.0, self.items.values[item])
        worth: FloatArray = (weights * values).sum(axis=1)  # less of it is better: 0 is the most
        shares = self.forecast.shares
        order = np.argsort(worth)
        reached = np.cumsum(shares[order])
        at = np.searchsorted(reached, [0.05, 0.95]).clip(max=len(order) - 1)
        low, high = worth[order[at]]
        return lines.Worth(item=item, mean=float(shares @ worth), low=float(low), high=float(high))

    def _choose(self) -> Choice | None:
        """As the area's rule, but a pair that could not be decided is not asked again."""
        rng = np.random.default_rng(derive_seed(self.seed, "question", len(self.log)))
        position = self._position
        asked: list[tuple[int, ...]] = []
        for entry in self.log:
            if entry.kind != "volunteered":
                pair = tuple(sorted(position[row] for row in entry.rows))
                asked += [pair] * (2 if entry.said == "cannot say" else 1)
        unanswered = 0
        for entry in reversed(self.log):
            if entry.said == "choice":
                break
            unanswered += 1
        rates = self.settings.errors.rates if isinstance(self.settings.errors, AtMost) else (0.1,)
        return most_telling(
            self.pool_values, self.forecast, self.view.threats, position[self.view.item], asked,
            show=2, rate=rates[self.view.bound or 0], widen=0.02 * unanswered, rng=rng,
        )  # fmt: skip


def warm_up() -> None:
    """Run the compiled code of the question rule once, on a toy."""
    config = {
        "promise": "reliable", "items": [[1.0, 0.0], [0.8, 0.5], [0.5, 0.8], [0.0, 1.0]],
        "unknown": [], "target": 0.05, "confidence": 0.95, "rates": [0.1], "jnd": 0.0,
        "running": False,
    }  # fmt: skip
    problem = Problem.of(config)
    engine = Engine.fresh(problem, "warm-up")
    for _ in range(3):
        found = engine.question()
        if found is None:
            break
        query, asked = found
        values = engine.items.values[list(query.rows)]
        engine.take(ChoiceAnswer("asked", query.rows, "choice", (0,), values), asked.forecast)
    engine.stated(problem.errors)


class Recent:
    """The engines in use, at most so many; those not used for long are forgotten."""

    def __init__(self, most: int = MOST_ENGINES, idle: float = IDLE_SECONDS) -> None:
        self.most, self.idle = most, idle
        self._engines: OrderedDict[int, tuple[Any, Engine, float]] = OrderedDict()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def __len__(self) -> int:
        return len(self._engines)

    def get(self, owner: Any) -> Engine | None:
        """Return the engine of a sitting, if it is still there."""
        with self._lock:
            found = self._engines.get(id(owner))
            if found is None or found[0] is not owner:
                return None
            self._keep(owner, found[1])
            return found[1]

    def put(self, owner: Any, engine: Engine) -> None:
        """Keep the engine of a sitting."""
        with self._lock:
            self._keep(owner, engine)
            while len(self._engines) > self.most:
                self._engines.popitem(last=False)
            self._wait()

    def drop(self, owner: Any) -> None:
        """Forget the engine of a sitting: it has ended, or an answer was taken back."""
        with self._lock:
            self._engines.pop(id(owner), None)

    def sweep(self) -> None:
        """Forget what was not used for long."""
        with self._lock:
            until = time.monotonic() - self.idle
            for key, (_, _, used) in list(self._engines.items()):
                if used <= until:
                    del self._engines[key]
            self._timer = None
            self._wait()

    def _keep(self, owner: Any, engine: Engine) -> None:
        self._engines[id(owner)] = (owner, engine, time.monotonic())
        self._engines.move_to_end(id(owner))

    def _wait(self) -> None:
        """Look again later, as long as there is something to forget."""
        if self._timer is None and self._engines:
            self._timer = threading.Timer(self.idle, self.sweep)
            self._timer.daemon = True
            self._timer.start()


class Problems:
    """The problems of the studies in use, by the identity of their configuration."""

    def __init__(self, most: int = 32) -> None:
        self.most = most
        self._known: OrderedDict[int, tuple[dict[str, Any], Problem]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, config: dict[str, Any]) -> Problem:
        """Return the problem of a configuration, computed once."""
        with self._lock:
            found = self._known.get(id(config))
        if found is not None and found[0] is config:
            return found[1]
        problem = Problem.of(config)
        with self._lock:
            self._known[id(config)] = (config, problem)
            while len(self._known) > self.most:
                self._known.popitem(last=False)
        return problem
