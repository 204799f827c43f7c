"""A labelling campaign of several parties: no right model, people who err, nobody worse than alone.

Every party's own protocol runs as a shadow inside the campaign and is asked only what it would
surely have asked alone. The others' answers train a joint model that lets it stop earlier; the stop
is an audit of randomly chosen items. The log of events is the state.
Source: docs/theory/24-campaign.md.
"""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import structs

import counterplay
from counterplay.core.arguments import checked
from counterplay.core.audit import allowed_wrong
from counterplay.core.files import write_atomic
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.session import Session
from counterplay.core.validation import (
    IntArray,
    check_choice,
    check_int,
    check_open_fraction,
    check_real,
)
from counterplay.errors import AssumptionWarning, InvalidInputError, ProtocolError
from counterplay.labeling import campaign_log as log_lines
from counterplay.labeling.bounds import adjudication_error
from counterplay.labeling.campaign_report import (
    CampaignResult,
    CampaignStatus,
    PartyWork,
    WorkReport,
)
from counterplay.labeling.campaign_result import campaign_result, expected_work
from counterplay.labeling.campaign_state import CampaignSettings, CampaignState
from counterplay.labeling.certificate import SKIPPED
from counterplay.labeling.joint import Certified, Launch, Scope
from counterplay.labeling.models import check_learner, default_learner
from counterplay.labeling.owners import read_owners
from counterplay.labeling.shadow import Free, Key
from counterplay.labeling.solo import TestFirstSolo
from counterplay.tables import Table
from counterplay.tables.cells import listed, nearest, shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from counterplay.labeling.campaign_study import CampaignStudy
    from counterplay.labeling.reliability import Reliability

SKIP = "skip"
"""What :meth:`Campaign.tell` takes from somebody who does not know."""


@checked
@dataclass(frozen=True)
class Question:
    """A question for one party; ``kind`` is not for the labeler's eyes.

    Examples
    --------
    >>> Question("q1", "north", 17, "learn", 0)
    Question(id='q1', party='north', item=17)
    """

    id: str
    party: str
    item: int
    kind: Literal["learn", "audit"]
    repeat: int

    def __repr__(self) -> str:
        return f"Question(id={self.id!r}, party={self.party!r}, item={self.item})"


