import json

import pytest

from killcheck.cloud import refresh
from killcheck.instances.amounts import amount
from killcheck.instances.catalogue import CatalogueError, load, shipped


def test_every_file_says_where_it_is_from_and_of_when():
    assert len(shipped().sources) == 4
    for source in shipped().sources:
        assert "source:" in source
        assert "2026" in source


@pytest.mark.parametrize(
    ("name", "devices", "gpus", "usd"),
    [
        ("p5.48xlarge", 8, 8, 55.04),
        ("p4de.24xlarge", 8, 8, 27.44705),
        ("g6.xlarge", 1, 1, 0.8048),
        ("trn1.32xlarge", 16, 0, 21.5),
        ("inf2.48xlarge", 12, 0, 12.98127),
        ("dl2q.24xlarge", 8, 0, None),
        ("trn2u.48xlarge", 16, 0, None),
        ("g6f.large", 1, 0, 0.202),
        ("gr6f.4xlarge", 1, 0, 1.066),
        ("dl1.24xlarge", 8, 8, 13.10904),
        ("p2.16xlarge", 16, 16, 14.4),
        ("p3.16xlarge", 8, 8, 24.48),
        ("p6e-gb200.36xlarge", 4, 4, None),
        ("f2.48xlarge", 8, 0, 15.84),
        ("m5.large", 0, 0, 0.096),
        ("a3-highgpu-8g", 8, 8, 88.49),
        ("Standard_ND96isr_H100_v5", 8, 8, 98.32),
        ("Standard_NV6ads_A10_v5", 1, 0, 0.454),
        ("RTX_4090", 1, 1, 0.875),
    ],
)
def test_types_as_their_clouds_describe_them(name, devices, gpus, usd):
    one = shipped().get(name)
    assert (one.devices, one.gpus, one.usd_per_hour) == (devices, gpus, usd)


def test_limits_see_the_resources_that_device_plugins_advertise_and_no_others():
    named = ("trn1.32xlarge", "dl2q.24xlarge", "g6f.large", "dl1.24xlarge")
    capacity = {name: shipped().get(name).capacity for name in named}
    assert capacity["trn1.32xlarge"]["aws.amazon.com/neuron"] == 16
    assert capacity["trn1.32xlarge"]["aws.amazon.com/neuroncore"] == 32
    assert capacity["dl1.24xlarge"]["habana.ai/gaudi"] == 8
    for name in ("dl2q.24xlarge", "g6f.large"):
        assert not [key for key in capacity[name] if "/" in key and "efa" not in key]


def test_labels_are_karpenters():
    labels = shipped().get("p5en.48xlarge").labels
    assert labels["instance-category"] == ("p",)
    assert labels["instance-generation"] == ("5",)
    assert labels["instance-family"] == ("p5en",)
    assert labels["instance-memory"] == ("2097152",)
    assert labels["instance-accelerator-count"] == ()
    assert shipped().get("g6f.large").labels["instance-gpu-count"] == ("0",)
    assert shipped().get("u7i-12tb.224xlarge").labels["instance-generation"] == ("7",)


def test_an_unknown_type_is_not_known_to_be_empty():
    assert shipped().get("p9.96xlarge") is None


def test_a_teams_own_prices_and_types_go_on_top(tmp_path):
    (tmp_path / "prices.csv").write_text("# our agreement, 2026\ninstance_type,usd_per_hour\np5.48xlarge,31.5\n")
    (tmp_path / "types.yaml").write_text(
        "- {instance_type: p9.96xlarge, vcpu: 384, memory_mib: 4194304, device_kind: gpu, device_name: r100,\n"
        "   device_manufacturer: nvidia, device_count: 16, usd_per_hour: 190}\n"
    )
    catalogue = load(tmp_path / "prices.csv", tmp_path / "types.yaml")
    assert (catalogue.get("p5.48xlarge").usd_per_hour, catalogue.get("p5.48xlarge").devices) == (31.5, 8)
    assert catalogue.get("p9.96xlarge").capacity["nvidia.com/gpu"] == 16
    assert str(tmp_path / "types.yaml") in catalogue.sources
    assert shipped().get("p9.96xlarge") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("instance_type,usd\np5.48xlarge,3", "unknown column 'usd'"),
        ("usd_per_hour\n3", "instance_type is missing"),
        ("instance_type,device_count\np5.48xlarge,many", "device_count cannot be 'many'"),
        ("instance_type,usd_per_hour\np5.48xlarge,-3", "usd_per_hour cannot be '-3'"),
        ("instance_type,usd_per_hour\np5.48xlarge,nan", "usd_per_hour cannot be 'nan'"),
        (
            "# ours\n\ninstance_type,usd_per_hour\np5.48xlarge,3\n# dear\np9.96xlarge,190",
            r"prices\.csv:6: p9\.96xlarge is not in the catalogue: say its vcpu, memory_mib, device_count",
        ),
        ("instance_type,usd_per_hour\np5.48xlarge", r"prices\.csv:2: 2 columns expected"),
        ("instance_type,usd_per_hour\np5.48xlarge,3,4", r"prices\.csv:2: 2 columns expected"),
        ('instance_type,usd_per_hour\n"p5.48xlarge,3', r"prices\.csv:2: unexpected end of data"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_why(tmp_path, text, says):
    path = tmp_path / "prices.csv"
    path.write_text(text)
    with pytest.raises(CatalogueError, match=says):
        load(path)
    with pytest.raises(CatalogueError, match="No such file"):
        load(tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\np5.48xlarge: 3\n", r"types\.yaml:2: expected a list of mappings"),
        (
            "- {instance_type: p5.48xlarge}\n- {instance_type: p4d.24xlarge,\n   vcpu: few}\n",
            r"types\.yaml:2: vcpu cannot",
        ),
        ("- {instance_type: p9.96xlarge, vcpu: 8, memory_mib: 1024}\n", r"types\.yaml:1: .* say its device_count"),
        ("- [\n", r"types\.yaml:[12]: "),
    ],
)
def test_what_a_yaml_file_must_be(tmp_path, text, says):
    (tmp_path / "types.yaml").write_text(text)
    with pytest.raises(CatalogueError, match=says):
        load(tmp_path / "types.yaml")


