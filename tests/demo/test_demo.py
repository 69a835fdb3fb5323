"""The page: what a model answers, who may ask it, and clicks in a browser."""

import base64
import contextlib
import http.client
import io
import json
import re
import threading

import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.commands import demo
from seg_tf.commands.demo import MAX_SENTENCES, DemoModel
from seg_tf.inference import attention
from seg_tf.inference.masked_lm import MaskFiller
from seg_tf.inference.ordering import SentenceOrderer
from seg_tf.inference.texts import Sentence
from tests import command_calls
from tests.demo import browser
from tests.finetuning import tiny_models
from tests.inference.tiny_slm import SPLITTER

pytestmark = pytest.mark.slow

TEXT = "W1 w2 w3. W4 w5.\n\nW6 w7 w8 w9. W10."
SENTENCES = ["W1 w2 w3.", "W4 w5.", "W6 w7 w8 w9.", "W10."]


@pytest.fixture(name="model", scope="module")
def _model(run_dir):
    return DemoModel(load_pretrained(run_dir))


@contextlib.contextmanager
def serving(*arguments):
    """Serves at a free port, in a thread."""
    with demo.DemoServer(*arguments, 0) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        try:
            yield served.server_address[1]
        finally:
            served.shutdown()
            thread.join()


@pytest.fixture(name="port", scope="module")
def _port(model):
    with serving(model.describe(), model.answers()) as port:
        yield port


def ask(port, path, question=None, content=None, **headers):
    connection = http.client.HTTPConnection(demo.HOST, port)
    try:
        if question is None and content is None:
            connection.request("GET", path, headers=headers)
        else:
            headers = {"Content-Type": "application/json", **headers}
            body = json.dumps(question) if content is None else content
            connection.request("POST", path, body, headers)
        response = connection.getresponse()
        return response.status, response.read(), response.headers
    finally:
        connection.close()


def test_a_text_is_read_as_its_tree(model):
    found = model.read(TEXT)
    assert found["paragraphs"] == [
        [
            {"text": "W1 w2 w3.", "pieces": ["w1", "w2", "w3", "."]},
            {"text": "W4 w5.", "pieces": ["w4", "w5", "."]},
        ],
        [
            {"text": "W6 w7 w8 w9.", "pieces": ["w6", "w7", "w8", "w9", "."]},
            {"text": "W10.", "pieces": ["w10", "."]},
        ],
    ]
    assert found["num_pieces"] == 14


def test_attention_is_drawn_and_its_shares_are_those_of_the_layer(model, run_dir):
    found = model.attention(TEXT, layer=1)
    pretrained = load_pretrained(run_dir)
    tree = attention.read_tree(
        [line for line in TEXT.split("\n") if line], pretrained, SPLITTER
    )
    window = attention.lay_out(tree, pretrained)
    maps = attention.attention_maps(pretrained.encoder, window)
    expected = attention.attention_shares(maps.weights[1].mean(axis=0), window)
    assert found["shares"] == pytest.approx(dict(expected), rel=1e-5)
    kind, _, image = found["image"].partition(",")
    assert kind == "data:image/png;base64"
    command_calls.check_image(io.BytesIO(base64.b64decode(image)))
    assert found["num_sentences"] == found["num_sentences_of_text"] == 4
    long = model.attention("W1 w2 w3 w4 w5 w6 w7. " * 20)
    assert long["num_sentences"] < long["num_sentences_of_text"] == 20
    with pytest.raises(ValueError, match="layer=2"):
        model.attention(TEXT, layer=2)


def test_sentences_are_ordered_as_they_were_shuffled(model, run_dir):
    found = model.order(TEXT, seed=3)
    shuffled = found["shuffled"]
    assert found["sentences"] == SENTENCES
    assert sorted(shuffled) == [0, 1, 2, 3] != shuffled
    orderer = SentenceOrderer(load_pretrained(run_dir))
    given = [Sentence(SENTENCES[number], "") for number in shuffled]
    ((group,),) = orderer.order([given])
    assert found["found"] == [shuffled[place] for place in group.order]
    np.testing.assert_allclose(found["confidences"], group.confidences, rtol=1e-5)
    assert found["num_groups"] == 1
    assert len({tuple(model.order(TEXT, seed)["shuffled"]) for seed in range(9)}) > 3
    assert model.order(TEXT * 3)["num_groups"] > 1


