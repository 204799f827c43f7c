"""The content of a page does not depend on workers, or on when the run was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
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
