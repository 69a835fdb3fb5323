"""Inputs of a run that are read from a folder of records."""

import pathlib
import types
from collections.abc import Mapping
from typing import Any

from seg_tf.data import mirrors
from seg_tf.data.manifest import Manifest, text_preparation


class RecordInputs:
    """Records and their vocabulary, of which every form of `Inputs` reads its rows.

    Attributes:
        manifest: that of the records.
        text_preparation: how their text became ids; None where the records'
            `vocab.txt` is not there any more.
        sources: none, for they are no mixture.
    """

    sources: Mapping[str, Any] = types.MappingProxyType({})

    def __init__(self, records_dir: str | pathlib.Path, vocab_size: int | None):
        self._records_dir = mirrors.local_records(records_dir)
        self.manifest = Manifest.load(self._records_dir)
        self._check_records()
        if vocab_size not in (None, self.vocab_size):
            raise ValueError(
                f"{self._records_dir}: the records were made with a vocabulary of "
                f"{self.vocab_size} {self.manifest.tokens_name} (sha256 "
                f"{self.vocab_checksum[:12]}…), the config has "
                f"model.vocab_size={vocab_size}. Build the records with the model's "
                f"vocabulary, or set --config.model.vocab_size={self.vocab_size}"
            )
        self.text_preparation = text_preparation(self.manifest, self._records_dir)

    def _check_records(self) -> None:
        """Checks that rows of this form can be read from the records."""
        raise NotImplementedError

    @property
    def vocab_size(self) -> int:
        """Number of entries of the records' vocabulary."""
        return self.manifest.vocabulary["size"]

    @property
    def vocab_checksum(self) -> str:
        """SHA-256 of that vocabulary."""
        return self.manifest.vocabulary["sha256"]
