"""``counterplay studio``: the server, and what its operator needs."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from counterplay.commands import studio_admin, studio_links, studio_operate, studio_study
from counterplay.commands.studio_options import DATABASE, HERE, Data, Database, settings_of
from counterplay.commands.words import Words

app = typer.Typer(cls=Words, add_completion=False)
app.add_typer(studio_study.app, name="study")
app.add_typer(studio_admin.app, name="admin")
app.add_typer(studio_links.app, name="links")
for command in (
    studio_operate.worker,
    studio_operate.backup,
    studio_operate.restore,
    studio_operate.check,
    studio_operate.scrub,
    studio_operate.migrate,
    studio_operate.jobs,
):
    app.command()(command)


@app.callback(
    invoke_without_command=True,
    epilog="Examples: counterplay studio --data ./studio; counterplay serve --data ./studio; "
    "counterplay studio study new cars.toml",
)
def studio(
    context: typer.Context,
    data: Data = HERE,
    database: Database = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 picks a free one.")] = 8700,
    base_url: Annotated[
        str | None,
        typer.Option(
            help="Address at which people reach the studio, such as https://studio.example.org."
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, max=64, help="Number of processes that run jobs.")
    ] = 1,
    trusted_proxies: Annotated[
        int,
        typer.Option(
            min=0,
            max=10,
            help="How many proxies stand in front, whose X-Forwarded-For is believed.",
        ),
    ] = 0,
    requests_per_minute: Annotated[
        float, typer.Option(min=1.0, help="Most requests from one address; guards have no limit.")
    ] = 300.0,
    insecure_http: Annotated[
        bool,
        typer.Option(
            "--insecure-http",
            help="Serve a network without https; whoever listens can read the links.",
        ),
    ] = False,
    allow_model_upload: Annotated[
        bool,
        typer.Option(
            "--allow-model-upload", help="Let admins upload .onnx and .skops models for audits."
        ),
    ] = False,
    metrics_token: Annotated[
        str | None,
        typer.Option(
            envvar="COUNTERPLAY_METRICS_TOKEN",
            help="Bearer token that lets other machines read /metrics.",
        ),
    ] = None,
    ready_file: Annotated[
        Path | None,
        typer.Option(help="File to write {url, pid, admin_link} to once the server answers."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the studio in a browser.")] = False,
) -> None:
    """Open the library in the browser: questions, campaigns, guards and audits.

    Without a command, this starts the server and, without --base-url, prints a link for an
    admin. All data is in one folder; every answer is on disk before it is acknowledged.
    """
    if context.invoked_subcommand is not None:
        _hand_on(context, data, database)
        return
    settings = settings_of(
        data,
        database,
        host=host,
        port=port,
        base_url=base_url,
        workers=workers,
        trusted_proxies=trusted_proxies,
        requests_per_minute=requests_per_minute,
        insecure_http=insecure_http,
        allow_model_upload=allow_model_upload,
        metrics_token=metrics_token,
    )
    settings.check_host()
    from counterplay.studio.app import serve
    from counterplay.studio.worker import Workers

    def announce(told: dict[str, Any]) -> None:
        typer.echo(f"The studio answers at {told['url']} (process {told['pid']}).", err=True)
        if told.get("admin_link"):
            typer.echo(
                f"To log in as admin, open this link; it works once: {told['admin_link']}",
                err=True,
            )
        else:
            typer.echo(
                f"Log in at {told['url']}/admin/login. To add an admin: "
                "counterplay studio admin create NAME; without a password: "
                "counterplay studio admin link NAME",
                err=True,
            )
        if open_:
            webbrowser.open(told.get("admin_link") or told["url"])

    with Workers(settings):
        serve(settings, ready_file, announce=announce)


def _hand_on(context: typer.Context, data: Path, database: str | None) -> None:
    """What stands before a command holds for it: studio --data DIR study list."""

    def of(group: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"data": str(data)}
        return found | {name: of(part) for name, part in getattr(group, "commands", {}).items()}

    context.default_map = of(context.command)
    if database is not None:
        os.environ[DATABASE] = database
