"""What examples/scored_rows.py reads of scored files, and what it refuses, as one JSON object: read_scored.py <scratch> <dump>…

Needs no PyTorch, and pyarrow for a Parquet file alone.
"""
import gzip
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples"))

from scored_rows import scored_rows  # noqa: E402


def rows(dumps):
    """What the examples read of each scored dump, with the types that Python has them in."""
    names = ("id", "group", "prompt", "completion", "prompt_ids", "completion_ids", "logprobs", "sigma", "reward")
    found = [[{name: row[name] for name in names} for row in scored_rows(path)] for path in dumps]
    types_of = {
        name: sorted({type(value).__name__ for dump in found for row in dump for value in flat(row[name])}) for name in names
    }
    return {"dumps": found, "types": types_of}


def flat(value):
    return value if isinstance(value, list) else [value]


def refused(path, scratch):
    """What ends a trainer that is given something else than whole scored rows; each is `path` with one thing changed."""
    with open(path, "rb") as file:
        first, second, *_ = lines = file.readlines()

    def changed(**changes):
        row = {**json.loads(second), **changes}
        return first + json.dumps({name: value for name, value in row.items() if value is not ...}).encode() + b"\n"

    sigma = json.loads(second)["sigma"]
    packed = gzip.compress(b"".join(lines), mtime=0)
    contents = {
        "not scored": first + b'{"prompt": "p", "completion": "c", "reward": 1}\n',
        "no object": first + b"[1, 2]\n",
        "no sigma": changed(sigma=...),
        "null sigma": changed(sigma=None),
        "words in sigma": changed(sigma=[*sigma[:-1], "a"]),
        "NaN in sigma": changed(sigma=[*sigma[:-1], float("nan")]),
        "other ids": changed(completion_ids=json.loads(second)["completion_ids"] + [0]),
        "broken ids": changed(prompt_ids=[1.5]),
        "reward in words": changed(reward="right"),
        "no text": changed(prompt=None),
        "no reward": changed(reward=None)[len(first):],
        "empty": b"",
        "cut line": first + second[: len(second) // 2],
        "no JSON": first + b"\xff\xfe\x00\n",
        "cut gzip": packed[: len(packed) // 2],
        "damaged gzip": packed[:-8] + bytes(8),
        "cut Parquet": b"PAR1" + packed,
    }
    paths = {"folder": os.path.dirname(path), "missing": path + ".missing"}
    messages = {}
    for name, content in contents.items():
        with open(scratch, "wb") as file:
            file.write(content)
        messages[name] = ended(lambda: scored_rows(scratch))
    with open(scratch, "wb") as file:
        file.write(changed(group=...))
    messages["no group"] = ended(lambda: scored_rows(scratch, ("group",)))
    return {**messages, **{name: ended(lambda: scored_rows(wrong)) for name, wrong in paths.items()}}


def ended(action):
    """The line with which an action ends the program."""
    try:
        action()
    except SystemExit as raised:
        return str(raised)
    return None


if __name__ == "__main__":
    scratch, *dumps = sys.argv[1:]
    print(json.dumps({**rows(dumps), "refused": refused(dumps[0], scratch)}))
