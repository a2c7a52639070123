"""No secret survives redaction, and nothing else is lost."""

from __future__ import annotations

import base64
import io
import re
import time
from datetime import UTC, datetime

import pytest
from canaries import CANARIES, NAMED, UNLISTED
from rich.text import Text

from killcheck.events import Said
from killcheck.reports.screen import screen
from killcheck.text import redaction
from killcheck.text.redaction import clean, hide, hide_environment, redact
from killcheck.text.shown import shown

TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl"  # the parts say so themselves


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"token: {TOKEN}", TOKEN),
        ("Authorization: Bearer abcdef0123456789", "abcdef0123456789"),
        ('{"authorization": "Basic dXNlcjpwYXNz"}', "dXNlcjpwYXNz"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENG", "wJalrXUtnFEMIK7MDENG"),
        ("key AKIAIOSFODNN7EXAMPLE used", "AKIAIOSFODNN7EXAMPLE"),
        ("password: hunter22", "hunter22"),
        ("https://user:s3cret@registry.example/v2/", "s3cret"),
        ("postgres://user:s3cret@db.example/x", "s3cret"),
        ("git clone https://ghp_abcdefghijklmnopqrstuvwx012345@github.com/x/y", "ghp_abcdefghijklmnopqrstuvwx012345"),
        ("clone https://0123456789abcdef0123@git.example/x", "0123456789abcdef0123"),
        ("export HF_TOKEN=hf_abcdefghijklmnopqrstuvwx", "hf_abcdefghijklmnopqrstuvwx"),
        ("curl https://hooks.slack.com/services/T000/B000/XXXXXXXX", "XXXXXXXX"),
        ("GET https://b.s3.amazonaws.com/k?X-Amz-Signature=0123456789abcdef&x=1", "0123456789abcdef"),
        ("vault login --token s.0123456789abcdef", "s.0123456789abcdef"),
        ("https://acr.example?sig=abc%2Fdef%3D", "abc%2Fdef"),
        ('{"access_token":"0123456789abcdefghij"}', "0123456789abcdefghij"),
        ('{"auths":{"r.example":{"auth":"dXNlcjpodW50ZXIy"}}}', "dXNlcjpodW50ZXIy"),
        ("token: " + base64.b64encode(TOKEN.encode()).decode(), base64.b64encode(TOKEN.encode()).decode()[:30]),
        ("LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0tCk1IY0NBUUVFSUs=", "BFQyBQUklWQVRFIEtFWS0tLS0tCk1IY0NBUUVFSUs"),
        ('I1 response: {"kind":"Secret","apiVersion":"v1","data":{"x":"aHVudGVyMg=="}}', "aHVudGVyMg"),
        (r'msg="{\"kind\":\"Secret\",\"data\":{\"x\":\"aHVudGVyMg==\"}}"', "aHVudGVyMg"),
        ("apiVersion: v1\ndata:\n  x: aHVudGVyMg==\n  y: eA==\nkind: Secret\n", "aHVudGVyMg"),
        ("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIK\n-----END EC PRIVATE KEY-----", "MHcCAQEEIK"),
    ],
)
def test_secrets_go(text, secret):
    assert secret not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "bitbucket_secret={}",
        '{{"zendesk.secret": "{}"}}',
        "secret_key_base: {}",
        "messagebird_key = '{}'",
        "Server=db;Uid=sa;Pwd={};",
        "psk={}",
        "bindpw {}",
        "PrivateKey = {}",
        "otpauth://totp/x?secret={}&issuer=y",
        "BUNDLE_ENTERPRISE__CONTRIBSYS__COM={}:{}",
        "sshpass -p {} ssh host",
        "docker login -u bot -p {} r.example",
        "mysql --batch -p{} -u root",
        "mariadb-dump -u root -p'{}' db",
        "GenieKey 0c9f2b64-{}",
    ],
)
def test_what_is_given_to_a_name_or_a_program_goes_however_it_is_written(text):
    assert "tulip7of9" not in redact(text.replace("{{", "{").replace("}}", "}").replace("{}", "tulip7of9"))


@pytest.mark.parametrize(
    "scheme", ['Digest username="a", realm="b", response="{}"', "AWS4-HMAC-SHA256 x, Signature={}"]
)
def test_what_is_signed_goes_with_its_signature(scheme):
    assert "0123456789abcdef" not in redact("Authorization: " + scheme.format("0123456789abcdef" * 4))


def secret_part(value):
    """The longest of its parts, hosts aside."""
    parts = value.replace("/", " ").replace("@", " ").replace(":", " ").replace("=", " ").split()
    return max((part for part in parts if not part.endswith((".example", ".com"))), key=len)


