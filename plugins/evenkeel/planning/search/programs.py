"""Linear and integer programs, solved by HiGHS through scipy.

Work is limited by nodes of the search tree, never by time, so the same input gives the same result on any machine.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array

from evenkeel.planning.problem.columns import Bools, Floats

# Relative accuracy that is expected of the solver.
SOLVER_ERROR = 1e-6

STANDARD_OUTPUT = 1


@dataclass(frozen=True, slots=True)
class Program:
    """Minimise price·x subject to at_most·x ≤ limit and 0 ≤ x ≤ highest; x is an integer where `is_whole` is set."""

    price: Floats
    at_most: csr_array
    limit: Floats
    highest: Floats
    is_whole: Bools

    def with_columns(self, columns: Bools) -> Program:
        """The same program with all other unknowns fixed at 0."""
        return Program(
            self.price[columns], self.at_most[:, columns], self.limit, self.highest[columns], self.is_whole[columns]
        )


@dataclass(frozen=True, slots=True)
class Relaxed:
    """The optimum of a program without the integer constraints."""

    value: float
    x: Floats
    reduced_price: Floats


@dataclass(frozen=True, slots=True)
class Solved:
    """The best integer solution that was found, if any, and a lower bound for every solution."""

    x: Floats | None
    bound: float


def solve_relaxed(program: Program) -> Relaxed | None:
    """Solve a program without the integer constraints; None if it has no solution."""
    solved = linprog(
        program.price,
        A_ub=program.at_most,
        b_ub=program.limit,
        bounds=np.stack([np.zeros(len(program.price)), program.highest], axis=1),
        method="highs-ds",
    )
    if solved.status != 0:
        return None
    return Relaxed(float(solved.fun), solved.x, solved.lower.marginals + solved.upper.marginals)


def solve_whole(program: Program, nodes: int, gap: float = 0.0) -> Solved:
    """Solve a program with its integer constraints, visiting at most this many nodes."""
    with _native_output_discarded():
        solved = milp(
            program.price,
            constraints=LinearConstraint(program.at_most, ub=program.limit),
            bounds=Bounds(0.0, program.highest),
            integrality=program.is_whole,
            options={"node_limit": nodes, "mip_rel_gap": gap},
        )
    bound = -np.inf if solved.mip_dual_bound is None else float(solved.mip_dual_bound)
    return Solved(None if solved.x is None else np.asarray(solved.x), bound)


def whole_bound(value: float) -> int:
    """Round a lower bound on a sum of integer prices up to the next integer that rounding errors cannot invalidate."""
    return max(0, math.ceil(value - max(1e-3, abs(value) * SOLVER_ERROR))) if math.isfinite(value) else 0


@contextmanager
def _native_output_discarded() -> Iterator[None]:
    """Discard what native code prints: HiGHS writes a debug line now and then, and standard output is the user's."""
    kept = os.dup(STANDARD_OUTPUT)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, STANDARD_OUTPUT)
        yield
    finally:
        os.dup2(kept, STANDARD_OUTPUT)
        os.close(nowhere)
        os.close(kept)
