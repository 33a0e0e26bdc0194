"""The files of the app: plain modules that the browser loads as they are, named by a digest of them all."""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class AppFiles:
    """All files, read once; `version` changes with any of them, so that browsers may keep them for good."""

    def __init__(self, folder: Path = FOLDER) -> None:
        files = sorted(file for file in folder.iterdir() if file.suffix in KINDS)
        self._contents = {file.name: (file.read_bytes(), KINDS[file.suffix]) for file in files}
        digest = hashlib.sha256()
        for name, (content, _) in self._contents.items():
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        self.version = digest.hexdigest()[:16]

    def find(self, name: str) -> tuple[bytes, str] | None:
        """A file's bytes and its kind; None where there is none of that name."""
        return self._contents.get(name)

    def url_of(self, name: str) -> str:
        """Where a file is served, relative to the app."""
        if name not in self._contents:
            raise FileNotFoundError(name)
        return f"static/{self.version}/{name}"
