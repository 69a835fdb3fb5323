"""The example notebooks run, cell after cell, and print what they promise.

Their code is run as one script in a process of its own, which a kernel is too. A kernel
itself takes packages that nothing else here needs.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from seg_tf import configuration
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.inference import tiny_slm

pytestmark = pytest.mark.slow

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def cells_of(notebook, kind="code"):
    content = json.loads(notebook.read_text(encoding="utf-8"))
    return [
        "".join(cell["source"])
        for cell in content["cells"]
        if cell["cell_type"] == kind
    ]


def run(notebook, **environment):
    """Output of a notebook's code, run in the notebook's folder."""
    return subprocess.run(
        [sys.executable, "-c", "\n\n".join(cells_of(notebook))],
        cwd=notebook.parent,
        env={
            **os.environ,
            "MPLBACKEND": "svg",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **environment,
        },
        capture_output=True,
        text=True,
    )


def write_checkpoint(folder):
    """A tiny SegaBERT of new weights that knows the words of the notebooks."""
    text = "\n".join(cell for notebook in NOTEBOOKS for cell in cells_of(notebook))
    words = sorted(set(re.findall("[a-z]+", text.lower())))
    config = configuration.RunConfig(
        name="tiny",
        paper="segabert_base",
        model=configuration.EncoderConfig(
            index_tables={"paragraph_index": 4, "sentence_index": 8, "token_index": 32},
            num_layers=2,
            hidden_size=32,
            num_heads=2,
            intermediate_size=64,
            dropout=0.0,
            initializer_range=0.2,
        ),
        inputs=configuration.WindowInputsConfig(window_length=32),
        objectives={"masked_lm": configuration.MaskedLMConfig()},
    )
    vocabulary = Vocabulary([*SPECIAL_TOKENS, ".", *words])
    return tiny_slm.write_checkpoint(folder, config, vocabulary=vocabulary)


def test_fine_tuning_in_a_notebook(tmp_path):
    process = run(
        EXAMPLES / "finetuning.ipynb", SEG_TF_CHECKPOINT=str(write_checkpoint(tmp_path))
    )
    assert process.returncode == 0, process.stderr
    said = process.stdout
    accuracy, majority = map(
        float, re.search(r"held out: accuracy (.*), most .* (.*)", said).groups()
    )
    assert accuracy > majority + 0.1
    assert re.search(r"new weights, held out: accuracy 0\.\d+|1\.000", said)
    assert "the same after loading: True" in said
    assert "\ngood The film was dull but the music was lovely." in said
    assert "\nbad  The room was warm but the bread was stale." in said


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_holds_no_outputs_and_begins_with_what_it_is(notebook):
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    first, *_ = content["cells"]
    assert first["cell_type"] == "markdown"
    assert "".join(first["source"]).startswith("# ")
    identifiers = [cell["id"] for cell in content["cells"]]
    assert len(set(identifiers)) == len(identifiers)
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
