"""The bundles that the planner sees, as columns of equal length."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenkeel.model.errors import InputError
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.planning.arrays import Ints, Objects

_TEXT_COLUMNS = frozenset({"bundle", "namespace", "owner", "version_id", "state"})


@dataclass(frozen=True, slots=True)
class BundleColumns:
    """Owned bundles and their planning load; lists are turned into arrays, unequal lengths are refused."""

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
    state: Objects = ()  # type: ignore[assignment]  # an empty one stands for Owned throughout

    def __post_init__(self) -> None:
        if len(self.state) == 0:
            object.__setattr__(self, "state", [ServiceUnitState.OWNED] * len(self.bundle))
        for field in dataclasses.fields(self):
            dtype = object if field.name in _TEXT_COLUMNS else np.int64
            column = np.asarray(getattr(self, field.name), dtype=dtype)
            if len(column) != len(self.bundle):
                raise InputError(f"the column {field.name} of the bundles has another length", "give equal columns")
            object.__setattr__(self, field.name, column)

    def __len__(self) -> int:
        return len(self.bundle)

    def take(self, rows: npt.NDArray[np.intp]) -> BundleColumns:
        """The same columns with these rows in this order."""
        return BundleColumns(**{field.name: getattr(self, field.name)[rows] for field in dataclasses.fields(self)})

    def sorted_by_name(self) -> BundleColumns:
        """The rows in order of bundle name, so that nothing depends on the order in which they came."""
        names = self.bundle.tolist()
        return self.take(np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.intp))

    def loads(self) -> Ints:
        """The load per bundle and resource, in the order of `RESOURCES`."""
        return np.stack([self.cpu_millipercent, self.throughput_in, self.throughput_out], axis=1).astype(np.int64)
