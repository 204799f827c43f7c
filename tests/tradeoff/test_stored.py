"""Stored states that come back damaged are refused before compiled code sees them."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from counterplay.errors import AssumptionWarning, InvalidStateError
from counterplay.tradeoff import (
    ChampionChallenger,
    CusumOracle,
    DeactivationLearner,
    EpochLearner,
    HarmBudget,
    ReactivationLearner,
)
from counterplay.tradeoff.champion_state import digest_of
from counterplay.tradeoff.lab import AdaNormalHedge, Losses, RestartOnDeactivation

WRONG = ("false", None, -1, 10**6, 1.5, math.nan, {}, [], [1], 1e300)


def played(policy: str = "guaranteed", rounds: int = 130, **options: Any) -> ChampionChallenger:
    live = ChampionChallenger(
        n_models=3, horizon=400, budget=HarmBudget(0.1, 4.0), review_every=60,
        policy=policy, **{"random_state": 0, **options},  # type: ignore[arg-type]  # a literal
    )  # fmt: skip
    rng = np.random.default_rng(1)
    for _ in range(rounds):
        live.step(rng.random(3), rng.random(3) * [0.15, 0.25, 0.5])
    return live


def stored(policy: str = "guaranteed") -> dict[str, Any]:
    """A state without its digest."""
    state: dict[str, Any] = json.loads(played(policy).to_json())
    del state["digest"]
    return state


def mended(state: dict[str, Any]) -> str:
    """A text with the digest of its content, so that the checks of the parts are what refuses."""
    return json.dumps({**state, "digest": digest_of(state)})


def refused(state: dict[str, Any], match: str | None = None) -> None:
    with pytest.raises(InvalidStateError, match=match):
        ChampionChallenger.from_json(mended(state))


def parts(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The state dictionaries of the challenger, its learner, watchdog and trace."""
    learner = state["state"]["_learner"]
    for part in (state, learner, learner["state"]["_watchdog"], state["state"]["_trace"]):
        yield part["state"]


@pytest.mark.parametrize("policy", ["guaranteed", "adaptive"])
def test_every_part_dropped_or_of_another_kind_is_refused(policy: str) -> None:
    state = stored(policy)
    ChampionChallenger.from_json(mended(state))
    for number, part in enumerate(list(parts(state))):
        for name, value in part.items():
            for wrong in (*WRONG, "dropped"):
                if type(wrong) is type(value) and wrong == value:
                    continue
                damaged = copy.deepcopy(state)
                place = list(parts(damaged))[number]
                if wrong == "dropped":
                    del place[name]
                else:
                    place[name] = wrong
                refused(damaged)


