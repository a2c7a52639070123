"""Readable test ids from the kill path: ``nightly-off``, ``nightly-off under image-gone``; pools and doors by name."""

from __future__ import annotations

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize ``layer_name`` by the spec's layers, ``case`` by (layer, fault), ``pool`` by what can launch."""
    asked = {"layer_name", "case", "pool"} & set(metafunc.fixturenames)
    if not asked:
        return
    from killcheck.pytest.drills import cases, layer_names, pools

    if "layer_name" in asked:
        metafunc.parametrize("layer_name", layer_names(metafunc.config))
    elif "case" in asked:
        metafunc.parametrize(
            "case",
            [pytest.param((layer, fault), id=f"{layer} under {fault}") for layer, fault in cases(metafunc.config)],
        )
    else:
        metafunc.parametrize("pool", pools(metafunc.config))
