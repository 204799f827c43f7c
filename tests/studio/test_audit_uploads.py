"""Audits by upload: what is refused, the same content as the command line, workers that die."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from counterplay.errors import InvalidInputError
from counterplay.studio.errors import Refused
from counterplay.studio.kinds.audit import KIND, audit_config, batches_on, checked_text, run
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from counterplay.studio.worker import work
from studio.screens import mine
from studio.studio_campaigns import HIDDEN
from studio.test_store_jobs import until, worker
from studio.web_house import Web

CONFIG = """
confirmed = true
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
require = ["honest_accuracy >= 0.5"]
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


def command_line(
    folder: Path, content: bytes, config: str, *more: str, model: str = "-"
) -> dict[str, Any]:
    """What ``counterplay audit`` finds on the same files; no gate fails, no section either."""
    from typer.testing import CliRunner

    from counterplay.cli import app

    (folder / "loans.csv").write_bytes(content)
    (folder / "audit.toml").write_text(config)
    with contextlib.chdir(folder):
        told = CliRunner().invoke(
            app, ["audit", model, "loans.csv", "--config", "audit.toml", "--out", "out", *more]
        )
    assert told.exit_code == 0, told.output
    found: dict[str, Any] = json.loads((folder / "out" / "audit.json").read_text())
    return found


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
    told = command_line(tmp_path, table(), CONFIG, "--sections", "honest")
    assert result["content_sha256"] == told["content_sha256"]
    page = admin.get(f"/admin/audits/{study}")
    verdicts = re.findall(r'class="state( open| failed|)">[^<]+</span> <code>([^<]+)', page.text)
    assert verdicts == [(" open", "honest_accuracy &gt;= 0.5")]  # the colour of a gate that passes
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


REFUSE = """
CREATE TRIGGER again BEFORE INSERT ON item
WHEN EXISTS (SELECT 1 FROM item WHERE key = NEW.key AND stage = NEW.stage AND item = NEW.item)
BEGIN SELECT RAISE(ABORT, 'this was stored before'); END;
"""
BAR = re.compile(r'<progress value="(\d+)" max="(\d+)"')


def only_new_items(path: Path) -> set[str]:
    """Make the store of an audit refuse what it has; return the stages that it has."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as kept:
        kept.executescript(REFUSE)
        with pytest.raises(sqlite3.IntegrityError, match="stored before"):
            kept.execute("INSERT OR REPLACE INTO item SELECT * FROM item LIMIT 1")
        return {stage for (stage,) in kept.execute("SELECT DISTINCT stage FROM item")}


def killed_and_continued(
    web: Web, content: bytes, config: str, sections: str, model: str = ""
) -> dict[str, Any]:
    """Hand in an audit, kill -9 its worker after a stage, let another end it; return the record.

    From the kill on the store refuses items that it has: an audit that computed one of them again
    could not keep it, and its job would fail.
    """
    admin = web.admin()
    given = {"csrf": dict(HIDDEN.findall(admin.get("/admin/audits").text))["csrf"],
             "sections": sections, "model": model}  # fmt: skip
    files = {"table": ("loans.csv", content), "config": ("audit.toml", config)}
    sent = admin.post("/admin/audits", data=given, files=files)
    assert sent.status_code == 200, sent.text
    address = str(sent.url)
    home = web.settings.data / "work" / f"audit-{address.rsplit('/', 1)[1]}"
    number = web.store.jobs()[0].id

    def a_stage_is_done() -> bool:
        job = web.store.job(number)
        assert job.error is None, job.error
        return any(done == of for done, of in BAR.findall(admin.get(address).text))

    with worker(web.settings) as victim:
        until(a_stage_is_done, 600)
        os.killpg(victim.pid, signal.SIGKILL)
    assert web.store.job(number).state == "running"  # nobody told that it ended
    assert admin.get(f"{address}/page").status_code == 404
    stored = only_new_items(home / "audit.sqlite")
    with worker(web.settings):
        until(lambda: web.store.job(number).state in ("done", "failed"), 3_000)
    job = web.store.job(number)
    assert (job.state, job.attempt) == ("done", 2), job.error
    saved = admin.get(f"{address}/files/audit.json")
    record: dict[str, Any] = json.loads(saved.text)
    assert record["content_sha256"] in admin.get(address).text
    assert stored < {name.partition(".")[2] for name in record["plan"]}  # some were still to come
    return record


def fitted_file(folder: Path, content: bytes) -> str:
    """Put a model into the operator's folder; return its name."""
    import skops.io
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.read_csv(io.BytesIO(content))
    columns = make_column_transformer(
        (OneHotEncoder(), ["job"]), (SimpleImputer(), ["income", "debt"])
    )
    model = make_pipeline(columns, LogisticRegression()).fit(frame.drop(columns="paid"), frame.paid)
    folder.mkdir(exist_ok=True)
    skops.io.dump(model, folder / "loans.skops")
    return "loans.skops"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Web]:
    """A studio whose workers are given up after a second of silence."""
    house = Web(tmp_path / "own", lease=1.0)
    yield house
    house.close()


