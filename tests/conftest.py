"""For every test: hypothesis draws as long as it takes; a machine that is busy is no reason to fail."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

# Imported before pytester takes its picture of sys.modules, to which it goes back: types of an extension in Rust that
# are imported anew are other types, and yaml's parser in C goes on making nodes of the types that it first met.
import cryptography.hazmat.primitives.asymmetric.ec
import cryptography.x509  # noqa: F401
import lacking
import nursery
import pytest
import sampling
import yaml  # noqa: F401
from hypothesis import HealthCheck, settings
from leaks import look

from killcheck.run.gc_tuning import collect_seldom

settings.register_profile("killcheck", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("killcheck")
#: The journals of the tests are signed by a key of their own, which whoever they start shares.
STATE = tempfile.TemporaryDirectory(prefix="killcheck-tests-")
os.environ["XDG_STATE_HOME"] = STATE.name
os.environ.pop("KILLCHECK_KEY", None)
#: moto otherwise makes 1,300 images anew for each test that resets its EC2. It reads this when it is imported.
MACHINE_IMAGE = {"ami_id": "ami-12c6146b", "name": "the stand-in's", "owner_id": "801119661308", "state": "available"}
Path(STATE.name, "images.json").write_text(json.dumps([MACHINE_IMAGE]))
os.environ["MOTO_AMIS_PATH"] = f"{STATE.name}/images.json"
#: Of the first process of the tests, which starts the workers.
os.environ.setdefault(nursery.RUN, f"{STATE.name}:{os.getpid()}")
os.environ[lacking.KEPT] = f"{STATE.name}/lacked"
lacking.watch()
# These processes are as much killcheck's own as the command's.
collect_seldom()

#: Folders and files that take longest, in that order: begun first, they are never what everybody waits for at the end.
LONGEST = (
    "docker/",
    "docs/test_commands",
    "zoo/test_zoo_drilled",
    "faults/test_machine_faults",
    "safety/test_kills",
    "matrix/test_reference_suites",
    "plugin/",
    "safety/test_janitor",
    "cloud/test_cloud_over_the_wire",
    "layers/",
    "ledger/",
    "drill/",
    "rehearsal/",
    "faults/",
    "safety/",
    "cloud/",
    "matrix/",
    "embedded/nodes/",
    "docs/",
    "discovery/",
    "conformance/",
    "fence/",
    "ci/",
    "zoo/",
    "cli/",
    "reports/",
)


#: Drills and sessions that share nothing: any worker takes the next one.
APART = ("docs/test_commands", "drill/", "ledger/", "zoo/test_zoo_drilled")


def pytest_collection_modifyitems(config, items):
    """What only :mod:`sampling` leaves in; the longest first, whatever the number of workers."""
    sampling.thin(config, items)
    here = f"{__file__.rpartition('/')[0]}/"

    def rank(item):
        place = str(item.path).removeprefix(here)
        return next((n for n, long in enumerate(LONGEST) if place.startswith(long)), len(LONGEST))

    items.sort(key=rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file stays with one worker, which makes what its tests share once; so does the Docker Engine, which is one."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            if file.removeprefix("tests/").startswith(APART):
                return nodeid
            return "tests/docker" if file.startswith("tests/docker/") else file

    if config.getvalue("dist") != "load":
        return None
    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    lacking.begin()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where an executor called what this machine has not, its drill says nothing: the test is skipped, and says so."""
    report = yield
    if report.failed and (names := lacking.called()):
        path, line, _ = item.location
        report.outcome = "skipped"
        report.longrepr = (path, (line or 0) + 1, f"its executor calls {', '.join(names)}, which this machine has not")
    return report


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Around every test, outside its own fixtures: no thread, no child, no folder, no variable of its stays."""
    before = look()
    yield
    assert before.left() == []


@pytest.fixture
def edited():
    """edited(file, before, after): one replacement that must be possible."""

    def edit(file, before, after):
        text = file.read_text()
        assert text.count(before) == 1, (file, before)
        file.write_text(text.replace(before, after))

    return edit
