# On a fresh Linux machine with Python 3.11 or newer, two commands do everything:
#   make quickstart   trains a small sweep for real and asks it the main question
#   make test         runs the tests
# Each first makes the virtual environment .venv. Four more take longer:
#   make torture      kills sweepd, cuts its power, feeds it bad input; takes about an hour
#                     (docs/reliability.md)
#   make clusters     runs sweeps on clusters in network namespaces of this machine; takes some 40
#                     minutes and needs root, sshd, rsync, slurm-wlm, munge, debootstrap and buildah
#                     (docs/clusters.md)
#   make gpu          runs and measures on a card what needs one, in eight minutes (docs/gpu.md)
#   make bench        measures parts beside the tools that they build on; takes some fifteen
#                     minutes (docs/performance.md)
# Three more look whether nothing has fallen behind:
#   make bench-smoke  runs every benchmark with a size so small that it takes some minutes in all
#   make matrix       tests the wheel with the least and with the pinned versions of what it needs, on
#                     each of Python 3.11 to 3.13 that is here; takes some half an hour
#                     (docs/release.md); `make lowest` only imports all modules with the least
# `make golden` writes down what each version of our own code does (tests/golden).
# `make check` is what must pass before a change lands: lint, types and test.
PYTHON ?= python3
# Modules are compiled once and kept, also where the environment says otherwise.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin

.PHONY: quickstart golden test test-parts test-e2e torture bench bench-smoke lowest matrix clusters gpu dist install lint types check clean

quickstart: install
	$(BIN)/sweepd launch grids/quickstart.yaml --yes --max-hours 0.05
	@echo
	@echo '$$ sweepd query "min d where acc>0.9" --sweep quickstart'
	@$(BIN)/sweepd query "min d where acc>0.9" --sweep quickstart
	@echo
	@echo 'Results lie in ./sweepd-results. Next, for example:'
	@echo '  $(BIN)/sweepd query "frontier flops, acc" --sweep quickstart'
	@echo '  $(BIN)/sweepd sql "SELECT model, n, d, seed, status, acc FROM trials ORDER BY ALL"'
	@echo '  $(BIN)/sweepd launch grids/quickstart.yaml   # goes on settling'

# Two runs side by side, since each waits as often as it works: tests of the parts, and tests at the
# command line, which tests/e2e/conftest.py keeps together where they share a launch.
golden: install
	PYTHONPATH=tests $(BIN)/python -m golden.make

test: install
	@$(MAKE) --no-print-directory -j2 test-parts test-e2e

test-parts: install
	$(BIN)/python -m pytest -q -n auto --dist worksteal --ignore tests/e2e

test-e2e: install
	$(BIN)/python -m pytest -q -n auto tests/e2e

torture: install
	$(BIN)/python -m pytest -q -s tests/torture
	$(BIN)/python -m pytest -q -n auto --dist worksteal --hypothesis-profile=torture \
		tests/test_hostile_input.py tests/test_security.py tests/test_others_stores.py \
		tests/test_read_errors.py

# Each part beside a peer, both measured in one run, alternating (docs/performance.md). Takes some
# fifteen minutes of a machine that does nothing else.
bench: install
	@echo "commit $$(git rev-parse --short HEAD), $$(date -u +%F), $$(nproc) cores, load $$(cut -d' ' -f1 /proc/loadavg)"
	$(BIN)/python benchmarks/start.py --rounds 3
	$(BIN)/python benchmarks/overhead.py --trials 300 --rounds 2
	$(BIN)/python benchmarks/questions.py small --rounds 15
	$(BIN)/python benchmarks/questions.py --rounds 3
	$(BIN)/python benchmarks/questions.py ended --trials 100000 --rounds 5
	$(BIN)/python benchmarks/report.py --rounds 3
	$(BIN)/python benchmarks/data.py --rounds 2
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/attention.py --rounds 3
	$(BIN)/python benchmarks/stacked.py

SMOKE := long or not long

bench-smoke: install
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "$(SMOKE)" tests/benchmarks/test_smoke.py

lowest: install
	$(BIN)/python -m pytest -q tests/versions -k "lowest-3.11 and imported"

matrix: install
	$(BIN)/python -m pytest -q -s tests/versions

# On a machine with a card: what nobody could run without one (docs/gpu.md). Eight minutes at most.
gpu: SHELL := bash
gpu: install
	mkdir -p results/gpu
	set -o pipefail; { failed=0; git rev-parse --short HEAD; date -u +%F; nvidia-smi; \
	timeout 120 $(BIN)/python -m pytest -q --noconftest tests/trial/test_gpu.py || failed=1; \
	timeout 350 $(BIN)/python benchmarks/gpu.py --minutes 4 --rounds 2 --seconds 0.5 || failed=1; \
	exit $$failed; } 2>&1 | tee results/gpu/$$(date -u +%F-%H%M).txt

clusters: install
	$(BIN)/python -m pytest -q tests/machines

lint: install
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

check: lint types test

# The source archive and the wheel, with their metadata checked (docs/release.md).
dist: install
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*

# The stamp file is made again when one of the files that decide the environment changes. uv installs
# in a third of the time that pip takes. It reads none of pip's settings, so it is told where these
# look for packages. Where that is not enough, pip installs, and compiles nothing: most of 20,000
# modules are never imported.
install: $(VENV)/.installed

PIP := $(BIN)/pip --disable-pip-version-check
set_for_pip = "$$(echo "$$told" | sed -n "s/^[^=]*\.$(1)='\(.*\)'$$/\1/p" | head -n 1)"

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -c constraints.txt uv
	told="$$($(PIP) config list)"; \
	UV_DEFAULT_INDEX=$(call set_for_pip,index-url) UV_INDEX=$(call set_for_pip,extra-index-url) \
	UV_FIND_LINKS=$(call set_for_pip,find-links) UV_INDEX_STRATEGY=unsafe-best-match \
	$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[dev]' \
	|| $(PIP) install --quiet --no-compile -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info
