"""The studio as it grows: restart of long studies, many listeners, memory, size of the install.

    python benchmarks/bench_studio_scale.py [--answers 10000] [--only replay]

A restart folds the log of a study again; its CPU time is measured against the number of answers.
Memory is that of a server that nobody uses, before and after the compiled question rule was
loaded. The size of the install is counted from the metadata of what is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from bench_studio import HERE, SERVER, Running
from ledger import compare, growth

sys.path.insert(0, str(HERE.parent / "tests"))
MOST_PACKAGES, MOST_BYTES = 16, 80e6
WARM = """
import counterplay.studio.app, counterplay.studio.kinds.elicitation
from pathlib import Path
def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
before = resident()
from counterplay.studio.kinds.elicitation_engine import warm_up
warm_up()
print(before, resident())
"""


def guard_stream(answers: int) -> Any:
    """A guard with so many outcomes."""
    from counterplay.studio.kinds import kind_of
    from studio.guards import Service, guard_config
    from studio.kind_driver import Stream

    config = guard_config(horizon=answers + 10)
    service, stream = Service(config), Stream(kind_of("guard"), config)
    stream.add("study.opened", {})
    for number in range(answers):
        batch = service.outcomes()
        for told in batch:
            stream.add("guard.outcome", told, actor="service", key=f"outcome:{told['id']}")
        service.hear(batch)
        ended = {"after": service.now.id}
        stream.add("guard.ended", ended, actor="service", key=f"ended:{number}")
        service.next_round()
    return stream


def campaign_stream(answers: int) -> Any:
    """A campaign whose labels cannot be learnt, so that nearly every item is asked."""
    from counterplay.studio.kinds import kind_of
    from studio.kind_driver import Stream
    from studio.studio_campaigns import campaign_config, label_all

    with tempfile.TemporaryDirectory() as folder:
        config, truth = campaign_config(Path(folder), answers, max_error=0.05)
    noise = np.random.default_rng(0).random(len(truth)) < 0.3
    stream = Stream(kind_of("campaign"), config)
    stream.add("study.opened", {})
    label_all(stream, np.where(noise, 1 - truth, truth))
    return stream


def replay(answers: int) -> None:
    """CPU of folding a log again, against its answers."""
    kinds: dict[str, tuple[Callable[[int], Any], float]] = {
        "guard": (guard_stream, 0.2e-3),
        "campaign": (campaign_stream, 1e-3),  # 5,000 answers in 5 s; its learner is fitted again
    }
    for name, (make, most) in kinds.items():
        points = {}
        for n in (100, 1_000, 10_000):
            if n > answers:
                continue
            stream = make(n)
            begun = time.process_time()
            stream.replayed()
            points[n] = time.process_time() - begun
        growth("studio", f"CPU of folding the log of a {name} again", points, size="answers",
               bar=most * max(points))  # fmt: skip


def listeners(n: int = 200) -> None:
    """How long until everybody who looks at a study has heard of a change."""
    from counterplay.studio.settings import Settings
    from counterplay.studio.store import Store
    from studio.guards import guard_config

    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        with Store.open(Settings(data=data)) as store:
            study = store.new_study("guard", "Loans", guard_config(), actor="a", open_now=True)
            token = store.new_token(study, ["serve", "report"])
            secret = store.new_session(admin=store.new_admin("ann", password=None, role="owner"))
        running = Running(SERVER, data)
        try:
            took = asyncio.run(_listen(running.url, study.public_id, secret, token, n))
        finally:
            running.kill()
    compare("studio", f"one change until the last of {n} listeners has heard of it", took, 1.0,
            against="the bar of 1 s (quiet cores)", bar=1.0)  # fmt: skip


async def _listen(url: str, study: str, secret: str, token: str, n: int) -> float:
    host, port = url.removeprefix("http://").split(":")
    path = f"/admin/studies/{study}/live"
    head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: cp_admin={secret}\r\n\r\n"

    async def told(reader: asyncio.StreamReader) -> float:
        while not (await reader.readline()).startswith(b"data:"):
            pass
        return time.monotonic()

    pairs = []
    for _ in range(n):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.encode())
        await told(reader)
        pairs.append((reader, writer))
    _, writer = await asyncio.open_connection(host, int(port))
    body = '{"after": 0}'
    writer.write(
        f"POST /api/guard/{study}/decisions HTTP/1.1\r\nHost: {host}\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    begun = time.monotonic()
    heard = await asyncio.wait_for(asyncio.gather(*(told(reader) for reader, _ in pairs)), 30)
    return max(heard) - begun


def memory() -> None:
    """Memory of a server that nobody uses."""
    done = subprocess.run([sys.executable, "-c", WARM], capture_output=True, text=True, check=True)
    imported, warm = map(float, done.stdout.split())
    compare("studio", "idle memory with the elicitation area imported", imported, 250.0,
            against="the bar of 250 MB", unit="MB", bar=1.0,
            note=f"{warm:.0f} MB once the compiled question rule has run")  # fmt: skip


def needed(name: str, extra: str | None = None) -> set[str]:
    """Names of the distributions that one of them needs here, itself included."""
    found: set[tuple[str, str | None]] = set()
    waiting = [(name, extra)]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        for text in metadata.requires(one[0]) or ():
            from packaging.requirements import Requirement

            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": one[1] or ""}):
                waiting += [(_plain(wanted.name), part) for part in (None, *wanted.extras)]
    return {_plain(package) for package, _ in found}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def size(name: str) -> int:
    """Bytes that a distribution takes on the disk."""
    found = metadata.distribution(name)
    files = [Path(str(found.locate_file(file))) for file in found.files or ()]
    return sum(file.stat().st_size for file in files if file.suffix != ".pyc" and file.exists())


def install() -> None:
    """Packages that the studio adds to the base install, and what they take."""
    added = sorted(needed("counterplay", "studio") - needed("counterplay"))
    total = sum(size(name) for name in added)
    compare("studio", "packages on top of the base install", float(len(added)),
            float(MOST_PACKAGES), against="the bar of 16", unit="packages", bar=1.0,
            note=", ".join(added))  # fmt: skip
    compare("studio", "bytes on top of the base install", total / 1e6, MOST_BYTES / 1e6,
            against="the bar of 80 MB", unit="MB", bar=1.0)  # fmt: skip


def main() -> None:
    """Record the comparisons."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--answers", type=int, default=10_000)
    parser.add_argument("--only", choices=["replay", "listeners", "memory", "install"])
    chosen = parser.parse_args()
    parts = {"replay": lambda: replay(chosen.answers), "listeners": listeners, "memory": memory,
             "install": install}  # fmt: skip
    for name, run in parts.items():
        if chosen.only in (None, name):
            run()


if __name__ == "__main__":
    main()
