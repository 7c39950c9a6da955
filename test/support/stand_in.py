"""Modules that stand in for a trainer that cannot be installed: made of its record in examples/hooks, with bodies that a test gives.

What the record does not have is not there; a call that does not fit a recorded signature, or a field that a class does not have, is
an error, as it would be in the trainer.
"""
import json
import os
import sys
import types

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")


class StandIn:
    """The modules of one trainer. `put` is to be called before the example is imported, `gone` after."""

    def __init__(self, trainer):
        with open(os.path.join(EXAMPLES, "hooks", f"{trainer}.json"), encoding="utf-8") as file:
            self.source = json.load(file)["source"]
        self.made = set()

    def fact(self, path, name):
        return self.source[path][name]

    def names(self, path, name=""):
        """The recorded names, in the order in which examples/hooks/record.py asks for them."""
        return self.fact(path, name)["names"]

    def function(self, path, name, body):
        """A function of the recorded signature; `body` gets what it was called with, each argument by its recorded name."""
        signature = self.fact(path, name)["signature"]
        is_async = signature.startswith("async ")
        word, wait = ("async ", "await ") if is_async else ("", "")
        scope = {"body": body}
        text = f"{word}def made{signature.removeprefix('async ')}:\n    return {wait}body(**locals())\n"
        exec(compile("from __future__ import annotations\n" + text, path, "exec"), scope)  # noqa: S102
        return scope["made"]

    def fields(self, path, name, base=object):
        """A class that is made of its recorded fields, by keyword, as a dataclass or a pydantic model is."""
        fact = self.fact(path, name)

        def init(self, **values):
            unknown = set(values) - set(fact["fields"])
            missing = set(fact["required"]) - set(values)
            if unknown or missing:
                raise TypeError(f"{path}: {name} has no {sorted(unknown)} and needs {sorted(missing)}")
            vars(self).update(values)

        return type(name.rpartition(".")[2], (base,), {"__init__": init})

    def put(self, module, **members):
        """A module, and its parents, where `import` finds them."""
        parts = module.split(".")
        for n in range(1, len(parts) + 1):
            path = ".".join(parts[:n])
            if path not in sys.modules:
                sys.modules[path] = types.ModuleType(path)
                self.made.add(path)
                if n > 1:
                    setattr(sys.modules[".".join(parts[: n - 1])], parts[n - 1], sys.modules[path])
        vars(sys.modules[module]).update(members)

    def gone(self, *examples):
        for name in (*self.made, *examples):
            sys.modules.pop(name, None)


def module_of(path):
    """The module that a file is."""
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
