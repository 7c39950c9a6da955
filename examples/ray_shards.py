"""Scores shards as Ray tasks. If a node dies, another one makes its missing parts.

    python ray_shards.py --shards 64 --gpus 1 -- /shared/traces.jsonl -o /shared/out/ --device cuda
    rredcot filter /shared/out/ -o /shared/scored.parquet

Arguments after `--` go to `rredcot score`, which every node has on its PATH. Use absolute paths: a Ray worker runs in a folder of its own.
Exits with 0 if all shards are done, 2 if one is refused, otherwise 65 or 1; the same command resumes.
"""
import argparse
import os
import subprocess
import sys
import ray


class Again(Exception):
    """Interrupted (75), no device (69), killed, or a bug: another attempt may succeed."""


def score(shard, arguments, cpus):
    """Runs a shard. Returns 0, or 2 or 65, which another attempt would not change. Raises Again."""
    environment = {**os.environ, "RREDCOT_THREADS": str(cpus)}  # Ray counts cores but does not limit a process to them
    code = subprocess.run(["rredcot", "score", *arguments, "--shard", shard], env=environment).returncode
    if code not in (0, 2, 65):
        raise Again(f"shard {shard}: rredcot ended with {code}")
    return code


def main():
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--shards", type=int, required=True)
    flags.add_argument("--cpus", type=int, default=1, help="cores per shard")
    flags.add_argument("--gpus", type=int, default=0, help="GPUs per shard: 1, with --device cuda after --")
    flags.add_argument("--retries", type=int, default=10, help="retries of a shard that was interrupted, killed or lost")
    flags.add_argument("arguments", nargs="+", help="arguments of rredcot score, after --")
    asked = flags.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a Ray that this starts sends no usage statistics
    ray.init()
    task = ray.remote(score).options(
        num_cpus=asked.cpus, num_gpus=asked.gpus, scheduling_strategy="SPREAD", max_retries=asked.retries, retry_exceptions=[Again]
    )
    waiting = {task.remote(f"{i}/{asked.shards}", asked.arguments, asked.cpus): i for i in range(asked.shards)}
    codes = {0}
    while waiting and 2 not in codes:  # a flag refused by one shard is refused by all
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
