"""What accelerators are called: everything here says GPU of each, and what a person reads is named after what there is.

The one place that knows their names. Where all that is asked for is of one maker's own kind, its word stands for
``GPU`` in every sentence (``TPUs off after 3 s``); where kinds are mixed, ``accelerator`` does. Among GPUs nothing is
changed. What a program said itself (its log, in quotes or as evidence) is read with the same words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from killcheck.text import lazy_re

__all__ = ["GPU", "called", "name_after", "named", "named_in"]

#: What is said of every accelerator here.
GPU = "GPU"
#: By the extended resources that the vendors' device plugins register.
_NAMES = (
    (lazy_re.compile(r"google\.com/tpu|cloud-tpus\.google\.com/.+"), "TPU"),
    (lazy_re.compile(r"aws\.amazon\.com/neuroncore"), "Neuron core"),
    (lazy_re.compile(r"aws\.amazon\.com/neuron.*"), "Neuron device"),
    (lazy_re.compile(r"habana\.ai/.+"), "Gaudi device"),
    (lazy_re.compile(r".*qualcomm\.com/.+"), "Qualcomm device"),
    (lazy_re.compile(r"(?i)huawei\.com/ascend.*|[^/]+/(.*[^a-z])?npus?"), "NPU"),
    (lazy_re.compile(r"tenstorrent\.com/.+"), "Tenstorrent device"),
)
_WORD = lazy_re.compile(r"\b(a )?GPU(s?)\b(?!-)")
#: What is quoted as it is, and no sentence: keys of documents.
_QUOTED = frozenset({"evidence", "logs", "log", "spec", "manifest", "objects", "changes"})

_at_work = GPU


def called(resources: Iterable[str]) -> str:
    """What devices of these extended resources are called, one of them; ``GPU`` of none."""
    words = {next((word for known, word in _NAMES if known.fullmatch(one)), GPU) for one in resources}
    return words.pop() if len(words) == 1 else "accelerator" if words else GPU


def name_after(resources: Iterable[str]) -> None:
    """From now on sentences name what these are; of none: GPUs."""
    global _at_work  # noqa: PLW0603 - a process works on one kill path at a time
    _at_work = called(resources)


def named(text: str) -> str:
    """A sentence with the accelerators at work by their own name."""
    if _at_work == GPU or GPU not in text:
        return text
    article = "an " if _at_work in ("accelerator", "NPU") else "a "
    return _WORD.sub(lambda found: f"{article if found[1] else ''}{_at_work}{found[2]}", text)


def named_in(document: Any) -> Any:
    """A document of JSON whose sentences do."""
    if _at_work == GPU:
        return document
    if isinstance(document, str):
        return named(document)
    if isinstance(document, list | tuple):
        return [named_in(one) for one in document]
    if isinstance(document, dict):
        return {key: one if key in _QUOTED else named_in(one) for key, one in document.items()}
    return document
