"""The content of a page does not depend on workers, or on when the run was stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.base import clone

from counterplay.auditing.api import run_audit
from counterplay.auditing.config import Config
from counterplay.auditing.inputs import read_inputs
from counterplay.auditing.settings import with_run


class Killed(BaseException):
    """Ends a run like a signal that nobody can catch."""


def audited(
    loans: pd.DataFrame, model: Any, settings: dict[str, Any], *, jobs: int = 1, **more: Any
) -> Any:
    """Audit with all sections, cross-fitted, time enough."""
    config = with_run(Config.of(settings), time=3600.0)
    return run_audit(read_inputs(model, loans, config, jobs=jobs), **more)


@pytest.fixture(scope="module")
def small(loans: pd.DataFrame, loan_model: Any) -> tuple[pd.DataFrame, Any]:
    rows = loans.iloc[:130].reset_index(drop=True)
    return rows, clone(loan_model).fit(rows.drop(columns="outcome"), rows["outcome"])


@pytest.mark.claim("27.02")
def test_a_page_has_the_same_hash_after_any_interruption_and_for_any_workers(
    small: tuple[pd.DataFrame, Any], settings: dict[str, Any], tmp_path: Path
) -> None:
    settings |= {"effort": {"budgets": [1]}}
    settings["data"] = settings["data"] | {"rows": "training"}
    told: list[str] = []
    whole = audited(*small, settings, progress=lambda text, done, n: told.append(text))
    rng = np.random.default_rng(0)
    moments = [2, *sorted(rng.choice(np.arange(3, len(told)), 4, replace=False).tolist())]
    store = tmp_path / "audit.sqlite"
    for moment, stop in zip(
        moments, (Killed, KeyboardInterrupt, Killed, KeyboardInterrupt, Killed)
    ):
        seen: list[str] = []

        def halt(text: str, done: int, n: int, stop: Any = stop, seen: Any = seen) -> None:
            seen.append(text)
            if len(seen) == moment // 2 + 1:  # noqa: B023
                raise stop

        try:
            part = audited(*small, settings, store=store, progress=halt)
            assert part.record.making.interrupted or len(seen) <= moment // 2 + 1
        except Killed:
            pass
    again = audited(*small, settings, store=store, jobs=2)
    assert again.record.content_sha256 == whole.record.content_sha256
    assert again.record.plan == whole.record.plan
    fresh = audited(*small, settings, jobs=2)
    assert fresh.record.content_sha256 == whole.record.content_sha256
    replayed = audited(*small, settings, plan=whole.record.plan)
    assert replayed.record.content_sha256 == whole.record.content_sha256


@pytest.mark.slow
@pytest.mark.claim("27.02")
def test_the_command_is_killed_and_goes_on(
    small: tuple[pd.DataFrame, Any], settings: dict[str, Any], tmp_path: Path
) -> None:
    """Five signals at random moments of one command; the page is that of an undisturbed one."""
    rows, model = small
    rows.to_csv(tmp_path / "loans.csv", index=False)
    skops.io.dump(model, tmp_path / "model.skops")
    settings |= {"effort": {"budgets": [1]}, "data": settings["data"] | {"rows": "training"}}
    (tmp_path / "audit.toml").write_text(as_toml(settings))
    words = [sys.executable, "-m", "counterplay", "audit", "model.skops", "loans.csv"]
    words += ["--config", "audit.toml", "--time", "1h", "--out"]

    def started(out: str, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*words, out, *more], cwd=tmp_path, env=os.environ, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def content(out: str) -> str:
        return str(json.loads((tmp_path / out / "audit.json").read_text())["content_sha256"])

    begun = time.monotonic()
    assert started("whole").wait(600) == 0
    seconds = time.monotonic() - begun
    rng = np.random.default_rng(0)
    signals = (signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGINT, signal.SIGKILL)
    for number, moment in zip(signals, rng.uniform(0.2, 0.95, 5)):
        run = started("part")
        time.sleep(moment * seconds)
        run.send_signal(number)
        assert run.wait(600) in (0, 130, -number)  # 0: it was done before
    assert started("part").wait(600) == 0
    assert content("part") == content("whole")
    assert started("plan", "--plan", "whole/audit.json", "--jobs", "2").wait(600) == 0
    assert content("plan") == content("whole")


def as_toml(settings: dict[str, Any]) -> str:
    """Return settings as a config file: JSON of scalars and lists is TOML."""

    def inline(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(k)} = {inline(v)}" for k, v in value.items()) + "}"
        return json.dumps(value)

    return "\n".join(f"{key} = {inline(value)}" for key, value in settings.items())
