# `make drill` and `make test` do all the set-up themselves: an environment of their own under .venv.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
# Two more than processors: some tests wait, for a clock on a wall or for what they have started.
WORKERS ?= $(shell getconf _NPROCESSORS_ONLN | awk '{ print $$1 + 2 }')
# Tests start killcheck hundreds of times: without bytecode each compiles it anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: drill test exhaustive test-kind lint format whole types imports collected unit wheel image site zoo docs bench clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV) 2>/dev/null || python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@: > $@

$(VENV)/.dev: $(VENV)/.installed
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]' --group dev
	@: > $@

drill: $(VENV)/.installed ## The main job: four nights on the embedded cluster
	$(BIN)/killcheck demo

test: $(VENV)/.dev ## Everything that CI runs: what takes one processor beside the tests, which often wait
	$(MAKE) --jobs=2 unit lint types imports wheel site

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python .ci/dead_names.py

format: $(VENV)/.dev ## Write every file as the formatter has it
	$(BIN)/ruff check --fix --select I .
	$(BIN)/ruff format .

# The package as it is installed: probes/, suites/ and fixtures/ inside it, or no check would ever see them.
whole:
	rm -rf build/whole && mkdir -p build/whole/killcheck
	ln -s $(CURDIR)/killcheck/* $(CURDIR)/probes $(CURDIR)/suites $(CURDIR)/fixtures build/whole/killcheck

types: $(VENV)/.dev whole
	cd build/whole && $(abspath $(BIN))/mypy --config-file $(CURDIR)/pyproject.toml

imports: $(VENV)/.dev whole
	cd build/whole && $(abspath $(BIN))/lint-imports --config $(CURDIR)/pyproject.toml --cache-dir $(CURDIR)/.import_linter_cache

# In a fresh clone each worker would compile all of it, and read it for hypothesis' constants, at the same time.
collected: $(VENV)/.dev
	$(BIN)/python -m pytest --collect-only -qq tests > /dev/null

unit: collected
	$(BIN)/python -m pytest -n $(WORKERS) tests

exhaustive: $(VENV)/.dev ## Every row of every table, every kill point, every pair of faults: for hours, each week
	KILLCHECK_WHOLE=yes KILLCHECK_KILL_POINTS=all KILLCHECK_PAIRS=all KILLCHECK_COMPOSED=all KILLCHECK_LAWS=all \
	KILLCHECK_LOSSY_RUNS=208 $(BIN)/python -m pytest -n $(WORKERS) -o timeout=14400 tests

test-kind: $(VENV)/.dev ## Drills on a real kind cluster: needs kind, a Docker Engine, and a way to kind's node image
	KILLCHECK_TEST_KIND=yes $(BIN)/python -m pytest -n 0 tests/docker -k real_kind

wheel: $(VENV)/.dev ## The wheel in an empty environment, driven from an empty folder
	$(BIN)/python tests/wheel/try_wheel.py

image: $(VENV)/.dev ## The image, built and drilled with, where KILLCHECK_TEST_DOCKER names a Docker Engine
	$(BIN)/python tests/image/try_image.py

zoo: $(VENV)/.installed ## How many broken kill paths lint finds, how many sound ones it accuses
	$(BIN)/python tests/zoo/zoo_score.py

site: $(VENV)/.dev ## The documentation as a site, every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs: $(VENV)/.dev ## Write the reference again from the code
	$(BIN)/python docs/generate.py

bench: $(VENV)/.dev
	for script in benchmarks/[a-z]*.py; do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache
