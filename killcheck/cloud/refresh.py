"""Writing `instances.csv` anew: from EC2's own descriptions, through boto3 or from a saved answer.

    python -m killcheck.cloud.refresh OUT.csv --region us-east-1            asks EC2 and the price list
    python -m killcheck.cloud.refresh OUT.csv --descriptions FILE.json      `aws ec2 describe-instance-types` saved

Types and prices that neither source has are kept from the catalogue that is shipped.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from killcheck.clock import wall_now
from killcheck.cloud.session import AskError, Aws, pages
from killcheck.instances.catalogue import Catalogue, CatalogueError, InstanceType, shipped
from killcheck.text.files import bytes_of
from killcheck.text.values import replace

__all__ = ["describe", "instance_type", "main", "prices", "refresh", "render"]

#: What EC2's description lacks although AWS documents it: devices that the API does not list (2026-07).
_UNLISTED: dict[str, dict[str, Any]] = {
    "trn2u.48xlarge": {
        "device_kind": "accelerator",
        "device_name": "trainium2",
        "device_manufacturer": "aws",
        "device_count": 16,
        "device_memory_mib": 98304,
        "device_cores": 8,
    },
}

_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}


def instance_type(info: Mapping[str, Any]) -> InstanceType | None:
    """One entry of DescribeInstanceTypes; None for what no current node can run on (paravirtual, 32 bit, macOS)."""
    processor = info.get("ProcessorInfo", {})
    arch = next((_ARCHITECTURES[a] for a in processor.get("SupportedArchitectures", ()) if a in _ARCHITECTURES), "")
    if not arch or "hvm" not in info.get("SupportedVirtualizationTypes", ["hvm"]):
        return None
    name = str(info["InstanceType"])
    network = info.get("NetworkInfo", {})
    found = InstanceType(
        name,
        arch=arch,
        vcpu=int(info["VCpuInfo"]["DefaultVCpus"]),
        memory_mib=int(info["MemoryInfo"]["SizeInMiB"]),
        local_nvme_gb=_nvme(info),
        cpu_manufacturer=str(processor.get("Manufacturer", "")).lower().replace(" ", "-"),
        clock_mhz=round(float(processor.get("SustainedClockSpeedInGhz") or 0) * 1000),
        ebs_mbps=_ebs(info),
        hypervisor=str(info.get("Hypervisor") or ""),
        encryption_in_transit=bool(network.get("EncryptionInTransitSupported")),
        nitro_enclaves=info.get("NitroEnclavesSupport") == "supported",
        usage=tuple(info.get("SupportedUsageClasses", ("on-demand", "spot"))),
        pods=_pods(network),
        efa=int((network.get("EfaInfo") or {}).get("MaximumEfaInterfaces") or 0),
    )
    return replace(found, **(_devices(info) | _UNLISTED.get(name, {})))


def _nvme(info: Mapping[str, Any]) -> int:
    storage = info.get("InstanceStorageInfo") or {}
    return 0 if storage.get("NvmeSupport") == "unsupported" else int(storage.get("TotalSizeInGB") or 0)


def _ebs(info: Mapping[str, Any]) -> int:
    ebs = info.get("EbsInfo") or {}
    if ebs.get("EbsOptimizedSupport") != "default":
        return 0
    return int((ebs.get("EbsOptimizedInfo") or {}).get("MaximumBandwidthInMbps") or 0)


def _pods(network: Mapping[str, Any]) -> int:
    """What the VPC CNI can address on the default card: cards x (addresses - 1) + 2."""
    cards = network.get("NetworkCards") or []
    index = int(network.get("DefaultNetworkCardIndex") or 0)
    interfaces = int(cards[index].get("MaximumNetworkInterfaces", 0)) if index < len(cards) else 0
    return interfaces * (int(network.get("Ipv4AddressesPerInterface") or 1) - 1) + 2 if interfaces else 110


def _devices(info: Mapping[str, Any]) -> dict[str, Any]:
    """The device columns, from whichever of EC2's five ways of listing devices this type uses."""
    ways = (
        ("gpu", "GpuInfo", "Gpus"),
        ("accelerator", "NeuronInfo", "NeuronDevices"),
        ("accelerator", "InferenceAcceleratorInfo", "Accelerators"),
        ("fpga", "FpgaInfo", "Fpgas"),
        ("media", "MediaAcceleratorInfo", "Accelerators"),
    )
    for kind, section, entries in ways:
        for device in (info.get(section) or {}).get(entries, ())[:1]:
            maker = "aws" if section == "NeuronInfo" else str(device.get("Manufacturer", ""))
            share = float(device.get("GpuPartitionSize") or 0)
            return {
                "device_kind": kind,
                "device_name": str(device["Name"]).lower().replace(" ", "-"),
                "device_manufacturer": maker.lower().replace(" ", "-"),
                "device_count": int(device["Count"]),
                "device_fraction": share if 0 < share < 1 else 0.0,
                "device_memory_mib": int(device["MemoryInfo"]["SizeInMiB"]),
                "device_cores": int((device.get("CoreInfo") or {}).get("Count") or 0),
            }
    return {}


