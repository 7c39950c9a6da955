"""Commands of Python in forks of this process, which has imported what takes longer than most of them: `python forked.py MODULE …`.

A line of stdin is {"command", "input"}: the words behind `python`, and what the command reads. It is answered by {"status", "stdout", "stderr"}.
"""
import importlib
import json
import os
import runpy
import sys
import tempfile

for name in sys.argv[1:]:
    importlib.import_module(name)


def become(words):
    """What `python WORDS` does, in this process."""
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")


for line in sys.stdin:
    asked = json.loads(line)
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        given.write(asked["input"])
        given.seek(0)
        child = os.fork()
        if child == 0:
            for descriptor, file in enumerate((given, out, err)):
                os.dup2(file.fileno(), descriptor)
            sys.stdin = open(0, closefd=False)
            become(asked["command"])
            sys.exit()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for file in (out, err):
            file.seek(0)
        print(json.dumps({"status": status, "stdout": out.read(), "stderr": err.read()}), flush=True)
