"""Linear and integer programs, solved by HiGHS through scipy.

Work is limited by nodes of the search tree, never by time: the same input gives the same answer on any machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array

from evenkeel.planning.arrays import Bools, Floats
from evenkeel.planning.search.quiet import without_library_chatter

# The solver's answers are trusted to this part.
SOLVER_ERROR = 1e-6


@dataclass(frozen=True, slots=True)
class Program:
    """Least price × x with at_most·x ≤ limit and 0 ≤ x ≤ highest; x is whole where `is_whole` says so."""

    price: Floats
    at_most: csr_array
    limit: Floats
    highest: Floats
    is_whole: Bools

    def with_columns(self, columns: Bools) -> Program:
        """The same program in fewer unknowns; the others are 0."""
        return Program(
            self.price[columns], self.at_most[:, columns], self.limit, self.highest[columns], self.is_whole[columns]
        )


@dataclass(frozen=True, slots=True)
class Relaxed:
    """The answer of a program whose unknowns need not be whole."""

    value: float
    x: Floats
    reduced_price: Floats


@dataclass(frozen=True, slots=True)
class Solved:
    """The best whole answer that was found, if any, and a bound that no answer is below."""

    x: Floats | None
    bound: float


def solve_relaxed(program: Program) -> Relaxed | None:
    """Solve with unknowns that may be cut; None where there is no answer."""
    answer = linprog(
        program.price,
        A_ub=program.at_most,
        b_ub=program.limit,
        bounds=np.stack([np.zeros(len(program.price)), program.highest], axis=1),
        method="highs-ds",
    )
    if answer.status != 0:
        return None
    return Relaxed(float(answer.fun), answer.x, answer.lower.marginals + answer.upper.marginals)


def solve_whole(program: Program, nodes: int, gap: float = 0.0) -> Solved:
    """Solve with whole unknowns, looking at no more than this many nodes."""
    with without_library_chatter():
        answer = milp(
            program.price,
            constraints=LinearConstraint(program.at_most, ub=program.limit),
            bounds=Bounds(0.0, program.highest),
            integrality=program.is_whole,
            options={"node_limit": nodes, "mip_rel_gap": gap},
        )
    bound = -np.inf if answer.mip_dual_bound is None else float(answer.mip_dual_bound)
    return Solved(None if answer.x is None else np.asarray(answer.x), bound)


def whole_bound(value: float) -> int:
    """A bound on a sum of whole prices, rounded up to the next whole number that is surely not above it."""
    return max(0, math.ceil(value - max(1e-3, abs(value) * SOLVER_ERROR))) if math.isfinite(value) else 0
