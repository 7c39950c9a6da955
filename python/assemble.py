"""Builds the wheels of all platforms, or of those that are named, from the npm tree beside this folder.

    npm ci && python3 python/assemble.py -o wheels linux/x64

It needs hatchling, and once PyPI: onnxruntime-node ships no licence, so that of ONNX Runtime is taken from its wheel of the same release.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

from hatch_build import PACKAGES, PLATFORMS

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parent
LICENCES = HERE / "licences"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "rredcot-ci"


def manifest(package):
    return json.loads((CHECKOUT / "node_modules" / package / "package.json").read_text())


def onnxruntime_texts(version):
    """The folder of ONNX Runtime's licence and third-party notices, which are fetched once a release."""
    texts = CACHE / f"onnxruntime-{version}"
    if not texts.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            target = ["--platform", "manylinux_2_28_x86_64", "--python-version", "3.11", "--only-binary=:all:", "--no-deps"]
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", *target, "-d", folder, f"onnxruntime=={version}"], check=True)
            [wheel] = pathlib.Path(folder).iterdir()
            begun = pathlib.Path(folder) / "texts"
            begun.mkdir()
            with zipfile.ZipFile(wheel) as packed:
                for name in ("LICENSE", "ThirdPartyNotices.txt"):
                    (begun / name).write_bytes(packed.read(f"onnxruntime/{name}"))
            texts.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(begun, texts, dirs_exist_ok=True)
    return texts


def write_licences():
    """Writes the texts of all that is inside. Exits where the metadata do not name a licence of it."""
    shutil.rmtree(LICENCES, ignore_errors=True)
    LICENCES.mkdir()
    shutil.copy(CHECKOUT / "LICENSE", LICENCES / "LICENSE")
    runtime = onnxruntime_texts(manifest("onnxruntime-node")["version"])
    shutil.copy(runtime / "ThirdPartyNotices.txt", LICENCES / "onnxruntime-ThirdPartyNotices.txt")
    bundled = (CHECKOUT / "dist/program/LICENCES.txt").read_text()
    for name in PACKAGES:
        folder = runtime if name.startswith("onnxruntime") else CHECKOUT / "node_modules" / name
        texts = "\n".join(path.read_text() for path in sorted(folder.glob("LICENSE*")))
        found = manifest(name)
        bundled += f"\n{'-' * 79}\n\n{name} {found['version']}: {found['license']}\n\n{texts}"
    (LICENCES / "LICENCES-packages.txt").write_text(bundled)
    inside = {name for line in re.findall(r"^\S+ \d\S*: (.+)$", bundled, re.M) for name in line.split(" OR ")[:1]}
    [said] = re.findall(r'^license = "(.*)"$', (HERE / "pyproject.toml").read_text(), re.M)
    if inside | {"Apache-2.0"} != set(said.split(" AND ")):
        sys.exit(f"pyproject.toml: license is {said}, and inside are {', '.join(sorted(inside))}")


def main():
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("-o", "--output", default=str(HERE / "dist"), help="folder for the wheels")
    flags.add_argument("platforms", nargs="*", help=f"of {', '.join(PLATFORMS)} (default: all)")
    asked = flags.parse_args()
    write_licences()
    for name in asked.platforms or PLATFORMS:
        environment = {**os.environ, "RREDCOT_PLATFORM": name}
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", os.path.abspath(asked.output)]
        subprocess.run(build, cwd=HERE, env=environment, check=True)


if __name__ == "__main__":
    main()
