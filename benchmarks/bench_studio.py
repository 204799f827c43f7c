"""The studio under load: server time of an answer, latency, a guard that is killed.

    python benchmarks/bench_studio.py [--seconds 60] [--figure load.png] [--rounds 5000]

The server is a process of its own, the participants are another, on the same cores. CPU seconds
are the server's and hardly move with the load of the machine; latencies do: read them on quiet
cores. Both databases serve 200 participants for the given seconds, fewer and more for a third of
them, and 40 who never pause. Beside the server time stands a bare Starlette endpoint that inserts
one row by sqlite3, as durably, and renders the same template.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
from ledger import compare, growth, skipped

HERE = Path(__file__).parent
SERVER = """
import os, pathlib, sys
from counterplay.studio.app import serve
from counterplay.studio.settings import Settings
many = {"requests_per_minute": 1e9, "writes_per_minute": 1e9, "write_burst": 1e9}
given = Settings(
    data=pathlib.Path(sys.argv[1]), port=0, database=os.environ.get("COUNTERPLAY_DATABASE"), **many
)
serve(given, pathlib.Path(sys.argv[2]))
"""
BARE = """
import json, os, pathlib, sqlite3, sys, threading
import uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route
from counterplay.studio.web.pages import environment
from counterplay.studio.web.texts import language
import jinja2
env = environment(); env.undefined = jinja2.Undefined
template, t = env.get_template("question.html"), language("en")
db = sqlite3.connect(sys.argv[1] + "/bare.sqlite", isolation_level=None, check_same_thread=False)
db.execute("PRAGMA journal_mode=WAL"); db.execute("PRAGMA synchronous=FULL")
db.execute("CREATE TABLE answer (id INTEGER PRIMARY KEY, said TEXT)")
class Study: public_id, name = "bare", "Bare"
row = {"name": "price", "value": "12,000", "better": False}
cards = [{"item": i, "name": f"thing {i}", "rows": [row, row]} for i in range(2)]
values = dict(t=t, path="", here="/", admin=None, study=Study, note=None, replaces=False, number=1,
              left=5, of=6, contradicts=None, again=None, opened=False, cards=cards, equal=[],
              csrf="x" * 64, key="y" * 16, seq=1, asked=1, offer_stop=False, can_undo=False)
async def start(request): return HTMLResponse('<form method="post" action="/go"></form>')
async def show(request): return HTMLResponse(template.render(**values))
async def answer(request):
    form = await request.form()
    db.execute("INSERT INTO answer (said) VALUES (?)", (form["answer"],))
    return RedirectResponse("/p/bare", 303)
async def go(request): return RedirectResponse("/p/bare", 303)
app = Starlette(routes=[Route("/j/{token}", start), Route("/p/bare", show),
                        Route("/go", go, methods=["POST"]),
                        Route("/p/bare/answer", answer, methods=["POST"])])
