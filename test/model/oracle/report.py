"""What is printed of a wrong answer: all that belongs to it."""

from __future__ import annotations

from pathlib import Path

from .generate import whose
from .world import Sent, World

BEFORE = 40


def line_of(world: World, sent: Sent, start: float) -> str:
    """Return a request and its answer in one line."""
    asked = [
        f"{a.role} said {a.serial}: {a.status} {a.path or a.body[:20]!r}"
        f" {'died' if a.died else ''}{a.lines}"
        for a in world.by_sent.get(sent.number, [])
    ]
    said = "nothing"
    if sent.response is not None:
        r = sent.response
        said = f"{r.status}, {len(r.body)} bytes, X-Teacher {r.all('X-Teacher')}"
    more = [
        f"{n}: {v}"
        for n, v in sent.headers
        if n == "Range" or n.startswith("If-") or n == "Authorization"
    ]
    return (
        f"{sent.begin - start:8.3f}-{sent.end - start:.3f} request {sent.number}:"
        f" {sent.method} {sent.target} ({whose(sent.who)}) {' '.join(more)}"
        f"\n{'':20}got {said} {sent.gone}\n{'':20}application: {asked or 'not asked'}"
    )


def report(world: World, directory: Path, number: int, why: str) -> str:
    """Return the text.

    Args:
        world: that was judged.
        directory: of its nginx.
        number: of the request.
        why: its answer is wrong.
    """
    sent = world.sent[number]
    start = min(s.begin for s in world.sent.values())
    lines = [f"case {world.seed}, request {number}: {why}", ""]
    for config, _ in world.configs:
        text = config[sent.route].server
        if text not in lines:
            lines.append(f"{config[sent.route].kind}, workers {world.workers}:")
            lines.append(text)
    history: list[tuple[float, str]] = []
    related = {
        n
        for n, s in world.sent.items()
        if s.route == sent.route
        and s.who.ident == sent.who.ident
        and s.begin <= sent.end
    }
    if sent.response is not None:
        for value in sent.response.all("X-Teacher"):
            if answered := world.answers.get(int(value)):
                related.add(answered.sent)
    for n in sorted(related):
        other = world.sent[n]
        history.append((other.begin, line_of(world, other, start)))
    history = sorted(history)[-BEFORE:]
    for event in world.events:
        if event.span.begin <= sent.end:
            when = f"{event.span.begin - start:8.3f}-{event.span.end - start:.3f}"
            history.append((event.span.begin, f"{when} {event.text}"))
    lines += [text for _, text in sorted(history)]
    log = directory / "logs" / "access.log"
    if log.exists():
        for entry in log.read_text(errors="replace").splitlines():
            if entry.startswith(f"{number} "):
                lines.append(f"log: {entry}")
    return "\n".join(lines)
