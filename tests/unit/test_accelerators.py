"""What accelerators are called: after what is asked for, in sentences and in documents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from killcheck.text import accelerators


@pytest.fixture(autouse=True)
def _afterwards() -> Iterator[None]:
    yield
    accelerators.name_after(())


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ([], "2 GPUs of a GPU pod"),
        (["nvidia.com/gpu", "amd.com/gpu"], "2 GPUs of a GPU pod"),
        (["google.com/tpu"], "2 TPUs of a TPU pod"),
        (["aws.amazon.com/neuroncore"], "2 Neuron cores of a Neuron core pod"),
        (["habana.ai/gaudi"], "2 Gaudi devices of a Gaudi device pod"),
        (["huawei.com/Ascend910"], "2 NPUs of an NPU pod"),
        (["google.com/tpu", "nvidia.com/gpu"], "2 accelerators of an accelerator pod"),
    ],
)
def test_sentences_name_what_is_asked_for(resources: list[str], said: str) -> None:
    accelerators.name_after(resources)
    assert accelerators.named("2 GPUs of a GPU pod") == said
    assert accelerators.named("gpu-off, NVIDIA_GPU, GPU-hours") == "gpu-off, NVIDIA_GPU, GPU-hours"


def test_documents_keep_what_is_quoted() -> None:
    accelerators.name_after(["google.com/tpu"])
    document = {"why": "GPUs on", "drills": [{"evidence": ["no GPU"], "usd": 1.5, "notes": ("a GPU",)}]}
    made = accelerators.named_in(document)
    assert made == {"why": "TPUs on", "drills": [{"evidence": ["no GPU"], "usd": 1.5, "notes": ["a TPU"]}]}
