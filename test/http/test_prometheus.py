"""A real Prometheus scrapes an nginx, and answers what the dashboard asks."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ports import free_port

from lib.cache import CACHE, STATUS, ZONE, purge
from lib.memcached import Memcached
from lib.nginx import Nginx
from lib.ruby import content, load_ruby
from lib.site import INTERNAL, Site
from lib.wait import wait_until

pytest_plugins = ("lib.memcached_fixtures",)

# Prometheus starts slowly where much else is done
pytestmark = pytest.mark.timeout(300)

PATIENCE = 120.0
ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "contrib" / "grafana" / "ngx_sendfile.json"

Ask = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def prometheus(site: Site, tmp_path: Path) -> Iterator[Callable[[Nginx], Ask]]:
    """What starts Prometheus on an nginx, and returns what asks it."""
    running: list[subprocess.Popen[bytes]] = []

    def start(nginx: Nginx) -> Ask:
        scrape = {
            "job_name": "ngx_sendfile",
            "scrape_interval": "1s",
            "metrics_path": "/status/metrics",
            "static_configs": [{"targets": [f"127.0.0.1:{nginx.port}"]}],
        }
        config = tmp_path / "prometheus.yml"
        # JSON is YAML
        config.write_text(json.dumps({"scrape_configs": [scrape]}))
        port = free_port()
        with (tmp_path / "log").open("wb") as log:
            running.append(
                subprocess.Popen(
                    [
                        shutil.which("prometheus") or "prometheus",
                        f"--config.file={config}",
                        f"--storage.tsdb.path={tmp_path / 'data'}",
                        f"--web.listen-address=127.0.0.1:{port}",
                    ],
                    stdout=log,
                    stderr=log,
                )
            )

        def ask(expression: str) -> list[dict[str, Any]]:
            assert running[0].poll() is None, (tmp_path / "log").read_text()
            query = urllib.parse.urlencode({"query": expression})
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=60
                ) as response:
                    told = json.load(response)
            except urllib.error.HTTPError as error:
                if error.code == 503:
                    return []
                raise AssertionError(error.read()) from None
            except OSError:
                # it does not listen yet
                return []
            assert told["status"] == "success", told
            found: list[dict[str, Any]] = told["data"]["result"]
            return found

        return ask

    yield start
    for process in running:
        process.terminate()
        process.wait(60)


def queries() -> list[str]:
    """Return the expressions of all panels, as Grafana sends them."""
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return [
        target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")
        for panel in panels
        for target in panel["targets"]
    ]


def test_the_dashboard_shows_what_nginx_counts(
    site: Site, memcached: Memcached, prometheus: Callable[[Nginx], Ask]
) -> None:
    """Each query of the dashboard has an answer once there was some of all."""
    load_ruby(site)
    site.add(7)
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; {CACHE} }}"
        f"location /mc/ {{ http_sendfile on; http_sendfile_lookup {memcached.url}; }}"
        + content("Nginx.return 200")
        + STATUS
        + INTERNAL,
        http=ZONE,
    )
    ask = prometheus(nginx)

    def work() -> None:
        nginx.get("/file/7")
        nginx.get("/file/8")
        nginx.get("/mc/9")
        nginx.get("/ruby")
        purge(nginx, "7")

    # of a counter that is new the first scrape is no increase
    work()
    wait_until(
        lambda: ask("ngx_sendfile_requests_total"), PATIENCE, "Prometheus to scrape"
    )
    (up,) = ask("up")
    assert up["value"][1] == "1"

    def increases() -> bool:
        work()
        return any(
            float(one["value"][1]) > 0
            for one in ask("rate(ngx_sendfile_requests_total[5m])")
        )

    wait_until(increases, PATIENCE, "a rate")
    # what a panel without such events shows is nothing
    quiet = {"ngx_sendfile_learn_refusals_total"}
    for query in queries():
        if not any(name in query for name in quiet):
            wait_until(functools.partial(ask, query), PATIENCE, query)
    (total,) = ask("sum(rate(ngx_sendfile_requests_total[5m]))")
    assert float(total["value"][1]) > 0
    (value,) = ask("sum(ngx_sendfile_purges_total)")
    assert float(value["value"][1]) > 1
