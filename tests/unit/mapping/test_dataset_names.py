"""Names of the evaluation data sets."""

from __future__ import annotations

import pytest
from migrate_tools.mapping.evaluation import dataset_names
from migrate_tools.model import DataFile


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["$HOME/data/gsm8k/test.parquet"], ["gsm8k"]),
        (["${DATA_HOME:-data}/test.parquet"], ["sums"]),
        (["${DATA_HOME:-/mnt/aime}/val.parquet"], ["aime"]),
        (["${EVAL_FILE}"], ["sums"]),
        (["/d/aime-2024.parquet", "/e/aime-2024.parquet"], ["aime-2024", "aime-2024_1"]),
    ],
)
def test_name(texts: list[str], names: list[str]) -> None:
    assert dataset_names(tuple(DataFile(text=text) for text in texts), "sums") == names
