r"""SegaBERT tiny with several windows a row, where one alone leaves room.

    python run_pretraining.py --config=configs/segabert_tiny_packed.py \
        --records_dir=records/wikipedia_128 --output_dir=runs/segabert_tiny_packed

Records, hardware and everything else are those of `segabert_tiny.py`. Any other run is
packed by a flag: --config.inputs.type=PackedWindowInputsConfig. A row counts as one
sample, so an update sees more windows than with one a row; to keep their number,
lower --config.training.batch_size by the factor that --dry_run prints ("a row").

Expected: on 99 MB of Wikipedia rows of 128 are full to 0.875 instead of 0.844, rows of
512 to 0.967 instead of 0.892; short documents gain far more (docs/records.md).
"""

import dataclasses

import ml_collections

from configs import segabert_tiny
from seg_tf import configuration

RUN = dataclasses.replace(
    segabert_tiny.RUN,
    name="segabert_tiny_packed",
    inputs=configuration.PackedWindowInputsConfig(
        window_length=segabert_tiny.RUN.inputs.window_length,
        masking=segabert_tiny.RUN.inputs.masking,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
