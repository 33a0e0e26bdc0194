"""What brokers say of themselves by HTTP: their runtime configuration, which proves the cluster's name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from evenkeel.adapters.brokers.broker_http import BrokerHttp
from evenkeel.adapters.cluster.json_documents import JsonObject
from evenkeel.adapters.cluster.registrations import Registration
from evenkeel.model.errors import InputError, UnavailableError
from evenkeel.model.pulsar_versions import reverts_removed_keys

SYNCER_KEY = "loadBalancerServiceUnitTableViewSyncer"
NO_SYNCER = "None"
RUNTIME_PATH = "/admin/v2/brokers/configuration/runtime"
_REACH = "check that this machine reaches the brokers' web service, and that its token is a super-user's"


def read_configurations(http: BrokerHttp, registrations: Sequence[Registration]) -> dict[str, JsonObject]:
    """The runtime configuration of every broker that answers; one that does not is without a report anyway."""
    answers = http.fetch([r.web_url + RUNTIME_PATH for r in registrations])
    found = {
        r.broker_id: JsonObject.decode(answer.body, f"broker {r.broker_id}: {RUNTIME_PATH}")
        for r, answer in zip(registrations, answers, strict=True)
        if answer.body is not None
    }
    if not found:
        raise UnavailableError(
            f"no broker answered {RUNTIME_PATH} (broker {registrations[0].broker_id}: {answers[0].problem})", _REACH
        )
    return found


def require_cluster_name(configurations: Mapping[str, JsonObject], cluster: str) -> None:
    """Refuse a cluster name that is not the brokers' own.

    Every cluster of a configuration store is listed there. Under another one's name its policies would be used instead
    of these brokers' own, and its kill switch would be looked at.
    """
    refuse_other_name(configurations, cluster)
    if not any(c.optional_text("clusterName") for c in configurations.values()):
        raise InputError(
            f"broker {next(iter(configurations))} does not say which cluster it belongs to",
            f"check that {RUNTIME_PATH} of a broker has clusterName",
        )


def refuse_other_name(configurations: Mapping[str, JsonObject], cluster: str) -> None:
    """Refuse a cluster name if a broker states another one."""
    for broker_id, configuration in configurations.items():
        name = configuration.optional_text("clusterName")
        if name is not None and name != cluster:
            raise InputError(
                f"broker {broker_id} belongs to cluster {name!r}, not {cluster!r}", "give the right cluster name"
            )


def find_syncer(configurations: Mapping[str, JsonObject]) -> str | None:
    """A sentence on brokers that copy ownership between the two table views; None where none does.

    Operators switch it on to change the view without downtime. Until they have finished, the other view's brokers see
    a step only once it was copied.
    """
    found = {broker_id: c.optional_text(SYNCER_KEY) for broker_id, c in configurations.items()}
    syncing = {broker_id: value for broker_id, value in found.items() if value not in (None, NO_SYNCER)}
    if not syncing:
        return None
    broker_id, value = min(syncing.items())
    return (
        f"the table view is being changed: {SYNCER_KEY} is {value} on {len(syncing)} of {len(found)} brokers, "
        f"such as {broker_id}; finish the change and set it to {NO_SYNCER}"
    )


def find_values_to_write_back(
    configurations: Mapping[str, JsonObject], registrations: Iterable[Registration], keys: Iterable[str]
) -> dict[str, str]:
    """The values of dynamic settings that must be written back after a change, because removing them does nothing.

    Empty where every broker reverts a removed key by itself. Where brokers differ, what most of them use counts.
    """
    if all(reverts_removed_keys(registration.version) for registration in registrations):
        return {}
    found = {}
    for key in keys:
        values = Counter(value for c in configurations.values() if (value := c.optional_text(key)) is not None)
        if values:
            found[key] = max(sorted(values), key=values.__getitem__)
    return found
