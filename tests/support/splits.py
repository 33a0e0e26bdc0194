"""Bundles that can be split, and candidates for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenkeel.model.load import SplitCandidate
from evenkeel.planning.problem.columns import BundleColumns
from evenkeel.planning.splitting.cuts import HALF_PPB, Cut, CutBasis
from support.clusters import bundles

WHOLE = "0x00000000_0xffffffff"
MIDDLE = 0x7FFFFFFF


def split_bundles(placed: Mapping[str, Sequence[tuple[str, int, int]]]) -> BundleColumns:
    """Columns from `{"b1": [("tenant/ns", load, topics), …]}`; each namespace is one bundle over the whole ring."""
    made = bundles({owner: [(name, load) for name, load, _ in owned] for owner, owned in placed.items()})
    topics = [count for owned in placed.values() for _, _, count in owned]
    names = np.array([f"{namespace}/{WHOLE}" for namespace in made.namespace], dtype=object)
    return dataclasses.replace(made, bundle=names, topics=np.array(topics, dtype=np.int64))


def split_candidate(namespace: str, **changes: Any) -> SplitCandidate:
    """A candidate of PIP-192, of rank 1 and cut in the middle; with the reason TooBig it has neither hits nor rank."""
    is_too_big = changes.get("reason") == "TooBig"
    made = SplitCandidate(
        namespace=namespace,
        bundle=f"{namespace}/{WHOLE}",
        reason="MsgRate",
        hits=0 if is_too_big else 4,
        topics=8,
        sessions=10,
        msg_rate_per_s=31_000.5,
        throughput_bytes_per_s=1e6,
        rank=0 if is_too_big else 1,
        namespace_bundles=1,
        boundary=MIDDLE,
        boundary_by=str(CutBasis.RANGE),
        lower_topics_ppb=HALF_PPB,
        lower_sessions_ppb=HALF_PPB,
        lower_msg_rate_ppb=HALF_PPB,
        lower_throughput_in_ppb=HALF_PPB,
        lower_throughput_out_ppb=HALF_PPB,
    )
    return dataclasses.replace(made, **changes)


def cuts_of(*candidates: SplitCandidate) -> dict[str, Cut]:
    """The cuts of candidates, as the verifier takes them."""
    names = [field.name for field in dataclasses.fields(Cut)]
    return {each.bundle: Cut(**{name: getattr(each, name) for name in names}) for each in candidates}
