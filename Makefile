# Each target sets up all it needs: a virtual environment in .venv, Python
# dependencies and, where it may, the system packages for lanes and broker.

PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint bench soak clean

demo: .venv/demo.ready
	@sh .ci/system-packages mosquitto
	$(BIN)/tinyldp demo $(ARGS)

# Two processes more than cores: those of tests that wait run beside the others, see tests/turns.py.
test: .venv/test.ready
	@sh .ci/system-packages mosquitto qemu-system-arm firmware-microbit-micropython
	$(BIN)/pytest -n 4 --dist loadgroup $(ARGS)

lint: .venv/test.ready .venv/micropython-stubs/stdlib
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/basedpyright -p device/pyrightconfig.json
	$(BIN)/python -m mypy.stubtest tinyldp_protocol tinyldp_device

bench: .venv/bench.ready
	$(BIN)/python -m tests.bench $(ARGS)

soak: .venv/test.ready
	@sh .ci/system-packages mosquitto qemu-system-arm firmware-microbit-micropython
	$(BIN)/pytest -m soak -n 2 --dist loadgroup $(ARGS)

clean:
	rm -rf .venv build dist demo-output

.venv/bin/python:
	@sh .ci/system-packages venv "$(PYTHON)"
	$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

.venv/demo.ready: pyproject.toml | .venv/bin/python
	@echo "Setting up .venv; this takes a minute, once."
	@$(BIN)/python -m pip install --quiet --no-warn-conflicts --editable '.[lanes]'
	@$(BIN)/python -m pip install --quiet --no-deps pyActigraphy
	@touch $@

.venv/test.ready: pyproject.toml .venv/demo.ready
	@$(BIN)/python -m pip install --quiet --no-warn-conflicts --editable '.[lanes,test]'
	@touch $@

.venv/bench.ready: pyproject.toml .venv/test.ready
	@$(BIN)/python -m pip install --quiet --no-warn-conflicts --editable '.[lanes,test,bench]'
	@touch $@

# Apart from the environment: these stubs shadow the standard library's.
.venv/micropython-stubs/stdlib: | .venv/bin/python
	$(BIN)/python -m pip install --quiet --target .venv/micropython-stubs micropython-unix-stubs
