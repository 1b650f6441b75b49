"""One test's world: files, a store, an application, and nginx before them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from . import files
from .backend import Backend, Script, say_request
from .client import Response
from .files import DEFAULT_SIZE, Files
from .gateway import Gateway
from .nginx import WORKER_USER, ConfigCheck, Flavour, Nginx, log_format
from .store import LmdbStore

CONF = """\
%%LOAD%%
%%USER%%
worker_processes %%WORKERS%%;
error_log %%DIR%%/logs/error.log %%LOG_LEVEL%%;
pid %%DIR%%/nginx.pid;
%%MAIN%%
events {
    worker_connections 256;
}
http {
    %%TEMP%%
    %%LOG_FORMAT%%
    access_log %%DIR%%/logs/access.log nsf;
    types {
        text/html html;
        text/plain txt;
        text/css css;
        image/png png;
        application/pdf pdf;
        application/octet-stream dat;
    }
    default_type application/x-unknown;
    %%LOOKUP%%
    %%DEADLINE%%
    %%HTTP%%
    server {
        listen 127.0.0.1:%%PORT%%;
        server_name localhost;
        root %%HTML%%;
        %%SERVER%%
    }
}
"""

# where redirected files come from, as the README has it
INTERNAL = "location ^~ /files/ { internal; alias %%FILES%%/; }"

# of lookups, where a test says none: a store may have to wait for a processor
DEADLINE = "http_sendfile_timeout 3s;"

# direct delivery of the same files
DIRECT = "http_sendfile_root %%FILES%%;"


class Site:
    """Files with their IDs, a store that knows them, and nginx.

    nginx's variables (see ``Nginx``): DIR, its directory; FILES, the stored
    files; HTML, the server's root; STORE, the store; INTERNAL, a location
    /files/ for FILES; DIRECT, the directive for direct delivery; DELIVER,
    DIRECT or nothing, by the fixture ``delivery``; APP, host:port of the
    application; DEADLINE, of lookups, nothing for the default; and the other
    parts of ``CONF``.

    Args:
        flavour: the nginx to run.
        module: False leaves the module out.
    """

    def __init__(self, flavour: Flavour, module: bool = True) -> None:
        self.flavour = flavour
        self.module = module
        self.directory = Path(tempfile.mkdtemp(prefix="nsf-"))
        # the workers are another user
        self.directory.chmod(0o755)
        self.files = Files(self.directory / "files")
        self.html = Files(self.directory / "html")
        self.store = LmdbStore(self.directory / "ids.lmdb")
        self.variables = self._default_variables()
        self._stores = [self.store]
        self._backends: list[Backend | Gateway] = []
        self._app: Backend | None = None
        self._nginx: Nginx | None = None

    def _default_variables(self) -> dict[str, str]:
        temp = ["client_body", "proxy"]
        temp += [
            name
            for name in ("fastcgi", "uwsgi", "scgi")
            if self.flavour.built_with(f"http_{name}_module")
        ]
        load = self.module and self.flavour.module is not None
        return {
            "LOAD": f"load_module {self.flavour.module};" if load else "",
            "USER": f"user {WORKER_USER};" if os.geteuid() == 0 else "",
            "WORKERS": "1",
            "LOG_LEVEL": "info",
            "DIR": str(self.directory),
            "FILES": str(self.files.root),
            "HTML": str(self.html.root),
            "STORE": str(self.store.path),
            "INTERNAL": INTERNAL,
            "DIRECT": DIRECT,
            "TEMP": " ".join(f"{n}_temp_path %%DIR%%/temp/{n};" for n in temp),
            "LOG_FORMAT": log_format(self.module),
            "LOOKUP": "http_sendfile_lookup lmdb:%%STORE%%;" if self.module else "",
            "DEADLINE": DEADLINE if self.module else "",
            "MAIN": "",
            "HTTP": "",
            "SERVER": "",
        }

    # what there is to serve

    def add(
        self,
        file_id: int,
        path: str | None = None,
        size: int = DEFAULT_SIZE,
        **record: object,
    ) -> str:
        """Write a file that says its ID, and store its path under the ID.

        Args:
            file_id: the ID.
            path: where the file lies; aa/ID.dat by default.
            size: of the file, in bytes.
            record: fields of a JSON record; without any the value is the path.

        Returns:
            The path.
        """
        path = path if path is not None else f"aa/{file_id}.dat"
        self.files.write_id(path, file_id, size)
        self.store.put(file_id, {"path": path, **record} if record else path)
        return path

    def assert_file(
        self, response: Response, file_id: int, size: int = DEFAULT_SIZE
    ) -> Response:
        """Check that an answer is the whole file of an ID, and return it."""
        assert response.status == 200, response
        assert response.body == files.content(file_id, size)
        length = response.header("Content-Length")
        if length is not None:
            assert length == str(size)
        return response

    def store_at(self, name: str, subdir: bool = True) -> LmdbStore:
        """Make one more store in %%DIR%%; it is closed with the site."""
        store = LmdbStore(self.directory / name, subdir)
        self._stores.append(store)
        return store

    def backend(self, script: Script = say_request) -> Backend:
        """Start one more HTTP server; it is stopped with the site."""
        backend = Backend(script)
        self._backends.append(backend)
        return backend

    def gateway(self, protocol: str = "http") -> Gateway:
        """Start an application of one of the protocols; see ``Gateway``."""
        gateway = Gateway(protocol)
        self._backends.append(gateway)
        return gateway

    @property
    def app(self) -> Backend:
        """The application, host:port of which is %%APP%%."""
        if self._app is None:
            self._app = self.backend()
        return self._app

    # nginx

    def http2_listen(self, parameters: str = "") -> str:
        """Return what makes a server listen for HTTP/2 on the port ``h2``."""
        listen = f"listen 127.0.0.1:%%PORT:h2%% {parameters}"
        if self.flavour.version >= (1, 25, 1):
            return f"{listen}; http2 on;"
        return f"{listen} http2;"

    @property
    def nginx(self) -> Nginx:
        """The nginx that start or check_config made last."""
        assert self._nginx is not None, "there is no nginx yet"
        return self._nginx

    def template(self, server: str, http: str = "", main: str = "") -> str:
        """Return CONF with directives for its levels put in."""
        conf = CONF
        if "http_sendfile_timeout" in http:
            conf = conf.replace("%%DEADLINE%%", "")
        return (
            conf.replace("%%SERVER%%", server)
            .replace("%%HTTP%%", http)
            .replace("%%MAIN%%", main)
        )

    def _prepare(self, template: str) -> Nginx:
        if self._nginx is not None:
            self._nginx.stop()
            self._nginx.check_logs()
        if "%%APP%%" in template:
            self.variables["APP"] = self.app.address
        self._nginx = Nginx(self.flavour, self.directory, template, self.variables)
        return self._nginx

    def start(self, server: str, http: str = "", main: str = "") -> Nginx:
        """Start nginx.

        Args:
            server: directives for the server block.
            http: directives for the http block.
            main: directives for the top level.
        """
        return self.start_whole(self.template(server, http, main))

    def start_whole(self, template: str) -> Nginx:
        """Start nginx with a whole configuration."""
        return self._prepare(template).start()

    def check_config(self, server: str, http: str = "", main: str = "") -> ConfigCheck:
        """Let ``nginx -t`` judge a configuration; takes what ``start`` takes."""
        return self._prepare(self.template(server, http, main)).check_config()

    def close(self) -> None:
        """Stop all.

        Raises:
            AssertionError: nginx did not stop, or something complained.
        """
        try:
            if self._nginx is not None:
                self._nginx.stop()
                self._nginx.check_logs()
        finally:
            if self._nginx is not None:
                self._nginx.kill()
            for store in self._stores:
                store.close()
            for backend in self._backends:
                backend.close()

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.directory)
