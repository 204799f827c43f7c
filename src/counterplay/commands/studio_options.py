"""Options that the studio's commands share, and how they open its data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterplay.commands.completing import studies
from counterplay.errors import InvalidInputError, MissingDependencyError, UnknownNameError

if TYPE_CHECKING:
    from counterplay.studio.settings import Settings
    from counterplay.studio.store import Store
    from counterplay.studio.store.base import PartyRow, StudyRow

DATABASE = "COUNTERPLAY_DATABASE"
Data = Annotated[Path, typer.Option("--data", help="Folder that holds the studio's data.")]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar=DATABASE,
        help="URL of a PostgreSQL database; by default a SQLite file in the folder.",
    ),
]
Study = Annotated[
    str, typer.Argument(metavar="STUDY", help="Id of the study.", autocompletion=studies)
]
HERE = Path("studio")
OPERATOR = "operator"
"""How the log calls somebody at the command line."""
LOCAL = "http://127.0.0.1:8700"
"""Where the studio answers, as long as no server has stored its address."""


def need_studio() -> None:
    """Say what to install where the packages of the studio are missing."""
    try:
        import alembic
        import argon2
        import fastapi
        import jinja2
        import python_multipart
        import sqlalchemy
        import uvicorn
    except ImportError:
        raise MissingDependencyError(
            "The studio needs: pip install 'counterplay[studio]'"
        ) from None
    del alembic, argon2, fastapi, jinja2, python_multipart, sqlalchemy, uvicorn


def settings_of(data: Path, database: str | None, **more: Any) -> Settings:
    """Return the settings of a command."""
    need_studio()
    from counterplay.studio.settings import Settings

    if database is not None and not database.startswith("sqlite"):
        try:
            import psycopg
        except ImportError:
            raise MissingDependencyError(
                "PostgreSQL needs: pip install 'counterplay[studio,postgres]'"
            ) from None
        del psycopg
    return Settings(data=data, database=database, **more)


def existing(data: Path, database: str | None) -> Settings:
    """Return the settings of a command that makes no studio: a mistyped folder is no empty one."""
    settings = settings_of(data, database)
    if settings.sqlite_file is not None and not settings.sqlite_file.exists():
        raise InvalidInputError(
            f"there is no studio in {settings.data}; --data names another folder"
        )
    return settings


def study_of(store: Store, name: str) -> StudyRow:
    """Return a study by its id; a mistyped one suggests the nearest."""
    studies = {row.public_id: row for row in store.studies()}
    if name not in studies:
        raise UnknownNameError.among("study", name, studies)
    return studies[name]


def party_of(store: Store, name: str, kind: str = "party") -> PartyRow:
    """Return a party by its id."""
    from counterplay.studio.errors import Missing

    try:
        return store.party(name)
    except Missing:
        raise UnknownNameError.among(kind, name, ()) from None


@contextmanager
def opened(data: Path, database: str | None, *, new: bool = False) -> Iterator[Store]:
    """Open the store of a command, beside a server if one runs; make a ``new`` one if need be."""
    settings = (settings_of if new else existing)(data, database)
    from counterplay.studio.store import Store

    with Store.open(settings) as store:
        yield store


def noted(settings: Settings, action: str, what: str, detail: dict[str, Any]) -> None:
    """Write into the log what an operator did, whatever schema the database has.

    What was done is done: where the log cannot be written, that is said, and no more.
    """
    from counterplay.studio.errors import Unavailable
    from counterplay.studio.store import Store
    from counterplay.studio.store.database import make_engine

    with Store(settings, make_engine(settings), None) as store:
        try:
            store.audit(OPERATOR, action, what, detail)
        except Unavailable as error:
            typer.echo(f"the log of the studio could not be written ({error.reason})", err=True)
