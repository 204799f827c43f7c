"""Choices that people made in surveys, as panels; and a simulated one that is always there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from counterplay.elicitation import ChoicePanel

_MODES = ("TRAIN", "SM", "CAR")


def panel_of(name: str) -> ChoicePanel:
    """Return a panel by its name."""
    return _PANELS[name]()


def _simulated() -> ChoicePanel:
    """200 people, ten tasks of three tickets each; tastes differ much."""
    rng = np.random.default_rng(26)
    beta = rng.normal([-1.5, -1.0, 0.7], 1.6, size=(200, 3))
    rows = []
    for person in range(len(beta)):
        for task in range(10):
            x = rng.random((3, 3)) * 2
            best = int(np.argmax(x @ beta[person] + rng.gumbel(size=3)))
            rows += [(person, task, a, *x[a], a == best) for a in range(3)]
    names = ["person", "task", "ticket", "price", "time", "comfort", "chosen"]
    return _panel(pd.DataFrame(rows, columns=names), "ticket", names[3:6])


def _train() -> ChoicePanel:
    return ChoicePanel.from_wide(
        _frame("train_tickets").assign(choice=lambda f: f.choice.str[-1]), person="id",
        chosen="choice", attributes=["price", "time", "change", "comfort"], alternatives=[1, 2],
    )  # fmt: skip


def _electricity() -> ChoicePanel:
    frame = _frame("electricity").rename(columns={"id": "person", "chid": "task"})
    frame = frame.assign(chosen=frame.choice.astype(bool))
    return _panel(frame, "alt", ["pf", "cl", "loc", "wk", "tod", "seas"])


def _swissmetro() -> ChoicePanel:
    """Time, fare (0 with an annual ticket), headway, and a constant for two of the modes."""
    raw = _frame("swissmetro")
    raw = raw[raw.CHOICE != 0].reset_index(drop=True)
    pays = (raw.GA == 0).astype(float)
    parts = []
    for code, mode in enumerate(_MODES, 1):
        public = mode != "CAR"
        parts.append(pd.DataFrame({
            "person": raw.ID, "task": raw.index, "mode": mode,
            "time": raw[f"{mode}_TT"] / 100,
            "fare": raw[f"{mode}_CO"] * (pays if public else 1.0) / 100,
            "headway": raw[f"{mode}_HE"] / 100 if public else 0.0,
            "train": float(mode == "TRAIN"), "swissmetro": float(mode == "SM"),
            "chosen": code == raw.CHOICE,
        })[raw[f"{mode}_AV"] == 1])  # fmt: skip
    frame = pd.concat(parts, ignore_index=True).sort_values(["task", "mode"], kind="stable")
    return _panel(frame, "mode", ["time", "fare", "headway", "train", "swissmetro"])


def _mode_canada() -> ChoicePanel:
    frame = _frame("mode_canada").rename(columns={"case": "person"})
    frame = frame.assign(task=frame.person, chosen=frame.choice == 1)
    for mode in ("train", "air", "bus"):
        frame[mode] = (frame.alt == mode).astype(float)
    return _panel(frame, "alt", ["cost", "ivt", "ovt", "freq", "train", "air", "bus"])


def _frame(name: str) -> Any:
    from counterplay import datasets

    return datasets.fetch(name).to_frame()


def _panel(frame: pd.DataFrame, alternative: str, attributes: list[str]) -> ChoicePanel:
    return ChoicePanel(
        frame, person="person", task="task", alternative=alternative, chosen="chosen",
        attributes=attributes,
    )  # fmt: skip


_PANELS = {
    "simulated": _simulated,
    "train tickets": _train,
    "electricity": _electricity,
    "Swissmetro": _swissmetro,
    "Mode Canada": _mode_canada,
}
