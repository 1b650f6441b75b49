"""The files that every application sends, and what it knows of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from lib.files import Files, content

SIZE = 4321


@dataclass(frozen=True)
class Document:
    """A file.

    Args:
        id: by which the applications know it.
        path: where it lies, below the folder of the files.
        type: its media type.
    """

    id: int
    path: str
    type: str = "text/plain"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return Path(self.path).name

    @property
    def body(self) -> bytes:
        """What the file holds."""
        return content(self.id, SIZE)


PLAIN = Document(1, "reports/plain.txt")
DOCUMENTS = [
    PLAIN,
    Document(2, "with space.txt"),
    Document(3, "100%.txt"),
    Document(4, "%41.txt"),
    Document(5, "what?.txt"),
    Document(6, "one+two.txt"),
    Document(7, "日本語/見積書.txt"),
    Document(8, "🎉.txt"),
    Document(9, "all %20 of? them+日本語 🎉 #&;=.pdf", "application/pdf"),
]

# in the catalog, but no file until a test makes it
TEMPORARY = Document(10, "temporary.txt")

# what one gets who decodes the name of a file, or cuts it at the "?"
DECOYS = ["A.txt", "what", "one two.txt", "all"]


def make(root: Path) -> Files:
    """Write the files and catalog.json, the applications' database.

    Args:
        root: the folder, made here.
    """
    files = Files(root)
    for document in DOCUMENTS:
        files.write(document.path, document.body)
    for name in DECOYS:
        files.write(name, b"another file\n")
    rows = {d.id: {"path": d.path, "type": d.type} for d in [*DOCUMENTS, TEMPORARY]}
    files.write("catalog.json", json.dumps(rows, ensure_ascii=False).encode())
    return files


def temporary(root: Path) -> Document:
    """Write the file that a test is to remove, and return what it is.

    Args:
        root: the folder.
    """
    path = root / TEMPORARY.path
    path.write_bytes(TEMPORARY.body)
    path.chmod(0o644)
    return TEMPORARY
