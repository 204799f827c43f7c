"""The engine runs the protocol of the theory, for many seeds at once, and repeats the thesis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from counterplay.core.draws import run_keys
from counterplay.defection import (
    ADAGD,
    FedAvg,
    FederationGame,
    FunctionProblem,
    MWFed,
    SafeStep,
    Server,
    heterogeneous_split,
    play,
)
from counterplay.errors import InvalidInputError
from counterplay.federated import (
    CallableObjective,
    Federation,
    LayeredObjective,
    LocalWork,
    NumpyArrays,
    Sites,
    TrainingRecord,
    local_work,
)
from counterplay.federated.sites import minibatches
from counterplay.federated.stack import Spans

RULES = {
    "fedavg": FedAvg(),
    "mwfed": MWFed(gap=0.05),
    "adagd": ADAGD(0.05),
    "safe_step": SafeStep(0.05),
    "safe_step capped": SafeStep(0.05, cap="step_size"),
}


def train(
    model: Any,
    sites: Sites,
    rule: Any,
    keys: Any,
    *,
    eps: Any,
    local_steps: int = 1,
    batch_size: int | None = None,
    **options: Any,
) -> TrainingRecord:
    work = LocalWork(local_steps, batch_size)
    return Federation(model, sites, eps=eps).train(rule, keys, work=work, **options)


def small_sites(seed: int = 0, agents: int = 3, p: int = 6, classes: int = 3) -> Sites:
    """Sites of different sizes."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(agents), 5 + 3 * np.arange(agents))
    y = (owner + (rng.random(len(owner)) < 0.3)) % classes
    centres = rng.normal(size=(classes, p))
    return Sites.from_agents(centres[y] + 0.5 * rng.normal(size=(len(owner), p)), y, owner)


def as_problem(model: LayeredObjective, sites: Sites) -> FunctionProblem:
    """The same losses as a problem of the theory, computed agent by agent."""

    def oracle(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = []
        for m in range(sites.agents):
            rows = sites.index[0, m, : sites.sizes[0, m]]
            found.append(local_work(model, (sites.X[rows], sites.y[rows]), w, step_size=1.0))
        return np.array([f.loss for f in found]), np.stack([f.update for f in found])

    return FunctionProblem(oracle, sites.agents, model.size)


@pytest.mark.claim("05.40")
@pytest.mark.parametrize("hidden", [[], [4]])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_full_batch_training_is_the_protocol_of_the_theory(rule: Any, hidden: list[int]) -> None:
    sites = small_sites()
    model = LayeredObjective([6, *hidden, 3], "tanh")
    keys = run_keys(1, 1)
    record = train(model, sites, rule, keys, step_size=0.4, rounds=60, eps=[0.4, 0.5, 0.6])
    start = model.start(keys)[0]
    run = play(
        Server(rule, start, step_size=0.4),
        FederationGame(as_problem(model, sites), [0.4, 0.5, 0.6]),
        rounds=60,
    )
    steps = len(run)
    assert record.status[0] == run.status
    assert record.rounds[0] == steps
    assert np.array_equal(record.defect_round[0], run.defect_round)
    assert np.array_equal(record.workload[0], run.workload)
    assert np.abs(record.loss[0, : steps + 1] - run.losses).max() < 1e-9
    assert np.abs(record.w[0] - run.w).max() < 1e-9


def test_torch_gives_the_same_run() -> None:
    pytest.importorskip("torch")
    from counterplay.federated import TorchArrays

    sites = small_sites()
    for rule in RULES.values():
        runs = [
            train(
                LayeredObjective([6, 4, 3], backend=backend),
                sites,
                rule,
                run_keys(0, 2),
                step_size=0.3,
                rounds=25,
                eps=0.5,
                local_steps=3,
                batch_size=4,
            )
            for backend in (NumpyArrays(), TorchArrays("float64"))
        ]
        assert np.abs(runs[0].loss - runs[1].loss).max() < 1e-9
        assert np.array_equal(runs[0].defect_round, runs[1].defect_round)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_seed_runs_the_same_alone_and_in_company(rule: Any) -> None:
    model, sites = LayeredObjective([6, 4, 3]), small_sites()
    keys = run_keys(3, 4)
    options: dict[str, Any] = {
        "step_size": 0.5, "rounds": 40, "eps": 0.5, "local_steps": 2, "batch_size": 4
    }  # fmt: skip
    together = train(model, sites, rule, keys, **options)
    for s in range(4):
        alone = train(model, sites, rule, keys[s : s + 1], **options)
        assert np.abs(together.loss[s] - alone.loss[0]).max() < 1e-10
        assert together.status[s] == alone.status[0]


def test_one_split_per_seed() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), rng.integers(0, 2, size=40)
    owners = np.stack([rng.permutation(np.arange(40) % 4) for _ in range(3)])
    model, keys = LayeredObjective([5, 2]), run_keys(0, 3)
    record = train(
        model, Sites.from_agents(X, y, owners), FedAvg(), keys, step_size=0.2, rounds=9, eps=0.0
    )
    for s in range(3):
        own = Sites.from_agents(X, y, owners[s])
        alone = train(model, own, FedAvg(), keys[s : s + 1], step_size=0.2, rounds=9, eps=0.0)
        assert np.abs(record.loss[s] - alone.loss[0]).max() < 1e-12


