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


def told(name, outcome, text):
    """A line a test, for those who count them."""
    if path := os.environ.get("RREDCOT_PYTEST"):
        with open(path, "a", encoding="utf8") as file:
            file.write(json.dumps({"name": name, "outcome": outcome, "text": text}) + "\n")


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        told(report.nodeid, report.outcome, report.longrepr[2] if report.skipped else report.longreprtext)


def pytest_sessionfinish(session):
    # a process that a library has ended does not come here
    told("all", "passed", str(session.testscollected))
