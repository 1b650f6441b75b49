"""A minimal Rails application that sends files, behind Puma or Passenger."""

import getpass
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.contestants import apache
from bench.contestants.single import Single
from bench.model import Address

_APP = Path(__file__).parents[1] / "apps" / "rails"
_PASSENGER = Path("/usr/lib/ruby/vendor_ruby/phusion_passenger/locations.ini")
_THREADS = 5

# Watchdog, core, preloader, and the application twice.
_PASSENGER_PROCESSES = 5

# Two processes of the application, as many as fit one core and are waiting for
# something; started once, kept, as Passenger's guide on optimization asks for.
_PASSENGER_BODY = """\
PassengerRoot {root}
PassengerDefaultRuby {ruby}
PassengerInstanceRegistryDir /tmp
PassengerMaxPoolSize 2
PassengerMinInstances 2
PassengerPoolIdleTime 0
PassengerMaxPreloaderIdleTime 0
PassengerStatThrottleRate 3600
PassengerMaxRequestQueueSize 1000
PassengerDisableSecurityUpdateCheck on
PassengerDisableAnonymousTelemetry on
PassengerUserSwitching off
PassengerDefaultUser {user}
PassengerAppEnv production
{environment}
DocumentRoot "{app}/public"
<Directory "{app}">
    Require all granted
    PassengerEnabled on
</Directory>
{extra}"""

Environment = Callable[[], Mapping[str, str]]


def missing() -> str | None:
    """Say why the application cannot run, None if it can."""
    ruby = shutil.which("ruby", path="/usr/bin")
    if ruby is None:
        return "Ruby is not installed (Debian package ruby)"
    done = subprocess.run(
        [ruby, "-e", "gem 'rails', '~> 6.1'; gem 'dalli'"],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        return "Rails 6.1 is not installed (Debian packages ruby-rails, ruby-dalli)"
    return None


def puma_missing() -> str | None:
    """Say why it cannot run behind Puma, None if it can."""
    if shutil.which("puma") is None:
        return "Puma is not installed (Debian package puma)"
    return missing()


def passenger_missing(*modules: str) -> str | None:
    """Say why it cannot run behind Passenger, None if it can.

    Args:
        modules: of Apache that it needs, too.
    """
    return apache.missing("passenger", "env", *modules) or missing()


def puma(name: str, core: int, environment: Environment) -> Single:
    """Make Puma with the application: one process, five threads (its default).

    Args:
        name: short name.
        core: where it runs.
        environment: of the application; asked for when it is configured.
    """

    def argv(address: Address, directory: Path) -> list[str]:
        return [
            "env",
            *(f"{key}={value}" for key, value in environment().items()),
            "RAILS_ENV=production",
            *("puma", "--quiet", "--environment", "production"),
            *("--threads", f"{_THREADS}:{_THREADS}"),
            *("--bind", f"tcp://{address.host}:{address.port}"),
            str(_APP / "config.ru"),
        ]

    return Single(
        name,
        core,
        argv=argv,
        configuration=lambda address, directory: _command(argv(address, directory)),
        complaints=_complaints,
    )


def passenger(
    name: str,
    core: int,
    environment: Environment,
    *,
    modules: tuple[str, ...] = (),
    extra: str = "",
) -> Single:
    """Make Apache with Passenger and the application, twice.

    Args:
        name: short name, unique in its table.
        core: where all of it runs.
        environment: of the application; asked for when it is configured.
        modules: further ones of Apache.
        extra: directives for them.
    """

    def body(address: Address, directory: Path) -> str:
        return _PASSENGER_BODY.format(
            root=_PASSENGER,
            user=getpass.getuser(),
            ruby=shutil.which("ruby", path="/usr/bin"),
            environment="".join(
                f"SetEnv {key} {value}\n" for key, value in environment().items()
            ),
            app=_APP,
            extra=extra,
        )

    return apache.apache(
        name,
        core,
        body,
        modules=("env", "passenger", *modules),
        processes=_PASSENGER_PROCESSES,
        lazy=True,
    )


def _command(argv: list[str]) -> str:
    return f"# {' '.join(argv)}\n"


def _complaints(lines: list[str]) -> list[str]:
    """Return what is logged from warning on, and what Ruby dies of."""
    words = ("WARN -- ", "ERROR -- ", "FATAL -- ", "Error)", "Error:")
    return [line for line in lines if any(word in line for word in words)]
