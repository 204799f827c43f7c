"""The command line: a table of commands, each in a module that is imported when it is used.

A mistake of the user ends with one sentence and exit code 2, a defect of the program with a
traceback and exit code 1, Ctrl-C with 130, a reader that went away with 141, output that cannot be
written with 74.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import inspect
import io
import os
import re
import sys
import warnings
from typing import Any, NoReturn, TextIO, get_type_hints

import typer
from typer.core import TyperCommand
from typer.main import get_command
from typer.models import ParameterInfo

import counterplay
from counterplay.addresses import where
from counterplay.commands.words import Words
from counterplay.errors import CounterplayError, CounterplayWarning

COMMANDS: dict[str, tuple[str, str, str]] = {
    "audit": ("counterplay.commands.audit", "Audit your own model and data.", "audit.md"),
    "consortium": (
        "counterplay.commands.consortium",
        "Plan how many rows each site brings.",
        "areas/contribution.md",
    ),
    "offer": (
        "counterplay.commands.offer",
        "Learn from past offers which to make next.",
        "areas/principal.md",
    ),
    "choices": (
        "counterplay.commands.choices",
        "Learn what people like from their choices.",
        "areas/elicitation.md",
    ),
    "campaign": (
        "counterplay.commands.campaign",
        "Run a labelling campaign of several parties.",
        "areas/labeling.md",
    ),
    "elicit": (
        "counterplay.commands.elicit",
        "Learn a person's preferences by asking.",
        "areas/elicitation.md",
    ),
    "studio": ("counterplay.commands.studio", "Open the library in the browser.", "studio.md"),
    "serve": ("counterplay.commands.studio", "The same as studio.", "studio.md"),
    "verify": ("counterplay.commands.verify", "Check what a session promised.", "verify.md"),
    "list": ("counterplay.commands.list", "List the areas and their studies.", "studies.md"),
    "run": (
        "counterplay.commands.run",
        "Run studies: compute what is still missing.",
        "studies.md",
    ),
    "report": (
        "counterplay.commands.report",
        "Write one HTML page from the stored results.",
        "studies.md",
    ),
    "claims": (
        "counterplay.commands.claims",
        "Print the promises of the library.",
        "theory/index.md",
    ),
    "data": (
        "counterplay.commands.data",
        "List the data sets and where they come from.",
        "data.md",
    ),
}
"""Command name to (module with a Typer ``app``, help line, page of the documentation). A module
that is not there is left out, so a command is added by adding its module."""

_PANELS = {
    "Your data and models": ("audit", "consortium", "offer", "choices"),
    "Questions to people": ("campaign", "elicit", "studio", "serve", "verify"),
    "Theory and experiments": ("list", "run", "report", "claims", "data"),
}
_WIDTH = 78
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# What Typer raises for a mistake on the command line: a class of Click, from Typer 0.26 on of
# Typer's own copy of it. In both it is the last base of BadParameter that can say its message.
_UsageMistake: type[Exception] = next(
    kind for kind in reversed(typer.BadParameter.__mro__) if hasattr(kind, "format_message")
)


class _LazyCommand(TyperCommand):
    """Stands for a command in the help; imports the module when the command is called."""

    def __init__(self, name: str, module: str, help: str, page: str) -> None:
        panel = next((title for title, names in _PANELS.items() if name in names), None)
        super().__init__(name, help=help, short_help=help, rich_help_panel=panel)
        self._module = module
        self._page = page

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: Any = None,
        **extra: Any,
    ) -> Any:
        """Hand over to the real command."""
        command = get_command(importlib.import_module(self._module).app)
        command.name = self.name
        _complete_help(command, where(f"docs/{self._page}"))
        return command.make_context(info_name, args, parent=parent, **extra)


class _Commands(Words):
    """The group of all commands whose module exists."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, (module, help_line, page) in COMMANDS.items():
            if importlib.util.find_spec(module) is not None:
                self.commands[name] = _LazyCommand(name, module, help_line, page)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; newer versions of Typer would end without a word after Ctrl-C."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Abort from None


