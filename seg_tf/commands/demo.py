"""Serves a local page that shows what a pretrained model sees in a text.

  seg-tf demo --checkpoint=runs/slm_base

prints the address of a page: paragraphs, sentences and word pieces of a text with their
indices, heat maps of the attention, word pieces for masks, the sentences shuffled and
put in order (SLM), and the nearest sentences to each. What a model cannot do is greyed
out, with the reason.

The page listens on this machine only (127.0.0.1) and loads nothing from elsewhere. To
see it from another machine, forward the port: ssh -L 7860:127.0.0.1:7860 HOST.
"""

from collections.abc import Sequence

from absl import flags

from seg_tf import command_line
from seg_tf.commands import model_flags
from seg_tf.demo import server
from seg_tf.demo.server import DemoModel

# It can order sentences, too.
_INCLUDED = "segabert_slm_mini_en"


def define_flags() -> None:
    model_flags.define_model_flags(default=_INCLUDED)
    flags.DEFINE_integer("port", 7860, "Port of the page; 0 takes any.", 0, 65535)


def main(_: Sequence[str]) -> None:
    model = DemoModel(model_flags.load_model())
    port = flags.FLAGS.port
    with server.DemoServer(model.describe(), model.answers(), port) as served:
        host, port = served.server_address[:2]
        print(f"http://{host}:{port}  (Ctrl-C ends it)", flush=True)
        served.serve_forever()


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
