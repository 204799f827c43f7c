"""What the kill tests start and kill: a store under load that says what was acknowledged.

``python kill_target.py SETTINGS.json appends`` lets 40 clients append without a pause and prints
the key of each event after its commit; ``race NAME COUNT STREAM`` appends COUNT numbers to one
stream, whatever others do.
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import tally_kind

from counterplay.studio.errors import StudioError
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store

CLIENTS = 40


async def client(store: Store, stream: str) -> None:
    while True:
        key = uuid.uuid4().hex
        try:
            await store.append(stream, tally_kind.added(1, key), expected=None)
        except StudioError as error:
            print(f"error {type(error).__name__}", flush=True)
            await asyncio.sleep(0.05)
        else:
            sys.stdout.write(f"{stream} {key}\n")
            sys.stdout.flush()


async def load(store: Store, streams: list[str]) -> None:
    await asyncio.gather(*(client(store, stream) for stream in streams))


def main() -> None:
    settings = Settings(**json.loads(Path(sys.argv[1]).read_text()))
    tally_kind.use()
    if sys.argv[2] == "race":
        with Store.open(settings) as store:
            name, count, stream = sys.argv[3], int(sys.argv[4]), sys.argv[5]
            print("ready", flush=True)
            sys.stdin.readline()
            for i in range(count):
                store.append_now(stream, tally_kind.added(i, f"{name}:{i}"), expected=None)
        return
    with Store.open(settings, server=True) as store:
        study = store.studies()[0]
        streams = [party.public_id for party in store.parties(study)]
        print("ready", flush=True)
        asyncio.run(load(store, streams))


if __name__ == "__main__":
    main()
