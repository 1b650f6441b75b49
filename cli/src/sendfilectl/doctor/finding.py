"""What doctor finds."""

from __future__ import annotations

from dataclasses import dataclass, field

from sendfilectl.doctor.config import Config, Directive
from sendfilectl.doctor.program import Program

SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """Something to mend, or to know.

    Attributes:
        severity: "error": requests fail, or files are open to anybody, now;
            "warning": they will when something else comes to it; "note": it is
            for a person to say whether it matters.
        check: the name of the check.
        text: what is so.
        write: what to write, or to do.
        file: where in the configuration, "" if nowhere.
        line: there.
    """

    severity: str
    check: str
    text: str
    write: str
    file: str = ""
    line: int = 0

    def document(self) -> dict[str, object]:
        """For JSON output."""
        return {
            "severity": self.severity,
            "check": self.check,
            "file": self.file or None,
            "line": self.line or None,
            "text": self.text,
            "write": self.write,
        }

    def told(self) -> str:
        """As a line."""
        place = f"{self.file}:{self.line}: " if self.file else ""
        return f"{place}{self.severity}: {self.text}: {self.write}"


@dataclass
class Patient:
    """What is looked at, and what was found.

    Attributes:
        program: the nginx.
        config: its configuration.
        prefix: the directory of its relative paths.
        user: the workers' user.
        findings: so far.
        unchecked: what could not be looked at, and why.
    """

    program: Program
    config: Config
    prefix: str
    user: str = ""
    findings: list[Finding] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    def find(
        self,
        severity: str,
        check: str,
        text: str,
        write: str,
        where: Directive | None = None,
    ) -> None:
        """Adds a finding, unless it is there."""
        found = Finding(
            severity,
            check,
            text,
            write,
            where.file if where else "",
            where.line if where else 0,
        )
        if found not in self.findings:
            self.findings.append(found)
