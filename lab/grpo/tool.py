"""Runs `rredcot` as its users do: a checkpoint becomes a policy folder, a file of rows one of credited rows."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from setting import RECIPE
import checkpoint

ROOT = RECIPE.parents[1]
EMBEDDED = RECIPE.parent / "embedded"
WARN = (40, "warn")
BESIDE = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "exit_template.json", "ask_template.json", "hint_template.json")


class Tool:
    """The program on files of one working folder; `seconds` adds up what it took, `warnings` what it warned of."""

    def __init__(self, folder, like=EMBEDDED):
        self.folder, self.seconds, self.warnings = pathlib.Path(folder), 0.0, []
        self.folder.mkdir(parents=True, exist_ok=True)
        self.policy = self.folder / "policy"
        weights = self.folder / "checkpoint"
        weights.mkdir(exist_ok=True)
        for path in filter(pathlib.Path.exists, map(like.joinpath, BESIDE)):
            shutil.copy(path, weights)

    def run(self, *arguments):
        """Runs a command; its warnings are kept, and what it says becomes the error where it fails."""
        started, command = time.time(), [str(each) for each in arguments]
        environment = {**os.environ, "RREDCOT_THREADS": "1"}
        done = subprocess.run(["node", str(ROOT / "bin" / "rredcot.js"), *command], capture_output=True, text=True, env=environment)
        self.seconds += time.time() - started
        if done.returncode != 0:
            raise RuntimeError(f"rredcot {' '.join(command)}: exit {done.returncode}\n{done.stderr}")
        records = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        self.warnings += [record["msg"] for record in records if record["level"] in WARN]

    def build(self, model):
        """The policy's current weights as a policy folder."""
        weights = self.folder / "checkpoint" / "model.safetensors"
        weights.unlink(missing_ok=True)  # the policy folder before may be a link to this very file
        checkpoint.save(model, weights)
        self.run("policy", "build", self.folder / "checkpoint", "-o", self.policy)

    def path(self, name):
        return self.folder / name

    def write(self, rows, name):
        path = self.path(name)
        path.write_text(lines(rows), encoding="utf-8")
        return path

    def score(self, rows, flags, columns=("sigma",)):
        """Columns of the scored rows, in the rows' order; None for a row that was rejected."""
        return self.score_to(rows, flags, "step", columns)[1]

    def score_to(self, rows, flags, name, columns=("sigma",)):
        """A scored file, for `calibrate` and `redistribute`, and some of its columns in the rows' order."""
        source, path = self.write(rows, f"{name}.rows.jsonl"), self.path(f"{name}.jsonl")
        self.run("score", source, "--policy", self.policy, *flags, "-o", path, "--overwrite", "--log-json")
        return path, picked(in_order(rows, path.read_text(encoding="utf-8")), columns)

    def valued(self, rows, scored, script, *arguments):
        """Rows with the values that a script of `examples` gives scored ones: it needs transformers, too."""
        started, command = time.time(), [sys.executable, ROOT / "examples" / script, *arguments, scored]
        done = subprocess.run([str(each) for each in command], capture_output=True, text=True)
        self.seconds += time.time() - started
        if done.returncode != 0:
            raise RuntimeError(f"{script}: exit {done.returncode}\n{done.stderr}")
        found = in_order(rows, done.stdout)
        return [{**row, **({name: own[name] for name in ("values", "segment_ends")} if own else {})} for row, own in zip(rows, found)]

    def redistribute(self, rows, scored, flags, columns):
        """Columns of another credit for stored values, in the rows' order."""
        path = self.path("redistributed.jsonl")
        self.run("redistribute", scored, *flags, "-o", path, "--overwrite", "--log-json")
        return picked(in_order(rows, path.read_text(encoding="utf-8")), columns)

    def calibrate(self, files, name="calibration.json"):
        path = self.path(name)
        self.run("calibrate", *files, "-o", path, "--log-json")
        return path


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def picked(rows, columns):
    return [row and {key: row[key] for key in ("id", "status", *columns)} for row in rows]


def in_order(rows, text):
    """Scored rows in the order of the rows that were sent; None for one that the tool rejected."""
    found = {row["id"]: row for row in map(json.loads, text.splitlines())}
    return [found.get(row["id"]) for row in rows]
