"""The instance catalogue: what each machine type holds and costs, for AWS, GCP, Azure and markets that rent cards.

The data is CSV beside this file (`instances.csv`, `gcp.csv`, `azure.csv`, `market.csv`), each with its source and date
in its header; :mod:`killcheck.cloud.refresh` writes the AWS one anew. A team adds its own prices and types with a file
of the same columns (CSV, or a YAML list of mappings). For a type that is known, only its name is compulsory::

    instance_type,usd_per_hour
    p5.48xlarge,31.46

For a new one so are ``vcpu``, ``memory_mib`` and ``device_count``: a type of which nobody says how many devices it
has is not one without any. A type that is in no file is *unknown*: :meth:`Catalogue.get` answers None, and whatever
depends on it is unproven.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from killcheck.instances.azure_sizes import size_of
from killcheck.text import lazy_re
from killcheck.text.files import text_of
from killcheck.text.values import replace

__all__ = ["Catalogue", "CatalogueError", "InstanceType", "Provider", "load", "parse", "shipped"]

Provider = Literal["aws", "gcp", "azure", "market"]

#: The files of the package, and whose types are in them.
_SHIPPED: dict[str, Provider] = {"instances.csv": "aws", "gcp.csv": "gcp", "azure.csv": "azure", "market.csv": "market"}

#: Extended resources under which device plugins advertise devices (and Karpenter expects them), by (kind, maker).
_RESOURCES = {
    ("gpu", "nvidia"): "nvidia.com/gpu",
    ("gpu", "amd"): "amd.com/gpu",
    ("gpu", "habana"): "habana.ai/gaudi",
    ("accelerator", "aws"): "aws.amazon.com/neuron",
    ("accelerator", "google"): "google.com/tpu",
}

#: `p5en.48xlarge` -> category p, generation 5; `u-6tb1.metal` -> u, 1 (karpenter-provider-aws' pattern).
_SCHEME = lazy_re.compile(r"^([a-z]+)(-[0-9]+tb)?([0-9]+).*\.")


class CatalogueError(Exception):
    """A catalogue file cannot be read; the message names the file, the row and what was expected."""


class InstanceType(Struct, frozen=True, dict=True):
    """One machine type.

    ``device_kind`` is ``gpu``, ``accelerator`` (Neuron, Qualcomm, TPU), ``fpga``, ``media`` or empty;
    ``device_count`` counts whole devices, ``device_fraction`` is the share where a type holds less than one;
    memory is in MiB, ``usd_per_hour`` the on-demand price (None: not known), ``usage`` what it can be
    bought as (``on-demand``, ``spot``, ``capacity-block``).
    """

    instance_type: str
    provider: Provider = "aws"
    arch: str = "amd64"
    vcpu: int = 0
    memory_mib: int = 0
    device_kind: str = ""
    device_name: str = ""
    device_manufacturer: str = ""
    device_count: int = 0
    device_fraction: float = 0.0
    device_memory_mib: int = 0
    device_cores: int = 0
    local_nvme_gb: int = 0
    cpu_manufacturer: str = ""
    clock_mhz: int = 0
    ebs_mbps: int = 0
    hypervisor: str = ""
    encryption_in_transit: bool = False
    nitro_enclaves: bool = False
    usage: tuple[str, ...] = ("on-demand", "spot")
    pods: int = 110
    efa: int = 0
    usd_per_hour: float | None = None

    @property
    def name(self) -> str:
        """The type's name, ``p5.48xlarge``."""
        return self.instance_type

    @property
    def devices(self) -> int:
        """Devices of any kind that bill with it; a share of one counts as one."""
        return self.device_count or (1 if self.device_fraction else 0)

    @property
    def gpus(self) -> int:
        """Whole GPUs (fractional types report none, as EC2 does)."""
        return self.device_count if self.device_kind == "gpu" else 0

    @property
    def resource(self) -> str:
        """The extended resource its devices appear as; empty where no device plugin is known."""
        return _RESOURCES.get((self.device_kind, self.device_manufacturer), "")

    @property
    def family(self) -> str:
        """``p5`` of ``p5.48xlarge``; the machine family elsewhere (``a3``, ``NCads_A100_v4``)."""
        if self.provider == "aws":
            return self.instance_type.partition(".")[0]
        return self.instance_type.partition("-")[0]

    @property
    def size(self) -> str:
        """``48xlarge`` of ``p5.48xlarge``."""
        return self.instance_type.partition(".")[2]

    def label(self, name: str) -> tuple[str, ...]:
        """The values that a well-known label can take on its nodes, by the label's name without a prefix.

        ``()`` is Karpenter's DoesNotExist. Names are what follows ``karpenter.k8s.aws/``, plus ``arch`` and ``type``.
        Source: karpenter-provider-aws pkg/providers/instancetype/types.go, computeRequirements (v1.14).
        Raises KeyError for a label that Karpenter does not know.
        """
        return _LABELS[name](self)

    @cached_property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """All that its cloud's Karpenter knows, by name."""
        azure = self.provider == "azure"
        return {
            name: values(self)
            for name, values in _LABELS.items()
            if name in ("type", "arch") or name.startswith("sku-") is azure
        }

    @cached_property
    def capacity(self) -> Mapping[str, int]:
        """What Karpenter takes a node of it to hold: cpu in cores, memory and storage in bytes, counts elsewhere.

        Memory has Karpenter's VM overhead (7.5 %, and 64 MiB on Graviton) taken off, as its limits see it.
        """
        usable = self.memory_mib - (64 if self.arch == "arm64" and self.provider == "aws" else 0)
        overhead = -(-usable * 75 // 1000)
        found = {
            "cpu": self.vcpu,
            "memory": (usable - overhead) << 20,
            "pods": self.pods,
            "ephemeral-storage": 20 << 30,
        }
        if self.resource and self.device_count:
            found[self.resource] = self.device_count
            if self.resource == "aws.amazon.com/neuron":
                found["aws.amazon.com/neuroncore"] = self.device_count * self.device_cores
        if self.efa:
            found["vpc.amazonaws.com/efa"] = self.efa
        return found

    def describe(self) -> str:
        """``8 x h100``, ``1/8 x l4``, or ``no devices``."""
        if not self.devices:
            return "no devices"
        if not self.device_count:
            return f"1/{round(1 / self.device_fraction)} x {self.device_name}"
        return f"{self.device_count} x {self.device_name}"


def _some(value: str | int) -> tuple[str, ...]:
    return (str(value),) if value else ()


def _scheme(group: int) -> Callable[[InstanceType], tuple[str, ...]]:
    """What a part of a type's name says, where it is named as AWS names them."""

    def values(one: InstanceType) -> tuple[str, ...]:
        scheme = _SCHEME.match(one.instance_type)
        return (scheme[group],) if scheme else ()

    return values


def _device(kind: str, of: str) -> Callable[[InstanceType], tuple[str, ...]]:
    """A field of its devices, where they are of that kind."""
    return lambda one: (str(getattr(one, of)),) if one.device_kind == kind else ()


#: How each label's values follow from a type.
_LABELS: dict[str, Callable[[InstanceType], tuple[str, ...]]] = {
    "type": lambda one: (one.instance_type,),
    "arch": lambda one: (one.arch,),
    "instance-category": _scheme(1),
    "instance-generation": _scheme(3),
    "instance-family": lambda one: (one.family,),
    "instance-size": lambda one: _some(one.size),
    "instance-cpu": lambda one: (str(one.vcpu),),
    "instance-memory": lambda one: (str(one.memory_mib),),
    "instance-cpu-manufacturer": lambda one: _some(one.cpu_manufacturer),
    "instance-cpu-sustained-clock-speed-mhz": lambda one: _some(one.clock_mhz),
    "instance-ebs-bandwidth": lambda one: _some(one.ebs_mbps),
    "instance-local-nvme": lambda one: _some(one.local_nvme_gb),
    "instance-capability-flex": lambda one: ("true" if "-flex" in one.family else "false",),
    "instance-hypervisor": lambda one: (one.hypervisor,),
    "instance-encryption-in-transit-supported": lambda one: (str(one.encryption_in_transit).lower(),),
    "nitro-sandbox": lambda one: (str(one.nitro_enclaves).lower(),),
    "instance-gpu-name": _device("gpu", "device_name"),
    "instance-gpu-manufacturer": _device("gpu", "device_manufacturer"),
    "instance-gpu-count": _device("gpu", "device_count"),
    "instance-gpu-memory": _device("gpu", "device_memory_mib"),
    "instance-accelerator-name": _device("accelerator", "device_name"),
    "instance-accelerator-manufacturer": _device("accelerator", "device_manufacturer"),
    "instance-accelerator-count": _device("accelerator", "device_count"),
    "instance-tenancy": lambda _: ("default", "dedicated"),
    "sku-name": lambda one: (one.instance_type,),
    "sku-family": lambda one: _some(size_of(one.instance_type).family),
    "sku-series": lambda one: _some(size_of(one.instance_type).series),
    "sku-version": lambda one: _some(size_of(one.instance_type).version),
    "sku-cpu": lambda one: (str(one.vcpu),),
    "sku-memory": lambda one: (str(one.memory_mib),),
    "sku-gpu-name": lambda one: _some(size_of(one.instance_type).gpu),
    "sku-gpu-manufacturer": _device("gpu", "device_manufacturer"),
    "sku-gpu-count": lambda one: (str(one.device_count),) if one.device_count else ("0", "1"),  # a share: as reported
}


@dataclass(frozen=True)
class Catalogue:
    """Types by name. ``sources`` is the header of each file read, so that reports can say what they rest on."""

    types: Mapping[str, InstanceType]
    sources: tuple[str, ...] = ()
    _views: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __iter__(self) -> Iterator[InstanceType]:
        return iter(self.types.values())

    def __len__(self) -> int:
        return len(self.types)

    def get(self, name: str) -> InstanceType | None:
        """The type, or None where it is not known: unproven, never 'no devices'."""
        return self.types.get(name) or self.types.get(name.lower())

    def of(self, provider: Provider) -> Catalogue:
        """The types of one provider, in order of name; the same object each time."""
        if provider not in self._views:
            chosen = {name: one for name, one in sorted(self.types.items()) if one.provider == provider}
            self._views[provider] = Catalogue(chosen, self.sources)
        found: Catalogue = self._views[provider]
        return found

    def extended(self, rows: Iterable[tuple[str, Mapping[str, Any]]], source: str = "") -> Catalogue:
        """With a team's own rows, each with where it stands, on top: a known type's given fields replaced, an unknown
        type added.

        Raises CatalogueError for a row without a name, an unknown column, a value that does not parse, or a new type
        without its size and its number of devices.
        """
        types = dict(self.types)
        for where, row in rows:
            name = str(row.get("instance_type") or "")
            if not name:
                raise CatalogueError(f"{where}: instance_type is missing")
            base = types.get(name)
            lacking = [column for column in _SIZE if row.get(column) in (None, "")] if base is None else []
            if lacking:
                raise CatalogueError(
                    f"{where}: {name} is not in the catalogue: say its {', '.join(lacking)}"
                    f"{' (0 where it has none)' if 'device_count' in lacking else ''}"
                )
            types[name] = parse(row, where, base or InstanceType(name))
        return Catalogue(types, (*self.sources, *((source,) if source else ())))

    def extended_from(self, path: Path) -> Catalogue:
        """With the rows of a CSV or YAML file. Raises CatalogueError, with file and line."""
        try:
            text = text_of(path)
        except UnicodeDecodeError as error:
            raise CatalogueError(f"{path}: not text in UTF-8 (byte {error.start})") from error
        except OSError as error:
            raise CatalogueError(f"{path}: {error.strerror or error}") from error
        rows = _yaml_rows(text, path) if path.suffix in (".yaml", ".yml") else _csv_rows(text, path)
        return self.extended(rows, str(path))

    def priced(self, usd_per_hour: Mapping[str, float], source: str = "") -> Catalogue:
        """With these prices instead of the listed ones; a type that is not known stays unknown."""
        types = dict(self.types)
        for name, price in usd_per_hour.items():
            if name in types:
                types[name] = replace(types[name], usd_per_hour=price)
        return Catalogue(types, (*self.sources, *((source,) if source else ()))) if usd_per_hour else self


def _price(value: Any) -> float:
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError(value)
    return number


def _flag(value: Any) -> bool:
    return str(value).lower() in ("true", "1", "yes")


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(value).replace("|", " ").split())


