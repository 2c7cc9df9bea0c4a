# Everything runs in .venv, made from constraints.txt: torch's CPU build is pinned there, so that no CUDA packages are pulled.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
EMBEDDED := fashion-mnist-sample
RUN := runs/demo

.PHONY: install run test test-long bench lint clean

.venv/.made:
	$(PYTHON) -m venv .venv
	touch $@

.venv/.installed: .venv/.made pyproject.toml constraints.txt
	$(PIP) install --quiet --constraint constraints.txt torch
	$(PIP) install --quiet --constraint constraints.txt --editable '.[train]'
	touch $@

.venv/.dev: .venv/.installed
	$(PIP) install --quiet --constraint constraints.txt --editable '.[train,dev]'
	touch $@

install: .venv/.installed

run: install
	$(BIN)/reliant fit $(EMBEDDED) --preset demo --out $(RUN)
	$(BIN)/reliant evaluate $(RUN) --protocol knn
	$(BIN)/reliant evaluate $(RUN) --protocol linear --budget small
	$(BIN)/reliant evaluate $(RUN) --protocol relations

test: .venv/.dev
	$(BIN)/python -m pytest -m "not long"

test-long: .venv/.dev
	$(BIN)/python -m pytest

bench: .venv/.dev
	$(BIN)/python -m benchmarks

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python benchmarks/sizes.py

clean:
	rm -rf .venv runs build dist
