"""Rows of any kind as Arrow, or as JSON where they have no one type; and the program's flags as words."""
import json
import os


def pyarrow():
    """The module. Raises where it is not installed, saying what installs it."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("rredcot's functions give and take pyarrow tables: pip install 'rredcot[arrow]'") from error
    return pyarrow


def arrow(data):
    """A Table or RecordBatchReader of what has columns; None of anything else."""
    pa = pyarrow()
    if isinstance(data, (pa.Table, pa.RecordBatchReader)):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "with_format") and hasattr(data, "num_rows"):  # a datasets.Dataset: its selection, in its order
        return data.with_format("arrow")[:]
    if hasattr(data, "to_arrow"):  # polars: its types of text for this are those that everybody reads
        return data.to_arrow()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if isinstance(data, dict):  # columns, as Ray's batches of NumPy arrays
        return pa.table({name: pa.array(plain(column)) for name, column in data.items()})
    return None


def plain(value):
    """Without NumPy's and PyTorch's types."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def table_of(rows):
    """A list of dicts as a table: a field that some lack is null there."""
    pa = pyarrow()
    rows = [plain(row) for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def write_stream(table, pipe, policy=None, answerer=None):
    """Writes a table or a reader as one Arrow stream, for the program; whoever answers in the policy's place has a name."""
    pa = pyarrow()
    # what a scored table says of its file's bytes, and of rows that are not in it, is not true of these
    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key not in (b"rredcot.facts", b"rredcot.rejects")}
    if policy is not None:
        metadata[b"rredcot.policy"] = os.fsencode(os.path.abspath(policy))
    if answerer is not None:
        metadata[b"rredcot.answerer"] = getattr(answerer, "name", type(answerer).__name__).encode()
    schema = table.schema.with_metadata(metadata)
    with pa.ipc.new_stream(pipe, schema) as writer:
        for batch in table if isinstance(table, pa.RecordBatchReader) else table.to_batches():
            writer.write_batch(batch.replace_schema_metadata(metadata))


def is_path(data):
    return isinstance(data, (str, os.PathLike))


def _paths(data):
    """Those of files in the place of rows; none where it holds rows."""
    named = [data] if is_path(data) else data
    return [os.fspath(each) for each in named] if isinstance(named, (list, tuple)) and all(map(is_path, named)) else []


def input_words(data, folder):
    """The command's inputs: paths as they are; rows in a file of the folder, since estimators read them more than once."""
    if named := _paths(data):
        return named
    found = arrow(data)
    path = os.path.join(folder, "rows.jsonl" if found is None else "rows.arrows")
    with open(path, "wb") as file:
        if found is not None:
            write_stream(found, file)
        else:
            file.writelines(json.dumps(plain(row)).encode() + b"\n" for row in data)
    return [path]


def own_source(table, data):
    """Rows that came from no file name none: `-` is stdin's name."""
    if _paths(data) or "source_file" not in table.column_names:
        return table
    pa = pyarrow()
    place = table.column_names.index("source_file")
    return table.set_column(place, "source_file", pa.array(["-"] * len(table), table.schema.field(place).type))


def flag_words(flags, folder):
    """`max_segments=8` as `--max-segments 8`: True without a value, None not at all, a dict as name=value, a list with commas."""
    words = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif name == "chat_template_arg" and isinstance(value, dict):
            words += [word for key, each in value.items() for word in (flag, f"{key}={json.dumps(each)}")]
        elif name == "calibration" and isinstance(value, dict):
            path = os.path.join(folder, "calibration.json")
            with open(path, "w", encoding="utf8") as file:
                json.dump(value, file)
            words += [flag, path]
        elif isinstance(value, dict):
            words += [flag, ",".join(f"{key}={each}" for key, each in value.items())]
        elif isinstance(value, (list, tuple)):
            words += [flag, ",".join(map(str, value))]
        else:
            words += [flag, os.fspath(value) if is_path(value) else str(value)]
    return words
