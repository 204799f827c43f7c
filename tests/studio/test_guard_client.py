"""The client of a guard against servers that are dead, slow, wrong or lying."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.studio.client import GuardClient

LIVE = {"model": "v7", "decision": 4, "valid_for_s": 60, "reason": "drawn"}
OUTCOME = {"decision": 4, "model": "v7", "primary": 0.2, "secondary": 0.0}
Answer = Callable[[http.server.BaseHTTPRequestHandler, bytes], None]


class Liar:
    """A server that does whatever its ``answer`` says; it keeps what was asked of it."""

    def __init__(self) -> None:
        self.answer: Answer = told(LIVE)
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                liar.asked.append((self.command, self.path, dict(self.headers), body))
                liar.answer(self, body)

            do_GET = do_POST = _any

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def liar() -> Iterator[Liar]:
    server = Liar()
    yield server
    server.server.shutdown()
    server.server.server_close()


def said(
    handler: http.server.BaseHTTPRequestHandler, status: int, body: bytes, **more: str
) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **more}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def told(value: Any, status: int = 200) -> Answer:
    """Always the same answer, as JSON."""
    return lambda handler, _: said(handler, status, json.dumps(value).encode())


OUTLASTED: list[str] = []
"""Answers without an end to which somebody listened all the while."""


def drip(handler: http.server.BaseHTTPRequestHandler, _: bytes) -> None:
    """One byte now and then, without end."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    try:
        for _byte in range(300):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)
        OUTLASTED.append("drip")
    except OSError:
        return


def flood(handler: http.server.BaseHTTPRequestHandler, _: bytes) -> None:
    """An answer far too long."""
    handler.send_response(200)
    handler.end_headers()
    try:
        for _block in range(1_000):
            handler.wfile.write(b"9" * 2**16)
        OUTLASTED.append("flood")
    except OSError:
        return


@pytest.mark.claim("28.14")
@pytest.mark.parametrize(
    "answer",
    [
        told(None), told([]), told("v9"), told({}), told({"model": "v9"}), told({"decision": 9}),
        told({"model": ["v9"], "decision": 9}), told({"model": 9, "decision": 9}),
        told({"model": "", "decision": 9}), told({"model": "v9", "decision": "9"}),
        told({"model": "v9", "decision": True}), told({"model": None, "decision": 9}),
        told(LIVE | {"model": "v9"}, 500), told(LIVE | {"model": "v9"}, 401), drip, flood,
        lambda handler, _: said(handler, 200, b'{"model": "v9", '),
        lambda handler, _: said(handler, 200, b"\xff\xfe\x00"),
        lambda handler, _: said(handler, 200, b"[" * 100_000),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_no_answer(
    liar: Liar, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be understood never becomes a model, and never makes an old answer fresh."""
    clock = [0.0]
    client = GuardClient(liar.url, "secret", "v1", max_age=300, timeout=0.3)
    monkeypatch.setattr(GuardClient, "_clock", staticmethod(lambda: clock[0]))
    assert (client.serve().model, client.serve().source) == ("v7", "server")
    liar.answer = answer
    clock[0] = 10.0
    cached = client.serve()
    assert (cached.model, cached.decision, cached.source) == ("v7", 4, "cache")
    assert not OUTLASTED
    clock[0] = 400.0
    assert (client.serve().model, client.serve().source) == ("v1", "safe")
    clock[0] = 500.0
    assert client.report(OUTCOME) == 1  # nobody said that it was stored


@pytest.mark.claim("28.14")
def test_no_redirect_takes_the_token_along(liar: Liar) -> None:
    elsewhere = Liar()
    try:
        liar.answer = lambda handler, _: said(handler, 302, b"", Location=elsewhere.url)
        client = GuardClient(liar.url, "secret", "v1", timeout=1.0)
        assert client.serve().source == "safe"
        assert client.report(OUTCOME) == 1
        assert elsewhere.asked == []
    finally:
        elsewhere.server.shutdown()
        elsewhere.server.server_close()


def stored(handler: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
    said(handler, 200, json.dumps({"stored": len(json.loads(body)), "repeated": 0}).encode())


@pytest.mark.claim("28.14")
def test_what_can_never_be_sent_is_in_nobodys_way(liar: Liar, tmp_path: Path) -> None:
    """A loss that is not a number is set aside; the outcomes after it arrive, once."""
    spool = tmp_path / "spool"
    client = GuardClient(liar.url, "secret", "v1", spool=spool, timeout=1.0)
    liar.answer = stored
    bad: list[Any] = [
        OUTCOME | {"primary": float("nan")}, OUTCOME | {"model": object()}, None, 5, ["x"],
    ]  # fmt: skip
    good = {**OUTCOME, "primary": np.float32(0.25), "decision": np.int64(4)}
    assert client.report([*bad, good]) == 0
    assert client.report(7) == 0  # type: ignore[arg-type]  # never raises
    assert len(client.rejected) == len(bad) + 1
    sent = [one for _, _, _, body in liar.asked for one in json.loads(body)]
    assert [(one["decision"], one["primary"]) for one in sent] == [(4, 0.25)]
    assert spool.read_text() == ""


@pytest.mark.claim("28.14")
def test_a_batch_is_no_larger_than_the_server_takes(liar: Liar) -> None:
    """With the losses of many models a thousand outcomes are more than a request may be."""
    client = GuardClient(liar.url, "secret", "v1", timeout=5.0)
    losses = {f"model {j:03}": [0.123456789, 0.987654321] for j in range(100)}
    many = [OUTCOME | {"decision": t, "all": losses} for t in range(400)]

    def strict(handler: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
        if len(body) > 2**20:
            said(handler, 413, b'{"error": "too large", "field": null}')
        else:
            stored(handler, body)

    liar.answer = strict
    assert client.report(many) == 0
    sent = [one["decision"] for _, _, _, body in liar.asked for one in json.loads(body)]
    assert sent == list(range(400))


@pytest.mark.claim("28.14")
def test_a_spool_that_a_crash_cut_loses_nothing_more(liar: Liar, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.write_bytes(b'{"id": "a", "decision": 1}\n\xff\n{"id": "b", "deci')
    liar.answer = told({}, 503)
    client = GuardClient(liar.url, "secret", "v1", spool=spool, timeout=1.0)
    assert client.report(OUTCOME | {"id": "c"}) == 2
    again = GuardClient(liar.url, "secret", "v1", spool=spool, timeout=1.0)
    liar.answer = stored
    assert again.report() == 0
    assert [one["id"] for one in json.loads(liar.asked[-1][3])] == ["a", "c"]


@pytest.mark.claim("28.14")
def test_a_slow_report_does_not_hold_up_who_is_live(liar: Liar) -> None:
    begun, served = threading.Event(), threading.Event()

    def slow(handler: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
        if handler.command == "POST":
            begun.set()
            if served.wait(20):
                stored(handler, body)
        else:
            said(handler, 200, json.dumps(LIVE).encode())

    liar.answer = slow
    client = GuardClient(liar.url, "secret", "v1", timeout=30.0)
    reporting = threading.Thread(target=client.report, args=(OUTCOME,))
    reporting.start()
    assert begun.wait(20)
    assert client.serve().model == "v7"
    served.set()  # a client that waits for its report is answered by nobody for 20 s
    reporting.join()
    assert client.waiting == 0
