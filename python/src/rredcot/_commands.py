"""The commands as functions: each runs the program once over files, and reads what it has written."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

from rredcot import _node
from rredcot._errors import ended, tell, with_rejects
from rredcot._rows import flag_words, input_words, own_source, pyarrow

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from rredcot._flags import CalibrateFlags, RedistributeFlags, ScoreFlags, SegmentFlags


def score(data: Any, *, policy: str | os.PathLike[str] | None = None, max_rejects: int | str = 0, **flags: Unpack[ScoreFlags]) -> pa.Table:
    """Scores N traces: rows of a prompt, a completion, a reward or a reference answer (docs/inputs.md).

    policy       folder that `rredcot policy build` has made of the checkpoint that wrote the traces; the bundled one, a toy, if None
    max_rejects  rejected traces beyond which it raises: none by default; a number, or "5%". Those that it took are in `rejects(table)`

    Returns the input's columns and ours (docs/output.md), N rows less the rejects, in their order. Of a trace of T tokens:
    completion_ids, logprobs, entropies, sigma (T); segments (K) with their ends and values; value_start, reward, baseline.
    """
    return _table("score", data, {"policy": policy, "max_rejects": max_rejects, **flags})


def segment(
    data: Any, *, policy: str | os.PathLike[str] | bool | None = None, max_rejects: int | str = 0, **flags: Unpack[SegmentFlags]
) -> pa.Table:
    """Cuts N completions into at most `max_segments` segments (K) at token boundaries; with `policy=False` on characters, without entropies."""
    words = {"max_rejects": max_rejects, **flags, **({"no_policy": True} if policy is False else {"policy": policy})}
    return _table("segment", data, words)


def redistribute(scored: Any, **flags: Unpack[RedistributeFlags]) -> pa.Table:
    """Another σ, baseline or estimator for a scored table (or file), without a policy: its columns, with `sigma` (T) made anew."""
    return _table("redistribute", scored, flags)


def calibrate(scored: Any, **flags: Unpack[CalibrateFlags]) -> dict[str, Any]:
    """Fits a value on the reward's scale to a scored table (or files). Returns what `calibration=` of the other functions takes."""
    with _ran("calibrate", scored, flags, "calibration.json") as (path, _), open(path, encoding="utf8") as file:
        return json.load(file)


def _table(command, data, flags):
    pa = pyarrow()
    with _ran(command, data, flags, "out.arrow") as (path, rejected), pa.OSFile(path) as file:
        table = pa.ipc.open_file(file).read_all()
    return own_source(with_rejects(table, rejected), data)


@contextlib.contextmanager
def _ran(command, data, flags, output):
    """Runs it to its end. Gives the path of what it has written, as long as that is read, and the lines of the rejects. Raises Error."""
    with tempfile.TemporaryDirectory(prefix="rredcot-") as folder:
        path = os.path.join(folder, output)
        code, fatal = run([command, *input_words(data, folder), "-o", path, *flag_words(flags, folder)])
        rejects = pathlib.Path(folder).glob("*.rejects.jsonl")
        rejected = "".join(each.read_text(encoding="utf8") for each in rejects).replace(folder + os.sep, "")
        if code != 0:
            raise ended(code, fatal, rejected)
        yield path, rejected


def run(words):
    """Runs the program in this process's folder. Returns its exit code, and what it has said last if that was an error."""
    command, fatal = _node.command([*words, "--log-json"]), None
    with subprocess.Popen(command, env=_node.environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, encoding="utf8") as process:
        try:
            for line in process.stderr:
                fatal = tell(line) or fatal
        except BaseException:
            process.terminate()
            raise
    return process.returncode, fatal