def describe(region: str, profile: str | None = None, *, aws: Any = None) -> Iterator[Mapping[str, Any]]:
    """Every type that EC2 describes in ``region``. Raises CatalogueError where AWS cannot be asked."""
    try:
        for page in pages(aws or Aws(region, profile or ""), "ec2", "describe_instance_types"):
            yield from page["InstanceTypes"]
    except AskError as error:
        raise CatalogueError(f"EC2 in {region} could not be asked for its instance types: {error}") from error


def prices(region: str, profile: str | None = None, *, aws: Any = None) -> dict[str, float]:
    """On-demand Linux prices in ``region``, USD an hour, from AWS' price list. Raises CatalogueError."""
    wanted = {
        "regionCode": region,
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "tenancy": "Shared",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    filters = [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in wanted.items()]
    found: dict[str, float] = {}
    try:
        asked = aws or Aws(region, profile or "")
        for page in pages(asked, "pricing", "get_products", ServiceCode="AmazonEC2", Filters=filters):
            for text in page["PriceList"]:
                product = json.loads(text)
                price = _hourly(product)
                if price:
                    found[product["product"]["attributes"]["instanceType"]] = price
    except AskError as error:
        raise CatalogueError(f"AWS' price list could not be read: {error}") from error
    return found


def refresh(out: Path, region: str, profile: str | None = None) -> int:
    """Write the catalogue anew at ``out`` from EC2 and the price list; returns how many types it holds.

    The file is replaced only when everything was read. Raises CatalogueError.
    """
    infos, usd = list(describe(region, profile)), prices(region, profile)
    types = merged(infos, usd, shipped())
    _write(out, types, f"EC2 DescribeInstanceTypes and the AWS price list, {region}", region)
    return len(types)


def _write(out: Path, types: list[InstanceType], source: str, region: str) -> None:
    stamp = f"source: {source}; written {wall_now():%Y-%m-%d}; on-demand Linux, USD an hour, {region}"
    temporary = out.with_name(f"{out.name}.new")
    try:
        temporary.write_text(render(types, stamp), encoding="utf-8")
        temporary.replace(out)
    except OSError as error:
        raise CatalogueError(f"{out} cannot be written: {error.strerror or error}") from error


def _hourly(product: Mapping[str, Any]) -> float:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            if dimension["unit"] == "Hrs":
                return float(dimension["pricePerUnit"].get("USD", 0))
    return 0.0


def saved(path: Path) -> list[Mapping[str, Any]]:
    """The entries of a saved answer: the API's own (``InstanceTypes``), or one mapping by name; may be gzipped."""
    raw = bytes_of(path)
    content = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    return content["InstanceTypes"] if "InstanceTypes" in content else list(content.values())


def merged(infos: Iterable[Mapping[str, Any]], usd: Mapping[str, float], base: Catalogue) -> list[InstanceType]:
    """The described types, with prices from ``usd`` or else ``base``, and what only ``base`` knows."""
    found = {one.name: one for one in base.of("aws")}
    for info in infos:
        one = instance_type(info)
        if one is None:
            continue
        before = found.get(one.name)
        found[one.name] = replace(one, usd_per_hour=usd.get(one.name) or (before.usd_per_hour if before else None))
    return sorted(found.values(), key=lambda one: one.name)


def render(types: Iterable[InstanceType], source: str) -> str:
    """The CSV file, its source in the header."""
    out = io.StringIO()
    out.write("".join(f"# {line}\n" for line in source.splitlines()))
    columns = [name for name in InstanceType.__struct_fields__ if name != "provider"]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for one in types:
        writer.writerow([_cell(getattr(one, column)) for column in columns])
    return out.getvalue()


def _cell(value: Any) -> str:
    if not value:
        return ""
    if value is True:
        return "true"
    if isinstance(value, tuple):
        return "|".join(value)
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m killcheck.cloud.refresh", description="Refresh the catalogue.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--profile")
    parser.add_argument("--descriptions", type=Path, help="a saved DescribeInstanceTypes answer instead of asking")
    options = parser.parse_args(arguments)
    try:
        if options.descriptions:
            types = merged(saved(options.descriptions), {}, shipped())
            _write(options.out, types, options.descriptions.name, options.region)
        else:
            refresh(options.out, options.region, options.profile)
    except CatalogueError as error:
        sys.stderr.write(f"{error}\n")
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
