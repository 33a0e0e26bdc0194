"""What the user sees: results on standard output; progress and errors on standard error; exit codes."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.segment import Segment

from evenkeel.model.errors import EvenkeelError
from evenkeel.model.visible_text import make_visible

REFUSED_EXIT_CODE = 1


class PlainConsole(Console):
    """A console that sends a terminal no control characters but its own.

    Whatever is printed, in a table, a bar or a sentence, and whether its caller escaped it or not, is made of segments;
    those of text may hold names from the cluster, and with them escape sequences.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                lines = segment.text.split("\n")
                yield Segment("\n".join(map(make_visible, lines)), segment.style)


class _PlainHandler(logging.Handler):
    """Prints warnings that no log is configured for, one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)

    def format(self, record: logging.LogRecord) -> str:
        return make_visible(super().format(record))


out = PlainConsole(highlight=False, soft_wrap=True)
err = PlainConsole(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def reporting(as_json: bool) -> Iterator[None]:
    """Turn an error that the user must know about into one sentence and exit code 1."""
    # kazoo logs what the sentence says already.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    logging.lastResort = _PlainHandler(logging.WARNING)
    try:
        yield
    except EvenkeelError as error:
        _print_error(as_json, error.cause, error.remedy)
        raise typer.Exit(REFUSED_EXIT_CODE) from error
    except OSError as error:
        cause = f"{error.filename or 'the system'}: {error.strerror}"
        _print_error(as_json, cause, "check the path, its permissions and the free space")
        raise typer.Exit(REFUSED_EXIT_CODE) from error


def _print_error(as_json: bool, cause: str, remedy: str) -> None:
    if as_json:
        print_json({"error": {"cause": cause, "remedy": remedy}})
    err.print(f"[red]error:[/] {escape(cause)}: {escape(remedy)}")


def print_json(value: Any) -> None:
    """Print one JSON document on standard output, with everything invisible in its strings escaped."""
    # JSON's own escapes leave out the controls above U+007F, which some terminals obey, and bidirectional ones.
    lines = json.dumps(value, indent=1, ensure_ascii=False).split("\n")
    typer.echo("\n".join(map(_escape_in_json, lines)))


def _escape_in_json(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in line)


def print_next(command: str) -> None:
    """Print the command that usually comes next."""
    out.print(f"next: [bold]{escape(command)}[/]")


def escape(text: str) -> str:
    """Escape text from outside: rich reads no markup in it, and it stays in its line."""
    from rich.markup import escape as escape_markup

    return escape_markup(make_visible(text))


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner on standard error; yields a function that says what is being done now."""
    with _progress(SpinnerColumn(), TextColumn("{task.description}")) as bar:
        task = bar.add_task(what)
        yield lambda text: bar.update(task, description=text)


def _progress(*columns: ProgressColumn) -> Progress:
    # In a log file a bar would only be noise.
    return Progress(*columns, TimeElapsedColumn(), console=err, transient=True, disable=not err.is_terminal)


def fail(as_json: bool, value: dict[str, Any], sentence: str) -> NoReturn:
    """Print a result that is a failure, and exit with code 1."""
    if as_json:
        print_json(value)
    err.print(f"[red]error:[/] {escape(sentence)}")
    raise typer.Exit(REFUSED_EXIT_CODE)