@pytest.mark.claim("28.25")
def test_an_audit_goes_on_when_its_worker_is_killed(own: Web, tmp_path: Path) -> None:
    models, names = own.settings.data / "models", ["honest", "planted", "symmetry"]
    model = fitted_file(models, table())
    found = killed_and_continued(own, table(), CONFIG, ",".join(names), model)
    assert [section["name"] for section in found["sections"]] == names
    assert [gate["verdict"] for gate in found["gates"]] == ["pass"]
    told = command_line(
        tmp_path, table(), CONFIG, "--sections", ",".join(names), model=str(models / model)
    )
    assert found["content_sha256"] == told["content_sha256"]


@pytest.mark.slow
@pytest.mark.skipif("COUNTERPLAY_DATA" not in os.environ, reason="needs the German credit table")
@pytest.mark.claim("28.25")
def test_german_credit_goes_on_when_its_worker_is_killed(own: Web, tmp_path: Path) -> None:
    """All sections that have their inputs."""
    frame = pd.read_parquet(Path(os.environ["COUNTERPLAY_DATA"], "german_credit.parquet"))
    label = str(frame.columns[-1])
    wanted = json.dumps(str(frame[label].mode()[0]))
    config = (
        f'confirmed = true\n[data]\nlabel = "{label}"\npositive = {wanted}\n'
        '[run]\ntime = 3600.0\n[gates]\nrequire = ["honest_accuracy >= 0.5"]\n'
    )
    content = frame.to_csv(index=False).encode()
    found = killed_and_continued(own, content, config, "")
    assert {"honest", "planted"} <= {section["name"] for section in found["sections"]}
    assert [gate["verdict"] for gate in found["gates"]] == ["pass"]
    told = command_line(tmp_path, content, config)
    assert found["content_sha256"] == told["content_sha256"]


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


def test_the_page_of_an_audit_knows_what_another_process_wrote(web: Web) -> None:
    study, number = handed_in(web.store, ["honest"])
    admin = web.admin()
    address = f"/admin/audits/{study}"
    assert "waiting" in admin.get(address).text  # its log is in the memory of the server now
    web.store._look = lambda connection: None
    with Store.open(web.settings) as other:
        job = mine(web, number)
        result = work(other, job)
        assert other.finish(job, result)
    assert result["content_sha256"] in admin.get(address).text


