"""What contrib/ has is read by the programs that it is for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

ROOT = Path(__file__).resolve().parents[2]
CONTRIB = ROOT / "contrib"
DASHBOARD = CONTRIB / "grafana" / "ngx_sendfile.json"
RULES = CONTRIB / "prometheus" / "ngx_sendfile.rules.yml"
RULES_TEST = CONTRIB / "prometheus" / "ngx_sendfile.rules.test.yml"
# what Prometheus adds to the name of a histogram
PARTS = ("_bucket", "_sum", "_count")


def run(*command: str | Path) -> str:
    """Run a program, which has to succeed, and return what it printed."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def documented() -> dict[str, str]:
    """The metrics of docs/status.md, and the type of each."""
    text = (ROOT / "docs" / "status.md").read_text("utf-8")
    row = r"^\| `(ngx_sendfile_\w+)` \|[^|]*\| (counter|gauge|histogram) \|"
    found = dict(re.findall(row, text, re.MULTILINE))
    assert len(found) > 20
    return found


def used(text: str) -> set[str]:
    """The metrics that expressions name, by their names in the document."""
    types = documented()
    names = set()
    for name in re.findall(r"\bngx_sendfile_\w+", text):
        for part in PARTS:
            base = name.removesuffix(part)
            if base != name and types.get(base) == "histogram":
                name = base
        names.add(name)
    return names


def expressions() -> list[str]:
    """The dashboard's."""
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_dashboard_asks_for_metrics_that_there_are() -> None:
    """And for all of them but the start time, which counters need not."""
    shown = used(DASHBOARD.read_text("utf-8"))
    assert shown == set(documented()) - {"ngx_sendfile_start_time_seconds"}


def test_dashboard_can_be_imported() -> None:
    board = json.loads(DASHBOARD.read_text("utf-8"))
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    assert "id" not in board, "Grafana gives it"
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def kept(given: object, read: object) -> bool:
    """Tell whether all that was given is in what was read."""
    if isinstance(given, dict) and isinstance(read, dict):
        return all(kept(value, read.get(name)) for name, value in given.items())
    if isinstance(given, list) and isinstance(read, list):
        return len(given) == len(read) and all(map(kept, given, read))
    return given == read


def test_grafana_knows_each_field_of_the_dashboard() -> None:
    """What Grafana's own library does not know it drops."""
    register_default_plugins()
    board = json.loads(DASHBOARD.read_text("utf-8"))
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    assert kept(board, read)
    board["panels"][0]["fieldConfig"]["defaults"]["unlt"] = "short"
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    assert not kept(board, read)


def test_prometheus_reads_each_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {
            "record": f"panel:{number}",
            "expr": expression.replace("$__rate_interval", "5m"),
        }
        for number, expression in enumerate(expressions())
    ]
    file = tmp_path / "dashboard.yml"
    # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    assert f"{len(rules)} rules found" in run("promtool", "check", "rules", file)


def test_alerts_ask_for_metrics_that_there_are() -> None:
    assert used(RULES.read_text("utf-8")) <= set(documented())


def test_prometheus_reads_the_alerts() -> None:
    assert "7 rules found" in run("promtool", "check", "rules", RULES)


def test_alerts_fire_when_they_should() -> None:
    assert "SUCCESS" in run("promtool", "test", "rules", RULES_TEST)


def test_each_alert_is_tested() -> None:
    names = set(re.findall(r"- alert: (\w+)", RULES.read_text("utf-8")))
    tested = RULES_TEST.read_text("utf-8")
    assert names == {name for name in names if name in tested}


def test_logrotate_reads_its_file(tmp_path: Path) -> None:
    """It has to be root's and not writable by others, as in /etc."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "files.log").write_text("a line\n")
    text = (CONTRIB / "logrotate" / "ngx_sendfile").read_text("utf-8")
    text = text.replace("/var/log/nginx/sendfile", str(logs))
    file = tmp_path / "ngx_sendfile"
    file.write_text(text)
    file.chmod(0o644)
    if os.geteuid() == 0:
        # nobody else may write to the folder of a log that is rotated by root
        logs.chmod(0o755)
    said = run(
        shutil.which("logrotate", path=f"{os.environ['PATH']}:/usr/sbin") or "",
        "--debug",
        "--force",
        "--state",
        tmp_path / "state",
        file,
    )
    assert "error" not in said
    assert f"rotating log {logs}/files.log" in said


def test_systemd_reads_the_drop_in(tmp_path: Path) -> None:
    """The unit that it changes is as short as one can be."""
    unit = tmp_path / "ngx-sendfile-test.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    folder = tmp_path / "ngx-sendfile-test.service.d"
    folder.mkdir()
    shutil.copy(CONTRIB / "systemd" / "ngx_sendfile.conf", folder)
    assert run("systemd-analyze", "verify", "--man=no", unit) == ""


def test_operations_say_how_to_install_each() -> None:
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    for path in CONTRIB.rglob("*"):
        if path.is_file() and path != RULES_TEST:
            assert str(path.relative_to(ROOT)) in text, path
