"""Scores a data set with Ray Data's `map_batches`: one `rredcot score - -o -` process per batch, with rows in and out as Arrow.

    python ray_batches.py /shared/traces.parquet /shared/scored --rows 2048 --group group --group-size 8 --gpus 1 -- --policy /shared/policy

Arguments after `--` go to `rredcot score`. Rows have an `id`. With `--group`, the traces of a group are consecutive and groups have one
size; a batch that splits a group is refused, because the mean of a partial group is another baseline. Without `--group` the baseline is
the trace's own first value. A rejected row ends the job with its reason.
Make batches large: each starts a process, which costs a second of processor time and loads the policy.
"""
import argparse
import collections
import os
import pathlib
import subprocess
import tempfile
import pyarrow as pa
import ray


def score(rows, flags, group, group_size, cpus):
    """The rows of a batch, in order, with the columns that `rredcot score` adds. Raises if it rejects any."""
    if group is not None:
        sizes = collections.Counter(rows[group].to_pylist())
        cut = [f"{name!r} has {size}" for name, size in sizes.items() if size != group_size]
        if cut:
            raise ValueError(f"expected {group_size} traces of every group in a batch, but {', '.join(cut[:3])}: see --rows, --group-size")
    credit = ["--baseline", "value", "--references", "row"] if group is None else ["--map", f"group={group}"]
    command = ["rredcot", "score", "-", "-o", "-", "--quiet", "--map", "id=id", *flags, *credit, "--max-rejects", "0"]
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)
    environment = {**os.environ, "RREDCOT_THREADS": str(cpus)}  # Ray counts cores but does not limit a process to them
    with tempfile.TemporaryDirectory() as folder:  # for the rejects file
        done = subprocess.run(command, input=stream.getvalue(), capture_output=True, env=environment, cwd=folder)
        if done.returncode != 0:
            reasons = [path.read_text()[:1000] for path in pathlib.Path(folder).glob("*.rejects.jsonl")]
            raise RuntimeError(f"rredcot ended with {done.returncode}: {done.stderr.decode()}{''.join(reasons)}")
    return pa.ipc.open_stream(done.stdout).read_all()


def main():
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("input", help="Parquet, a file or a folder")
    flags.add_argument("output", help="folder for the Parquet files")
    flags.add_argument("--rows", type=int, default=2048, help="traces per batch")
    flags.add_argument("--group", help="column that identifies the prompt of a trace")
    flags.add_argument("--group-size", type=int, default=1, help="traces per group; --rows must be a multiple")
    flags.add_argument("--cpus", type=int, default=1, help="cores per batch")
    flags.add_argument("--gpus", type=int, default=0, help="GPUs per batch: 1, with --device cuda after --")
    flags.add_argument("flags", nargs="*", help="arguments of rredcot score, after --")
    asked = flags.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a Ray that this starts sends no usage statistics
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    rows = ray.data.read_parquet(asked.input).repartition(target_num_rows_per_block=asked.rows, strict=True)
    how = {"flags": asked.flags, "group": asked.group, "group_size": asked.group_size, "cpus": asked.cpus}
    scored = rows.map_batches(
        score, batch_size=asked.rows, batch_format="pyarrow", num_cpus=asked.cpus, num_gpus=asked.gpus, fn_kwargs=how
    )
    scored.write_parquet(asked.output)


if __name__ == "__main__":
    main()
