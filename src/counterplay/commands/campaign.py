"""``counterplay campaign``: label the pools of several parties together, from files."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from counterplay.commands.options import Json, print_json, say_notes
from counterplay.commands.words import Words
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

    from counterplay.labeling import Campaign

app = typer.Typer(
    cls=Words,
    add_completion=False,
    no_args_is_help=True,
    help="Run a labelling campaign of several parties.",
    epilog="Examples: counterplay campaign init pool.csv --owner site --classes yes,no -o c.jsonl; "
    "counterplay campaign next c.jsonl -n 20; counterplay campaign status c.jsonl",
)

Log = Annotated[Path, typer.Argument(metavar="LOG", help="The campaign's log, such as camp.jsonl.")]
MaxError = Annotated[float, typer.Option(help="Largest share of wrong labels that you accept.")]
Sure = Annotated[float, typer.Option(help="One minus the chance that a certificate is false.")]


@app.command()
def init(
    pool: Annotated[Path, typer.Argument(metavar="POOL", help="The items: CSV or Parquet.")],
    owner: Annotated[str, typer.Option(help="Column that names each item's party.")],
    classes: Annotated[str, typer.Option(help="The labels, separated by commas.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The log to write.")],
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column that names the items.")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(help="Columns to learn from, separated by commas; all others by default."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column of texts to learn from.")] = None,
    max_error: MaxError = 0.05,
    confidence: Sure = 0.95,
    scope: Annotated[
        Literal["party", "union"],
        typer.Option(help="Certify the labels of each party, or those of all together."),
    ] = "party",
    noise: Annotated[float, typer.Option(help="Chance that a single answer is wrong.")] = 0.0,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the order of the checks, for trials; by default it is secret."),
    ] = None,
) -> None:
    """Begin a campaign. The log holds the secret order of the checks: do not show it to labelers.

    Example: counterplay campaign init pool.csv --owner clinic --classes benign,malignant --id case
    --scope union -o camp.jsonl
    """
    from counterplay.labeling import Campaign
    from counterplay.labeling.campaign_log import Source

    if out.exists():
        raise InvalidInputError(f"{out.name} is there already; choose another name with -o")
    columns = tuple(c.strip() for c in features.split(",")) if features else ()
    try:
        name = str(pool.resolve().relative_to(out.resolve().parent))
    except ValueError:
        name = str(pool.resolve())
    source = Source(file=name, owner=owner, id=id_column, features=columns, text=text)
    frame = _pool(pool, source, told=True)
    campaign = Campaign(
        _items(frame, source), owners=frame[owner], classes=[c.strip() for c in classes.split(",")],
        max_error=max_error, confidence=confidence, scope=scope, noise=noise,
        random_state=secrets.randbits(63) if seed is None else seed,
    )  # fmt: skip
    campaign.save(out, source=source)
    typer.echo(f"{campaign!r} written to {out}; it holds the secret order of the checks")


@app.command("next")
def next_questions(
    log: Log,
    n: Annotated[int, typer.Option("-n", help="Write at most this many questions.")] = 50,
    party: Annotated[str | None, typer.Option(help="Write only questions of this party.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write them to this file, as CSV.")] = None,
    label_studio: Annotated[
        Path | None, typer.Option(help="Write them to this file, as tasks for Label Studio.")
    ] = None,
    with_predictions: Annotated[
        bool,
        typer.Option(
            "--with-predictions",
            help="Also show predictions, except in checks. Labelers tend to follow them.",
        ),
    ] = False,
) -> None:
    """Write the next questions. Until they are answered, asking again gives the same ones.

    Example: counterplay campaign next camp.jsonl -n 50 --csv questions.csv
    """
    from counterplay.core.files import write_atomic
    from counterplay.labeling.campaign_files import label_studio_tasks, question_rows

    campaign, frame, id_column = _load(log)
    questions = campaign.ask(n, party)
    rows = question_rows(questions, frame, id_column)
    if csv is not None:  # also without a row: old questions must not stay in the file
        write_atomic(csv, rows.assign(label="", labeler="").to_csv(index=False))
    if label_studio is not None:
        guesses = None
        if with_predictions:
            labels = campaign.result().labels
            guesses = {q.id: labels[q.item] for q in questions if labels[q.item] is not None}
        tasks = label_studio_tasks(questions, frame, predictions=guesses)
        write_atomic(label_studio, json.dumps(tasks, indent=1, ensure_ascii=False))
    if not questions:
        typer.echo("nothing to ask" + ("" if party else "; the campaign is finished"))
        return
    if csv is None and label_studio is None:
        typer.echo(rows.to_csv(index=False), nl=False)
    else:
        typer.echo(f"{len(questions)} questions written")


@app.command()
def tell(
    log: Log,
    answers: Annotated[
        Path, typer.Argument(metavar="ANSWERS", help="CSV, or an export of Label Studio.")
    ],
) -> None:
    """Record the answers in a file: all of them, or none if one row is bad.

    Columns: question, label, labeler; "skip" is a label. Rows without a label stay open.

    Example: counterplay campaign tell camp.jsonl answers.csv
    """
    from counterplay.core.files import read_limited
    from counterplay.core.records import LIMIT
    from counterplay.labeling.campaign_files import read_answers, tell_all

    campaign, _, _ = _load(log)
    data = read_limited(answers, what="the answers", limit=LIMIT)
    told = read_answers(data.decode("utf-8-sig", "replace"))
    count = tell_all(campaign, told)
    blank = len(told) - count
    typer.echo(f"{count} answers taken" + (f", {blank} rows without a label" if blank else ""))
    typer.echo(campaign.status().summary())


@app.command()
def retract(
    log: Log,
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="Number of the question, such as q17.")
    ],
    blind: Annotated[
        bool,
        typer.Option(
            "--blind", help="Say that whoever retracts has not seen the results of the checks."
        ),
    ] = False,
) -> None:
    """Take an answer back. The question is open again; record the right answer with tell.

    Example: counterplay campaign retract camp.jsonl q17 --blind
    """
    campaign, _, _ = _load(log)
    campaign.retract(question, blind=blind)
    typer.echo(f"the answer to {question} is taken back")
    typer.echo(campaign.status().summary())


@app.command()
def status(log: Log, as_json: Json = False) -> None:
    """Show where the campaign stands, how much each party worked, and what can be certified.

    Example: counterplay campaign status camp.jsonl
    """
    campaign, _, _ = _load(log)
    if not as_json:
        typer.echo(campaign.summary())
        return
    state = campaign.status()
    certificates = campaign.result().certificates
    print_json(
        {
            "finished": state.finished,
            "parties": campaign.work().to_dict()["rows"],
            "open": state.open,
            "certificates": {name: vars(c) for name, c in certificates.items()},
        }
    )


@app.command()
def export(
    log: Log,
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV file to write.")],
    proof: Annotated[
        Path | None,
        typer.Option(help="Also write a file for counterplay verify; it reveals the checks."),
    ] = None,
) -> None:
    """Write each label with its score, source and number of answers, and whether it is disputed.

    Example: counterplay campaign export camp.jsonl -o labels.csv --proof proof.jsonl
    """
    from counterplay.core.files import write_atomic

    campaign, frame, id_column = _load(log)
    result = campaign.result()
    table = result.to_frame().reset_index(drop=True)
    if id_column is not None:
        table.insert(0, id_column, frame[id_column].to_numpy())
    write_atomic(out, table.to_csv(index=id_column is None, index_label="row"))
    if proof is not None:
        write_atomic(proof, campaign.export(log.stem[:100]))
    typer.echo(result.summary())


@app.command()
def audit(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="CSV file of delivered labels.")],
    state: Annotated[
        Path, typer.Option(help="File that keeps the secret order of the checks and the answers.")
    ],
    column: Annotated[str, typer.Option("--label", help="Column of the labels.")] = "label",
    answers: Annotated[
        Path | None, typer.Option(help="CSV of what was checked, with the columns row and label.")
    ] = None,
    n: Annotated[int, typer.Option("-n", help="How many rows to check next.")] = 20,
    max_error: Annotated[
        float | None,
        typer.Option(help="Largest share of wrong labels that you accept; 0.05 by default."),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(help="One minus the chance that a certificate is false; 0.95 by default."),
    ] = None,
) -> None:
    """Check labels at random until it is certain that few enough of them are wrong.

    Rows are counted from 0. Repeat with --answers until nothing is left to check.

    Example: counterplay campaign audit labels.csv --state audit.json -n 50
    """
    from counterplay.labeling.audit_file import continue_audit
    from counterplay.tables import read_table

    frame = read_table(labels).frame
    if column not in frame.columns:
        raise InvalidInputError(f"{labels.name} has no column {column!r}; name it with --label")
    told = None if answers is None else read_table(answers).frame
    found, rows = continue_audit(
        frame[column], state, told, n=n, max_error=max_error, confidence=confidence
    )
    typer.echo(found.summary())
    if rows:
        typer.echo("check these rows next: " + ", ".join(map(str, rows)))


def _pool(file: Path, source: Any, *, told: bool = False) -> pd.DataFrame:
    """The pool as it stands in its file: names and texts are no numbers, 007 is not 7."""
    from counterplay.tables import read_table

    table = read_table(file, texts=[n for n in (source.owner, source.id, source.text) if n])
    if told:
        say_notes(file, table.notes)
    return table.frame


def _items(frame: pd.DataFrame, source: Any) -> Any:
    """What is learned from: the texts of a column, or columns."""
    named = [source.owner, source.id, source.text, *source.features]
    for name in filter(None, named):
        if name not in frame.columns:
            raise InvalidInputError(f"the pool has no column {name!r}")
    if source.text is not None:
        return frame[source.text].fillna("").astype(str).tolist()
    others = [c for c in frame.columns if c not in (source.owner, source.id)]
    return frame[list(source.features) or others]


def _load(log: Path) -> tuple[Campaign, pd.DataFrame, str | None]:
    """The campaign of a log, the pool as people see it, and the column that names items."""
    from counterplay.core.files import read_limited
    from counterplay.labeling import Campaign
    from counterplay.labeling.campaign_log import LARGEST, read_start

    source = read_start(read_limited(log, what="the log", limit=LARGEST)).source
    if source is None:
        raise InvalidInputError(
            f"{log.name} was begun in Python and does not name its pool; use Campaign.from_log"
        )
    frame = _pool(log.parent / source.file, source)
    campaign = Campaign.from_log(log, _items(frame, source))
    return campaign, frame, source.id
