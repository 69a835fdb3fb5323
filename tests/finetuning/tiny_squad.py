"""SQuAD of made-up words, a word a piece, and a model that knows all the answers."""

import json

import keras
import numpy as np

from tests.inference.tiny_slm import VOCABULARY, WORDS

# No word is in a context twice, and none of a question is in a context.
CONTEXT_WORDS, QUESTION_WORDS = WORDS[:50], WORDS[50:]
LOGIT = 10.0


def random_context(generator, num_words=50):
    """Paragraphs of sentences of words, and where each word begins and ends."""
    words = generator.choice(CONTEXT_WORDS, num_words, replace=False)
    text, places = "", []
    while len(places) < num_words:
        if text:
            text += "\n" if generator.random() < 0.3 else " "
        length = min(int(generator.integers(3, 10)), num_words - len(places))
        for number in range(length):
            word = words[len(places)]
            word = f" {word}" if number else word.capitalize()
            text += word
            places.append((len(text) - len(word.strip()), len(text)))
        text += "."
    return text, places


def random_file(seed, num_contexts, version, longest_answer=12, num_words=50):
    """A SQuAD file with questions of all kinds, as JSON."""
    generator = np.random.default_rng(seed)
    paragraphs = []
    for number in range(num_contexts):
        text, places = random_context(generator, num_words)
        asked = []
        for part in range(5):
            question = {
                "id": f"{number}-{part}",
                # Questions are told apart by their words.
                "question": " ".join(
                    QUESTION_WORDS[int(digit)] for digit in f"{number:02}{part}"
                ),
                "answers": [],
            }
            if version == "v2.0":
                question["is_impossible"] = part == 0
            if not question.get("is_impossible"):
                first = int(generator.integers(0, num_words))
                last = first + int(generator.integers(0, longest_answer))
                start, stop = places[first][0], places[min(last, num_words - 1)][1]
                answer = {"text": text[start:stop], "answer_start": start}
                question["answers"] = [answer]
            asked.append(question)
        paragraphs.append({"context": text, "qas": asked})
    return {"version": version, "data": [{"title": "t", "paragraphs": paragraphs}]}


def rule_file(seed, num_contexts):
    """A SQuAD 2.0 of a rule: w50 asks for "w0 w10", w51 for "w1 w11", and so on.

    Each context has five such pairs, and five other words. The first question of each
    context is about a pair that is not in it.
    """
    generator = np.random.default_rng(seed)
    paragraphs = []
    for number in range(num_contexts):
        pairs = generator.permutation(10)
        parts = [f"w{one} w{10 + one}" for one in pairs[:5]]
        parts += generator.choice(WORDS[20:50], 5, replace=False).tolist()
        text = " ".join(generator.permutation(parts)) + "."
        asked = []
        for part, one in enumerate(pairs[:5]):
            answer = f"w{one} w{10 + one}"
            answers = [{"text": answer, "answer_start": text.index(answer)}]
            question = {"id": f"{number}-{part}", "answers": answers}
            question["is_impossible"] = part == 0
            if part == 0:
                one, question["answers"] = pairs[5], []
            asked.append({**question, "question": f"w{50 + one}"})
        paragraphs.append({"context": text, "qas": asked})
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}


def write_files(folder, version, **contents):
    """Files of splits, by their official names."""
    for split, content in contents.items():
        (folder / f"{split}-{version}.json").write_text(json.dumps(content))
    return folder


class Omniscient:
    """Takes the place of a `SpanExtractor`: surest at the ends of the answers.

    It finds a question by the words that are in no context, and the ends of its answer
    by the words that stand there, wherever the row has them.
    """

    def __init__(self, content):
        self.ends = {}
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                for asked in paragraph["qas"]:
                    words = [one["text"].split() for one in asked["answers"]]
                    self.ends[asked["question"]] = [
                        (_id_of(one[0]), _id_of(one[-1])) for one in words
                    ]

    def fit(self, *_, **__):
        return keras.callbacks.History()

    def predict_on_batch(self, batch):
        token_ids = np.asarray(batch["token_ids"])
        outputs = {name: np.zeros(token_ids.shape) for name in ("start", "end")}
        if "candidate_positions" in batch:
            outputs["sentence"] = np.zeros(batch["candidate_positions"].shape)
        for row, ids in enumerate(token_ids.tolist()):
            words = (VOCABULARY.tokens[one] for one in ids)
            question = " ".join(one for one in words if one in QUESTION_WORDS)
            first = last = 0
            for of_first, of_last in self.ends[question]:
                if of_first in ids and of_last in ids:
                    first, last = ids.index(of_first), ids.index(of_last)
            outputs["start"][row, first] = outputs["end"][row, last] = LOGIT
        return outputs


def _id_of(word):
    return VOCABULARY.tokens.index(word.strip(".").lower())
