"""The command `rredcot`."""
import os
import subprocess
import sys

from rredcot import _node


def main():
    command, environment = _node.command(sys.argv[1:]), _node.environment()
    if os.name == "posix":
        # in the place of this process: signals and the exit code are the program's
        os.execve(command[0], command, environment)
    with subprocess.Popen(command, env=environment) as process:
        while True:
            try:
                sys.exit(process.wait())
            except KeyboardInterrupt:  # the program has it too, and ends as it sees fit
                continue


if __name__ == "__main__":
    main()
