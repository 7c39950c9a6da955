"""Rollouts that slime or miles has saved (`--save-debug-rollout-data`), as rows: rredcot.score(rredcot.slime.samples("0.pt"), policy=…)."""
import collections
import os
import pickle
import zipfile


def samples(*paths):
    """The Samples of `.pt` files, as rows of `Sample.to_dict()`, which the preset `slime` reads; without tensors, such as images and experts.

    Nothing of a file runs, and PyTorch is not needed. Raises ValueError for a file that is none, or holds other objects than Samples do.
    """
    return [row for path in paths for row in _read(os.fspath(path))]


def _read(path):
    try:
        with zipfile.ZipFile(path) as packed:
            [name] = [name for name in packed.namelist() if name.endswith("/data.pkl")]
            with packed.open(name) as file:
                said = _Plain(file).load()
        found = [{key: value for key, value in sample.items() if value is not None} for sample in said["samples"]]
    except (zipfile.BadZipFile, pickle.UnpicklingError, EOFError, KeyError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: no rollouts as slime's --save-debug-rollout-data writes them: {error}") from error
    missing = [n for n, sample in enumerate(found) if not {"tokens", "response_length", "response"} <= sample.keys()]
    if missing:
        raise ValueError(f"{path}: sample {missing[0]} has no tokens, response_length or response")
    return found


class _Plain(pickle.Unpickler):
    """Numbers, text, lists and dicts; what is of PyTorch becomes None."""

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module.split(".")[0] == "torch":
            return _nothing
        raise pickle.UnpicklingError(f"it holds a {module}.{name}")

    def persistent_load(self, _):
        return None


def _nothing(*_):
    return None
