"""Each fault of what an engine pulls: registry, tags, image; one registry for all, since each leaves it as it was."""

from __future__ import annotations

import pytest
from docker_host import CONSENT, ONE_SHOT_LAYER, drilled

#: fault: (verdict, stuck at, in the cause). The executor's image is pulled at each firing.
ONE_SHOT = {
    "tag-deleted": ("exposed", "image_pulled", "manifest unknown"),
    "registry-stopped": ("exposed", "image_pulled", "connection refused"),
    "registry-throttles": ("exposed", "image_pulled", "toomanyrequests"),
    "registry-refuses": ("exposed", "image_pulled", "unauthorized"),
    "image-gone": ("exposed", "image_pulled", "manifest unknown"),
    "command-missing": ("exposed", "container_started", "executable file not found"),
}


@pytest.fixture(scope="module")
def pulling(kept_host):
    """A server with GPUs, and what stops it from an image that is pulled at each firing."""
    where = kept_host.registry()
    kept_host.push(kept_host.cli, f"{where}/gpu-off:1")
    kept_host.gpu_server()
    kept_host.run(
        "gpu-off",
        "docker",
        "stop",
        "vllm",
        image=f"{where}/gpu-off:1",
        start=False,
        labels={**CONSENT, "killcheck.dev/pull": "always"},
        volumes=[f"{kept_host.socket}:/var/run/docker.sock"],
    )
    return kept_host


@pytest.mark.parametrize("fault", ONE_SHOT)
@pytest.mark.one_in(2)
def test_an_executor_that_pulls_its_image(pulling, path, fault):
    _, result = drilled(pulling, path.write(ONE_SHOT_LAYER), fault, "--watch", "9s" if "registry" in fault else "7s")
    verdict, stuck_at, cause = ONE_SHOT[fault]
    assert (result["verdict"], result["stuck_at"] or "") == (verdict, stuck_at), result
    assert cause in result["cause"].lower(), result["cause"]