@pytest.mark.parametrize("policy", ["guaranteed", "adaptive"])
def test_arrays_out_of_range_or_shape_are_refused(policy: str) -> None:
    state = stored(policy)
    for number, part in enumerate(list(parts(state))):
        arrays = {name: value for name, value in part.items() if "__array__" in str(value)[:20]}
        for name, value in arrays.items():
            n = len(value["__array__"])
            changes = [{"__array__": [wrong] * n} for wrong in (10**6, -1e9, math.nan, 1e300, "a")]
            changes += [{"__array__": [0] * (n + 1), "shape": [n + 1]}, {"dtype": "|O"}]
            changes += [{"shape": [n, 1, 1]}, {"__array__": []}, {"dtype": "<c16"}]
            for change in changes:
                damaged = copy.deepcopy(state)
                list(parts(damaged))[number][name].update(change)
                refused(damaged)


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "burst": (lambda s: s["params"].update(burst=1e6), "_learner"),
    "rate": (lambda s: s["params"].update(harm_rate=0.9), "_learner"),
    "threshold": (
        lambda s: s["state"]["_learner"]["state"]["_watchdog"]["params"].update(threshold=1e6),
        "_watchdog|events",
    ),
    "played": (lambda s: s["state"]["_played"].update(__array__=[0.0, 0.0]), "_played"),
    "live": (lambda s: s["state"].update(_live=1), "no part named '_live'"),
    "last switch": (lambda s: s["state"]["_switches"].pop(), "_switches|_played"),
    "no switch": (lambda s: s["state"].update(_switches=[]), "_switches"),
    "level": (lambda s: s["state"]["_level"].update(__array__=[0.0] * 3), "_level"),
    "no watchdog": (lambda s: s["state"]["_learner"]["state"].pop("_watchdog"), "_watchdog"),
    "null watchdog": (
        lambda s: s["state"]["_learner"]["state"].update(_watchdog=None),
        "_watchdog",
    ),
    "models": (lambda s: s["params"].update(n_models=10**9), "n_models"),
    "reviews": (lambda s: s["params"].update(horizon=10**12, review_every=1), "resets"),
    "take-downs": (lambda s: s["state"].update(_downs=0), "no part named '_downs'"),
    "events": (
        lambda s: s["state"]["_learner"]["state"]["_watchdog"]["state"].update(events=[]),
        "active|_sleep",
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_parts_are_refused_by_name(forgery: str) -> None:
    change, match = FORGERIES[forgery]
    state = stored()
    assert state["state"]["_learner"]["state"]["_watchdog"]["state"]["events"]
    change(state)
    refused(state, match)


def test_any_change_is_noticed_by_the_digest() -> None:
    state = json.loads(played().to_json())
    level = state["state"]["_learner"]["state"]["_watchdog"]["state"]["_level"]["__array__"]
    level[1] *= 0.999  # fits all other parts
    with pytest.raises(InvalidStateError, match="changed after it was written"):
        ChampionChallenger.from_json(json.dumps(state))
    del state["digest"]
    with pytest.raises(InvalidStateError, match="changed after it was written"):
        ChampionChallenger.from_json(json.dumps(state))


def test_a_state_of_another_budget_is_refused() -> None:
    text = played().to_json()
    assert ChampionChallenger.from_json(text, budget=HarmBudget(0.1, 4.0)).rounds == 130
    with pytest.raises(InvalidStateError, match="stored with the budget"):
        ChampionChallenger.from_json(text, budget=HarmBudget(0.1, 5.0))


def test_foreign_indices_never_reach_compiled_code() -> None:
    """In a process of its own, which would crash: row numbers far outside the table."""
    program = """
import json, sys, warnings
import numpy as np
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import ChampionChallenger
from counterplay.tradeoff.champion_state import digest_of
def mended(state):
    return json.dumps({**state, "digest": digest_of(state)})
warnings.simplefilter("ignore")
text = sys.stdin.read()
rng = np.random.default_rng(0)
texts = []
for rows in ([10**6] * 3, [5] * 3, [-7] * 3):
    state = json.loads(text)
    del state["digest"]
    state["state"]["_learner"]["state"]["_group"]["__array__"] = rows
    texts.append(mended(state))
plain = json.loads(text)
del plain["digest"]
plain = json.dumps(plain)
for _ in range(300):
    letters = list(plain)
    letters[rng.integers(len(plain))] = chr(rng.integers(32, 127))
    try:
        texts.append(mended(json.loads("".join(letters))))
    except ValueError:
        texts.append("".join(letters))
refused = 0
for damaged in texts:
    try:
        live = ChampionChallenger.from_json(damaged)
        for _ in range(20):
            live.step(rng.random(live.n_models), rng.random(live.n_models))
        live.report().summary()
    except InvalidInputError:
        refused += 1
print(refused)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], input=played().to_json(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


@pytest.mark.parametrize("policy", ["guaranteed", "adaptive"])
def test_round_trip_after_every_decision(policy: str) -> None:
    """Also when models are taken down and reviewed, nobody is left, and the seed is a generator."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        live = ChampionChallenger(
            n_models=3, horizon=150, budget=HarmBudget(0.1, 3.0), review_every=40,
            policy=policy, random_state=np.random.default_rng(seed),  # type: ignore[arg-type]
        )  # fmt: skip
        for t in range(150):
            again = ChampionChallenger.from_json(live.to_json())
            assert again.to_json() == live.to_json()
            harm = np.clip(rng.random(3) * [0.1, 0.4, 1.2] * (1 + np.sin(t / 15)), 0, 1)
            loss = rng.random(3)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AssumptionWarning)
                assert again.step(loss, harm) == live.step(loss, harm)
        again = ChampionChallenger.from_json(live.to_json())
        assert again.report().summary() == live.report().summary()


WATCHDOG = {"c": 0.1, "threshold": 4.0, "on_empty": "least_bad"}
LEARNERS: dict[str, Callable[[], Any]] = {
    "epochs": lambda: EpochLearner(120, 3, B=5, random_state=0),
    "off": lambda: DeactivationLearner(120, 3, B=5, oracle=CusumOracle(**WATCHDOG), random_state=0),
    "restart": lambda: RestartOnDeactivation(
        120, 3, B=5, oracle=CusumOracle(**WATCHDOG), random_state=0
    ),
    "on": lambda: ReactivationLearner(
        120, 3, B=4, oracle=CusumOracle(**WATCHDOG, resets=40), random_state=0
    ),
    "adaptive": lambda: AdaNormalHedge(
        120, 3, B=4, oracle=CusumOracle(**WATCHDOG, resets=40), random_state=0
    ),
}


@pytest.mark.parametrize("kind", LEARNERS)
def test_learners_alone_refuse_damaged_arrays(kind: str) -> None:
    learner = LEARNERS[kind]()
    rng = np.random.default_rng(0)
    for t in range(100):
        if t % 2:
            learner.act()
        learner.observe(Losses(rng.random(3), rng.random(3) * [0.1, 0.2, 0.6]))
        again = type(learner).from_json(learner.to_json())
        assert again.to_json() == learner.to_json()
    text = learner.to_json()
    for name, value in json.loads(text)["state"].items():
        state = json.loads(text)
        if isinstance(value, dict) and "__array__" in value:
            n = len(value["__array__"])
            state["state"][name] = {**value, "__array__": [1] * (n + 1), "shape": [n + 1]}
        else:
            state["state"][name] = "false"
        with pytest.raises(InvalidStateError):
            type(learner).from_json(json.dumps(state))
