# Every command sets up the environment it needs, once, and reuses it. Start with `make demo` or `make test`.
PYTHON ?= python3
VENV := .venv
CORE := .venv-core
LOWEST := .venv-lowest

.PHONY: demo test test-core test-lowest lint format types imports release fuzz bench lock audit docs notebooks clean

demo: $(VENV)/.ready
	$(VENV)/bin/tagloom demo

test: test-core
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal

# The small install: everything that must work where there is no torch.
test-core: $(VENV)/.ready $(CORE)/.ready
	$(CORE)/bin/python -c "import importlib.util as u; assert u.find_spec('torch') is None"
	$(CORE)/bin/python -m pytest -m "not slow" tests/core tests/data tests/evaluation/test_bootstrap.py \
		tests/evaluation/test_compare.py tests/metrics tests/recipe/test_filling.py tests/report tests/scoring tests/words tests/xmp

# The lowest versions of pyproject.toml, over tables, models, training, export and prediction. Left out: whether a hostile
# description is refused before its network is built, since older versions of timm build some networks only for real.
test-lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/python -m pytest -m "not slow and not fuzz" -k "not too_large_for_the_machine" tests/core tests/labels tests/metrics tests/scoring \
		tests/models/test_network.py tests/models/test_onnx_export.py tests/predict/test_tagger.py tests/training/test_loop.py

# Every round of the tests with hostile and unlucky input; `make test` runs a tenth of them.
fuzz: $(VENV)/.ready
	TAGLOOM_FUZZ=full $(VENV)/bin/python -m pytest -m fuzz

# Every speed claim as a ratio against a named rival, about ten minutes on two quiet cores; writes docs/benchmarks.md.
# With PHOTOS=folder, predictions run on the JPEGs of that folder, and not on drawn scenes.
bench: $(VENV)/.ready
	TAGLOOM_BENCH_PHOTOS="$(PHOTOS)" $(VENV)/bin/python bench/all.py

# The site in site/. A broken link or an unknown name is an error.
docs: $(VENV)/.ready
	$(VENV)/bin/mkdocs build --strict

# Run the notebooks and keep what they print.
notebooks: $(VENV)/.ready
	$(VENV)/bin/python tests/docs/notebooks.py docs/notebooks/*.ipynb

lint: $(VENV)/.ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(VENV)/.ready
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

types: $(VENV)/.ready
	$(VENV)/bin/mypy

# The order of the packages in docs/architecture.md, enforced.
imports: $(VENV)/.ready
	$(VENV)/bin/lint-imports

# Builds wheel and sdist, checks both, installs the wheel where nothing else is, and tags a photograph with it.
release: $(VENV)/.ready
	rm -rf dist build/release
	$(VENV)/bin/python -m build --outdir dist .
	$(VENV)/bin/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --quiet dist/*.whl
	cd build/release && PYTHONPATH= bin/tagloom predict "$$(cd $(CURDIR) && $(VENV)/bin/python -c \
		'from tagloom.demo import installed_photographs as found; print(found()[-1])')" | grep -i person
	@echo "dist/ is ready: $$(ls dist)"

# Exactly the versions of requirements/, every file checked against its SHA-256; then this repository, editable.
$(VENV)/.ready: pyproject.toml requirements/dev.txt
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "Tagloom needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Setting up $(VENV) (once; torch is large, this takes some minutes) ..."
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(CORE)/.ready: pyproject.toml requirements/core.txt
	@echo "Setting up $(CORE), the install without torch (once) ..."
	$(PYTHON) -m venv $(CORE)
	$(CORE)/bin/python -m pip install --quiet --require-hashes -r requirements/core.txt
	$(CORE)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(LOWEST)/.ready: pyproject.toml requirements/lowest.txt
	@echo "Setting up $(LOWEST), the lowest versions that we support (once) ..."
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --require-hashes -r requirements/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Write requirements/*.txt again: names, versions and hashes, for every platform. Read the difference before you commit it.
COMPILE := build/lock/bin/uv pip compile --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet --upgrade
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet uv
	$(COMPILE) --universal --python-version 3.11 pyproject.toml requirements/build.in --extra dev -o requirements/dev.txt
	$(COMPILE) --universal --python-version 3.11 pyproject.toml requirements/build.in requirements/core-tests.in \
		-c requirements/dev.txt -o requirements/core.txt
	$(COMPILE) --python-version 3.11 --resolution lowest-direct pyproject.toml requirements/build.in \
		requirements/lowest-tests.in --extra train -o requirements/lowest.txt

# Look the locked versions up among the known vulnerabilities; needs the network.
audit:
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet pip-audit
	build/audit/bin/pip-audit --require-hashes --disable-pip -r requirements/dev.txt

clean:
	rm -rf $(VENV) $(CORE) $(LOWEST) demo dist build site
