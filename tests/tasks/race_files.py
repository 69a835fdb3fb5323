"""Made files of RACE's published form."""

import json


def write_passage(folder, split, level, number, **changed):
    path = folder / "RACE" / split / level / f"{number}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    passage = {
        "article": "w1 w2 . w3 w4",
        "questions": ["w5 _ w6", "w7"],
        "options": [["w8", "w9", "w10", "w11"], ["w12", "w13", "w14", "w15 w16"]],
        "answers": ["C", "A"],
        "id": f"{level}{number}.txt",
    }
    path.write_text(json.dumps({**passage, **changed}))
    return path


def write_all(folder, num_passages=2):
    for split in ("train", "dev", "test"):
        for level in ("middle", "high"):
            for number in range(num_passages):
                write_passage(folder, split, level, number)
