"""The packages that executors on other machines need, as one archive."""

from __future__ import annotations

import zipfile
from pathlib import Path

import evenkeel
import evenkeel_spark

# The first moment that the format knows: equal sources give equal bytes, whenever they were checked out.
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def package_folders() -> list[Path]:
    """Where the packages lie that every Python process of a job imports."""
    return [Path(package.__path__[0]).resolve() for package in (evenkeel, evenkeel_spark)]


def build_packages_zip(target: Path) -> Path:
    """Write the packages to an archive for `--py-files`; it must be named .zip, a .whl stays with the driver."""
    if target.suffix != ".zip":
        raise ValueError(f"{target} is not named .zip, so executors would not import from it")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder in package_folders():
            for file in sorted(folder.rglob("*.py")):
                entry = zipfile.ZipInfo(str(file.relative_to(folder.parent)), _ZIP_EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, file.read_bytes())
    return target
