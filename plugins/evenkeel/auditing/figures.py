"""How good the predictions of a plan were, in figures: bias, MAPE, WAPE, MASE and the three parts of the error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from evenkeel.auditing.comparisons import Comparison
from evenkeel.model.audit import LoadPrediction, PredictionFigures
from evenkeel.model.load import RESOURCES

_Floats = npt.NDArray[np.float64]
_PARTS = ("placement_error", "load_error", "cpu_model_error")


def measure_predictions(
    comparisons: Sequence[Comparison], predictions: Iterable[LoadPrediction], min_utilisation: float
) -> list[PredictionFigures]:
    """One row per run, horizon and resource; what could not be compared has a note instead of figures.

    A percentage of nearly nothing says nothing: brokers that use less than `min_utilisation` of their limit do not
    count in the MAPE.
    """
    grouped: dict[tuple[str, int, str], list[LoadPrediction]] = defaultdict(list)
    for row in predictions:
        grouped[row.run_id, row.horizon_s, row.resource].append(row)
    figures = []
    for comparison in comparisons:
        for resource in RESOURCES:
            rows = grouped[comparison.run.run_id, comparison.horizon_s, resource]
            figures.append(_measure(comparison, str(resource), rows, min_utilisation))
    return figures


def _measure(
    comparison: Comparison, resource: str, rows: Sequence[LoadPrediction], min_utilisation: float
) -> PredictionFigures:
    measured = [row for row in rows if row.realised is not None]
    note = comparison.note or ("" if measured else "no broker of the plan has reported since the run")
    columns = {name: _column(measured, name) for name in ("realised", "predicted", "before", "limit", *_PARTS)}
    realised, predicted = columns["realised"], columns["predicted"]
    error, naive = realised - predicted, realised - columns["before"]
    total = float(realised.sum())
    is_used = (realised > 0) & (realised >= min_utilisation * columns["limit"])
    shares = {part: _ratio(float(np.abs(columns[part]).sum()), total) for part in _PARTS}
    return PredictionFigures(
        run_id=comparison.run.run_id,
        horizon_s=comparison.horizon_s,
        resource=resource,
        snapshot_id=None if comparison.manifest is None else comparison.manifest.snapshot_id,
        note=note,
        brokers=len(measured),
        silent_brokers=len(rows) - len(measured),
        bias_ratio=_ratio(float(error.sum()), total),
        mape_ratio=float(np.mean(np.abs(error[is_used]) / realised[is_used])) if is_used.any() else None,
        wape_ratio=_ratio(float(np.abs(error).sum()), total),
        mase=_ratio(float(np.abs(error).sum()), float(np.abs(naive).sum())),
        placement_ratio=shares["placement_error"],
        load_ratio=shares["load_error"],
        cpu_model_ratio=shares["cpu_model_error"],
    )


def _column(rows: Sequence[LoadPrediction], name: str) -> _Floats:
    return np.array([getattr(row, name) for row in rows], dtype=np.float64)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
