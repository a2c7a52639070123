"""One drill of a reference kill path, changed by the test: manifests by a function, the spec's folder by files."""

from __future__ import annotations

import shutil

import pytest

from killcheck import fixtures
from killcheck.kube.objects import copy
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec import specfile


@pytest.fixture
def drilled(tmp_path):
    """drilled(fixture, layer, change=, under=, folder=): ``change(obj)`` edits each manifest and may answer with more
    of them, ``folder(path)`` edits a copy of the path's own folder.
    """

    def run(fixture, layer, change=None, under=(), folder=None, exec_mode=None, night_s=5400.0):
        session = Session(fixture=fixture)
        if folder is not None:
            own = tmp_path / "path"
            shutil.copytree(fixtures.path(fixture), own)
            folder(own)
            session._kill_path = specfile.load(own / "killcheck.yaml")
            session.exec_mode = exec_mode
        session.night_s = night_s  # what nobody turns off is not watched until the morning
        if change is not None:
            session._objects = [copy(o) for o in session.objects]
            for obj in list(session._objects):
                session._objects += change(obj) or []
        return Run(session, [PlannedDrill(layer, tuple(under))], folder=tmp_path / "state").execute().drills[0]

    return run
