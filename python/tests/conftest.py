"""Runs in an environment where the wheel is installed and no Node is on the path: test/system/wheel.long.test.ts makes it."""
import json
import os
import pathlib
import shutil

import pytest

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def traces():
    """Sixteen rows of two groups of the bundled traces."""
    with open(CHECKOUT / "fixtures/chains.jsonl", encoding="utf8") as file:
        return [json.loads(next(file)) for _ in range(16)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pytest_configure():
    assert shutil.which("node") is None or "RREDCOT_PYTEST" not in os.environ, "a Node on the path would hide that ours is not found"


def pytest_runtest_logreport(report):
    """A line a test, for those who count them."""
    path = os.environ.get("RREDCOT_PYTEST")
    if path is None or not (report.when == "call" or report.outcome != "passed"):
        return
    text = report.longrepr[2] if report.skipped else report.longreprtext
    with open(path, "a", encoding="utf8") as file:
        file.write(json.dumps({"name": report.nodeid, "outcome": report.outcome, "text": text}) + "\n")
