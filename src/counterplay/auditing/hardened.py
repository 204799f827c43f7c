"""Models to deploy instead: written, then loaded in a fresh process that must decide alike."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from counterplay.auditing.findings import Action, Variant
from counterplay.core.files import write_atomic
from counterplay.core.validation import BoolArray
from counterplay.errors import CounterplayError
from counterplay.tables.model_files import model_bytes

MAIN = "hardened"
_SECONDS = 300

# What the fresh process runs: our own reader on the file, our own rows, one digest of the answers.
_CHECK = """
import sys, joblib
from counterplay.auditing.hardened import decisions_digest
from counterplay.tables.model_files import read_model
model = read_model(open(sys.argv[1], "rb").read(), what="the written model")
rows, positive = joblib.load(sys.argv[2])
assert hasattr(model, "predict_proba")
print(decisions_digest([answer == positive for answer in model.predict(rows).tolist()]))
"""


def chosen_variant(variants: Sequence[Variant], actions: Sequence[Action]) -> Variant | None:
    """Return the variant of the last credited action that is advised; None if none is."""
    advised = {action.name for action in actions if action.advised}
    offered = [v for v in variants if not v.action or v.action in advised]
    by_name = {variant.name: variant for variant in offered}
    return by_name.get(MAIN) or (offered[0] if offered else None)


def offered_variants(
    variants: Sequence[Variant], actions: Sequence[Action]
) -> list[tuple[str, Variant]]:
    """Return the variants whose action is advised, with the names of their files."""
    main = chosen_variant(variants, actions)
    if main is None:
        return []
    advised = {action.name for action in actions if action.advised}
    others = [v for v in variants if v is not main and v.action in advised]
    return [(f"{MAIN}.skops", main), *((f"{MAIN}-{v.name}.skops", v) for v in others)]


def named_files(actions: Sequence[Action], variants: Sequence[Variant]) -> tuple[Action, ...]:
    """Return actions that say which file carries them out, or that there is none."""
    files = {variant.action: name for name, variant in offered_variants(variants, actions)}
    known = {variant.action for variant in variants}
    hows = {name: f"`{files[name]}`" if name in files else "no file: not advised" for name in known}
    return tuple(msgspec.structs.replace(a, how=hows.get(a.name, a.how)) for a in actions)


def write_variant(variant: Variant, path: Path, rows: Any, positive: Any) -> None:
    """Write a model, and make sure that a fresh process reads it and decides alike.

    Parameters
    ----------
    variant
        The model with the decisions that the page states.
    path
        Where to write it.
    rows
        Rows of the table as the model takes them.
    positive
        The wanted class.
    """
    write_atomic(path, model_bytes(variant.model))
    try:
        found = _fresh_decisions(path, rows, positive)
        if found != decisions_digest(variant.accepted):
            raise CounterplayError("it decides otherwise there than on the page")
    except Exception as error:
        path.unlink(missing_ok=True)
        raise CounterplayError(
            f"{path.name} was not written: a fresh process could not use it ({error!s:.160})"
        ) from error


def decisions_digest(accepted: BoolArray | Sequence[bool]) -> str:
    """Return a digest of decisions in order."""
    return hashlib.sha256(np.asarray(accepted, dtype=np.uint8).tobytes()).hexdigest()


def _fresh_decisions(path: Path, rows: Any, positive: Any) -> str:
    import joblib

    with tempfile.TemporaryDirectory() as folder:
        held = Path(folder, "rows.joblib")
        joblib.dump((rows, positive), held)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _CHECK, str(path), str(held)],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    if done.returncode:
        raise CounterplayError(done.stderr.strip().splitlines()[-1] if done.stderr else "no answer")
    return done.stdout.strip()