def test_a_run_that_diverges_goes_back_to_its_last_model() -> None:
    def cubic(w: Any, rows: Any, labels: Any, weights: Any) -> tuple[float, Any]:
        with np.errstate(over="ignore"):
            return float(w[0] ** 4), 4 * w**3

    sites = Sites.from_agents(np.zeros((2, 1)), [0, 1], [0, 1])
    model = CallableObjective(1, cubic, start=np.array([10.0]))
    record = train(model, sites, FedAvg(), run_keys(0, 1), step_size=1.0, rounds=50, eps=0.0)
    assert record.status == ("diverged",)
    assert np.isfinite(record.loss).all()
    assert record.loss[0, -1, 0] == pytest.approx(record.w[0, 0] ** 4)
    broken = CallableObjective(1, lambda *_: (float("nan"), np.zeros(1)))
    with pytest.raises(InvalidInputError, match="agent 0 is not finite"):
        train(broken, sites, FedAvg(), run_keys(0, 1), step_size=1.0, rounds=5, eps=0.0)


def test_spans_are_stacks() -> None:
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(2, 3, 7)), rng.normal(size=(2, 3, 7))]
    spans = Spans(NumpyArrays(), blocks)
    flat = np.concatenate(blocks, axis=1)[1]
    stack = spans.stack(1, np.array([0, 2]), block=1)
    rows = flat[[3, 5]]
    assert np.allclose(stack.gram(), rows @ rows.T)
    vector = stack.combine(np.array([2.0, -1.0])) + 0.5 * spans.stack(1, np.array([1])).combine(
        np.array([1.0])
    )
    exact = np.array([2.0, -1.0]) @ rows + 0.5 * flat[1]
    assert np.allclose(stack.inner(vector), rows @ exact)
    assert stack.dot(vector, vector) == pytest.approx(exact @ exact)
    coefficients = np.stack([np.zeros(6), vector])
    assert np.allclose(spans.combine(coefficients), np.stack([np.zeros(7), exact]))
    assert np.allclose(stack.rows(np.array([False, True])).gram(), [[rows[1] @ rows[1]]])


