"""The programs that are given and not ours: the generator, the judge, and the driver of Pulsar's shedders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evenkeel.model.errors import InputError

PROJECT = Path(__file__).resolve().parents[2]
DEFAULT_PEER = PROJECT.parent / "shared" / "bench"
OWN_COPIES = PROJECT / "tests" / "data" / "bench"


@dataclass(frozen=True, slots=True)
class GivenPrograms:
    """Where the given programs lie; without Pulsar's part there are no figures of Pulsar."""

    generator: Path
    judge: Path
    shedders: Path | None
    pom: Path | None


def find_programs(peer: Path, with_pulsar: bool) -> GivenPrograms:
    """Take the programs from the peer folder; generator and judge have copies in the project's tests."""
    home = peer if (peer / "judge.py").is_file() and (peer / "gen_cluster.py").is_file() else OWN_COPIES
    if not with_pulsar:
        return GivenPrograms(home / "gen_cluster.py", home / "judge.py", None, None)
    missing = [name for name in ("PulsarShedders.java", "pom.xml") if not (peer / name).is_file()]
    if missing:
        raise InputError(
            f"{peer} has no {missing[0]}, so Pulsar's shedders cannot run",
            "name its folder by --peer, or leave Pulsar's columns out by --without-pulsar",
        )
    return GivenPrograms(home / "gen_cluster.py", home / "judge.py", peer / "PulsarShedders.java", peer / "pom.xml")
