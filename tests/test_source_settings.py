"""Model settings that follow the source of the weights."""

import dataclasses

from seg_tf import papers
from seg_tf.config import describe_taken, follow_source
from seg_tf.configs import reat, segabert

# The settings of BERT's and SegaBERT's authors.
GOOGLE = {
    "layer_norm_epsilon": 1e-12,
    "approximate_gelu": True,
    "num_token_types": 2,
    "index_tables": {"position_index": 512},
}
SEGABERT = {
    "layer_norm_epsilon": 1e-5,
    "approximate_gelu": False,
    "num_token_types": 2,
    "index_tables": {
        "position_index": 512,
        "paragraph_index": 50,
        "sentence_index": 100,
        "token_index": 512,
    },
}


def test_segabert_base_becomes_what_its_authors_released():
    base = segabert.RUNS["base"]
    config, taken = follow_source(base, SEGABERT, ())
    assert taken == {
        "model.layer_norm_epsilon": (1e-12, 1e-5),
        "model.num_token_types": (0, 2),
        "model.index_tables.token_index": (256, 512),
    }
    tables = {**base.model.index_tables, "token_index": 512}
    assert config.model == dataclasses.replace(
        base.model, layer_norm_epsilon=1e-5, num_token_types=2, index_tables=tables
    )
    assert dataclasses.replace(config, model=base.model) == base
    released = [deviation.released for deviation in papers.deviations(config)]
    assert released == [True] * 3


def test_settings_of_flags_stay_and_other_models_too():
    run = segabert.RUNS["base"]
    flags = {"model.layer_norm_epsilon", "model.index_tables"}
    config, taken = follow_source(run, SEGABERT, flags)
    assert taken == {"model.num_token_types": (0, 2)}
    assert config.model.index_tables == run.model.index_tables
    _, taken = follow_source(run, SEGABERT, {"model.index_tables.token_index"})
    assert describe_taken(taken) == (
        "model.layer_norm_epsilon=1e-05 (the config says 1e-12); "
        "model.num_token_types=2 (the config says 0)"
    )
    run = reat.RUNS["tiny"]
    assert follow_source(run, GOOGLE, ()) == (run, {})
