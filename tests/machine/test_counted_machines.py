"""What a market's list says is on: read as the spec says, and never zero where it is not understood."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from killcheck.probes.fleet_bounds import FleetBounds

from killcheck.capabilities.cluster import ClusterError
from killcheck.capabilities.programs import Ran
from killcheck.cluster import rental_market
from killcheck.drill import judgement
from killcheck.machine.counting import Count, CountUnknown, Rented, rented
from killcheck.machine.peaks import Peaks
from killcheck.spec import specfile
from killcheck.spec.killpath import Command
from killcheck.spec.machines import Machines
from killcheck.standins.rental import Market

NOW = datetime(2026, 1, 15, tzinfo=UTC)
LIST = Machines(items="data.list", type="gpu.name", usd_per_hour="price", ended={"state.now": ("off", "None")})


def answered(answer: object, code: int = 0) -> Ran:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return Ran(Command(("count",)), NOW, NOW, code, text)


def test_what_is_not_said_to_be_off_is_on():
    entries = [
        {"id": 1, "gpu": {"name": "L4"}, "price": "0.5", "state": {"now": "rebooting"}},
        {"id": "b", "price": -1, "state": {"now": "off"}},
        {"id": "c", "state": {"now": None}},
        {"id": "d", "gpu": 7, "price": "free"},
    ]
    assert rented(answered({"data": {"list": entries}}), LIST) == (Rented("1", "L4", 0.5), Rented("d", "", None))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "expected machines as JSON, found nothing"),
        ("<html>", "expected machines as JSON"),
        ([], "expected a list of machines at data.list"),
        ({"data": {"list": {}}}, "expected a list of machines at data.list, found dict"),
        ({"data": {"list": [{"name": "x"}]}}, "has no id"),
        ({"data": {"list": [3]}}, "has no id"),
        ({"data": {"list": [{"id": True}]}}, "has no id"),
        ({"data": {"list": [], "total": 3}}, "one page of several \\(data.total is 3, and 0 are listed\\)"),
        ({"data": {"list": []}, "next_token": "abc"}, "next_token is given"),
        ({"data": {"list": []}, "links": {"pages": {"next": "https://x/?page=2"}}}, "links.pages.next is given"),
        ({"data": {"list": [], "hasMore": True}}, "data.hasMore is given"),
    ],
)
def test_a_list_that_is_none_is_unknown(answer: object, why: str):
    with pytest.raises(CountUnknown, match=why):
        rented(answered(answer), LIST)
    with pytest.raises(CountUnknown, match="exit code 1"):
        rented(answered({"data": {"list": []}}, code=1), LIST)


def test_the_last_page_is_the_whole():
    whole = {"data": {"list": [], "total": 0, "next": None, "has_more": False}, "links": {}, "cursor": ""}
    assert rented(answered(whole), LIST) == ()


def test_a_market_lies_beside_its_spec_and_has_prices(tmp_path: Path):
    spec, cluster = tmp_path / "spec", SimpleNamespace(loop=SimpleNamespace(now=lambda: NOW))
    spec.mkdir()
    (tmp_path / "out.yaml").write_text("offers: []\n")
    with pytest.raises(ClusterError, match=r"\.\./out\.yaml is no file of the spec's folder"):
        rental_market._read(spec, "../out.yaml", cluster)
    (spec / "market.yaml").write_text("offers:\n- {id: 1, gpu_name: L4, dph_total: free}\n")
    with pytest.raises(ClusterError, match=r"market\.yaml:2: offers\[0\]: expected id, gpu_name and dph_total"):
        rental_market._read(spec, "market.yaml", cluster)


def test_what_cannot_be_compared_is_not_offered():
    market = Market([{"id": 1, "gpu_name": "L4", "dph_total": 0.5}], lambda: NOW)
    found = [
        ask(market, "POST", "/api/v0/bundles/", {"q": {"gpu_name": {"gt": 3}}}),
        ask(market, "POST", "/api/v0/bundles/", {"q": [1]}),
    ]
    assert [status for status, _ in found] == [200, 400]
    assert found[0][1] == {"offers": []}


def ask(market: Market, method: str, path: str, body: object = None, key: str = "account") -> tuple[int, object]:
    said: list[str] = []
    data = b"" if body is None else json.dumps(body).encode()
    environ = {
        "PATH_INFO": path.partition("?")[0],
        "QUERY_STRING": path.partition("?")[2],
        "REQUEST_METHOD": method,
        "CONTENT_LENGTH": str(len(data)),
        "wsgi.input": io.BytesIO(data),
        "HTTP_AUTHORIZATION": f"Bearer {key}" if key else "",
    }
    text = b"".join(market(environ, lambda status, headers: said.append(status)))
    return int(said[0].split()[0]), json.loads(text) if text else None


def test_the_stand_in_of_a_market():
    offers = [{"id": n, "gpu_name": f"C{n}", "dph_total": n / 10, "gpu_ram": n * 1000} for n in (1, 2, 3)]
    market = Market(offers, lambda: NOW)
    assert ask(market, "GET", "/api/v0/instances/", key="")[0] == 401
    found = ask(market, "POST", "/api/v0/bundles/", {"q": {"gpu_ram": {"gte": 2000}, "dph_total": {"lt": 0.3}}})
    assert [one["id"] for one in found[1]["offers"]] == [2]
    assert ask(market, "GET", '/api/v0/bundles/?q={"gpu_ram": {"like": 1}}')[0] == 400
    status, made = ask(market, "PUT", "/api/v0/asks/2/", {})
    assert status == 200
    assert ask(market, "PUT", "/api/v0/asks/2/", {})[0] == 400  # it is taken
    name = made["new_contract"]
    other = ask(market, "PUT", "/api/v0/asks/1/", {})[1]["new_contract"]
    assert ask(market, "DELETE", f"/api/v0/instances/{other}/", key=f"own-{name}")[0] == 404
    assert ask(market, "DELETE", f"/api/v0/instances/{name}/", key=f"own-{name}")[0] == 200
    assert ask(market, "PUT", f"/api/v0/instances/{other}/", {"state": "stopped"})[0] == 200
    assert [(one.id, one.by_itself) for one in market.ended] == [(str(name), True), (str(other), False)]
    (left,) = ask(market, "GET", "/api/v0/instances/")[1]["instances"]
    assert (left["id"], left["actual_status"], left["gpu_name"]) == (other, "stopped", "C1")


SPEC = """
apiVersion: killcheck/v1
kind: KillPath
name: p
targets:
  - name: fleet
    count: {http: {url: "$BASE/list?a=`id`", bearer: KEY}}
    machines: {MORE}
