# make demo · make test · make test-matrix · make lint · make bench · make bench-spark · make bench-engines · make soak · make clean-cache · make clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-matrix lint bench bench-spark bench-engines soak clean clean-cache java browser

demo: $(VENV)/.demo java
	$(BIN)/python examples/demo.py

test: $(VENV)/.test java browser
	$(BIN)/python -m pytest

test-matrix: java
	@PYTHON=$(PYTHON) sh scripts/test_matrix.sh

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench
	$(BIN)/asv machine --yes
	$(BIN)/asv run --python=same --quick --show-stderr
	$(BIN)/python benchmarks/ratios.py
	$(BIN)/python benchmarks/join_ratios.py

# Without BENCH everything, into the report, going on where it was stopped; with BENCH just what that says.
bench-spark: $(VENV)/.bench java
	$(BIN)/python benchmarks/end_to_end.py $(or $(BENCH),--json benchmarks/figures.json --resume --report benchmarks/REPORT.md)

# Each in an environment of its own: Pathway brings a hundred packages, and holds pyarrow below the newest one,
# which would change what Spark and Millrace are measured with.
bench-engines: .venv-engines/bytewax .venv-engines/pathway

.venv-engines/%: benchmarks/engines/%.txt
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< || { rm -rf $@; exit 1; }
	@touch $@

soak: $(VENV)/.test java
	$(BIN)/python -m pytest tests/soak --override-ini testpaths=tests/soak
	MILLRACE_SPARK_EXAMPLES=100 MILLRACE_HOT_ROWS=20000 $(BIN)/python -m pytest tests/spark/test_generated.py tests/spark/test_generated_stateful.py tests/spark/test_join_memory.py

# Spark needs Java; the kernels do not, so a missing Java is reported and stops nothing.
java:
	@sh scripts/ensure_java.sh

# One test opens a report in a real browser.
browser:
	@sh scripts/ensure_browser.sh

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Millrace needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; choose one with: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

# One stamp per set of dependencies: each target installs no more than it needs.
$(VENV)/.%: $(VENV)/pyvenv.cfg pyproject.toml setup.cfg
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".$(EXTRA)"
	@touch $@

$(VENV)/.demo: EXTRA := [spark]
$(VENV)/.test: EXTRA := [test]
$(VENV)/.lint: EXTRA := [lint]
$(VENV)/.bench: EXTRA := [bench]

clean-cache:
	find kernels spark_glue tests benchmarks -name '*.nb[ic]' -delete

clean:
	rm -rf $(VENV) .venv-* build *.egg-info .asv
	find . -name __pycache__ -prune -exec rm -rf {} +
