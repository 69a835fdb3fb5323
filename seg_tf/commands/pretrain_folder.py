"""Surveys the text, builds records and plans the run of `seg-tf pretrain FOLDER`."""

import functools
import json
import os
import pathlib
import textwrap
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psutil
from absl import flags
from ml_collections import config_flags

from data_pipelines import build_vocab, readers
from data_pipelines.builds import documents, windows
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.readers import streams
from seg_tf import command_line, file_listing, files
from seg_tf.commands import folder_choices as choices
from seg_tf.config import RunConfig, from_config_dict, to_config_dict, to_dict
from seg_tf.config.base import flat
from seg_tf.data.manifest import Manifest
from seg_tf.text.splitters import load_parameters
from seg_tf.training.run_folder import RunFolder

_NUM_UPDATES = "training.num_updates"
RECIPE = "segabert_included"
"""Run whose fields are flags without `--config`."""
MINUTES = (10, 60, 480)
TEXT_CHOICES = {
    "format": "how the text is stored",
    "reader_options": "details of the format",
    "sentence_parameters": "splitter of sentences",
    "lower_case": "lowercase, strip accents",
    "vocab_size": "number of word pieces",
    "max_characters": "characters with a piece",
    "duplicates": "copies to drop",
}
"""Flags with a folder, which are printed, and their help texts."""
RUN_CHOICES = {
    "inputs.window_length": "positions of a row",
    "optimizer.type": "Muon from ten minutes",
    "optimizer.learning_rate": "peak rate",
    "training.batch_size": "rows per update",
    "training.dtype_policy": "precision",
    "training.num_updates": "fills the time",
    "training.validation_interval": "updates between two",
}
"""Fields of the config that are printed."""
PLAN_FILE = "plan.json"
"""Choices of a run on a folder, in its output folder."""
_BYTES_PER_SECOND = 2e6  # Of vocabulary and records, as a first estimate.

flags.disclaim_key_flags()


def define_flags() -> None:
    flags.DEFINE_float("minutes", None, "With FOLDER: time of the whole command.", 0.1)
    flags.DEFINE_string("cache_dir", None, "With FOLDER: default is FOLDER.seg_tf.")
    kinds = {"reader_options": flags.DEFINE_list, "lower_case": flags.DEFINE_bool}
    kinds |= dict.fromkeys(("vocab_size", "max_characters"), flags.DEFINE_integer)
    for name, text in TEXT_CHOICES.items():
        kinds.get(name, flags.DEFINE_string)(name, None, f"With FOLDER: {text}.")


def say(text: str) -> None:
    """Prints a text as one paragraph, wrapped at 79 columns."""
    print("\n" + textwrap.fill(text, 79, break_long_words=False), flush=True)


