"""Known-bad histories for I3 and I5: illegal records, broken rings."""

from __future__ import annotations

from evenkeel.model.service_unit import ServiceUnitState
from faults.made_histories import BROKER, BUNDLES, A, B, Bad, Maker, change, finish, good, put, record, started


def version_is_skipped() -> Maker:
    made = started()
    made.begin(version_id=3)
    made.write(BROKER, change(made.unit(BUNDLES[0]), record(ServiceUnitState.ASSIGNING, 4, B, A)))
    made.write(BROKER, change(made.unit(BUNDLES[0]), record(ServiceUnitState.OWNED, 5, B, A)))
    made.conclude()
    return made


def writer_forces() -> Maker:
    made = started()
    made.begin(force=True)
    return finish(made)


def record_that_cannot_be_read() -> Maker:
    made = good()
    made.write(BROKER, change(made.unit(BUNDLES[1]), b"{}"))
    return made


def boundaries_with_a_gap() -> Maker:
    made = good()
    made.set_boundaries("0x00000000", "0x40000000", "0x80000000")
    return made


def overlapping_bundles() -> Maker:
    made = good()
    made.write(BROKER, put(made.unit("t/n/0x00000000_0x20000000"), made.owned(A)))
    return made


BAD: Bad = (
    ("I3", version_is_skipped),
    ("I3", writer_forces),
    ("I3", record_that_cannot_be_read),
    ("I5", boundaries_with_a_gap),
    ("I5", overlapping_bundles),
)
