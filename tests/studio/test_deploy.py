"""The files for operators: what they start exists, and what they promise is in them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from typer.testing import CliRunner

from counterplay.commands.studio import app
from counterplay.studio.kinds import NewEvent, kind_of
from studio.guards import guard_config

if TYPE_CHECKING:
    from studio.web_house import Web

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
    tables = re.findall(r"```csv\n(.*?)```", text, re.S)
    assert len(tables) == 1
    (tmp_path / "cars.csv").write_text(tables[0])
    rows = [f"c{i},clinic {i % 2},{i},{i % 7}" for i in range(40)]
    header = "case,clinic,size,texture"
    assert f"`{header}`" in text
    (tmp_path / "scans.csv").write_text("\n".join([header, *rows, ""]))
    for block in blocks:
        assert kind_of(block["kind"]).read_config(block, tmp_path)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for unit in [*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")]:
        text = unit.read_text().replace("/opt/counterplay/bin/counterplay", sys.executable)
        (tmp_path / unit.name).write_text(text)
    units = [str(path) for path in tmp_path.iterdir()]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in done.stderr.splitlines() if "counterplay" in line]
    assert (done.returncode, told) == (0, [])


@pytest.mark.skipif(shutil.which("caddy") is None, reason="no Caddy here")
def test_caddy_takes_its_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(shutil.which("caddy")), "adapt", "--config", str(DEPLOY / "Caddyfile"),
         "--adapter", "caddyfile"],
        capture_output=True, text=True, check=False, env={"HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"flush_interval":-1' in done.stdout
    assert '"max_size":25000000' in done.stdout


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    """Wait until somebody listens."""
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)


@contextmanager
def caddy(studio: str, folder: Path) -> Iterator[str]:
    """The file of the operator, without https, and with a log of its own."""
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("no Caddy here")
    port = free_port()
    given = (DEPLOY / "Caddyfile").read_text().replace("{\n", "{\n\tadmin off\n", 1)
    given = given.replace("studio.example.org {", f"http://127.0.0.1:{port} {{")
    (folder / "Caddyfile").write_text(given.replace("127.0.0.1:8700", studio.partition("//")[2]))
    words = [program, "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    with open(folder / "stderr", "wb") as log:
        process = subprocess.Popen(words, stderr=log, env={"HOME": str(folder)}, cwd=folder)
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.parametrize("proxy", ["nginx", "caddy"])
def test_no_log_of_a_proxy_names_a_link_while_the_studio_is_down(
    proxy: str, tmp_path: Path
) -> None:
    start = {"nginx": nginx, "caddy": caddy}[proxy]
    secret = "aSecretThatNobodyMayReadInALog"
    with (
        start(f"http://127.0.0.1:{free_port()}", tmp_path) as url,
        httpx.Client(base_url=url, verify=False, timeout=10) as client,
    ):
        for place in ("j", "admin/link"):
            assert client.get(f"/{place}/{secret}").status_code == 502
            assert client.post(f"/{place}/{secret}", data={"csrf": "x"}).status_code == 502
    logs = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert logs
    assert [path.name for path in logs if secret.encode() in path.read_bytes()] == []


@contextmanager
def nginx(studio: str, folder: Path) -> Iterator[str]:
    """The file of the operator, with a certificate, ports and logs of its own."""
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        pytest.skip("no nginx here")
    key, pem = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", key, "-out", pem, "-days", "2", "-subj", "/CN=studio.example.org"],
        check=True, capture_output=True,
    )  # fmt: skip
    port = free_port()
    given = (DEPLOY / "nginx.conf").read_text()
    server = given.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    server = re.sub(r"(ssl_certificate\s+)\S+;", rf"\g<1>{pem};", server)
    server = re.sub(r"(ssl_certificate_key\s+)\S+;", rf"\g<1>{key};", server)
    server = server.replace("http://127.0.0.1:8700", studio)
    server = server.replace("/var/log/nginx/", f"{folder}/")
    folder.chmod(0o755)
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid; error_log {folder}/error.log; daemon off; master_process off;\n"
        f"events {{}}\nhttp {{ client_body_temp_path {folder}/body; proxy_temp_path {folder}/p; "
        f"fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n"
        f"{server}\n}}\n"
    )
    words = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]
    checked = subprocess.run([*words, "-t"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield f"https://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def test_nginx_passes_pages_and_live_numbers_on(web: Web, tmp_path: Path) -> None:
    guard = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    cookies = {"cp_admin": web.admin().cookies["cp_admin"]}
    with (
        nginx(web.url, tmp_path) as url,
        httpx.Client(base_url=url, verify=False, cookies=cookies, timeout=10) as client,
    ):
        page = client.get("/admin/login")
        assert page.status_code == 200
        assert page.headers["referrer-policy"] == "no-referrer"
        too_large = client.post("/admin/login", content=b"x" * (26 * 2**20))
        assert too_large.status_code == 413
        with client.stream("GET", f"/admin/studies/{guard.public_id}/live") as live:
            told = (json.loads(line[6:]) for line in live.iter_lines() if line.startswith("data:"))
            assert next(told)["rounds"] == "1"
            for number in range(2):  # each arrives while the next has not happened yet
                ended = NewEvent("guard.ended", {"after": number}, f"e{number}", "service:1")
                web.store.append_now(guard.public_id, ended, expected=None)
                assert next(told)["rounds"] == str(number + 2)
