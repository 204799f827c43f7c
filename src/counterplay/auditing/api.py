"""``counterplay.audit``: a model and a table in, one page of findings out."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec

import counterplay
from counterplay.auditing.actions import ranked
from counterplay.auditing.config import Config
from counterplay.auditing.findings import Action, SectionResult
from counterplay.auditing.gates import Evidence, check_gate, judge
from counterplay.auditing.hardened import named_files
from counterplay.auditing.inputs import Inputs, read_inputs
from counterplay.auditing.plan import NO_TIME, run_plan
from counterplay.auditing.record import (
    AbsentSection,
    AuditRecord,
    Making,
    SectionRecord,
    StageTime,
    evidence_of,
    section_record,
    stored_rows,
    with_hash,
)
from counterplay.auditing.result import Audit, variant_records
from counterplay.auditing.runs import Run
from counterplay.auditing.settings import with_data, with_run
from counterplay.core.arguments import checked
from counterplay.errors import InvalidInputError

Progress = Callable[[str, int, int], None]
_PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "skops", "onnxruntime", "lightgbm")


@checked
def audit(
    model: Any,
    table: Any,
    *,
    label: str | None = None,
    positive: Any = None,
    config: Mapping[str, Any] | str | os.PathLike[str] | Config | None = None,
    train: Any = None,
    sections: Sequence[str] | None = None,
    time_budget: float | None = None,
    random_state: int | None = None,
    n_jobs: int = 1,
    progress: Callable[..., Any] | None = None,
) -> Audit:
    """Say what a model costs, what gaming and planted rows do to it, and what to do next.

    Use it when people react to the decisions of a model that you have: it needs the fitted model
    and a table of decisions with known outcomes, best of rows that the model has not seen.

    Parameters
    ----------
    model
        A fitted classifier, a model file, an import path ``module:object``, or None: then a
        default is trained on the table.
    table
        Rows with known outcomes: a frame, or a CSV or Parquet file.
    label
        Column of the outcome.
    positive
        The outcome that people want, or a list of them; it is never guessed.
    config
        What can be moved at which price, costs, gates: a TOML file or the same as a mapping.
    train
        Rows that the model was fitted on, where they are known.
    sections
        Names of the sections to run; all that have their inputs by default.
    time_budget
        Seconds; what does not fit is listed. Default: that of the config, 300.
    random_state
        Seed of folds and draws. Default: that of the config, 0.
    n_jobs
        Workers; no number depends on it.
    progress
        Called with a text, how much is done, and how much there is; if it raises, the audit stops
        with ``InvalidInputError``.

    Returns
    -------
    Audit
        Findings, actions, gates; ``to_html`` writes the page.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(400, 4, random_state=0)
    >>> frame = pd.DataFrame(X, columns=["income", "debt", "late", "age"])
    >>> model = LogisticRegression().fit(frame[:200], y[:200])
    >>> found = audit(
    ...     model, frame[200:].assign(paid=y[200:]), label="paid", positive=1, sections=["honest"]
    ... )
    >>> found.honest.accuracy.value == model.score(frame[200:], y[200:])
    True

    References
    ----------
    docs/audit.md; "Setting", see docs/theory/27-audit.md.
    """
    settings = with_data(Config.of(config), label=label, positive=positive)
    settings = with_run(settings, seed=random_state, time=time_budget)
    inputs = read_inputs(model, table, settings, train=train, jobs=n_jobs)
    return run_audit(inputs, sections=sections, progress=progress)


def run_audit(
    inputs: Inputs,
    *,
    sections: Sequence[str] | None = None,
    progress: Progress | None = None,
    store: str | os.PathLike[str] | None = None,
    plan: Mapping[str, int] | None = None,
    against: AuditRecord | None = None,
    judge_gates: bool = True,
    command: str = "",
) -> Audit:
    """Run the sections on what was read and assemble the answer.

    Parameters
    ----------
    inputs
        Model, table and settings.
    sections
        Names of the sections to run.
    progress
        Called with a text, how much is done, and how much there is.
    store
        File that keeps finished rows, so that an interrupted run goes on.
    plan
        Rows of each stage, from a former audit: exactly these, without a clock.
    against
        A former audit to compare with.
    judge_gates
        Whether gates are evaluated.
    command
        The command that makes the page again.
    """
    for text in inputs.config.gates.require:
        check_gate(text)  # a mistake is told before the long computation
    start = time.monotonic()
    run = run_plan(
        inputs.context,
        sections=sections,
        time_budget=inputs.config.run.time,
        store=store,
        plan=plan,
        progress=progress,
        spent=inputs.seconds,
    )
    used = inputs.seconds + time.monotonic() - start
    records, results, failed = _records(run)
    making = _making(inputs, run, used, command, clock=plan is None)
    return _assembled(inputs, run, records, results, failed, making, against, judge_gates)


def _records(
    run: Run,
) -> tuple[list[SectionRecord], dict[str, SectionResult], dict[str, str]]:
    """Results as data; what is not plain data becomes a failure of its section."""
    records, results, failed = [], {}, dict(run.failed)
    for name, result in run.results.items():
        try:
            records.append(section_record(result))
            results[name] = result
        except Exception as error:  # a stranger's section may return anything
            failed[name] = f"its result cannot be shown: {error!s:.200}"
    return records, results, failed


def _assembled(
    inputs: Inputs,
    run: Run,
    records: list[SectionRecord],
    results: dict[str, SectionResult],
    failed: dict[str, str],
    making: Making,
    against: AuditRecord | None,
    judge_gates: bool,
) -> Audit:
    actions = ranked([*_first_actions(inputs), *(a for r in results.values() for a in r.actions)])
    variants = [v for result in results.values() for v in result.variants]
    actions = named_files(actions, variants)
    rows = {key: values for result in results.values() for key, values in result.row_values.items()}
    absent = _absent(run, failed)
    record = AuditRecord(
        kind="counterplay audit",
        version=1,
        subject=inputs.subject,
        unit=inputs.config.costs.page_unit,
        seed=inputs.config.run.seed,
        confirmed=inputs.config.confirmed,
        config=config_json(inputs.config),
        prints=inputs.prints,
        guesses=inputs.config.guesses[:100],
        findings=inputs.findings,
        sections=tuple(records),
        absent=absent,
        actions=actions,
        variants=variant_records(variants, actions),
        plan=dict(run.plan),
        rows={key: stored_rows(values) for key, values in rows.items()},
        making=making,
    )
    if judge_gates and inputs.config.gates.require:
        record = _gated(record, rows, inputs.config.gates.require, against)
    return Audit(with_hash(record), results, inputs)


def _gated(
    record: AuditRecord,
    rows: Mapping[str, Any],
    require: Sequence[str],
    against: AuditRecord | None,
) -> AuditRecord:
    quantities = {k: q for section in record.sections for k, q in section.quantities.items()}
    plain = {k: q for section in record.sections for k, q in section.plain.items()}
    reasons = {section.name: section.reason for section in record.absent}
    evidence = Evidence(quantities, plain, rows, reasons)
    last = None if against is None else evidence_of(against, what="the last audit")
    same = against is not None and against.prints.get("table") == record.prints.get("table")
    gates = judge(require, evidence, last, same_rows=same)
    return msgspec.structs.replace(record, gates=gates)


def _first_actions(inputs: Inputs) -> list[Action]:
    """What must be done before numbers can be trusted."""
    found = []
    for finding in inputs.findings:
        if finding.name == "leak":
            title = finding.sentence.partition(" alone ")[0]
            found.append(
                Action(
                    name="leak", blocking=True, effort=1,
                    title=f"Find out whether {title} is known before the decision",
                    how="ask who fills in the column; leave it out of the model if it is not",
                )
            )  # fmt: skip
        if finding.name == "wanted_not_confirmed":
            found.append(
                Action(
                    name="confirm", blocking=True, effort=0, title="Confirm the wanted outcome",
                    how="`confirmed = true` in the config when every line with `#?` is right",
                )
            )  # fmt: skip
    return found


def _absent(run: Run, failed: Mapping[str, str]) -> tuple[AbsentSection, ...]:
    titles = dict(run.titles)
    found = [
        AbsentSection(name=name, title=titles.get(name, name), reason=reason[:3000], failed=True)
        for name, reason in failed.items()
    ]
    late = {
        f"{s.section}.{s.stage}": [NO_TIME]
        for s in run.stages
        if s.section in run.results and f"{s.section}.{s.stage}" not in run.plan
    }
    titles |= {
        name: f"{titles[name.partition('.')[0]]} ({name.partition('.')[2]})" for name in late
    }
    for name, missing in (run.skipped | late).items():
        reason = " ".join(item.sentence for item in missing)[:3000]
        keys = ", ".join(item.key for item in missing if item.key)[:1000]
        found.append(
            AbsentSection(name=name, title=titles.get(name, name), reason=reason, key=keys)
        )
    return tuple(found)


def _making(inputs: Inputs, run: Run, used: float, command: str, *, clock: bool) -> Making:
    """How it was made; without a clock no seconds are told, and every byte comes back."""

    def seconds(value: float) -> float:
        return max(0.0, float(value)) if clock else 0.0

    stages = tuple(
        StageTime(
            section=s.section, stage=s.stage, planned=s.planned, done=s.done, wanted=s.wanted,
            planned_s=seconds(s.planned_s), used_s=seconds(s.used_s), note=s.note,
        )
        for s in run.stages
    )  # fmt: skip
    return Making(
        command=command[:4000],
        library=counterplay.__version__,
        versions=versions(),
        budget_s=seconds(inputs.config.run.time),
        used_s=seconds(used),
        stages=stages,
        notes=tuple(note[:4000] for note in inputs.notes[:100]),
        columns=inputs.columns,
        interrupted=run.interrupted,
    )


def versions() -> dict[str, str]:
    """Return the versions of what the numbers depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def config_json(config: Config) -> str:
    """Return the settings that differ from the defaults, as JSON for the page."""
    given, default = msgspec.to_builtins(config), msgspec.to_builtins(Config())
    for key in ("folder", "name", "guesses", "run"):
        given.pop(key, None)
    told = {key: value for key, value in given.items() if value != default.get(key)}
    return json.dumps(told, indent=1, ensure_ascii=False, sort_keys=True, default=str)


def check_sections(names: Sequence[str] | None) -> None:
    """Refuse names of sections that do not exist, before anything is read."""
    from counterplay.auditing.section import load_sections

    if names is not None:
        if not names:
            raise InvalidInputError("--sections names no section")
        load_sections(names)
