"""What executors import, and who owns pyspark."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

from evenkeel.model.snapshot import Bundle
from evenkeel.model.tables import columns_of
from evenkeel_spark.lake_frames import spark_schema
from evenkeel_spark.submission import build_packages


def test_one_distribution_owns_the_pyspark_folder() -> None:
    owners = {
        distribution.metadata["Name"]
        for distribution in distributions()
        if any(file.parts[:2] == ("pyspark", "__init__.py") for file in distribution.files or ())
    }
    assert owners == {"pyspark"}


def test_archive_for_executors_is_importable_and_always_the_same(tmp_path: Path) -> None:
    archives = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        archives.append(build_packages(tmp_path / name))
    assert archives[0].read_bytes() == archives[1].read_bytes()
    program = (
        f"import sys; sys.path.insert(0, {str(archives[0])!r}); "
        "import evenkeel_spark.spark_loads as t, evenkeel.planning.search.optimiser as o; "
        "print(t.__file__, o.__file__)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.count(str(archives[0])) == 2


def test_spark_schema_keeps_order_nullability_and_comments() -> None:
    declared = [(c.name, c.nullable, c.comment) for c in columns_of(Bundle)]
    assert [(f.name, f.nullable, f.metadata["comment"]) for f in spark_schema(Bundle).fields] == declared
