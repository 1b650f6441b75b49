"""All checks, in the order in which what they find is to be mended."""

from __future__ import annotations

import os

from sendfilectl.doctor.access import find_user
from sendfilectl.doctor.config import ConfigError
from sendfilectl.doctor.finding import SEVERITIES, Patient
from sendfilectl.doctor.levels import levels
from sendfilectl.doctor.program import find_program, read_config
from sendfilectl.doctor.public import (
    check_learn,
    check_prefix,
    check_shadow,
    check_status,
)
from sendfilectl.doctor.stores import check_stores, check_zones
from sendfilectl.doctor.system import (
    check_kernel,
    check_limits,
    check_module,
    check_roots,
    check_said,
)
from sendfilectl.errors import UsageError


def examine(
    path: str | None,
    nginx: str | None,
    prefix: str | None,
    user: str | None,
    timeout: float,
) -> Patient:
    """Looks at an nginx and its configuration.

    Args:
        path: of nginx.conf; None for the nginx's own.
        nginx: the program; None to look for it.
        prefix: its option -p, None for its own.
        user: of the workers; None for that of the configuration.
        timeout: seconds for a store to answer.

    Raises:
        UsageError: there is nothing to look at.
    """
    program = find_program(nginx)
    base = prefix or program.options.get("prefix", "/usr/local/nginx")
    path = path or program.options.get("conf-path", "conf/nginx.conf")
    path = os.path.join(base, path) if path == "conf/nginx.conf" else path
    try:
        config, said = read_config(program, os.path.abspath(path), prefix)
    except ConfigError as error:
        raise UsageError(f"{error.file}:{error.line}: {error}") from None
    patient = Patient(program, config, base)
    servers = levels(config)
    check_said(patient, said)
    check_module(patient, servers, said)
    configured = next(config.tree.find("user"), None)
    patient.user = user or (
        configured.arg() if configured else program.options.get("user", "nobody")
    )
    group = configured.arg(1) if configured is not None and user is None else ""
    worker = find_user(patient.user, group or None)
    if worker is None:
        patient.find(
            "error",
            "user",
            f'the workers\' user "{patient.user}" or its group is not known here',
            'write "user www-data;" at the top, or --user for who it is',
            configured,
        )
    else:
        check_roots(patient, servers, worker)
    check_stores(patient, servers, worker, timeout)
    check_prefix(patient, servers)
    check_shadow(patient, servers)
    check_learn(patient, servers)
    check_status(patient, servers)
    check_limits(patient, servers)
    check_zones(patient, servers)
    check_kernel(patient, servers)
    patient.findings.sort(key=lambda one: SEVERITIES.index(one.severity))
    return patient
