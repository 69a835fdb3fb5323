"""Compares what two working trees compute: records, batches, weights, served texts.

  python tools/golden.py make --tree=OLD --baseline=FOLDER --form=quick
  python tools/golden.py compare --tree=NEW --baseline=FOLDER --form=quick

`make` runs everything in a tree and stores digests and arrays in `FOLDER`; `compare`
runs it again in another tree, prints a line for each item, equal or different, and
exits with 1 if one differs. The form `quick` takes about three minutes on two cores,
`full` up to 25. `--only=PATTERN` keeps the steps, named while they run, that match it.

Only commands and the public Python API are used, in processes whose folder and
PYTHONPATH are the tree; what is called differently in the rebuilt tree is in
`ENTRY_POINTS`. Payloads are compared, such as shards, batches and outputs, not
manifests, whose version changes. Texts come from a seeded generator; the full form
reads samples of real text below $SEG_TF_DATA as well, where they are.
"""

import argparse
import concurrent.futures
import csv
import functools
import hashlib
import importlib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

# A name of the public API -> its spellings, that of the rebuilt tree first.
ENTRY_POINTS = {
    "build_inputs": (
        "seg_tf.data:build_inputs",
        "seg_tf.data.inputs:build_inputs",
        "seg_tf.training.build:build_inputs",
        "seg_tf.training.pretraining:build_inputs",
    ),
    "from_config_dict": (
        "seg_tf.config:from_config_dict",
        "seg_tf.configuration:from_config_dict",
    ),
    "load_encoder": (
        "seg_tf.checkpoints:load_encoder",
        "seg_tf.checkpoints.pretrained:load_encoder",
    ),
    "SentenceSplitter": (
        "seg_tf.text:SentenceSplitter",
        "seg_tf.text.punkt:SentenceSplitter",
    ),
    "Vocabulary": ("seg_tf.text:Vocabulary", "seg_tf.text.vocabulary:Vocabulary"),
    "WordPieces": ("seg_tf.text:WordPieces", "seg_tf.text.word_pieces:WordPieces"),
    "SentenceEncoder": ("seg_tf:SentenceEncoder",),
    "SentenceOrderer": ("seg_tf:SentenceOrderer",),
    "MaskFiller": ("seg_tf:MaskFiller",),
}
FIRST_BOUND, LAST_BOUND = 1e-6, 1e-4  # after one update, after NUM_UPDATES
VECTOR_BOUND = 1e-5
NUM_UPDATES, KILLED_AFTER = 30, 10
WINDOW, LONG_WINDOW = 64, 600

# Config and flags of each run; `LANES` are of words, `LONG` of long windows.
_SMALL = {
    "inputs.window_length": WINDOW,
    "inputs.masking.max_predictions": 10,
    "optimizer.epsilon": 1e-4,
    "training.batch_size": 8,
}
_REAT = {
    **_SMALL,
    "inputs.window_length": LONG_WINDOW,
    "inputs.row_length": 256,
    "inputs.sentences_per_row": 32,
    "inputs.masking.max_predictions": 40,
    "training.batch_size": 4,
}
_LANES = {
    "inputs.target_length": 32,
    "inputs.validation_lanes": 4,
    "model.cutoffs": (100, 200),
    "optimizer.epsilon": 1e-4,
    "training.batch_size": 8,
}
RUNS = {
    "bert": ("bert.py:tiny", "windows", {**_SMALL, "model.dropout": 0.1}),
    "segabert_lamb": (
        "segabert.py:tiny_phase1",
        "windows",
        {
            **_SMALL,
            "training.micro_batch_size": 2,
            "optimizer.warmup_updates": 5,
            "model.dropout": 0.0,
        },
    ),
    "packed_mixture": (
        "segabert.py:modern_tiny",
        "mixture",
        {**_SMALL, "optimizer.warmup_updates": 5},
    ),
    "slm": ("slm.py:tiny", "windows", _SMALL),
    "sega_transformer_xl": ("sega_transformer_xl.py:tiny", "words", _LANES),
    "reat": ("reat.py:tiny", "long", _REAT),
}
INPUTS = {
    "windows": ("bert.py:tiny", "windows", _SMALL),
    "windows_in_blocks": (
        "bert.py:tiny",
        "windows",
        {**_SMALL, "inputs.block_rows": 4, "inputs.blocks_at_once": 3},
    ),
    "packed": ("segabert.py:modern_tiny", "windows", _SMALL),
    "packed_cut": ("segabert.py:modern_tiny", "cut", _SMALL),
    "mixture": ("bert.py:tiny", "mixture", _SMALL),
    "packed_mixture": RUNS["packed_mixture"],
    "sentences": ("slm.py:base", "windows", _SMALL),
    "shuffled": ("slm.py:base_plain_shuffled", "windows", _SMALL),
    "reat": RUNS["reat"],
    "reat_within_texts": (
        "reat.py:tiny",
        "long",
        {**_REAT, "inputs.exchange_within": "text", "inputs.long_rate": 0.5},
    ),
    "words": RUNS["sega_transformer_xl"],
}
SYLLABLES = [a + b for a in "bdfgklmnprstvwz" for b in "aeiou"][::3][:20]
ODD_WORDS = "Dr. e.g. U.S. 3.14 naïve don't “quoted” 東京 No. (7) a-b $5"
ODD_LETTERS = "İ 東 京 。 ですか? مرحبا नमस्ते 😀 👩\u200d🚀 ﬁ \ufeff …"


