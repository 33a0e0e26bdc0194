"""The command `evenkeel`."""

from __future__ import annotations


def main() -> None:
    """Run the command line; see `evenkeel --help`."""
    from evenkeel.cli.app import main

    main()
