"""What a plan may cost and make: said in numbers, with what has no price by its name."""

from types import SimpleNamespace

import pytest

from killcheck.safety import consent
from killcheck.spec.killpath import Consent


def problems(monkeypatch, plan, **limits):
    """What the limits alone object to: the cluster itself agrees to everything."""
    monkeypatch.setattr(consent, "_rights", lambda *_: ())
    cluster = SimpleNamespace(real=True, name="staging", own_consent=SimpleNamespace(objections=lambda plan: ()))
    path = SimpleNamespace(consent=Consent(contexts=("staging",), **limits), nodes=())
    try:
        consent.check(cluster, path, plan, any_command=True)
    except consent.ConsentError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("nodes", "refused"), [(2, False), (3, True)])
def test_nodes_that_would_be_made_are_limited_too(monkeypatch, nodes, refused):
    plan = consent.Plan("staging", (), (), (), usd_per_hour=0.0, new_gpu_nodes=nodes)
    assert ("3 GPU nodes would be made; the spec allows 2" in problems(monkeypatch, plan, max_gpu_nodes=2)) is refused


def test_what_has_no_price_is_named_with_how_to_give_one(monkeypatch):
    plan = consent.Plan("staging", (), (), (), usd_per_hour=None, unpriced=("box-type",))
    said = problems(monkeypatch, plan, max_usd=10.0)
    assert "the price of box-type is unknown" in said
    assert "prices:" in said
