"""Who is in the federation: names, goodbyes, and parties that do not answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable


class Roster:
    """The parties of a run, by Flower node id.

    A party that said goodbye is never asked again. A party that did not answer is left out of the
    next rounds, twice as long after each further silence, so that a dead party does not cost a
    timeout in every round; a party that answered with an error is asked again in the next round.
    """

    def __init__(self) -> None:
        self.left: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._numbers: dict[int, int] = {}
        self._absences: dict[int, int] = {}
        self._ask_again: dict[int, int] = {}

    def number(self, node: int) -> int:
        """Return a small number for the party: its place in the order of first appearance."""
        return self._numbers.setdefault(node, len(self._numbers))

    def name(self, node: int) -> str:
        """Return the party's own name, or ``party N``."""
        return self._names.get(node, f"party {self.number(node)}")

    def introduce(self, node: int, name: str | None) -> None:
        """Remember the party, and its name if it has one."""
        self.number(node)
        if name is not None:
            self._names[node] = name

    def candidates(self, nodes: Iterable[int], server_round: int) -> list[int]:
        """Return the parties to ask in this round, in the order of first appearance."""
        here = sorted((n for n in nodes if n not in self.left), key=self._order)
        ready = [n for n in here if self._ask_again.get(n, 0) <= server_round]
        return ready or here

    def _order(self, node: int) -> tuple[int, int]:
        return self._numbers.get(node, len(self._numbers)), node

    def present(self, node: int) -> None:
        """Forget earlier absences of the party."""
        self._absences.pop(node, None)
        self._ask_again.pop(node, None)

    def absent(self, node: int, server_round: int, *, silent: bool) -> None:
        """Note that the party missed a round; if it was silent, spare it some rounds."""
        self._absences[node] = self._absences.get(node, 0) + 1
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
            if node not in self.left
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
