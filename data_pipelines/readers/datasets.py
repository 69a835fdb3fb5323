"""Readers of named datasets: Hugging Face Datasets and TensorFlow Datasets."""

import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from data_pipelines.readers import streams, tables
from seg_tf import file_listing
from seg_tf.file_listing import PassOver, Path, ignore

_INPUT = re.compile(r"(?P<dataset>[^\[\]]+)(?:\[(?P<split>.*)\])?")
# File suffix -> builder of Hugging Face Datasets.
_BUILDERS = {
    **{".arrow": "arrow", ".csv": "csv", ".json": "json", ".jsonl": "json"},
    **{".ndjson": "json", ".parquet": "parquet", ".tsv": "csv", ".txt": "text"},
}
_WIKI40B = re.compile("(_START_ARTICLE_|_START_SECTION_|_START_PARAGRAPH_)")


@dataclasses.dataclass(frozen=True)
class _NamedReader(tables.TableReader):
    """Base class of readers whose input is a dataset name."""

    def _parse(self, input_path: str) -> tuple[str, str]:
        match = _INPUT.fullmatch(str(input_path))
        if match is None:
            raise ValueError(
                "`input` must name a dataset, such as wiki40b/en or "
                f"wiki40b/en[validation]. Received: {str(input_path)!r}"
            )
        return match["dataset"], "train" if match["split"] is None else match["split"]

    def _check_split(self, split: str, splits: Iterable[str]) -> None:
        if split not in splits:
            raise ValueError(
                "`input` must name a split that is prepared, a whole one: one of "
                f"{sorted(map(str, splits))}. Received: {split!r}"
            )

    def title_and_paragraphs(self, title: str, text: str) -> tuple[str, list[str]]:
        """Returns the title and paragraphs of a text. Interprets wiki40b's markers."""
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
        return title, [title, *paragraphs] if paragraphs and title else paragraphs


@dataclasses.dataclass(frozen=True)
class DatasetsReader(_NamedReader):
    """Hugging Face Datasets, streamed (`owner/name[validation]`), or a local folder.

    The input is a name that `datasets.load_dataset` accepts, with the split in brackets
    (default: train). Each data file of the split is a source and is streamed. Line ends
    separate paragraphs. wiki40b's markers become the title, headings and paragraphs.

    Args:
        text_field: str. Name of the text column.
        title_field: str. Name of the title column, if there is one.
        config: str. Name of the configuration (subset), such as `20231101.en`.
        revision: str. Branch, tag or commit on the Hub. Set a commit to be able to
            resume the build later.
    """

    config: str = ""
    revision: str = ""

    def files(self, input_path: str, pass_over: PassOver = ignore) -> list[Path]:
        dataset, split = self._parse(input_path)
        builder = tables.import_extra("datasets").load_dataset_builder(
            dataset, self.config or None, revision=self.revision or None
        )
        names = builder.config.data_files or {}
        self._check_split(split, names)
        return [file_listing.to_path(str(name)) for name in names[split]]

    def source_name(self, path: Path, input_path: str) -> str:
        dataset, _ = self._parse(input_path)
        if isinstance(path, pathlib.Path):
            folder = pathlib.Path(os.path.abspath(dataset))
            return file_listing.relative_name(path.absolute(), folder)
        # hf://datasets/owner/name@commit/folder/file
        return f"{dataset}/{str(path).partition('@')[2].partition('/')[2] or path.name}"

    def rows(self, path: Path) -> Iterator[Mapping[str, Any]]:
        name = pathlib.PurePosixPath(path.name.lower())
        if name.suffix in file_listing.COMPRESSION_SUFFIXES:
            name = name.with_suffix("")
        if name.suffix not in _BUILDERS:
            raise ValueError(f"a file not named {', '.join(_BUILDERS)}")
        yield from tables.import_extra("datasets").load_dataset(
            _BUILDERS[name.suffix],
            data_files=[str(path)],
            split="train",
            streaming=True,
            **({"sep": "\t"} if name.suffix == ".tsv" else {}),
        )


@dataclasses.dataclass(frozen=True)
class TfdsReader(_NamedReader):
    """Prepared TensorFlow Datasets, such as `wiki40b/en` or `c4/en[validation]`.

    The input is `name`, `name/config` or `name/config:version` as for `tfds.load`, or
    the folder of a prepared version, with the split in brackets (default: train), as in
    `wiki40b/en:1.3.0[validation]`. Each example is a document. Line ends separate
    paragraphs. wiki40b's markers become the title, headings and paragraphs.

    Args:
        text_field: str. Name of the text feature.
        title_field: str. Name of the title feature, if there is one.
        data_dir: str. Folder of the datasets. If empty, TensorFlow Datasets' default.
    """

    data_dir: str = ""

    def files(self, input_path: str, pass_over: PassOver = ignore) -> list[Path]:
        dataset, split = self._parse(input_path)
        info = _info(dataset, self.data_dir)
        self._check_split(split, info.splits)
        if info.file_format.value != "tfrecord":
            raise ValueError(
                f"`input` must be prepared as TFRecord files. Received: {dataset!r}, "
                f"which is stored as {info.file_format.value}"
            )
        paths = info.splits[split].filepaths
        return [file_listing.to_path(os.fspath(path)) for path in paths]

    def source_name(self, path: Path, input_path: str) -> str:
        dataset, _ = self._parse(input_path)
        return f"{_info(dataset, self.data_dir).full_name}/{path.name}"

    def rows(self, path: Path) -> Iterator[Mapping[str, Any]]:
        import tensorflow as tf

        features = _info(str(path.parent), "").features
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            yield features.deserialize_example_np(record)


@functools.lru_cache(maxsize=8)
def _info(dataset: str, data_dir: str) -> Any:
    """Returns a dataset's `DatasetInfo`. Raises ValueError if it is not prepared."""
    tfds = tables.import_extra("tensorflow_datasets", "tensorflow-datasets")
    if (file_listing.to_path(dataset) / "dataset_info.json").is_file():
        return tfds.builder_from_directory(dataset).info
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
