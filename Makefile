# Every target does the set-up it needs by itself, and none when it is done.

PYTHON ?= python3
VENV ?= .venv
# auto (if likely to be used), require or skip: see `tools/set_up.py --help`.
HOROVOD ?= auto

FORMAT ?= python_docs
CORPUS ?=
CONFIG ?= configs/segabert.py:modern_tiny
VOCAB ?=
VOCAB_SIZE ?= 8192
# configs/segabert.py:modern_tiny is called segabert_modern_tiny.
CONFIG_NAME = $(subst :,_,$(patsubst %.py,%,$(subst .py:,:,$(notdir $(CONFIG)))))
OUTPUT ?= runs/$(subst $() $(),-,$(strip $(CONFIG_NAME) $(FORMAT) $(notdir $(CORPUS:/=))))
NUM_WORKERS ?= $(shell getconf _NPROCESSORS_ONLN)
BUILD_ARGS ?=
TRAIN_ARGS ?=
TEST_ARGS ?=
BENCH ?=
SITE ?= build/site
UPGRADE ?=

CORPUS_WITHOUT_FORMAT := $(and $(CORPUS),$(filter file,$(origin FORMAT)))
# Read from the config, so that the two cannot differ.
WINDOW_LENGTH = $(or $(shell $(RUN) -c "$(PRINT_WINDOW_LENGTH)"),$(error \
	CONFIG=$(CONFIG) gives no inputs.window_length))
PRINT_WINDOW_LENGTH = from seg_tf.commands import run_flags; \
	print(run_flags.load_config('$(CONFIG)').inputs.window_length)
VOCAB_FILE = $(or $(VOCAB),$(OUTPUT)/vocab.txt)

RUN = $(VENV)/bin/python
SET_UP = $(PYTHON) tools/set_up.py --venv=$(VENV) --horovod=$(HOROVOD)
LOCK = $(VENV)/bin/uv pip compile --quiet --universal --python-version=3.11 \
	--no-emit-index-url --generate-hashes --custom-compile-command="make lock" \
	--overrides=requirements/overrides.txt --excludes=requirements/excludes.txt \
	$(if $(UPGRADE),--upgrade)



.DEFAULT_GOAL := help
.PHONY: help setup setup-corpora setup-dev setup-profile pretrain test test-quick lint docs format bench lock clean clean-all

help: ## What the targets do (this text)
	@echo "Targets:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) \
		| awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'
	@echo
	@echo "make pretrain reads these, shown with their values now:"
	@echo "  FORMAT=$(FORMAT)       format of the text: see seg-tf readers --help"
	@echo "  CORPUS=$(CORPUS)                  file or folder of text; python_docs needs none"
	@echo "  CONFIG=$(CONFIG)"
	@echo "  VOCAB=$(VOCAB)                   a BERT vocab.txt; without, one of VOCAB_SIZE=$(VOCAB_SIZE) is trained"
	@echo "  OUTPUT=$(OUTPUT)"
	@echo "  NUM_WORKERS=$(NUM_WORKERS)  BUILD_ARGS= and TRAIN_ARGS=: more flags for the two scripts"
	@echo "All: PYTHON=$(PYTHON) VENV=$(VENV) HOROVOD=$(HOROVOD) (auto, require or skip)"

setup: ## Virtual environment and packages for training; Horovod with several GPUs
	@$(SET_UP) run

setup-corpora: ## The same, with Apache Beam, Parquet and TensorFlow Datasets
	@$(SET_UP) corpora

setup-dev: ## All of it, and what tests and developers need
	@$(SET_UP) dev

setup-profile: ## As setup, with TensorBoard's page for profiles of a run
	@$(SET_UP) profile

pretrain: setup ## Text to records to a pretrained model: CORPUS= FORMAT= CONFIG= VOCAB= OUTPUT=
	$(if $(CORPUS_WITHOUT_FORMAT),$(error CORPUS= needs FORMAT=, as in FORMAT=wikiextractor))
	@if [ -z "$(VOCAB)" ] && [ ! -f "$(VOCAB_FILE)" ]; then \
		echo "Training a vocabulary of $(VOCAB_SIZE) word pieces"; \
		$(RUN) -m seg_tf build-vocab --format="$(FORMAT)" --input="$(CORPUS)" \
			--vocab_size=$(VOCAB_SIZE) --output="$(VOCAB_FILE)"; fi
	$(RUN) -m seg_tf build-records --format="$(FORMAT)" --input="$(CORPUS)" \
		--vocab_file="$(VOCAB_FILE)" --output_dir="$(OUTPUT)/records" \
		--window_length=$(WINDOW_LENGTH) --num_workers=$(NUM_WORKERS) $(BUILD_ARGS)
	$(RUN) run_pretraining.py --config="$(CONFIG)" --records_dir="$(OUTPUT)/records" \
		--output_dir="$(OUTPUT)" $(TRAIN_ARGS)

test: setup-dev ## All tests; some: TEST_ARGS="tests/text -k abbreviation"
	$(RUN) -m pytest --numprocesses=logical --maxprocesses=8 --dist=loadfile \
		--no-loadscope-reorder $(TEST_ARGS)

test-quick: setup-dev ## The tests that take no training, in a few minutes
	@$(MAKE) --no-print-directory test TEST_ARGS="-m 'not slow' $(TEST_ARGS)"

lint: setup-dev ## Style, likely bugs and types; changes nothing
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports

docs: setup-dev ## The site of the documents, in build/site; a warning is an error
	$(RUN) -m sphinx --fresh-env --quiet --fail-on-warning --keep-going \
		--conf-dir docs/site --doctree-dir "$(SITE).doctrees" . "$(SITE)"

format: setup-dev ## Formats, and applies safe fixes
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

bench: setup-dev ## Benchmarks, which print ratios: BENCH= for one of them
	@set -e; for file in $$(grep -l '^if __name__' benchmarks/$(or $(BENCH),*).py); do \
		module=$$(echo "$${file%.py}" | tr / .); echo "== $$module"; $(RUN) -m $$module; done

lock: setup-dev ## Resolves requirements/*.txt anew: UPGRADE=1 for newer versions
	$(LOCK) --extra=dev --extra=corpora --extra=docs --extra=notebooks \
		--extra=horovod --no-emit-package=horovod \
		--output-file=requirements/dev.txt pyproject.toml
	$(LOCK) --extra=horovod --no-emit-package=horovod \
		--constraints=requirements/dev.txt \
		--output-file=requirements/run.txt pyproject.toml
	$(LOCK) --extra=corpora --extra=horovod --no-emit-package=horovod \
		--constraints=requirements/dev.txt \
		--output-file=requirements/corpora.txt pyproject.toml
	$(LOCK) --extra=profile --extra=horovod --no-emit-package=horovod \
		--constraints=requirements/dev.txt \
		--output-file=requirements/profile.txt pyproject.toml
	$(LOCK) --no-deps --output-file=requirements/horovod-build.txt \
		requirements/horovod-build.in

clean: ## Removes caches of tools; keeps the environment, runs and records
	rm -rf .pytest_cache .ruff_cache .mypy_cache .hypothesis .coverage htmlcov build dist *.egg-info
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

clean-all: clean ## Removes also the virtual environment and Horovod's wheel
	rm -rf $(VENV) .cache
