"""Puts the program into the wheel, from the npm tree beside this folder, and names the platform that the wheel is for."""
import os
import pathlib
import platform

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# by platform as Node calls it: the wheel's tag, and what of onnxruntime-node's folder for it is loaded.
# npm and PyPI have no build of ONNX Runtime for musl, older glibc or Intel Macs
# (nor is DirectML loaded before somebody asks for it, which the program does not, nor what WebGPU compiles shaders with)
PLATFORMS = {
    "linux/x64": ("manylinux_2_28_x86_64", ["onnxruntime_binding.node", "libonnxruntime.so.1"]),
    "linux/arm64": ("manylinux_2_28_aarch64", ["onnxruntime_binding.node", "libonnxruntime.so.1"]),
    "darwin/arm64": ("macosx_14_0_arm64", ["onnxruntime_binding.node", "libonnxruntime.1.dylib"]),
    "win32/x64": ("win_amd64", ["onnxruntime_binding.node", "onnxruntime.dll"]),
}

# what commands open of the program's own files: the help ends with the path of a page
OWN = ["package.json", "CHANGELOG.md", "bin/*", "dist/program/*", "web/*", "models/embedded/*", "fixtures/chains.jsonl", "docs/*.md"]
# and of the packages that the bundle leaves as they are
PACKAGES = {
    "onnxruntime-node": ["package.json", "dist/*.js"],
    "onnxruntime-common": ["package.json", "dist/cjs/*.js", "dist/cjs/package.json"],
    "parquet-wasm": ["package.json", "node/package.json", "node/parquet_wasm.js", "node/parquet_wasm_bg.wasm"],
    "uplot": ["package.json", "dist/uPlot.iife.min.js", "dist/uPlot.min.css"],
}


def this_platform():
    """Node's name of the machine that builds."""
    system = {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}[platform.system()]
    return f"{system}/{'arm64' if platform.machine() in ('arm64', 'aarch64') else 'x64'}"


def program_files(checkout, name):
    """The files of the program for a platform, with their paths in it."""
    patterns = [*OWN, *(f"node_modules/{package}/{one}" for package, some in PACKAGES.items() for one in some)]
    patterns += [f"node_modules/onnxruntime-node/bin/napi-v6/{name}/{one}" for one in PLATFORMS[name][1]]
    for pattern in patterns:
        found = [path for path in sorted(checkout.glob(pattern)) if path.is_file()]
        if not found:
            raise FileNotFoundError(f"{checkout}: has no {pattern}: npm ci there first")
        for path in found:
            yield path, path.relative_to(checkout).as_posix()


class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        if version == "editable":
            return
        root = pathlib.Path(self.root)
        if not any(root.glob("licences/*")):
            raise FileNotFoundError("licences/ is empty: python3 assemble.py builds wheels")
        name = os.environ.get("RREDCOT_PLATFORM", this_platform())
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{PLATFORMS[name][0]}"
        # hatchling obeys .gitignore, which leaves out dist and node_modules, but for what is forced
        for path, inside in program_files(root.parent, name):
            build_data["force_include"][str(path)] = f"rredcot/_program/{inside}"
