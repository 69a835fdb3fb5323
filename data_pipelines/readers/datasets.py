"""Datasets by name: Hugging Face Datasets and TensorFlow Datasets."""

import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from data_pipelines.readers import base, json_lines, raw_files, streams, tables
from data_pipelines.readers.streams import DocumentError
from seg_tf import file_listing

_INPUT = re.compile(r"(?P<dataset>[^\[\]]+)(?:\[(?P<split>.*)\])?")
_INFO_FILE = "dataset_info.json"
# The builders of Hugging Face Datasets, by the names of a dataset's files.
_BUILDERS = {
    **{".arrow": "arrow", ".csv": "csv", ".json": "json", ".jsonl": "json"},
    **{".ndjson": "json", ".parquet": "parquet", ".tsv": "csv", ".txt": "text"},
}
_WIKI40B = re.compile("(_START_ARTICLE_|_START_SECTION_|_START_PARAGRAPH_)")


@dataclasses.dataclass(frozen=True)
class _NamedReader(tables.TableReader):
    """Base class of readers whose input is the name of a dataset."""

    reads_in_order: ClassVar[bool] = False

    split: str = "train"
    drop_title: bool = False

    def _parse(self, input_path: str) -> tuple[str, str]:
        """The dataset and the split that an input names."""
        match = _INPUT.fullmatch(str(input_path))
        if match is None:
            raise ValueError(
                "`input` must name a dataset, such as wiki40b/en or "
                f"wiki40b/en[validation]. Received: {str(input_path)!r}"
            )
        split = match["split"]
        return match["dataset"], self.split if split is None else split

    def _check_split(self, split: str, splits: Any, dataset: str) -> None:
        if split not in splits:
            raise ValueError(
                f"`input` must name a split of {dataset!r} that is prepared, a whole "
                f"one: one of {sorted(map(str, splits))}. Received: {split!r}"
            )

    def title_and_paragraphs(self, title: str, text: str) -> tuple[str, list[str]]:
        """Turns wiki40b's markers into title, headings of non-empty sections, text."""
        before, *parts = _WIKI40B.split(text)
        if before.strip() or parts[:1] != ["_START_ARTICLE_"]:
            return title, streams.split_lines(text)
        paragraphs: list[str] = []
        heading: list[str] = []
        for marker, content in zip(parts[::2], parts[1::2], strict=True):
            lines = streams.split_lines(content.replace("_NEWLINE_", "\n"))
            if marker == "_START_ARTICLE_":
                title = " ".join(" ".join(lines).split())
            elif marker == "_START_SECTION_":
                heading = [" ".join(lines)] if lines else []
            elif lines:
                paragraphs += heading + lines
                heading = []
        if paragraphs and title and not self.drop_title:
            paragraphs.insert(0, title)
        return title, paragraphs


