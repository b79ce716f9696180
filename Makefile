# make demo | test | test-slow | test-torch | test-torch-sample | coverage | test-siracusa | test-zephyr | check | renew | pages | notebooks | docs | bench | benchmarks | golden | schedules | lock | wheel | runtime-cases | runtime-results | runtime-operators | clean, and what searches for faults: make fuzz | detection | mutants | io-faults.
# The first use builds .venv from requirements.lock, whose digests pip checks.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
WORKERS ?= 2
PYTEST ?= # more words for pytest
# Compiled modules are kept: each of the hundreds of processes of a test run would compile the same ones.
unexport PYTHONDONTWRITEBYTECODE
LOCKED := --quiet --disable-pip-version-check --require-hashes -r requirements.lock

.PHONY: demo test test-slow torch-environment test-torch test-torch-sample test-cluster test-fleet coverage test-siracusa test-zephyr check package renew pages notebooks docs bench benchmarks golden schedules lock wheel fuzz detection mutants io-faults runtime-cases runtime-results runtime-operators clean

demo: $(READY)
	$(PY) -m DeployTest.models.autoencoder out/demo
	$(PY) -m deployer.cli train -t out/demo -o out/demo/c -p host --doublebuffer --l1 32000 --verbose

test: $(READY)
	$(PY) -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow" $(PYTEST)

test-slow: $(READY)
	$(PY) -m pytest -q -n $(WORKERS) --dist worksteal -m slow $(PYTEST)

TORCH := out/torch-environment/bin/python

torch-environment: # PyTorch, and what is compared with it, in an environment of their own
	test -x $(TORCH) || $(PYTHON) -m venv out/torch-environment
	$(TORCH) -m pip install $(LOCKED)
	$(TORCH) -m pip install --quiet --disable-pip-version-check -r requirements.txt -r DeployTest/front/requirements.txt

test-torch: torch-environment
	$(TORCH) -m pytest -q -n $(WORKERS) --dist worksteal -m torch --must-run=torch $(PYTEST)

test-torch-sample: torch-environment # the quick ones of them
	$(TORCH) -m pytest -q -n $(WORKERS) --dist worksteal -m "torch and not slow" --must-run=torch $(PYTEST)

test-cluster: # sweeps by a study of Optuna and on a Dask cluster, in an environment of their own
	test -x out/cluster-environment/bin/python || $(PYTHON) -m venv out/cluster-environment
	out/cluster-environment/bin/python -m pip install $(LOCKED)
	out/cluster-environment/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt -r DeployTest/sweeps/requirements.txt
	out/cluster-environment/bin/python -m pytest -q -m cluster --must-run=cluster $(PYTEST)

test-fleet: # fleets under Flower, in an environment of their own: Flower asks for other versions of two packages
	test -x out/fleet-environment/bin/python || $(PYTHON) -m venv out/fleet-environment
	sed '/^rich==/d; /^packaging==/d' requirements.txt >out/fleet-environment/requirements.txt
	out/fleet-environment/bin/python -m pip install --quiet --disable-pip-version-check -r out/fleet-environment/requirements.txt -r DeployTest/fleets/requirements.txt
	out/fleet-environment/bin/python -m pytest -q -m fleet --must-run=fleet $(PYTEST)

coverage: torch-environment # what of PyTorch can be trained, into docs/pytorch-coverage.md; some hours on two cores
	$(TORCH) -m pip install --quiet --disable-pip-version-check -r DeployTest/suites/torch_models/requirements.txt
	OMP_NUM_THREADS=1 $(TORCH) -m DeployTest.suites.coverage --write --jobs $(WORKERS)
	$(TORCH) -m DeployTest.suites.torch_models.modules --write
	$(TORCH) -m DeployTest.suites.torch_models.transformers_models --write

test-siracusa: $(READY) # needs GVSOC_INSTALL_DIR
	@test -n "$$GVSOC_INSTALL_DIR" || { echo "make: GVSOC_INSTALL_DIR is not set: build GVSoC for its target siracusa, and name its install folder" >&2; exit 1; }
	$(PY) -m pytest -q -n $(WORKERS) --dist worksteal -m siracusa --must-run=siracusa $(PYTEST)

test-zephyr: $(READY) # needs ZEPHYR_BASE
	@test -n "$$ZEPHYR_BASE" || { echo "make: ZEPHYR_BASE is not set: it names the folder of Zephyr's source" >&2; exit 1; }
	$(PY) -m pytest -q -m zephyr --must-run=zephyr $(PYTEST)

fuzz: $(READY) # 100 000 inputs; FUZZ="--seed 2 --inputs 1000" for others
	OMP_NUM_THREADS=1 $(PY) -m DeployTest.faults.fuzz --workers $(WORKERS) $(FUZZ)

