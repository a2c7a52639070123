"""Which requests go past a proxy: golang.org/x/net/http/httpproxy, curl, and Python say it alike for these."""

import pytest

from killcheck.executor.proxies import proxy_for

API = "kubernetes.default.svc"


@pytest.mark.parametrize(
    ("past", "host", "goes"),
    [
        ("", API, False),
        (".svc", API, True),
        ("svc", API, True),
        ("default.svc", API, True),
        (".default.svc", "default.svc", False),
        ("efault.svc", API, False),
        (".cluster.local", API, False),
        ("10.0.0.0/8", API, False),
        ("10.0.0.0/8", "10.96.0.1", True),
        ("10.96.0.1", "10.96.0.1", True),
        ("10.96.0.1", "10.96.0.10", False),
        ("localhost, kubernetes.default.svc:443", API, True),
        ("*", "10.96.0.1", True),
        ("*.svc", API, True),
    ],
)
def test_what_goes_past_it(past, host, goes):
    env = {"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": past}
    assert proxy_for(env, host) == (None if goes else "proxy.example")


@pytest.mark.parametrize(
    ("env", "host"),
    [
        ({}, None),
        ({"HTTP_PROXY": "http://a:1"}, None),
        ({"https_proxy": "a:3128", "HTTPS_PROXY": "http://b:1"}, "a"),
        ({"ALL_PROXY": "socks5://c:1080"}, "c"),
        ({"HTTPS_PROXY": "http://b:1", "no_proxy": ".svc", "NO_PROXY": "other"}, None),
        ({"HTTPS_PROXY": " "}, None),
        ({"HTTPS_PROXY": "http://[x:1"}, "http://[x:1"),
    ],
)
def test_which_proxy_it_is(env, host):
    assert proxy_for(env, API) == host
