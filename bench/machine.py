"""Describes the machine and the programs, for the record of a run."""

import hashlib
import os
import platform
import subprocess
from pathlib import Path


def describe_machine() -> dict[str, str]:
    """Return processor, cores, memory, kernel and distribution."""
    return {
        "processor": _field(Path("/proc/cpuinfo"), "model name"),
        "cores": str(os.cpu_count()),
        "memory": f"{_memory_gib():.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "distribution": _distribution(),
        "virtual": _virtual(),
    }


def commit(repository: Path) -> str:
    """Return the commit of the checkout, with "+changes" if it is not clean.

    Args:
        repository: a work tree.

    Returns:
        The abbreviated commit, or "none" outside git.
    """
    head = _output(
        ["git", "-C", str(repository), "rev-parse", "--verify", "-q", "HEAD"]
    )
    if not head:
        return "none"
    # What the benchmark itself writes does not make a checkout unclean.
    changed = _output(
        [
            "git",
            "-C",
            str(repository),
            "status",
            "--porcelain",
            "--",
            ".",
            ":!bench/results",
            ":!docs/benchmarks.md",
            ":!docs/benchmarks",
        ]
    )
    return head[:12] + ("+changes" if changed else "")


def package_version(name: str) -> str:
    """Return the version of an installed Debian package, or "unknown"."""
    return _output(["dpkg-query", "-W", "-f", "${Version}", name]) or "unknown"


def file_digest(path: Path) -> str:
    """Return the first 16 hex digits of a file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def load_average() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _field(path: Path, name: str) -> str:
    for line in path.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def _memory_gib() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def _virtual() -> str:
    return "yes" if "hypervisor" in Path("/proc/cpuinfo").read_text() else "no"
