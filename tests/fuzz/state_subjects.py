"""One valid state of every class that saves one, how it is read, and what it promises."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.naive_bayes import GaussianNB

from counterplay.core.finite_class import FiniteClass
from counterplay.core.online import (
    Doubling,
    ExploreThenCommit,
    FollowLazyLeader,
    FollowPerturbedLeader,
    FollowTheLeader,
    Hedge,
    MaximalCouplingSampler,
    ShrinkingDartboard,
)
from counterplay.core.records import read_json
from counterplay.elicitation import (
    LinearPreferenceUser,
    PolytopeElicitor,
    PreferenceElicitor,
    ReliableElicitor,
)
from counterplay.elicitation.comparisons import Answer
from counterplay.errors import CounterplayWarning
from counterplay.labeling import B2IR, GBS, Campaign, LabelingSession, instances
from counterplay.principal import OfferPlanner, fit_game
from counterplay.principal.lab import random_offer_market
from counterplay.tradeoff import (
    ChampionChallenger,
    CusumOracle,
    DeactivationLearner,
    HarmBudget,
    ReactivationLearner,
)
from counterplay.tradeoff.champion_state import digest_of
from counterplay.tradeoff.guard_log import GuardLog
from counterplay.tradeoff.lab import AdaNormalHedge, Losses, RestartOnDeactivation
from counterplay.verify import verify

from .tally import ForgedError

Parts = tuple[str, str, Callable[[Any], Any], Callable[[Any], None], tuple[str, ...]]


def build() -> Iterator[Parts]:
    """Yield name, text, reader, use and foreign states of every class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        yield _labeling("labeling session")
        yield _campaign()
        yield _polytope()
        yield _reliable()
        yield _preference()
        yield _questionnaire()
        for policy in ("guaranteed", "adaptive"):
            yield _champion(policy)
        for feedback in ("live", "selective"):
            yield _live(feedback)
        yield _offer_plan()
        yield from _learners()
        yield from _scalar_learners()
        yield from _exports()
        yield _finite_class()


def _labeling(name: str) -> Parts:
    problem, protocol = instances.threshold_example(), B2IR(GBS())
    session = LabelingSession(problem, protocol, seed=0)
    for _ in range(2):
        query = session.ask()
        if query is not None:
            session.tell(int(problem.H[2, query.point]))
    session.retract(session.answers[0].point)
    if (query := session.ask()) is not None:
        session.tell(int(problem.H[2, query.point]))

    def read(text: Any) -> LabelingSession:
        return LabelingSession.from_json(text, problem, protocol)

    def use(found: LabelingSession) -> None:
        twin = LabelingSession(problem, protocol, seed=found.seed)
        for event in found.events:
            match type(event).__name__:
                case "Answer":
                    if not problem.owner_mask[event.agent, event.point]:
                        raise ForgedError("somebody answered for a point he does not own")
                    twin._take(event)
                case _:
                    twin.retract(event.point)
        mine, theirs = found.result(), twin.result()
        _same("answers", found.answers, twin.answers)
        _same("labels", mine.labels, theirs.labels)
        _same("confidence", mine.confidence_if_realizable, theirs.confidence_if_realizable)
        mine.summary()
        while (query := found.ask()) is not None:
            found.tell(int(problem.H[1, query.point]))

    other = LabelingSession(instances.identical_pools(k=2), protocol, seed=0)
    return name, session.to_json(), read, use, (other.to_json(),)


def _campaign() -> Parts:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = (X[:, 0] > 0).astype(int)

    def made(items: Any, seed: int) -> Campaign:
        campaign = Campaign(items, owners=[0, 1] * 20, classes=[0, 1], learner=GaussianNB(),
                            max_error=0.2, random_state=seed)  # fmt: skip
        for question in campaign.ask(30):
            campaign.tell(question, int(y[question.item]), labeler="ann")
        return campaign

    campaign = made(X, 0)
    campaign.retract("q1")

    def use(found: Campaign) -> None:
        found.summary()
        while questions := found.ask(100):
            for question in questions:
                found.tell(question, int(y[question.item]))
        _same("labels", len(found.result().labels), 40)

    other = made(X[::-1].copy(), 1)

    def read(changed: Any) -> Campaign:
        return Campaign.from_log(_as_lines(changed), X)

    return "campaign", _as_list(campaign.log()), read, use, (_as_list(other.log()),)


