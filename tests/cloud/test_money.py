"""What it comes to: spot prices where they can be asked, GPU-hours, a night, a month, an item."""

from datetime import UTC, datetime, timedelta

import pytest

from killcheck.cloud.spot_prices import SpotPrices
from killcheck.spec.chargeback import Chargeback, owner_labels
from killcheck.watch.charged import Charged, Holder
from killcheck.watch.cost import Meter, bill

T0 = datetime(2026, 11, 21, 3, tzinfo=UTC)


def node(name="n1", kind="p4d.24xlarge", capacity="spot", zone="us-east-1a", gpus=8):
    return {
        "metadata": {
            "name": name,
            "labels": {
                "node.kubernetes.io/instance-type": kind,
                "karpenter.sh/capacity-type": capacity,
                "topology.kubernetes.io/zone": zone,
            },
        },
        "status": {"capacity": {"nvidia.com/gpu": str(gpus)}, "allocatable": {"nvidia.com/gpu": str(gpus)}},
    }


def on_demand(kind):
    return {"p4d.24xlarge": 22.0}.get(kind)


def spot(kind, zone):
    return 7.0 if zone == "us-east-1a" else None


@pytest.mark.parametrize(
    ("counted", "overrides", "rate"),
    [
        (node(), {}, 7.0),
        (node(capacity="on-demand"), {}, 22.0),
        (node(zone="us-east-1b"), {}, 22.0),
        (node(), {"p4d.24xlarge": 3.0}, 3.0),
        (node(kind="x9.huge", zone="us-east-1b"), {}, None),
    ],
)
def test_the_specs_price_goes_before_spots_and_that_before_on_demand(counted, overrides, rate):
    meter = Meter(on_demand, overrides, spot=spot)
    meter.count(counted, T0)
    assert meter.rate() == rate
    assert meter.usd(T0 + timedelta(hours=2)) == (None if rate is None else 2 * rate)


def test_gpu_hours_are_the_nodes_devices_until_each_is_gone():
    meter = Meter(on_demand)
    meter.count(node("a"), T0)
    meter.count(node("b", gpus=4), T0)
    meter.stop("b", T0 + timedelta(minutes=30))
    assert meter.gpu_hours(T0 + timedelta(hours=2)) == pytest.approx(8 * 2 + 4 * 0.5)


@pytest.mark.parametrize(
    ("label", "value"),
    [("cloud.google.com/gke-spot", "true"), ("kubernetes.azure.com/scalesetpriority", "spot"), ("pool", "spot")],
)
def test_what_part_of_the_hours_was_spot(label, value):
    meter = Meter(on_demand)
    other = node("b", gpus=4)
    other["metadata"]["labels"] |= {"karpenter.sh/capacity-type": "on-demand", label: value}
    first = node("a", gpus=4)
    first["metadata"]["labels"]["karpenter.sh/capacity-type"] = "on-demand"
    meter.count(first, T0)
    meter.count(other, T0)
    meter.stop("b", T0 + timedelta(hours=1))
    share = meter.spot_share(T0 + timedelta(hours=3))
    assert share == (None if label == "pool" else pytest.approx(0.25))
    assert bill(usd=1.0, gpu_hours=1.0, rate=1.0, spot_share=share).get("spot_share") == share


def test_whose_hours_they_were():
    """Held, idling after its holder, free beside one, and fetched at a start."""
    meter, charged = Meter(on_demand), Charged()
    eval_, chat = Holder("ml", "Job/eval", (("team", "ml"),)), Holder("web", "Deployment/chat")
    for name, capacity in (("a", "on-demand"), ("b", "on-demand")):
        meter.count(node(name, capacity=capacity), T0)
    charged.hold("1", eval_, "a", 8, T0)
    charged.hold("2", chat, "b", 2, T0)
    charged.only(["2"], T0 + timedelta(hours=1))
    charged.fetch("1", "140Gi")
    charged.fetch("2", "much")
    now = T0 + timedelta(hours=3)
    bill_ = charged.bill(meter.counted(), now, 0.1)
    rows = {row["workload"]: (row["gpu_hours"], row["idle_gpu_hours"], row["usd"]) for row in bill_["by"]}
    assert rows == {"Job/eval": (24, 16, 66.0), "Deployment/chat": (6, 0, 16.5), "": (18, 0, 49.5)}
    assert sum(usd for _, _, usd in rows.values()) == meter.usd(now)
    assert (bill_["egress_gib"], bill_["egress_usd"]) == (140.0, 14.0)
    assert bill_["by"][0]["labels"] == {"team": "ml"}


@pytest.mark.parametrize(
    ("said", "found"),
    [(None, {"acme.io/team": "x", "cost-center": "4"}), (Chargeback(("project",)), {"project": "p"})],
)
def test_which_labels_say_whose(said, found):
    assert owner_labels(said, [{"acme.io/team": "x", "app": "a"}, {"cost-center": "4", "project": "p"}]) == found


def test_a_night_a_month_and_an_item():
    told = bill(usd=44.0, gpu_hours=16.0, rate=22.0, until_next_chance=528.0, items_per_hour=1100.0)
    assert told == {
        "gpu_hours": 16.0,
        "usd_per_night": 528.0,
        "usd_per_month": 528.0 * 30,
        "usd_per_item": 0.02,
        "items_idled": 26400,
    }
    assert bill(usd=44.0, gpu_hours=1, rate=0.5, until_next_chance=100.0)["usd_per_month"] == 365.0  # never more
    assert bill(usd=2.0, gpu_hours=1, rate=22.0)["usd_per_night"] == 2.0
    unknown = bill(usd=None, gpu_hours=1, rate=None, items_per_hour=5.0)
    assert [unknown[key] for key in ("usd_per_night", "usd_per_month", "usd_per_item", "items_idled")] == [None] * 4


def test_spot_prices_are_ec2s_latest_and_asked_once(stand_in):
    prices = SpotPrices(stand_in.aws())
    asked = (
        stand_in.aws()
        .client("ec2")
        .describe_spot_price_history(InstanceTypes=["p4d.24xlarge"], AvailabilityZone="us-east-1a")["SpotPriceHistory"]
    )
    assert asked
    before = len(stand_in.gate.seen)
    found = prices("p4d.24xlarge", "us-east-1a")
    assert found in {float(one["SpotPrice"]) for one in asked}
    assert prices("p4d.24xlarge", "us-east-1a") == found
    assert len(stand_in.gate.seen) == before + 1
    stand_in.gate.refuse("ec2", "DescribeSpotPriceHistory", "denied")
    assert prices("g5.xlarge", "us-east-1a") is None
    assert "DescribeSpotPriceHistory: access denied" in prices.problem
