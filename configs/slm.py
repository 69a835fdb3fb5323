r"""SLM: BERT that puts shuffled sentences back in order.

`--config=configs/slm.py:VARIANT`; without a variant it is tiny. A row is a window and
20 [SENT] tokens, one before each sentence. Runs of the paper's sizes were not made
here; docs/tables/slm.md has its figures.

tiny: 2 layers of width 128, for a CPU and a first look at the curves.
    python run_pretraining.py --config=configs/slm.py:tiny \
        --records_dir=records/wikipedia_128 --output_dir=runs/slm_tiny
    Rows are 148 long: the records of tiny in `segabert.py`, and 20 [SENT]. Layers,
    first weights, hardware and peak rate are those of that run. Against the paper every
    row is shuffled, pieces are masked and not spans, the decoder is pre-norm, its
    pointers are scaled and their loss counts a tenth (docs/sentence_unshuffling.md has
    the reasons).
    Time: half an hour to an hour on one core for the 6,000 updates.
    Expected, of three seeds on Wikipedia and books: masked-LM loss 4.51 to 4.79, and no
    knowledge of order: pointer accuracy 50.7 to 52.1 % (chance 53.5 %), Kendall's tau
    -0.003 to 0.013. See docs/sentence_unshuffling.md.

tiny_no_reconstructor: tiny without the Sequence Reconstructor: masked LM alone.
    python run_pretraining.py --config=configs/slm.py:tiny_no_reconstructor \
        --records_dir=records/wikipedia_128 --output_dir=runs/slm_tiny_no_reconstructor
    All rows are shuffled; they, the records and everything else are those of tiny.
    Expected: no figure was measured.

base: 12 layers of width 768, Wikipedia and books, 1,000,000 updates.
    horovodrun -np 8 python run_pretraining.py --config=configs/slm.py:base \
        --records_dir=records/wikibooks_492 --output_dir=runs/slm_base
    Rows are 512 long: windows of 492 (`--window_length=492`), and 20 [SENT].
    docs/records.md makes records of two corpora.
    Hardware: 8 V100, as in the paper; the batch of 256 is split over the ranks. Time:
    about five days, as the paper reports.
    Expected: see docs/tables/slm.md, tables 1 to 3; the run of 3M updates has
    --config.training.num_updates=3000000.

The other variants are ablations of base, rows of the paper's table 5. Records,
hardware, time and everything that is not named are those of base.

base_shuffle_all: the sentences of every row are shuffled (second row).
    horovodrun -np 8 python run_pretraining.py \
        --config=configs/slm.py:base_shuffle_all \
        --records_dir=records/wikibooks_492 --output_dir=runs/slm_base_shuffle_all
    Expected: see docs/tables/slm.md, table 5.

base_shuffle_all_no_reconstructor: masked LM alone, on shuffled rows (third row).
    horovodrun -np 8 python run_pretraining.py \
        --config=configs/slm.py:base_shuffle_all_no_reconstructor \
        --records_dir=records/wikibooks_492 \
        --output_dir=runs/slm_base_shuffle_all_no_reconstructor
    Expected: see docs/tables/slm.md, table 5.

base_no_shuffle: masked LM alone, on [SENT] and sentences in order (fourth row).
    horovodrun -np 8 python run_pretraining.py \
        --config=configs/slm.py:base_no_shuffle \
        --records_dir=records/wikibooks_492 --output_dir=runs/slm_base_no_shuffle
    [SENT] tokens and sentence ids are there.
    Expected: see docs/tables/slm.md, table 5.

base_plain: BERT, of SLM only the masked spans and the learning rate (last row).
    horovodrun -np 8 python run_pretraining.py --config=configs/slm.py:base_plain \
        --records_dir=records/wikibooks_492 --output_dir=runs/slm_base_plain
    No [SENT], no sentence ids, nothing shuffled. Rows are the same records without
    [SENT], so 492 long where the paper has 512: all runs of slm.py see the same text.
    Expected: see docs/tables/slm.md, table 5.

base_plain_shuffled: base_plain, sentences of every row shuffled (table 4, second row).
    horovodrun -np 8 python run_pretraining.py \
        --config=configs/slm.py:base_plain_shuffled \
        --records_dir=records/wikibooks_492 --output_dir=runs/slm_base_plain_shuffled
    Position ids alone tell the order; rows are 492 long, as those of base_plain. That
    is the first row of table 4: fine-tune it with --grid=slm, too.
    Expected: see docs/tables/slm.md, table 4.
"""

