"""What a campaign prints: how long recovery took, and which faults have struck at which requests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from faults.cases import all_pairs, targets_of
from faults.frames import RequestKind
from faults.kinds import KINDS
from faults.run import Result


def count_strikes(results: Sequence[Result]) -> Counter[tuple[str, RequestKind]]:
    """How often each kind of fault has struck at each kind of request."""
    return Counter((r.kind, RequestKind(r.request)) for r in results if r.has_fired and r.request is not None)


def build_coverage(results: Sequence[Result]) -> Table:
    """Kinds of faults by kinds of requests: how often each pair was struck, `·` where it cannot be."""
    strikes, pairs = count_strikes(results), list(all_pairs())
    requests = [request for request in RequestKind if any(request is struck for _, struck in pairs)]
    missing = sum(not strikes[pair] for pair in pairs)
    title = f"times struck; {len(pairs) - missing} of {len(pairs)} pairs"
    table = Table("fault", title=title, padding=(0, 0))
    for request in requests:
        table.add_column(request.replace(" ", "\n"), justify="right")
    for kind in KINDS:
        if not kind.at:
            continue
        legal = targets_of(kind)
        cells = [str(strikes[kind.name, request]) if request in legal else "·" for request in requests]
        table.add_row(kind.name, *cells)
    return table


def build_recovery(results: Sequence[Result]) -> Table:
    """What became of each kind of fault, and how long recovery took, in step times."""
    table = Table("fault", title="recovery in step times")
    for name in ("runs", "struck", "resumed", "violations", "recovery p50", "p99"):
        table.add_column(name, justify="right")
    for kind in KINDS:
        _add_row(table, kind.name, [result for result in results if result.kind == kind.name])
    table.add_section()
    _add_row(table, "all", list(results))
    return table


def _add_row(table: Table, name: str, results: Sequence[Result]) -> None:
    times = sorted(steps for result in results if (steps := result.recovery_steps) is not None)
    table.add_row(
        name,
        str(len(results)),
        str(sum(result.has_fired for result in results)),
        str(sum(result.resumes > 0 for result in results)),
        str(sum(len(result.violations) for result in results)),
        _percentile(times, 0.5),
        _percentile(times, 0.99),
    )


def _percentile(times: Sequence[float], share: float) -> str:
    return f"{times[min(math.ceil(share * len(times)), len(times)) - 1]:.1f}" if times else "–"
