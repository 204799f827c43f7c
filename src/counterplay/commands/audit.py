"""``counterplay audit MODEL DATA``: a model and a table in, one page and one exit code out.

The first word ``init``, ``check``, ``show`` or ``demo`` is a command of its own; anything else is
the model (a file of such a name: ``./init``). Exit codes: 0 all gates pass, 3 one fails, 4 none
fails and one is undecided, 2 a mistake of the user, 1 a section failed, 130 interrupted.
"""

from __future__ import annotations

import json
import shlex
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from counterplay.commands.options import Json, check_files, print_json
from counterplay.commands.words import Main, Words
from counterplay.core.files import read_limited, write_atomic
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    from counterplay.auditing.config import Config
    from counterplay.auditing.record import AuditRecord
    from counterplay.auditing.result import Audit

_RUN = "MODEL DATA"
_CODES = (
    "Exit codes: 0 all gates pass, 3 a gate fails, 4 no gate fails but one is undecided, 2 a "
    "mistake in what you gave, 1 a section failed, 130 interrupted."
)

app = typer.Typer(
    cls=Words,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Audit your own model and data. First: counterplay audit init DATA. Then: counterplay "
    "audit MODEL DATA --config audit.toml. All options: counterplay audit MODEL DATA --help. "
    "MODEL is a .skops, .onnx, .joblib or .pkl file, module:object, or - for none. " + _CODES,
    epilog="Examples: counterplay audit demo; counterplay audit init loans.csv; "
    "counterplay audit model.skops loans.csv --config audit.toml",
)

Config_ = Annotated[
    Path | None, typer.Option("--config", "-c", help="The settings, such as audit.toml.")
]


