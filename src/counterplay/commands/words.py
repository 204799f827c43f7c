"""Groups of commands: ``help`` as a first word, and a main command that needs no word.

A command whose name is in capitals, such as ``MODEL DATA``, is the main one of its group: it runs
when the first word is none of the other commands (a file of such a name: ``./init``).
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

from counterplay.errors import UnknownNameError


class Words(TyperGroup):
    """Takes ``help WORD`` for ``WORD --help``, and any other first word for the main command."""

    @property
    def wordless(self) -> str | None:
        """The name of the command that needs no word, if there is one."""
        return next((name for name in self.commands if name.isupper()), None)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the word of the command first; nothing is refused while a shell completes."""
        args = list(args)
        place = _first_word((self.commands[self.wordless] if self.wordless else self).params, args)
        while args[place : place + 1] == ["help"]:
            del args[place]
            args += [] if ctx.resilient_parsing or args[-1:] == ["--help"] else ["--help"]
        if self.wordless is not None:
            args = self._with_word(ctx, args, place)
        return super().parse_args(ctx, args)

    def _with_word(self, ctx: Any, args: list[str], place: int) -> list[str]:
        if not args or args[0] in ("-h", "--help"):
            return [] if ctx.resilient_parsing else ["--help"]
        word = "".join(args[place : place + 1])
        if word in self.commands:
            return [word, *args[:place], *args[place + 1 :]]
        if not ctx.resilient_parsing:
            self._refuse_mistyped(word)
        return [str(self.wordless), *args]

    def _refuse_mistyped(self, word: str) -> None:
        """A bare word is neither a file nor an id: perhaps a command was meant."""
        verbs = [name for name in self.commands if name != self.wordless]
        if word.isalpha() and difflib.get_close_matches(word, verbs, cutoff=0.6):
            raise UnknownNameError.among(f"command of {self.name}", word, verbs)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command; a mistyped name suggests the nearest."""
        name = args[0]
        if not (ctx.resilient_parsing or name in self.commands or name.startswith("-")):
            kind = "command" if ctx.parent is None else f"command of {self.name}"
            raise UnknownNameError.among(kind, name, [*self.commands, "help"])
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete the words, and what the main command takes in their place."""
        found = [item for item in super().shell_complete(ctx, incomplete) if item.value.islower()]
        if self.wordless is None:
            return found
        main = self.commands[self.wordless]
        if incomplete.startswith("-"):
            return [*found, *main.shell_complete(ctx, incomplete)]
        takes = next(param for param in main.params if param.param_type_name == "argument")
        return [*found, *takes.shell_complete(ctx, incomplete)]


class Main(TyperCommand):
    """The main command of a group, whose name already shows its arguments."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Leave the arguments out of the usage: they would be shown twice."""
        return [self.options_metavar or ""]


def _first_word(params: Sequence[Any], args: Sequence[str]) -> int:
    """Return the place of the first word that is neither an option nor the value of one."""
    valued = {
        name
        for param in params
        if param.param_type_name == "option" and not (param.is_flag or param.count)
        for name in param.opts
    }
    place = 0
    while place < len(args) and args[place].startswith("-") and args[place] != "-":
        place += 2 if args[place] in valued else 1
    return place