@pytest.mark.parametrize(
    "text",
    [
        "Secret/media/app-secret has variants, and ConfigMap/app-token is not there",
        "registry.k8s.io/kubectl@sha256:" + "0123456789abcdef" * 4,
        "cosign: sha256-" + "0123456789abcdef" * 4 + ".sig",
        "Pod/inference/vllm-6b8f5d7c9-x2x4z: FailedCreatePodSandBox",
        "uid 0c9f2b64-7a1d-4e83-9b5f-3d6e1a2c4f70 at 2026-01-15T03:00:01.000000Z",
        "node ip-10-0-13-7.eu-central-1.compute.internal, i-0123456789abcdef0, p5.48xlarge",
        "killcheck-journal-20260115-030001-abc123-0",
        "PodDisruptionBudgetRetrievalError, FailedToRetrieveImagePullSecret, http2: server sent GOAWAY",
        "GET /apis/apps/v1/namespaces/inference/deployments/vllm/scale 409 resourceVersion 4711",
        "commit 0123456789abcdef0123456789abcdef01234567",
        'secret "gpu-pull-2" not found; secretName: gpu-pull-2026; topologyKey: topology.kubernetes.io/zone',
        "passwords are in vault2; mysql -h db2 -P 3306; login failed: -1; a keyboard: 104keys",
    ],
)
def test_what_kubernetes_and_its_clouds_call_things_stays(text):
    assert redact(text) == text


@pytest.mark.parametrize("value", UNLISTED.values(), ids=UNLISTED)
@pytest.mark.parametrize("said", ["fatal: {}", "got {} from there", "x='{}'"], ids=["end", "middle", "quoted"])
def test_no_list_of_makers_is_whole(said, value):
    core = max(re.findall(r"[A-Za-z0-9]{10,}|[A-Fa-f0-9-]{30,}", value), key=len)
    assert core[-10:] not in redact(said.format(value))


@pytest.mark.parametrize("value", CANARIES.values(), ids=CANARIES)
@pytest.mark.parametrize("text", ["{}", "got {} back", '{{"x": "{}"}}', "curl -d '{}' https://x.example", "A={}\n"])
def test_no_known_format_stays(value, text):
    assert secret_part(value) not in redact(text.format(value))


@pytest.mark.parametrize(("name", "value"), NAMED.items())
@pytest.mark.parametrize(
    "text",
    [
        "{n}={v} psql",
        "export {n}='{v}'",
        '[{{"name": "{n}", "value": "{v}"}}]',
        "- name: {n}\n  value: {v}\n",
        "curl -H 'X-{n}: {v}' https://x",
        "run --{n} {v}",
        "run --{n}={v}",
    ],
)
def test_what_a_name_says_is_secret_goes(name, value, text):
    word = name.lower().replace("_", "-") if "--" in text else name.replace("_", "-") if "X-" in text else name
    assert value not in redact(text.format(n=word, v=value))


@pytest.mark.parametrize(
    "text",
    [
        "PWD=/home/me make",
        "the path of auth: not found",
        "KEY=",
        "kubectl get pods -l app=vllm",
        "nvidia.com/gpu=1",
        "sha256:" + "0a" * 32,
        "exec $TOKEN",
        "--token-file=/var/run/token",
        "uid 7f1c9a52-33b1-4a0e-9a55-0123456789ab",
        "vllm-7c6f4b54c9-abcde on i-0123456789abcdef0",
        "2026-01-15T03:00:00Z patch deployments.apps vllm",
    ],
)
def test_what_only_looks_like_it_stays(text):
    assert redact(text) == text


UNITS = [
    "x",
    "7",
    "a-",
    "--a-",
    "a.",
    "A_",
    "\n",
    " ",
    "name:\n",
    "kind:",
    "=",
    '"',
    "eyJ",
    "/",
    "://",
    "secret=",
    "a_key: b ",
    "login -p",
    "mysql a ",
    "\x1b[",
    "aB1",
    "A-b_1",
    "\\",
]


@pytest.mark.parametrize("unit", UNITS)
def test_a_long_text_of_one_thing_costs_no_more_than_its_length(unit):
    """A program prints what it likes: a pattern that tries every beginning anew takes ten seconds for this, and hours
    for what a container may say."""
    text = f"token said by a pass: {unit * (24_000 // len(unit))}"
    before = time.process_time()
    assert len(redact(text)) <= len(text) + len("<redacted>")
    assert time.process_time() - before < 1.5