def _polytope() -> Parts:
    items = np.random.default_rng(5).random((25, 3))
    elicitor = PolytopeElicitor(items, random_state=3, target_regret=0.02)
    user = LinearPreferenceUser([0.8, 0.5, 0.6], eps=0.02)
    for _ in range(5):
        if (query := elicitor.ask()) is not None:
            elicitor.tell(user.compare(query.first.value, query.second.value))
    elicitor.ask()

    def read(text: Any) -> PolytopeElicitor:
        return PolytopeElicitor.from_json(text, items)

    other = PolytopeElicitor(1 - items, random_state=3)
    other.ask()
    text = elicitor.to_json()
    return "polytope elicitor", text, read, _use_polytope(items), (other.to_json(),)


def _reliable() -> Parts:
    items = np.random.default_rng(5).random((20, 2))
    elicitor = ReliableElicitor(items, random_state=3, target_regret=0.1, max_cells=2000)
    for _ in range(4):
        if (query := elicitor.ask()) is not None:
            elicitor.tell(1 + int(np.argmax([option.value.sum() for option in query.options])))
    elicitor.ask()

    def read(text: Any) -> ReliableElicitor:
        return ReliableElicitor.from_json(text, items)

    def use(found: ReliableElicitor) -> None:
        result = found.current()
        twin = ReliableElicitor.from_json(found.to_json(), items)
        _same("certificate", result.regret_certificate, twin.current().regret_certificate)
        _same("item", result.item, twin.current().item)
        _inside(result.item, len(items))
        result.summary()
        if found.ask() is not None:
            found.tell("cannot say")

    other = ReliableElicitor(1 - items, random_state=3)
    return "reliable elicitor", elicitor.to_json(), read, use, (other.to_json(),)


def _use_polytope(items: Any) -> Callable[[PolytopeElicitor], None]:
    def use(found: PolytopeElicitor) -> None:
        result = found.result()
        twin = PolytopeElicitor(
            items,
            target_regret=found.target_regret,
            contradictions=found.contradictions,
            max_contradictions=found.max_contradictions,
            fallback=found.fallback,
            adaptive_questions=found.adaptive_questions,
            max_rays=found.max_rays,
            random_state=found._state.seed,
        )
        twin._state_or_new()
        twin._replay(found.events)
        _same("certificate", result.regret_certificate, twin.result().regret_certificate)
        _same("item", result.item, twin.result().item)
        for entry in found.events:
            if entry.options is not None:
                for position, value in zip(entry.options, (entry.first, entry.second)):
                    shown = found._state.pool.values[position]
                    if not np.allclose(shown, value, rtol=1e-9, atol=1e-12):
                        raise ForgedError(f"option {position} is {value}, not {shown}")
        result.summary()
        for _ in range(3):
            if found.ask() is not None:
                found.tell(Answer.FIRST)

    return use


def _preference() -> Parts:
    items = np.random.default_rng(6).random((8, 3))
    elicitor = PreferenceElicitor(items)
    user = LinearPreferenceUser([0.8, 0.5, 0.6], eps=0.02)
    for _ in range(5):
        if (query := elicitor.ask()) is not None:
            elicitor.tell(user.compare(query.first.value, query.second.value))

    def read(text: Any) -> PreferenceElicitor:
        return PreferenceElicitor.from_json(text, items)

    def use(found: PreferenceElicitor) -> None:
        twin = PreferenceElicitor(items, **{name: getattr(found, name) for name in _params(found)})
        for entry in found.events:
            query = twin.ask()
            if query is None or not np.allclose(query.first.value, entry.first):
                raise ForgedError("an answer to a question that was not asked")
            twin.tell(entry.answer)
        for _ in range(40):
            if found.ask() is None:
                break
            _same("question", found.ask().first.value, twin.ask().first.value)
            found.tell(Answer.FIRST)
            twin.tell(Answer.FIRST)
        if found.done:
            _same("item", found.result().item, twin.result().item)
            _same(
                "certificate", found.result().regret_certificate, twin.result().regret_certificate
            )

    other = PreferenceElicitor(1 - items)
    other.ask()
    return "preference elicitor", elicitor.to_json(), read, use, (other.to_json(),)


def _offer_plan() -> Parts:
    market = random_offer_market(3)
    log = market.log(np.repeat([0.1, 0.3, 0.5], 20), random_state=0)
    plan = fit_game(log, offer="commission", outcome="revenue").planner(12, random_state=1)
    for outcome in (300.0, 250.0, None, 410.0):
        plan.observe(plan.act(), outcome)

    def use(found: OfferPlanner) -> None:
        twin = OfferPlanner(found.settings)
        for event in found.events:
            if event.what == "seen":
                twin.observe(event.offer, event.outcome)
            else:
                _same("offer", event.offer, twin.act())
        found.report().summary()
        _same("next offer", found.act(), twin.act())

    return "offer plan", plan.to_json(), OfferPlanner.from_json, use, ()


def _params(found: Any) -> list[str]:
    import inspect

    return [name for name in inspect.signature(type(found)).parameters if name != "source"]


