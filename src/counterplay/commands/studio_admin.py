"""``counterplay studio admin``: who may log in, and what they did."""

from __future__ import annotations

import getpass
import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterplay.commands.options import Json, print_json
from counterplay.commands.studio_options import (
    HERE,
    LOCAL,
    OPERATOR,
    Data,
    Database,
    opened,
    study_of,
)
from counterplay.commands.words import Words
from counterplay.errors import InvalidInputError, UnknownNameError

if TYPE_CHECKING:
    from counterplay.studio.store import Store
    from counterplay.studio.store.base import AdminRow

app = typer.Typer(
    cls=Words,
    add_completion=False,
    no_args_is_help=True,
    help="Manage the people who run the studio, and read what they did.",
    epilog="Example: counterplay studio admin list",
)
_PASSWORD = "COUNTERPLAY_PASSWORD"
_LOG_LINES = 1_000_000


@app.command("create", epilog="Example: counterplay studio admin create anna --role owner")
def create(
    name: Annotated[str, typer.Argument(help="The name of the admin; the log uses it, too.")],
    role: Annotated[str, typer.Option(help="owner, coordinator or viewer.")] = "owner",
    study: Annotated[
        str | None, typer.Option(help="The study that a coordinator looks after.")
    ] = None,
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Add an admin. Asks for a password, unless COUNTERPLAY_PASSWORD holds it."""
    with opened(data, database, new=True) as store:
        from counterplay.studio.passwords import hash_password

        row = store.new_admin(
            name,
            password=hash_password(_password()),
            role=role,
            study=None if study is None else study_of(store, study),
        )
        store.audit(OPERATOR, "admin.create", row.name, {"role": role})
    if as_json:
        print_json({"name": row.name, "role": row.role})
    else:
        typer.echo(f"{row.name} ({row.role}) can log in.")


@app.command("reset", epilog="Example: counterplay studio admin reset anna")
def reset(
    name: Annotated[str, typer.Argument(help="The admin whose password is set.")],
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Set a new password; the admin is logged out everywhere, and no longer disabled."""
    with opened(data, database) as store:
        from counterplay.studio.passwords import hash_password

        row = _known(store, name)
        store.change_admin(row, password=hash_password(_password()), disabled_at=None)
        store.audit(OPERATOR, "admin.reset", row.name)
    if as_json:
        print_json({"name": name})
    else:
        typer.echo(f"{name} has a new password.")


@app.command("list", epilog="Example: counterplay studio admin list")
def show_admins(data: Data = HERE, database: Database = None, as_json: Json = False) -> None:
    """List the admins."""
    with opened(data, database) as store:
        rows = [
            {"name": row.name, "role": row.role, "password": row.password is not None,
             "disabled_at": row.disabled_at}
            for row in store.admins()
        ]  # fmt: skip
    if as_json:
        print_json(rows)
        return
    for row in rows:
        ended = f"  disabled {row['disabled_at']}" if row["disabled_at"] else ""
        typer.echo(f"{row['name']:<20} {row['role']}{ended}")


@app.command("link", epilog="Example: counterplay studio admin link anna")
def link(
    name: Annotated[str, typer.Argument(help="Who may log in with it.")],
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Print a link that logs an admin in once, within an hour; a password can be set with it."""
    with opened(data, database) as store:
        row = _known(store, name)
        if row.disabled_at is not None:
            raise InvalidInputError(f"{name} is disabled; admin reset lets {name} in again")
        base = store.setting("base_url") or LOCAL
        url = f"{base}/admin/link/{store.new_login(row)}"
        store.audit(OPERATOR, "admin.link", row.name)
    if as_json:
        print_json({"name": name, "url": url})
    else:
        typer.echo(url)


@app.command("disable", epilog="Example: counterplay studio admin disable anna")
def disable(
    name: Annotated[str, typer.Argument(help="Who must not log in any more.")],
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """End the sessions of an admin and let nobody in by that name; not for the last owner."""
    with opened(data, database) as store:
        row = _known(store, name)
        store.disable_admin(row)
        store.audit(OPERATOR, "admin.disable", row.name)
    if as_json:
        print_json({"name": name})
    else:
        typer.echo(f"{name} is logged out and cannot log in.")


@app.command("log", epilog="Example: counterplay studio admin log --n 100")
def log(
    n: Annotated[
        int, typer.Option("--n", min=1, max=_LOG_LINES, help="How many lines, the newest.")
    ] = 50,
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Show what admins and operators did, newest first: when, who, what, to what, and details."""
    with opened(data, database) as store:
        rows = [
            {"at": row["at"], "actor": row["actor"], "action": row["action"],
             "object": row["object"], "address_hash": row["address_hash"],
             "detail": _detail(row["detail"])}
            for row in store.audit_log(n)
        ]  # fmt: skip
    if as_json:
        print_json(rows)
        return
    for row in rows:
        detail = json.dumps(row["detail"]) if row["detail"] else ""
        line = f"{row['at']}  {row['actor']:<12}  {row['action']:<16}  {row['object']}  {detail}"
        typer.echo("".join(c if c.isprintable() else "?" for c in line.rstrip()))


def _detail(text: str) -> Any:
    """Details as they are, or their text where it was too long to be kept whole."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _known(store: Store, name: str) -> AdminRow:
    row = store.admin(name)
    if row is None:
        raise UnknownNameError.among("admin", name, [one.name for one in store.admins()])
    return row


def _password() -> str:
    """Read a password from the environment, a terminal or the first line of standard input."""
    if given := os.environ.get(_PASSWORD):
        return given
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != first:
        raise InvalidInputError("the two passwords differ")
    return first