class Results:
    """Digests, which must be equal, and arrays, which may differ within a bound."""

    def __init__(self) -> None:
        self.exact: dict[str, str] = {}
        self.close: dict[str, tuple[np.ndarray, float]] = {}

    def add(self, name: str, *values: Any) -> None:
        self.exact[name] = digest(*values)

    def add_close(self, name: str, values: Any, bound: float) -> None:
        values = np.asarray(values)
        dtype = np.float32 if values.dtype == np.float32 else np.float64
        self.close[name] = (values.astype(dtype), bound)

    def save(self, folder: pathlib.Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        bounds = {name: bound for name, (_, bound) in self.close.items()}
        content = {"exact": self.exact, "bounds": bounds}
        (folder / "results.json").write_text(json.dumps(content, indent=1))
        arrays = {name: array for name, (array, _) in self.close.items()}
        np.savez_compressed(folder / "arrays.npz", **arrays)

    @classmethod
    def load(cls, folder: pathlib.Path) -> "Results":
        results = cls()
        content = json.loads((folder / "results.json").read_text())
        results.exact = content["exact"]
        with np.load(folder / "arrays.npz") as arrays:
            results.close = {
                name: (arrays[name], bound) for name, bound in content["bounds"].items()
            }
        return results

    def update(self, other: "Results") -> None:
        self.exact |= other.exact
        self.close |= other.close


def digest(*values: Any) -> str:
    """SHA-256 of bytes, texts, arrays, and lists and dictionaries of them."""
    checksum = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, Mapping):
            value = sorted(value.items())
        if isinstance(value, list | tuple):
            checksum.update(f"list {len(value)}\n".encode())
            for item in value:
                add(item)
        elif isinstance(value, bytes):
            checksum.update(f"bytes {len(value)}\n".encode() + value)
        elif isinstance(value, np.ndarray) and value.dtype != object:
            checksum.update(f"array {value.dtype} {value.shape}\n".encode())
            checksum.update(value.tobytes())
        else:
            checksum.update(f"{type(value).__name__} {value!r}\n".encode())

    add(values)
    return checksum.hexdigest()


# Texts