def _questionnaire() -> Parts:
    from typer.testing import CliRunner

    from counterplay.commands.elicit import app

    folder = Path(tempfile.mkdtemp())
    rng = np.random.default_rng(0)
    table = folder / "cars.csv"
    rows = [f"car {i},{rng.integers(100, 900)},{rng.integers(10, 99)}" for i in range(12)]
    table.write_text("name,km,price\n" + "\n".join(rows) + "\n")
    session = folder / "saved.json"
    given = [str(table), "--benefit", "km", "--cost", "price", "--session", str(session)]
    CliRunner().invoke(app, given, input="1\n2\nq\n")
    text = session.read_text(encoding="utf-8")

    def read(changed: Any) -> Any:
        data = changed.encode("utf-8", "surrogatepass") if isinstance(changed, str) else changed
        session.write_bytes(data)
        done = CliRunner().invoke(app, given, input="q\n")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    def use(done: Any) -> None:
        _same("exit code", done.exit_code, 0)

    return "questionnaire", text, read, use, ()


def _champion(policy: str) -> Parts:
    live = ChampionChallenger(
        n_models=3, horizon=400, budget=HarmBudget(0.1, 4.0), review_every=60, policy=policy,  # type: ignore[arg-type]
        random_state=0,
    )  # fmt: skip
    rng = np.random.default_rng(1)
    for _ in range(130):
        live.step(rng.random(3), rng.random(3) * [0.15, 0.25, 0.5])
    text = live.to_json()
    before = live.report()

    def read(changed: Any) -> ChampionChallenger:
        """With a digest that belongs to the text, as a forger would write it."""
        try:
            state = json.loads(changed)
            del state["digest"]
            changed = json.dumps({**state, "digest": digest_of(state)})
        except (ValueError, TypeError, KeyError, RecursionError):
            pass  # not even JSON: the reader must say so itself
        return ChampionChallenger.from_json(changed)

    def use(found: ChampionChallenger) -> None:
        report = found.report()
        _same("harm bound", report.harm_bound, before.harm_bound)
        _same("regret bound", report.regret_bound, before.regret_bound)
        _same("current", found.current, live.current)
        for name in ("harm_rate", "burst", "horizon"):
            _same(name, getattr(report, name), getattr(before, name))
        _same("allowed", report.allowed, before.allowed)
        report.summary()
        draws = np.random.default_rng(2)
        for _ in range(min(20, found.horizon - found.rounds)):
            found.step(draws.random(found.n_models), draws.random(found.n_models))
        _finite(found.report().played)

    return f"champion ({policy})", text, read, use, ()


