"""The wheel, installed where no checkout is, from a corpus to a score."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

from tests.finetuning import task_folders
from tests.inference.tiny_slm import WORDS

pytestmark = pytest.mark.slow

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
SOURCES = ("seg_tf", "data_pipelines", "configs")
TINY = (
    "--config=segabert_tiny",
    "--config.inputs.window_length=16",
    "--config.inputs.masking.max_predictions=3",
    "--config.model.index_tables.token_index=16",
    "--config.model.num_layers=1",
    "--config.training.batch_size=8",
    "--config.training.num_updates=2",
    "--config.training.validation_interval=0",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        shutil.copytree(
            REPOSITORY / name,
            source / name,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(REPOSITORY / name, source / name)
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}")
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, source], check=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment with the wheel; its requirements are those of this one."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "requirements.pth").write_text(sysconfig.get_path("purelib"))
    uv = pathlib.Path(sysconfig.get_path("scripts")) / "uv"
    options = ("--quiet", "--offline", "--no-deps", f"--python={folder}/bin/python")
    subprocess.run([uv, "pip", "install", *options, wheel], check=True)
    return folder / "bin"


@pytest.fixture(scope="module")
def seg_tf(installed, tmp_path_factory):
    """Runs the console command in an empty folder, far from any checkout."""
    folder = tmp_path_factory.mktemp("work")
    # Which spares the commands some imports, and is no checkout.
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}/tests/child_processes"}

    def run(*arguments):
        done = subprocess.run(
            [installed / "seg-tf", *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.folder = folder
    return run


def test_a_wheel_holds_the_packages_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "seg_tf",
        "data_pipelines",
    }
    for name in (
        "seg_tf/configs/segabert.py",
        *(f"seg_tf/commands/page.{kind}" for kind in ("css", "html", "js")),
        "seg_tf/py.typed",
        "data_pipelines/py.typed",
    ):
        assert name in names


def test_from_a_corpus_to_a_score(seg_tf):
    generator = random.Random(0)
    texts = [
        " ".join(generator.choice(WORDS) for _ in range(60)).capitalize() + "."
        for _ in range(40)
    ]
    (seg_tf.folder / "text.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in texts)
    )
    task_folders.write_rte(seg_tf.folder / "glue", train=16, dev=8)
    reader = "from data_pipelines.readers.json_lines import JsonLinesReader as Reader"
    (seg_tf.folder / "own.py").write_text(reader)
    text = ("--format=own:Reader", "--input=text.jsonl")
    seg_tf("build-vocab", *text, "--vocab_size=120", "--output=vocab.txt")
    seg_tf(
        "build-records",
        *text,
        "--vocab_file=vocab.txt",
        "--window_length=16",
        "--output_dir=records",
    )
    output = seg_tf("pretrain", *TINY, "--records_dir=records")
    assert "runs/segabert_tiny" in output
    output = seg_tf(
        "finetune",
        "--checkpoint=runs/segabert_tiny",
        "--task=glue/rte",
        "--data_dir=glue",
        "--output_dir=finetuned",
        "--epochs=1",
        "--learning_rate=0.001",
        "--batch_size=8",
    )
    assert "glue/rte" in output
    assert not (seg_tf.folder / "configs").exists()
