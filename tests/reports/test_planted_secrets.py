"""Secrets planted wherever one can be: in no file that a drill leaves, in no line that it prints."""

from __future__ import annotations

import base64

import pytest
from canaries import CANARIES, NAMED, UNLISTED
from click.testing import CliRunner

from killcheck import fixtures
from killcheck.cli import main
from killcheck.text import redaction

PASSWORD = "Tr0ub4dor-and-3"
LITERAL = "b7c1-literal-in-the-manifest"
OURS = "0wn-environment-variable"
SECRET = f"""
apiVersion: v1
kind: Secret
metadata: {{name: registry, namespace: inference}}
data: {{password: {base64.b64encode(PASSWORD.encode()).decode()}}}
"""
VARIABLES = f"""              env:
                - {{name: API_KEY, value: {LITERAL}}}
                - {{name: OF_OURS, value: {OURS}}}
{"".join(f"                - {{name: {name}, value: {value}}}{chr(10)}" for name, value in NAMED.items())}\
                - {{name: PASSWORD, valueFrom: {{secretKeyRef: {{name: registry, key: password}}}}}}
"""
#: What an executor that is being debugged prints; then it fails, so that the diagnosis quotes it.
TELLS_ALL = (
    """set -eu
                  T=$(cat /var/run/secrets/kubernetes.io/serviceaccount/token)
                  echo "raw $PASSWORD $API_KEY"; printf 'x:%s' "$PASSWORD" | base64; printf '%s' "$T" | base64 -w0
                  echo "> authorization: basic $(printf 'u:%s' "$PASSWORD" | base64)"
                  echo "fatal: unable to access https://bot:$PASSWORD@git.example/x and https://$API_KEY@git.example"
                  echo '{"kind":"Secret","data":{"x":"c2hvcnQx"}}'
                  printf 'raw %s\\n' "$PASSWORD" >&2
                  echo "$PGPASS and $AUTH"; env | grep -E 'PASS|PWD|AUTH|KEY|DSN|COOKIE'
"""
    + "".join(f"                  echo 'fatal: {value}' >&2\n" for value in (*CANARIES.values(), *UNLISTED.values()))
    + """\
                  exit 7
"""
)
FILES = ("html", "junit", "json", "sarif", "prometheus", "github-summary", "slack")


@pytest.fixture
def deploy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(redaction, "_known", redaction._Known())
    monkeypatch.setenv("DEPLOY_TOKEN", OURS)
    folder = tmp_path / "deploy"
    folder.mkdir()
    for file in fixtures.path("dead-man").glob("*.yaml"):
        text = file.read_text().replace("set -eu\n", TELLS_ALL, 1).replace("              env:\n", VARIABLES, 1)
        (folder / file.name).write_text(text)
    (folder / "secret.yaml").write_text(SECRET)
    return folder


def test_nothing_that_a_drill_leaves_or_prints_holds_a_secret(deploy, tmp_path):
    done = CliRunner().invoke(main, ["drill", "--manifests", str(deploy), "--exec", "host", "--watch", "40m"])
    assert done.exit_code == 1, done.output
    (record,) = tmp_path.glob(".killcheck/runs/*/run.jsonl")
    asked = [word for name in FILES for word in (f"--{name}", str(tmp_path / f"report.{name}"))]
    told = CliRunner().invoke(main, ["report", str(record), *asked, "--allure", str(tmp_path / "allure")])
    assert told.exit_code == 0, told.output
    again = CliRunner().invoke(main, ["report", str(record)])
    as_json = CliRunner().invoke(
        main, ["drill", "--manifests", str(deploy), "--exec", "host", "--watch", "40m", "--json"]
    )
    texts = {"stdout": done.output, "report": again.output, "--json": as_json.output} | {
        str(path): path.read_text() for path in tmp_path.rglob("*") if path.is_file() and deploy not in path.parents
    }
    assert len(texts) > len(FILES) + 3
    assert "<redacted>" in texts[str(record)]  # it was printed, and quoted
    for name, text in texts.items():
        for secret in (PASSWORD, LITERAL, OURS, "c2hvcnQx", "eyJhbGci", "ZXlKaGJH"):
            assert secret not in text, name
        for secret in (*CANARIES.values(), *UNLISTED.values(), *NAMED.values()):
            assert secret not in text, name
        for wrapped in ("x:", "u:", ""):
            assert base64.b64encode(f"{wrapped}{PASSWORD}".encode()).decode()[4:-4] not in text, name
