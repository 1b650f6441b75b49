"""The servers: how each application is started, and how nginx asks it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lib.nginx import REPOSITORY, WORKER_USER

from .app import Launch, Place
from .catalog import Document

BIN = Path(sys.executable).parent


def proxy(place: Place) -> str:
    """Ask over a Unix socket by HTTP."""
    return f"proxy_pass http://unix:{place.socket}:; proxy_set_header Host $http_host;"


def parameters(directive: str, **more: str) -> str:
    """Return the parameters of a CGI-like protocol."""
    values = {
        "QUERY_STRING": "$query_string",
        "REQUEST_METHOD": "$request_method",
        "CONTENT_TYPE": "$content_type",
        "CONTENT_LENGTH": "$content_length",
        "REQUEST_URI": "$request_uri",
        "PATH_INFO": "$document_uri",
        "SERVER_PROTOCOL": "$server_protocol",
        "SERVER_NAME": "$server_name",
        "SERVER_PORT": "$server_port",
        "REMOTE_ADDR": "$remote_addr",
        **more,
    }
    return " ".join(f"{directive} {n} {v};" for n, v in values.items())


def puma(place: Place) -> Launch:
    """Rails on Puma."""
    return Launch(
        ["puma", "-C", "puma.rb", "config.ru"],
        proxy(place),
        {"RAILS_ENV": "production", "RACK_ENV": "production"},
    )


def puma_gem(place: Place) -> Launch:
    """Rails on Puma, with the gem."""
    launch = puma(place)
    library = {"RUBYLIB": str(REPOSITORY / "gem" / "lib")}
    return replace(launch, environment={**launch.environment, **library})


def unicorn(place: Place) -> Launch:
    """Rails or Sinatra on unicorn."""
    return Launch(
        ["unicorn", "-c", "unicorn.rb", "config.ru"],
        proxy(place),
        {"RAILS_ENV": "production", "RACK_ENV": "production"},
    )


MODULES = Path("/usr/lib/apache2/modules")

PASSENGER = """\
ServerRoot {directory}
ServerName localhost
PidFile {directory}/apache.pid
Mutex file:{directory} default
ErrorLog {directory}/apache.log
Listen 127.0.0.1:{port}
{user}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule passenger_module {modules}/mod_passenger.so
PassengerRoot {root}
PassengerRuby /usr/bin/ruby
PassengerInstanceRegistryDir {directory}
PassengerDefaultUser {owner}
PassengerUserSwitching off
PassengerMaxPoolSize 1
PassengerSpawnMethod direct
PassengerDisableSecurityUpdateCheck on
PassengerDisableAnonymousTelemetry on
PassengerShowVersionInHeader off
PassengerLogLevel 1
<VirtualHost 127.0.0.1:{port}>
    DocumentRoot {home}/public
    PassengerAppRoot {home}
    PassengerAppEnv production
    AllowEncodedSlashes NoDecode
    <Directory {home}/public>
        Require all granted
    </Directory>
</VirtualHost>
"""


def passenger(place: Place) -> Launch:
    """Rails on Passenger, in Apache."""
    conf = PASSENGER.format(
        directory=place.directory,
        home=place.home,
        port=place.port,
        modules=MODULES,
        root="/usr/lib/ruby/vendor_ruby/phusion_passenger/locations.ini",
        user=f"User {WORKER_USER}\nGroup {WORKER_USER}" if place.user else "",
        owner=WORKER_USER,
    )
    path = place.write("apache.conf", conf)
    return Launch(
        ["apache2", "-DFOREGROUND", "-f", str(path)],
        f"proxy_pass http://127.0.0.1:{place.port}; proxy_set_header Host $http_host;",
        tcp=True,
    )


def starman(place: Place) -> Launch:
    """A PSGI application on Starman."""
    return Launch(
        [
            "starman",
            *("--listen", f"127.0.0.1:{place.port}", "--workers", "2"),
            *("--keepalive-timeout", "30", "-E", "deployment", "app.psgi"),
        ],
        f"proxy_pass http://127.0.0.1:{place.port}; proxy_set_header Host $http_host;",
        tcp=True,
    )


FPM = """\
[global]
daemonize = no
error_log = {directory}/fpm.log

[app]
{user}
listen = {socket}
listen.mode = 0666
pm = static
pm.max_children = 2
clear_env = no
catch_workers_output = yes
php_admin_value[session.save_path] = {sessions}
php_admin_value[expose_php] = off
php_admin_flag[display_errors] = off
php_admin_flag[log_errors] = on
"""


def fpm_program() -> str:
    """Return PHP-FPM's program."""
    found = sorted(Path("/usr/sbin").glob("php-fpm[0-9]*"))
    assert found, "PHP-FPM is missing: tools/deps.sh apps"
    return str(found[-1])


def php_fpm(place: Place) -> Launch:
    """A PHP script on PHP-FPM."""
    return _php_fpm(place, _script(place, "index.php"))


def symfony(place: Place) -> Launch:
    """Symfony's HttpFoundation on PHP-FPM; it is told which header to use."""
    return _php_fpm(place, _told(place))


