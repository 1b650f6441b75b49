"""The command line: many cases, some at a time."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass

from lib.client import ConnectionClosed
from lib.nginx import StartFailed, flavour_from_environment

from .case import Case, Outcome, probe
from .generate import Features
from .guides import guide_case

# what a case that could not be carried through may raise
FAILURES = (
    AssertionError,
    ConnectionClosed,
    StartFailed,
    OSError,
    LookupError,
    ValueError,
    TypeError,
)

# kinds of answers that there have to be, of so many requests
WANTED = ("fresh file", "learned file", "stored file")
ENOUGH = 10_000

# requests of a case
EACH = 300

# after so many cases a line says how far it is
REPORT = 500

# cases at a time for each core: a case waits for most of its time
WORKERS = 6


@dataclass(frozen=True)
class Task:
    """A case to run."""

    seed: int
    number: int
    requests: int
    features: Features
    only: tuple[str, ...]


def run_case(task: Task) -> tuple[int, Outcome]:
    """Run a case; what it raises is one more thing that is wrong."""
    try:
        flavour = flavour_from_environment()
        rest = (flavour, task.seed, task.number, task.features, task.requests)
        if task.only == ("guides",) or (not task.only and task.number % 5 == 4):
            case = guide_case(*rest)
        else:
            case = Case(*rest, task.only)
        return task.number, case.run()
    except FAILURES:
        text = f"case {task.seed}/{task.number}:\n{traceback.format_exc()}"
        return task.number, Outcome(wrong=[text])


def run_cases(tasks: list[Task], workers: int) -> Iterator[tuple[int, Outcome]]:
    """Run cases, some at a time, and give what comes of them.

    Args:
        tasks: is emptied by and by.
        workers: how many at a time.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, max_tasks_per_child=20) as pool:
        running: set[Future[tuple[int, Outcome]]] = set()
        while tasks or running:
            while tasks and len(running) < workers:
                running.add(pool.submit(run_case, tasks.pop(0)))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    # the cases that run come to their end, and leave nothing behind
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(prog="test/model")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--case", type=int, default=None)
    parser.add_argument("--workers", type=int, default=WORKERS * (os.cpu_count() or 1))
    parser.add_argument("--kinds", default="")
    parser.add_argument("--first", action="store_true")
    options = parser.parse_args(arguments)
    seed = options.seed
    if seed is None:
        seed = random.SystemRandom().randrange(1 << 31)
    features = probe(flavour_from_environment())
    only = tuple(options.kinds.split(",")) if options.kinds else ()
    numbers = range(-(-options.requests // EACH))
    if options.case is not None:
        numbers = range(options.case, options.case + 1)
    print(f"seed {seed}, {len(numbers)} cases, {features}", flush=True)
    tasks = [Task(seed, n, EACH, features, only) for n in numbers]
    start = time.monotonic()
    requests = wrong = right = 0
    kinds: Counter[str] = Counter()
    for number, outcome in run_cases(tasks, options.workers):
        requests += outcome.requests
        kinds.update(outcome.kinds)
        if outcome.wrong:
            wrong += 1
            print(f"\n=== case {number} is wrong: --seed {seed} --case {number}")
            print("\n".join(outcome.wrong), flush=True)
            if options.first:
                # those that run come to their end
                tasks.clear()
        else:
            right += 1
        if (right + wrong) % REPORT == 0:
            print(f"{requests} requests, {right} right, {wrong} wrong", flush=True)
    took = time.monotonic() - start
    print(f"\n{requests} requests in {took:.0f} s: {dict(kinds.most_common())}")
    print(f"model: {right} right, {wrong} wrong, of {len(numbers)} cases (seed {seed})")
    # a model that has seen nothing has shown nothing
    seen = requests < ENOUGH or all(kinds[k] * 50 > requests for k in WANTED)
    if not seen:
        print(f"fewer than 2 % of the answers were one of {', '.join(WANTED)}")
    return 1 if wrong or not seen else 0
