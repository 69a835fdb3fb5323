"""Serves a local web page that shows how a pretrained model reads a text.

  seg-tf demo --checkpoint=runs/slm_base

prints the URL of a page with the word pieces of a text and their indices, attention
heat maps, predictions for masked word pieces, reordered sentences (SLM) and nearest
neighbors of sentences. Sections that the model does not support show the reason.

The server listens only on this machine (127.0.0.1), and the page loads nothing from
other hosts. To use another machine, forward the port: ssh -L 7860:127.0.0.1:7860 HOST.
"""

import base64
import contextlib
import functools
import http.server
import inspect
import io
import json
import pathlib
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import numpy as np
from absl import flags

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags
from seg_tf.inference import attention
from seg_tf.inference.attention import AttentionMaps, attention_shares
from seg_tf.inference.masked_lm import MaskFiller
from seg_tf.inference.ordering import SentenceOrderer
from seg_tf.inference.sentence_encoder import (
    SentenceEncoder,
    cosine_warning,
    mean_cosine,
)
from seg_tf.inference.texts import Sentence, in_context, split_text

# This model can also order sentences.
_INCLUDED = "segabert_slm_mini_en"
HOST = "127.0.0.1"
_FOLDER = pathlib.Path(__file__).parent
_FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
_JSON = "application/json"
_MAX_BYTES = 1_000_000
_ANSWERS_AT_ONCE = 2
_HEADERS = {
    # Load nothing from other hosts, and let no other page frame this one.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src "
    "'self'; img-src 'self' data:; connect-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Answer = Callable[..., Mapping[str, Any]]


class _Refusal(Exception):
    """A refused request, with its HTTP status and message."""


class DemoServer(http.server.ThreadingHTTPServer):
    """HTTP server of the demo page, reachable only from this machine.

    `GET /model` returns `description`. `POST /NAME` calls `answers[NAME]` with the
    fields of a JSON object, and reports a ValueError as a bad request. At most two
    calls run at a time. Port 0 selects any free port.
    """

    def __init__(
        self, description: Mapping[str, Any], answers: Mapping[str, Answer], port: int
    ):
        self.description = description
        self.answers = answers
        self.turns = threading.BoundedSemaphore(_ANSWERS_AT_ONCE)
        super().__init__((HOST, port), _PageHandler)


class _PageHandler(http.server.BaseHTTPRequestHandler):
    server: DemoServer
    timeout = 30  # seconds of inactivity before a connection is closed

    def handle(self) -> None:
        # Ignore clients that disconnect before they are answered.
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        self._respond(self._get)

    def do_POST(self) -> None:
        self._respond(self._post)

    def _respond(self, make: Callable[[str], tuple[bytes, str]]) -> None:
        status = HTTPStatus.OK
        try:
            port = self.server.server_address[1]
            if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
                # The name of another site may resolve to this machine.
                raise _Refusal(HTTPStatus.FORBIDDEN, f"Use http://{HOST}:{port}")
            content, kind = make(self.path.partition("?")[0])
        except _Refusal as refusal:
            status, message = refusal.args
            content, kind = json.dumps({"error": message}).encode(), _JSON
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _get(self, path: str) -> tuple[bytes, str]:
        if path == "/model":
            return json.dumps(self.server.description).encode(), _JSON
        if path not in _FILES:
            raise _Refusal(HTTPStatus.NOT_FOUND, f"There is no {path}")
        name, kind = _FILES[path]
        return (_FOLDER / name).read_bytes(), kind

    def _post(self, path: str) -> tuple[bytes, str]:
        answer = self.server.answers.get(path.removeprefix("/"))
        size = self.headers.get("Content-Length", "")
        if answer is None:
            raise _Refusal(HTTPStatus.NOT_FOUND, f"There is no {path}")
        # Forms on other sites can send other types without permission.
        if self.headers.get_content_type() != _JSON:
            raise _Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Expected {_JSON}")
        if not (size.isdecimal() and len(size) < 9 and int(size) <= _MAX_BYTES):
            message = f"Expected a Content-Length of at most {_MAX_BYTES:,} bytes"
            raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        try:
            fields = json.loads(self.rfile.read(int(size)))
            inspect.signature(answer).bind(**fields)
        except (ValueError, TypeError, RecursionError) as error:
            message = f"Expected a JSON object with the fields of {path}: {error}"
            raise _Refusal(HTTPStatus.BAD_REQUEST, message) from error
        try:
            with self.server.turns:
                return json.dumps(answer(**fields)).encode(), _JSON
        except ValueError as error:
            raise _Refusal(HTTPStatus.BAD_REQUEST, str(error)) from error

    def log_message(self, *_: Any) -> None:
        """Suppresses the log line of each request."""


_DOTS_PER_INCH = 160
# Limit time and memory: the number of cosines is quadratic in the sentences.
MAX_CHARACTERS = 50_000
MAX_SENTENCES = 500

EXAMPLE = """\
Charles Babbage was an English mathematician. He wanted to compute tables by steam. \
In 1822 he began work on a machine that he called the difference engine.
It was never finished. The government stopped paying for it. \
He died in 1871 at his home in London."""


class DemoModel:
    """A pretrained encoder that computes what the page shows about a text.

    Each line of a text is a paragraph. A ValueError is raised if the checkpoint is not
    a text encoder, or if a text is not a string, is empty or is too long. `reasons`
    maps each section that the model does not support to the reason.
    """

    def __init__(self, pretrained: Pretrained):
        self._pretrained = pretrained
        self._splitter = pretrained.splitter()
        self._encoder = SentenceEncoder(pretrained)
        self.reasons: dict[str, str] = {}
        self._parts: dict[str, Any] = {}
        for part, make in (
            ("attention", attention.window_capacity),
            ("order", SentenceOrderer),
            ("masks", MaskFiller),
        ):
            try:
                self._parts[part] = make(pretrained)
            except ValueError as error:
                self.reasons[part] = str(error)
        # Cache only the last text: the maps of a base model take 150 MB.
        self._maps = functools.lru_cache(maxsize=1)(self._compute_maps)

    def describe(self) -> dict[str, Any]:
        """Returns the description of the model that `GET /model` sends."""
        encoder = self._pretrained.encoder
        return {
            "run": self._pretrained.config.name,
            "checkpoint": str(self._pretrained.folder),
            "model": type(encoder).__name__,
            "features": list(encoder.feature_names),
            "layers": 0 if "attention" in self.reasons else encoder.num_layers,
            "reasons": self.reasons,
            "example": EXAMPLE,
        }

    def answers(self) -> Mapping[str, Callable[..., dict[str, Any]]]:
        """Returns the methods that `POST /NAME` calls, by name."""
        return {
            "read": self.read,
            "attention": self.attention,
            "masks": self.masks,
            "order": self.order,
            "neighbours": self.neighbours,
        }

    def read(self, text: str) -> dict[str, Any]:
        """Returns the word pieces of a text, by paragraph and sentence."""
        sentences = self._sentences(text)
        ids, lengths = self._pretrained.text_encoder().encode(
            [sentence.text for sentence in sentences]
        )
        paragraphs: list[list[dict[str, Any]]] = []
        for sentence, pieces in zip(
            sentences, np.split(ids, np.cumsum(lengths)[:-1]), strict=True
        ):
            if sentence.paragraph == len(paragraphs):
                paragraphs.append([])
            tokens = self._pretrained.vocabulary.tokens_of(pieces)
            paragraphs[-1].append({"text": sentence.text, "pieces": tokens})
        return {
            "paragraphs": paragraphs,
            "num_pieces": len(ids),
            "capacity": self._encoder.layout.text_capacity.num_pieces,
        }

    def attention(self, text: str, layer: int = 0) -> dict[str, Any]:
        """Returns an image of a layer's mean attention, and its fraction per target.

        If the text is longer than a row, only its first sentences are used.
        """
        self._part("attention")
        num_sentences = len(self._sentences(text))
        maps = self._maps(text)
        if layer not in range(len(maps.weights)):
            raise ValueError(
                f"`layer` must exist in the model. Received: layer={layer!r}"
            )
        figure = attention.heat_maps({self._pretrained.config.name: maps}, [layer], "")
        png = io.BytesIO()
        figure.savefig(png, format="png", dpi=_DOTS_PER_INCH, bbox_inches="tight")
        encoded = base64.b64encode(png.getvalue()).decode()
        return {
            "image": f"data:image/png;base64,{encoded}",
            "shares": attention_shares(maps.map(layer), maps.window),
            "uniform": attention_shares(maps.uniform(), maps.window),
            "num_sentences": maps.window.num_sentences,
            "num_sentences_of_text": num_sentences,
        }

    def masks(self, text: str) -> dict[str, Any]:
        """Returns the most probable word pieces for each `[MASK]` of a text."""
        filler = self._part("masks")
        self._sentences(text)
        (masks,) = filler.predict([text])
        return {"masks": [[filling._asdict() for filling in best] for best in masks]}

    def order(self, text: str, seed: int = 0) -> dict[str, Any]:
        """Shuffles the sentences of a text, and returns the predicted order."""
        orderer = self._part("order")
        sentences = self._sentences(text)
        numbers = list(range(len(sentences)))
        random.Random(seed).shuffle(numbers)
        # One paragraph: the true paragraphs would reveal the order.
        shuffled = [Sentence(sentences[number].text) for number in numbers]
        (groups,) = orderer.order([shuffled])
        return {
            "sentences": [sentence.text for sentence in sentences],
            "shuffled": numbers,
            "found": [numbers[place] for group in groups for place in group.order],
            "confidences": [value for group in groups for value in group.confidences],
            "num_groups": len(groups),
        }

    def neighbours(self, text: str) -> dict[str, Any]:
        """Returns the cosine similarities of all pairs of sentences.

        A sentence's vector is the mean over its word pieces or, for ReAT, the pooled
        `<SS>`. `warning` is set if the cosines hardly distinguish the sentences.
        """
        sentences = self._sentences(text)
        # [SENT] vectors are nearly identical after pretraining on little text.
        kind = "mean" if self._encoder.layout.holds_spans else None
        vectors, _ = self._encoder.encode_in_context(list(in_context(sentences)), kind)
        cosines = np.round((vectors @ vectors.T).astype(float), 4)
        return {
            "sentences": [sentence.text for sentence in sentences],
            "cosines": cosines.tolist(),
            "warning": cosine_warning(mean_cosine(vectors)),
        }

    def _compute_maps(self, text: str) -> AttentionMaps:
        paragraphs = [line for line in text.split("\n") if line.strip()]
        tree = attention.read_tree(paragraphs, self._pretrained, self._splitter)
        beginning = attention.first_window(tree, self._part("attention"))
        window = attention.lay_out(beginning, self._pretrained)
        return attention.attention_maps(self._pretrained.encoder, window)

    def _sentences(self, text: str) -> list[Sentence]:
        if not isinstance(text, str):
            raise ValueError(f"`text` must be a string. Received: {text!r:.99}")
        sentences = split_text(text[: MAX_CHARACTERS + 1], self._splitter)
        if len(text) > MAX_CHARACTERS or not 0 < len(sentences) <= MAX_SENTENCES:
            raise ValueError(
                f"`text` must have at most {MAX_CHARACTERS:,} characters, and 1 to "
                f"{MAX_SENTENCES} sentences. Received: {len(text):,} characters, "
                f"{len(sentences):,} sentences"
            )
        return sentences

    def _part(self, name: str) -> Any:
        if name in self.reasons:
            raise ValueError(self.reasons[name])
        return self._parts[name]


def define_flags() -> None:
    model_flags.define_model_flags(default=_INCLUDED)
    flags.DEFINE_integer("port", 7860, "Port; 0 selects any free port.", 0, 65535)


def main(_: Sequence[str]) -> None:
    model = DemoModel(model_flags.load_model())
    port = flags.FLAGS.port
    with DemoServer(model.describe(), model.answers(), port) as served:
        host, port = served.server_address[:2]
        print(f"http://{host}:{port}  (press Ctrl-C to stop)", flush=True)
        served.serve_forever()
