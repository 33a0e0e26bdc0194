"""What differs between releases of Pulsar."""

from __future__ import annotations

import pytest

from evenkeel.model.pulsar_versions import reverts_removed_keys


@pytest.mark.parametrize("version", ["3.0.5", "3.0.17", "3.1.4", "3.2.1", "3.3.0", "4.0.7", "4.2.4-SNAPSHOT"])
def test_brokers_that_revert_a_removed_key(version: str) -> None:
    assert reverts_removed_keys(version)


@pytest.mark.parametrize("version", ["2.11.4", "3.0.0", "3.0.4", "3.1.3", "3.2.0", "", None, "unknown"])
def test_brokers_that_keep_the_value_of_a_removed_key(version: str | None) -> None:
    assert not reverts_removed_keys(version)