def _complete_help(command: Any, guide: str) -> None:
    """Name the guide in the help of a command and of its subcommands, one example per line.

    Typer keeps the line breaks between paragraphs only. Older versions of Typer note the help of an
    argument before a newer click clears it, so it is read from the annotation again.
    """
    told, _, example = (command.help or "").partition("Example: ")
    command.help = told.rstrip()
    epilog = " ".join((command.epilog or f"Example: {example}" * bool(example)).split())
    heading, *examples = re.split(r"(?:(?<=Example:)|(?<=Examples:)|;) (?=counterplay )", epilog)
    lines = [heading, *(line for text in examples for line in _lines_to_paste(text.rstrip(".")))]
    command.epilog = "\n\n".join([*filter(None, lines), f"Guide: {guide}"])
    for param in getattr(command, "params", []):
        if not getattr(param, "help", None):
            param.help = _annotated_help(command.callback, param.name)
    for part in getattr(command, "commands", {}).values():
        _complete_help(part, guide)


def _lines_to_paste(example: str) -> list[str]:
    """Lines that Rich does not break in a terminal of 80 columns; a shell takes them as one."""
    lines = [""]
    for word in example.split():
        if len(lines[-1]) + len(word) > _WIDTH - 3:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def _annotated_help(function: Any, name: str) -> str | None:
    hints = get_type_hints(inspect.unwrap(function), include_extras=True) if function else {}
    notes = getattr(hints.get(name), "__metadata__", ())
    return next((note.help for note in notes if isinstance(note, ParameterInfo)), None)


app = typer.Typer(
    cls=_Commands,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Examples:\n\ncounterplay audit demo\n\ncounterplay run strategic/gaming\n\n"
    "counterplay help campaign\n\nExplain one command: counterplay help COMMAND. Results go to "
    "standard output, everything else to standard error. Exit codes: 0 done, 1 a computation "
    "failed, 2 a mistake in what you gave, 3 a check failed, 130 interrupted.\n\n"
    f"Guide: {where('docs/start.md')}",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"counterplay {counterplay.__version__}")
        raise typer.Exit


def _without_color(wanted: bool) -> None:
    if wanted:
        os.environ["NO_COLOR"] = "1"


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", "-V", callback=_print_version, is_eager=True, help="Print the version."
    ),
    no_color: bool = typer.Option(
        False, "--no-color", callback=_without_color, is_eager=True, help="Print without colors."
    ),
) -> None:
    """Machine learning when the data plays back."""


def main() -> NoReturn:
    """Run the command line and exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the encoding lacks is no defect
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command line with ``arguments``; return the exit code.

    An error of the library may carry an ``exit_code``; any other is a mistake of the user.
    """
    if "--no-color" in arguments[1:]:  # wherever it stands
        arguments = ["--no-color", *(word for word in arguments if word != "--no-color")]
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    try:
        code = get_command(app).main(
            arguments or ["--help"], prog_name="counterplay", standalone_mode=False
        )
        if sys.stdout is not None:  # as after >&-
            sys.stdout.flush()  # here, where a full disk or a closed pipe is caught
    except typer.Exit as stop:
        return stop.exit_code
    except (BrokenPipeError, SystemExit) as stop:  # Typer and Rich turn the first into the second
        if not isinstance(stop.__context__ or stop, BrokenPipeError):
            raise
        _discard_output()
        return 141
    except (typer.Abort, KeyboardInterrupt):
        return _say("interrupted", 130)
    except CounterplayError as error:
        if trace := getattr(error, "trace", ""):
            typer.echo(trace, err=True)
        return _say(str(error), int(getattr(error, "exit_code", 2)))
    except _UsageMistake as error:
        return _say(_told(error), 2)
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            if error.filename is None:
                raise
            return _say(f"{str(error.filename)[:150]} cannot be used: {error.strerror}", 2)
        _discard_output()
        return _say(f"the output cannot be written: {error.strerror}", 74)
    return code if isinstance(code, int) else 0


def _told(mistake: Any) -> str:
    """Return what is wrong in one sentence, with the usage where something is missing."""
    told = mistake.format_message()
    if type(mistake).__name__ == "MissingParameter":
        return f"{told} {' '.join(mistake.ctx.get_usage().split())}"
    return re.sub(r"( Did you mean [^?]*\?)\1", r"\1", told)  # Typer's and Click's


def _discard_output() -> None:
    """Let the interpreter flush into nothing when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning of the library is a sentence, like its errors; others are printed as ever."""
    if issubclass(category, CounterplayWarning):
        typer.echo(f"counterplay: warning: {message}", err=True)
    else:
        typer.echo(warnings.formatwarning(message, category, filename, lineno), err=True, nl=False)


def _say(message: str, code: int) -> int:
    typer.echo(f"counterplay: {message}", err=True)
    return code
