"""Defines the cases of `benchmarks.accelerator`, the most important ones first."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import replace

from seg_tf.config import RunConfig
from seg_tf.configs import bert, reat, sega_transformer_xl, segabert, slm
from seg_tf.data.configs import (
    MaskingConfig,
    PackedWindowInputsConfig,
    SentenceInputsConfig,
    WindowInputsConfig,
)

ENGINES = ("tensorflow", "jax", "pytorch")
_RUNS = {
    "BERT base": bert.RUNS["base"],
    "BERT large": bert.RUNS["large"],
    "SegaBERT base": segabert.RUNS["base"],
    "SegaBERT large": segabert.RUNS["large"],
    "SegaBERT modern base": segabert.RUNS["modern_base"],
    "SLM base": slm.RUNS["base"],
    "Sega-XL base": sega_transformer_xl.RUNS["base"],
    "ReAT base": reat.RUNS["base"],
}
# Google's word pieces, and the words of WikiText-103, or what a CPU can handle.
_PIECES, _WORDS, _FEW_WORDS = 30_522, 267_735, 32_768
# Positions of an update: enough to keep a GPU busy, few for a CPU.
_POSITIONS = {"base": 32_768, "large": 16_384}
_POSITIONS_ON_CPU, _LAYERS_ON_CPU, _LONG_ON_CPU = 512, 2, 1_024


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One measurement.

    Attributes:
        engine: one of `ENGINES`. "pytorch" is transformers' `BertForMaskedLM`.
        model: a key of `_RUNS`. "pytorch" supports only BERT.
        length: number of positions in a row.
        bfloat16: whether layers compute in bfloat16, with weights in float32. If False,
            everything is float32.
        compiled: whether XLA or `torch.compile` compiles the step. If None, the
            engine's default.
        deterministic: whether only deterministic kernels are used. If None, the
            engine's default.
        packed: whether a row contains several windows.
        fused: whether attention has no dropout, as fused kernels require.
        small: whether to reduce the model and the batch, so that an update takes
            seconds on a CPU.
    """

    engine: str
    model: str
    length: int
    bfloat16: bool
    compiled: bool | None = None
    deterministic: bool | None = None
    packed: bool = False
    fused: bool = False
    small: bool = False

    @property
    def vocab_size(self) -> int:
        if self.model.startswith("Sega-XL"):
            return _FEW_WORDS if self.small else _WORDS
        return _PIECES

    @property
    def differences(self) -> list[str]:
        """Descriptions of the settings that are not the engine's defaults."""
        words = (
            ("compiled", "not compiled", self.compiled),
            ("deterministic", "not deterministic", self.deterministic),
            ("packed", "", self.packed or None),
            ("fused attention", "", self.fused or None),
        )
        return [yes if value else no for yes, no, value in words if value is not None]

    @property
    def name(self) -> str:
        """Unique name: engine, model, length, precision and `differences`."""
        precision = "bfloat16" if self.bfloat16 else "float32"
        words = [self.engine, self.model, f"{self.length:,}", precision]
        return ", ".join([*words, *self.differences])

    def config(self) -> RunConfig:
        """Returns the published run with this case's rows, precision and kernels."""
        run = _RUNS[self.model]
        model, inputs = run.model, run.inputs
        if self.model.startswith("Sega-XL"):
            rows = 2 if self.small else run.training.batch_size
            if self.small:
                model = replace(
                    model, num_layers=_LAYERS_ON_CPU, cutoffs=(4_096, 16_384)
                )
        elif self.model.startswith("ReAT"):
            rows = 1
            inputs = replace(
                inputs,
                row_length=self.length,
                sentences_per_row=self.length // 32,
                masking=_masking(self.length),
            )
            if self.small:
                model = replace(model, num_sentence_layers=1, num_alpha_layers=1)
        else:
            positions = _POSITIONS[self.model.split()[-1]]
            rows = (_POSITIONS_ON_CPU if self.small else positions) // self.length
            inputs = _windows(inputs, self.length, self.packed)
            model = replace(
                model,
                num_layers=_LAYERS_ON_CPU if self.small else model.num_layers,
                **({"attention_dropout": 0.0} if self.fused else {}),
            )
        return replace(
            run,
            model=model,
            inputs=inputs,
            training=replace(
                run.training,
                batch_size=rows,
                micro_batch_size=None,
                dtype_policy="mixed_bfloat16" if self.bfloat16 else "float32",
                jit_compile=self.compiled,
                deterministic_ops=self.deterministic,
            ),
        )


def all_cases(engines: Sequence[str], *, on_gpu: bool) -> list[Case]:
    """Returns all cases in order of importance, each on all engines that support it."""
    return [
        replace(case, engine=engine, small=not on_gpu)
        for case in _of_one_engine(on_gpu)
        for engine in engines
        if _exists(case, engine)
    ]


def _of_one_engine(on_gpu: bool) -> Iterator[Case]:
    def case(model: str, length: int, **settings: bool | None) -> Case:
        # The precision that one trains in: of a GPU, and of a CPU.
        settings.setdefault("bfloat16", on_gpu)
        return Case(engine="", model=model, length=length, **settings)

    for size in ("base", "large"):
        for length in (128, 512):
            yield case(f"BERT {size}", length)
            yield case(f"SegaBERT {size}", length)
        if size == "base":
            yield case("SegaBERT modern base", 128)
            yield case("SegaBERT modern base", 512)
            yield case("SLM base", 512)
            yield case("Sega-XL base", 150)
            yield case("ReAT base", 16_384 if on_gpu else _LONG_ON_CPU)
            for model in ("BERT base", "SegaBERT base"):
                yield case(model, 512, fused=True)
            yield case("SegaBERT base", 512, bfloat16=not on_gpu)
            yield case("BERT base", 512, bfloat16=not on_gpu)
            yield case("SegaBERT base", 512, compiled=not on_gpu)
            yield case("BERT base", 512, compiled=not on_gpu)
            yield case("SegaBERT base", 512, deterministic=on_gpu)
            yield case("SegaBERT base", 512, packed=True)
            yield case("SegaBERT base", 512, packed=True, fused=True)


def _exists(case: Case, engine: str) -> bool:
    if engine == "pytorch":
        return case.model.startswith("BERT")
    # JAX compiles in any case, and its kernels for CPUs are deterministic.
    is_default = case.compiled is None and (case.deterministic is not False)
    return engine == "tensorflow" or is_default


def _windows(inputs: WindowInputsConfig, length: int, packed: bool):
    if isinstance(inputs, SentenceInputsConfig):
        return replace(inputs, window_length=length - inputs.max_sentences)
    kind = PackedWindowInputsConfig if packed else WindowInputsConfig
    return kind(window_length=length, masking=_masking(length))


def _masking(length: int) -> MaskingConfig:
    return MaskingConfig(max_predictions=round(0.15 * length))
