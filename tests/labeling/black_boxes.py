"""Solo protocols that nobody can foresee: what they ask next is a hash of everything so far."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from counterplay.labeling.shadow import Answers, Key, Shadow
from counterplay.labeling.solo import Step


class BlackBox:
    """A run that asks one to three items at once and stops when a hash says so."""

    def __init__(self, items: list[int], seed: int) -> None:
        self.items, self.seed = items, seed
        self.history: list[tuple[int, int]] = []
        self.step = self._choose()

    def ask(self) -> Step | None:
        return self.step

    def tell(self, results: Mapping[int, int]) -> None:
        assert self.step is not None
        self.history += [(item, results[item]) for item in self.step.items]
        self.step = self._choose()

    def core(self) -> list[int]:
        return []

    def _choose(self) -> Step | None:
        rng = random.Random(hash((self.seed, tuple(self.history))))
        asked = {item for item, _ in self.history}
        left = [item for item in self.items if item not in asked]
        if not left or (self.history and rng.random() < 0.15):
            return None
        return Step("learn", tuple(rng.sample(left, min(len(left), rng.randint(1, 3)))))


@dataclass
class Tally:
    """Work of all party-runs, alone and together."""

    alone: list[int] = field(default_factory=list)
    together: list[int] = field(default_factory=list)

    @property
    def worse(self) -> int:
        return sum(b > a for a, b in zip(self.alone, self.together))


def alone(items: list[int], seed: int, truth: list[int], known: set[int]) -> int:
    """Questions that the black box asks alone; known labels cost nothing."""
    run, asked = BlackBox(items, seed), 0
    while (step := run.ask()) is not None:
        asked += sum(item not in known for item in step.items)
        run.tell({item: truth[item] for item in step.items})
    return asked


def play(
    seed: int,
    tally: Tally,
    *,
    free: str = "any",
    independent: float = 0.0,
    predicted: float | None = None,
) -> None:
    """One asynchronous campaign of three black boxes with overlapping pools of 30 items.

    ``independent``: chance that a party's answer differs from the common one; ``predicted``: chance
    that a predicted answer is wrong, where predictions are fed (which the library never does).
    """
    rng = random.Random(seed)
    pools = [sorted(rng.sample(range(30), rng.randint(8, 21))) for _ in range(3)]
    common = [int(rng.random() < 0.5) for _ in range(30)]  # noise included: answers are attached
    truth = [[c ^ int(rng.random() < independent) for c in common] for _ in range(3)]
    known = {} if independent else {x: common[x] for x in rng.sample(range(30), rng.randint(0, 5))}
    answers = Answers(1, False, free, known)  # type: ignore[arg-type]
    boxes = [Shadow(i, pools[i], BlackBox(pools[i], 100 * seed + i), answers) for i in range(3)]
    waiting: list[tuple[int, Key]] = []
    while any(box.live for box in boxes):
        for box in boxes:
            while box.live and not box.wanted():
                box.feed()
        _put_some(boxes, answers, waiting, rng)
        if predicted is not None and rng.random() < 0.5:
            _predict(boxes, answers, common, predicted, rng)
        elif waiting:
            party, key = waiting.pop(rng.randrange(len(waiting)))
            answers.given.setdefault(key, {})[party] = truth[party][key[0]]
    for i, box in enumerate(boxes):
        tally.alone.append(alone(pools[i], 100 * seed + i, truth[i], set(known)))
        tally.together.append(len(box.put))


def _put_some(
    boxes: list[Shadow], answers: Answers, waiting: list[tuple[int, Key]], rng: random.Random
) -> None:
    """Put some questions: of the core, or any that the slack allows."""
    for box in boxes:
        if not box.live:
            continue
        wanted = [key for key in box.wanted() if key not in box.put]
        if rng.random() < 0.3:  # something else, wherever the account allows it
            others = [answers.key(item, "learn") for item in box.items]
            wanted = [k for k in others if k not in answers.given and k not in box.put
                      and k[0] not in answers.known]  # fmt: skip
        for key in wanted[: rng.randint(1, 3)]:
            if box.may_put(key):
                box.put.add(key)
                waiting.append((box.party, key))


def _predict(
    boxes: list[Shadow], answers: Answers, common: list[int], wrong: float, rng: random.Random
) -> None:
    live = [box for box in boxes if box.live]
    box = rng.choice(live) if live else boxes[0]
    for key in box.wanted()[:1]:
        if key not in box.put:
            answers.given[key] = {9: common[key[0]] ^ int(rng.random() < wrong)}
