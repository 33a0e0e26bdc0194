"""What the user sees: results on standard output, progress and errors on standard error, exit codes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.progress import (
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from evenkeel.model.errors import EvenkeelError

REFUSED_EXIT_CODE = 1

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def reporting(as_json: bool) -> Iterator[None]:
    """Turn an error that a user has to know into one sentence and exit code 1."""
    # Libraries talk on the root logger; a command's own output says what a user needs.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        yield
    except EvenkeelError as error:
        _print_error(as_json, error.cause, error.remedy)
        raise typer.Exit(REFUSED_EXIT_CODE) from error
    except OSError as error:
        cause = f"{error.filename or 'the system'}: {error.strerror}"
        _print_error(as_json, cause, "check the path, its rights and the space there")
        raise typer.Exit(REFUSED_EXIT_CODE) from error


def _print_error(as_json: bool, cause: str, remedy: str) -> None:
    if as_json:
        print_json({"error": {"cause": cause, "remedy": remedy}})
    err.print(f"[red]error:[/] {escape(cause)}: {escape(remedy)}")


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))


def escape(text: str) -> str:
    """Text from outside, safe from being read as markup."""
    from rich.markup import escape as escape_markup

    return escape_markup(text)


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show that work goes on, on standard error; answers a function that says what is being done now."""
    with _progress(SpinnerColumn(), TextColumn("{task.description}")) as bar:
        task = bar.add_task(what)
        yield lambda text: bar.update(task, description=text)


def _progress(*columns: ProgressColumn) -> Progress:
    # Where nobody watches, a bar would only litter the log.
    return Progress(*columns, TimeElapsedColumn(), console=err, transient=True, disable=not err.is_terminal)


def fail(as_json: bool, value: dict[str, Any], sentence: str) -> NoReturn:
    """Print a result that is a failure, then end with exit code 1."""
    if as_json:
        print_json(value)
    err.print(f"[red]error:[/] {escape(sentence)}")
    raise typer.Exit(REFUSED_EXIT_CODE)
