"""Reads the rows of a scored file, Parquet or JSONL, with `prompt` and `completion` under these names. Shared by the other examples."""
import gzip
import json
import math
import os
import sys
import zlib
from array import array

# what every trainer needs of a trace: ids as int, numbers as the float32 that they were
LISTS = {"prompt_ids": "i", "completion_ids": "i", "logprobs": "f", "sigma": "f"}
TEXTS = ("prompt", "completion")


def scored_rows(path, columns=()):
    """The traces with a known reward, as dicts; `columns` names what else a row must have. `prompt` is text, or the input's messages.

    `LISTS`, `reward`, `id` and `group` are the same from Parquet (which needs pyarrow), JSONL and gzipped JSONL (which need nothing);
    other columns are returned as they are. An error ends the program with one line; rows are counted from 0, as in `rredcot`'s messages.
    """
    rows = [checked(row, f"{path}:{n}", columns) for n, row in enumerate(rows_of(path))]
    if not rows:
        raise SystemExit(f"{path}: has no row, expected the traces that `rredcot score` writes")
    known = [row for row in rows if row["reward"] is not None]
    if not known:
        raise SystemExit(f"{path}: no trace has a known reward: score it with --map reward=<column>")
    if len(known) < len(rows):
        print(f"{path}: {len(rows) - len(known)} of {len(rows)} traces have no known reward and are left out", file=sys.stderr)
    return known


def rows_of(path):
    """The rows unchecked, with both texts under their names. The first bytes tell the format."""
    if os.path.isdir(path):
        raise SystemExit(f"{path}: is a folder, expected a file: rredcot filter {path} -o <file> makes one")
    try:
        with open(path, "rb") as file:
            start = file.read(4)
        if start == b"PAR1":
            yield from parquet_rows(path)
        else:
            with gzip.open(path) if start[:2] == b"\x1f\x8b" else open(path, "rb") as lines:
                yield from jsonl_rows(lines, path)
    except OSError as error:
        raise SystemExit(f"{path}: {error.strerror or error}, expected a file of `rredcot score`") from None


def jsonl_rows(lines, path):
    """JSONL has no metadata: each text is in the column of its name."""
    n = 0
    while True:
        try:
            line = lines.readline()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise SystemExit(f"{path}:{n}: {error}, expected gzip to its end: was the file cut off?") from None
        if not line:
            return
        try:
            row = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            what = f"{error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else error
            found = f"{line[:40]!r}{'…' if len(line) > 40 else ''}"
            cut = "" if line.endswith(b"\n") else "; the last line has no end: was the file cut off?"
            raise SystemExit(f"{path}:{n}: {what}, found {found}, expected one JSON object a line, or Parquet{cut}") from None
        yield row
        n += 1


def parquet_rows(path):
    """`rredcot score` does not repeat a text that an input column has; the file's metadata name that column."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise SystemExit(
            f"{path}: is Parquet, and {sys.executable} has no pyarrow: install it, or write JSONL (rredcot score … -o scored.jsonl)"
        ) from None
    try:
        places = json.loads((pq.read_metadata(path).metadata or {}).get(b"rredcot.text", b"{}"))
        rows = pq.read_table(path).to_pylist()
    except ValueError as error:  # as pyarrow's ArrowInvalid is
        raise SystemExit(f"{path}: {str(error).splitlines()[0]} Expected a complete Parquet file: copy it or score it again") from None
    for row in rows:
        texts = {name: row[column] for name, column in places.items() if column in row}
        yield {**{name: value for name, value in row.items() if name not in TEXTS}, **texts}


def checked(row, place, columns):
    """The row with its numbers as float32 and its ids as int. Raises SystemExit for a row that `score` did not write, or a truncated one."""
    if not isinstance(row, dict):
        raise SystemExit(f"{place}: found {row!r:.40}, expected an object, a row of `rredcot score`")
    missing = [name for name in (*LISTS, "reward", *columns) if name not in row]
    if missing:
        raise SystemExit(
            f"{place}: has no {', '.join(missing)}, expected the columns of `rredcot score`, without --columns; "
            f"it has {', '.join(map(ascii, row)):.200}"
        )
    missing = [name for name in TEXTS if not is_text(name, row.get(name))]
    if missing:
        raise SystemExit(f"{place}: has no text of {' and '.join(missing)}: score it without --columns")
    numbers = {name: numbers_of(row[name], code, f"{place}: {name}") for name, code in LISTS.items()}
    length = len(numbers["completion_ids"])
    for name in ("logprobs", "sigma"):
        if len(numbers[name]) != length:
            raise SystemExit(f"{place}: {name} has {len(numbers[name])} numbers and completion_ids {length}, expected one a token")
    reward = row["reward"]
    if reward is not None:
        if not is_number(reward, "f"):
            raise SystemExit(f"{place}: reward: found {reward!r:.40}, expected a finite number, or null")
        reward = array("f", [reward])[0]
    return {**row, **numbers, "reward": reward}


def is_text(name, value):
    """A prompt may be messages."""
    is_messages = isinstance(value, list) and len(value) > 0 and all(isinstance(message, dict) for message in value)
    return isinstance(value, str) or (name == "prompt" and is_messages)


def numbers_of(values, code, place):
    """A list of numbers at the precision of array type `code`: float32 or int."""
    if not isinstance(values, list):
        raise SystemExit(f"{place}: found {values!r:.40}, expected a list of numbers, one a token")
    try:
        numbers = array(code, values).tolist()
        if all(map(math.isfinite, numbers)):
            return numbers
    except (TypeError, OverflowError):
        pass
    at = next(n for n, value in enumerate(values) if not is_number(value, code))
    raise SystemExit(f"{place}[{at}]: found {values[at]!r:.40}, expected a {'whole' if code == 'i' else 'finite'} number")


def is_number(value, code):
    try:
        return math.isfinite(array(code, [value])[0])
    except (TypeError, OverflowError):
        return False
