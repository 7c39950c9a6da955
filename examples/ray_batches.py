"""Scores a data set with Ray Data's `map_batches`, a process of `rredcot score - -o -` for each batch; rows go in and out as Arrow.

    python ray_batches.py /shared/traces.parquet /shared/scored --rows 2048 --group group --group-size 8 --gpus 1 -- --policy /shared/policy

What follows `--` goes to `rredcot score`. Rows have an `id`, and with `--group` the traces of a group stand one after the other, as many
in each: a batch that does not hold its groups whole is refused, for the mean of a part of a group is another baseline. Without `--group`
the baseline is the trace's own first value. A rejected row ends the job with its reason.
A process hands rows on only after it has read hundreds beyond them, so none can serve batch after batch. Make batches large: each costs
a second of processor time and the load of the policy.
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
    """The rows of a batch with what `rredcot score` writes beside them, in their order. Raises where it refuses any."""
    if group is not None:
        sizes = collections.Counter(rows[group].to_pylist())
        cut = [f"{name!r} has {size}" for name, size in sizes.items() if size != group_size]
        if cut:
            raise ValueError(f"expected {group_size} traces of every group in a batch, but {', '.join(cut[:3])}: see --rows, --group-size")
    credit = ["--baseline", "value", "--bank", "row"] if group is None else ["--map", f"group={group}"]
    command = ["rredcot", "score", "-", "-o", "-", "--quiet", "--map", "id=id", *flags, *credit, "--max-rejects", "0"]
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)
    own = {**os.environ, "RREDCOT_THREADS": str(cpus)}  # Ray counts cores, and keeps nobody from the others
    with tempfile.TemporaryDirectory() as folder:  # takes the reasons of rejects
        done = subprocess.run(command, input=stream.getvalue(), capture_output=True, env=own, cwd=folder)
        if done.returncode != 0:
            reasons = [path.read_text()[:1000] for path in pathlib.Path(folder).glob("*.rejects.jsonl")]
            raise RuntimeError(f"rredcot ended with {done.returncode}: {done.stderr.decode()}{''.join(reasons)}")
    return pa.ipc.open_stream(done.stdout).read_all()


def main():
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("input", help="Parquet, a file or a folder")
    flags.add_argument("output", help="folder of the Parquet files that are written")
    flags.add_argument("--rows", type=int, default=2048, help="traces a batch")
    flags.add_argument("--group", help="column that the traces of one prompt share")
    flags.add_argument("--group-size", type=int, default=1, help="traces of every group, of which --rows is a multiple")
    flags.add_argument("--cpus", type=int, default=1, help="cores a batch")
    flags.add_argument("--gpus", type=int, default=0, help="GPUs a batch: 1, with --device cuda behind the --")
    flags.add_argument("flags", nargs="*", help="of rredcot score, behind --")
    asked = flags.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # where this starts a Ray of its own, that one reports nothing
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    rows = ray.data.read_parquet(asked.input).repartition(target_num_rows_per_block=asked.rows, strict=True)
    how = {"flags": asked.flags, "group": asked.group, "group_size": asked.group_size, "cpus": asked.cpus}
    scored = rows.map_batches(
        score, batch_size=asked.rows, batch_format="pyarrow", num_cpus=asked.cpus, num_gpus=asked.gpus, fn_kwargs=how
    )
    scored.write_parquet(asked.output)


if __name__ == "__main__":
    main()