@checked
class Campaign(Report, Session):
    """Label the pools of several parties together, with a guarantee for each and for the labels.

    Use it when no list of models holds the truth. Ask, hand the questions out, tell the answers in
    any order, until :meth:`ask` returns nothing.

    Parameters
    ----------
    items:
        The pool: array, frame, sparse matrix, texts, images.
    owners:
        One owner per row, a list of rows per party, or a mapping of names to rows (they may
        overlap).
    classes:
        The labels that people may give.
    learner:
        A classifier with ``predict_proba`` or ``decision_function``, or a list of them for a
        committee; by default a pipeline with logistic regression.
    committee:
        Number of bootstrap members; 0 for a single model.
    max_error:
        Share of wrong labels that is tolerated.
    confidence:
        One minus the probability of a false certificate.
    scope:
        ``"party"``: a certificate for each party. ``"union"``: one for all together, which costs
        far less work; a single party's share of wrong labels may be larger.
    noise:
        Chance that a single answer is wrong. Checks are then asked until one label has ``first_to``
        answers.
    first_to:
        Answers that a label needs in a check; by default 1, 2 or 4, depending on ``noise``.
    free:
        Whose answers about shared items a party's own protocol takes: ``"any"``, or only its
        ``"own"`` (default when answers may be wrong).
    stake:
        Checks that a party agrees to make beyond what it would surely do alone.
    batch:
        Questions of a learning step.
    known:
        Labels that are known already, by row.
    solo:
        What a party would do alone: a :class:`TestFirstSolo`, an object with ``start(pool)``, or
        one for each party by name.
    random_state:
        Seed of the audit orders. Leave it out in earnest: who knows the order knows which items
        are checked.
    log:
        File to which every event is appended.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2)); y = np.where(X[:, 0] > 0, "good", "bad")
    >>> campaign = Campaign(X, owners=["a"] * 150 + ["b"] * 150, classes=["bad", "good"],
    ...                     scope="union", random_state=0)
    >>> while questions := campaign.ask(20):
    ...     for question in questions:
    ...         campaign.tell(question, y[question.item])
    >>> result = campaign.result()
    >>> result.certificates["all parties"].holds, bool((result.labels != y).mean() <= 0.05)
    (True, True)
    >>> [(p.party, p.asked, p.alone_at_least) for p in campaign.work().parties]
    [('a', 67, 109), ('b', 61, 106)]
    """

    def __init__(
        self,
        items: Any,
        *,
        owners: Any,
        classes: Sequence[Any],
        learner: Any = None,
        committee: int = 0,
        max_error: float = 0.05,
        confidence: float = 0.95,
        scope: Scope = "party",
        noise: float = 0.0,
        first_to: int | None = None,
        free: Free | None = None,
        stake: int = 0,
        batch: int = 10,
        known: Mapping[int, Any] | None = None,
        solo: Any = None,
        random_state: RandomState = None,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        table = Table.of(items, what="items")
        names, rows = read_owners(owners, items, len(table))
        self.classes = _classes(classes)
        chance = check_real(noise, "noise", low=0.0, high=0.5, open_high=True)
        share = check_open_fraction(max_error, "max_error")
        seed = secrets.randbits(63) if random_state is None else _seed(random_state)
        if isinstance(learner, list | tuple):
            committee = committee or len(learner)
        settings = CampaignSettings(
            classes=self.classes, learner=_learner(learner, table),
            committee=check_int(committee, "committee", low=0, high=10_000), max_error=share,
            confidence=check_open_fraction(confidence, "confidence"),
            scope=check_choice(scope, "scope", ("party", "union")), noise=chance,
            first_to=_first_to(first_to, chance, share),
            free=check_choice(free or ("own" if chance else "any"), "free", ("own", "any")),
            stake=check_int(stake, "stake", low=0), batch=check_int(batch, "batch", low=1),
            solo=_solo(solo, names), seed=seed,
        )  # fmt: skip
        owned = [_rows(names[i], rows[i], len(table)) for i in range(len(names))]
        _check_owned(owned, len(table))
        self._state = CampaignState(settings, table, names, owned, self._known(known, table))
        self._questions: dict[str, Question] = {}
        self._ids: dict[tuple[int, Key], str] = {}
        self._answered: dict[str, tuple[int, str | None]] = {}
        self._shown: set[str] = set()
        self._ahead: dict[int, int] = {}
        self._own: set[int] = set()
        self._emitted = 0
        self._lines: list[str] = []
        self._path: Path | None = None if log is None else Path(log)
        self._write(self._start_line(learner is None, solo is None), fresh=True)
        self._warn_small()

    def ask(self, n: int = 1, party: str | None = None) -> list[Question]:
        """Up to ``n`` open questions, of all parties in turn or of one; none when all is done.

        Asking again without answers returns the same questions.
        """
        check_int(n, "n", low=1)
        self._advance()
        found = self._open()
        if party is not None:
            self._party(party)
            found = [question for question in found if question.party == party]
        chosen = found[:n]
        for question in chosen:
            self._show(question)
        return chosen

    def tell(  # type: ignore[override]  # several are open, so an answer names its question
        self,
        question: Question | str,
        label: Any,
        labeler: str | None = None,
        *,
        party: str | None = None,
    ) -> None:
        """Record an answer; ``"skip"`` for "don't know", which counts as work.

        Parameters
        ----------
        question:
            The question, or its id.
        label:
            One of the classes, or ``"skip"``.
        labeler:
            Who answered.
        party:
            Whose labeler it was; an answer from another party than was asked is refused.
        """
        asked = self._find(question)
        if party is not None and party != asked.party:
            raise InvalidInputError(
                f"question {asked.id} belongs to {asked.party!r}, not to {party!r}"
            )
        code = self._code(label)
        self._take(asked, code, labeler)

    def retract(self, question: Question | str, *, blind: bool = True) -> None:
        """Take an answer back; everything else that was paid for stays in use.

        What certificates had spent stays spent. The retracted answer, and answers that the new path
        does not ask for, are reported: the guarantee of the work is weaker by that number.

        Parameters
        ----------
        question:
            The question, or its id.
        blind:
            False if whoever retracts knows which questions are checks: then the items checked so
            far are not used for new certificates.
        """
        self._advance()
        asked = self._find(question, answered=True)
        if asked.id not in self._answered:
            raise InvalidInputError(f"question {asked.id} was not answered; nothing to retract")
        where = self._where(asked)
        del self._answered[asked.id]
        self._shown.discard(asked.id)
        self._state.retract(*where, blind=blind)
        self._emitted, self._own = 0, set()
        self._write(log_lines.Retract(id=asked.id, blind=blind))

    def expire(self, question: Question | str) -> None:
        """Take a question from a labeler who does not answer; it is asked again, of another."""
        asked = self._find(question)
        self._write(log_lines.Expire(id=asked.id))

    def withdraw(self, item: int, reason: str) -> None:
        """Take an item out of all pools; it is reported apart and covered by no certificate."""
        self._advance()
        state = self._state
        item = check_int(item, "item", low=0, high=len(state.table) - 1)
        if item in state.withdrawn:
            raise InvalidInputError(f"item {item} was withdrawn already")
        for key, told in state.given.items():
            checks = key[0] == item and state.purpose.get(key) == "audit"
            if checks and any(code != SKIPPED for code in told.values()):
                raise InvalidInputError(
                    f"item {item} was answered and cannot be withdrawn: its answer is in use"
                )
        state.withdraw(item, reason)
        self._ahead.clear()
        self._write(log_lines.Withdraw(item=item, reason=reason[:1000]))

    def add_items(self, items: Any, *, party: str) -> IntArray:
        """Add rows to the pool of a party that still works; return their positions.

        They take random places in the audit order; labels that were frozen before are not tested
        any further.
        """
        number = self._party(party)
        self._advance()
        joint = self._state.joint
        assert joint is not None
        if self._state.finished or not joint.shadows[number].live:
            raise ProtocolError(
                f"{party!r} has finished; begin a new campaign for new items, with known= labels"
            )
        if not hasattr(joint.shadows[number].run, "add"):
            raise InvalidInputError(
                f"{type(joint.shadows[number].run).__name__} of {party!r} takes no new items"
            )
        return self._add(items, party, number, joins=False)

    def add_party(self, party: str, items: Any) -> IntArray:
        """Let a new party with its items in; return their positions."""
        if party in self._state.names:
            raise InvalidInputError(f"there is a party {party!r} already; use add_items")
        if isinstance(self._state.settings.solo, dict):
            raise InvalidInputError("solo= names a protocol for each party; a new one has none")
        self._advance()
        if self._state.finished:
            raise ProtocolError("the campaign is finished; begin a new one with known= labels")
        number = len(self._state.names)
        self._state.names.append(party)
        self._state.rows.append(np.empty(0, dtype=np.int64))
        return self._add(items, party, number, joins=True)

    def remove_party(self, party: str, *, forget: bool = False) -> None:
        """Let a party go; its open questions are withdrawn.

        Its answers stay in use unless ``forget`` is True; then the others' guarantee is weaker by
        the answers of it that they had used.
        """
        number = self._party(party)
        self._advance()
        if number in self._state.gone:
            raise ProtocolError(f"{party!r} has left already")
        self._state.leave(number, forget=forget)
        if forget:
            self._emitted, self._own = 0, set()
            for name, asked in self._questions.items():
                if asked.party == party:
                    self._answered.pop(name, None)
        self._write(log_lines.Leave(party=party, forget=forget))

    def status(self) -> CampaignStatus:
        """Where the campaign stands."""
        self._advance()
        state = self._state
        assert state.joint is not None
        waiting = [question.party for question in self._open()]
        told = [self._questions[name].party for name in self._answered]
        shadows = state.joint.shadows
        return CampaignStatus(
            finished=state.finished,
            round=state.joint.round,
            open={name: waiting.count(name) for name in state.names},
            answered={name: told.count(name) for name in state.names},
            state={
                name: shadows[i].finished_by if i in shadows else
                ("left" if i in state.gone else "open")
                for i, name in enumerate(state.names)
            },
        )  # fmt: skip

    def work(self, *, estimate: bool = False) -> WorkReport:
        """Who worked how much, against what each would surely have done alone.

        Parameters
        ----------
        estimate:
            Whether to estimate the saving in the end, by running each party's own protocol on
            predicted labels; an estimate, not a bound.
        """
        self._advance()
        state = self._state
        assert state.joint is not None
        accounts = []
        for i, name in enumerate(state.names):
            shadow = state.joint.shadows.get(i)
            asked, void = state.asked(i), state.void(i)
            saving = None
            if estimate and shadow is not None:
                saving = float(expected_work(state, i) + void - asked)
            accounts.append(
                PartyWork(
                    party=name, asked=asked,
                    alone_at_least=0 if shadow is None else shadow.alone_at_least,
                    free=0 if shadow is None else shadow.free,
                    outside_core=0 if shadow is None else len(shadow.outside), retracted=void,
                    finished_by="left" if shadow is None else shadow.finished_by,
                    expected_saving=saving,
                )
            )  # fmt: skip
        solo = state.settings.solo
        told = "; ".join(f"{k}: {v}" for k, v in solo.items()) if isinstance(solo, dict) else solo
        return WorkReport(tuple(accounts), str(told), state.settings.stake)

    def result(self) -> CampaignResult:
        """The labels, where they come from, and what can be signed."""
        self._advance()
        return campaign_result(self._state)

    def reliability(self) -> Reliability:
        """How often each labeler is right, from items that several answered."""
        from counterplay.labeling.reliability import labeler_reliability

        told = [
            (self._questions[name].item, labeler, code)
            for name, (code, labeler) in self._answered.items()
            if labeler is not None and code >= 0
        ]
        return labeler_reliability(told, len(self.classes))

    def summary(self) -> str:
        """Status, work and result as text."""
        parts = [self.status().summary(), self.work().summary(), self.result().summary()]
        return "\n".join(parts)

    def to_frame(self) -> pd.DataFrame:
        """Who worked how much: one row per party."""
        return self.work().to_frame()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars per party: asked, and at least needed alone."""
        return self.work().plot(ax)

    @property
    def events(self) -> tuple[str, ...]:
        """The lines of the log."""
        return tuple(self._lines)

    def log(self) -> str:
        """The log: one line of JSON per event; it holds the secret seed."""
        self._advance()
        return "".join(self._lines)

    def save(self, path: str | os.PathLike[str], *, source: log_lines.Source | None = None) -> None:
        """Write the log to a new file; from then on every event is appended to it.

        Parameters
        ----------
        path:
            The file; one that is there is refused.
        source:
            Where the pool was read from, for the command line.
        """
        text = self.log()
        if source is not None:
            start = structs.replace(log_lines.read_start(text.encode()), source=source)
            self._lines[0] = log_lines.line_text(start)
        target = Path(path)
        if target.exists():
            raise InvalidInputError(f"{target.name[:80]} is there already; nothing was written")
        write_atomic(target, "".join(self._lines))
        self._path = target

    def digest(self) -> str:
        """Hash of the state; it does not depend on the order in which answers arrived."""
        self._advance()
        return self._state.digest()

    def export(self, study: str = "campaign") -> str:
        """Events and certificates as lines that ``counterplay verify`` recounts."""
        from counterplay.labeling.campaign_export import export_text

        self._advance()
        return export_text(study, self._state, self.result(), list(self._questions.values()),
                           self._answered)  # fmt: skip

    @classmethod
    def from_log(
        cls,
        log: str | bytes | os.PathLike[str],
        items: Any,
        *,
        learner: Any = None,
        solo: Any = None,
    ) -> Campaign:
        """Continue a campaign from its log.

        Parameters
        ----------
        log:
            The text of the log, or the path of its file, to which further events are appended.
        items:
            The pool, with all rows that were added.
        learner:
            Needed only where the log cannot name it, such as a pipeline.
        solo:
            Needed only where the log cannot name it, such as an object of your own.
        """
        from counterplay.labeling.campaign_replay import replayed

        return replayed(cls, log, items, learner, solo)

    @classmethod
    def simulate(
        cls,
        items: Any,
        y: Any,
        *,
        owners: Any,
        learner: Any = None,
        max_error: float = 0.05,
        confidence: float = 0.95,
        scope: Scope = "party",
        noise: float = 0.0,
        solo: Any = None,
        seeds: int = 1,
        random_state: int = 0,
    ) -> CampaignStudy:
        """Play a campaign on data whose labels are known: alone, together, pooled.

        Parameters
        ----------
        items:
            The pool.
        y:
            Its true labels.
        owners:
            Who owns which rows, as for a campaign.
        learner:
            The classifier, as for a campaign.
        max_error:
            Share of wrong labels that is tolerated.
        confidence:
            One minus the probability of a false certificate.
        scope:
            A certificate for each party, or one for the union.
        noise:
            Chance that a single answer is wrong.
        solo:
            What a party would do alone.
        seeds:
            Number of repetitions, with other audit orders and first questions.
        random_state:
            Seed of the first repetition.
        """
        from counterplay.labeling.campaign_study import simulate

        return simulate(
            items, y, owners=owners, seeds=seeds, random_state=random_state,
            settings={"learner": learner, "max_error": max_error, "confidence": confidence,
                      "scope": scope, "noise": noise, "solo": solo},
        )  # fmt: skip

    def __repr__(self) -> str:
        n, k = len(self._state.table), len(self._state.names)
        return f"Campaign({n} items, {k} parties, {len(self._answered)} answers)"

    def _advance(self) -> None:
        """Go on as far as answers allow; write down what followed."""
        if not self._state.open():
            self._ahead.clear()
        self._state.advance()
        joint = self._state.joint
        if joint is None:
            return
        for event in joint.emitted[self._emitted :]:
            self._write(_derived(event, self._state.names))
        self._emitted = len(joint.emitted)
        for party, shadow in joint.shadows.items():
            certificate = getattr(shadow.run, "certificate", None)
            if shadow.finished_by == "own" and party not in self._own and certificate is not None:
                self._own.add(party)
                self._write(
                    log_lines.CertifyLine(
                        vector=None, scope=self._state.names[party], checked=certificate.checked,
                        wrong=certificate.wrong, known_wrong=0, bound=certificate.bound,
                    )
                )  # fmt: skip

    def _open(self) -> list[Question]:
        """Open questions, parties in turn, each with its id."""
        by_party: dict[int, list[Question]] = {}
        for party, key in self._state.open():
            by_party.setdefault(party, []).append(self._question(party, key))
        turns: list[Question] = []
        columns = [by_party[party] for party in sorted(by_party)]
        for place in range(max(map(len, columns), default=0)):
            turns += [column[place] for column in columns if place < len(column)]
        return turns

    def _question(self, party: int, key: Key) -> Question:
        known = self._ids.get((party, key))
        if known is None:
            known = f"q{len(self._questions) + 1}"
            kind = self._state.purpose.get(key, "learn")
            name = self._state.names[party]
            self._ids[party, key] = known
            self._questions[known] = Question(known, name, key[0], kind, key[2])  # type: ignore[arg-type]
        return self._questions[known]

    def _where(self, question: Question) -> tuple[int, Key]:
        kind = question.kind if self._state.settings.noise else "label"
        return self._state.names.index(question.party), (question.item, kind, question.repeat)

    def _show(self, question: Question) -> None:
        """Write down that a question was handed out."""
        if question.id in self._shown:
            return
        self._shown.add(question.id)
        joint = self._state.joint
        assert joint is not None
        party, key = self._where(question)
        shadow = joint.shadows[party]
        if party not in self._ahead:  # the account changes with answers only
            self._ahead[party] = len(shadow.core_keys())
        self._write(
            log_lines.Ask(
                id=question.id, party=question.party, item=question.item, kind=question.kind,
                repeat=question.repeat, core=key not in shadow.outside,
                passed=len(shadow.passed), ahead=self._ahead[party],
            )
        )  # fmt: skip

    def _find(self, question: Question | str, *, answered: bool = False) -> Question:
        if self._state.joint is None:  # not begun, or begun again after a retraction
            self._advance()
        name = question if isinstance(question, str) else question.id
        found = self._questions.get(name)
        if found is None or (isinstance(question, Question) and question != found):
            raise InvalidInputError(f"question {shown(name, 40)[1:-1]} was not asked")
        if answered:
            return found
        if name in self._answered:
            code, labeler = self._answered[name]
            label = SKIP if code == SKIPPED else self.classes[code]
            by = "" if labeler is None else f" by {labeler}"
            raise InvalidInputError(
                f"question {name} was answered {label!r}{by}; retract it first to change it"
            )
        if name not in self._shown:
            raise InvalidInputError(f"question {name} was not asked")
        party, key = self._where(found)
        if not self._state.is_open(party, key):
            raise InvalidInputError(f"question {name} is not open any more; ask() gives those")
        return found

    def _code(self, label: Any) -> int:
        if isinstance(label, str) and label == SKIP and SKIP not in self.classes:
            return SKIPPED
        for code, known in enumerate(self.classes):
            if type(known) is type(label) and known == label:
                return code
        plain = label.item() if isinstance(label, np.generic) else label
        for code, known in enumerate(self.classes):
            if known == plain and isinstance(known, bool) == isinstance(plain, bool):
                return code
        near = nearest(str(label), map(str, self.classes)).replace("(nearest:", "did you mean")
        hint = f";{near[:-1]}?" if near else ""
        raise InvalidInputError(
            f"{shown(label)} is not a class of this campaign{hint} (classes: "
            f"{listed(self.classes)})"
        )

    def _take(self, question: Question, code: int, labeler: str | None) -> None:
        self._state.take(*self._where(question), code)
        self._ahead.clear()
        self._answered[question.id] = code, labeler
        if code == SKIPPED:
            self._write(log_lines.Skip(id=question.id, labeler=labeler))
        else:
            self._write(log_lines.Tell(id=question.id, label=code, labeler=labeler))

    def _party(self, name: str) -> int:
        if name not in self._state.names:
            known = listed(self._state.names)
            raise InvalidInputError(f"there is no party {shown(name, 40)}; parties are {known}")
        return self._state.names.index(name)

    def _add(self, items: Any, party: str, number: int, *, joins: bool) -> IntArray:
        from counterplay.labeling.campaign_replay import joined_tables

        old = self._state.table
        table = joined_tables(old, items)
        rows = np.arange(len(old), len(table), dtype=np.int64)
        self._enlarge(table, party, number, rows, joins=joins)
        return rows

    def _enlarge(
        self, table: Table, party: str, number: int, rows: IntArray, *, joins: bool
    ) -> None:
        state = self._state
        state.add(table, number, rows)
        if joins:
            state.joined[number] = state.amendments[-1].round
        mark = log_lines.pool_mark(table.part(rows))
        self._write(log_lines.Add(party=party, rows=tuple(rows.tolist()), fingerprint=mark,
                                  joins=joins))  # fmt: skip

    def _known(self, known: Mapping[int, Any] | None, table: Table) -> dict[int, int]:
        found = {}
        for item, label in (known or {}).items():
            place = check_int(item, "a row of known", low=0, high=len(table) - 1)
            found[place] = self._code(label)
        return found

    def _start_line(self, default_learner: bool, default_solo: bool) -> log_lines.Start:
        state, s = self._state, self._state.settings
        return log_lines.Start(
            v=1,
            fingerprint=log_lines.pool_mark(state.table),
            n=len(state.table),
            parties={
                name: tuple(rows.tolist()) for name, rows in zip(state.names, state.rows)
            },
            classes=self.classes,
            settings=log_lines.Settings(
                max_error=s.max_error, confidence=s.confidence, scope=s.scope, noise=s.noise,
                first_to=s.first_to, free=s.free, stake=s.stake, batch=s.batch,
                committee=s.committee, learner=log_lines.describe(s.learner, default_learner),
                solo=log_lines.describe(s.solo, default_solo),
            ),
            seed=s.seed,
            commit=state.commitment(),
            known={str(item): code for item, code in state.known.items()},
            library=counterplay.__version__,
        )  # fmt: skip

    def _write(self, record: Any, *, fresh: bool = False) -> None:
        line = log_lines.line_text(record)
        self._lines.append(line)
        if self._path is not None:
            try:
                with open(self._path, "xb" if fresh else "ab") as stream:
                    stream.write(line.encode())
                    stream.flush()
                    os.fsync(stream.fileno())
            except FileExistsError:
                raise InvalidInputError(
                    f"{self._path.name[:80]} is there already; go on with Campaign.from_log"
                ) from None

    def _warn_small(self) -> None:
        s = self._state.settings
        for name, rows in zip(self._state.names, self._state.rows):
            if allowed_wrong(len(rows), s.max_error) == 0 and s.scope == "party":
                warnings.warn(
                    f"pool {name!r} has {len(rows)} items: at most {100 * s.max_error:g} % wrong "
                    "means no wrong label at all; every item will be asked",
                    AssumptionWarning,
                    stacklevel=4,
                )


def _derived(event: Launch | Certified, names: Sequence[str]) -> log_lines.Line:
    v = event.vector
    if isinstance(event, Certified):
        c = event.certificate
        return log_lines.CertifyLine(
            vector=v.number, scope=c.scope, checked=c.checked, wrong=c.wrong,
            known_wrong=v.known_wrong, bound=c.bound,
        )  # fmt: skip
    return log_lines.LaunchLine(
        vector=v.number, scope="union" if event.scope < 0 else names[event.scope],
        items=tuple(v.items.tolist()), labels=tuple(v.labels.tolist()), n=v.n, alpha=v.alpha,
    )  # fmt: skip


def _classes(classes: Sequence[Any]) -> tuple[Any, ...]:
    from counterplay.tables.labels import label_values

    found = tuple(label_values(list(classes), "classes").tolist())
    if len(set(map(str, found))) < len(found) or not 2 <= len(found) <= 255:
        raise InvalidInputError(f"classes must be 2 to 255 different labels, got {listed(found)}")
    return found


def _seed(random_state: RandomState) -> int:
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return check_int(random_state, "random_state", low=0, high=2**63 - 1)
    return int(generator(random_state).integers(2**63 - 1))


def _learner(learner: Any, table: Table) -> Any:
    if learner is None:
        return default_learner(table)
    if isinstance(learner, list | tuple):
        if not learner:
            raise InvalidInputError("learner must not be an empty list")
        return [check_learner(one) for one in learner]
    return check_learner(learner)


def _solo(solo: Any, names: Sequence[str]) -> Any:
    if solo is None:
        return TestFirstSolo()
    each = [solo.get(n, None) for n in names] if isinstance(solo, dict) else [solo]
    if not all(hasattr(one, "start") for one in each):
        raise InvalidInputError(
            "solo must be TestFirstSolo(...), an object with start(pool), or one for each party by "
            "name"
        )
    return solo


def _first_to(first_to: int | None, noise: float, max_error: float) -> int:
    enough = next((r for r in (1, 2, 4, 6, 10, 20) if _good(r, noise)), 20)
    if first_to is None:
        return enough
    count = check_int(first_to, "first_to", low=1, high=20)
    if count == 1 and noise >= max_error:
        raise InvalidInputError(
            f"with {100 * noise:g} % wrong answers a single answer cannot show "
            f"{100 * max_error:g} %; use first_to={enough} (error of the adjudicated answer "
            f"{100 * adjudication_error(noise, enough):.1f} %)"
        )
    return count


def _good(first_to: int, noise: float) -> bool:
    """1 without noise, 2 up to 10 % wrong answers, 4 up to 20 %, more above."""
    most = {1: 0.0, 2: 0.10, 4: 0.20, 6: 0.27, 10: 0.34, 20: 0.5}
    return noise <= most[first_to]


def _rows(name: str, rows: Any, n: int) -> IntArray:
    try:
        array = np.asarray(rows)
        whole = array.ndim == 1 and (array.size == 0 or array.dtype.kind in "iu")
    except (TypeError, ValueError):
        whole = False
    if not whole or not len(array) or array.min() < 0 or array.max() >= n:
        raise InvalidInputError(f"the rows of {name!r} must be positions from 0 to {n - 1}")
    return np.unique(array).astype(np.int64)


def _check_owned(rows: Sequence[IntArray], n: int) -> None:
    free = np.setdiff1d(np.arange(n), np.concatenate(rows))
    if free.size:
        raise InvalidInputError(
            f"row {int(free[0])} has no owner; give every row an owner or drop it"
        )
