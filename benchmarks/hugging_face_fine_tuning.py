"""Fine-tunes a model with a plain loop of PyTorch and transformers.

Run by `benchmarks.fine_tuning` with the Python of an environment that has both, because
transformers pins other versions of our packages. Reads a JSON object from standard
input and writes one with the losses and the dev outputs to standard output.
"""

import json
import sys

import numpy as np
import torch
import transformers


def main() -> None:
    job = json.load(sys.stdin)
    orders = np.random.default_rng(job["seed"])
    torch.manual_seed(job["seed"])
    if job["num_threads"]:
        torch.set_num_threads(job["num_threads"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(job["model_dir"])
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        job["model_dir"], num_labels=job["num_outputs"]
    )
    train, dev = job["train"], job["dev"]
    batch_size = job["batch_size"]
    per_epoch = -(-len(train) // batch_size)
    num_updates = per_epoch * job["epochs"]
    optimizer = torch.optim.AdamW(
        _groups(model, job["weight_decay"]), lr=job["learning_rate"], eps=job["epsilon"]
    )
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, round(job["warmup_share"] * num_updates), num_updates
    )
    losses = []
    model.train()
    for _ in range(job["epochs"]):
        order = orders.permutation(len(train))
        for begin in range(0, len(train), batch_size):
            examples = [train[number] for number in order[begin : begin + batch_size]]
            batch = _encode(tokenizer, examples, job["max_length"])
            dtype = torch.float if job["num_outputs"] == 1 else torch.long
            labels = torch.tensor(
                [example["label"] for example in examples], dtype=dtype
            )
            loss = model(**batch, labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), job["clip_norm"])
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    model.eval()
    outputs = []
    with torch.no_grad():
        for begin in range(0, len(dev), 64):
            batch = _encode(tokenizer, dev[begin : begin + 64], job["max_length"])
            outputs += model(**batch).logits.tolist()
    json.dump({"outputs": outputs, "losses": losses}, sys.stdout)


def _groups(model: torch.nn.Module, weight_decay: float) -> list[dict]:
    """Returns parameter groups, without weight decay for LayerNorm and biases."""
    decayed, undecayed = [], []
    for name, parameter in model.named_parameters():
        is_excluded = name.endswith(".bias") or "LayerNorm" in name
        (undecayed if is_excluded else decayed).append(parameter)
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": undecayed, "weight_decay": 0.0},
    ]


def _encode(tokenizer, examples: list[dict], max_length: int):
    return tokenizer(
        *(
            [example["texts"][number] for example in examples]
            for number in _numbers(examples)
        ),
        truncation=True,
        max_length=max_length,
        padding=True,
        return_tensors="pt",
    )


def _numbers(examples: list[dict]) -> range:
    return range(len(examples[0]["texts"]))


if __name__ == "__main__":
    main()
