"""Measures one case of `benchmarks.accelerator` and prints the result as JSON."""

import contextlib
import fcntl
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.accelerator_cases import Case
from seg_tf.training import throughput

# Seconds that updates are counted for, in rounds, and the fewest of these.
_SECONDS, _ROUNDS = 4.0, 3


def main(case: Case, turn: str) -> None:
    """Measures a case and prints its figures, or the reason of its failure, as JSON.

    Args:
        case: the case.
        turn: path of a file that a process locks while it measures.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            result = measured(case, turn)
    except Exception as error:  # of any library, memory that is missing above all
        lines = str(error).strip().splitlines() or [""]
        result = {"failed": f"{type(error).__name__}: {lines[0][:200]}"}
    print(json.dumps(result))


def measured(case: Case, turn: str) -> dict[str, Any]:
    """Returns the figures of a case, by name."""
    if case.engine == "pytorch":
        update, wait, figures = _pytorch(case)
        # Its compiler hardly uses the device, and takes longest.
        first = _seconds_of_first(update, wait)
        with _locked(turn):
            seconds = _seconds_of_update(update, wait)
    else:
        update, wait, figures = _ours(case)
        # XLA measures kernels while it compiles.
        with _locked(turn):
            first = _seconds_of_first(update, wait)
            seconds = _seconds_of_update(update, wait)
    config = case.config()
    rows = config.training.batch_size
    per_update = throughput.flops_per_update(config, case.vocab_size)
    peak, source = figures.pop("peak")
    return {
        "rows": rows,
        "layers": _num_layers(config.model),
        "tokens_per_second": rows * config.inputs.row_length / seconds,
        "flops_per_second": per_update / seconds,
        "peak_flops_per_second": peak,
        "peak_source": source,
        "seconds_of_update": seconds,
        "seconds_of_first_two_updates": first,
        **figures["after"](),
    }


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Context manager that waits until it can lock a file."""
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _seconds_of_first(update: Callable[[], Any], wait: Callable[[], Any]) -> float:
    """Returns the seconds of the first two updates, which include compilation."""
    begin = time.perf_counter()
    for _ in range(2):
        update()
        wait()
    return time.perf_counter() - begin


def _seconds_of_update(update: Callable[[], Any], wait: Callable[[], Any]) -> float:
    """Returns the seconds per update, as the median over `_ROUNDS` rounds."""
    begin = time.perf_counter()
    update()
    wait()
    once = time.perf_counter() - begin
    number = max(1, round(_SECONDS / _ROUNDS / once))
    rounds = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        for _ in range(number):
            update()
        wait()
        rounds.append((time.perf_counter() - begin) / number)
    return statistics.median(rounds)


def _num_layers(model: Any) -> int:
    names = ("num_layers", "num_sentence_layers", "num_alpha_layers")
    return sum(getattr(model, name, 0) for name in names)


def _ours(case: Case) -> tuple[Callable[[], Any], Callable[[], Any], dict[str, Any]]:
    """Returns functions that start and finish an update of seg_tf, and its figures."""
    from benchmarks import made_batches
    from seg_tf.training import build, engine

    config = case.config()
    current = engine.current()
    current.set_determinism(config.training, print)
    batch = made_batches.make_batch(config, case.vocab_size, config.training.batch_size)
    learner = build.build_learner_from_batch(config, case.vocab_size, batch)

    def next_batch() -> made_batches.Batch:
        return batch

    peak = throughput.find_peak("bfloat16" if case.bfloat16 else "float32")

    def after() -> dict[str, Any]:
        use = throughput.memory_use()
        return {
            "device": current.gpu_name() or "CPU",
            "compiled": current.compiles(config.training),
            "memory_peak_bytes": use.get(
                "gpu_memory_peak_bytes", use["host_memory_peak_bytes"]
            ),
        }

    figures = {"peak": peak, "after": after}
    # As in a run: an update is computed while the next one is prepared.
    return (
        lambda: learner.start_update(next_batch),
        lambda: learner.finish_update(next_batch),
        figures,
    )


def _pytorch(case: Case) -> tuple[Callable[[], Any], Callable[[], Any], dict[str, Any]]:
    """Returns the same as `_ours` for transformers' `BertForMaskedLM`."""
    import torch
    import transformers

    from benchmarks import made_batches, peak_memory

    config, rows = case.config(), case.config().training.batch_size
    model_config = config.model
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.use_deterministic_algorithms(bool(case.deterministic))
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM._from_config(
        transformers.BertConfig(
            vocab_size=case.vocab_size,
            hidden_size=model_config.hidden_size,
            num_hidden_layers=model_config.num_layers,
            num_attention_heads=model_config.num_heads,
            intermediate_size=model_config.intermediate_size,
            attention_probs_dropout_prob=0.0 if case.fused else model_config.dropout,
            hidden_dropout_prob=model_config.dropout,
        ),
        attn_implementation="sdpa",
    )
    model = model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    is_compiled = on_gpu if case.compiled is None else case.compiled
    forward = torch.compile(model) if is_compiled else model
    batch = made_batches.make_batch(config, case.vocab_size, rows)
    ids = torch.tensor(batch["token_ids"], dtype=torch.long, device=device)
    labels = torch.full_like(ids, -100)
    places = torch.tensor(batch["masked_positions"], dtype=torch.long, device=device)
    targets = torch.tensor(batch["masked_ids"], dtype=torch.long, device=device)
    labels.scatter_(1, places, targets)
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=case.bfloat16)

    def update() -> None:
        with autocast:
            loss = forward(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def peak() -> tuple[float, str]:
        dtype = "bfloat16" if case.bfloat16 else "float32"
        if on_gpu:
            known = throughput.peak_by_name(torch.cuda.get_device_name(), dtype)
            if known:
                return known, "data sheet"
        return throughput.measure_peak(dtype), "measured"

    def after() -> dict[str, Any]:
        return {
            "device": torch.cuda.get_device_name() if on_gpu else "CPU",
            "compiled": is_compiled,
            "memory_peak_bytes": memory(),
        }

    memory = torch.cuda.max_memory_allocated if on_gpu else peak_memory.of_process
    wait: Callable[[], Any] = torch.cuda.synchronize if on_gpu else (lambda: None)
    figures: Mapping[str, Any] = {"peak": peak(), "after": after}
    return update, wait, dict(figures)
