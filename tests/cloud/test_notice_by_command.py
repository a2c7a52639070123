"""A spot notice that the spec's own command gives: FIS by a command line, which a stand-in on loopback answers."""

from __future__ import annotations

import shutil

import pytest

from killcheck import fixtures
from killcheck.run.public import run_drill

#: What `interrupt.sh` asks of the AWS CLI, by curl: a sandbox has no CLI of this host.
AWS = r"""#!/bin/sh
set -eu
fis() { curl -sS --fail-with-body -H 'Authorization: AWS4-HMAC-SHA256 Credential=k/20260115/eu/fis/aws4_request' "$@"; }
case "$1 $2" in
  "sts get-caller-identity") echo 123456789012 ;;
  "fis create-experiment-template")
    while [ "$1" != --cli-input-json ]; do shift; done
    fis -X POST -d "$2" "$AWS_ENDPOINT_URL/experimentTemplates" | sed 's/.*"id": *"\([^"]*\)".*/\1/' ;;
  "fis start-experiment") fis -X POST -d "{\"experimentTemplateId\": \"$4\"}" "$AWS_ENDPOINT_URL/experiments" ;;
  "fis delete-experiment-template") fis -X DELETE "$AWS_ENDPOINT_URL/experimentTemplates/$4" ;;
esac
"""
ROLE = "arn:aws:iam::123456789012:role/fis"


@pytest.mark.parametrize(
    ("started", "verdict", "said"),
    [
        ("fis start-experiment", "survived", "Karpenter drained"),
        ("fis start-experiments", "inconclusive", "./interrupt.sh ended, and no notice was given to i-"),
    ],
)
@pytest.mark.one_in(2)
def test_the_notice_is_the_commands_own(tmp_path, started, verdict, said):
    path = tmp_path / "path"
    shutil.copytree(fixtures.path("spot-training"), path)
    spec = (path / "killcheck.yaml").read_text()
    spec = spec.replace(
        "name: spot-training\n", "name: spot-training\ncloud: {endpoint: stand-in, region: ap-southeast-2}\n", 1
    )
    spec = spec.replace(
        "passEnv: [AWS_PROFILE, AWS_REGION, TEMPLATE_ROLE]",
        f'env: {{AWS_REGION: ap-southeast-2, TEMPLATE_ROLE: "{ROLE}"}}',
    )
    (path / "killcheck.yaml").write_text(spec)
    (path / "machine/bin").mkdir(parents=True)
    (path / "machine/bin/aws").write_text(AWS.replace("fis start-experiment", started))
    (path / "machine/bin/aws").chmod(0o755)
    result = run_drill(path / "killcheck.yaml", layer="spot-reclaim", exec_mode="host", horizon_s=2000.0)
    assert str(result.verdict) == verdict, (result.why, result.cause)
    assert said in result.why
    assert not result.problems
