# Two commands do everything on a fresh Linux machine with Python 3.11+:
#   make quickstart   train a small sweep for real and ask it the main question
#   make test         run the tests
# and one does the worst to it that we could think of (docs/reliability.md):
#   make torture      kill it, cut its power, feed it rubbish: about an hour
# One runs sweeps on clusters, in network namespaces of this machine (docs/clusters.md):
#   make clusters     as root, with sshd, rsync, slurm-wlm and munge: some minutes
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: quickstart test torture clusters install lint types check clean

quickstart: install
	$(BIN)/sweepd launch grids/quickstart.yaml --yes
	@echo
	@echo '$$ sweepd query "min d where acc>0.9" --sweep quickstart'
	@$(BIN)/sweepd query "min d where acc>0.9" --sweep quickstart
	@echo
	@echo 'Results lie in ./sweepd-results. Next, for example:'
	@echo '  $(BIN)/sweepd query "frontier flops, acc" --sweep quickstart'
	@echo '  $(BIN)/sweepd sql "SELECT model, n, d, seed, status, acc FROM trials ORDER BY ALL"'
	@echo '  $(BIN)/sweepd launch grids/quickstart.yaml --set model.d=[8,16,32,64,128]   # runs only what is new'

# On all cores. Of the tests at the command line, those that read what one launch made stay together.
test: install
	$(BIN)/python -m pytest -q -n auto --dist worksteal --ignore tests/e2e
	$(BIN)/python -m pytest -q -n auto --dist loadgroup tests/e2e

torture: install
	$(BIN)/python -m pytest -q -s tests/torture
	$(BIN)/python -m pytest -q -n auto --dist worksteal --hypothesis-profile=torture \
		tests/test_hostile_input.py tests/test_security.py

clusters: install
	$(BIN)/python -m pytest -q tests/machines

lint: install
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

check: lint types test

# The stamp is newer than what decides the environment's contents.
install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info
