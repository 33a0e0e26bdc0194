"""The planner's input: bundles as columns of equal length, and the array types that all of planning uses."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel.model.errors import InputError
from evenkeel.model.service_unit import ServiceUnitState

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Objects = npt.NDArray[Any]
# One integer per resource, in the order of `RESOURCES`.
Vector = tuple[int, int, int]

# Stands for "no limit": far above any sum of loads, and low enough that loads can be added without overflow.
UNLIMITED = 2**61

_TEXT_COLUMNS = frozenset({"bundle", "namespace", "owner", "version_id", "state"})


def vector(values: Any) -> Vector:
    """Convert three numbers, one per resource, to plain integers."""
    first, second, third = (int(value) for value in values)
    return first, second, third


@dataclass(frozen=True, slots=True)
class BundleColumns:
    """Owned bundles and the load to plan with. Lists are converted to arrays; unequal lengths are refused."""

    bundle: Objects
    namespace: Objects
    owner: Objects
    version_id: Objects
    topics: Ints
    sessions: Ints
    msg_rate_millis: Ints
    throughput_in: Ints
    throughput_out: Ints
    cpu_millipercent: Ints
    state: Objects = ()  # type: ignore[assignment]  # empty means that all are Owned

    def __post_init__(self) -> None:
        if len(self.state) == 0:
            object.__setattr__(self, "state", [ServiceUnitState.OWNED] * len(self.bundle))
        for field in dataclasses.fields(self):
            dtype = object if field.name in _TEXT_COLUMNS else np.int64
            column = np.asarray(getattr(self, field.name), dtype=dtype)
            if len(column) != len(self.bundle):
                raise InputError(
                    f"column {field.name} has {len(column)} rows, but there are {len(self.bundle)} bundles",
                    "give all columns the same length",
                )
            object.__setattr__(self, field.name, column)

    def __len__(self) -> int:
        return len(self.bundle)

    def take(self, rows: npt.NDArray[np.intp]) -> BundleColumns:
        """Select these rows, in this order."""
        return BundleColumns(**{field.name: getattr(self, field.name)[rows] for field in dataclasses.fields(self)})

    def sorted_by_name(self) -> BundleColumns:
        """Sort the rows by bundle name, so that nothing depends on the order of the input."""
        names = self.bundle.tolist()
        return self.take(np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.intp))

    def loads(self) -> Ints:
        """The load per bundle and resource, in the order of `RESOURCES`."""
        return np.stack([self.cpu_millipercent, self.throughput_in, self.throughput_out], axis=1).astype(np.int64)
