# make demo       set up .venv and show unmask on the bundled model
# make test       set up .venv, lint, check types, run the tests
# make test-real  download AntiBERTy and run the tests that need it
# make bench      the side-by-side benchmarks
# make docs       draw the import graph, run the commands that README shows again, and draw its figure
#
# Every install takes its versions from constraints.txt. PYTHON chooses the interpreter (3.11 or newer).

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
CORES = $$($(BIN)/python -c 'import os; print(os.cpu_count() or 1)')
THREADS = OMP_NUM_THREADS=$(CORES) OMP_WAIT_POLICY=PASSIVE
REAL := .cache/real

.PHONY: demo test lint test-real bench docs clean help
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# //p' Makefile | head -5

# torch comes first and alone: if pip's choice would be a CUDA build (gigabytes), stop before anything is downloaded.
$(VENV)/.torch: constraints.txt tools/refuse_cuda.py
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unmask needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --no-deps --dry-run --report $(VENV)/torch.json torch
	$(BIN)/python tools/refuse_cuda.py $(VENV)/torch.json
	$(PIP_INSTALL) torch setuptools
	touch $@

$(VENV)/.installed: $(VENV)/.torch pyproject.toml
	$(PIP_INSTALL) --no-build-isolation -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP_INSTALL) --no-build-isolation -e '.[dev]'
	touch $@

demo: $(VENV)/.installed
	@BIN=$(BIN) sh tools/demo.sh

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check src tests bench docs tools
	$(BIN)/ruff format --check src tests bench docs tools
	$(BIN)/mypy

test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -m "not real and not slow" -n $(CORES) --dist loadfile

$(REAL)/antiberty: $(VENV)/.installed
	mkdir -p $(REAL)
	$(BIN)/pip download --quiet --disable-pip-version-check --no-deps --dest $(REAL) antiberty==0.1.3
	$(BIN)/python -m zipfile -e $(REAL)/antiberty-0.1.3-py3-none-any.whl $(REAL)
	touch $@

test-real: $(VENV)/.installed-dev $(REAL)/antiberty
	$(THREADS) UNMASK_ANTIBERTY=$(REAL)/antiberty/trained_models/AntiBERTy_md_smooth $(BIN)/pytest -q -m real

bench: $(VENV)/.installed
	$(THREADS) $(BIN)/python bench/pair_table.py

docs: $(VENV)/.installed
	$(BIN)/python tools/import_graph.py docs/figures/imports.svg
	$(BIN)/python tools/refresh_readme.py

clean:
	rm -rf $(VENV) $(REAL)
