"""The runs in configs/: documented, consistent, and of the published sizes."""

import dataclasses
import importlib
import pathlib
import re

import numpy as np
import pytest

import configs
import seg_tf.models
import seg_tf.objectives  # noqa: F401
from seg_tf.commands import configs as listing
from seg_tf.config import CausalLMConfig, build_from, from_config_dict
from seg_tf.papers import tables
from tests.training import stand_ins

pytestmark = pytest.mark.slow

FAMILIES = {
    path.stem: importlib.import_module(f"configs.{path.stem}")
    for path in sorted(pathlib.Path(configs.__file__).parent.glob("[!_]*.py"))
}
VARIANTS = [
    (family, variant) for family in FAMILIES for variant in FAMILIES[family].RUNS
]
RUNS = {
    f"{family}_{variant}": FAMILIES[family].RUNS[variant]
    for family, variant in VARIANTS
}


@pytest.mark.parametrize(("family", "variant"), VARIANTS)
def test_config_survives_flags_and_is_documented(family, variant):
    module, run = FAMILIES[family], FAMILIES[family].RUNS[variant]
    assert from_config_dict(module.get_config(variant)) == run
    assert run.name == f"{family}_{variant}"
    page = pathlib.Path(__file__).resolve().parent.parent / "docs/configs.md"
    section = rf"^### {family}_{variant}\n((?!##).*\n)*"
    text = re.search(section, page.read_text(), re.M)[0]
    assert f"--config={family}_{variant} " in text
    assert f"--output_dir=runs/{run.name}" in text
    assert "Expected" in text
    first = run.name.replace("phase2", "phase1")
    assert (f"--initial_checkpoint=runs/{first}" in text) == ("phase2" in run.name)
    assert RUNS[first].model == run.model


@pytest.mark.parametrize("family", FAMILIES)
def test_default_variant_is_tiny(family):
    module = FAMILIES[family]
    assert from_config_dict(module.get_config()) == module.RUNS["tiny"]
    with pytest.raises(ValueError, match=r"must be one of tiny, .*Received: 'huge'"):
        module.get_config("huge")


def test_list_of_configs_has_a_line_for_each(capsys):
    listing.main([])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == list(RUNS)
    assert all(len(line) > 1 for line in lines)


def test_every_run_of_slm_s_tables_has_a_config():
    runs = {row.run for table in tables.TABLES["slm"] for row in table.rows}
    # 3M updates are base, and a flag.
    assert runs - set(RUNS) == {"slm_base_3m"}


def num_parameters(model, **changes):
    """Trainable parameters with these settings, of a softmax too for word models."""
    with stand_ins.no_draws():
        encoder = build_from(dataclasses.replace(model, **changes))
    weights = list(encoder.trainable_weights)
    if hasattr(model, "cutoffs"):
        objective = build_from(CausalLMConfig(), encoder=encoder)
        objective.build((None, None, model.hidden_size))
        weights += objective.softmax.trainable_weights
    shapes = {id(weight): weight.shape for weight in weights}
    return sum(int(np.prod(shape)) for shape in shapes.values())


@pytest.mark.parametrize(
    ("name", "vocab_size", "millions"),
    [
        # BERT's published 110M and 340M are with the pooler and two token types.
        ("segabert_base", 30_522, 109),
        ("segabert_large", 30_522, 334),
        ("slm_base", 30_522, 109),
        # Dai et al., table 1.
        ("transformer_xl_base", 267_735, 151),
        # The paper says 51 and 138; no reading of it gives both.
        ("reat_small", 30_522, 51),
        ("reat_base", 30_522, 148),
    ],
)
def test_parameter_counts_are_the_published_ones(name, vocab_size, millions):
    model = RUNS[name].model
    depths = {
        field.name: getattr(model, field.name)
        for field in dataclasses.fields(model)
        if re.fullmatch("num_(sentence_|alpha_)?layers", field.name)
    }
    # From models of one or two layers and few words: the count is linear in all.
    few, more = 1_000, 2_000
    cutoffs = {"cutoffs": (100, 300)} if hasattr(model, "cutoffs") else {}
    shallow = dict.fromkeys(depths, 1) | cutoffs
    count = smallest = num_parameters(model, vocab_size=few, **shallow)
    for depth, layers in depths.items():
        deeper = num_parameters(model, vocab_size=few, **{**shallow, depth: 2})
        count += (layers - 1) * (deeper - smallest)
    larger = num_parameters(model, vocab_size=more, **shallow)
    count += (vocab_size - few) * (larger - smallest) // (more - few)
    assert int(count / 1e6 + 0.5) == millions
