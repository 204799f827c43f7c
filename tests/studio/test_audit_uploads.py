"""Audits by upload: what is refused, the same content as the command line, workers that die."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from counterplay.studio.errors import Refused
from counterplay.studio.kinds.audit import KIND, audit_config, batches_on, checked_text, run
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from counterplay.studio.worker import work
from studio.screens import mine
from studio.studio_campaigns import HIDDEN
from studio.test_store_jobs import until, worker

if TYPE_CHECKING:
    from studio.web_house import Web

CONFIG = """
[data]
label = "paid"
positive = "yes"
[movable.income]
direction = "up"
step = 0.5
cost = 1.0
per = "step"
[effort]
budgets = [0.5, 1, 2]
unit = "days"
[costs]
false_accept = 5
false_reject = 1
unit = "euro"
[run]
time = 600.0
[gates]
require = ["accuracy >= 0.5"]
"""


def table(n: int = 110) -> bytes:
    """A credit table: numbers, words, missing values, and a label in words."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": rng.normal(size=n).round(3),
            "debt": rng.normal(size=n).round(3),
            "job": rng.choice(["none", "part", "full"], size=n),
        }
    )
    frame["paid"] = np.where(frame["income"] + 0.3 * rng.normal(size=n) > 0, "yes", "no")
    frame.loc[3, "debt"] = np.nan
    return frame.to_csv(index=False).encode()


def silent(progress: dict[str, Any]) -> bool:
    """Somebody who listens and says nothing."""
    return True


def command_line(folder: Path, content: bytes, config: str, *more: str) -> str:
    """The content hash of ``counterplay audit`` on the same files."""
    from typer.testing import CliRunner

    from counterplay.cli import app

    (folder / "loans.csv").write_bytes(content)
    (folder / "audit.toml").write_text(config)
    with contextlib.chdir(folder):
        CliRunner().invoke(
            app, ["audit", "-", "loans.csv", "--config", "audit.toml", "--out", "out", *more]
        )
    found = json.loads((folder / "out" / "audit.json").read_text())
    return str(found["content_sha256"])


@pytest.mark.claim("28.25")
def test_upload_worker_and_command_line_have_the_same_content(web: Web, tmp_path: Path) -> None:
    admin = web.admin()
    csrf = dict(HIDDEN.findall(admin.get("/admin/audits").text))["csrf"]
    files = {"table": ("loans.csv", table()), "config": ("audit.toml", CONFIG)}
    given = {"csrf": csrf, "name": "Loans", "sections": "honest"}
    sent = admin.post("/admin/audits", data=given, files=files)
    assert sent.status_code == 200
    assert "waiting" in sent.text
    study = str(sent.url).rsplit("/", 1)[1]
    job = mine(web, next(j.id for j in web.store.jobs() if j.args.get("study") == study))
    stages = []
    config = web.store.config(web.store.study(study))

    class Killed(BaseException):
        """What a worker feels when it is killed in the middle."""

    def dies(progress: dict[str, Any]) -> bool:
        stages.append(progress)
        if len(stages) == 5:
            raise Killed
        return True

    home = web.settings.data / "work" / f"audit-{study}"
    with pytest.raises(Killed):
        run(config, home, web.settings.data / "models", dies)
    assert (home / "audit.sqlite").exists()  # what it had finished is there for the next one
    result = work(web.store, job)
    assert web.store.finish(job, result)
    assert result["content_sha256"] == command_line(
        tmp_path, table(), CONFIG, "--sections", "honest"
    )
    page = admin.get(f"/admin/audits/{study}")
    assert result["content_sha256"] in page.text
    assert 'sandbox src="' in page.text
    shown = admin.get(f"/admin/audits/{study}/page")
    assert shown.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert "<title>" in shown.text
    assert "<title>" not in page.text.replace("<title>Loans", "")  # never inline
    names = re.findall(rf"/admin/audits/{study}/files/([^\"]+)", page.text)
    assert {"audit.html", "audit.json"} <= set(names)
    file = admin.get(f"/admin/audits/{study}/files/audit.json")
    assert file.headers["content-disposition"].startswith("attachment")
    for name in ("../studio.sqlite", "..%2Fstudio.sqlite", "studio.sqlite"):
        assert admin.get(f"/admin/audits/{study}/files/{name}").status_code in (404, 405)
    from counterplay.studio.exports import export_lines
    from counterplay.verify import verify

    text = "".join(export_lines(web.store, web.store.study(study)))
    found = verify(text.encode())
    assert found.holds, found.summary()
    assert any("sha256" in check.detail for check in found.checks)


