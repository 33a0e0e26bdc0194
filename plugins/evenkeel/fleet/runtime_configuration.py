"""The settings that a simulated broker says it runs with."""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.fleet.settings import FleetSettings, SessionExpiredPolicy

MILLISECONDS_PER_S = 1000
SECONDS_PER_MINUTE = 60


def runtime_configuration(
    settings: FleetSettings, dynamic: Mapping[str, str], policy: SessionExpiredPolicy
) -> dict[str, str]:
    """Pulsar's configuration as a map of strings; dynamic values from /admin/configuration win."""
    return {
        "clusterName": settings.cluster,
        "loadManagerClassName": settings.load_manager.class_name,
        "loadManagerServiceUnitStateTableViewClassName": settings.load_manager.table_view_class_name,
        "loadBalancerServiceUnitTableViewSyncer": "None",
        "loadBalancerEnabled": "true",
        "loadBalancerSheddingEnabled": "true",
        "loadBalancerAutoBundleSplitEnabled": "true",
        "loadBalancerSheddingBundlesWithPoliciesEnabled": "false",
        "loadBalancerTransferEnabled": "true",
        "loadBalancerMultiPhaseBundleUnload": "true",
        "loadBalancerBrokerMaxTopics": "50000",
        "loadBalancerReportUpdateThresholdPercentage": f"{settings.report_threshold_percent:g}",
        "loadBalancerReportUpdateMinIntervalMillis": str(int(settings.report_interval_s * MILLISECONDS_PER_S)),
        "loadBalancerReportUpdateMaxIntervalMinutes": str(int(settings.report_max_interval_s / SECONDS_PER_MINUTE)),
        "loadBalancerServiceUnitStateMonitorIntervalInSeconds": str(int(settings.monitor_interval_s)),
        "loadBalancerInFlightServiceUnitStateWaitingTimeInMillis": str(
            int(settings.in_flight_limit_s * MILLISECONDS_PER_S)
        ),
        "loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds": str(int(settings.tombstone_delay_s)),
        "namespaceBundleUnloadingTimeoutMs": str(int(settings.admin_timeout_s * MILLISECONDS_PER_S)),
        "defaultNamespaceBundleSplitAlgorithm": "range_equally_divide",
        "failureDomainsEnabled": "false",
        "preferLaterVersions": "false",
        "zookeeperSessionExpiredPolicy": policy.value,
        "metadataStoreSessionTimeoutMillis": str(int(settings.session_timeout_s * MILLISECONDS_PER_S)),
        **dynamic,
    }
