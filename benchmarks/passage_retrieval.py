r"""Measures recall of SQuAD paragraphs encoded in the context of the article or alone.

  python -m benchmarks.passage_retrieval --checkpoint=segabert_mini_en,runs/minilm

An article is a document whose paragraphs are the passages. For each question, all
passages of all articles are ranked by the cosine of the vectors. Recall@k is the
fraction of questions whose passage is among the first k. Standard errors are over
articles, because questions on one article are correlated. "Centred" means that the mean
of all questions is subtracted from each question, and likewise for passages.
"""

import json
import pathlib
from collections.abc import Sequence

import numpy as np
from absl import app, flags

from benchmarks.sample_data import SAMPLE_DATA
from seg_tf import SentenceEncoder

_RANKS = (1, 5, 20)


def unit(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(norms, 1e-9)


def recalls(
    queries_QD: np.ndarray, passages_PD: np.ndarray, answers_Q: np.ndarray
) -> np.ndarray:
    """Returns whether each query's passage is among the first k: `(Q, len(_RANKS))`."""
    cosines_QP = unit(queries_QD) @ unit(passages_PD).T
    own_Q1 = np.take_along_axis(cosines_QP, answers_Q[:, None], axis=1)
    ranks_Q = (cosines_QP > own_Q1).sum(axis=1)
    return ranks_Q[:, None] < np.array(_RANKS)


def mean_and_error(values_Q: np.ndarray, articles_Q: np.ndarray) -> tuple[float, float]:
    """Returns the mean over questions and its standard error over articles."""
    mean = float(values_Q.mean())
    sums = np.bincount(articles_Q, values_Q - mean)
    return mean, float(np.sqrt(np.sum(sums**2)) / len(values_Q))


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    articles = json.loads(pathlib.Path(values.squad).read_text("utf-8"))["data"]
    documents, questions, answers, article_of = [], [], [], []
    num_passages = 0
    for number, article in enumerate(articles):
        contexts = [
            " ".join(paragraph["context"].split())
            for paragraph in article["paragraphs"]
        ]
        documents.append("\n".join(contexts))
        for place, paragraph in enumerate(article["paragraphs"], start=num_passages):
            questions += [question["question"] for question in paragraph["qas"]]
            answers += [place] * len(paragraph["qas"])
            article_of += [number] * len(paragraph["qas"])
        num_passages += len(contexts)
    print(
        f"{len(articles)} articles, {num_passages:,} passages, {len(questions):,} "
        f"questions of {values.squad}"
    )
    titles = [f"recall@{rank}" for rank in _RANKS]
    print(f"{'':52}" + "".join(f"{title:>16}" for title in titles))
    for checkpoint in values.checkpoint:
        encoder = SentenceEncoder.from_preset(checkpoint)
        queries = encoder.encode(questions)
        encoded = {
            "passages alone": encoder.encode("\n".join(documents).split("\n")),
            "passages in context": np.concatenate(
                [encoder.encode_passages(document).vectors for document in documents]
            ),
        }
        hits = {}
        for name, vectors in encoded.items():
            for suffix, means in (
                ("", (0, 0)),
                (", centred", (queries.mean(axis=0), vectors.mean(axis=0))),
            ):
                hits[name + suffix] = recalls(
                    queries - means[0], vectors - means[1], np.array(answers)
                ).astype(float)
        _, alone, _, in_context = hits.values()
        for name, values_QR in {
            **hits,
            "difference, centred": in_context - alone,
        }.items():
            cells = [
                mean_and_error(column, np.array(article_of)) for column in values_QR.T
            ]
            line = "".join(f"{f'{m:.1%} ± {e:.1%}':>16}" for m, e in cells)
            print(f"{f'{pathlib.Path(checkpoint).name}, {name}':52}{line}", flush=True)


if __name__ == "__main__":
    flags.DEFINE_list(
        "checkpoint",
        ["bert_mini_en", "segabert_mini_en", "segabert_slm_mini_en"],
        "Encoders, comma-separated.",
    )
    flags.DEFINE_string(
        "squad",
        str(SAMPLE_DATA / "squad" / "dev-v1.1.reconstructed.json"),
        "SQuAD file whose articles have several paragraphs.",
    )
    app.run(main)