@pytest.mark.skipif("COUNTERPLAY_DATA" not in os.environ, reason="needs the German credit table")
@pytest.mark.claim("28.25")
def test_german_credit_has_the_command_lines_content(tmp_path: Path) -> None:
    frame = pd.read_parquet(Path(os.environ["COUNTERPLAY_DATA"], "german_credit.parquet"))
    label = str(frame.columns[-1])
    wanted = json.dumps(str(frame[label].mode()[0]))
    settings = f'[data]\nlabel = "{label}"\npositive = {wanted}\n[run]\ntime = 3600.0\n'
    content = frame.to_csv(index=False).encode()
    files = {"table": ("loans.csv", content), "config": ("audit.toml", settings.encode())}
    config = audit_config(files, sections=["honest"])
    done = run(config, tmp_path / "work", tmp_path, silent)
    found = json.loads((done / "audit.json").read_text())["content_sha256"]
    assert found == command_line(tmp_path, content, settings, "--sections", "honest")


def handed_in(store: Store, sections: list[str]) -> tuple[str, int]:
    """An audit that waits for a worker; return its study and its job."""
    files = {"table": ("loans.csv", table()), "config": ("audit.toml", CONFIG.encode())}
    config = audit_config(files, sections=sections)
    study = store.new_study("audit", "Loans", config, actor="admin", open_now=True)
    return study.public_id, store.jobs()[0].id


def hash_of(store: Store, study: str) -> str | None:
    """The content hash that the log of an audit states."""
    finished = store.fold_now(study).state.finished
    return None if finished is None else str(finished["content_sha256"])


@pytest.mark.claim("28.25")
def test_an_audit_goes_on_when_its_worker_is_killed(tmp_path: Path) -> None:
    """Kill -9 in the middle of the stages; another worker continues with the same store."""
    settings = Settings(data=tmp_path / "s", lease=1.0)
    with Store.open(settings) as store:
        whole, first = handed_in(store, ["honest", "gaming"])
        with worker(settings):  # a process of its own: its memory is limited
            until(lambda: store.job(first).state in ("done", "failed"), 240)
        assert store.job(first).state == "done", store.job(first).error
        study, number = handed_in(store, ["honest", "gaming"])
        with worker(settings) as victim:
            until(lambda: (store.job(number).progress or {}).get("stages"), 240)
            os.killpg(victim.pid, signal.SIGKILL)
        kept = settings.data / "work" / f"audit-{study}" / "audit.sqlite"
        assert hash_of(store, study) is None
        assert kept.exists()  # what it had finished
        with worker(settings):
            until(lambda: store.job(number).state == "done", 240)
        assert store.job(number).attempt == 2
        assert hash_of(store, study) == hash_of(store, whole)