from dataclasses import replace

import ml_collections

from seg_tf import configuration
from seg_tf.configs import segabert

_MASKED_LM = {"masked_lm": configuration.MaskedLMConfig()}
_BASE = configuration.RunConfig(
    name="slm_base",
    paper="slm_base",
    model=configuration.EncoderConfig(
        index_tables={"position_index": 512, "sentence_id": 22}, num_token_types=2
    ),
    inputs=configuration.SentenceInputsConfig(),
    objectives={
        "masked_lm": configuration.MaskedLMConfig(),
        "sentence_unshuffling": configuration.SentenceUnshufflingConfig(),
    },
    optimizer=configuration.AdamWConfig(learning_rate=1.5e-4, warmup_updates=10_000),
    training=configuration.TrainingConfig(
        num_updates=1_000_000,
        batch_size=256,
        dtype_policy="mixed_float16",
        validation_interval=5_000,
        checkpoint_interval=5_000,
    ),
)
_BASE_SHUFFLE_ALL = replace(
    _BASE,
    name="slm_base_shuffle_all",
    paper="slm_base_shuffle_all",
    inputs=replace(_BASE.inputs, shuffle_rate=1.0),
)

_SEGABERT = segabert.RUNS["tiny"]
_TINY = replace(
    _SEGABERT,
    name="slm_tiny",
    paper="slm_base",
    model=replace(
        _SEGABERT.model,
        index_tables={"position_index": 148, "sentence_id": 22},
        num_token_types=_BASE.model.num_token_types,
    ),
    inputs=configuration.SentenceInputsConfig(
        window_length=_SEGABERT.inputs.window_length,
        max_sentences=20,
        # Half in order teach a small model to point at the next place, and no more.
        shuffle_rate=1.0,
        # With masked spans the loss is still on its plateau after so short a run.
        masking=configuration.MaskingConfig(max_predictions=20),
    ),
    objectives={
        "masked_lm": configuration.MaskedLMConfig(),
        "sentence_unshuffling": configuration.SentenceUnshufflingConfig(
            num_layers=3,
            # Unscaled, the first pointers are far too sure for weights this large.
            scale_pointers=True,
            # Post-norm, it collapses at this rate and never recovers.
            normalize_first=True,
            # With 1 the clipped gradient is the pointers', and masked LM waits.
            loss_weight=0.1,
        ),
    },
    optimizer=replace(_SEGABERT.optimizer, warmup_share=3 / 70),
    training=replace(_SEGABERT.training, num_updates=6_000, checkpoint_interval=500),
)
_BASE_PLAIN = replace(
    _BASE,
    name="slm_base_plain",
    paper="slm_base_plain",
    model=replace(_BASE.model, index_tables={"position_index": 512}),
    inputs=configuration.WindowInputsConfig(
        window_length=_BASE.inputs.window_length, masking=_BASE.inputs.masking
    ),
    objectives=_MASKED_LM,
)

RUNS = {
    "tiny": _TINY,
    "tiny_no_reconstructor": replace(
        _TINY, name="slm_tiny_no_reconstructor", objectives=_MASKED_LM
    ),
    "base": _BASE,
    "base_shuffle_all": _BASE_SHUFFLE_ALL,
    "base_shuffle_all_no_reconstructor": replace(
        _BASE_SHUFFLE_ALL,
        name="slm_base_shuffle_all_no_reconstructor",
        paper="slm_base_shuffle_all_no_reconstructor",
        objectives=_MASKED_LM,
    ),
    "base_no_shuffle": replace(
        _BASE,
        name="slm_base_no_shuffle",
        paper="slm_base_no_shuffle",
        inputs=replace(_BASE.inputs, shuffle_rate=0.0),
        objectives=_MASKED_LM,
    ),
    "base_plain": _BASE_PLAIN,
    "base_plain_shuffled": replace(
        _BASE_PLAIN,
        name="slm_base_plain_shuffled",
        paper="slm_base_plain_shuffled",
        inputs=configuration.ShuffledWindowInputsConfig(
            window_length=_BASE.inputs.window_length,
            max_sentences=_BASE.inputs.max_sentences,
            shuffle_rate=1.0,
            masking=_BASE.inputs.masking,
        ),
    ),
}


def get_config(variant: str = "tiny") -> ml_collections.ConfigDict:
    """The variant's run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(configuration.get_variant(RUNS, variant))
