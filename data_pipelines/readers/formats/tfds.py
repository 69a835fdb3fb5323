"""TensorFlow Datasets by name, prepared before: `wiki40b/en`, `c4/en[validation]`."""

import dataclasses
import functools
import io
import os
import re
import struct
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import google_crc32c

from data_pipelines.readers import base
from data_pipelines.readers.errors import DocumentError, too_long
from data_pipelines.readers.formats import wiki40b
from data_pipelines.readers.io import byte_streams, decoding
from data_pipelines.readers.io.passed_over import PassedOver
from seg_tf import file_listing

_PREFIX = "tfds:"
_INPUT = re.compile(r"(?P<dataset>[^\[\]]+)(?:\[(?P<split>.*)\])?")
_VERSION = re.compile(r"\d+\.\d+\.\d+", re.ASCII)
_INFO_FILE = "dataset_info.json"
_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_CRC_MASK_DELTA = 0xA282EAD8


@dataclasses.dataclass(frozen=True)
class Reader(base.FileReader):
    """Reads the shards of a prepared dataset; an example is a document.

    The input is `name`, `name/config` or `name/config:version` as in `tfds.load`, or
    the folder of a prepared dataset; a prefix `tfds:` and the split in brackets are
    allowed: `wiki40b/en:1.3.0[validation]`. Line ends in the text separate
    paragraphs; wiki40b's markers become title, headings and paragraphs.

    Args:
        split: name of the split, where the input names none.
        text_field: name of the feature that holds the text.
        title_field: name of the feature that holds the title, where there is one.
        data_dir: where the prepared datasets lie; empty takes TensorFlow Datasets'
            own place.
        download: whether a dataset that is not there is downloaded and prepared.
        drop_title: whether to leave out wiki40b's title, the first paragraph otherwise.
    """

    split: str = "train"
    text_field: str = "text"
    title_field: str = "title"
    data_dir: str = ""
    download: bool = False
    drop_title: bool = False

    def files(
        self, input_path: str, passed_over: PassedOver | None = None
    ) -> list[file_listing.Path]:
        del passed_over  # The dataset names its files; a folder is not searched.
        dataset, split = self._parse(input_path)
        builder = self._builder(dataset)
        splits = builder.info.splits
        if split not in splits:
            raise ValueError(
                f"`input` must name a split of {dataset!r} that is prepared, a whole "
                f"one: one of {sorted(splits)}. Received: {split!r}"
            )
        if builder.info.file_format.value != "tfrecord":
            raise ValueError(
                f"`input` must be prepared as TFRecord files. Received: {dataset!r}, "
                f"which is stored as {builder.info.file_format.value}"
            )
        features = builder.info.features
        if self.text_field not in features:
            raise ValueError(
                f"`text_field` must be one of {sorted(features)}, the features of "
                f"{dataset!r}. Received: {self.text_field!r}"
            )
        feature = features[self.text_field]
        if feature.shape != () or feature.np_dtype not in (object, bytes):
            raise ValueError(
                f"`text_field` must be a feature of {dataset!r} that is a string. "
                f"Received: {self.text_field!r}, which is {feature!r}"
            )
        return [
            file_listing.to_path(os.fspath(path)) for path in splits[split].filepaths
        ]

    def source_name(self, path: file_listing.Path, input_path: str) -> str:
        dataset, _ = self._parse(input_path)
        info = self._builder(dataset).info
        return f"{info.full_name}/{path.name}"

    def read_file(
        self, path: file_listing.Path, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        features = _features_of(str(path.parent))
        with byte_streams.open_unchanged(path) as stream:
            for number, example in enumerate(_records(stream), start=1):
                yield self._document(features, example, source, f"example {number}")

    def _document(
        self, features: Any, example: bytes, source: str, location: str
    ) -> base.Document | base.RejectedDocument:
        try:
            values = features.deserialize_example_np(example)
            text = self._text(values.get(self.text_field), self.text_field)
            if len(text) > self.max_document_bytes:
                raise too_long(self.max_document_bytes)
            title = values.get(self.title_field)
            title = decoding.decode_utf8(title) if isinstance(title, bytes) else ""
            title = " ".join(title.split())
            if wiki40b.is_marked(text):
                title, paragraphs = wiki40b.to_paragraphs(text)
                if paragraphs and title and not self.drop_title:
                    paragraphs.insert(0, title)
            else:
                paragraphs = decoding.split_lines(text)
        except DocumentError as error:
            return base.reject(error, source, location)
        return base.document_or_rejection(paragraphs, source, location, title)

    @staticmethod
    def _text(value: Any, name: str) -> str:
        if not isinstance(value, bytes):
            raise DocumentError(
                "text_not_a_string",
                f"Expected a string in the feature {name!r}, found "
                f"{type(value).__name__}.",
            )
        return decoding.decode_utf8(value)

    def _parse(self, input_path: str) -> tuple[str, str]:
        """The dataset and the split that an input names."""
        text = str(input_path).removeprefix(_PREFIX)
        match = _INPUT.fullmatch(text)
        if match is None:
            raise ValueError(
                "`input` must name a dataset, such as wiki40b/en, "
                "wiki40b/en:1.3.0 or wiki40b/en[validation]. "
                f"Received: {str(input_path)!r}"
            )
        split = match["split"]
        return match["dataset"], self.split if split is None else split

    def _builder(self, dataset: str) -> Any:
        return _builder(dataset, self.data_dir, self.download)


def _tfds() -> ModuleType:
    # Imported late: it is an extra, and slow to import.
    try:
        import tensorflow_datasets
    except ImportError as error:
        raise ValueError(
            "The format tfds needs the package tensorflow-datasets, which is not "
            "installed: `make setup-corpora` installs it"
        ) from error
    return tensorflow_datasets


@functools.lru_cache(maxsize=4)
def _builder(dataset: str, data_dir: str, download: bool) -> Any:
    """The builder of a prepared dataset.

    Raises:
        ValueError: if it is not prepared, or there is none of that name.
    """
    tfds = _tfds()
    folder = _prepared_folder(dataset)
    if folder is not None:
        try:
            return tfds.builder_from_directory(str(folder))
        except KeyError as error:
            raise ValueError(
                "`input` must be a folder of a disk or of a kind of storage that "
                "TensorFlow Datasets reads, such as gs:// and s3://. Received: "
                f"{dataset!r}"
            ) from error
    arguments = {"data_dir": os.path.expanduser(data_dir)} if data_dir else {}
    try:
        return tfds.core.read_only_builder.builder_from_files(dataset, **arguments)
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        if not download:
            place = data_dir or tfds.core.constants.DATA_DIR
            raise ValueError(
                f"`input` must name a prepared dataset. Received: {dataset!r}, which "
                f"is not in {place}. Prepare it with `tfds build {dataset}`, or give "
                "--reader_options=download=true; the option `data_dir` says where else "
                "to look"
            ) from error
    try:
        builder = tfds.builder(dataset, **arguments)
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        raise ValueError(
            f"`input` must name a dataset. Received: {dataset!r}: {error}"
        ) from error
    try:
        builder.download_and_prepare()
    except ImportError as error:
        # Many datasets are made with additional packages.
        raise ValueError(
            f"{dataset!r} cannot be prepared without the package {error.name!r}, "
            "which is not installed"
        ) from error
    return builder


def _prepared_folder(path: str) -> "file_listing.Path | None":
    """The folder of a prepared dataset, or of the newest version in it, if it is one.

    Raises:
        ValueError: if the package that reads such URLs is not installed.
    """
    folder = file_listing.to_path(path)
    if not folder.is_dir():
        return None
    if (folder / _INFO_FILE).is_file():
        return folder
    versions = [
        (tuple(map(int, child.name.split("."))), child)
        for child in folder.iterdir()
        if _VERSION.fullmatch(child.name) and (child / _INFO_FILE).is_file()
    ]
    return max(versions, key=lambda version: version[0])[1] if versions else None


@functools.lru_cache(maxsize=4)
def _features_of(folder: str) -> Any:
    """Feature specification of the dataset in a folder."""
    return _tfds().builder_from_directory(folder).info.features


def _records(stream: io.BufferedReader) -> Iterator[bytes]:
    """The records of a TFRecord file: length, its checksum, data, its checksum.

    Raises:
        DocumentError: at damage, after the records that precede it.
    """
    number = 0
    while header := stream.read(_HEADER.size):
        if len(header) < _HEADER.size:
            raise _damaged("truncated_tfrecord", "the end of the file", number)
        length, length_crc = _HEADER.unpack(header)
        if _masked_crc(header[:8]) != length_crc:
            raise _damaged("damaged_tfrecord", "a length that is damaged", number)
        data, footer = stream.read(length), stream.read(_FOOTER.size)
        if len(footer) < _FOOTER.size:
            raise _damaged("truncated_tfrecord", "the end of the file", number)
        if _masked_crc(data) != _FOOTER.unpack(footer)[0]:
            raise _damaged("damaged_tfrecord", "an example that is damaged", number)
        number += 1
        yield data


def _damaged(reason: str, found: str, number: int) -> DocumentError:
    return DocumentError(
        reason,
        f"Expected a TFRecord with its checksums, found {found}. What precedes was "
        "read.",
        f"example {number + 1}",
    )


def _masked_crc(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + _CRC_MASK_DELTA) & 0xFFFFFFFF