def test_ordinary_words_stay():
    text = 'curl: (22) The requested URL returned error: 403; secrets "pull" not found; token request refused'
    assert redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "kubectl get secret pull -o yaml: forbidden",
        "the token expired at 2026-11-21T11:00:00Z",
        "token audience: https://kubernetes.default.svc.cluster.local",
        "kind: Deployment\ndata: x\n",
        "system:serviceaccount:inference:killcheck cannot patch",
        "s3://bucket/prefix",
        "ssh://git@host/x",
        "docker.io/vllm/vllm-openai:v0.11.0 on ip-10-0-244-77.ec2.internal",
        "policy/v1 Eviction refused: keyless",
    ],
)
def test_what_a_diagnosis_says_stays(text):
    assert redact(text) == text


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr(redaction, "_known", redaction._Known())


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("around", ["", "x", "xy", "user:"])
def test_a_known_secret_goes_also_where_base64_wraps_it(around):
    secret = "correct horse battery staple"
    hide(secret)
    wrapped = base64.b64encode(f"{around}{secret}{around}".encode()).decode()
    hidden = redact(f"before {secret} {wrapped} after")
    assert secret not in hidden
    assert hidden.startswith("before <redacted> ")
    assert hidden.endswith(" after")
    assert len(hidden.split()[2].replace("<redacted>", "")) <= 8 + 3 * len(around)  # the edges that others share


@pytest.mark.usefixtures("known")
def test_what_the_environment_calls_secret_goes_and_where_it_is_stays():
    hide_environment(
        {
            "REGISTRY_PASSWORD": "swordfish1",
            "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token",
            "PATH": "/usr/bin:/bin",
            "API_TOKEN": "short",
            "TOKEN_URL": "https://login.example",
        }
    )
    text = "/var/run/token short https://login.example /usr/bin:/bin"
    assert redact(f"swordfish1 {text}") == f"<redacted> {text}"


@pytest.mark.usefixtures("known")
def test_every_text_of_an_event_is_cleaned():
    hide("swordfish1")
    said = Said(
        at=datetime(2026, 1, 1, tzinfo=UTC),
        drill="d",
        object="Pod/x",
        type="Warning",
        reason="Failed",
        message="401 for swordfish1",
        count=1,
        component="kubelet",
    )
    assert clean(said).message == "401 for <redacted>"
    assert clean(said).at == said.at
    assert clean({"a": ["swordfish1", 1, None, ("swordfish1",)]}) == {"a": ["<redacted>", 1, None, ("<redacted>",)]}


#: What a terminal obeys: colours, clearing, titles, by two bytes and by one; directions, what is invisible.
OBEYED = (
    "\x1b[31m",
    "\x1b[2J",
    "\x1b[?25l",
    "\x1b]0;t\x07",
    "\x1b]8;;u\x1b\\",
    "\x9b2J",
    "\x9d0;t\x9c",
    "\u202e",
    "\u200b",
)


@pytest.mark.parametrize("sequence", OBEYED)
def test_nothing_in_a_text_is_obeyed_by_a_terminal_or_hides_a_secret(sequence):
    assert redact(f"exit 3{sequence}: proven\n\tat\r\n") == "exit 3: proven\n\tat\n"
    assert "hunter22" not in redact(f"pass{sequence}word: {sequence}hunter22")
    assert redact(f"{sequence}AKIAIOSFODNN7{sequence}EXAMPLE{sequence}") == "<aws-access-key-id>"
    out = io.StringIO()
    screen(file=out).say(Text(f"a{sequence}b", style="red"))
    assert (out.getvalue()[:1], out.getvalue()[-2:]) == ("a", "b\n")
    assert out.getvalue()[:-1].isprintable()


def test_a_known_secret_is_found_whatever_is_put_into_it():
    hide("Tulip-of-the-9th")
    for said in ("Tulip-\x1b[1mof-the-9th", "\u2066Tulip-of-the-9th", "Tulip-of\x9b0m-the-9th"):
        assert redact(said) == "<redacted>"


def test_what_is_no_sequence_is_shown_as_what_it_is_not():
    assert redact("10%\r20%\x08\x0b\x7f\x85\u2028é☃👩\u200d🚀") == "10%?20%?????é☃👩\u200d🚀"
    assert redact("\x1b]0;never ended") == "?]0;never ended"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("at ::set-output name=exit-code::0", "at : :set-output name=exit-code::0"),
        ("##vso[task.complete result=Succeeded;]", "# #vso[task.complete result=Succeeded;]"),
        ("::error file=a.yaml::said by killcheck itself", "::error file=a.yaml::said by killcheck itself"),
        ("std::string of 2001:db8::1", "std::string of 2001:db8::1"),
    ],
)
def test_a_programs_words_are_no_command_to_the_runner_of_a_pipeline(text, seen):
    assert shown(text) == seen