def _live(feedback: str) -> Parts:
    """A guard that is stored as its events; what it says must follow from them."""
    options: dict[str, Any] = {"acceptance": 0.5} if feedback == "selective" else {"max_delay": 4}
    live: Any = ChampionChallenger(
        n_models=3, horizon=80, budget=HarmBudget(0.1, 2.0), feedback=feedback, champion=1, safe=0,
        purse=3.0, random_state=0, **options,
    )  # fmt: skip

    def run(guard: Any, rounds: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        for t in range(min(rounds, guard.horizon - guard.rounds)):
            number, losses = guard.act().id, rng.random((2, guard.n_models))
            if t % 5 == 4:
                guard.observe(number, missing=True)
            elif feedback == "selective":
                guard.observe(number, primary=losses[0], secondary=losses[1] / 3, probability=1.0)
            else:
                guard.observe(number, primary=losses[0, 0], secondary=losses[1, 0] / 3)

    run(live, 20, 1)

    def use(found: Any) -> None:
        report = found.report()
        _same("rounds", report.rounds, sum(report.live_rounds))
        _same("outcomes", report.rounds, report.judged + report.open_outcomes + report.missing)
        if report.void_since is None and report.harm_excess > report.harm_bound + 1e-9:
            raise ForgedError("harm of judged rounds above its bound")
        report.summary()
        run(found, 10, 2)
        _finite(found.report().played)

    return f"{feedback} guard", live.to_json(), ChampionChallenger.from_json, use, ()


def _learners() -> Iterator[Parts]:
    watchdog = {"c": 0.1, "threshold": 4.0, "on_empty": "least_bad"}
    with_resets = {**watchdog, "resets": 40}
    options = {"horizon": 120, "K": 3, "B": 4, "random_state": 0}
    made = [
        DeactivationLearner(oracle=CusumOracle(**watchdog), **options),
        RestartOnDeactivation(oracle=CusumOracle(**watchdog), **options),
        ReactivationLearner(oracle=CusumOracle(**with_resets), **options),
        AdaNormalHedge(oracle=CusumOracle(**with_resets), **options),
    ]
    rng = np.random.default_rng(0)
    for learner in made:
        for _ in range(70):
            learner.act()
            learner.observe(Losses(rng.random(3), rng.random(3) * [0.1, 0.2, 0.6]))
        yield type(learner).__name__, learner.to_json(), type(learner).from_json, _use_learner, ()


def _use_learner(found: Any) -> None:
    rng = np.random.default_rng(3)
    for _ in range(min(20, found.horizon - found.rounds)):
        _inside(found.act(), found.K)
        found.observe(Losses(rng.random(found.K), rng.random(found.K)))
    _finite(list(found.guarantees().values()))


def _scalar_learners() -> Iterator[Parts]:
    rng = np.random.default_rng(0)
    makers: list[Any] = [
        Hedge, ShrinkingDartboard, FollowTheLeader, FollowPerturbedLeader, FollowLazyLeader,
        lambda: ExploreThenCommit(n0=20), lambda: Doubling(Hedge()),
        lambda: MaximalCouplingSampler(Hedge()),
    ]  # fmt: skip
    for kind in makers:
        learner: Any = kind()
        learner.reset(3, 200, 0)
        for _ in range(50):
            learner.act()
            learner.observe(rng.random(3))
        yield type(learner).__name__, learner.to_json(), type(learner).from_json, _use_scalar, ()


def _use_scalar(found: Any) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        _inside(found.act(), found.K)
        found.observe(rng.random(found.K))
    json.loads(found.to_json(), parse_constant=_no_constant)


def _exports() -> Iterator[Parts]:
    """Exports, as a list of their lines; a certificate that is confirmed must be the true one."""
    problem = instances.threshold_example()
    session = LabelingSession(problem, B2IR(GBS()), seed=0)
    while (query := session.ask()) is not None:
        session.tell(int(problem.H[2, query.point]))
    yield _export("labeling export", session.export())
    asked = ReliableElicitor(np.random.default_rng(2).random((12, 2)), target_regret=0.2,
                             max_questions=6, random_state=0)  # fmt: skip
    while (choice := asked.ask()) is not None:
        asked.tell(1 + int(np.argmax([option.value.sum() for option in choice.options])))
    yield _export("reliable export", asked.export())
    log = GuardLog(ChampionChallenger(
        n_models=2, horizon=40, budget=HarmBudget(0.1, 2.0), random_state=0))  # fmt: skip
    rng = np.random.default_rng(1)
    for _ in range(25):
        log.step(rng.random(2), (rng.random(2) < [0.1, 0.4]).astype(float))
    yield _export("guard export", log.export())


def _as_list(text: str) -> str:
    """Lines of JSON as one JSON list, so that mutations of a tree reach each of them."""
    return json.dumps([json.loads(line) for line in text.splitlines()])


def _as_lines(changed: Any) -> str:
    try:
        return "".join(json.dumps(line) + "\n" for line in json.loads(changed))
    except (ValueError, TypeError, RecursionError):
        return changed.decode("utf-8", "replace") if isinstance(changed, bytes) else changed


def _export(name: str, text: str) -> Parts:
    before = {str(check) for check in verify(text.encode()).checks}

    def read(changed: Any) -> Any:
        return verify(_as_lines(changed).encode("utf-8", "surrogatepass"))

    def use(found: Any) -> None:
        for check in found.checks:
            if check.status == "ok" and str(check) not in before:
                raise ForgedError(f"confirmed: {check}")
        found.summary()

    return name, _as_list(text), read, use, ()


def _finite_class() -> Parts:
    labels = np.random.default_rng(0).integers(0, 2, size=(5, 9))
    made = FiniteClass.from_matrix(labels, weights=[1, 2, 3, 4, 5], exact=True, names=list("abcde"))

    def use(found: FiniteClass) -> None:
        _finite(found.error_rates(0))
        json.dumps(found.to_dict(), allow_nan=False)

    def read(text: Any) -> FiniteClass:
        return FiniteClass.from_dict(read_json(text, what="the text"))

    return "finite class", json.dumps(made.to_dict()), read, use, ()


def _no_constant(name: str) -> None:
    raise ForgedError(f"the state holds {name} after some rounds")


def _same(what: str, mine: Any, other: Any) -> None:
    if not (np.array_equal(np.asarray(mine), np.asarray(other)) or np.all(mine == other)):
        raise ForgedError(f"{what} is {mine!r:.80}, from the events {other!r:.80}")


def _inside(choice: int, K: int) -> None:
    if not 0 <= choice < K:
        raise ForgedError(f"plays {choice} of {K}")


def _finite(values: Any) -> None:
    if np.isnan(np.asarray(values, dtype=float)).any():
        raise ForgedError(f"{values!r:.80} is not a number")
