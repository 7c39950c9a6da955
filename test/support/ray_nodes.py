"""Runs the example for Ray on two nodes, processes of this machine, and kills one of them while it is at work.

    python ray_nodes.py <folder> '[<arguments of ray_shards.py>]'

It writes to <folder>/out in four shards. Prints what was lost with the node, and how it ended.
"""
import glob
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from ray.cluster_utils import Cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
OBJECTS = {"object_store_memory": 100 * 2**20}
LONGEST = 240  # seconds until something is given up


def processes_below(root):
    """Pids and command lines of the process and of all that it and its children have started."""
    found = {}
    for path in glob.glob("/proc/[0-9]*"):
        try:
            parent = int(Path(path, "stat").read_text().rpartition(")")[2].split()[1])
            line = Path(path, "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, ValueError):
            continue  # gone meanwhile
        found[int(path[6:])] = (parent, line)
    below, added = {}, {root}
    while added:
        below.update({pid: found[pid][1] for pid in added if pid in found})
        added = {pid for pid, (parent, _) in found.items() if parent in added}
    return below


def raylet_of(node):
    return node.all_processes["raylet"][0].process.pid


def kill(cluster, node):
    """SIGKILL to all of a node at once, to the processes of `rredcot` too: what a machine without power looks like."""
    for pid in processes_below(raylet_of(node)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    cluster.remove_node(node, allow_graceful=False)


def killed_meanwhile(cluster, nodes, example, arguments, begun):
    """Runs an example to its end; the first node of which `begun` tells something of a process's command line dies meanwhile."""
    log = open(f"{sys.argv[1]}/{example}.log", "w+")
    program = subprocess.Popen(
        [sys.executable, EXAMPLES / example, *arguments], env={**os.environ, "RAY_ADDRESS": cluster.address}, stdout=log, stderr=log
    )
    lost, end = None, time.time() + LONGEST
    while lost is None and program.poll() is None and time.time() < end:
        time.sleep(0.05)
        for node in nodes:
            told = [begun(line) for line in processes_below(raylet_of(node)).values() if "rredcot score" in line]
            lost = next((each for each in told if each is not None), None)
            if lost is not None:
                kill(cluster, node)
                nodes.remove(node)
                break
    try:
        code = program.wait(LONGEST)
    except subprocess.TimeoutExpired:
        program.kill()
        code = None
    log.seek(0)
    return {"code": code, "lost": lost, "log": log.read()[-4000:]}


def started(start):
    """What `start` returns: Ray gives a node 30 seconds, which a busy machine may not have."""
    for attempt in range(5):
        try:
            return start()
        except Exception as error:
            if attempt == 4:
                raise
            print(error, file=sys.stderr)


def main():
    folder, asked = sys.argv[1], json.loads(sys.argv[2])
    head = {"num_cpus": 0, "include_dashboard": False, **OBJECTS}
    cluster = started(lambda: Cluster(initialize_head=True, head_node_args=head))
    nodes = [started(lambda: cluster.add_node(num_cpus=1, **OBJECTS)) for _ in range(2)]

    def shard(line):
        """A shard that has written some of its sixteen parts, with the times of those files."""
        i = int(re.search(r"--shard (\d+)/4", line)[1])
        parts = [path for path in glob.glob(f"{folder}/out/part-*.parquet") if int(path[-13:-8]) % 4 == i]
        return {"shard": i, "parts": times(parts)} if 0 < len(parts) <= 8 else None

    try:
        shards = killed_meanwhile(cluster, nodes, "ray_shards.py", asked, shard)
        if shards["lost"] is not None:
            lost = shards["lost"].pop("parts")
            shards["lost"] |= {"kept": len(lost), "untouched": times(lost) == lost}
    finally:
        cluster.shutdown()
    print(json.dumps(shards))


def times(paths):
    return {path: os.stat(path).st_mtime_ns for path in paths}


if __name__ == "__main__":
    main()
