# Everything sets itself up: a virtual environment in .venv, with the tested versions of constraints.txt.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
JOBS   ?= auto
SUDO   := $(if $(filter-out 0,$(shell id -u)),sudo)

.DEFAULT_GOAL := help
.PHONY: help demo browser latex test lint types notebook examples check package docs bench reproduce-report torture torture-short fuzz benchmarks clean

help:            ## List what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1\t/' | expand -t 24

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e ".[report]"
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e ".[dev]"
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo  ## Train, unlearn and audit small networks on real digits: the whole story
	$(BIN)/sfra demo --out demo-out

browser:         ## Install Chromium for the browser tests (Debian, Ubuntu; needs root)
	@{ command -v chromium && command -v chromedriver; } >/dev/null || { $(SUDO) apt-get update && \
	    $(SUDO) apt-get install --yes --no-install-recommends chromium chromium-driver; }

latex:           ## Install LaTeX for the test of the tables (Debian, Ubuntu; needs root)
	@command -v pdflatex >/dev/null || { $(SUDO) apt-get update && \
	    $(SUDO) apt-get install --yes --no-install-recommends texlive-latex-base texlive-latex-recommended; }

test: $(VENV)/.dev  ## Run all tests
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

lint: $(VENV)/.dev  ## Check style, docstrings, formatting and the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev  ## Check types, strictly, in src and tests
	$(BIN)/mypy

notebook: $(VENV)/.dev  ## Run the example notebook and keep what it shows
	$(BIN)/python -m nbconvert --to notebook --inplace --execute examples/audit.ipynb
	$(BIN)/python -m nbconvert --to notebook --inplace --CoalesceStreamsPreprocessor.enabled=True examples/audit.ipynb

examples: $(VENV)/.dev  ## Run every example
	@set -e; for example in examples/*.py; do echo "== $$example"; $(BIN)/python $$example; done

bench: $(VENV)/.dev  ## Run the digits benchmark from nothing to tables, and check its models
	$(BIN)/python benchmarks/digits.py

package: $(VENV)/.dev  ## Build wheel and sdist, install the wheel into an empty environment, audit and run the demo there
	rm -rf dist build/empty
	$(BIN)/python -m build --no-isolation --outdir dist > build.log || { cat build.log; exit 1; }; rm build.log
	$(BIN)/python -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt dist/*.whl
	build/empty/bin/python benchmarks/installed.py dist/*.whl

docs: $(VENV)/.dev  ## Build the documentation site into build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

reproduce-report: $(VENV)/.dev  ## Tables, figures, pages and the comparison with the paper, from reproduction/
	$(BIN)/python benchmarks/reproduce.py report --out reproduction-report

torture: $(VENV)/.dev  ## Kill a benchmark fifty times, locally and under Ray, and compare with an undisturbed run
	$(BIN)/python benchmarks/torture.py --protocol digits-tiny --kills 50 --linger 3
	$(BIN)/python benchmarks/torture.py --executor ray --kills 50

torture-short: $(VENV)/.dev  ## The same with a handful of kills
	$(BIN)/python benchmarks/torture.py --protocol digits-tiny --kills 5 --linger 3
	$(BIN)/python benchmarks/torture.py --executor ray --kills 3

fuzz: $(VENV)/.dev  ## Feed odd and hostile inputs to the command line; kill trainings, and let audits race
	$(BIN)/python benchmarks/fuzz.py --inputs 10000 --seconds 60
	$(BIN)/python benchmarks/kills.py

check: test lint types examples  ## Tests, style, types and examples

benchmarks: $(VENV)/.dev  ## Measure speed and memory against the plain reference
	$(BIN)/python benchmarks/probes.py
	$(BIN)/python benchmarks/relearn.py

clean:           ## Remove the environment and what was built
	rm -rf $(VENV) build dist demo-out reproduction-report .pytest_cache .mypy_cache .ruff_cache
