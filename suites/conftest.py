"""Readable test ids from the kill path: ``nightly-off``, ``nightly-off under image-gone``."""

from __future__ import annotations

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize ``layer_name`` by the spec's layers and ``case`` by (layer, fault)."""
    from killcheck import faults
    from killcheck.pytest_drills import session_for
    from killcheck.pytest_settings import setting

    if not {"layer_name", "case"} & set(metafunc.fixturenames):
        return
    only = {name for name in setting(metafunc.config, "layer").split(",") if name}
    kill_path = session_for(metafunc.config).kill_path
    chosen = [layer for layer in kill_path.layers if not only or layer.name in only]  # one that cannot be drilled fails
    if "layer_name" in metafunc.fixturenames:
        metafunc.parametrize("layer_name", [layer.name for layer in chosen])
    else:
        wanted = [name for name in setting(metafunc.config, "under").split(",") if name]
        cases = [
            pytest.param((layer.name, kind.name), id=f"{layer.name} under {kind.name}")
            for layer in chosen for kind in faults.ALL
            if (kind.name in wanted if wanted else True) and faults.means_something(kind, layer)
        ]
        metafunc.parametrize("case", cases)
