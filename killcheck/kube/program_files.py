"""Programs and build files beside manifests that make machines: for a fence alone, as no other question reads them.

Read by form: the command lines of a Makefile or a script, and what a program tells a cloud's library.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from killcheck.kube import launcher_files
from killcheck.kube.launch_lines import made_by_lines
from killcheck.kube.machine_texts import called, holds_a_pool
from killcheck.kube.manifest_folders import left_out
from killcheck.text.files import text_of

__all__ = ["making"]

_SUFFIXES = (
    *(
        ".py",
        ".ps1",
        ".psm1",
        ".mk",
        ".groovy",
        ".js",
        ".mjs",
        ".cjs",
        ".ts",
        ".tsx",
        ".go",
        ".rb",
        ".pl",
        ".zsh",
        ".ksh",
    ),
    *(".fish", ".rs", ".java", ".kt", ".scala", ".cs", ".php", ".bat", ".cmd", ".ipynb"),
)
#: Files of settings, which a launcher reads.
_SETTINGS = (".toml", ".conf", ".cfg", ".ini", ".xml", ".service", ".env", ".properties", ".nix")
_NAMES = frozenset(
    {"makefile", "gnumakefile", "justfile", ".justfile", "rakefile", "tiltfile", "procfile", "crontab", "dockerfile"}
    | {"containerfile", "vagrantfile", "jenkinsfile", "brewfile", "earthfile"}
)
#: Folders of what somebody else wrote, or a tool made.
_OTHERS = frozenset({"node_modules", "vendor", "__pycache__", "site-packages", "dist", "build"})
#: Characters of a file that are looked at: a program that makes machines says so early, and one line may be megabytes.
_LONGEST = 1_000_000


def making(folders: Iterable[Path], exclude: Sequence[str]) -> Iterator[str]:
    """``what it says (file)`` of every program below the folders that may make machines, but for what is left out."""
    for folder in folders:
        for file in _files(folder, left_out(folder, exclude), (*_SUFFIXES, *_SETTINGS)):
            yield from (f"{said} ({file})" for said in _said(file))


def costing(folders: Iterable[Path], exclude: Sequence[str]) -> Iterator[str]:
    """The same of settings that name machines without accelerators."""
    for folder in folders:
        for file in _files(folder, left_out(folder, exclude), _SETTINGS):
            if file.name.endswith(_SETTINGS):
                yield from (f"{said} ({file})" for said in dict.fromkeys(launcher_files.costing(_text(file))))


def _files(folder: Path, is_left_out: Callable[[Path], bool], suffixes: tuple[str, ...]) -> Iterator[Path]:
    for root, inner, names in os.walk(folder):
        here = Path(root)
        inner[:] = sorted(
            one for one in inner if not one.startswith(".") and one not in _OTHERS and not is_left_out(here / one)
        )
        for name in sorted(names):
            file = here / name
            program = name.endswith(suffixes) or name.lower() in _NAMES or _is_script(file)
            if program and name.isprintable() and not file.is_symlink() and not is_left_out(file):
                yield file


def _is_script(file: Path) -> bool:
    """Whether a file without a suffix begins as programs of a shell or of Python do."""
    if "." in file.name or not file.is_file():
        return False
    try:
        with file.open("rb") as source:
            return source.read(2) == b"#!"
    except OSError:
        return False


def _said(file: Path) -> Iterator[str]:
    text = _text(file)
    settings = launcher_files.launching(text) if file.name.endswith(_SETTINGS) else ()
    yield from dict.fromkeys([*made_by_lines(text), *called(text), *holds_a_pool(text), *settings])


def _text(file: Path) -> str:
    """What a file begins with; empty where it cannot be read: it is told where it is read for something else."""
    try:
        return text_of(file, errors="replace")[:_LONGEST]
    except OSError:
        return ""
