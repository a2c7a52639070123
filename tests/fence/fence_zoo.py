"""The zoo of fences: one file a case, its first document what an expert would say of the others."""

from pathlib import Path

import killcheck.fixtures

from killcheck.fence import Ceiling
from killcheck.text.yamlfile import documents

FOLDER = Path(killcheck.fixtures.__file__).parent / "fences"
CASES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name):
    """(the case, the manifests)."""
    path = FOLDER / f"{name}.yaml"
    case, *objects = (document.value for document in documents(path.read_text(), path.name))
    return case, objects


def ceiling(case):
    stated = case["ceiling"]
    return Ceiling(
        stated.get("maxDevicesPerNode"),
        stated.get("maxUsdPerHour"),
        stated.get("maxDevices"),
        stated.get("maxNodes"),
        tuple(stated.get("forbiddenTypes", ())),
    )