def test_a_page_says_why_gates_were_not_judged(web: Web) -> None:
    guessed = CONFIG.replace("confirmed = true", "confirmed = false").replace(
        'positive = "yes"', 'positive = "yes" #? yes is the more common word'
    )
    files = {"table": ("loans.csv", table()), "config": ("audit.toml", guessed.encode())}
    study = web.store.new_study(
        "audit", "Loans", audit_config(files, sections=["honest"]), actor="admin", open_now=True
    ).public_id
    job = mine(web, next(j.id for j in web.store.jobs() if j.args.get("study") == study))
    assert web.store.finish(job, work(web.store, job))
    page = web.admin().get(f"/admin/audits/{study}").text
    assert "guesses that nobody confirmed, so the gates were not evaluated" in page
    assert "honest_accuracy" not in page


class Foreign:
    """A type that no list knows."""


def foreign() -> bytes:
    """A skops file that names a type of these tests."""
    import skops.io

    data: bytes = skops.io.dumps({"model": Foreign()})
    return data


def post_model(web: Web, name: str, content: bytes, **more: str) -> Any:
    """Hand in a table with a model."""
    admin = web.admin()
    csrf = dict(HIDDEN.findall(admin.get("/admin/audits").text))["csrf"]
    files = {"table": ("loans.csv", table()), "config": ("audit.toml", CONFIG),
             "model_file": (name, content)}  # fmt: skip
    return admin.post(
        "/admin/audits", data={"csrf": csrf, "sections": "honest", **more}, files=files
    )


@pytest.mark.claim("28.15")
def test_models_are_refused_unless_the_operator_allows_them(web: Web, tmp_path: Path) -> None:
    fitted_file(tmp_path, table())
    content = (tmp_path / "loans.skops").read_bytes()
    before = len(web.store.studies())
    answer = post_model(web, "loans.skops", content)
    assert answer.status_code == 422
    assert "the operator puts them into DATA/models" in answer.text
    assert 'name="model_file"' not in web.admin().get("/admin/audits").text
    assert len(web.store.studies()) == before


@pytest.mark.claim("28.15")
def test_an_owner_hands_in_a_model(tmp_path: Path) -> None:
    house = Web(tmp_path / "open", allow_model_upload=True)
    try:
        name = fitted_file(tmp_path, table())
        content = (tmp_path / name).read_bytes()
        assert 'name="model_file"' in house.admin().get("/admin/audits").text
        for given, data, told in [
            ("model.pkl", b"\x80\x04\x95", "a pickle runs code"),
            ("model.skops", b"\x80\x04\x95", "is not a skops file"),
            ("model.skops", zipped(), "unpacks to"),
            ("model.skops", foreign(), "Foreign, which is not on the trusted list"),
            ("model.onnx", content, "is not an ONNX file"),
            ("model.onnx", b"\x08\x08", "is not an ONNX file"),
        ]:
            answer = post_model(house, given, data)
            assert answer.status_code == 422, given
            assert told in answer.text, answer.text
            assert 'aria-invalid="true"' in answer.text
        (house.settings.data / "models").mkdir(exist_ok=True)
        (house.settings.data / "models" / "own.skops").write_bytes(content)
        both = post_model(house, name, content, model="own.skops")
        assert both.status_code == 422
        assert "not both" in both.text
        assert house.store.studies() == []
        sent = post_model(house, name, content)
        assert sent.status_code == 200, sent.text
        study = house.store.study(str(sent.url).rsplit("/", 1)[1])
        job = mine(house, house.store.jobs()[0].id)
        closed = Settings(data=house.settings.data)
        with Store.open(closed) as other, pytest.raises(InvalidInputError, match="--allow-model"):
            work(other, job)
        result = work(house.store, job)
        same = command_line(
            tmp_path, table(), CONFIG, "--sections", "honest", model=str(tmp_path / name)
        )
        assert result["content_sha256"] == same["content_sha256"]
        config = house.store.config(study)
        config["files"]["model"]["base64"] = base64.b64encode(foreign()).decode()
        with pytest.raises(Refused, match="not on the trusted list"):  # as if it were imported
            run(config, tmp_path / "home", tmp_path, silent, uploads=True)
    finally:
        house.close()


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
