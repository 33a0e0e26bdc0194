"""`evenkeel restore-balancer`: switch Pulsar's balancer back on after a writer died."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.cli.options import ConnectionOptions, SettingsOptions, command
from evenkeel.cli.output import escape, out, print_json, working


@dataclass(frozen=True, kw_only=True)
class _Options(SettingsOptions, ConnectionOptions):
    """Where the cluster is, and how long its sessions last."""


@command
def restore_balancer(where: _Options) -> None:
    """Switch Pulsar's shedding and splitting back on if a dead writer left them off.

    Refused while a writer is running, which restores them itself. A switch that somebody else has set stays as it is.
    """
    from evenkeel.stages.restore_balancer import restore_balancer as restore

    connection = where.connection
    with working("looking for switches that were left off"):
        found = restore(connection, where.settings_for(connection.cluster))
    if where.as_json:
        print_json({"cluster": connection.cluster, "restored": [each.to_json() for each in found]})
        return
    if not found:
        out.print(f"no writer of Evenkeel has left Pulsar's balancer of {escape(connection.cluster)} off")
    for sentence in (sentence for each in found for sentence in each.sentences()):
        out.print(escape(sentence))