def laravel(place: Place) -> Launch:
    """Laravel on PHP-FPM; it is told which header to use."""
    storage = place.directory / "storage"
    storage.mkdir()
    storage.chmod(0o777)
    # what it writes of itself would go into its own folder
    caches = {
        f"APP_{name}_CACHE": str(storage / f"{name.lower()}.php")
        for name in ("PACKAGES", "SERVICES")
    }
    return _php_fpm(place, _told(place), {"APP_STORAGE": str(storage), **caches})


def _script(place: Place, path: str, **more: str) -> str:
    return parameters(
        "fastcgi_param",
        SCRIPT_FILENAME=str(place.home / path),
        SCRIPT_NAME="/index.php",
        **more,
    )


def _told(place: Place) -> str:
    return _script(place, "public/index.php", HTTP_X_SENDFILE_TYPE="X-Sendfile")


def _php_fpm(
    place: Place, values: str, environment: Mapping[str, str] | None = None
) -> Launch:
    sessions = place.directory / "sessions"
    sessions.mkdir()
    sessions.chmod(0o777)
    user = f"user = {WORKER_USER}\ngroup = {WORKER_USER}" if place.user else ""
    conf = FPM.format(
        directory=place.directory, socket=place.socket, sessions=sessions, user=user
    )
    path = place.write("fpm.conf", conf)
    return Launch(
        [fpm_program(), "-F", "-y", str(path)],
        f"fastcgi_pass unix:{place.socket}; {values}",
        environment or {},
    )


def uwsgi(place: Place) -> Launch:
    """A WSGI application on uWSGI, by its own protocol."""
    return _uwsgi(
        place,
        "--uwsgi-socket",
        f"uwsgi_pass unix:{place.socket}; {parameters('uwsgi_param')}",
    )


def scgi(place: Place) -> Launch:
    """The same application on uWSGI by SCGI."""
    values = parameters(
        "scgi_param", SCGI="1", SCRIPT_NAME='""', CONTENT_LENGTH="$sent_length"
    )
    return _uwsgi(place, "--scgi-socket", f"scgi_pass unix:{place.socket}; {values}")


def _uwsgi(place: Place, listen: str, handler: str) -> Launch:
    return Launch(
        [
            *("uwsgi", "--plugin", "python3", "--master", "--processes", "1"),
            *("--die-on-term", "--disable-logging", "--chmod-socket=666"),
            *(listen, str(place.socket), "--wsgi-file", "app.py"),
        ],
        handler,
    )


def django_nginx(place: Place) -> Launch:
    """Django; django-sendfile2 with X-Accel-Redirect."""
    return _gunicorn(place, "archive.wsgi", "django_sendfile.backends.nginx")


def django_xsendfile(place: Place) -> Launch:
    """Django; django-sendfile2 with X-Sendfile."""
    return _gunicorn(place, "archive.wsgi", "django_sendfile.backends.xsendfile")


def django_utf8(place: Place) -> Launch:
    """Django; django-sendfile2 with a backend of the project."""
    return _gunicorn(place, "archive.wsgi", "archive.utf8")


def flask(place: Place) -> Launch:
    """Flask."""
    return _gunicorn(place, "app:app")


def _gunicorn(place: Place, target: str, backend: str = "") -> Launch:
    return Launch(
        [
            *(str(BIN / "gunicorn"), "--bind", f"unix:{place.socket}"),
            *("--workers", "1", "--no-control-socket", target),
        ],
        proxy(place),
        {"APP_BACKEND": backend, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def node(place: Place) -> Launch:
    """Node's own HTTP server."""
    return Launch(["node", "server.js"], proxy(place))


@dataclass(frozen=True)
class Kind:
    """An application on a server.

    Args:
        name: of the two.
        folder: of the application.
        launch: starts it.
        accept: the header that it names the file with.
        ascii: in that header it can name only files with names of ASCII.
    """

    name: str
    folder: str
    launch: Callable[[Place], Launch]
    accept: str = "X-Sendfile"
    ascii: bool = False

    def sends(self, document: Document) -> bool:
        """Tell whether it can name that file."""
        return document.path.isascii() or not self.ascii


KINDS = [
    Kind("rails-puma", "rails", puma),
    Kind("rails-unicorn", "rails", unicorn),
    Kind("rails-passenger", "rails", passenger),
    Kind("rails-gem", "rails_gem", puma_gem),
    Kind("sinatra-unicorn", "sinatra", unicorn),
    Kind("psgi-starman", "psgi", starman),
    Kind("php-fpm", "php", php_fpm),
    Kind("symfony-php-fpm", "symfony", symfony),
    Kind("laravel-php-fpm", "laravel", laravel),
    Kind("wsgi-uwsgi", "wsgi", uwsgi),
    Kind("wsgi-scgi", "wsgi", scgi),
    Kind("django-nginx", "django", django_nginx, "X-Accel-Redirect"),
    Kind("django-xsendfile", "django", django_xsendfile, ascii=True),
    Kind("django-utf8", "django", django_utf8),
    Kind("flask", "flask", flask),
    Kind("node", "node", node),
]
