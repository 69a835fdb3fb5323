"""TensorFlow Datasets: shards of a prepared dataset, splits, and wiki40b's marks."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

from data_pipelines import readers

WIKI40B = (
    "\n_START_ARTICLE_\nThe  Mill\n_START_PARAGRAPH_\nIt stands._NEWLINE_It turns.\n"
    "_START_SECTION_\nEmpty\n_START_SECTION_\nHistory"
    "\n_START_PARAGRAPH_\nBuilt in 1800."
    "\n_START_SECTION_\nNotes"
)
NUM_TRAIN = 40

# Of TensorFlow Datasets, which asks protobuf in an old way.
pytestmark = pytest.mark.filterwarnings("ignore:label.. is deprecated")


def write(folder, name, config, splits):
    """A prepared dataset, written by TensorFlow Datasets."""
    place = folder / name / config / "1.2.3"
    place.mkdir(parents=True)
    identity = tfds.core.dataset_info.DatasetIdentity(
        name=name,
        version=tfds.core.Version("1.2.3"),
        data_dir=str(place),
        module_name="",
        config_name=config or None,
        release_notes={},
    )
    features = tfds.features.FeaturesDict(
        {
            "number": tfds.features.Scalar(np.int64),
            "title": tfds.features.Text(),
            "text": tfds.features.Text(),
        }
    )
    writer = tfds.core.SequentialWriter(
        tfds.core.DatasetInfo(builder=identity, features=features),
        max_examples_per_shard=25,
    )
    writer.initialize_splits(list(splits))
    for split, texts in splits.items():
        examples = [
            {"number": number, "title": f"T  {number}", "text": text}
            for number, text in enumerate(texts)
        ]
        writer.add_examples({split: examples})
    writer.close_all()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    texts = [f"Text {key}.\n\n Its second paragraph. " for key in range(NUM_TRAIN)]
    validation = [f"Validation {key}." for key in range(3)]
    write(folder, "mills", "en", {"train": texts, "validation": validation})
    without_text = WIKI40B.partition("\n_START_PARAGRAPH_")[0]
    write(folder, "marked", "", {"train": [WIKI40B, without_text]})
    return folder


def reader(data_dir, **options):
    return readers.get_reader("tfds", data_dir=str(data_dir), **options)


def numbers(items):
    return sorted(int(item.paragraphs[0].split()[-1].strip(".")) for item in items)


@pytest.mark.parametrize(
    "name",
    ["mills/en", "mills/en:1.2.3", "mills/en:1.*.*[train]"],
)
def test_all_examples_of_all_shards_are_documents(data_dir, name):
    one = reader(data_dir)
    items = list(one.read_input(name))
    assert numbers(items) == list(range(NUM_TRAIN))
    assert len(one.files(name)) == 2
    assert {item.source for item in items} == {
        f"mills/en/1.2.3/mills-train.tfrecord-0000{n}" for n in range(2)
    }
    (first,) = [item for item in items if item.paragraphs[0] == "Text 0."]
    assert first.paragraphs == ("Text 0.", "Its second paragraph.")
    assert first.title == "T 0"
    # The same examples as TensorFlow Datasets itself reads.
    folder = data_dir / "mills" / "en" / "1.2.3"
    expected = tfds.as_numpy(tfds.builder_from_directory(folder).as_dataset("train"))
    assert sorted(one["title"].decode() for one in expected) == sorted(
        item.title.replace(" ", "  ") for item in items
    )


def test_wiki40b_marks_become_title_headings_and_paragraphs(data_dir):
    items = list(reader(data_dir).read_input("marked"))
    documents = [item for item in items if isinstance(item, readers.Document)]
    assert [item.reason for item in items if item not in documents] == [
        "empty_document"
    ]
    (document,) = documents
    assert document.title == "The Mill"
    text = ("It stands.", "It turns.", "History", "Built in 1800.")
    assert document.paragraphs == ("The Mill", *text)


@pytest.mark.parametrize(
    "name, message",
    [
        (
            "mills/de",
            r"prepared dataset.*'mills/de'.*tfds build mills/de`; the option",
        ),
        ("mills/en[test]", r"one of \['train', 'validation'\].*Received: 'test'"),
        ("mills/en[train[:10%]]", r"a whole one.*Received: 'train\[:10%\]'"),
        ("mills/en[train:10]", r"a whole one"),
        ("", r"must name a dataset"),
    ],
)
def test_errors_say_what_to_do(data_dir, name, message):
    with pytest.raises(ValueError, match=message):
        reader(data_dir).files(name)


def test_damage_is_rejected_after_what_precedes(data_dir, tmp_path):
    one = reader(data_dir)
    whole = one.files("mills/en")[0]
    for name in ("dataset_info.json", "features.json"):
        (tmp_path / name).write_bytes((whole.parent / name).read_bytes())
    (tmp_path / whole.name).write_bytes(whole.read_bytes()[:-1])
    # A folder is an input, too.
    items = list(readers.get_reader("tfds").read(one.files(str(tmp_path))[0]))
    assert len(items) == len(list(one.read(whole)))
    assert (items[-1].reason, items[-1].ends_file) == ("damaged_table", True)
    assert items[-1].location == f"after row {len(items) - 1}"
