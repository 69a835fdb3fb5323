"""The example notebooks run in a kernel, and print what they promise."""

import itertools
import pathlib
import re

import nbclient
import nbformat
import pytest

from seg_tf.config import EncoderConfig, MaskedLMConfig, RunConfig
from seg_tf.data.inputs import WindowInputsConfig
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.inference import tiny_slm

pytestmark = pytest.mark.slow

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
each_notebook = pytest.mark.parametrize(
    "notebook", NOTEBOOKS, ids=[path.name for path in NOTEBOOKS]
)


def code_of(notebook):
    cells = nbformat.read(notebook, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "code"]


@pytest.fixture(name="run", scope="module")
def _run(tmp_path_factory):
    """Runs a notebook in its folder; what its cells print, and how many draw.

    All run in one kernel, which has imported TensorFlow, but forgets their names.
    """
    folders = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(folders[1])
    with pytest.MonkeyPatch.context() as patch:
        for name, folder in zip(("OUTPUT", "CHECKPOINT"), folders, strict=True):
            patch.setenv(f"SEG_TF_{name}", str(folder))
        client = nbclient.NotebookClient(
            nbformat.v4.new_notebook(), kernel_name="python3", timeout=600
        )

        def run(name):
            begin = nbformat.v4.new_code_cell(f"%reset -f\n%cd -q {EXAMPLES}")
            client.nb = nbformat.read(EXAMPLES / name, as_version=4)
            client.nb.cells.insert(0, begin)
            client.reset_execution_trackers()
            for number, cell in enumerate(client.nb.cells):
                client.execute_cell(cell, number)
            outputs = [o for cell in client.nb.cells for o in cell.get("outputs", [])]
            said = "".join(one.text for one in outputs if one.output_type == "stream")
            return said, sum("image/png" in one.get("data", {}) for one in outputs)

        with client.setup_kernel():
            yield run


def write_checkpoint(folder):
    """A tiny SegaBERT of new weights that knows the words of the notebooks."""
    text = "\n".join(itertools.chain(*map(code_of, NOTEBOOKS)))
    words = sorted(set(re.findall("[a-z]+", text.lower())))
    config = RunConfig(
        name="tiny",
        paper="segabert_base",
        model=EncoderConfig(
            index_tables={"paragraph_index": 4, "sentence_index": 8, "token_index": 32},
            num_layers=2,
            hidden_size=32,
            num_heads=2,
            intermediate_size=64,
            dropout=0.0,
            initializer_range=0.2,
        ),
        inputs=WindowInputsConfig(window_length=32),
        objectives={"masked_lm": MaskedLMConfig()},
    )
    vocabulary = Vocabulary([*SPECIAL_TOKENS, ".", *words])
    return tiny_slm.write_checkpoint(folder, config, vocabulary=vocabulary)


def test_fine_tuning_in_a_notebook(run):
    said, num_images = run("finetuning.ipynb")
    assert num_images == 1
    accuracy, majority = map(
        float, re.search(r"held out: accuracy (.*), most .* (.*)", said).groups()
    )
    assert accuracy > majority + 0.1
    assert re.search(r"new weights, held out: accuracy 0\.\d+|1\.000", said)
    assert "the same after loading: True" in said
    assert "\ngood The film was dull but the music was lovely." in said
    assert "\nbad  The room was warm but the bread was stale." in said


def test_pretraining_in_a_notebook(run):
    said, num_images = run("pretraining.ipynb")
    assert num_images == 1
    assert re.search(r"\nparagraph 0\n  sentence 0: \w+ is a \w+ \.\n", said)
    # Position, paragraph, sentence and token of the second sentence's first piece.
    assert re.search(r"\n +6 +0 +1 +0  every\n", said)
    first, *_, last = map(float, re.findall(r"validation loss (\d\S*) ", said))
    assert last < first / 2
    best = re.findall(r"\.\n    (\w+) [01]\.\d\d \w+ 0", said)
    assert best == ["baker", "sailor", "she"]
    # Sentences about the same are near each other.
    query, nearest = re.search(r"\n(In the .*)\n    0\.\d+ (.*)\n", said).groups()
    assert nearest.startswith("In the ")
    assert query != nearest


@each_notebook
def test_a_notebook_has_no_outputs_and_begins_with_a_title(notebook):
    cells = nbformat.read(notebook, as_version=4).cells
    assert cells[0].cell_type == "markdown"
    assert cells[0].source.startswith("# ")
    assert not any(cell.get("outputs") for cell in cells)
