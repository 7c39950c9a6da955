"""What went wrong: the program's exit code and words, the rejected rows; and what it logs."""
import json
import logging
import re

REJECTS = b"rredcot.rejects"
LEVELS = {"trace": 10, "debug": 10, "info": 20, "warn": 30, "error": 40, "fatal": 50}
log = logging.getLogger("rredcot")


class Error(Exception):
    """The program has ended a command, or answered a request, with an error.

    code     its exit code: 2 a flag, 65 the data, 69 the device, 75 interrupted, 1 a bug
    text     what was found and expected
    hint     what helps, or ""
    rejects  pyarrow.Table of the rejected rows: file, row, byte_offset, id, code, reason, raw; without rows where there are none
    """

    def __init__(self, code, text, hint="", rejected=""):
        super().__init__(f"{text}\n  try: {hint}" if hint else text)
        self.code, self.text, self.hint, self._rejected = code, text, hint, rejected

    @property
    def rejects(self):
        return _table(self._rejected)

    def __reduce__(self):  # a process of Ray's hands it on
        return Error, (self.code, self.text, self.hint, self._rejected)


def rejects(table):
    """The rows that `score`, `segment` or a `Scorer` did not take, where `max_rejects` allowed some: a table as `Error.rejects`."""
    return _table((table.schema.metadata or {}).get(REJECTS, b"").decode())


def with_rejects(table, rejected):
    """The table of a result, which carries the lines of its rejects."""
    metadata = {**(table.schema.metadata or {}), **({REJECTS: rejected.encode()} if rejected else {})}
    # a hash of the file that it was read from: one that the user makes of the table has other bytes
    metadata.pop(b"rredcot.facts", None)
    return table.replace_schema_metadata(metadata)


def tell(line):
    """Hands a record of the program's log on. Returns it where it is the one that tells why the program ends."""
    try:
        record = json.loads(line)
    except ValueError:
        record = {"level": "error", "msg": line.rstrip()}
    # rows in memory lie in a temporary file, which is gone when somebody reads of it
    record["msg"] = re.sub(r"\S*[/\\]rredcot-\w+[/\\]", "", record.get("msg", ""))
    if record.get("level") == "fatal":
        return record
    # nor does a table in memory say a hash of its bytes
    is_known = record.get("code") == "no_hash" and record["msg"].startswith("rows.arrows:")
    log.log(10 if is_known else LEVELS.get(record.get("level"), 20), "%s", record["msg"], extra={"record": record})
    return None


def failed(code, text, hint, rejected):
    """The error; of rejects it tells the first one: the file that the program names is gone, and its flags are no arguments."""
    told, _, _ = text.partition("; nothing was written but the reasons")
    if rejected and told != text:
        first = json.loads(rejected.splitlines()[0])
        text = f"{told}: row {first['row']}: {first['code']}: {first['reason']}"
        hint = "max_rejects= allows some; `rejects` of this error has them all"
    return Error(code, text, hint, rejected)


def ended(code, fatal, rejected=""):
    """The error of a process that has ended with a code, and what it has said last."""
    fatal = fatal or {"msg": f"rredcot ended with {code}"}
    return failed(code, fatal.get("stack") or fatal["msg"], fatal.get("hint", ""), rejected)


def _table(lines):
    import pyarrow as pa

    text, whole = pa.string(), pa.int64()
    columns = {"file": text, "row": whole, "byte_offset": whole, "id": text, "code": text, "reason": text, "raw": text}
    rows = [json.loads(line) for line in lines.splitlines()]
    for row in rows:
        if not isinstance(row["raw"], str):
            row["raw"] = json.dumps(row["raw"], ensure_ascii=False)
    return pa.Table.from_pylist(rows, pa.schema(columns.items()))
