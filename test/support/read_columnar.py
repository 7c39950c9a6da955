"""What pyarrow, pandas, polars and datasets read of a scored file, as one JSON object: read_columnar.py <scored.parquet> <scored.arrow> <scored.jsonl> <cache>"""
import json
import sys

import datasets
import pandas
import polars
import pyarrow
import pyarrow.parquet

parquet, arrow, jsonl, cache = sys.argv[1:]
COLUMNS = ["id", "completion_ids", "sigma", "reward"]


def plain(columns):
    """Rows of Python's own numbers, of columns by name."""
    as_list = {name: [each.tolist() if hasattr(each, "tolist") else each for each in columns[name]] for name in COLUMNS}
    return [dict(zip(COLUMNS, row)) for row in zip(*(as_list[name] for name in COLUMNS))]


def loaded(kind, path):
    return datasets.load_dataset(kind, data_files=path, cache_dir=cache, split="train")


with pyarrow.ipc.open_file(arrow) if open(arrow, "rb").read(6) == b"ARROW1" else pyarrow.ipc.open_stream(arrow) as reader:
    ipc = reader.read_all()
found = {
    "pyarrow of Parquet": plain(pyarrow.parquet.read_table(parquet).to_pydict()),
    "pyarrow of Arrow": plain(ipc.to_pydict()),
    "pandas": plain(pandas.read_parquet(parquet).to_dict(orient="list")),
    "polars": plain(polars.read_parquet(parquet).to_dict(as_series=False)),
    "datasets of Parquet": plain(loaded("parquet", parquet).to_dict()),
    "datasets of JSONL": plain(loaded("json", jsonl).to_dict()),
}
print(json.dumps(found))