def test_a_price_of_a_type_that_nobody_knows_does_not_make_it_known():
    catalogue = shipped().priced({"p5.48xlarge": 31.5, "p9.96xlarge": 190.0}, "our spec")
    assert catalogue.get("p5.48xlarge").usd_per_hour == 31.5
    assert catalogue.get("p9.96xlarge") is None
    assert catalogue.sources[-1] == "our spec"


DESCRIBED = {
    "InstanceType": "p9.96xlarge",
    "VCpuInfo": {"DefaultVCpus": 384},
    "MemoryInfo": {"SizeInMiB": 4194304},
    "ProcessorInfo": {"SupportedArchitectures": ["arm64"], "SustainedClockSpeedInGhz": 3.1, "Manufacturer": "AWS"},
    "SupportedVirtualizationTypes": ["hvm"],
    "SupportedUsageClasses": ["capacity-block"],
    "Hypervisor": "nitro",
    "NetworkInfo": {
        "DefaultNetworkCardIndex": 0,
        "NetworkCards": [{"MaximumNetworkInterfaces": 2}],
        "Ipv4AddressesPerInterface": 50,
    },
    "GpuInfo": {
        "Gpus": [
            {
                "Count": 16,
                "Name": "R 100",
                "Manufacturer": "NVIDIA",
                "MemoryInfo": {"SizeInMiB": 1000},
                "GpuPartitionSize": 1,
            }
        ]
    },
}


def test_a_saved_description_refreshes_the_file_and_keeps_what_it_lacks(tmp_path):
    saved, out = tmp_path / "types.json", tmp_path / "out.csv"
    saved.write_text(
        json.dumps(
            {
                "InstanceTypes": [
                    DESCRIBED,
                    DESCRIBED
                    | {"InstanceType": "mac9.metal", "ProcessorInfo": {"SupportedArchitectures": ["arm64_mac"]}},
                ]
            }
        )
    )
    assert refresh.main([str(out), "--descriptions", str(saved)]) == 0
    text = out.read_text()
    assert text.startswith("# source: types.json")
    assert "p9.96xlarge,arm64,384,4194304,gpu,r-100,nvidia,16," in text
    assert "mac9.metal" not in text
    assert "\np5.48xlarge,amd64,192," in text
    again = load(out)
    assert again.get("p9.96xlarge").usage == ("capacity-block",)
    assert again.get("p9.96xlarge").pods == 100


@pytest.mark.weekly
def test_refreshing_through_moto_describes_real_types(tmp_path, monkeypatch):
    moto = pytest.importorskip("moto")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    with moto.mock_aws():
        found = {one.name: one for one in map(refresh.instance_type, refresh.describe("us-east-1")) if one}
    for name in ("p5.48xlarge", "trn1.32xlarge", "m5.large", "g6f.large"):
        shipped_one = shipped().get(name)
        assert (found[name].devices, found[name].vcpu, found[name].device_name) == (
            shipped_one.devices,
            shipped_one.vcpu,
            shipped_one.device_name,
        )


def test_a_refresh_that_cannot_ask_says_so_and_writes_nothing(tmp_path, monkeypatch, capsys):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert refresh.main([str(tmp_path / "out.csv")]) == 4
    assert "could not be asked" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", 0.5),
        ("4Ti", 4 * 2**40),
        ("1e3", 1000),
        ("1E", 1e18),
        ("1Ei", 2**60),
        (8, 8),
        ("+1.5k", 1500),
        (".5", 0.5),
    ],
)
def test_quantities(text, number):
    assert amount(text) == number


@pytest.mark.parametrize("text", ["", "x", "1Kb", "1 Gi", True, None, "1e", "--1"])
def test_what_is_no_quantity(text):
    with pytest.raises(ValueError, match="not a quantity"):
        amount(text)
