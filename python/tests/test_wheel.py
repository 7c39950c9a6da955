"""The command that the wheel installs: the npm package's own bytes, its files found, its signals, its licences, its pins."""
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from conftest import CHECKOUT
from rredcot import _node

COMMAND = str(pathlib.Path(sys.executable).parent / "rredcot")
MANIFEST = json.loads((CHECKOUT / "package.json").read_text(encoding="utf8"))


def rredcot(*args):
    return subprocess.run([COMMAND, *args], capture_output=True, text=True, check=False)


@pytest.fixture
def rows(folder, traces):
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in traces))
    return folder / "rows.jsonl"


def test_its_version_is_the_npm_package_s():
    assert rredcot("--version").stdout.strip() == MANIFEST["version"] == importlib.metadata.version("rredcot")


def test_it_writes_the_bytes_of_the_checkout(rows, folder):
    done = rredcot("score", str(rows), "-o", "wheel.parquet")
    assert done.returncode == 0, done.stderr
    node = _node.command([])[0]
    subprocess.run([node, CHECKOUT / "bin/rredcot.js", "score", rows, "-o", "npm.parquet", "--quiet"], check=True)
    assert (folder / "wheel.parquet").read_bytes() == (folder / "npm.parquet").read_bytes()
    for args in (["report", "wheel.parquet", "-o", "page.html"], ["summary", "wheel.parquet"], ["verify", "wheel.parquet"]):
        done = rredcot(*args)
        assert done.returncode == 0, done.stderr
    assert "uPlot" in (folder / "page.html").read_text(encoding="utf8")


def test_it_finds_its_pages_and_says_nothing_of_npm():
    page = rredcot("score", "--help").stdout.strip().splitlines()[-1].removeprefix("More: ")
    assert pathlib.Path(page).is_file()
    doctor = rredcot("doctor")
    assert doctor.returncode == 0, doctor.stdout
    assert "pip install 'rredcot[cuda]'" in doctor.stdout
    assert "npm" not in doctor.stdout


def test_the_command_of_the_front_page_runs(folder):
    [line] = re.findall(r"^uvx (rredcot score .*?) #", (CHECKOUT / "README.md").read_text(encoding="utf8"), re.M)
    (folder / "fixtures").mkdir()
    lines = (_node.PROGRAM / "fixtures/chains.jsonl").read_text(encoding="utf8").splitlines(keepends=True)
    (folder / "fixtures/chains.jsonl").write_text("".join(lines[:8]))
    done = rredcot(*line.split()[1:])
    assert done.returncode == 0 and (folder / "scored.parquet").is_file(), done.stderr


def test_its_exit_code_is_the_program_s():
    assert rredcot("score", "nowhere.jsonl").returncode == 2


@pytest.mark.skipif(os.name != "posix", reason="there is no exec")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_program_and_leaves_nothing_behind(folder, number):
    many = (CHECKOUT / "fixtures/chains.jsonl").read_text(encoding="utf8") * 4
    (folder / "many.jsonl").write_text("".join(line.replace('"id": "', f'"id": "{n}-') + "\n" for n, line in enumerate(many.splitlines())))
    with subprocess.Popen([COMMAND, "score", "many.jsonl", "-o", "out.parquet", "--log-json"], stderr=subprocess.PIPE, text=True) as job:
        while not (folder / ".out.parquet.run").is_dir():
            assert job.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
        job.send_signal(number)
        assert job.wait(30) == 75
        assert '"code":"interrupted"' in job.stderr.read()


def test_the_licences_of_all_that_is_inside_are_there():
    texts = {path.name: path.read_text() for path in importlib.metadata.files("rredcot") if path.parts[-2:-1] == ("licences",)}
    assert set(texts) == {"LICENSE", "LICENCES-packages.txt", "onnxruntime-ThirdPartyNotices.txt"}
    packages = texts["LICENCES-packages.txt"]
    for package in ("onnxruntime-node", "parquet-wasm", "uplot", "apache-arrow"):
        [found] = re.findall(rf"^{package} \d\S*: .*\n\n((?:.*\n){{5}})", packages, re.M)
        assert re.search("licen[cs]e|copyright", found, re.I), package
    assert "Copyright (c) Microsoft Corporation" in packages
    said = importlib.metadata.metadata("rredcot")["License-Expression"].split(" AND ")
    inside = set(re.findall(r"^\S+ \d\S*: ([\w.-]+)(?: OR .+)?$", packages, re.M))
    assert inside | {"Apache-2.0"} == set(said)


def test_the_runtime_of_the_extra_is_that_of_the_program():
    """Symbols of ONNX Runtime are named after the release: any build of exactly ours fits, and no other."""
    asked = [line for line in importlib.metadata.requires("rredcot") if line.startswith("onnxruntime-gpu")]
    assert [re.match(r"onnxruntime-gpu==([\d.]+);", line)[1] for line in asked] == [MANIFEST["dependencies"]["onnxruntime-node"]]
    own = _node.PROGRAM / "node_modules/onnxruntime-node"
    assert json.loads((own / "package.json").read_text())["version"] == MANIFEST["dependencies"]["onnxruntime-node"]
    assert f"VERS_{MANIFEST['dependencies']['onnxruntime-node']}".encode() in next(own.rglob("onnxruntime_binding.node")).read_bytes()


def test_libraries_for_cuda_are_named_where_they_fit(folder, monkeypatch):
    version = MANIFEST["dependencies"]["onnxruntime-node"]
    for name in (f"onnxruntime/capi/libonnxruntime.so.{version}", "onnxruntime/capi/libonnxruntime_providers_cuda.so"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "onnxruntime/__init__.py").touch()
    (folder / "nvidia/cu13/lib").mkdir(parents=True)
    (folder / "nvidia/cu13/lib/libcudart.so.13").touch()
    monkeypatch.syspath_prepend(str(folder))
    found = _node.environment()
    assert found["RREDCOT_ONNXRUNTIME"] == str(folder / "onnxruntime/capi")
    assert found["RREDCOT_CUDA"] == str(folder / "nvidia/cu13/lib")
    assert found["ORT_DISABLE_TELEMETRY"] == "1"
    # another release is left alone
    (folder / f"onnxruntime/capi/libonnxruntime.so.{version}").rename(folder / "onnxruntime/capi/libonnxruntime.so.1.30.0")
    assert "RREDCOT_ONNXRUNTIME" not in _node.environment()
    # what the user says holds
    monkeypatch.setenv("RREDCOT_CUDA", "/elsewhere")
    assert _node.environment()["RREDCOT_CUDA"] == "/elsewhere"


def test_the_export_says_what_it_needs():
    if importlib.util.find_spec("torch"):
        pytest.skip("PyTorch is here")
    made = subprocess.run([sys.executable, "-m", "rredcot.export", "--help"], capture_output=True, text=True)
    assert made.returncode == 1 and made.stderr.count("\n") == 1 and "pip install 'rredcot[export]'" in made.stderr