layers:
  - {name: look, type: idle-monitor, covers: [fleet], idle: 5m, command: {argv: [./look.sh], env: {ENV}}}
  - {name: end, type: self-terminating, covers: [fleet], idle: 5m, command: {argv: [./work.sh]}}
"""


def test_a_request_is_a_command_whose_variables_alone_are_filled_in():
    path = specfile.loads(SPEC.replace("{MORE}", "{}").replace("{ENV}", "{}"))
    count = path.targets[0].count
    assert count is not None
    assert set(count.pass_env) == {"BASE", "KEY"}
    assert '"${BASE}/list?a=\\`id\\`"' in count.argv[2]
    assert ': "${KEY:?it is not set}"' in count.argv[2]
    assert specfile.loads(specfile.dump(path)) == path
    with pytest.raises(specfile.SpecError, match="machines are what the list of a count names"):
        specfile.loads(
            "apiVersion: killcheck/v1\nkind: KillPath\nname: p\nlayers: []\n"
            "targets: [{name: a, kind: Deployment, namespace: b, object: c, machines: {}}]\n"
        )


HTTP = """
apiVersion: killcheck/v1
kind: KillPath
name: p
layers: []
targets:
  - name: one
    count: {http: {url: "$BASE/put?key=$SECRET", method: POST, bearer: KEY, body: '{"k": "$SECRET", "n": 1}'}}
    machines: {orchestratorUsdPerHour: 0.01}
  - {name: two, count: {argv: [./count.sh]}, machines: {orchestratorUsdPerHour: OTHER}}
