"""Which tokens of a chain of thought earned its reward: σ, one number per token, from traces and the policy that wrote them.

    table = rredcot.score(rows, policy="./policy")           # σ and what it follows from, as columns beside the input's
    weights = rredcot.sigma_weights(table, batch)            # σ·T in a trainer's padded batch, to multiply its advantages by
    scorer = rredcot.Scorer(policy="./policy")               # the same again and again, in a process that stays warm

Rows are whatever holds columns: a list of dicts, a pyarrow Table, RecordBatch or RecordBatchReader, a polars or pandas frame, a
datasets.Dataset; or paths of files. Keyword arguments are the flags of the command `rredcot` (`rredcot score --help`), with
underscores. What the program says goes to the logger `rredcot`.
"""
from rredcot._commands import calibrate, redistribute, score, segment
from rredcot._errors import Error, rejects
from rredcot._scorer import Scorer
from rredcot._weights import sigma_weights

__all__ = ["Error", "Scorer", "calibrate", "redistribute", "rejects", "score", "segment", "sigma_weights"]
