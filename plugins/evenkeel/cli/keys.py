"""`evenkeel keygen`: the keys that approvals are signed with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenkeel.cli.options import AsJson, command
from evenkeel.cli.output import escape, out, print_json


@command
def keygen(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="Path of the new files, without .key and .pub.")],
    as_json: AsJson = False,
) -> None:
    """Create a key pair for signing approvals.

    NAME.key is private: whoever has it can approve. NAME.pub goes to the machines that apply plans.
    """
    from evenkeel.adapters.signing import PRIVATE_SUFFIX, PUBLIC_SUFFIX, write_key_pair

    key = write_key_pair(name)
    private, public = f"{name}{PRIVATE_SUFFIX}", f"{name}{PUBLIC_SUFFIX}"
    if as_json:
        print_json({"key_id": key.key_id, "signing_key": private, "public_key": public})
        return
    out.print(f"key [bold]{key.key_id}[/]: {escape(private)} (private) and {escape(public)}")
    out.print("evenkeel.toml where plans are approved:", f'  signing_key = "{escape(private)}"', sep="\n", markup=False)
    out.print("evenkeel.toml where plans are applied:", f'  approvers = ["{escape(public)}"]', sep="\n", markup=False)
    out.print("both under [clusters.NAME.approval]", markup=False)
