"""The questionnaire for people who err: a certificate that survives their slips.

One bet per possible preference: a wrong preference must bet against the person and loses money;
what is still solvent is the confidence region; the certificate is the largest regret over it.
A prior, a population, a clever choice of questions can only make it faster, never wrong.
Source: docs/theory/26-people.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.records import pack_array, write_record
from counterplay.core.seeds import RandomState, derive_seed, generator
from counterplay.core.session import Session
from counterplay.core.validation import (
    FloatArray,
    check_choice,
    check_float_array,
    check_int,
    check_real,
)
from counterplay.elicitation.choice_log import ChoiceAnswer, ChoiceQuery, Kind
from counterplay.elicitation.comparisons import Option
from counterplay.elicitation.forecast import PARTICLES
from counterplay.elicitation.item_table import ItemTable
from counterplay.elicitation.regrets import regrets
from counterplay.elicitation.reliable_export import export_reliable, reliable_chain
from counterplay.elicitation.reliable_result import ReliableResult
from counterplay.elicitation.reliable_standing import standing
from counterplay.elicitation.reliable_state import MOST_DIMENSIONS, ReliableState, Settings, Stop
from counterplay.elicitation.saved import replayed
from counterplay.elicitation.saved_choices import (
    ReliableSettings,
    SavedChoice,
    SavedErrors,
    SavedReliable,
    entries_of,
    read_prior,
    read_reliable,
)
from counterplay.elicitation.slips import AtMost, Unknown
from counterplay.errors import InvalidInputError, ProtocolError

if TYPE_CHECKING:
    import pandas as pd

_CELLS, _MANY_CELLS = 40_000, 200_000


@checked
class ReliableElicitor(Session):
    """Find the item a person wants although some answers are wrong, with a certificate.

    Use it for people. The certificate holds with the stated confidence if at most the stated share
    of the answers given are wrong, whatever the pattern of errors and whatever the prior. It costs
    about three times the questions of :class:`PolytopeElicitor`, which assumes that every answer
    is right.

    Parameters
    ----------
    source:
        A :class:`Catalogue` or a table of values.
    confidence:
        Probability with which the certificate holds.
    target_regret:
        Stop when the recommended item is certified to be at most this fraction below the best one.
        With attributes of unknown sign: this fraction of the distance from the worst to the best.
    errors:
        What is assumed about wrong answers: ``AtMost(0.1)``, or ``Unknown()``.
    prior:
        What is known about people in advance: a :class:`Population`, or a table of weights, one
        person per row. One fifth of the prior stays flat. It never makes a certificate wrong.
    show:
        Items per question, 2 to 4, or ``"rank"`` for a ranking of three.
    check_every:
        Every so many questions an earlier clear one is asked again, to test the bound on errors;
        0: never.
    stop:
        ``"reliable"``: at the certificate. ``"credible"``: at the posterior probability, if
        prior and answer model are right: nothing is promised if they are not. ``"exact"``: as
        :class:`PolytopeElicitor`, if every answer is right.
    max_questions:
        Most questions, repeats included.
    max_cells:
        Effort of the search for a regretful preference; beyond it nothing is certified.
    random_state:
        Seed of the particles, of the order of options and of the choice of questions.

    Notes
    -----
    Options are shown in random order: that is part of the proof, because people who tick the first
    one are then wrong half of the time at most. "Same" and "cannot say" change nothing.

    Examples
    --------
    >>> items = np.random.default_rng(0).random((100, 3))
    >>> taste = np.array([0.5, 0.3, 0.2])
    >>> elicitor = ReliableElicitor(items, target_regret=0.1, random_state=0)
    >>> while not elicitor.done:
    ...     query = elicitor.ask()
    ...     elicitor.tell(1 + int(np.argmax([option.value @ taste for option in query.options])))
    >>> result = elicitor.result
    >>> result.n_queries <= 20, bool(result.regret_certificate <= 0.1)
    (True, True)

    References
    ----------
    J. Ville, Etude critique de la notion de collectif, 1939. I. Waudby-Smith, A. Ramdas,
    Estimating means of bounded random variables by betting, 2024.
    """

    _query: ChoiceQuery | None
    _ready: bool
    _asked: bool
    _standing: ReliableResult | None

    def __init__(
        self,
        source: Any,
        *,
        confidence: float = 0.95,
        target_regret: float = 0.05,
        errors: AtMost | Unknown | None = None,
        prior: Any = None,
        show: int | Literal["rank"] = 2,
        check_every: int = 6,
        stop: Stop = "reliable",
        max_questions: int = 60,
        max_cells: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.source = source
        self.confidence = confidence
        self.target_regret = target_regret
        self.errors = AtMost(0.1) if errors is None else errors
        self.prior = prior
        self.show = show
        self.check_every = check_every
        self.stop_rule = stop
        self.max_questions = max_questions
        self.max_cells = max_cells
        self.random_state = random_state
        self._items = ItemTable.of(source)
        self._settings = self._checked_settings()
        self._seed = int(generator(random_state).integers(2**31))
        self._particles = _particles(self._items, prior, self._seed)
        self._restart([])

    def ask(self) -> ChoiceQuery | None:
        """Return the next question, or None when there is none; asking twice is free."""
        self._prepare()
        self._asked = self._query is not None
        return self._query

    def tell(self, answer: Any) -> None:
        """Answer the question.

        Parameters
        ----------
        answer:
            Its number (1, 2, ...), ``"first"`` or ``"second"``, the name of a row, ``"same"`` or
            ``"cannot say"``; a list of all numbers, the best first, if a ranking was asked for.
        """
        self._prepare()
        if not self._asked or self._query is None:
            raise ProtocolError("call ask() before tell()")
        query = self._query
        said, order = query.parse(answer)
        if self._settings.ranking and said == "choice" and len(order) == 1:
            raise InvalidInputError("put all options in order: a list such as [2, 1, 3]")
        values = self._items.values[list(query.rows)]
        kind: Kind = "asked" if query.repeats is None else "repeat"
        self._state.apply(ChoiceAnswer(kind, query.rows, said, order, values, query.repeats))
        self._forget_query()

    def volunteer(
        self, first: Any, second: Any, answer: Any, *, units: Literal["raw", "values"] = "raw"
    ) -> None:
        """Take a comparison the person offers unasked.

        Parameters
        ----------
        first:
            Position of an item (an integer), or a vector.
        second:
            The other option, likewise.
        answer:
            ``"first"``, ``"second"``, ``"same"`` or ``"cannot say"``.
        units:
            Vectors on a :class:`Catalogue`: ``"raw"`` for the units of its columns, in which less
            of a cost is better, or ``"values"``. Vectors on a plain table are values.
        """
        check_choice(units, "units", ("raw", "values"))
        rows = tuple(
            check_int(int(x), "option", low=0, high=len(self._items.values) - 1)
            for x in (first, second)
            if isinstance(x, int | np.integer) and not isinstance(x, bool)
        )
        whole = len(rows) == 2 and rows[0] != rows[1]
        pair = [
            self._items.values[int(x)]
            if isinstance(x, int | np.integer)
            else self._items.vector(x, units)
            for x in (first, second)
        ]
        labels = tuple(self._items.labels[row] for row in rows) if whole else ()
        shown = tuple(Option(value) for value in pair)
        said, order = ChoiceQuery(shown, rows if whole else (0, 1), labels=labels).parse(answer)
        kept = rows if whole else ()
        self._state.apply(ChoiceAnswer("volunteered", kept, said, order, np.array(pair)))
        self._forget_query()

    def undo(self) -> None:
        """Take the last answer back; also after the last question."""
        if not self._state.log:
            raise ProtocolError("there is no answer to take back")
        self._restart(self._state.log[:-1])

    def stop(self) -> None:
        """End the questionnaire now; the result keeps its certificate, whatever it is."""
        self._state.stopped = True
        self._forget_query()

    def why(self) -> str:
        """Return why the open question is asked."""
        query = self.ask()
        return "there is no open question" if query is None else query.reason

    @property
    def events(self) -> tuple[ChoiceAnswer, ...]:
        """Every answer so far."""
        return tuple(self._state.log)

    @property
    def answers(self) -> tuple[ChoiceAnswer, ...]:
        """Every answer so far."""
        return self.events

    @property
    def result(self) -> ReliableResult:
        """The recommendation on the answers so far; ``result()`` is the same."""
        return self.current()

    def current(self) -> ReliableResult:
        """Return the recommendation on the answers so far, with its three numbers."""
        if self._standing is None:
            self._standing = standing(self._state, finished=self.done)
        return self._standing

    @property
    def certificate(self) -> float | None:
        """Largest regret of the recommended item over the region; None if void."""
        return self.current().regret_certificate

    def best_guess(self) -> int:
        """Return the position of the item with the smallest expected regret."""
        return self._state.recommended()

    def ranking(self, n: int = 10) -> pd.DataFrame:
        """Return the ``n`` items with the smallest expected regret."""
        import pandas as pd

        state, items = self._state, self._items
        found = regrets(state.forecast.weights, state.pool_values, ranged=items.ranged)
        mean = state.forecast.shares @ found
        best = np.argsort(mean, kind="stable")[: check_int(n, "n", low=1)]
        rows = items.pool[best]
        return pd.DataFrame(
            {
                "item": [items.describe(int(row)) for row in rows],
                "expected_regret": mean[best],
                "chance_best": state.forecast.shares @ (found[:, best] <= 1e-12),
            },
            index=items.index[rows],
        )

    def predict_choice(self, rows: Any) -> pd.Series:
        """Return the probability with which this person picks each of several items.

        Parameters
        ----------
        rows:
            Positions of items, or a frame with the columns of the catalogue.
        """
        import pandas as pd

        items = self._items
        if hasattr(rows, "columns"):
            if items.catalogue is None:
                raise InvalidInputError("a frame of new items needs a questionnaire on a Catalogue")
            columns = list(items.catalogue.columns)
            missing = [c for c in columns if c not in rows.columns]
            if missing:
                raise InvalidInputError(f"the frame has no column {missing[0]!r:.60}")
            numbers = check_float_array(rows[columns].to_numpy(), "rows", ndim=2)
            values, index = items.catalogue.normalise(numbers), rows.index
        else:
            positions = [
                check_int(row, "rows", low=0, high=len(items.values) - 1) for row in list(rows)
            ]
            values, index = items.values[positions], items.index[positions]
        if len(values) < 2:
            raise InvalidInputError("a choice needs at least two items")
        return pd.Series(self._state.forecast.predict(values), index=index, name="probability")

    def to_json(self) -> str:
        """Return settings and answers as JSON; :meth:`from_json` continues from them."""
        record = SavedReliable(
            kind="ReliableElicitor",
            version=1,
            problem=self._items.fingerprint(),
            params=ReliableSettings(
                confidence=float(self.confidence),
                target_regret=float(self.target_regret),
                errors=SavedErrors.of(self.errors),
                show=self.show,
                check_every=self.check_every,
                stop=self.stop_rule,
                max_questions=self.max_questions,
                max_cells=self.max_cells,
            ),
            seed=self._seed,
            prior=None if self.prior is None else pack_array(self._particles),
            answers=tuple(map(SavedChoice.of, self._state.log)),
            stopped=self._state.stopped,
            asked=self._asked,
        )
        return write_record(record)

    def export(self, study: str = "elicitation", person: str = "person") -> str:
        """Return questions, forecasts, answers and result as lines for ``counterplay verify``.

        Parameters
        ----------
        study:
            Name of the study.
        person:
            Name of the stream of events: who answered.
        """
        state = self._state
        chain = reliable_chain(person, tuple(state.log), self._particles, stopped=state.stopped)
        bound = state.view.bound or 0
        return export_reliable(
            study, self._items, self.errors, float(self.target_regret), chain, self.current(), bound
        )

    @classmethod
    def from_json(cls, text: str, source: Any) -> ReliableElicitor:
        """Continue a saved questionnaire on the same items.

        The answers are replayed: the certificate is computed, never read. Raises
        ``InvalidStateError`` when the text is damaged or about other items.
        """
        saved = read_reliable(text, ItemTable.of(source))
        elicitor = cls.__new__(cls)
        replayed(lambda: elicitor._resume(source, saved))
        return elicitor

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "saved": self.to_json()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(type(self).from_json(state["saved"], state["source"])))

    def __repr__(self) -> str:
        told = [f"{len(self._items.values)} items"]
        told += [f"confidence={self.confidence:g}", f"target_regret={self.target_regret:g}"]
        return f"{type(self).__name__}({', '.join(told)}, errors={self.errors!r})"

    def _resume(self, source: Any, saved: SavedReliable) -> None:
        """Take parameters and answers of a saved questionnaire."""
        params = saved.params
        ReliableElicitor.__init__(
            self, source, confidence=params.confidence, target_regret=params.target_regret,
            errors=params.errors.errors(), show=params.show, check_every=params.check_every,
            stop=params.stop, max_questions=params.max_questions, max_cells=params.max_cells,
            random_state=0,
        )  # fmt: skip
        self._seed = saved.seed
        self.prior = read_prior(saved, self._items.k)
        self._particles = (
            _particles(self._items, None, saved.seed) if self.prior is None else self.prior
        )
        self._restart(entries_of(saved, self._items), saved.stopped)
        self._asked = saved.asked

    def _checked_settings(self) -> Settings:
        alpha = self.confidence
        if not 0 < check_real(alpha, "confidence") < 1:
            raise InvalidInputError(
                f"confidence must lie strictly between 0 and 1, got {alpha}; no answer makes "
                "certain"
            )
        ranking = self.show == "rank"
        show = 3 if self.show == "rank" else check_int(self.show, "show", low=2, high=4)
        stop = check_choice(self.stop_rule, "stop", ("reliable", "credible", "exact"))
        k = self._items.k
        if k > MOST_DIMENSIONS and stop == "reliable":
            raise InvalidInputError(_too_many(self._items))
        if stop == "exact" and (show != 2 or self._items.ranged):
            raise InvalidInputError(
                "stop='exact' compares two items whose attributes have known signs"
            )
        cells = self.max_cells
        if cells is None:
            cells = _CELLS if k < 5 else _MANY_CELLS
        return Settings(
            float(self.confidence),
            check_real(self.target_regret, "target_regret", low=1e-6, high=1.0, open_high=True),
            self.errors,
            show,
            ranking,
            check_int(self.check_every, "check_every", low=0),
            stop,
            check_int(self.max_questions, "max_questions", low=1),
            check_int(cells, "max_cells", low=1),
        )

    def _restart(self, entries: Sequence[ChoiceAnswer], stopped: bool = False) -> None:
        self._state = ReliableState(self._items, self._settings, self._seed, self._particles)
        for entry in entries:
            self._state.apply(entry)
        self._state.stopped = stopped
        self._forget_query()

    def _prepare(self) -> None:
        if not self._ready:
            self._query = self._state.next_query()
            self._ready = True

    def _forget_query(self) -> None:
        self._query, self._ready, self._asked = None, False, False
        self._standing = None


def _particles(items: ItemTable, prior: Any, seed: int) -> FloatArray:
    """Return the prior: flat, or four fifths from the people given and one fifth flat."""
    rng = np.random.default_rng(derive_seed(seed, "particles"))
    flat = rng.dirichlet(np.ones(items.k), PARTICLES)
    if items.unknown.size:
        flat[:, items.unknown] *= rng.choice([-1.0, 1.0], size=(PARTICLES, items.unknown.size))
    if prior is None:
        return np.asarray(flat)
    informed = PARTICLES - PARTICLES // 5
    if hasattr(prior, "particles"):
        people = prior.particles(informed, items.catalogue, random_state=derive_seed(seed, "prior"))
    else:
        people = check_float_array(prior, "prior", ndim=2)
        if people.shape[1] != items.k or not len(people):
            raise InvalidInputError(
                f"prior must have one weight for each of {', '.join(items.names)}, got shape "
                f"{people.shape}"
            )
        people = people[rng.integers(len(people), size=informed)]
    known = np.setdiff1d(np.arange(items.k), items.unknown)
    if (people[:, known] < 0).any() or not (np.abs(people).sum(axis=1) > 0).all():
        raise InvalidInputError("weights of a prior must not be negative, nor all 0")
    people = people / np.abs(people).sum(axis=1, keepdims=True)
    return np.vstack([people, flat[: PARTICLES // 5]])


def _too_many(items: ItemTable) -> str:
    """The sentence about too many dimensions, with the curve that makes most of them."""
    curves = {} if items.catalogue is None else items.catalogue.curves
    columns = items.k if items.catalogue is None else len(items.catalogue.columns)
    bent = "".join(
        f", {name!r} with {n} segments" for name, n in curves.items() if n == max(curves.values())
    )
    return (
        f"{items.k} dimensions ({columns} attributes{bent}); certificates go up to "
        f"{MOST_DIMENSIONS}: use fewer segments, or stop='credible'"
    )
