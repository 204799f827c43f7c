"""Who is in a federation: names, goodbyes, silent parties and parties that are set aside."""

from __future__ import annotations

from collections.abc import Collection, Iterable

SET_ASIDE_AFTER = 3  # refused answers in a row


class Roster:
    """Who is in the federation: names, goodbyes, and parties that do not answer.

    A party that said goodbye is never asked again. A party that did not answer is left out of the
    next rounds, twice as long after each further silence, so that a dead party does not cost a
    timeout in every round; a party that answered with an error is asked again in the next round. A
    party whose answers were refused three times in a row is set aside and not asked again.
    """

    def __init__(self) -> None:
        self.left: dict[int, int] = {}
        self.aside: dict[int, int] = {}
        self._refusals: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._numbers: dict[int, int] = {}
        self._absences: dict[int, int] = {}
        self._ask_again: dict[int, int] = {}

    def number(self, node: int) -> int:
        """Return a small number for the party, the key of the rule's memory."""
        return self._numbers.setdefault(node, len(self._numbers))

    def name(self, node: int) -> str:
        """Return the party's own name, or ``node N``."""
        return self._names.get(node, f"node {node}")

    def introduce(self, node: int, name: str | None) -> None:
        """Remember the party, and the first name that it gives itself, if nobody else has it."""
        self.number(node)
        if name is not None and node not in self._names:
            taken = name in self._names.values()
            self._names[node] = f"{name} (node {node})" if taken else name

    def candidates(self, nodes: Iterable[int], server_round: int) -> list[int]:
        """Return the parties to ask in this round."""
        here = [n for n in nodes if not self.gone(n)]
        ready = [n for n in here if self._ask_again.get(n, 0) <= server_round]
        return ready or here

    def gone(self, node: int) -> bool:
        """Whether the party has left or was set aside."""
        return node in self.left or node in self.aside

    def order(self, node: int) -> tuple[str, int]:
        """Key that sorts parties by their names."""
        return self._names.get(node, ""), node

    def absences(self, node: int) -> int:
        """Rounds in a row in which the party was asked and did not take part."""
        return self._absences.get(node, 0)

    def present(self, node: int) -> None:
        """Forget earlier absences of the party."""
        self._absences.pop(node, None)
        self._ask_again.pop(node, None)
        self._refusals.pop(node, None)

    def absent(self, node: int, server_round: int, *, silent: bool, refused: bool = False) -> None:
        """Note that the party missed a round; if it was silent, spare it some rounds."""
        self._absences[node] = self._absences.get(node, 0) + 1
        self._refusals[node] = self._refusals.get(node, 0) + 1 if refused else 0
        if self._refusals[node] >= SET_ASIDE_AFTER:
            self.aside[node] = server_round
        if silent:
            self._ask_again[node] = server_round + 1 + 2 ** (self._absences[node] - 1)

    def awaited(
        self, connected: Iterable[int], answered: Collection[int], patience: int
    ) -> list[int]:
        """Return connected parties that have not answered now; ask them again.

        Those that left or missed ``patience`` rounds in a row are not waited for.
        """
        nodes = [
            node
            for node in connected
            if not self.gone(node)
            and node not in answered
            and self._absences.get(node, 0) < patience
        ]
        for node in nodes:
            self._ask_again.pop(node, None)
        return nodes

    def goodbye(self, node: int, server_round: int) -> None:
        """Strike the party off for good."""
        self.left.setdefault(node, server_round)

    def only_leavers(self, connected: Iterable[int]) -> bool:
        """Return whether somebody has left and nobody else is connected."""
        return bool(self.left) and all(node in self.left for node in connected)

    def only_gone(self, connected: Iterable[int]) -> bool:
        """Return whether everybody who is connected has left or was set aside."""
        return bool(self.aside) and all(map(self.gone, connected))
