"""Writes data/train.parquet and data/test.parquet: sums of small numbers."""

import random
from pathlib import Path

import pandas as pd


def row(split, index, rng):
    terms = [rng.randint(1, 60) for _ in range(rng.randint(2, 4))]
    question = " + ".join(map(str, terms)) + " = ?"
    return {
        "data_source": "sums",
        "prompt": [{"role": "user", "content": question + " Finish with a line 'Answer: <number>'."}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(sum(terms))},
        "extra_info": {"split": split, "index": index, "terms": len(terms)},
    }


if __name__ == "__main__":
    folder = Path(__file__).parent / "data"
    folder.mkdir(exist_ok=True)
    rng = random.Random(7)
    for split, count in (("train", 192), ("test", 32)):
        pd.DataFrame([row(split, index, rng) for index in range(count)]).to_parquet(folder / f"{split}.parquet")