def test_masks_are_filled(model, run_dir):
    text = "W1 [MASK] w3.\nW4 [MASK]."
    (expected,) = MaskFiller(load_pretrained(run_dir)).predict([text])
    found = model.masks(text)["masks"]
    assert [[one["piece"] for one in best] for best in found] == [
        [one.piece for one in best] for best in expected
    ]
    assert found[1][0]["probability"] == pytest.approx(expected[1][0].probability)
    with pytest.raises(ValueError, match=r"each hold a \[MASK\]"):
        model.masks(TEXT)


def test_neighbours_are_cosines_of_all_sentences(model):
    found = model.neighbours(f"{TEXT}\nW4 w5.")
    assert found["sentences"] == [*SENTENCES, "W4 w5."]
    cosines = np.array(found["cosines"])
    assert cosines.shape == (5, 5)
    np.testing.assert_allclose(np.diag(cosines), 1, atol=2e-4)
    np.testing.assert_allclose(cosines, cosines.T, atol=2e-4)
    # In another context it is another vector.
    assert cosines[1, 4] < 0.9999


@pytest.mark.parametrize(
    "ask_model", ["read", "attention", "masks", "order", "neighbours"]
)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" \n ", "1 to 500 sentences. Received: 3 characters, 0 sentences"),
        (5, "`text` must be a string. Received: 5"),
        ("w" * 50_001, "at most 50,000 characters.* Received: 50,001 characters"),
        ("W1.\n" * (MAX_SENTENCES + 1), "500 sentences. .* 501 sentences"),
    ],
)
def test_texts_that_cannot_be_read_are_refused(model, ask_model, text, message):
    with pytest.raises(ValueError, match=message):
        model.answers()[ask_model](text)


def test_wrong_layers_are_refused(model):
    for layer in ("1", 0.5, -1, 9, []):
        with pytest.raises(ValueError, match="`layer` must exist"):
            model.attention(TEXT, layer)


def test_a_model_says_what_it_cannot_do():
    window = DemoModel(tiny_models.tiny("segabert"))
    assert set(window.reasons) == {"masks", "order"}
    assert "unshuffle sentences" in window.reasons["order"]
    with pytest.raises(ValueError, match="unshuffle sentences"):
        window.order(TEXT)
    blocks = DemoModel(tiny_models.tiny("reat"))
    assert set(blocks.reasons) == {"attention", "masks", "order"}
    assert blocks.describe()["layers"] == 0
    assert len(blocks.neighbours(TEXT)["cosines"]) == 4
    assert len(blocks.read(TEXT)["paragraphs"]) == 2


def test_pages_and_answers_come_over_http(model, port):
    for path, kind in (("/", "html"), ("/page.css", "css"), ("/page.js", "javascript")):
        status, content, headers = ask(port, path)
        assert status == 200
        assert headers.get_content_subtype() == kind
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        # Nothing of elsewhere.
        assert not re.search(rb"(https?:)?//[a-z]", content.replace(b"// ", b""))
    status, content, _ = ask(port, "/model")
    assert json.loads(content) == model.describe()
    status, content, _ = ask(port, "/read", {"text": TEXT})
    assert (status, json.loads(content)) == (200, model.read(TEXT))