io-faults: $(READY) # lets each call of the operating system fail once, and memory end; half an hour on two cores
	OMP_NUM_THREADS=1 $(PY) -m DeployTest.faults.machine --jobs $(WORKERS)

mutants: $(READY) # small changes of the compiler itself, each of which some test has to notice; MUTANTS="--seed 2 --count 40" for others
	OMP_NUM_THREADS=1 $(PY) -m DeployTest.faults.mutants --jobs $(WORKERS) $(MUTANTS)

check: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m DeployTest.support.documents.check_words
	@rm -rf out/types && mkdir -p out/types/deployer # mypy wants the installed layout of the packages
	@ln -s $(CURDIR)/deployer/* $(CURDIR)/tilers $(CURDIR)/targets $(CURDIR)/templates out/types/deployer/
	cd out/types && MYPYPATH=. $(CURDIR)/$(PY) -m mypy --config-file ../../pyproject.toml

package: $(READY)
	$(PY) DeployTest/support/building/check_package.py

renew: pages golden schedules # what is generated and committed: read the diff before you commit it

pages: $(READY) # renew the generated parts of the documentation: options, operators, targets, errors, benchmarks, results
	$(PY) -m DeployTest.support.documents.site_pages

notebooks: torch-environment # run those of docs/notebooks, and renew their pages; needs arm-none-eabi-gcc and qemu-system-arm
	$(TORCH) -m DeployTest.support.documents.notebooks

docs: $(READY) # the site, from docs/ into out/site, in an environment of its own
	test -x out/docs-environment/bin/python || $(PYTHON) -m venv out/docs-environment
	out/docs-environment/bin/python -m pip install $(LOCKED)
	out/docs-environment/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt -r docs/requirements.txt
	out/docs-environment/bin/python -m sphinx -W --keep-going -q -b html docs out/site

bench: $(READY) # needs GVSOC_INSTALL_DIR
	$(PY) -m DeployTest.benchmarks.siracusa

benchmarks: $(READY) # renew all committed tables; says which ones it skips, and why. Hours
	$(PY) -m DeployTest.benchmarks.upkeep.renew

detection: $(READY) # plants faults in generated programs, about ten minutes
	$(PY) -m DeployTest.faults.inject table --jobs $(WORKERS)

runtime-cases: # ONNX Runtime's training artifacts with its results, which the tests then train; needs Python 3.11 as python3.11
	python3.11 -m venv out/runtime-environment
	out/runtime-environment/bin/python -m pip install --quiet --disable-pip-version-check -r DeployTest/artifacts/requirements.txt
	out/runtime-environment/bin/python DeployTest/artifacts/generate.py out/runtime-cases
	out/runtime-environment/bin/python DeployTest/artifacts/generate_torch.py out/runtime-cases

runtime-results: runtime-cases $(READY) # train all of them by the command line, and write the table of docs/runtime-artifacts.md
	$(PY) -m DeployTest.artifacts.results out/runtime-cases docs/runtime-artifacts.md

runtime-operators: # what ONNX Runtime's training operators compute on small inputs, which the tests compare
	out/runtime-environment/bin/python DeployTest/artifacts/operator_results.py DeployTest/frontend/runtime/runtime_results.npz

golden: $(READY)
	$(PY) -m pytest -q DeployTest/codegen/test_golden.py DeployTest/codegen/test_digests.py --update-golden

schedules: $(READY) # the header of scheduled taps of the cluster's kernels
	$(PY) -m DeployTest.support.kernels.tap_schedules

lock: # requirements.lock anew, after a change of requirements.txt; needs the package index
	test -x out/lock-environment/bin/python || $(PYTHON) -m venv out/lock-environment
	out/lock-environment/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	(sed -n 1p requirements.lock; out/lock-environment/bin/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
		--no-header --no-annotate --no-emit-index-url requirements.txt) > out/requirements.lock
	mv out/requirements.lock requirements.lock

wheel: $(READY) # the wheel and its bill of materials, in out/wheels
	$(PY) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir out/wheels .
	$(PY) .ci/wheel_bill.py out/wheels/deployer-*.whl

clean:
	rm -rf out .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info

$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is older than 3.11; set PYTHON=python3.11 or later" >&2; exit 1; }
	@command -v gcc >/dev/null || { echo "make: gcc is missing; install it with: apt-get install gcc" >&2; exit 1; }
	@[ ! -L $(VENV) ] || { echo "make: $(VENV) is a link, and the folder behind it would be emptied; remove the link, or set VENV=DIR" >&2; exit 1; }
	@[ -e $(VENV)/pyvenv.cfg ] || [ -z "$$(ls -A $(VENV) 2>/dev/null)" ] || { echo "make: $(VENV) is not a virtual environment, and would be emptied; move it away, or set VENV=DIR" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 || $(PYTHON) .ci/bootstrap_venv.py $(VENV)
	$(PY) -m pip install $(LOCKED)
	@touch $@