#: How each column's text is read; any other column is text.
_READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        (
            "vcpu",
            "memory_mib",
            "device_count",
            "device_memory_mib",
            "device_cores",
            "local_nvme_gb",
            "clock_mhz",
            "ebs_mbps",
            "pods",
            "efa",
        ),
        int,
    ),
    **dict.fromkeys(("device_fraction", "usd_per_hour"), _price),
    **dict.fromkeys(("encryption_in_transit", "nitro_enclaves"), _flag),
    "usage": _words,
}
#: What must be said of a type that is in no other file.
_SIZE = ("vcpu", "memory_mib", "device_count")
_COLUMNS = {name: _READERS.get(name, str) for name in InstanceType.__struct_fields__}


def parse(row: Mapping[str, Any], where: str, base: InstanceType) -> InstanceType:
    """``base`` with the fields that ``row`` gives (empty: not given). Raises CatalogueError."""
    return replace(base, **_given(row, where))


def _given(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields that a row gives. Raises CatalogueError."""
    given: dict[str, Any] = {}
    for key, value in row.items():
        if value is None or value == "":
            continue
        if key not in _COLUMNS:
            raise CatalogueError(f"{where}: unknown column {key!r}; known are {', '.join(_COLUMNS)}")
        try:
            given[key] = _COLUMNS[key](value)
        except (ValueError, TypeError, OverflowError) as error:
            raise CatalogueError(f"{where}: {key} cannot be {value!r}") from error
    return given


def _csv_rows(text: str, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row, and where it stands. Raises CatalogueError."""
    lines = text.splitlines()
    kept = [number for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    # Notes and empty lines count as lines, and are none of the table's.
    reader = csv.DictReader(io.StringIO("\n".join(lines[number - 1] for number in kept)), strict=True)
    try:
        for row in reader:
            where = f"{path}:{kept[min(reader.line_num, len(kept)) - 1]}"
            if None in row or None in row.values():
                raise CatalogueError(f"{where}: {len(reader.fieldnames or ())} columns expected, as in the first row")
            yield where, row
    except csv.Error as error:
        raise CatalogueError(f"{path}:{kept[min(reader.line_num, len(kept) - 1)]}: {error}") from error


def _yaml_rows(text: str, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row, and where it stands. Raises CatalogueError."""
    from killcheck.text.yamlfile import YamlError, documents

    try:
        found = documents(text, str(path))
    except YamlError as error:
        raise CatalogueError(str(error)) from error
    for document in found:
        rows = document.value
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise CatalogueError(f"{path}:{document.line}: expected a list of mappings, each with instance_type")
        yield from ((f"{path}:{document.line_of((index,))}", row) for index, row in enumerate(rows))


@cache
def shipped() -> Catalogue:
    """The catalogue that comes with the package; read once."""
    types: dict[str, InstanceType] = {}
    sources: list[str] = []
    for name, provider in _SHIPPED.items():
        lines = Path(__file__).with_name(name).read_text("utf-8").splitlines()
        header = " ".join(line.lstrip("# ").rstrip() for line in lines if line.startswith("#"))
        sources.append(f"{name}: {header}")
        rows = csv.reader(line for line in lines if line[:1] not in ("", "#"))
        columns = [(column, _COLUMNS[column]) for column in next(rows)]
        for row in rows:  # nobody's input: its tests read every row
            given = {column: read(text) for (column, read), text in zip(columns, row, strict=True) if text}
            types[given["instance_type"]] = InstanceType(**{"provider": provider, **given})
    return Catalogue(types, tuple(sources))


def load(*extensions: Path) -> Catalogue:
    """The shipped catalogue with a team's own files on top, in order. Raises CatalogueError."""
    catalogue = shipped()
    for path in extensions:
        catalogue = catalogue.extended_from(path)
    return catalogue
