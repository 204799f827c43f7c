"""``counterplay offer log.csv``: from a log of offers and outcomes to the next offer.

Prints what the log says, warnings first, then the offer to make. With ``--next`` also a plan; with
``--state`` the plan goes on where it stopped: rows that were added to the log since are its
outcomes. Source: docs/theory/25-offers.md.
"""

from __future__ import annotations

import hashlib
import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from counterplay.commands.options import Json, check_files, print_json
from counterplay.core.files import read_limited, write_atomic
from counterplay.core.records import LIMIT, Count, Digest, Record, read_record, write_record
from counterplay.core.report import plain
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

    from counterplay.principal import OfferPlanner
    from counterplay.principal.offer_fit import OfferFit

app = typer.Typer(add_completion=False)

_DIGITS = "{:.4g}".format
_STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:1em auto;padding:0 1em}"
    "pre{white-space:pre-wrap}img{max-width:100%;height:auto}h2{font-size:1.1em}"
    "table{display:block;overflow-x:auto;border-spacing:0}"
    "th,td{text-align:right;padding:.2em .7em;font-variant-numeric:tabular-nums}"
)
Kind = Literal["commission", "fee", "price", "discount", "bonus", "arms"]


class SavedCommand(Record, frozen=True):
    """A plan between two calls, and which rows of the log it has seen."""

    kind: Literal["counterplay offer"]
    version: Literal[1]
    rows: Count
    digest: Digest
    plan: dict[str, Any]


@app.command(
    epilog="Example: counterplay offer log.csv --offer commission --outcome revenue --next 30"
)
def offer(
    log: Annotated[
        Path, typer.Argument(help="A table: .csv, .tsv or .parquet, one row per round.")
    ],
    offer: Annotated[str, typer.Option(help="Column of the offers.")] = "offer",
    outcome: Annotated[str, typer.Option(help="Column of the outcomes.")] = "outcome",
    terms: Annotated[Kind, typer.Option(help="What the column of offers holds.")] = "commission",
    agent: Annotated[
        str | None, typer.Option(help="Column that says to whom the offer was made.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Column that says when.")] = None,
    within: Annotated[
        str | None, typer.Option(help="Column of groups; offers are compared only within one.")
    ] = None,
    unit_cost: Annotated[float, typer.Option(help="What one unit costs you.")] = 0.0,
    list_price: Annotated[float | None, typer.Option(help="Price before any discount.")] = None,
    unit_value: Annotated[float | None, typer.Option(help="What a success is worth.")] = None,
    currency: Annotated[str, typer.Option(help="Currency of all amounts, such as EUR.")] = "",
    rounds: Annotated[
        int | None, typer.Option("--next", help="Plan the offers of this many rounds.", min=1)
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="File that keeps the plan from one call to the next; needs --next."),
    ] = None,
    missing: Annotated[
        Literal["error", "drop"],
        typer.Option(help="What to do with rows that lack the offer or the outcome."),
    ] = "error",
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)] = 0,
    page: Annotated[Path | None, typer.Option("--html", help="Page to write.")] = None,
    as_json: Json = False,
) -> None:
    """Learn from a log of offers and outcomes which offer to make next."""
    from counterplay.principal import fit_game
    from counterplay.tables import read_table

    if state is not None and rounds is None:
        raise InvalidInputError("--state keeps a plan: say how many rounds with --next")
    check_files(page, state)
    table = read_table(log)
    settings: dict[str, Any] = {
        "offer": offer, "outcome": outcome, "terms": terms, "agent": agent, "time": time,
        "within": within, "unit_cost": unit_cost, "list_price": list_price,
        "unit_value": unit_value, "currency": currency, "missing": missing, "random_state": seed,
    }  # fmt: skip
    fit = fit_game(table.frame, **settings)
    planned: dict[str, Any] | None = None
    if rounds is not None and state is None:
        plan = fit.planner(rounds, random_state=seed)
        planned = {"rounds": rounds, "offers": [plan.act() for _ in range(rounds)]}
    elif rounds is not None and state is not None:
        plan, new = _continued(fit, table.frame, offer, outcome, rounds, state, seed)
        planned = {"rounds": plan.settings.rounds, "observed": new, "offers": [plan.act()]}
        _save(plan, table.frame[[offer, outcome]], state)
    if page is not None:
        write_atomic(page, _page(fit, planned))
    if as_json:
        print_json(_record(fit, planned))
        return
    for note in table.notes:
        typer.echo(f"{log.name}: {note}")
    typer.echo(fit.summary())
    if planned is not None:
        typer.echo(_told(planned, state))
    if page is not None:
        typer.echo(f"wrote {page}")


