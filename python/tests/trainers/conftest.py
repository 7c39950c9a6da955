"""Runs in an environment that has a trainer: python/trainers.py makes one for each, and test/system/trainers-real.long.test.ts runs them."""
import os
import pathlib

import pytest

os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", RAY_USAGE_STATS_ENABLED="0")

CHECKOUT = pathlib.Path(__file__).resolve().parents[3]
POLICY = CHECKOUT / "models/embedded"


@pytest.fixture(scope="session")
def scored(tmp_path_factory):
    """Sixteen rows of two groups of the bundled traces, scored into a Parquet file."""
    import pyarrow.parquet

    import rredcot

    path = tmp_path_factory.mktemp("scored") / "scored.parquet"
    pyarrow.parquet.write_table(rredcot.score(CHECKOUT / "fixtures/chains.jsonl", limit=16), path)
    return path


@pytest.fixture(scope="session")
def rows(scored):
    from rredcot._scored import scored_rows

    return scored_rows(scored)


@pytest.fixture
def live(monkeypatch, scored):
    """Flags with which what a trainer samples is scored as the file was."""
    return {"policy": str(POLICY)}


def advantage(row, rows, epsilon):
    """GRPO's, by hand."""
    group = [each["reward"] for each in rows if each["group"] == row["group"]]
    mean = sum(group) / len(group)
    return (row["reward"] - mean) / ((sum((r - mean) ** 2 for r in group) / (len(group) - 1)) ** 0.5 + epsilon)


def expected(row, rows, epsilon=1e-6):
    """A·σ·T of each token."""
    return [advantage(row, rows, epsilon) * sigma * len(row["sigma"]) for sigma in row["sigma"]]
