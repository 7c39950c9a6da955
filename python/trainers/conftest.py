"""Each file runs in an environment that has its trainer (environments.json): test/system/trainers-real.long.test.ts makes them, with the
versions that are pinned there; newest.py with the newest."""
import importlib.machinery
import json
import os
import pathlib
import sys
import types

import pytest

os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", RAY_USAGE_STATS_ENABLED="0")

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
POLICY = CHECKOUT / "models/embedded"


class Absent(types.ModuleType):
    """What a trainer imports and only a machine with a GPU has: a module of names, of which nothing under test may make use."""

    def __init__(self, name):
        super().__init__(name)
        self.__path__, self.__version__, self.__spec__ = [], "0", importlib.machinery.ModuleSpec(name, None)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def used(*_, **__):
            raise AssertionError(f"{self.__name__}.{name} was used, which is not there")

        return type(name, (), {"__init__": used, "__class_getitem__": used})


def absent(*names):
    sys.modules.update({name: Absent(name) for name in names})


def checkout(trainer, *folders):
    """Puts the source of a trainer that is in no registry where `import` finds it; its tests are skipped where no variable names it."""
    path = os.environ.get(f"RREDCOT_{trainer}")
    if path is None:
        pytest.skip(f"RREDCOT_{trainer}=<checkout> names its source", allow_module_level=True)
    sys.path[:0] = [os.path.join(path, folder) for folder in folders]


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


def advantage(row, rows, epsilon):
    """GRPO's, by hand."""
    group = [each["reward"] for each in rows if each["group"] == row["group"]]
    mean = sum(group) / len(group)
    return (row["reward"] - mean) / ((sum((r - mean) ** 2 for r in group) / (len(group) - 1)) ** 0.5 + epsilon)


def expected(row, rows, epsilon=1e-6):
    """A·σ·T of each token."""
    return [advantage(row, rows, epsilon) * sigma * len(row["sigma"]) for sigma in row["sigma"]]


def pytest_runtest_logreport(report):
    """A line a test, for those who count them."""
    path = os.environ.get("RREDCOT_PYTEST")
    if path and (report.when == "call" or report.outcome != "passed"):
        text = report.longrepr[2] if report.skipped else report.longreprtext
        with open(path, "a", encoding="utf8") as file:
            file.write(json.dumps({"name": report.nodeid, "outcome": report.outcome, "text": text}) + "\n")