def _continued(
    fit: OfferFit,
    frame: pd.DataFrame,
    offer: str,
    outcome: str,
    rounds: int,
    state: Path,
    seed: int,
) -> tuple[OfferPlanner, int]:
    """Start a plan, or go on with a saved one: rows added to the log are its outcomes."""
    from counterplay.principal import OfferPlanner

    if not state.exists():
        return fit.planner(rounds, random_state=seed), 0
    what = state.name[:80]
    saved = read_record(read_limited(state, what=what, limit=LIMIT), SavedCommand, what=what)
    plan = OfferPlanner.from_json(json.dumps(saved.plan), what=what)
    if (plan.settings.offer, plan.settings.outcome) != (offer, outcome):
        raise InvalidInputError(
            f"{what} plans {plan.settings.offer!r} by {plan.settings.outcome!r}, not {offer!r} by "
            f"{outcome!r}; use another --state"
        )
    seen = frame[[offer, outcome]]
    if len(seen) < saved.rows or _digest(seen.iloc[: saved.rows]) != saved.digest:
        raise InvalidInputError(
            f"the first {saved.rows} rows of the log are not those that {what} has seen; append "
            "new rows at the end, or use another --state"
        )
    added = seen.iloc[saved.rows :]
    for x, m in zip(added[offer], added[outcome]):
        plan.observe(x.item() if hasattr(x, "item") else x, m)
    return plan, len(added)


def _digest(frame: pd.DataFrame) -> str:
    text = frame.to_csv(index=False, float_format="%.17g")
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _save(plan: OfferPlanner, frame: pd.DataFrame, state: Path) -> None:
    record = SavedCommand(
        kind="counterplay offer",
        version=1,
        rows=len(frame),
        digest=_digest(frame),
        plan=json.loads(plan.to_json()),
    )
    write_atomic(state, write_record(record) + "\n")


def _told(planned: dict[str, Any], state: Path | None) -> str:
    if state is None:
        offers = ", ".join(f"{x:g}" if isinstance(x, float) else str(x) for x in planned["offers"])
        return f"the next {planned['rounds']} offers, if no outcome comes in between: {offers}"
    first = planned["offers"][0]
    return (
        f"learned {planned['observed']} new rows; make the offer "
        f"{f'{first:g}' if isinstance(first, float) else first}, append its outcome to the log and "
        f"call again (plan of {planned['rounds']} rounds in {state.name})"
    )


def _record(fit: OfferFit, planned: dict[str, Any] | None) -> dict[str, Any]:
    """Everything for programs; money that is unknown is null."""
    frames = {"response": fit.response(), "value": fit.value(), "costs": fit.costs()}
    content: dict[str, Any] = {
        "rows": len(fit.log),
        "monotone": fit.monotone,
        "smallest_regret": fit.smallest_regret,
        "warnings": fit.warnings,
        "not_identified": fit.not_identified,
        "winner": fit.next_offer(),
        "safe": fit.next_offer("safe"),
        "checks": fit.checks().to_dict(orient="records"),
        **{name: frame.to_dict(orient="records") for name, frame in frames.items()},
    }
    if planned is not None:
        content["plan"] = planned
    result: dict[str, Any] = plain(content)
    return result


def _page(fit: OfferFit, planned: dict[str, Any] | None) -> str:
    """One self-contained page; every name is escaped."""
    title = html.escape(f"{fit.log.offer} and {fit.log.outcome}")
    tables = {
        "the other side's cost above that under the weakest offer": fit.costs(),
        "checks": fit.checks(),
    }
    parts = [fit._repr_html_()]
    for caption, frame in tables.items():
        parts.append(
            f"<h2>{caption}</h2>{frame.to_html(border=0, index=False, float_format=_DIGITS)}"
        )
    if planned is not None:
        offers = ", ".join(html.escape(str(x)) for x in planned["offers"])
        parts.append(f"<h2>next</h2><p>{offers}</p>")
    width = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{width}<title>{title}'
        f"</title><style>{_STYLE}</style></head><body><h1>{title}</h1>{''.join(parts)}</body></html>\n"
    )