@pytest.mark.slow
@pytest.mark.claim("28.25")
def test_batches_of_an_audit_run_on_a_ray_cluster(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    begin = ["start", "--head", f"--port={address.split(':')[1]}", "--num-cpus=2",
             "--include-dashboard=false", "--disable-usage-stats"]  # fmt: skip
    subprocess.run([*ray, *begin], check=True, capture_output=True)
    try:
        with batches_on(address) as jobs:
            from joblib import Parallel, delayed

            names = Parallel(n_jobs=jobs)(delayed(process_name)() for _ in range(4))
        assert all(name.startswith("ray::") for name in names), names
        settings = Settings(data=tmp_path / "s")
        words = [sys.executable, "-m", "counterplay", "studio", "worker", "--once", "--data",
                 str(settings.data)]  # fmt: skip
        with Store.open(settings) as store:
            here, _ = handed_in(store, ["honest", "gaming"])
            subprocess.run(words, check=True)
            there, number = handed_in(store, ["honest", "gaming"])
            subprocess.run([*words, "--ray", address], check=True)
            assert store.job(number).state == "done", store.job(number).error
            assert hash_of(store, there) == hash_of(store, here)
    finally:
        subprocess.run([*ray, "stop", "--force"], check=True, capture_output=True)


def process_name() -> str:
    """What the system calls this process."""
    return Path("/proc/self/cmdline").read_text().replace("\0", " ")


def zipped() -> bytes:
    """An archive that unpacks to much more than it is."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", b"0" * 10_000_000)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("model.pkl", b"\x80\x04\x95", "Only tables"),
        ("model.csv", b"\x80\x04\x95abc", "is a pickle"),
        ("book.csv", zipped(), "is a zip archive"),
        ("table.csv", b"a,b\n1,\xff\n", "Line 2 of table.csv is not UTF-8"),
        ("table.csv", b"a,b\n1,\x00\n", "not a text file"),
        ("table.csv", b"a," * 1_000 + b"\n", "more than 500 columns"),
        ("table.csv", b"," * 1_000_000 + b"\n", "more than 500 columns"),
        ("table.csv", b"a\n" + b"1\n" * 200_002, "more than 200,000 rows"),
        ("table.csv", b"a\n" + b"1" * (20 * 2**20), "more than 20 MB"),
    ],
)
def test_uploads_are_refused_by_their_content(name: str, content: bytes, told: str) -> None:
    with pytest.raises(Refused, match=told):
        checked_text(name, content, "table")


def test_configs_are_refused_in_one_sentence(web: Web, tmp_path: Path) -> None:
    for content in (b"[data", b"x = " + b"[" * 50_000, b"a = 1\na = 2\n"):
        with pytest.raises(Refused, match=r"audit\.toml cannot be read"):
            checked_text("audit.toml", content, "config")
    (tmp_path / "t.csv").write_bytes(table())
    assert KIND.read_config({"kind": "audit", "table": "t.csv"}, tmp_path)["model"] is None
    admin = web.admin()
    csrf = dict(HIDDEN.findall(admin.get("/admin/audits").text))["csrf"]
    files = {"table": ("model.joblib", b"\x80\x04\x95")}
    before = len(web.store.studies())
    answer = admin.post("/admin/audits", data={"csrf": csrf}, files=files)
    assert answer.status_code == 422
    assert "the operator puts them into DATA/models" in answer.text
    assert len(web.store.studies()) == before
    viewer = web.admin("viewer")
    assert viewer.get("/admin/audits").status_code == 200
    assert viewer.post("/admin/audits", data={"csrf": csrf}, files=files).status_code in (403, 404)


@pytest.mark.claim("28.15")
@pytest.mark.parametrize(
    "more",
    [
        '[sites]\nfiles = ["/etc/passwd", "b.csv"]',
        '[champion]\nfile = "/etc/passwd"',
        '[offers]\nfile = "../../studio.sqlite"',
        CONFIG.replace("[effort]", '[effort]\nbefore = "/etc/hosts"\nafter = "/etc/hosts"')[1:],
    ],
)
def test_a_config_cannot_make_the_worker_read_files_of_the_server(more: str) -> None:
    config = more if "[data]" in more else CONFIG + more
    files = {"table": ("loans.csv", table()), "config": ("audit.toml", config.encode())}
    with pytest.raises(Refused, match="cannot name files") as refused:
        audit_config(files)
    assert refused.value.field == "config"


def test_reports_are_shown_in_a_sandbox(web: Web) -> None:
    folder = web.settings.data / "reports"
    folder.mkdir(exist_ok=True)
    (folder / "study.html").write_text("<script>alert(1)</script><h1>Study</h1>")
    admin = web.admin()
    page = admin.get("/admin/reports?report=study.html").text
    assert 'sandbox src="/admin/reports/study.html"' in page
    assert "<script>alert" not in page
    shown = admin.get("/admin/reports/study.html")
    assert shown.headers["content-security-policy"].startswith("sandbox;")
    assert admin.get("/admin/reports/..%2Fstudio.sqlite").status_code in (404, 405)
    assert "Study" not in web.client().get("/admin/reports/study.html").text