def show(title: str, chosen: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Prints each chosen value as a flag, next to its meaning in `names`."""
    print(f"\n{title}")
    for name, meaning in names.items():
        value = chosen[name]
        if isinstance(value, Mapping):
            value = ",".join(f"{key}={item}" for key, item in value.items())
        value = str(value).lower() if isinstance(value, bool) else value
        line = f"  --{name}={value}"
        print(line if len(line) > 53 else f"{line:<54}{meaning}", flush=True)


def prepare(folder: str, is_named: bool) -> tuple[RunConfig, str, str] | None:
    """Builds records and returns a run's config, records folder and output folder.

    Without `--minutes`, prints choices for several durations and returns None. With it,
    saves the run's choices, except with `--dry_run`, so that the same command resumes
    the run. `is_named` is whether the user gave `--config`. Raises a ValueError for
    invalid text, flags or time, and a BuildError if the records cannot be built.
    """
    begin = time.monotonic() - (time.time() - psutil.Process().create_time())
    values = flags.FLAGS
    overrides = config_flags.get_override_values(values["config"])
    root = command_line.local_path(folder.partition("*")[0], "FOLDER").absolute()
    output = command_line.folder_path(values.output_dir or f"runs/{root.name}")
    cache = values.cache_dir or f"{root}.seg_tf"
    cache = command_line.folder_path(cache, "cache_dir")
    for name, place in (("output_dir", output), ("cache_dir", cache)):
        if root.is_dir() and place.absolute().is_relative_to(root):
            raise ValueError(
                f"`--{name}` must not be in the text, {root}. Received: {place}"
            )
    plan_file = output / PLAN_FILE
    requested = {"folder": folder, "config": is_named and values.config.name}
    requested |= {name: getattr(values, name) for name in ("minutes", *TEXT_CHOICES)}
    if plan_file.exists() and values.minutes and not values.overwrite:
        written = files.read_json(plan_file)
        if written["requested"] != requested:
            raise ValueError(
                f"`--output_dir` must not have a run with other flags: {plan_file} has "
                f"{written['requested']}. Choose another --output_dir, or remove that "
                f"run with --overwrite. Received: {requested}"
            )
        say(f"Resuming with the choices in {plan_file}")
        config = override(from_config_dict(written["config"]), overrides)
        return config, written["records"], str(output)
    window = overrides.get("inputs.window_length", 128)
    window = values.config.inputs.window_length if is_named else window
    records = build_records(folder, window, cache)
    manifest, elapsed = Manifest.load(records), time.monotonic() - begin
    counts = Manifest.load(records / "documents").text_counts()
    share = counts.get("unknown_words", 0) / max(counts.get("words", 0), 1)
    say(
        f"After {elapsed:.0f} s: {manifest.count('records', 'train'):,} windows, "
        f"{manifest.count('records', 'validation'):,} held out, {share:.2%} of the "
        f"words unknown, in {records}. Measuring the speed."
    )
    measure = functools.cache(functools.partial(measure_speed, str(records)))
    for minutes in [values.minutes] if values.minutes else MINUTES:
        try:
            config, plan = plan_run(manifest, measure, minutes, is_named, begin)
        except ValueError as error:
            if values.minutes:
                raise
            say(f"{minutes} minutes: {error}")
            continue
        chosen = {f"config.{k}": v for k, v in flat(to_dict(config)).items()}
        names = {f"config.{name}": text for name, text in RUN_CHOICES.items()}
        chosen |= {"config": config.name, "output_dir": output}
        names = {"config": "model", **names, "output_dir": "checkpoints and logs"}
        if plan.is_short:
            names["config.training.num_updates"] = f"{choices.MAX_EPOCHS} passes"
        show(f"Choices for {minutes:g} minutes", chosen, names)
        say(
            f"{plan.seconds / 60:.1f} minutes of training, {plan.epochs:.1f} passes "
            f"over the text. Expected loss: {plan.loss:.1f}, or lower if the text "
            "repeats itself: docs/one_command.md#the-expected-loss"
        )
        if plan.is_short:
            say(
                f"It ends early: more than {choices.MAX_EPOCHS} passes over one text "
                "hardly help. --config.training.num_updates trains for longer."
            )
    if not values.minutes:
        say(f"To train: the same command with --minutes={MINUTES[0]}")
        return None
    if not values.dry_run:
        written = {
            "requested": requested,
            "records": str(records),
            "config": to_dict(config),
        }
        with RunFolder(output).locked():
            files.write_json(plan_file, {**written, "expected_loss": plan.loss})
    return config, str(records), str(output)


def build_records(folder: str, window: int, cache: pathlib.Path) -> pathlib.Path:
    """Surveys a text, builds its records below `cache`, and returns their folder.

    Finished files are reused. `window` is the window length. Raises a ValueError if the
    format is unknown, or if building would take more than half of `--minutes`.
    """
    values = flags.FLAGS
    inputs = file_listing.split_inputs(folder)
    paths = [path for item in inputs for path in file_listing.list_files(item)]
    sizes = {str(path): path.stat().st_size for path in paths}
    format = values.format or choices.detect_format(sizes)
    options = readers.parse_options(values.reader_options or [])
    if format is None:
        raise ValueError(
            f"The files must have names of a text format. Received: {folder!r}. For "
            "source code and other names, give a glob such as 'FOLDER/**/*.py' and "
            "--format=plain_text"
        )
    sources = readers.get_reader(format, **options).sources(folder)
    paths = [*sources.values()]
    sizes = {str(path): path.stat().st_size for path in paths}
    if format == "plain_text" and len(paths) == 1 and "documents" not in options:
        # The survey reports errors.
        encoding = streams.codec_name(options.get("encoding", streams.UTF_8))
        with (
            suppress(streams.DocumentError),
            streams.open_text(paths[0], encoding) as f,
        ):
            text = f.read(1 << 20).decode(errors="replace")
            options |= choices.document_options(text.replace("\r\n", "\n"))
    if format in ("csv", "json_lines") and not {"text_field", "delimiter"} & {*options}:
        field = choices.find_text_field(max(sizes, key=sizes.__getitem__))
        options |= {"text_field": field} if field else {}
    sample = choices.survey(folder, format, options)
    flag_values = {name: getattr(values, name) for name in list(TEXT_CHOICES)[2:]}
    overrides = {name: v for name, v in flag_values.items() if v is not None}
    chosen = choices.choose_text(sample, overrides)
    chosen |= {"format": format, "reader_options": options}
    total = sum(sizes.values())
    say(
        f"{len(paths):,} file{'s' * (len(paths) > 1)}, {total / 1e6:,.1f} MB. "
        f"{sample.num_documents:,} documents were read: "
        f"{sample.language or 'a language not recognized'}, {sample.script_share:.0%} "
        f"{sample.script.lower()} letters, {sample.copies:.1%} in exact copies."
    )
    show("Choices for this text", chosen, TEXT_CHOICES)
    stats = {name: path.stat() for name, path in sources.items()}
    stamps = {name: [stat.st_size, stat.st_mtime] for name, stat in stats.items()}
    parameters = load_parameters(chosen["sentence_parameters"]).checksum
    inputs = {**chosen, "sentences": parameters, "window": window, "files": stamps}
    place = cache / files.content_checksum(inputs)[:12]
    vocab_file, records = place / "vocab.txt", place / "records"
    needed = total / _BYTES_PER_SECOND
    if values.minutes and not place.exists() and needed > 30 * values.minutes:
        raise ValueError(
            f"Building records takes about {needed / 60:.0f} minutes, more than half "
            f"of the time. Give --minutes={needed / 15:.0f}, or less text"
        )
    place.mkdir(parents=True, exist_ok=True)
    if not vocab_file.exists():
        names = ("vocab_size", "max_characters", "lower_case")
        settings = build_vocab.VocabularyOptions(**{k: chosen[k] for k in names})
        vocabulary = build_vocab.build_vocabulary(format, folder, settings, options)
        files.write_bytes(vocab_file, vocabulary.to_bytes())
    copies = None if chosen["duplicates"] == "none" else chosen["duplicates"]
    document_options = documents.DocumentOptions(
        format=format,
        input=folder,
        vocab_file=str(vocab_file),
        reader_options=options,
        lower_case=chosen["lower_case"],
        sentence_parameters=chosen["sentence_parameters"],
        cleaning=CleaningOptions(duplicates=copies),
    )
    workers = 1 if total < 5e7 else os.cpu_count() or 1
    source = records / "documents"
    documents.build_documents(document_options, source, num_workers=workers)
    window_options = windows.WindowOptions(window_length=window)
    windows.build_windows(window_options, source, records, num_workers=workers)
    return records


def write_page(output: str, next_steps: str) -> pathlib.Path:
    """Writes a finished run's `run.html` to its output folder, and returns the path."""
    from seg_tf.commands import run_page

    folder = pathlib.Path(output)
    plan = files.read_json(folder / PLAN_FILE)
    records, expected = pathlib.Path(plan["records"]), plan["expected_loss"]
    return run_page.write(folder, records, expected, next_steps)


def override(config: RunConfig, overrides: Mapping[str, Any]) -> RunConfig:
    """Replaces the fields of a config that `--config.…` flags set."""
    values = to_config_dict(config)
    values.update_from_flattened_dict(dict(overrides))
    return from_config_dict(values)


def plan_run(
    manifest: Manifest, measure: Any, minutes: float, is_named: bool, begin: float
) -> tuple[RunConfig, choices.Plan]:
    """Chooses the config and plan of a run that ends `minutes` after `begin`.

    `measure` returns the `Speed` of a config, given as JSON. `is_named` is whether the
    user gave `--config`. Raises a ValueError if the time is too short.
    """
    from seg_tf.training import engine, throughput

    overrides = config_flags.get_override_values(flags.FLAGS["config"])
    gpu, vocab_size = engine.current().has_gpu(), manifest.vocabulary["size"]
    kind = overrides.get("optimizer.type", "MuonConfig" if minutes >= 10 else "")
    fields = {k: v for k, v in overrides.items() if k != _NUM_UPDATES}
    bfloat16 = gpu or "avx512" in pathlib.Path("/proc/cpuinfo").read_text()
    recipe = functools.partial(
        choices.configure,
        window=manifest.window_length,
        muon=kind == "MuonConfig",
        gpu=gpu,
        bfloat16=bfloat16,
    )
    # An update of the base size takes a minute on a CPU.
    sizes = ("modern_mini", "modern_tiny", *["modern_base"] * gpu)
    recipes = [recipe(size) for size in sizes]
    if is_named:
        recipes = [from_config_dict(flags.FLAGS.config)]
    configs = {recipe.name: override(recipe, fields) for recipe in recipes}

    def plan(name: str, speed: choices.Speed) -> choices.Plan:
        left = 60 * minutes - (time.monotonic() - begin)
        text, asked = manifest.count("pieces", "train"), overrides.get(_NUM_UPDATES)
        return choices.plan_length(configs[name], speed, left, text, vocab_size, asked)

    def speed(name: str) -> choices.Speed:
        training = replace(configs[name].training, validation_interval=0)
        config = replace(configs[name], training=training)
        return measure(json.dumps(to_dict(config)))

    flops = {
        name: throughput.flops_per_update(config, vocab_size) or 1
        for name, config in configs.items()
    }
    name, chosen = choices.choose_size(flops, speed, plan)
    config = configs[name]
    num_updates = chosen.num_updates
    every = max(1, num_updates // choices.NUM_VALIDATIONS)
    lengths = {
        "num_updates": num_updates,
        "validation_interval": every * bool(manifest.count("records", "validation")),
        "checkpoint_interval": every,
        "log_interval": max(1, every // 5),
    }
    optimizer, warmup = config.optimizer, config.optimizer.warmup_updates
    if "optimizer.warmup_updates" not in overrides and warmup:
        optimizer = replace(optimizer, warmup_updates=min(warmup, num_updates // 10))
    lengths = {k: v for k, v in lengths.items() if f"training.{k}" not in fields}
    training = replace(config.training, **lengths)
    chosen = chosen._replace(loss=min(chosen.loss, speed(name).level))
    return replace(config, training=training, optimizer=optimizer), chosen


def measure_speed(records: str, settings: str) -> choices.Speed:
    """Measures the speed of a config, given as JSON, on a model that is discarded."""
    import keras

    from seg_tf.training import build, dry_run, engine, yardstick

    config, begin = from_config_dict(json.loads(settings)), time.monotonic()
    engine.current().set_determinism(config.training, lambda line: None)
    inputs = build.build_inputs(config, records)
    learner = build.build_learner(config, inputs)
    distribution = learner.options.distribution
    batches = iter(build.train_dataset(inputs, config.training, 0, distribution))
    updates = dry_run.measure(learner, batches, 2)
    start = time.monotonic() - begin - sum(updates)
    # About five seconds of updates.
    updates = dry_run.measure(learner, batches, min(100, int(5 / min(updates)) + 2))
    # Variables get the names that they have in a process that only trains.
    keras.utils.clear_session(free_memory=False)
    pieces = dry_run.tokens_per_update(config, inputs)
    interval = min(1, inputs.num_validation_samples)
    training = replace(config.training, validation_interval=interval)
    timed = replace(config, training=training)
    levels = yardstick.losses_without_context(timed, inputs)
    level = levels.get("loss_without_context", choices.LOSS_LEVEL)
    return choices.Speed(sum(updates) / len(updates), start, pieces, level)
