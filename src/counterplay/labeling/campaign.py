"""A labelling campaign of several parties: no right model, people who err, nobody worse than alone.

Every party's own protocol runs as a shadow inside the campaign and is asked only what it would
surely have asked alone. The others' answers train a joint model that lets it stop earlier; the stop
is an audit of randomly chosen items. The log of events is the state.
Source: docs/theory/24-campaign.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState
from counterplay.core.validation import check_choice, check_int, check_open_fraction, check_real
from counterplay.errors import InvalidInputError
from counterplay.labeling import campaign_settings as reading
from counterplay.labeling.campaign_changes import ChangingCampaign
from counterplay.labeling.campaign_questions import Question
from counterplay.labeling.campaign_report import CampaignResult, CampaignStatus, WorkReport
from counterplay.labeling.campaign_result import campaign_result, work_report
from counterplay.labeling.campaign_state import CampaignSettings, CampaignState
from counterplay.labeling.joint import Scope
from counterplay.labeling.owners import read_owners
from counterplay.labeling.shadow import Free
from counterplay.tables import Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from counterplay.labeling.campaign_study import CampaignStudy
    from counterplay.labeling.reliability import Reliability


@checked
class Campaign(ChangingCampaign):
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
    >>> import numpy as np
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

    References
    ----------
    Theorem 24.1, Proposition 24.A, see docs/theory/24-campaign.md.
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
        chance = check_real(noise, "noise", low=0.0, high=0.5, open_high=True)
        share = check_open_fraction(max_error, "max_error")
        if isinstance(learner, list | tuple):
            committee = committee or len(learner)
        settings = CampaignSettings(
            classes=reading.read_classes(classes), learner=reading.read_learner(learner, table),
            committee=check_int(committee, "committee", low=0, high=10_000), max_error=share,
            confidence=check_open_fraction(confidence, "confidence"),
            scope=check_choice(scope, "scope", ("party", "union")), noise=chance,
            first_to=reading.read_first_to(first_to, chance, share),
            free=check_choice(free or ("own" if chance else "any"), "free", ("own", "any")),
            stake=check_int(stake, "stake", low=0), batch=check_int(batch, "batch", low=1),
            solo=reading.read_solo(solo, names), seed=reading.read_seed(random_state),
        )  # fmt: skip
        owned = [reading.read_rows(names[i], rows[i], len(table)) for i in range(len(names))]
        reading.check_owned(owned, len(table))
        given = reading.read_known(known, settings.classes, table)
        super().__init__(CampaignState(settings, table, names, owned, given), log)
        start = reading.start_line(
            self._state, default_learner=learner is None, default_solo=solo is None
        )
        self._write(start, fresh=True)
        reading.warn_small(self._state)

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
        labeler: str | int | None = None,
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
            Who answered: a name or a number.
        party:
            Whose labeler it was; an answer from another party than was asked is refused.
        """
        asked = self._find(question)
        if party is not None and party != asked.party:
            raise InvalidInputError(
                f"question {asked.id} belongs to {asked.party!r}, not to {party!r}"
            )
        code = self._code(label)
        self._take(asked, code, reading.read_labeler(labeler))

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
        return work_report(self._state, estimate=estimate)

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
