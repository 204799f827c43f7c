"""The files for operators: what they start exists, and what they promise is in them."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from counterplay.commands.studio import app
from counterplay.studio.kinds import kind_of

DEPLOY = Path(__file__).parents[2] / "deploy"


def started(words: list[str]) -> None:
    """Parse a command line of the studio: an option that does not exist is an error."""
    found = CliRunner().invoke(app, [*words, "--help"])
    assert found.exit_code == 0, found.output


def test_the_unit_starts_the_studio_with_a_read_only_system() -> None:
    text = (DEPLOY / "counterplay-studio.service").read_text()
    line = next(part for part in text.splitlines() if part.startswith("ExecStart="))
    words = shlex.split(line.removeprefix("ExecStart="))
    assert words[1] == "studio"
    assert "--base-url" in words
    started(words[2:])
    for promise in ("User=counterplay", "Restart=always", "NoNewPrivileges=yes",
                    "ProtectSystem=strict", "ReadWritePaths=/var/lib/counterplay",
                    "MemoryMax=4G"):  # fmt: skip
        assert promise in text


def test_the_backup_is_a_command_of_the_studio() -> None:
    text = (DEPLOY / "counterplay-studio-backup.service").read_text()
    line = next(part for part in text.splitlines() if part.startswith("ExecStart="))
    inner = shlex.split(line.removeprefix("ExecStart="))[2]
    words = shlex.split(inner.replace("%%", "%"))
    assert words[1:4] == ["/opt/counterplay/bin/counterplay", "studio", "backup"]
    started(words[3:])
    assert "OnCalendar" in (DEPLOY / "counterplay-studio-backup.timer").read_text()


def test_proxies_do_not_buffer_and_limit_bodies() -> None:
    caddy, nginx = (DEPLOY / "Caddyfile").read_text(), (DEPLOY / "nginx.conf").read_text()
    assert "flush_interval -1" in caddy
    assert "max_size 25MB" in caddy
    assert "proxy_buffering off" in nginx
    assert "client_max_body_size 25m" in nginx
    assert "X-Forwarded-For $remote_addr" in nginx  # the client's own header is replaced


@pytest.mark.parametrize("promise", ["USER counterplay", "VOLUME /data", "HEALTHCHECK", "/readyz"])
def test_the_container_is_not_root_and_checks_itself(promise: str) -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert promise in text
    entry = text.split("ENTRYPOINT ", 1)[1].splitlines()[0]
    words = [word.strip('" ') for word in entry.strip("[]").split(",")]
    started(words[2:])


def test_the_files_of_the_guide_make_studies(tmp_path: Path) -> None:
    text = (DEPLOY.parent / "docs" / "studio.md").read_text(encoding="utf-8")
    blocks = [tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", text, re.S)]
    assert [block["kind"] for block in blocks] == ["elicitation", "campaign", "guard"]
    (tmp_path / "cars.csv").write_text("name,comfort,price\na,1,2\nb,2,3\nc,3,5\n")
    rows = [f"c{i},clinic {i % 2},{i}" for i in range(40)]
    (tmp_path / "scans.csv").write_text("case,clinic,size\n" + "\n".join(rows) + "\n")
    for block in blocks:
        assert kind_of(block["kind"]).read_config(block, tmp_path)
