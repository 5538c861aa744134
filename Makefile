# make demo       set up .venv and show unmask on the bundled model
# make test       set up .venv, lint, check types, run the tests
# make test-page  install Chromium if there is none, and test the page of `unmask serve` in it
# make test-gpu   the tests that need an NVIDIA GPU, with PYTHON as it is: CUDA build of torch, Triton, what unmask needs, pytest, hypothesis
# make test-models  a tiny model of every type that transformers has as a masked language model, against direct passes
# make test-real  download AntiBERTy and run the tests that need it
# make bench      the side-by-side benchmarks
# make docs       build the documentation site in build/site: strict, offline
# make test-release  build a wheel, install it into an empty environment, use it there; run the notebooks
# make refresh    run every command that README and docs/ show again, redraw the figures, write the notebook
#
# Every install takes its versions from constraints.txt. PYTHON chooses the interpreter (3.11 or newer).

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
CORES = $$($(BIN)/python -c 'import os; print(os.cpu_count() or 1)')
THREADS = OMP_NUM_THREADS=$(CORES) OMP_WAIT_POLICY=PASSIVE
REAL := .cache/real

.PHONY: demo test lint test-page test-gpu test-models test-real test-release bench docs refresh clean help
.DEFAULT_GOAL := help

help:
	@sed -n '/^#$$/q; s/^# //p' Makefile

# torch comes first and alone: if pip's choice would be a CUDA build (gigabytes), stop before anything is downloaded.
$(VENV)/.torch: constraints.txt tools/refuse_cuda.py
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unmask needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --no-deps --dry-run --report $(VENV)/torch.json torch
	$(BIN)/python tools/refuse_cuda.py $(VENV)/torch.json
	@echo 'installing torch (200 MB): a minute or two'
	$(PIP_INSTALL) torch setuptools
	touch $@

$(VENV)/.installed: $(VENV)/.torch pyproject.toml
	@echo 'installing unmask and what else it needs: a minute'
	$(PIP_INSTALL) --no-build-isolation -e '.[serve]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP_INSTALL) --no-build-isolation -e '.[dev]'
	touch $@

demo: $(VENV)/.installed
	@BIN=$(BIN) sh tools/demo.sh

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check src tests bench docs tools
	$(BIN)/ruff format --check src tests bench docs tools
	$(BIN)/lint-imports --no-cache > /dev/null || $(BIN)/lint-imports --no-cache
	$(BIN)/oxlint --quiet src/unmask/surfaces/serving/page
	$(BIN)/mypy --num-workers $(CORES)

test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -m "not real and not slow and not release and not page and not gpu and not models" -n $(CORES) --dist loadfile

$(VENV)/.installed-page: $(VENV)/.installed-dev
	$(PIP_INSTALL) --no-build-isolation -e '.[page]'
	touch $@

test-page: $(VENV)/.installed-page
	@if sh tools/find_chromium.sh; then $(THREADS) $(BIN)/pytest -q -m page tests/page; fi

# Nothing is installed: `constraints.txt` has the CPU build of torch. With beartype there, shapes are checked too.
test-gpu:
	@$(PYTHON) -c 'import hypothesis, pytest, torch, transformers, triton; assert torch.cuda.is_available()' 2> /dev/null \
	  || { echo 'make test-gpu needs an NVIDIA GPU and a Python with the CUDA build of torch, Triton, what unmask needs, pytest and hypothesis: make PYTHON=... test-gpu'; exit 2; }
	PYTHONPATH=src $(PYTHON) -m pytest -q -m gpu $$(grep -rl 'mark\.gpu' tests --include=*.py)

test-models: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -m models -n $(CORES) tests/models/test_model_types.py

$(REAL)/antiberty: $(VENV)/.installed
	mkdir -p $(REAL)
	$(BIN)/pip download --quiet --disable-pip-version-check --no-deps --dest $(REAL) antiberty==0.1.3
	$(BIN)/python -m zipfile -e $(REAL)/antiberty-0.1.3-py3-none-any.whl $(REAL)
	touch $@

test-real: $(VENV)/.installed-dev $(REAL)/antiberty
	$(THREADS) UNMASK_ANTIBERTY=$(REAL)/antiberty/trained_models/AntiBERTy_md_smooth $(BIN)/pytest -q -m real

$(VENV)/.installed-release: $(VENV)/.installed-dev
	$(PIP_INSTALL) --no-build-isolation -e '.[release]'
	touch $@

test-release: $(VENV)/.installed-release
	$(THREADS) $(BIN)/pytest -q -m release

bench: $(VENV)/.installed
	$(THREADS) $(BIN)/python bench/pair_table.py

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP_INSTALL) --no-build-isolation -e '.[docs]'
	touch $@

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html, or serve it, search included: $(BIN)/python -m http.server --directory build/site"

refresh: $(VENV)/.installed-docs
	$(BIN)/python tools/import_graph.py docs/figures/imports.svg
	$(BIN)/python tools/method_tables.py
	$(BIN)/python tools/shown.py
	$(BIN)/python tools/notebooks.py
	$(BIN)/unmask compare "The [MASK] [MASK] at the casino." --figure docs/figures/joint_of_two_blanks.png
	$(BIN)/unmask dependence "She put the keys on the table and closed the door." --candidates 64 --figure docs/figures/dependence.png
	$(BIN)/unmask lab all --out build/lab-report
	for n in dictionary masking dependence parallel stutter schedule decoding; do cp build/lab-report/$$n.png docs/figures/lab-$$n.png; done

clean:
	rm -rf $(VENV) $(REAL)