"""


def test_what_is_secret_in_a_request_stands_in_no_list_of_processes(tmp_path):
    """A curl that writes down how it was called, and what it read."""
    curl = tmp_path / "curl"
    curl.write_text(
        '#!/bin/sh\nfor w in "$@"; do echo "word $w"; done\nfor n in 5 6 7; do echo; cat /dev/fd/$n; done\n'
    )
    curl.chmod(0o755)
    command = specfile.loads(HTTP.replace("OTHER", "0.01")).targets[0].count
    given = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "BASE": "http://b", "SECRET": "s3cret", "KEY": "t0ken"}
    words, *read = subprocess.run(command.argv, env=given, check=True, capture_output=True, text=True).stdout.split(
        "\n\n"
    )
    assert not {"s3cret", "t0ken"} & set(re.findall(r"\w+", words))
    assert "\n".join(read) == ('Authorization: Bearer t0ken\n{"k": "s3cret", "n": 1}\nurl = "http://b/put?key=s3cret"')
    del given["SECRET"]
    missing = subprocess.run(command.argv, env=given, check=False, capture_output=True, text=True)
    assert (missing.returncode != 0, missing.stdout) == (True, "")
    assert "SECRET: it is not set" in missing.stderr


def test_the_orchestrator_of_two_fleets_is_counted_once():
    assert judgement._orchestrator(specfile.loads(HTTP.replace("OTHER", "0.01"))) == 0.01
    with pytest.raises(specfile.SpecError, match=r"0\.02 here and 0\.01 before"):
        specfile.loads(HTTP.replace("OTHER", "0.02"))


class World:
    def __init__(self, path):
        self.kill_path = path


@pytest.mark.parametrize(
    ("more", "env", "look", "work", "said"),
    [
        ("{most: 4}", "{}", "MAX_WORKERS=4", "curl -X DELETE $ME", []),
        ("{}", "{}", "", "poweroff", ["nothing says how many machines may be on"]),
        ("{most: 4}", "{MIN_INSTANCES: '1'}", "", "vastai destroy", ["MIN_INSTANCES keeps 1 machine(s) on for good"]),
        ("{most: 4}", "{}", "MAX_MACHINES=8", "poweroff", ["MAX_MACHINES is 8, and the spec allows 4"]),
        ("{most: 9}", "{MIN_GPUS: '0'}", 'MIN_GPUS = int(os.environ.get("MIN_GPUS", "2"))', "poweroff", []),
        ("{most: 4}", "{}", "", "exit 0", ["its worker exits, and nothing in it ends the machine"]),
        (
            "{most: 4, maxUsdPerHour: 0.4, orchestratorUsdPerHour: 0.0685}",
            "{}",
            "",
            "poweroff",
            ["its orchestrator bills $50.01 a month, as much as 125 hours of its dearest machine"],
        ),
    ],
)
def test_bounds_are_read_in_spec_and_programs(tmp_path, more, env, look, work, said):
    (tmp_path / "killcheck.yaml").write_text(SPEC.replace("{MORE}", more).replace("{ENV}", env))
    (tmp_path / "look.sh").write_text(look)
    (tmp_path / "work.sh").write_text(work)
    found = list(FleetBounds().ask(World(specfile.load(tmp_path / "killcheck.yaml"))))
    assert len(found) == len(said), [one.message for one in found]
    assert all(words in one.message for words, one in zip(said, found, strict=True))


def test_the_highest_and_the_dearest_are_kept():
    peaks, path = (
        Peaks(),
        specfile.loads(SPEC.replace("{MORE}", "{most: 1, maxUsdPerHour: 0.4}").replace("{ENV}", "{}")),
    )
    target = path.targets[0]
    assert peaks.passed(target) is None
    peaks.notice(target, Count(1, NOW, NOW, "count", (Rented("a", "X", 0.5),)))
    assert "took a machine at $0.50 an hour (X)" in peaks.passed(target).cause
    peaks.notice(target, Count(2, NOW, NOW, "count", (Rented("a"), Rented("b"))))
    peaks.notice(target, Count(0, NOW, NOW, "count"))
    assert "2 of fleet were on" in peaks.passed(target).cause
