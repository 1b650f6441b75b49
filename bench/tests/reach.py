"""Files of a test that servers without root's rights have to reach."""

from pathlib import Path
from tempfile import gettempdir


def let_all_reach(path: Path) -> None:
    """Let everybody into a folder of a test, and into those on the way to it.

    Args:
        path: below the folder for temporary files, which keeps its own mode.
    """
    top = Path(gettempdir())
    assert top in path.parents
    for folder in (path, *path.parents):
        if folder == top:
            break
        folder.chmod(0o755)