@pytest.fixture(scope="module")
def digits_runs() -> dict[str, Any]:
    """The digits experiment: 3 seeds, each with its own split and initial network."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order[360:]] / 16.0, y[order[360:]]
    model, keys = LayeredObjective([64, 32, 10]), run_keys(0, 3)
    local = {"local_steps": 5, "batch_size": 32}

    def run(rule: Any, own: float, step: float, **work: Any) -> Any:
        owners = [
            heterogeneous_split(X, y, 10, own, random_state=seed).agent_of_row for seed in range(3)
        ]
        sites = Sites.from_agents(X, y, np.stack(owners))
        return train(model, sites, rule, keys, step_size=step, rounds=250, eps=0.2, **work)

    return {
        "fedavg": run(FedAvg(), 0.9, 0.5, **local),
        "fedavg near iid": run(FedAvg(), 0.1, 0.5, **local),
        "safe_step": run(SafeStep(0.02, cap="step_size"), 0.9, 0.5),
        "adagd": run(ADAGD(0.02, "anchored"), 0.9, 0.1, **local),
    }


@pytest.mark.claim("05.24")
def test_digits_defections_hurt_only_heterogeneous_agents(digits_runs: dict[str, Any]) -> None:
    def fall(record: Any) -> np.ndarray:
        average = record.accuracy.mean(axis=2)  # over all agents, also those who left
        return np.asarray(average.max(axis=1) - average[:, -1])

    assert digits_runs["fedavg"].defections.min() >= 5
    assert fall(digits_runs["fedavg"]).min() >= 0.10
    assert digits_runs["fedavg near iid"].defections.min() >= 5
    assert fall(digits_runs["fedavg near iid"]).max() <= 0.02


@pytest.mark.claim("05.24")
def test_digits_safe_step_keeps_everybody_and_the_worst_device(digits_runs: dict[str, Any]) -> None:
    safe, plain = digits_runs["safe_step"], digits_runs["fedavg"]
    assert safe.defections.tolist() == [0, 0, 0]
    assert safe.status == ("converged",) * 3
    assert (safe.loss[:, -1] <= 0.2 + 2 * 0.02).all()
    gain = safe.accuracy[:, -1].min(axis=1) - plain.accuracy[:, -1].min(axis=1)
    assert gain.mean() >= 0.3
    assert digits_runs["adagd"].defections.tolist() == [0, 0, 0]


def even_sites(classes: int = 3) -> Sites:
    """Four parties with fifteen rows each."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(60, 6)), rng.integers(0, classes, 60)
    return Sites.from_agents(X, y, np.arange(60) % 4)


def drawn(sites: Sites, keys: Any, round: int, steps: int, rows: int) -> Any:
    """Row numbers ``(S, M, steps, rows)`` of the minibatches of a round."""
    positions = minibatches(keys, round, sites.sizes, steps, rows)
    parties = np.arange(sites.agents)[None, :, None, None]
    return sites.index[0][parties, positions]


@pytest.mark.claim("04.27")
def test_one_local_batch_equals_one_pooled_step() -> None:
    sites, keys, model = even_sites(), run_keys(3, 2), LayeredObjective([6, 5, 3])
    options = {"step_size": 0.1, "rounds": 3, "start": model.start(keys)}
    record = train(model, sites, FedAvg(), keys, eps=0.0, batch_size=8, **options)
    w, even = model.start(keys), np.full((2, 32), 1 / 32)
    for r in (1, 2, 3):
        pool = drawn(sites, keys, r, 1, 8).reshape(2, 32)
        w = w - 0.1 * model.gradient(w, sites.X[pool], sites.y[pool], even)
    assert abs(record.w - w).max() <= 1e-12
    assert abs(record.w - model.start(keys)).max() > 1e-3


@pytest.mark.claim("04.27")
def test_zero_gradients_leave_the_server_weights_alone() -> None:
    sites, keys, model = even_sites(classes=1), run_keys(3, 2), LayeredObjective([6, 5, 3])
    sure = model.start(keys)
    sure[:, model.slices[1][1].start] = 300.0  # class 0 with certainty: gradients vanish
    work = LocalWork(3, 8, rescale=False)
    federation = Federation(model, sites, eps=0.0)
    record = federation.train(FedAvg(), keys, step_size=0.1, rounds=2, work=work, start=sure)
    assert abs(record.w - sure).max() <= 1e-12  # the printed 1/(Bk) would divide by 3


@pytest.mark.claim("04.27")
@pytest.mark.claim("04.28")
def test_the_server_takes_the_plain_mean_of_the_local_models() -> None:
    """Two local batches per party, written as a plain loop over one run."""
    sites, keys, model = even_sites(), run_keys(3, 3), LayeredObjective([6, 5, 3])
    start, run = model.start(keys), 2
    options = {
        "step_size": 0.1,
        "rounds": 1,
        "start": start,
        "work": LocalWork(2, 8, rescale=False),
    }
    federation = Federation(model, sites, eps=0.0)
    after = federation.train(FedAvg(), keys, **options).w  # type: ignore[arg-type]
    local = []
    for party in range(4):
        w = start[[run]]
        for rows in drawn(sites, keys, 1, 2, 8)[run, party]:
            even = np.full((1, 8), 1 / 8)
            w = w - 0.1 * model.gradient(w, sites.X[rows][None], sites.y[rows][None], even)
        local.append(w[0])
    assert abs(after[run] - np.mean(local, axis=0)).max() <= 1e-12
    same = federation.train(MWFed(growth=1.0), keys, **options).w  # type: ignore[arg-type]
    assert (same == after).all()
