"""The client of a guard: never in the way of the service that uses it. Standard library only.

``serve`` answers always: from the server, from the last answer while it is young enough, or with
the safe model. ``report`` keeps outcomes in a file until the server has them, and sends them again
with the same ids, so that each counts once.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_MOST = 1_000
_LARGEST = 2**19  # bytes of a batch; the server takes twice as many
_LARGEST_ANSWER = 2**20
_RETRY = 5.0  # seconds without a request after one that failed


@dataclass(frozen=True)
class Served:
    """Who is live. ``source`` says how this is known; ``decision`` names the round to report.

    Examples
    --------
    >>> Served("v1", None, "safe").source
    'safe'
    """

    model: str
    decision: int | None
    source: Literal["server", "cache", "safe"]
    reason: str = ""


class GuardClient:
    """Ask a guard of the studio which model is live, and report what came of it.

    Parameters
    ----------
    url:
        Address of the guard, such as ``https://studio.example.org/api/guard/0123456789abcdef``.
    token:
        Its bearer token.
    safe_model:
        What is served when nothing newer than ``max_age`` is known.
    max_age:
        Seconds for which the last answer may be used while the server is away.
    spool:
        File that keeps outcomes until the server has them; one per process.
    timeout:
        Seconds for which the server may be silent, and in which its answer must be complete.

    Examples
    --------
    >>> client = GuardClient("http://127.0.0.1:9/api/guard/x", "no token", "v1", timeout=0.2)
    >>> client.serve().model  # nobody is there: the safe model, never an exception
    'v1'

    References
    ----------
    docs/studio.md; "The guard", see docs/theory/28-studio.md.
    """

    def __init__(
        self,
        url: str,
        token: str,
        safe_model: str,
        max_age: float = 300.0,
        *,
        spool: str | os.PathLike[str] | None = None,
        timeout: float = 2.0,
    ) -> None:
        self.url, self.safe_model, self.max_age = url.rstrip("/"), safe_model, float(max_age)
        self.timeout = timeout
        self.rejected: list[tuple[dict[str, Any], str]] = []
        """Outcomes that the server refused, with its sentence, or that are no outcomes."""
        self._token = token
        self._spool = None if spool is None else Path(spool)
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._open = urllib.request.build_opener(_Stay).open
        self._last: tuple[float, dict[str, Any]] | None = None
        self._tag, self._away_until = "", 0.0
        self._waiting: list[dict[str, Any]] = self._read_spool()
        if self._waiting:
            self._write_spool()  # without a line that a crash cut

    def serve(self) -> Served:
        """Return who is live; never raises."""
        headers = {"If-None-Match": self._tag} if self._tag else {}
        status, told, tag = self._request("GET", "/serve", None, headers)
        with self._lock:
            if status == 304 and self._last is not None:
                self._last = (self._clock(), self._last[1])
            elif status == 200 and _says_who(told):
                self._last, self._tag = (self._clock(), told), tag
            else:
                status = 0
        return self._served(fresh=status != 0)

    def decide(self) -> Served:
        """End the present round and return who is live in the next one; never raises.

        While the server is away the round goes on: the same answer as :meth:`serve`.
        """
        known = self.serve()
        if known.decision is None or known.source != "server":
            return known
        status, told, _ = self._request("POST", "/decisions", {"after": known.decision})
        if status != 200 or not _says_who(told):
            return known
        with self._lock:
            self._last, self._tag = (self._clock(), told), ""
        return self._served(fresh=True)

    def report(self, outcomes: Mapping[str, Any] | Iterable[Mapping[str, Any]] = ()) -> int:
        """Report outcomes; return how many are not with the server yet. Never raises.

        Each is ``{decision, model, primary, secondary}`` or ``{decision, model, missing: True}``;
        an ``id`` is made where there is none. Without arguments: send what waits. What can never
        be sent, such as a loss that is not a number, is put into ``rejected``.
        """
        new = self._readable(outcomes)
        with self._sending:
            self._waiting += new
            self._append_spool(new)
            before = len(self._waiting)
            while self._waiting:
                batch = self._batch()
                status, told, _ = self._request("POST", "/outcomes", batch)
                if status == 200 and isinstance(told, dict) and "stored" in told:
                    self._waiting = self._waiting[len(batch) :]
                elif status not in (413, 422) or not self._set_aside(batch, told):
                    break
            if len(self._waiting) < before:
                self._write_spool()
            return len(self._waiting)

    @property
    def waiting(self) -> int:
        """Outcomes that the server does not have yet."""
        return len(self._waiting)

    def _served(self, *, fresh: bool) -> Served:
        with self._lock:
            last = self._last
        if last is None or (not fresh and self._clock() - last[0] > self.max_age):
            return Served(self.safe_model, None, "safe", "the guard cannot be reached")
        told = last[1]
        model, number = told["model"] or told["fallback"], told["decision"]
        source: Literal["server", "cache"] = "server" if fresh else "cache"
        return Served(model, number, source, str(told.get("reason", "")))

    def _readable(self, outcomes: Any) -> list[dict[str, Any]]:
        """Outcomes as plain JSON, each with an id; others are set aside with a sentence."""
        found = []
        try:
            given = [outcomes] if isinstance(outcomes, Mapping) else list(outcomes)
        except Exception as error:  # whatever was given, the service must go on
            self.rejected.append(({"given": repr(outcomes)[:200]}, str(error)))
            return []
        for outcome in given:
            try:
                whole = {"id": uuid.uuid4().hex, **outcome}
                text = json.dumps(whole, allow_nan=False, default=_scalar)
                found.append(json.loads(text))
            except Exception as error:
                known = isinstance(outcome, dict)
                told = dict(outcome) if known else {"given": repr(outcome)[:200]}
                self.rejected.append((told, str(error)))
        return found

    def _batch(self) -> list[dict[str, Any]]:
        """What is sent at once: at least one outcome, and no more than the server takes."""
        size = 0
        batch: list[dict[str, Any]] = []
        for outcome in self._waiting[:_MOST]:
            size += len(json.dumps(outcome)) + 2
            if batch and size > _LARGEST:
                break
            batch.append(outcome)
        return batch

    def _set_aside(self, batch: list[dict[str, Any]], told: Any) -> bool:
        """Take the outcome that the server refused out of the queue; True if there was one."""
        field = str(told.get("field") or "") if isinstance(told, dict) else ""
        place = 0 if len(batch) == 1 else int(field[1:-1]) if field[1:-1].isdigit() else -1
        if not 0 <= place < len(batch):
            return False
        said = told.get("error") if isinstance(told, dict) else None
        self.rejected.append((batch[place], str(said or "the server refused it")))
        del self._waiting[place]
        return True

    def _request(
        self, method: str, path: str, body: Any, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any, str]:
        """Return status, JSON and ETag; status 0 if nobody answered."""
        if self._clock() < self._away_until:
            return 0, None, ""
        try:
            data = None if body is None else json.dumps(body, allow_nan=False).encode()
            request = urllib.request.Request(f"{self.url}{path}", data, method=method)
            request.add_header("Authorization", f"Bearer {self._token}")
            request.add_header("Content-Type", "application/json")
            for name, value in (headers or {}).items():
                request.add_header(name, value)
            with self._open(request, timeout=self.timeout) as answer:
                tag = answer.headers.get("ETag") or ""
                return int(answer.status), self._read(answer), tag
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                self._away_until = self._clock() + _RETRY
            with contextlib.suppress(Exception):
                return error.code, self._read(error), ""
            return error.code, None, ""
        except Exception:  # whatever happens here, the service must go on
            self._away_until = self._clock() + _RETRY
            return 0, None, ""

    def _read(self, answer: Any) -> Any:
        """The JSON of an answer that is neither too long nor too slow."""
        parts, size, until = [], 0, time.monotonic() + self.timeout
        while part := answer.read1(2**16):
            parts.append(part)
            size += len(part)
            if size > _LARGEST_ANSWER or time.monotonic() > until:
                raise ValueError("the answer is too long or too slow")
        return json.loads(b"".join(parts) or b"null")

    @staticmethod
    def _clock() -> float:
        return time.monotonic()

    def _read_spool(self) -> list[dict[str, Any]]:
        found = []
        with contextlib.suppress(OSError):
            if self._spool is not None and self._spool.exists():
                for line in self._spool.read_bytes().splitlines():
                    with contextlib.suppress(ValueError):  # a line that a crash cut
                        item = json.loads(line)
                        if isinstance(item, dict):
                            found.append(item)
        return found

    def _append_spool(self, new: list[dict[str, Any]]) -> None:
        if self._spool is None or not new:
            return
        with contextlib.suppress(OSError, ValueError, TypeError):
            text = "".join(json.dumps(o, allow_nan=False) + "\n" for o in new)
            with open(self._spool, "a", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())

    def _write_spool(self) -> None:
        if self._spool is None:
            return
        with contextlib.suppress(OSError, ValueError, TypeError):
            text = "".join(json.dumps(o, allow_nan=False) + "\n" for o in self._waiting)
            beside = self._spool.with_name(self._spool.name + ".new")
            beside.write_text(text, encoding="utf-8")
            os.replace(beside, self._spool)


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: the token is for one address, and an outcome must not become a GET."""

    def redirect_request(self, *args: Any, **more: Any) -> None:
        """Go nowhere; the redirect is an answer that failed."""


def _says_who(told: Any) -> bool:
    """Whether an answer names the live model, or the fallback, and the decision."""
    if not isinstance(told, dict) or type(told.get("decision")) is not int:
        return False
    name = told.get("fallback") if told.get("model") is None else told["model"]
    return isinstance(name, str) and name != ""


def _scalar(value: Any) -> Any:
    """A number of an array library as a plain one."""
    item = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"{type(value).__name__} is no number")
    return item()