def _word(generator: random.Random) -> str:
    # Few words are frequent and many are rare, as in a language.
    number = int(generator.paretovariate(0.7)) % 400
    return "".join(SYLLABLES[(number // 20**k) % 20] for k in range(1 + number % 3))


def _sentence(generator: random.Random) -> str:
    words = [_word(generator) for _ in range(generator.randint(2, 14))]
    if generator.random() < 0.3:
        words.insert(
            generator.randrange(len(words)), generator.choice(ODD_WORDS.split())
        )
    return " ".join(words).capitalize() + generator.choice([".", ".", "!", "?", '."'])


def documents(seed: int, count: int) -> list[list[str]]:
    """Documents as paragraphs; some are long, some repeat, some lines are short."""
    generator = random.Random(seed)
    paragraphs: list[list[str]] = []
    for number in range(count):
        if number % 11 == 10:
            paragraphs.append(paragraphs[number // 2])
            continue
        sizes = [generator.randint(1, 6)] * generator.choice([1, 3, 5, 20])
        paragraphs.append(
            [" ".join(_sentence(generator) for _ in range(k)) for k in sizes]
        )
        if generator.random() < 0.3:
            paragraphs[-1].append("See also")
    return paragraphs


def odd_texts(count: int) -> list[str]:
    """Strings that tokenizers and sentence splitters may stumble over."""
    generator = random.Random(17)
    parts = [*"aZ0.?!,'\"()[]#-\t\n ", "\u00a0", "\u2028", "\u200b", "\u0301", "é", "ß"]
    parts += ODD_LETTERS.split()
    parts += ["[MASK]", "[CLS]", "##ing", "Mr. ", "e.g. ", "U.S. ", "p.m. ", "x" * 210]
    parts += ["The house. ", "He said: “No.” ", "It cost $3.50 then. ", "\r\n", "\x07"]
    texts = ["", " ", "\n\n", "[SEP]", "A.", "..."]
    while len(texts) < count:
        size = generator.randint(1, 30)
        texts.append("".join(generator.choice(parts) for _ in range(size)))
    return texts[:count]


def write_corpora(folder: pathlib.Path) -> None:
    """The same documents in every format, and vocabularies."""
    texts = documents(1, 60)

    def write(name: str, text: str) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")

    lines = [json.dumps({"text": "\n".join(one), "title": "T"}) for one in texts]
    lines.insert(7, "{broken")
    for part in range(3):
        write(f"json_lines/{part}.jsonl", "\n".join(lines[part::3]) + "\n")
    other = [json.dumps({"text": "\n".join(one)}) for one in documents(2, 25)]
    write("other/0.jsonl", "\n".join(other) + "\n")
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        rows = [["title", "text"], *(["T", "\n".join(one)] for one in texts)]
        csv.writer(file).writerows(rows)
    for number, one in enumerate(texts[:20]):
        marked = [f"# Heading *{number}*", *one, "* an item\n* `code` and [link](x)"]
        write(f"markdown/{number}.md", "\n\n".join(marked) + "\n")
        write(f"plain_text/{number}.txt", "\n".join(one) + "\n")
        write(f"python_docs/m{number}.py", f'"""{one[0]}\n\n{one[-1]}\n"""\n')
    blocks = [
        f'<doc id="{number}" url="u" title="T {number}">\nT {number}\n\n'
        + "\n".join(escape(line) for line in one)
        + "\n\n</doc>\n"
        for number, one in enumerate(texts)
    ]
    write("wikiextractor/wiki_00", "".join(blocks[:30]))
    write("wikiextractor/wiki_01", "".join(blocks[30:]))
    pages = [
        f"<page><title>T {number}</title><ns>0</ns><id>{number}</id><revision>"
        f"<id>9{number}</id><model>wikitext</model><text>"
        + escape("\n\n".join(["'''Bold''' [[link|shown]] {{t|x}}.", *one, "== H =="]))
        + "</text></revision></page>\n"
        for number, one in enumerate(texts[:30], start=1)
    ]
    head = '<mediawiki><siteinfo><namespaces><namespace key="0" /></namespaces>'
    dump = f"{head}</siteinfo>\n{''.join(pages)}</mediawiki>\n"
    write("dump.xml", dump)
    articles = [
        f" \n = T {number} = \n \n" + "".join(f" {line} \n \n" for line in one)
        for number, one in enumerate(texts)
    ]
    write("wiki.tokens", "".join(articles))
    words = sorted({word for one in texts for line in one for word in line.split()})
    letters = sorted({letter for word in words for letter in word.lower()})
    known = [word.lower() for word in words if word.isalpha()][::3]
    pieces = ["[PAD]", *(f"[unused{k}]" for k in range(5)), "[UNK]", "[CLS]", "[SEP]"]
    pieces += ["[MASK]", *letters, *(f"##{one}" for one in [*letters, *SYLLABLES])]
    write("vocab.txt", "\n".join(dict.fromkeys(pieces + known)) + "\n")
    write("words.txt", "\n".join(dict.fromkeys(["<eos>", "<unk>", *words])) + "\n")


def write_tasks(folder: pathlib.Path) -> None:
    """Files of GLUE's RTE and STS-B, of SQuAD and of DiscoEval."""
    generator = random.Random(5)
    for split, size in (("train", 48), ("dev", 24), ("valid", 24)):
        rte, sts, order = [["index", "sentence1", "sentence2", "label"]], [], []
        sts.append(["index", "sentence1", "sentence2", "score"])
        for number in range(size):
            pair = [_sentence(generator).replace('"', ""), _sentence(generator)]
            pair[1] = pair[1].replace('"', "")
            label = ["entailment", "not_entailment"][number % 2]
            rte.append(
                [number, f"{'yes' if number % 2 else 'no'} {pair[0]}", pair[1], label]
            )
            sts.append([number, *pair, 1.0 + number % 4])
            order.append(pair)
        names = {"RTE": rte, "STS-B": sts, "BSO/wiki": order}
        for name, rows in names.items():
            suffix = "txt" if name == "BSO/wiki" else "tsv"
            path = folder / name / f"{split}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
            path.write_text(text, encoding="utf-8")
        paragraphs = []
        for number in range(size // 4):
            context = "\n".join(_sentence(generator) for _ in range(8))
            questions = []
            for part, word in enumerate(context.split()[3:12:3]):
                answer = {"text": word, "answer_start": context.index(word)}
                question = f"{_sentence(generator)[:-1]} {word}?"
                key = f"{number}-{part}"
                questions.append({"id": key, "question": question, "answers": [answer]})
            paragraphs.append({"context": context, "qas": questions})
        content = {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
        (folder / f"{split}-v1.1.json").write_text(json.dumps(content))


# Processes in a tree


class Tree:
    """A working tree, and a folder for what its commands write."""

    def __init__(self, tree: pathlib.Path, work: pathlib.Path, form: str):
        self.tree, self.work, self.full = tree.resolve(), work, form == "full"

    def start(self, *arguments: Any, own_path: bool = True) -> subprocess.Popen:
        environment = {
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "CUDA_VISIBLE_DEVICES": "-1",
            "OMP_NUM_THREADS": "1",
            "TF_NUM_INTRAOP_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(self.tree) if own_path else "",
        }
        return subprocess.Popen(
            list(map(str, arguments)),
            cwd=self.tree if own_path else self.work,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: Any, own_path: bool = True) -> str:
        process = self.start(*arguments, own_path=own_path)
        printed, _ = process.communicate()
        if process.returncode:
            command = " ".join(map(str, arguments))
            raise RuntimeError(
                f"{command}: exit {process.returncode}\n{printed[-3000:]}"
            )
        return printed

    def command(self, name: str) -> list[str]:
        """A command of `seg-tf`, of which older trees have a module only."""
        if (self.tree / "seg_tf" / "__main__.py").exists():
            return [sys.executable, "-m", "seg_tf", name]
        return [sys.executable, "-m", f"data_pipelines.{name.replace('-', '_')}"]

    def script(self, name: str, *flags: str) -> str:
        return self.run(sys.executable, name, *flags)

    def child(
        self, function: Callable, own_path: bool = True, **arguments: Any
    ) -> Results:
        """Runs a function of this file in a process of the tree."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        (folder / "arguments.json").write_text(json.dumps(arguments))
        # -P: this file's folder does not come before the tree.
        command = [sys.executable, "-P", __file__, "child", function.__name__, folder]
        self.run(*command, own_path=own_path)
        return Results.load(folder)

    def kill_when(self, reached: Callable[[], bool], *command: Any) -> None:
        """Starts a command and kills it, and its children, at a point."""
        process = self.start(*command)
        while process.poll() is None and not reached():
            time.sleep(0.01)
        if process.poll() is not None:
            print(f"note: ended before the kill: {' '.join(map(str, command))}")
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def entry(name: str) -> Any:
    """The object that a tree has under one of an entry point's spellings."""
    for spelling in ENTRY_POINTS[name]:
        module, _, attribute = spelling.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (AttributeError, ModuleNotFoundError):
            continue
    raise LookupError(f"{name}: none of {', '.join(ENTRY_POINTS[name])}; add its own")


def shards(folder: pathlib.Path) -> dict[str, str]:
    """Path -> checksum of each shard of a finished build."""
    digests = {
        path.relative_to(folder).as_posix(): digest(path.read_bytes())
        for path in sorted(folder.rglob("*.tfrecord"))
    }
    if not digests:
        raise RuntimeError(f"{folder}: no shards")
    return digests


# Items: each is a function of a tree, and gives results


CLEANING = ("--min_line_words=4", "--min_document_words=30", "--duplicates=exact")
FORMATS = {
    "csv": "rows.csv",
    "json_lines": "json_lines",
    "markdown": "markdown",
    "mediawiki": "dump.xml",
    "plain_text": "plain_text",
    "python_docs": "python_docs",
    "wikiextractor": "wikiextractor",
    "wikitext": "wiki.tokens",
}
SAMPLES = {
    "mediawiki": "mediawiki_dump",
    "wikiextractor": "enwiki_wikiextractor_2015",
    "markdown": "classic_books_md",
    "wikitext": "wikitext-2",
}


def build_command(
    tree: Tree, output: pathlib.Path, *flags: str, format: str = "json_lines"
) -> list[Any]:
    command: list[Any] = tree.command("build-records")
    command += [f"--format={format}", f"--output_dir={output}"]
    if not any(flag.startswith("--input=") for flag in flags):
        command.append(f"--input={tree.work / 'text' / FORMATS[format]}")
    command += [f"--vocab_file={tree.work / 'text/vocab.txt'}"]
    command += [f"--window_length={WINDOW}", "--slice_megabytes=0.02"]
    return [*command, "--validation_fraction=0.1", *flags]


def records_of_format(tree: Tree, format: str, *flags: str) -> Results:
    name = f"records/{format}{''.join(flags).replace('--', ' ')}"
    output = pathlib.Path(tempfile.mkdtemp(dir=tree.work)) / "records"
    tree.run(*build_command(tree, output, *flags, format=format))
    results = Results()
    results.add(name, shards(output))
    return results


def records_after_a_kill(tree: Tree) -> Results:
    output = tree.work / "killed/records"
    command = build_command(tree, output, "--num_workers=2")
    tree.kill_when(lambda: bool(list(output.rglob("*.tfrecord"))), *command)
    tree.run(*build_command(tree, output))
    results = Results()
    results.add("records/json_lines, killed and resumed", shards(output))
    results.add(
        "records/the same bytes after a kill",
        shards(output) == shards(tree.work / "records/windows"),
    )
    return results


def records_of_sample(tree: Tree, format: str, folder: pathlib.Path) -> Results:
    """The first file of a sample of real text that is not too large."""
    sized = sorted((path for path in folder.rglob("*") if path.is_file()), key=str)
    readable = [
        path for path in sized if path.suffix not in (".txt", ".json", ".parquet")
    ]
    if format == "markdown":
        readable = [path for path in sized if path.suffix == ".md"]
    small = [path for path in readable if 1e4 < path.stat().st_size < 6e6] or readable[
        :1
    ]
    output = tree.work / f"sample_{format}"
    flags = (f"--input={small[0]}", "--slice_megabytes=0.5", "--num_workers=2")
    tree.run(*build_command(tree, output, *flags, format=format))
    results = Results()
    results.add(f"records/sample of {format}", shards(output))
    return results


def training_records(tree: Tree) -> Results:
    """The records that inputs and runs read, and vocabularies."""
    records, text = tree.work / "records", tree.work / "text"
    results = Results()

    def windows(name: str, *flags: str) -> None:
        tree.run(*build_command(tree, records / name, *flags))
        results.add(f"records/{name}", shards(records / name))

    def cut(name: str, *flags: str) -> None:
        documents_dir = f"--documents_dir={records / 'windows/documents'}"
        output = f"--output_dir={records / name}"
        tree.run(*tree.command("build-windows"), documents_dir, output, *flags)
        results.add(f"records/{name}", shards(records / name))

    def words() -> None:
        tree.run(
            *tree.command("build-documents"),
            "--format=wikitext",
            f"--input={text / 'wiki.tokens'}",
            "--tokenizer=whitespace",
            f"--vocab_file={text / 'words.txt'}",
            f"--output_dir={records / 'words'}",
            "--slice_megabytes=0.02",
            "--validation_fraction=0.1",
        )
        results.add("records/words", shards(records / "words"))

    def vocabularies() -> None:
        corpus = ("--format=json_lines", f"--input={text / 'json_lines'}")
        for name in ("pieces", "words"):
            path = tree.work / f"{name}.txt"
            flags = (*corpus, "--vocab_size=400", f"--output={path}")
            if name == "words":
                flags += ("--tokenizer=words",)
            tree.run(*tree.command("build-vocab"), *flags)
            results.add(f"records/vocabulary of {name}", path.read_bytes())

    first = [
        lambda: windows("windows"),
        lambda: windows("other", f"--input={text / 'other'}", "--num_workers=2"),
        words,
        vocabularies,
    ]
    then = [
        lambda: cut("long", f"--window_length={LONG_WINDOW}"),
        lambda: cut("cut", f"--window_length={WINDOW}", "--cut_sentences"),
    ]
    for steps in (first, then):
        in_parallel(steps)
    return results


def records_dir(tree: Tree, name: str) -> str:
    folder = tree.work / "records"
    return (
        f"{folder}/windows:3,{folder}/other:2"
        if name == "mixture"
        else f"{folder / name}"
    )


def batches(tree: Tree) -> Results:
    cases = {
        name: [config, records_dir(tree, records), values]
        for name, (config, records, values) in INPUTS.items()
    }
    return tree.child(child_batches, cases=cases, count=200 if tree.full else 10)


def child_batches(cases: Mapping[str, Any], count: int) -> Results:
    """Digests of batches: of one rank, resumed, of a second rank, and held out."""
    results = Results()
    for name, (config, records, values) in cases.items():
        inputs = entry("build_inputs")(run_config(config, values), records)
        size = values["training.batch_size"]

        def take(dataset: Iterable, limit: int) -> list:
            features = itertools.islice(dataset, limit)
            return [
                {key: value.numpy() for key, value in row.items()} for row in features
            ]

        results.add(f"batches/{name}", take(inputs.train_dataset(size), count))
        resumed = inputs.train_dataset(size, first_sample=3 * size, rank=1, num_ranks=2)
        results.add(f"batches/{name}, second of two ranks", take(resumed, count // 2))
        held_out = inputs.validation_dataset(size, 10 * size)
        results.add(f"batches/{name}, held out", take(held_out, 10))
    return results


def run_config(name: str, values: Mapping[str, Any]) -> Any:
    """The config of a run, with some of its values replaced."""
    family, _, variant = name.partition(":")
    module = importlib.import_module(f"configs.{family.removesuffix('.py')}")
    config = module.get_config(variant)
    for path, value in values.items():
        *parts, last = path.split(".")
        part = functools.reduce(getattr, parts, config)
        with part.unlocked():
            part[last] = tuple(value) if isinstance(value, list) else value
    return entry("from_config_dict")(config)


def training_command(tree: Tree, name: str, output: pathlib.Path) -> list[Any]:
    config, records, values = RUNS[name]
    flags = {
        **values,
        "training.num_updates": NUM_UPDATES,
        "training.log_interval": 1,
        "training.validation_interval": NUM_UPDATES // 2,
        "training.validation_batches": 2,
        "training.checkpoint_interval": 1,
        "training.keep_checkpoints": NUM_UPDATES + 1,
    }
    command = ["run_pretraining.py", f"--config=configs/{config}"]
    command += [f"--records_dir={records_dir(tree, records)}", f"--output_dir={output}"]
    return [*command, *(f"--config.{key}={value}" for key, value in flags.items())]


def training(tree: Tree, name: str, num_ranks: int = 1) -> Results:
    output = tree.work / f"runs/{name}_{num_ranks}"
    launcher: list[Any] = [sys.executable]
    if num_ranks > 1:
        horovodrun = pathlib.Path(sys.executable).parent / "horovodrun"
        launcher = [horovodrun, "--gloo", "-np", num_ranks, sys.executable]
    tree.run(*launcher, *training_command(tree, name, output))
    title = f"training/{name}" + (f", {num_ranks} ranks" if num_ranks > 1 else "")
    return tree.child(child_run, folder=str(output), title=title)


def child_run(folder: str, title: str) -> Results:
    """Figures of a run's log, and the encoder after the first and last update."""
    results = Results()
    path = pathlib.Path(folder)
    rows = list(map(json.loads, (path / "log.jsonl").read_text().splitlines()))
    told = ("loss", "accuracy", "norm", "rate", "tau", "match")
    counted, figures = [], {FIRST_BOUND: [], LAST_BOUND: []}
    for row in rows:
        names = sorted(name for name in row if name.endswith(told))
        bound = FIRST_BOUND if row["updates"] == 1 else LAST_BOUND
        figures[bound] += [row[name] for name in names]
        counted.append([row.get(key) for key in ("kind", "updates", "samples")])
        counted.append([names, row.get("tokens")])
    results.add(f"{title}, rows of the log", counted)
    for update, bound in ((1, FIRST_BOUND), (NUM_UPDATES, LAST_BOUND)):
        results.add_close(f"{title}, log up to {update}", figures[bound], bound)
        (checkpoint,) = path.glob(f"checkpoints/update-*{update:08}")
        weights = entry("load_encoder")(checkpoint)[0].get_weights()
        results.add(
            f"{title}, shapes after {update}", [weight.shape for weight in weights]
        )
        flat = np.concatenate([weight.ravel() for weight in weights])
        results.add_close(f"{title}, weights after {update}", flat, bound)
    return results


def training_after_a_kill(tree: Tree, name: str = "slm") -> Results:
    """Bit for bit what a run is that nobody killed."""
    output = tree.work / f"runs/{name}_killed"
    command = [sys.executable, *training_command(tree, name, output)]
    reached = f"checkpoints/update-*{KILLED_AFTER:08}"
    tree.kill_when(lambda: bool(list(output.glob(reached))), *command)
    tree.run(*command)
    unbroken = tree.work / f"runs/{name}_1"
    last = f"checkpoints/update-*{NUM_UPDATES:08}"
    ours, theirs = (payload(next(folder.glob(last))) for folder in (output, unbroken))
    results = Results()
    results.add(f"training/{name}, killed: the bits of an unbroken run", ours == theirs)
    return results


def payload(checkpoint: pathlib.Path) -> dict[str, str]:
    """Digest of every array of a checkpoint, optimizer and random state included."""
    import h5py

    digests: dict[str, str] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            digests[name] = digest(item[()])

    for path in sorted(checkpoint.iterdir()):
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                digests |= {f"{path.name} {key}": digest(arrays[key]) for key in arrays}
        elif path.suffix == ".h5":
            with h5py.File(path) as file:
                file.visititems(note)
    if not digests:
        raise RuntimeError(f"{checkpoint}: no arrays")
    return digests


def texts(tree: Tree) -> Results:
    vocabulary = str(tree.work / "text/vocab.txt")
    return tree.child(child_texts, vocabulary=vocabulary, full=tree.full)


def child_texts(vocabulary: str, full: bool) -> Results:
    """Sentences, ids and vectors by the Python API."""
    results = Results()
    splitter = entry("SentenceSplitter")()
    lines = [line for paragraph in documents(3, 200) for line in paragraph]
    results.add(
        "texts/sentences",
        [splitter.split(paragraph) for paragraph in [*lines, *odd_texts(200)]],
    )
    pieces = entry("WordPieces")(entry("Vocabulary").from_file(vocabulary))
    results.add("texts/ids", *pieces.encode([*lines, *odd_texts(200)]))
    some = ["\n".join(paragraph) for paragraph in documents(4, 12)] + odd_texts(200)[
        6:20
    ]
    for model in ("segabert_mini_en", "segabert_slm_mini_en", "bert_mini_en"):
        if not full and model == "bert_mini_en":
            continue
        encoder = entry("SentenceEncoder").from_preset(model)
        encoded = encoder.encode_sentences(some)
        results.add(
            f"texts/sentences of {model}",
            [paragraph.sentences for paragraph in encoded],
        )
        vectors = np.concatenate([paragraph.vectors for paragraph in encoded])
        results.add_close(f"texts/sentence vectors of {model}", vectors, VECTOR_BOUND)
        results.add_close(
            f"texts/text vectors of {model}", encoder.encode(some), VECTOR_BOUND
        )
    orderer = entry("SentenceOrderer").from_preset("segabert_slm_mini_en")
    results.add("texts/ordered sentences", orderer.predict(some))
    filler = entry("MaskFiller").from_preset("segabert_mini_en")
    masked = ["The [MASK] of the house.", "He opened the [MASK] and [MASK] in."]
    filled = [mask for text in filler.predict(masked) for mask in text]
    results.add(
        "texts/filled masks",
        [[paragraph.piece for paragraph in mask] for mask in filled],
    )
    return results


def served(tree: Tree, model: str) -> Results:
    """An exported model, loaded without the tree, on odd strings."""
    (tree.work / "exported").mkdir(exist_ok=True)
    output = tree.work / f"exported/{pathlib.Path(model).parts[-3:][0]}"
    tree.script("run_export.py", f"--checkpoint={model}", f"--output_dir={output}")
    name = "classifier" if "/" in model else model
    return tree.child(child_served, own_path=False, folder=str(output), name=name)


def child_served(folder: str, name: str) -> Results:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - its operators

    results = Results()
    model = tf.saved_model.load(folder)
    serve = model.signatures["serving_default"]
    inputs = serve.structured_input_signature[1]
    strings = odd_texts(200)
    for begin in range(0, len(strings), 50):
        text = strings[begin : begin + 50]
        pair = {"text": text, "second_text": text[::-1]}
        outputs = serve(**{key: tf.constant(pair[key]) for key in inputs})
        for key, value in sorted(outputs.items()):
            array = value.numpy()
            title = f"served/{name}, {key} of texts {begin}"
            if array.dtype == object:
                results.add(title, array.shape, [bytes(item) for item in array.ravel()])
            elif array.dtype.kind == "f":
                results.add_close(title, array, VECTOR_BOUND)
            else:
                results.add(title, array)
    return results


FINE_TUNING = (
    "--learning_rate=3e-4",
    "--batch_size=16",
    "--epochs=1",
    "--max_length=64",
)


def fine_tuning(tree: Tree, task: str, *flags: str, export: bool = False) -> Results:
    output = tree.work / f"finetuned/{task.replace('/', '_')}{len(flags)}"
    tree.script(
        "run_finetuning.py",
        f"--task={task}",
        f"--data_dir={tree.work / 'tasks'}",
        "--checkpoint=segabert_mini_en",
        f"--output_dir={output}",
        *(() if flags else FINE_TUNING),
        *(["--save_model"] if export else []),
        *flags,
    )
    results = Results()
    with (output / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        for key, value in row.items():
            try:
                figure = float(value)
            except ValueError:
                continue
            if "second" not in key:
                title = f"fine-tuning/{task} {' '.join(flags)}, {key} of trial {number}"
                results.add_close(title, figure, LAST_BOUND)
    if not results.close:
        raise RuntimeError(f"{output}/results.csv: no scores")
    if export:
        (model,) = output.rglob("model")
        results.update(served(tree, str(model)))
    return results


def stages(tree: Tree) -> list[dict[str, Callable[[], Results]]]:
    """The steps by name: each stage needs what those before it wrote."""
    first: dict[str, Callable] = {"records": lambda: training_records(tree)}
    then: dict[str, Callable] = {"batches": lambda: batches(tree)}
    last: dict[str, Callable] = {
        "training after a kill": lambda: training_after_a_kill(tree)
    }
    for name in RUNS:
        then[f"training {name}"] = functools.partial(training, tree, name)
        if tree.full:
            last[f"training {name} x2"] = functools.partial(training, tree, name, 2)
    flags = [(), CLEANING, (*CLEANING, "--num_workers=2"), ("--num_workers=2",)]
    near = ("--duplicates=near", "--num_workers=2")
    for number, format in enumerate(FORMATS):
        for some in flags if tree.full else [flags[number % 3]]:
            make = functools.partial(records_of_format, tree, format, *some)
            then[f"records {format} {' '.join(some)}"] = make
    if tree.full:
        then["near"] = lambda: records_of_format(tree, "json_lines", *near)
        data = pathlib.Path(os.environ.get("SEG_TF_DATA", "no such folder"))
        for format, name in SAMPLES.items():
            if (data / name).is_dir():
                sample = functools.partial(records_of_sample, tree, format, data / name)
                then[f"records sample {format}"] = sample
        for task in ("glue/sts-b", "squad/v1.1", "discoeval/bso/wiki"):
            then[f"fine-tuning {task}"] = functools.partial(fine_tuning, tree, task)
        probe = functools.partial(
            fine_tuning, tree, "discoeval/bso/wiki", "--probe=per_sentence"
        )
        then["fine-tuning probe"] = probe
        then["served bert"] = lambda: served(tree, "bert_mini_en")
        then["served slm"] = lambda: served(tree, "segabert_slm_mini_en")
    then["records after a kill"] = lambda: records_after_a_kill(tree)
    then["texts"] = lambda: texts(tree)
    then["served segabert"] = lambda: served(tree, "segabert_mini_en")
    rte = functools.partial(fine_tuning, tree, "glue/rte", export=tree.full)
    then["fine-tuning glue/rte"] = rte
    return [first, then, last]


def in_parallel(steps: Sequence[Callable[[], Any]]) -> list[Any]:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [future.result() for future in [pool.submit(step) for step in steps]]


def measure(tree: Tree, only: str) -> tuple[Results, list[str]]:
    """All results of a tree, and what failed."""
    write_corpora(tree.work / "text")
    write_tasks(tree.work / "tasks")
    results, failed = Results(), []

    def attempt(name: str, make: Callable[[], Results]) -> None:
        begin = time.monotonic()
        try:
            results.update(make())
        except Exception:
            failed.append(name)
            print(f"FAILED     {name}\n{traceback.format_exc()}", flush=True)
        else:
            print(f"ran        {name}: {time.monotonic() - begin:.0f} s", flush=True)

    for number, stage in enumerate(stages(tree)):
        chosen = {k: v for k, v in stage.items() if number == 0 or re.search(only, k)}
        in_parallel([functools.partial(attempt, *item) for item in chosen.items()])
    return results, failed


def compare(results: Results, baseline: Results, only: str) -> int:
    """Prints a line for each item; gives the number of those that differ."""
    verdicts: dict[str, str] = {}
    for name, value in baseline.exact.items():
        other = results.exact.get(name)
        verdicts[name] = (
            "" if other == value else "missing" if other is None else "bytes"
        )
    for name, (array, bound) in baseline.close.items():
        other, _ = results.close.get(name, (None, bound))
        if other is None or other.shape != array.shape:
            verdicts[name] = "missing" if other is None else f"shape {other.shape}"
            continue
        other, array = np.nan_to_num(other), np.nan_to_num(array)
        excess = np.abs(other - array) / np.maximum(1, np.abs(array))
        worst = float(np.max(excess, initial=0.0))
        verdicts[name] = "" if worst <= bound else f"by {worst:.3g}, bound {bound:g}"
    if only:
        measured = {**results.exact, **results.close}
        verdicts = {name: one for name, one in verdicts.items() if name in measured}
    else:
        unknown = {*results.exact, *results.close} - {*baseline.exact, *baseline.close}
        verdicts |= dict.fromkeys(unknown, "not in the baseline")
    for name, verdict in verdicts.items():
        print(f"different  {name}: {verdict}" if verdict else f"equal      {name}")
    return sum(map(bool, verdicts.values()))


def main() -> int:
    if sys.argv[1:2] == ["child"]:
        # An editable installation of another tree would stand in for modules that this
        # tree lacks.
        sys.meta_path[:] = [
            finder
            for finder in sys.meta_path
            if getattr(finder, "__name__", "") != "_EditableFinder"
        ]
        function, folder = sys.argv[2], pathlib.Path(sys.argv[3])
        arguments = json.loads((folder / "arguments.json").read_text())
        globals()[function](**arguments).save(folder)
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["make", "compare"])
    parser.add_argument("--tree", type=pathlib.Path, required=True)
    parser.add_argument("--baseline", type=pathlib.Path, required=True)
    parser.add_argument("--form", choices=["quick", "full"], default="quick")
    parser.add_argument("--only", default="", help="pattern of steps' names")
    parser.add_argument("--work", type=pathlib.Path, help="a folder that is kept")
    given = parser.parse_args()
    begin = time.monotonic()
    work = given.work or pathlib.Path(tempfile.mkdtemp(prefix="golden-"))
    try:
        tree = Tree(given.tree, work.resolve(), given.form)
        results, failed = measure(tree, given.only)
    finally:
        if not given.work:
            shutil.rmtree(work, ignore_errors=True)
    if given.action == "make":
        results.save(given.baseline)
        wrong = 0
    else:
        wrong = compare(results, Results.load(given.baseline), given.only)
    count = len(results.exact) + len(results.close)
    print(f"{count} items, {wrong} different, {len(failed)} steps failed", end="")
    print(f", {time.monotonic() - begin:.0f} s")
    return int(bool(wrong or failed))


if __name__ == "__main__":
    sys.exit(main())