server = uvicorn.Server(uvicorn.Config(app, port=0, access_log=False, log_level="warning"))
def ready():
    import time
    while not server.started: time.sleep(.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    told = {"url": f"http://127.0.0.1:{port}", "pid": os.getpid()}
    pathlib.Path(sys.argv[2]).write_text(json.dumps(told))
threading.Thread(target=ready, daemon=True).start()
server.run()
"""


class Running:
    """A server in a process of its own."""

    def __init__(self, code: str, data: Path, database: str | None = None) -> None:
        ready = data / "ready.json"
        ready.unlink(missing_ok=True)
        begun = time.monotonic()
        chosen = {} if database is None else {"COUNTERPLAY_DATABASE": database}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(data), str(ready)], env={**os.environ, **chosen}
        )
        while not ready.exists() or not ready.read_text():
            if self.process.poll() is not None:
                raise RuntimeError("the server did not start")
            time.sleep(0.01)
        self.start_seconds = time.monotonic() - begun
        self.url = str(json.loads(ready.read_text())["url"])

    def cpu(self) -> float:
        """CPU seconds of the server so far."""
        parts = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()


def catalogue(folder: Path) -> dict[str, Any]:
    """Sixty things with a price and a comfort, as a study of the studio."""
    from counterplay.studio.kinds import kind_of

    rng = np.random.default_rng(1)
    angle = np.sort(rng.uniform(0.05, 1.5, 60))
    rows = [f"thing {i},{1000 * np.cos(a):.0f},{1000 * (1 - np.sin(a)):.0f}"
            for i, a in enumerate(angle)]  # fmt: skip
    (folder / "things.csv").write_text("name,comfort,price\n" + "\n".join(rows) + "\n")
    raw = {"kind": "elicitation", "name": "Things", "table": "things.csv", "name_column": "name",
           "benefits": ["comfort"], "costs": ["price"], "target_regret": 0.02}  # fmt: skip
    return kind_of("elicitation").read_config(raw, folder)


def load(running: Running, tokens: list[str], people: int, seconds: float, think: float) -> Any:
    """Let people answer; return what they saw, and the server's time of one cycle."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tokens.json")
        file.write_text(json.dumps({"tokens": tokens, "people": people}))
        before = running.cpu()
        told = subprocess.run(
            [sys.executable, str(HERE / "studio_load.py"), running.url, str(file), str(seconds),
             str(think)], capture_output=True, text=True, check=True,
        )  # fmt: skip
        found = json.loads(told.stdout)
        spent = running.cpu() - before
    if found["errors"] or not found["post"]:
        raise RuntimeError(f"{len(found['errors'])} errors in {len(found['post'])} answers")
    found["length"] = seconds
    found["cycle"] = spent / max(1, len(found["post"]))
    found["utilisation"] = spent / seconds
    return found


Curve = dict[int, Any]
STEPS = (50, 100, 200, 300)
BAR_PEOPLE, BAR_LATENCY, BAR_P99, BAR_CYCLE, THINK = 200, 0.2, 0.5, 0.008, 3.0


def answers(seconds: float, figure: Path | None) -> None:
    """Server time of a cycle against the bare endpoint; latency against participants."""
    from counterplay.studio.kinds.elicitation_engine import warm_up

    sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "tests" / "studio")]
    from postgres import running

    warm_up()  # compiled code is stored once and loaded by every server
    with tempfile.TemporaryDirectory() as name:
        curve = serve_people("SQLite", Path(name, "sqlite"), None, seconds, STEPS)
        try:
            with running() as cluster:
                steps = tuple(people for people in STEPS if people <= BAR_PEOPLE)
                url = cluster.new_database()
                serve_people("PostgreSQL", Path(name, "postgresql"), url, seconds, steps)
        except SkipTest as why:
            skipped("studio", "participants with PostgreSQL", str(why))
        bare_data = Path(name, "bare")
        bare_data.mkdir()
        bare = Running(BARE, bare_data)
        try:
            plain = load(bare, ["x"] * 1_000, 100, seconds / 3, THINK)
        finally:
            bare.kill()
    compare("studio", "server CPU of one page and one answer, 100 participants",
            curve[100]["cycle"], plain["cycle"], package="starlette", bar=0.5,
            against="bare Starlette and sqlite3, same template, no chain, session, question or "
            "proof")  # fmt: skip
    growth("studio", "server CPU a second against participants",
           {people: found["utilisation"] for people, found in curve.items()}, size="participants",
           bar=2.0 * STEPS[-1] / STEPS[0])  # fmt: skip
    if figure is not None:
        draw(curve, figure)


def serve_people(
    base: str, data: Path, database: str | None, seconds: float, steps: tuple[int, ...]
) -> Curve:
    """Let more and more people answer, then some who never pause; record what they saw."""
    from counterplay.studio.settings import Settings
    from counterplay.studio.store import Store

    data.mkdir()
    lengths = {p: seconds if p == BAR_PEOPLE else seconds / 3 for p in steps}
    wanted = {p: int(p * (2 + lengths[p] / 9)) for p in steps}
    pauseless = int(40 + 45 * seconds / 4)
    with Store.open(Settings(data=data, database=database)) as store:
        study = store.new_study(
            "elicitation", "Things", catalogue(data), actor="admin", open_now=True
        )
        made = [store.new_party(study, role="participant", label=f"p{i}")
                for i in range(10 + sum(wanted.values()) + pauseless)]  # fmt: skip
        tokens = iter([store.new_link(party) for party in made])
    server, curve = Running(SERVER, data, database), {}

    def some(n: int) -> list[str]:
        return [next(tokens) for _ in range(n)]

    try:
        load(server, some(10), 5, 3.0, 0.1)  # loads compiled code, fills caches
        for people in steps:
            curve[people] = load(server, some(wanted[people]), people, lengths[people], THINK)
        flood = load(server, some(pauseless), 40, seconds / 4, 0.0)
    finally:
        server.kill()
    told(base, curve, flood, server.start_seconds)
    return curve