@app.command(
    _RUN,
    cls=Main,
    help="Audit a model on a table; write audit.html, audit.json and the model to deploy instead."
    f"\n\n{_CODES}",
    epilog="Example: counterplay audit model.skops loans.csv --config audit.toml --time 5m",
)
def run(
    model: Annotated[str, typer.Argument(help="Model file, module:object, or - for none.")],
    data: Annotated[Path, typer.Argument(help="Table with known outcomes: CSV or Parquet.")],
    config: Config_ = None,
    train: Annotated[
        Path | None, typer.Option(help="Table of the rows that the model was fitted on.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the page.")] = Path("audit"),
    time: Annotated[str | None, typer.Option(help="Time to spend, such as 60s, 5m or 2h.")] = None,
    sections: Annotated[
        str | None, typer.Option(help="Run only these sections, separated by commas.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of all random numbers.")] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, help="Number of worker processes.")
    ] = 1,
    trust: Annotated[
        list[str] | None,
        typer.Option("--trust", help="A type in a .skops file that you trust; repeat the option."),
    ] = None,
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Open a pickle, which runs the code in it.")
    ] = False,
    against: Annotated[
        Path | None, typer.Option(help="The audit.json of an earlier run to compare with.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            help="The audit.json of a run to repeat step by step, whatever time it takes."
        ),
    ] = None,
    undecided: Annotated[
        Literal["pass", "fail", "tell"], typer.Option(help="What an undecided gate counts as.")
    ] = "tell",
    junit: Annotated[
        Path | None, typer.Option(help="Also write the gates to this file, as JUnit XML.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Also write a summary to this file, as Markdown.")
    ] = None,
    accept_guesses: Annotated[
        bool,
        typer.Option(
            "--accept-guesses", help="Evaluate the gates although the guesses are not confirmed."
        ),
    ] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Audit a model on a table; write audit.html, audit.json and the model to deploy instead."""
    from counterplay.auditing.api import check_sections, run_audit
    from counterplay.auditing.config import Config, read_seconds
    from counterplay.auditing.inputs import read_inputs
    from counterplay.auditing.settings import with_run

    names = None if sections is None else [s.strip() for s in sections.split(",") if s.strip()]
    check_sections(names)
    check_files(out / "audit.html", junit, markdown)
    settings = with_run(
        Config.of(config), seed=seed, time=None if time is None else read_seconds(time)
    )
    judged = settings.confirmed or accept_guesses or config is None
    former, last = _stored(plan), _stored(against)
    before = _stamps(data, train, Path(model))
    inputs = read_inputs(
        None if model == "-" else model, data, settings,
        train=train, jobs=jobs, trust=trust or (), trust_pickle=trust_pickle,
    )  # fmt: skip
    words = ["counterplay", "audit", model, str(data), "--plan", str(out / "audit.json")]
    words += ["--config", str(config)] if config else []
    words += ["--train", str(train)] if train else []
    words += ["--sections", sections] if sections else []
    words += ["--trust-pickle"] if trust_pickle else []
    words += [word for kind in trust or () for word in ("--trust", kind)]
    words += ["--seed", str(settings.run.seed)]
    with _progress() as told:
        found = run_audit(
            inputs, sections=names, progress=told, store=out / "audit.sqlite",
            plan=None if former is None else dict(former.plan), against=last,
            judge_gates=judged, command=shlex.join(words),
        )  # fmt: skip
    for path, stamp in _stamps(data, train, Path(model)).items():
        if before.get(path) != stamp:
            raise InvalidInputError(
                f"{path.name} changed during the run: nothing was written. Run the command again."
            )
    found = found.write(out)
    _also(found.record, junit, markdown)
    if as_json:
        print_json({k: v for k, v in json.loads(found.to_json()).items() if k != "rows"})
    else:
        typer.echo(found.summary())
        typer.echo(f"wrote {out / 'audit.html'}")
    if open_page:
        webbrowser.open((out / "audit.html").resolve().as_uri())
    raise typer.Exit(_code(found, settings, judged, undecided))


@app.command("init", epilog="Example: counterplay audit init loans.csv")
def init(
    data: Annotated[Path, typer.Argument(help="Table with known outcomes: CSV or Parquet.")],
    model: Annotated[str | None, typer.Option(help="The model that will be audited.")] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write.")] = Path("audit.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    trust: Annotated[
        list[str] | None,
        typer.Option("--trust", help="A type in a .skops file that you trust; repeat the option."),
    ] = None,
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Open a pickle, which runs the code in it.")
    ] = False,
) -> None:
    """Write audit.toml with guesses and their reasons; you confirm them line by line."""
    from counterplay.auditing.config_text import config_text
    from counterplay.auditing.guess import guess_table
    from counterplay.auditing.inputs import read_rows

    if out.exists() and not force:
        raise InvalidInputError(f"{out} is there already; --force overwrites it.")
    given = read_rows(data)
    if model is not None:
        _look_at(model, given.frame, trust or [], trust_pickle)
    guesses = guess_table(given.frame)
    write_atomic(out, config_text(given.frame, guesses))
    for note in given.notes:
        typer.echo(f"{data.name}: {note}")
    unset = sum("#!" in line for line in out.read_text(encoding="utf-8").splitlines()[2:])
    typer.echo(
        f"wrote {out}: {len(given.frame):,} rows, {given.frame.shape[1]} columns; "
        f"read every line with #?{f', {unset} with #! must be set by you' if unset else ''}"
    )


@app.command("check", epilog="Example: counterplay audit check audit.toml loans.csv")
def check(
    config: Annotated[Path, typer.Argument(help="The settings, such as audit.toml.")],
    data: Annotated[Path, typer.Argument(help="Table with known outcomes: CSV or Parquet.")],
) -> None:
    """Check that the settings fit the table; nothing is computed."""
    from counterplay.auditing.config import Config
    from counterplay.auditing.gates import check_gate
    from counterplay.auditing.inputs import read_rows
    from counterplay.auditing.outcome import read_outcome
    from counterplay.auditing.roles import check_moves, check_roles

    settings = Config.of(config)
    given = read_rows(data)
    outcome = read_outcome(given.frame, settings)
    check_roles(settings, given.frame)
    check_moves(settings, given.frame[outcome.kept])
    for text in settings.gates.require:
        check_gate(text)
    for note in given.notes:
        typer.echo(f"{data.name}: {note}")
    wanted = ", ".join(map(str, outcome.positive))
    typer.echo(
        f"{config.name} is usable: {len(outcome.wanted):,} rows, "
        f"{int(outcome.wanted.sum()):,} with {outcome.label} = {wanted}"
    )
    if not settings.confirmed:
        typer.echo(f"{len(settings.guesses)} guesses are not confirmed (confirmed = false)")


@app.command("show", epilog="Example: counterplay audit show audit/audit.json -o page.html")
def show(
    record: Annotated[Path, typer.Argument(help="The audit.json of a run.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Page to write; by default it stands beside the file."),
    ] = None,
) -> None:
    """Write the page again from audit.json."""
    from counterplay.auditing.page import render_page
    from counterplay.auditing.record import content_hash

    stored = _stored(record)
    assert stored is not None
    target = out if out is not None else record.with_suffix(".html")
    if stored.content_sha256 != content_hash(stored):
        typer.echo(f"{record.name} was changed after it was written", err=True)
    write_atomic(target, render_page(stored))
    typer.echo(f"wrote {target}")


@app.command("demo", epilog="Example: counterplay audit demo -o audit.html")
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Page to write.")] = Path("audit.html"),
) -> None:
    """Audit a small model on data that comes with scikit-learn; you need no file."""
    from counterplay.auditing.demo import demo_audit

    check_files(out)
    with _progress() as told:
        found = demo_audit(told)
    found.to_html(out)
    typer.echo(found.summary())
    typer.echo(f"wrote {out}")


def _look_at(model: str, frame: Any, trust: list[str], trust_pickle: bool) -> None:
    """Say which columns of a model the table lacks."""
    from counterplay.auditing.models import check_columns, load_model
    from counterplay.tables.models import model_names, spelt

    loaded = load_model(model, trust=trust, trust_pickle=trust_pickle)
    names = model_names(loaded[0])
    if names is not None:
        check_columns(frame, spelt(loaded[0], names, list(map(str, frame.columns))))
    else:
        typer.echo(f"{loaded[1]} knows no column names: set [model] columns", err=True)


def _stamps(*paths: Path | None) -> dict[Path, tuple[int, int]]:
    """Size and time of the files that an audit reads."""
    files = [path for path in paths if path is not None and path.is_file()]
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def _stored(path: Path | None) -> AuditRecord | None:
    """Read audit.json, which may come from anywhere."""
    if path is None:
        return None
    from counterplay.auditing.record import LARGEST_RECORD, read_audit

    what = path.name[:80]
    return read_audit(read_limited(path, what="the audit", limit=LARGEST_RECORD), what=what)


def _also(record: AuditRecord, junit: Path | None, markdown: Path | None) -> None:
    from counterplay.auditing.show import junit_text, markdown_text

    if junit is not None:
        write_atomic(junit, junit_text(record))
    if markdown is not None:
        write_atomic(markdown, markdown_text(record))


def _code(
    found: Audit, settings: Config, judged: bool, undecided: Literal["pass", "fail", "tell"]
) -> int:
    from counterplay.auditing.gates import exit_code

    record = found.record
    for section in record.absent:
        if section.failed:
            typer.echo(f"counterplay: section {section.name} failed: {section.reason}", err=True)
    if record.making.interrupted:
        typer.echo("counterplay: interrupted; the same command goes on", err=True)
        return 130
    if any(section.failed for section in record.absent):
        return 1
    if settings.gates.require and not judged:
        typer.echo(
            f"counterplay: {settings.name} has guesses that nobody confirmed, so the gates were "
            "not evaluated. Set confirmed = true, or add --accept-guesses.",
            err=True,
        )
        return 2
    return exit_code(record.gates, undecided)


class _progress:
    """Show what is being done on standard error, where a person is looking."""

    def __init__(self) -> None:
        from counterplay.core.progress import progress_bar

        self._bar = progress_bar()
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Any:
        self._display = self._bar.__enter__()
        return self._told

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)

    def _told(self, text: str, done: int, total: int) -> None:
        if total <= 0 or text.startswith("Plan:"):
            self._display.console.print(text, markup=False, highlight=False)
            return
        if text not in self._tasks:
            self._tasks[text] = self._display.add_task(_safe(text), total=total)
        self._display.update(self._tasks[text], completed=done, total=total)


def _safe(text: str) -> str:
    from rich.markup import escape

    return escape(text)
