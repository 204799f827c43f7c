"""Measure mixtures in a federation: every fit is a short training run, no row leaves a site.

The server minimises the penalised logistic loss of the rows that the sites put in, with gradients
that the sites send: the sum of their gradients is the gradient of the pooled rows, so that a run is
the fit on pooled rows, stopped after some rounds. Then every site scores the model on rows that it
held out. Source: "The private variant", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from counterplay.contribution.sites.flower_project import AppPlan
from counterplay.contribution.sites.measuring import FAILED, Design, Job, fit_budget
from counterplay.contribution.sites.points import Item, SitePoints
from counterplay.contribution.sites.scoring import METRICS, score_rows
from counterplay.contribution.sites.splits import split_rows, training_rows
from counterplay.core.arguments import checked
from counterplay.core.progress import progress_bar
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_positive_int, check_real
from counterplay.errors import ConvergenceError, InvalidInputError, MissingDependencyError
from counterplay.federated.replies import Trust, read_answer
from counterplay.tables.cells import shown

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
    from flwr.serverapp import Grid

    from counterplay.federated.flower import messages
    from counterplay.federated.flower.decoder import Decoder
    from counterplay.federated.flower.messages import config_of, model_of, report
except ImportError:
    raise MissingDependencyError.for_extra("flwr", "federated") from None

ACTION = "measure"
ROUNDS = 20
TASKS = ("hello", "gradient", "score")


@checked
def measure_federated(
    grid: Grid,
    plan: AppPlan,
    *,
    metric: str = "accuracy",
    budget: int | None = None,
    plans: Literal["all", "share"] = "all",
    rounds: int = ROUNDS,
    timeout: float = 600.0,
    progress: bool = True,
    random_state: RandomState = 0,
) -> SitePoints:
    """Measure how well every site is served by mixtures, in a federation of the written app.

    Runs at the server of ``write_measuring_app``; the sites' clients do the work on their rows.

    Parameters
    ----------
    grid
        Flower's grid; ``InProcessGrid`` in a rehearsal.
    plan
        ``app/plan.json`` of the app.
    metric
        ``"accuracy"``, ``"balanced_accuracy"``, ``"neg_log_loss"`` or ``"roc_auc"``.
    budget
        Number of fits; default as in ``measure_sites``.
    plans
        ``"share"``: only common shares.
    rounds
        Most rounds of a fit.
    timeout
        Seconds that a round may take.
    progress
        Whether to show a progress bar.
    random_state
        Seed of splits and mixtures, told to the sites.

    Returns
    -------
    SitePoints
        Sizes and scores, as from ``measure_sites``; without the rows behind them, so that promises
        are modelled, not verified.

    Notes
    -----
    A site that does not answer, or answers with something else than finite numbers for the rows it
    was asked for, spoils that fit only; more than a fifth of spoiled fits is an error. Scores are
    believed as they are told.
    """
    if metric not in METRICS:
        raise InvalidInputError(
            f"metric must be one of {', '.join(METRICS)}, got {shown(metric, 60)}"
        )
    if metric == "roc_auc" and len(plan.classes) != 2:
        raise InvalidInputError("roc_auc needs two classes; use accuracy")
    k, most = len(plan.sites), check_positive_int(rounds, "rounds")
    jobs = Design(k, fit_budget(budget, k, plans), plans)
    seed = int(generator(random_state).integers(2**62))
    crew = _Crew(grid, plan, metric, seed, check_real(timeout, "timeout", low=0.0, open_low=True))
    items: list[Item] = []
    spoiled: list[str] = []
    todo = jobs.jobs(seed)
    with progress_bar(progress) as bar:
        task = bar.add_task("training mixtures of rows", total=len(todo))
        for number, job in enumerate(todo, 1):
            try:
                items += crew.point(job, most)
            except _SpoiledError as error:
                spoiled.append(f"fit {number} was spoiled: {error}")
                if len(spoiled) > FAILED * len(todo):
                    break
            bar.update(task, advance=1)
    if len(spoiled) > FAILED * len(todo) or not items:
        raise ConvergenceError(f"{len(spoiled)} of {len(todo)} fits failed: {spoiled[0]}")
    names, owned = zip(*((site.name, site.owned) for site in plan.sites))
    fits = len(todo) - len(spoiled)
    return SitePoints.of_items(names, owned, metric, items, notes=spoiled[:3], fits=fits)


class _SpoiledError(Exception):
    """A fit without a result, and why."""


class _EnoughError(Exception):
    """The rounds of a fit are used up."""


@dataclass
class _Crew:
    """The sites behind the grid: who is where, and what they are asked."""

    grid: Grid
    plan: AppPlan
    metric: str
    seed: int
    timeout: float

    def __post_init__(self) -> None:
        self.classes = len(self.plan.classes)
        self.shape = (self.classes, self.plan.width)
        self.nodes: dict[int, int] = {}
        nodes = list(self.grid.get_node_ids())
        start = self._model(np.zeros(self.classes * (self.plan.width + 1)))
        told = self._send({node: {"task": "hello"} for node in nodes}, start)
        for node, reply in told.items():
            metrics = _metrics(reply)
            site = metrics.get("site")
            if isinstance(site, int) and 0 <= site < len(self.plan.sites):
                own = self.plan.sites[site]
                if metrics.get("num-examples") != own.owned:
                    raise InvalidInputError(
                        f"{own.name[:60]} has {metrics.get('num-examples')} rows, {own.owned} were "
                        "described: describe it again"
                    )
                self.nodes.setdefault(site, node)
        lacking = [s.name for i, s in enumerate(self.plan.sites) if i not in self.nodes]
        if lacking:
            raise InvalidInputError(f"no client answers for {lacking[0][:60]}")

    def point(self, job: Job, rounds: int) -> list[Item]:
        """Train on the mixture and let every site score the model."""
        sizes = {
            i: training_rows(site.owned, job.split, job.shares[i])
            for i, site in enumerate(self.plan.sites)
        }
        model = self._train(job, {i: n for i, n in sizes.items() if n}, rounds)
        asks = {node: self._ask("score", job, i) for i, node in self.nodes.items()}
        replies = self._send(asks, self._model(model))
        used = np.array([sizes[i] for i in range(len(sizes))], dtype=np.int64)
        found = []
        for i, node in self.nodes.items():
            metrics = _metrics(replies.get(node))
            if metrics.get("num-examples") == 0:  # the metric has nothing to say about these rows
                continue
            try:
                low = -1e3 if self.metric == "neg_log_loss" else 0.0
                score = check_real(metrics.get("score"), "score", low=low, high=1.0)
                rests = check_real(metrics.get("test-rows"), "test-rows", low=1e-9, high=1e12)
            except InvalidInputError as error:
                raise _SpoiledError(f"{self.plan.sites[i].name[:60]}: {error}") from None
            found.append((used, i, score, rests, job.level is not None))
        return found

    def _train(self, job: Job, sizes: Mapping[int, int], rounds: int) -> FloatArray:
        """Minimise the penalised loss of the rows that the sites put in; the best model seen."""
        total = sum(sizes.values())
        # the penalty of scikit-learn's LogisticRegression, which has one row for two classes
        stiff = (1.0 if self.classes == 2 else 0.5) / total
        weights = self.classes * self.plan.width
        best, spent = (np.inf, np.zeros(weights + self.classes)), 0

        def slope(w: FloatArray) -> tuple[float, FloatArray]:
            nonlocal best, spent
            if spent == rounds:
                raise _EnoughError
            spent += 1
            loss, gradient = self._pooled(w, job, sizes)
            own = np.concatenate([w[:weights], np.zeros(self.classes)])
            loss, gradient = loss + stiff * float(own @ own), gradient + 2.0 * stiff * own
            best = (loss, w.copy()) if loss < best[0] else best
            return loss, gradient

        with contextlib.suppress(_EnoughError):
            minimize(slope, best[1], jac=True, method="L-BFGS-B")
        return best[1]

    def _pooled(
        self, w: FloatArray, job: Job, sizes: Mapping[int, int]
    ) -> tuple[float, FloatArray]:
        """Mean loss and gradient over the rows of all sites, from theirs."""
        model = self._model(w)
        asks = {self.nodes[i]: self._ask("gradient", job, i) for i in sizes}
        replies = self._send(asks, model)
        fields = Decoder().read(list(replies.values()), [], model)
        loss, gradient = 0.0, np.zeros_like(w)
        for i, rows in sizes.items():
            name, own = self.plan.sites[i].name[:60], fields.get(self.nodes[i], "no answer")
            if isinstance(own, str):
                raise _SpoiledError(f"{name}: {own[:120]}")
            try:
                answer = read_answer(own, w, 1.0, Trust())
            except InvalidInputError as error:
                raise _SpoiledError(f"{name}: {error}") from None
            if answer.rows != rows:
                raise _SpoiledError(f"{name} used {answer.rows} rows, {rows} were asked for")
            loss += answer.loss * rows
            gradient += answer.gradient * rows
        return loss / sum(sizes.values()), gradient / sum(sizes.values())

    def _ask(self, task: str, job: Job, site: int) -> dict[str, Any]:
        return {"task": task, "seed": self.seed, "split": job.split,
                "share": float(job.shares[site]), "metric": self.metric}  # fmt: skip

    def _model(self, w: FloatArray) -> ArrayRecord:
        weights, bias = np.split(w, [self.classes * self.plan.width])
        return ArrayRecord({"weight": Array(weights.reshape(self.shape)), "bias": Array(bias)})

    def _send(
        self, asks: Mapping[int, Mapping[str, Any]], model: ArrayRecord
    ) -> dict[int, Message]:
        """Ask some nodes; their replies by node."""
        questions = [
            Message(RecordDict({"arrays": model, "config": ConfigRecord(dict(ask))}), node,
                    f"query.{ACTION}")
            for node, ask in asks.items()
        ]  # fmt: skip
        replies = self.grid.send_and_receive(questions, timeout=self.timeout)
        return {reply.metadata.src_node_id: reply for reply in replies}


def measuring_answer(message: Message, site: int, rows: tuple[FloatArray, IntArray]) -> Message:
    """What a site's client answers while the federation measures: a gradient or a score.

    Use it as the body of ``@app.query("measure")``. ``rows`` are all coded rows of the site and
    their classes; which of them train and which are held out follows from the message. They stay
    here.
    """
    config = config_of(message)
    task, (X, y) = config.get("task"), rows
    if task == "hello":
        return _reply(message, {"site": site, "num-examples": len(y)})
    if task not in TASKS:
        raise InvalidInputError(f"there is no task {shown(task, 60)}")
    train, test = split_rows(int(config["seed"]), site, len(y), int(config["split"]),
                             float(config["share"]))  # fmt: skip
    model = model_of(message)
    weights, bias = model["weight"].numpy(), model["bias"].numpy()
    if task == "gradient":
        loss, slopes = _slopes(X[train], y[train], weights, bias)
        return report(message, loss=loss, gradient=slopes, num_examples=len(train))
    chance = softmax(X[test] @ weights.T + bias, axis=1)
    score = score_rows(str(config["metric"]), y[test], np.argmax(chance, axis=1), chance)
    if score is None:
        return _reply(message, {"num-examples": 0})
    told = {"score": score.value, "test-rows": score.test_rows, "num-examples": len(test)}
    return _reply(message, told)


def _slopes(
    X: FloatArray, y: IntArray, weights: FloatArray, bias: FloatArray
) -> tuple[float, dict[str, FloatArray]]:
    """Mean cross-entropy of a linear model and its gradient."""
    chance = log_softmax(X @ weights.T + bias, axis=1)
    away = np.exp(chance)
    away[np.arange(len(y)), y] -= 1.0  # derivative of the cross-entropy by the outputs
    loss = -float(chance[np.arange(len(y)), y].mean())
    return loss, {"weight": away.T @ X / len(y), "bias": away.mean(axis=0)}


def _reply(message: Message, told: Mapping[str, float]) -> Message:
    return Message(RecordDict({messages.METRICS: MetricRecord(dict(told))}), reply_to=message)


def _metrics(reply: Message | None) -> Mapping[str, Any]:
    """The numbers in a reply; empty if there are none. Never raises."""
    try:
        if reply is None or reply.has_error():
            return {}
        return dict(reply.content.metric_records[messages.METRICS])
    except Exception:  # a party may send anything
        return {}
