"""Names for the array types that the planner works on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Objects = npt.NDArray[Any]

# Stands for "no limit"; far above any sum of loads, and far enough below the end of int64 to add loads to it.
UNLIMITED = 2**61
