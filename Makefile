# Two commands for a fresh machine: `make demo` and `make test`. Both use their own environment, .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.package
DEV := $(VENV)/.dev
DEMO := demo
JOBS ?= 2
TORCH ?= torch
BENCH ?=

.PHONY: help demo test test-slow test-arm test-haswell lint format bench bench-postamble bench-stream bench-quantizers \
	bench-quantizers-peers validation docs pictures clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 24

# The package alone, which `make demo` wants; and beside it, in the same environment, the tools that test it.
$(PACKAGE): pyproject.toml axtool/native/CMakeLists.txt $(shell find axtool/native -name '*.cpp' -o -name '*.h' -o -name '*.inc')
	@echo "installing into $(VENV) and compiling the native engine: two minutes on two cores"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(DEV): $(PACKAGE) pyproject.toml
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

demo: $(PACKAGE)  ## compile the bundled model, run it on the bundled picture, write demo/annotated.png, print the profile
	mkdir -p $(DEMO)
	$(BIN)/axzoo build digits-v8det --out $(DEMO)/digits.axm --force
	$(BIN)/axtool info $(DEMO)/digits.axm
	$(BIN)/axtool run $(DEMO)/digits.axm zoo/detection/digits/scene.png --save $(DEMO)/annotated.png --force
	$(BIN)/axtool profile $(DEMO)/digits.axm --sort cycles --top 12
	@echo "the picture is in $(DEMO)/annotated.png"

test: $(DEV)  ## the fast suite
	$(BIN)/pytest -q -n $(JOBS) -m "not slow"

test-slow: $(DEV)  ## the zoo end to end, models from packages and beside the project
	$(BIN)/pytest -q -n $(JOBS) -m slow

test-arm:  ## kernels on aarch64 under qemu: the same digests as here (needs g++-aarch64-linux-gnu and qemu-user)
	tests/native/run_digests.sh arm

test-haswell:  ## kernels on an x86-64 CPU without VNNI under qemu: the same digests as here (needs qemu-user)
	tests/native/run_digests.sh haswell

lint: $(DEV)  ## ruff, mypy --strict, import direction
	$(BIN)/ruff check axtool tests benchmarks
	$(BIN)/ruff format --check axtool tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV)  ## rewrite the code as ruff wants it
	$(BIN)/ruff check --fix axtool tests benchmarks
	$(BIN)/ruff format axtool tests benchmarks

bench: $(DEV)  ## engine speed against onnxruntime, as ratios
	$(BIN)/python -m benchmarks.engine

bench-postamble: $(DEV)  ## postamble kernels against the path that they replace, and against memcpy
	$(BIN)/python -m benchmarks.postamble $(BENCH)

bench-stream: $(DEV)  ## streams over 1, 4 and 16 paced cores, and the host's part of a frame; needs a quiet machine
	$(BIN)/python -m benchmarks.stream $(BENCH)

bench-quantizers: $(DEV)  ## int8 accuracy and cost of quantizers; BENCH="--models ppocr-rec --keep results.json"
	$(BIN)/python -m benchmarks.quantizers $(BENCH)

bench-quantizers-peers: $(DEV)  ## the environments of the other quantizers, in build/peers (gigabytes)
	$(BIN)/python -m benchmarks.quantizer_peers --torch "$(TORCH)"

validation: $(DEV)  ## published cycles and frames beside modelled ones: writes docs/validation.md
	$(BIN)/python -m benchmarks.validation --jobs $(JOBS)

docs: $(PACKAGE)  ## regenerate the pages of docs/ that are made from code
	$(BIN)/python docs/generate.py

pictures: $(PACKAGE)  ## draw docs/pictures: what each model of the zoo finds (fetches and builds the models)
	$(BIN)/python docs/pictures.py

clean:  ## remove what was built
	rm -rf build dist $(VENV) $(DEMO) .hypothesis .pytest_cache .mypy_cache .ruff_cache
