"""Streams of outcomes for guards, and the library's own run beside them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from counterplay.errors import AssumptionWarning
from counterplay.studio.kinds.guard import KIND
from counterplay.studio.kinds.guard_fold import new_guard

LOSS, HARM = (0.3, 0.2, 0.1), (0.05, 0.16, 0.13)


def guard_config(**more: Any) -> dict[str, Any]:
    """Three models, one of them safe."""
    raw = {
        "kind": "guard", "name": "Loans", "models": ["v1", "v2", "v3"], "safe": "v1", "rate": 0.1,
        "burst": 4.0, "horizon": 5_000, "purse": 8.0, "max_delay": 20, "seed": 4, **more,
    }  # fmt: skip
    return KIND.read_config(raw, None)  # type: ignore[arg-type]


class Service:
    """What a service does, by a seed alone: outcomes held back, shuffled, sent in batches."""

    def __init__(self, config: dict[str, Any], seed: int = 0) -> None:
        self.config, self.rng = config, np.random.default_rng(seed)
        self.library = new_guard(config)
        self.held: list[dict[str, Any]] = []
        self.now = self.library.act()

    @property
    def model(self) -> str:
        """Who is live by the library's own run."""
        return str(self.config["models"][self.now.model])

    def outcomes(self) -> list[dict[str, Any]]:
        """The outcome of this round joins those that wait; return those that arrive now."""
        j, number = self.now.model, self.now.id
        outcome = {"id": f"o{number}", "decision": number, "model": self.model}
        if self.rng.random() < 0.03:
            outcome["missing"] = True
        else:
            outcome["primary"] = float(self.rng.random() < LOSS[j])
            outcome["secondary"] = float(self.rng.random() < HARM[j])
        self.held.append(outcome)
        overdue = [o for o in self.held if o["decision"] <= number - 15]
        lucky = [o for o in self.held if o not in overdue and self.rng.random() < 0.3]
        batch = [*overdue, *lucky]
        self.rng.shuffle(batch)  # type: ignore[arg-type]
        self.held = [o for o in self.held if o not in batch]
        return batch

    def hear(self, batch: list[dict[str, Any]]) -> None:
        """Tell the library what the studio was told, in the same order."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)
            for o in batch:
                self.library.observe(
                    o["decision"], primary=o.get("primary"), secondary=o.get("secondary"),
                    missing=bool(o.get("missing")),
                )  # fmt: skip

    def next_round(self) -> None:
        """The library decides."""
        self.now = self.library.act()