@pytest.mark.parametrize(
    ("path", "request_of", "status", "message"),
    [
        ("/read", {"question": {"text": ""}}, 400, "`text` must have"),
        ("/read", {"question": {}}, 400, "missing a required argument: 'text'"),
        ("/read", {"question": ["text"]}, 400, "Expected a JSON object"),
        ("/read", {"content": "[" * 200_000}, 400, "recursion"),
        ("/read", {}, 404, "There is no /read"),
        ("/read", {"content": "{}", "Content-Length": "9000000"}, 413, "1,000,000"),
        ("/read", {"content": "{}", "Content-Length": "-2"}, 413, "1,000,000"),
        ("/../demo.py", {}, 404, "There is no /../demo.py"),
        (
            "/read",
            {"question": {"text": TEXT}, "Content-Type": "text/plain"},
            415,
            "Expected application/json",
        ),
        (
            "/read",
            {"question": {"text": TEXT}, "Host": "elsewhere.example:80"},
            403,
            "Use http://127.0.0.1:",
        ),
    ],
)
def test_others_are_refused(port, path, request_of, status, message):
    found, content, headers = ask(port, path, **request_of)
    assert found == status
    assert message in json.loads(content)["error"]
    assert "Content-Security-Policy" in headers


def test_slow_answers_do_not_block_the_page():
    begun, go_on = threading.Semaphore(0), threading.Event()

    def wait(number):
        begun.release()
        go_on.wait(20)
        return {"number": number}

    with serving({}, {"wait": wait}) as port:
        threads = [
            threading.Thread(target=ask, args=[port, "/wait", {"number": number}])
            for number in (1, 2, 3)
        ]
        for thread in threads:
            thread.start()
        assert begun.acquire(timeout=20)
        assert begun.acquire(timeout=20)
        # A third question waits for its turn; the page does not.
        assert not begun.acquire(timeout=0.2)
        assert ask(port, "/")[0] == 200
        go_on.set()
        for thread in threads:
            thread.join()


def test_the_command_prints_an_address(run_dir, capsys, monkeypatch):
    monkeypatch.setattr(
        demo.http.server.ThreadingHTTPServer, "serve_forever", lambda _: None
    )
    command_calls.run(demo, f"--checkpoint={run_dir}", "--port=0")
    assert re.match(r"http://127\.0\.0\.1:\d+  \(press Ctrl-C", capsys.readouterr().out)


@pytest.mark.skipif(not browser.is_there(), reason="needs Chromium and chromedriver")
def test_clicks_in_a_browser(port, tmp_path):
    with browser.started(tmp_path / "profile") as window:
        window.open(f"http://{demo.HOST}:{port}/")
        window.wait("document.body.dataset.ready")
        window.type("#text", TEXT)
        window.click("#read-button")
        window.wait("document.querySelectorAll('.piece').length === 14")
        assert window.text(".paragraph:nth-child(2) .piece").split() == ["w6", "1·0·0"]
        assert "2 paragraphs, 4 sentences" in window.text("#read-result .sum")

        window.click("#layer option:nth-child(2)")
        window.click("#attention-button")
        window.wait("document.querySelector('#attention img')?.naturalWidth > 300")

        window.type("#masked-text", "W1 [MASK] w3.")
        window.click("#masks-button")
        window.wait("document.querySelectorAll('#masks td').length === 15")

        window.click("#order-button")
        window.wait("document.querySelectorAll('#order td.number').length === 16")
        assert re.match(r"\d of 4 in their true", window.text("#order-result .sum"))

        window.click("#neighbours-button")
        window.wait("document.querySelectorAll('#neighbours tr').length === 5")
        assert window.text("#neighbours .chosen") == SENTENCES[0]
        clicked = window.text("#neighbours tr:nth-child(4) td:nth-child(2)")
        window.click("#neighbours tr:nth-child(4)")
        assert window.text("#neighbours .chosen") == clicked != SENTENCES[0]

        window.type("#text", "<b>W1</b> w2.")
        window.click("#read-button")
        window.wait("document.querySelectorAll('.paragraph').length === 1")
        assert window.run("return document.querySelector('#read-result b')") is None
        window.type("#text", " ")
        window.click("#read-button")
        window.wait("document.querySelector('#error').textContent")
        assert "1 to 500 sentences" in window.text("#error")
        # All that was loaded came from here.
        loaded = window.run(
            "return performance.getEntriesByType('resource').map((one) => one.name)"
        )
        here = (f"http://{demo.HOST}:{port}/", "data:")
        assert loaded
        assert all(one.startswith(here) for one in loaded)
