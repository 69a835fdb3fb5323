"""BERT with P.S.: BERT's position table and SegaBERT's other two.

Commands, hardware and results: docs/configs.md#bert_ps_tiny.

tiny: SegaBERT tiny with positions, paragraphs and sentences, for a CPU.
base: the paper's ablation: 12 layers of width 768, 500,000 updates.
large: the ablation at 24 layers of width 1024, 1,000,000 updates.
"""

from dataclasses import replace

from seg_tf.config import RunConfig, config_getter
from seg_tf.configs import segabert


def _with_positions(variant: str) -> RunConfig:
    run = segabert.RUNS[variant]
    tables = {"position_index": run.inputs.window_length, **run.model.index_tables}
    del tables["token_index"]
    return replace(
        run,
        name=f"bert_ps_{variant}",
        paper=run.paper.replace("segabert", "bert_ps"),
        model=replace(run.model, index_tables=tables),
    )


RUNS = {variant: _with_positions(variant) for variant in ("tiny", "base", "large")}

get_config = config_getter(RUNS)