def told(base: str, curve: Curve, flood: Any, start: float) -> None:
    """Write the table of one database."""
    compare("studio", f"{base}: server CPU of one page and one answer, {BAR_PEOPLE} participants",
            curve[BAR_PEOPLE]["cycle"], BAR_CYCLE, against="the bar of 8 ms (quiet cores)",
            bar=1.0, note="joining, first questions and results counted in")  # fmt: skip
    for people, found in curve.items():
        both = [*found["get"], *found["post"]]
        p50, p99 = np.quantile(both, [0.5, 0.99])
        pages, sent = (np.quantile(found[k], 0.95) for k in ("get", "post"))
        compare("studio", f"{base}: p95 latency of {people} participants, think time {THINK:g} s",
                float(max(pages, sent)), BAR_LATENCY, against="the bar of 200 ms (quiet cores)",
                bar=1.0, note=f"pages {1e3 * pages:.1f} ms, answers {1e3 * sent:.1f} ms; of both "
                f"p50 {1e3 * p50:.1f} ms, p99 {1e3 * p99:.1f} ms; {len(found['post'])} "
                f"answers, {len(found['errors'])} errors, one core used to "
                f"{100 * found['utilisation']:.0f} %, {1e3 * found['cycle']:.1f} ms CPU a cycle, "
                f"load of the machine {os.getloadavg()[0]:.1f}")  # fmt: skip
    p99 = float(np.quantile([*curve[BAR_PEOPLE]["get"], *curve[BAR_PEOPLE]["post"]], 0.99))
    compare("studio", f"{base}: p99 latency of {BAR_PEOPLE} participants", p99, BAR_P99,
            against="the bar of 500 ms (quiet cores)", bar=1.0)  # fmt: skip
    compare("studio", f"{base}: answers a second of 40 people who never pause",
            len(flood["post"]) / flood["length"], BAR_PEOPLE / THINK, more=True, unit="answers/s",
            against=f"the bar of {BAR_PEOPLE} hurried participants", bar=1.0,
            note=f"p95 {1e3 * np.quantile(flood['post'], 0.95):.0f} ms, one core used to "
            f"{100 * flood['utilisation']:.0f} %, "
            f"{1e3 * flood['cycle']:.1f} ms CPU a cycle")  # fmt: skip
    compare("studio", f"{base}: start of the server to the first answer", start, 3.0,
            against="the bar of 3 s (quiet cores)", bar=1.0)  # fmt: skip


def draw(curve: Curve, figure: Path) -> None:
    """Latency against participants, with the line of theory: service time over idle share."""
    import matplotlib.pyplot as plt

    from counterplay.core.figures import THEORY, figure_style

    with figure_style():
        fig, axes = plt.subplots(figsize=(6.4, 4.0))
        people = np.array(list(curve))
        for q, name in ((0.5, "median"), (0.95, "95th percentile")):
            values = [1e3 * np.quantile([*f["get"], *f["post"]], q) for f in curve.values()]
            axes.plot(people, values, "o-", label=name)
        c = float(np.median([f["cycle"] for f in curve.values()]))
        grid = np.linspace(people[0], people[-1], 100)
        used = np.clip(c * grid / THINK, 0.0, 0.98)
        axes.plot(grid, 1e3 * c / 2 / (1 - used), label="theory: c/2 / (1 - cP/Z)", **THEORY)
        axes.axhline(200, color="0.6", linewidth=1)
        axes.set(xlabel="participants (think time 3 s)", ylabel="latency (ms)", ylim=(0, None))
        axes.legend()
        fig.savefig(figure, dpi=150, bbox_inches="tight")


def guard(rounds: int, kills: int = 5) -> None:
    """Decisions over HTTP: late, repeated and batched outcomes, kills; against the library."""
    import http.client

    sys.path.insert(0, str(HERE.parent / "tests"))
    from counterplay.studio.settings import Settings
    from counterplay.studio.store import Store
    from studio.guards import Service, guard_config

    config = guard_config(horizon=max(rounds, 400))
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        with Store.open(Settings(data=data)) as store:
            study = store.new_study("guard", "Loans", config, actor="admin", open_now=True)
            token = store.new_token(study, ["serve", "report"])
        path, spent = f"/api/guard/{study.public_id}", 0.0
        head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        running = Running(SERVER, data)

        def ask(method: str, place: str, body: Any = None) -> Any:
            sent = None if body is None else json.dumps(body)
            line.request(method, path + place, sent, head)
            answer = line.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise RuntimeError(text.decode())
            return json.loads(text)

        line = http.client.HTTPConnection(running.url.removeprefix("http://"))
        service, differ = Service(config), 0
        stops = {rounds * (i + 1) // (kills + 1) for i in range(kills)}
        for number in range(rounds - 1):
            told = ask("GET", "/serve")  # no model is left: the safe one is named apart
            differ += (told["model"] or told["fallback"]) != service.model
            batch = service.outcomes()
            ask("POST", "/outcomes", [*batch, *batch[:2]])
            service.hear(batch)
            if number in stops:
                spent += running.cpu()
                running.kill()
                running = Running(SERVER, data)
                line = http.client.HTTPConnection(running.url.removeprefix("http://"))
            ask("POST", "/decisions", {"after": number})
            service.next_round()
        spent += running.cpu()
        running.kill()
    compare("studio", f"decisions of the guard that differ, {rounds} rounds, {kills} kills",
            float(differ), 0.0, against="the library's own run", unit="decisions")  # fmt: skip
    compare("studio", "server CPU of a round: ask, report, end", spent / rounds, 0.01,
            against="the bar of 10 ms", bar=1.0)  # fmt: skip


def main() -> None:
    """Record the comparisons."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=5_000)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--only", choices=["answers", "guard"])
    chosen = parser.parse_args()
    if chosen.only != "guard":
        answers(chosen.seconds, chosen.figure)
    if chosen.only != "answers":
        guard(chosen.rounds)


if __name__ == "__main__":
    main()