@dataclasses.dataclass(frozen=True)
class DatasetsReader(_NamedReader):
    """Hugging Face Datasets, streamed: `owner/name[validation]`, or a local folder.

    The input is what `datasets.load_dataset` accepts, with the split in brackets. Each
    data file of the split is a source, which the library reads row by row and does not
    store. Line ends separate paragraphs; wiki40b's markers become title, headings and
    paragraphs.

    Args:
        split: name of the split, if the input names none.
        text_field: name of the column that holds the text.
        title_field: name of the column that holds the title, if there is one.
        config: name of the configuration (subset), such as `20231101.en`.
        revision: branch, tag or commit on the Hub. Give a commit if the build is to be
            resumed later.
        drop_title: whether to leave out wiki40b's title, the first paragraph otherwise.
    """

    config: str = ""
    revision: str = ""

    def files(
        self, input_path: str, passed_over: base.PassedOver | None = None
    ) -> list[file_listing.Path]:
        dataset, split = self._parse(input_path)
        datasets = tables.import_extra("datasets")
        try:
            builder = datasets.load_dataset_builder(
                dataset, self.config or None, revision=self.revision or None
            )
        except Exception as error:  # Those of the Hub, of its client and of files.
            raise ValueError(
                "`input` must name a dataset on the Hub or a folder. Received: "
                f"{dataset!r}: {type(error).__name__}: {error}"
            ) from error
        names = builder.config.data_files or {}
        self._check_split(split, names, dataset)
        for name in names[split]:
            _builder_name(name)
        return [file_listing.to_path(str(name)) for name in names[split]]

    def source_name(self, path: file_listing.Path, input_path: str) -> str:
        dataset, _ = self._parse(input_path)
        if isinstance(path, pathlib.Path):
            folder = pathlib.Path(dataset).resolve()
            return file_listing.relative_name(path.resolve(), folder)
        # hf://datasets/owner/name@commit/folder/file
        return f"{dataset}/{str(path).partition('@')[2].partition('/')[2] or path.name}"

    def read_file(
        self, path: file_listing.Path, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        datasets = tables.import_extra("datasets")
        number = 0
        try:
            rows = datasets.load_dataset(
                _builder_name(path.name),
                data_files=[str(path)],
                split="train",
                streaming=True,
            )
            for number, row in enumerate(rows, 1):
                if number == 1:
                    json_lines.find_text(row, self.text_field)
                yield self.to_document(row, source, f"row {number}")
        except DocumentError:
            raise
        # Every kind of file and every kind of storage raises different exceptions.
        except Exception as error:
            file = path.path if isinstance(path, raw_files.HashedFile) else path
            if not isinstance(file, pathlib.Path) and not isinstance(error, ValueError):
                raise raw_files.UnreachableError(
                    f"{path}: cannot be read: {type(error).__name__}: {error}"
                ) from error
            raise tables.damaged(error, "rows", number) from error


def _builder_name(name: str) -> str:
    """The builder of `datasets` that reads a file."""
    path = pathlib.PurePosixPath(str(name).lower())
    if path.suffix in file_listing.COMPRESSION_SUFFIXES:
        path = path.with_suffix("")
    if path.suffix not in _BUILDERS:
        raise ValueError(
            f"`input` must name a dataset of files named {', '.join(_BUILDERS)}. "
            f"Received: {str(name)!r}"
        )
    return _BUILDERS[path.suffix]


@dataclasses.dataclass(frozen=True)
class TfdsReader(_NamedReader):
    """TensorFlow Datasets that were prepared before: `wiki40b/en`, `c4/en[validation]`.

    The input is `name`, `name/config` or `name/config:version` as in `tfds.load`, or
    the folder of a prepared dataset, with an optional prefix `tfds:` and the split in
    brackets: `wiki40b/en:1.3.0[validation]`. An example is a document. Line ends
    separate paragraphs; wiki40b's markers become title, headings and paragraphs.

    Args:
        split: name of the split, if the input names none.
        text_field: name of the feature that holds the text.
        title_field: name of the feature that holds the title, if there is one.
        data_dir: folder of the prepared datasets; empty is TensorFlow Datasets' own.
        drop_title: whether to leave out wiki40b's title, the first paragraph otherwise.
    """

    data_dir: str = ""

    def files(
        self, input_path: str, passed_over: base.PassedOver | None = None
    ) -> list[file_listing.Path]:
        dataset, split = self._parse(input_path)
        info = _info(dataset, self.data_dir)
        self._check_split(split, info.splits, dataset)
        if info.file_format.value != "tfrecord":
            raise ValueError(
                f"`input` must be prepared as TFRecord files. Received: {dataset!r}, "
                f"which is stored as {info.file_format.value}"
            )
        if self.text_field not in info.features:
            raise ValueError(
                f"`text_field` must be one of {sorted(info.features)}, the features of "
                f"{dataset!r}. Received: {self.text_field!r}"
            )
        feature = info.features[self.text_field]
        if feature.shape != () or feature.np_dtype not in (object, bytes):
            raise ValueError(
                f"`text_field` must be a feature of {dataset!r} that is a string. "
                f"Received: {self.text_field!r}, which is {feature!r}"
            )
        paths = info.splits[split].filepaths
        return [file_listing.to_path(os.fspath(path)) for path in paths]

    def source_name(self, path: file_listing.Path, input_path: str) -> str:
        dataset, _ = self._parse(input_path)
        return f"{_info(dataset, self.data_dir).full_name}/{path.name}"

    def read_file(
        self, path: file_listing.Path, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        import tensorflow as tf

        features = _info(str(path.parent), "").features
        number = 0
        try:
            records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
            for number, record in enumerate(records, start=1):
                row = features.deserialize_example_np(record)
                yield self.to_document(row, source, f"example {number}")
        except tf.errors.OpError as error:
            if isinstance(error, tf.errors.DataLossError):
                raise DocumentError(
                    "damaged_tfrecord",
                    f"Expected TFRecords with their checksums, found: {error.message}. "
                    "What precedes was read.",
                    f"example {number + 1}",
                ) from error
            raise raw_files.UnreachableError(
                f"{path}: cannot be read: {type(error).__name__}: {error.message}"
            ) from error

    def _parse(self, input_path: str) -> tuple[str, str]:
        return super()._parse(str(input_path).removeprefix("tfds:"))


@functools.lru_cache(maxsize=8)
def _info(dataset: str, data_dir: str) -> Any:
    """Description of a prepared dataset by TensorFlow Datasets.

    Raises:
        ValueError: if it is not prepared, or does not exist.
    """
    tfds = tables.import_extra("tensorflow_datasets", "tensorflow-datasets")
    folder = file_listing.to_path(dataset)
    if folder.is_dir():
        versions = [
            child for child in folder.iterdir() if (child / _INFO_FILE).is_file()
        ]
        if versions and not (folder / _INFO_FILE).is_file():
            folder = max(
                versions, key=lambda child: [*map(int, re.findall(r"\d+", child.name))]
            )
        if (folder / _INFO_FILE).is_file():
            try:
                return tfds.builder_from_directory(str(folder)).info
            except KeyError as error:
                raise ValueError(
                    "`input` must be a folder of a disk or of a kind of storage that "
                    "TensorFlow Datasets reads, such as gs:// and s3://. Received: "
                    f"{dataset!r}"
                ) from error
    arguments = {"data_dir": os.path.expanduser(data_dir)} if data_dir else {}
    try:
        return tfds.core.read_only_builder.builder_from_files(dataset, **arguments).info
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        place = data_dir or tfds.core.constants.DATA_DIR
        raise ValueError(
            f"`input` must name a prepared dataset. Received: {dataset!r}, which is "
            f"not in {place}. Prepare it with `tfds build {dataset}`; the option "
            "`data_dir` says where else to look"
        ) from error
