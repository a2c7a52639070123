"""The reference is what the code says, and every link in the documentation leads somewhere."""

from __future__ import annotations

import re
import runpy
from fnmatch import fnmatch
from pathlib import Path

import pytest

from killcheck.spec.killpath import LayerType

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("ci/**/*.md")])


@pytest.fixture(scope="module")
def made():
    return runpy.run_path(str(ROOT / "docs/generate.py"))["pages"]()


def test_the_reference_has_not_drifted(made):
    drifted = [str(path.relative_to(ROOT)) for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert drifted == [], "run `make docs`"


def test_nothing_lies_in_the_reference_that_nobody_makes(made):
    assert set((ROOT / "docs/reference").iterdir()) == {path for path in made if path.suffix == ".md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    inside = [link for link in links if not re.match(r"[a-z]+:|#", link)]
    missing = [link for link in inside if not (page.parent / link.partition("#")[0]).exists()]
    assert missing == []


def test_the_map_names_every_room():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = re.findall(r"[\w*]+(?:\.py|/)", text)
    rooms = [
        room.name if room.is_file() else f"{room.name}/"
        for room in (ROOT / "killcheck").iterdir()
        if not room.name.startswith("__") and (room.suffix == ".py" or room.is_dir())
    ]
    assert [room for room in sorted(rooms) if not any(fnmatch(room, name) for name in named)] == []
    patterns = re.findall(r"`(?:killcheck/)?([\w*/]+\.py)`", text)
    found = {str(path.relative_to(ROOT / "killcheck")) for path in (ROOT / "killcheck").rglob("*.py")}
    gone = [name for name in patterns if not any(fnmatch(f"/{path}", f"*/{name}") for path in found)]
    assert gone == []


def test_the_readme_names_reference_paths_that_have_such_a_layer():
    rows = re.findall(r"^\| `([a-z-]+)` \|.*\| (`.*`) \|$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert {kind for kind, _ in rows} == {kind.value for kind in LayerType}
    for kind, paths in rows:
        for path in re.findall(r"`([a-z-]+)`", paths):
            spec = (ROOT / "fixtures/paths" / path / "killcheck.yaml").read_text("utf-8")
            assert f"type: {kind}\n" in spec, (kind, path)
