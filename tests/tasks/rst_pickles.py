"""Files of RST-DT in DiscoEval's form, made up: the words give the relation away."""

import pickle

import numpy as np

from tests.inference.tiny_slm import WORDS

RELATIONS = ("NS-Elaboration", "SN-Attribution", "NN-Joint")


def write(folder, seed=1, **sizes):
    """`RST_TRAIN.pkl` and so on, of so many nodes each; returns them by split."""
    generator = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for split, size in sizes.items():
        found[split] = [_node(generator) for _ in range(size)]
        content = pickle.dumps(found[split], protocol=2)
        (folder / f"RST_{split.upper()}.pkl").write_bytes(content)
    return found


def _node(generator):
    number = int(generator.integers(len(RELATIONS)))
    first, second = (
        [
            f"{WORDS[3 * side + number]} {generator.choice(WORDS[20:23])}"
            for _ in range(int(generator.integers(1, 5)))
        ]
        for side in range(2)
    )
    return RELATIONS[number], first, second
