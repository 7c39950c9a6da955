"""Scores a run's shards as Ray tasks: those of a dead node go on at another one, from their last whole chunk.

    python ray_shards.py --shards 64 --gpus 1 -- /shared/traces.jsonl -o /shared/out/ --device cuda
    rredcot merge /shared/out/ -o /shared/scored.parquet

What follows `--` goes to `rredcot score`, which every node has on its path; paths are absolute, since a Ray worker runs in a folder of its
own. Ends with 0 where all shards are done, with 2 at the first that is refused, else with 65 or 1; the same command goes on.
"""
import argparse
import os
import subprocess
import sys
import ray


class Again(Exception):
    """Interrupted (75), no device there (69), killed, a bug: another attempt may end otherwise."""


def score(shard, arguments, cpus):
    """Runs a shard to its end. Returns 0, or 2 or 65, which another attempt would not change. Raises Again."""
    own = {**os.environ, "RREDCOT_THREADS": str(cpus)}  # Ray counts cores, and keeps nobody from the others
    code = subprocess.run(["rredcot", "score", *arguments, "--shard", shard], env=own).returncode
    if code not in (0, 2, 65):
        raise Again(f"shard {shard}: rredcot ended with {code}")
    return code


def main():
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--shards", type=int, required=True)
    flags.add_argument("--cpus", type=int, default=1, help="cores a shard")
    flags.add_argument("--gpus", type=int, default=0, help="GPUs a shard: 1, with --device cuda behind the --")
    flags.add_argument("--retries", type=int, default=10, help="further attempts at a shard that was interrupted, killed or lost")
    flags.add_argument("arguments", nargs="+", help="of rredcot score, behind --")
    asked = flags.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # where this starts a Ray of its own, that one reports nothing
    ray.init()
    task = ray.remote(score).options(
        num_cpus=asked.cpus, num_gpus=asked.gpus, scheduling_strategy="SPREAD", max_retries=asked.retries, retry_exceptions=[Again]
    )
    waiting = {task.remote(f"{i}/{asked.shards}", asked.arguments, asked.cpus): i for i in range(asked.shards)}
    codes = {0}
    while waiting and 2 not in codes:  # flags that one shard refuses, all refuse
        [ended], _ = ray.wait(list(waiting))
        shard = waiting.pop(ended)
        try:
            codes.add(ray.get(ended))
        except ray.exceptions.RayError as error:
            print(f"shard {shard}/{asked.shards}: {error}", file=sys.stderr)
            codes.add(1)
    sys.exit(next(code for code in (2, 65, 1, 0) if code in codes))


if __name__ == "__main__":
    main()
