"""A process of `rredcot score - --stream`: one batch after the other, while the policy stays open."""
from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable

from rredcot import _node
from rredcot._errors import ended, failed, tell, with_rejects
from rredcot._questions import questions
from rredcot._rows import arrow, flag_words, own_source, pyarrow, table_of, write_stream

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from rredcot._flags import ScoreFlags
    from rredcot._questions import Question


class Scorer:
    """Scores batch after batch without the start that `score` pays each time, which of 16 rows is three quarters.

    A call takes rows and gives a table as `score` does. What follows of a trace's group, such as the baseline, follows of the rows of
    its batch: keep groups together. By default the estimator is pr, of every batch. A failed call raises Error and leaves the scorer as
    it was. `policy=` of a call names another policy; a policy folder that has changed since is read again.

        dataset.map_batches(rredcot.Scorer, fn_constructor_kwargs={"policy": "./policy"}, concurrency=4)  # Ray Data

    One call at a time runs; a process is started at the first one, and ends with `close`, with `with`, or with this process.

    answerer  answers in the place of the policy's graph, in the thread of the call (rredcot.answerers), such as a trainer's model
    """

    def __init__(
        self,
        policy: str | os.PathLike[str] | None = None,
        *,
        answerer: Callable[[list[Question]], list[dict[str, Any]]] | None = None,
        max_rejects: int | str = 0,
        **flags: Unpack[ScoreFlags],
    ) -> None:
        self._policy, self._answerer, self._flags = policy, answerer, {"max_rejects": max_rejects, **flags}
        self._lock = threading.Lock()
        self._process: _Process | None = None

    def __call__(self, data: Any, *, policy: str | os.PathLike[str] | None = None) -> pa.Table:
        found = arrow(data)
        table = table_of(data) if found is None else found
        named = policy if policy is not None else self._policy
        with self._lock:
            if self._process is None or self._process.has_ended():
                self._process = _Process(self._flags)
            try:
                told, scored = self._process.ask(table, named, self._answerer)
            except BaseException:
                # what comes next on the pipe is not known
                self._process.kill()
                self._process = None
                raise
        text = {key.decode()[len("rredcot."):]: value.decode() for key, value in told.items()}
        if text["exit"] != "0":
            raise failed(int(text["exit"]), text["error"], text["hint"], text["rejects"])
        return own_source(with_rejects(scored, text["rejects"]), data)

    def close(self) -> None:
        """Ends the process; the next call starts another."""
        with self._lock:
            if self._process is not None:
                self._process.close()
            self._process = None

    def __enter__(self) -> Scorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self):
        return functools.partial(Scorer, self._policy, answerer=self._answerer, **self._flags), ()


class _Process:
    """The program, and what it says on stderr."""

    def __init__(self, flags):
        self._folder = tempfile.TemporaryDirectory(prefix="rredcot-")
        words = ["score", "-", "--stream", "--log-json", *flag_words(flags, self._folder.name)]
        # Ctrl-C is for Python, which ends it where it interrupts a call
        own_session = {} if os.name == "nt" else {"start_new_session": True}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._program = subprocess.Popen(_node.command(words), env=_node.environment(), **pipes, **own_session)
        self._fatal = {}
        self._listener = threading.Thread(target=_listen, args=(self._program.stderr, self._fatal), daemon=True)
        self._listener.start()
        self._end = weakref.finalize(self, _end, self._program)

    def has_ended(self):
        return self._program.poll() is not None

    def ask(self, table, policy, answerer=None):
        """Metadata of the answer's first stream, and the table of the second, if it was scored. Raises Error where the process has ended."""
        pa = pyarrow()
        try:
            write_stream(table, self._program.stdin, policy, answerer)
            told = self._told()
            while b"rredcot.questions" in told:
                asked = list(questions(told[b"rredcot.questions"].splitlines()))
                lines = [json.dumps({"id": q.id, **answer}) for q, answer in zip(asked, answerer(asked), strict=True)]
                answers = pa.schema([], {b"rredcot.answers": "\n".join(lines).encode()}).empty_table()
                write_stream(answers, self._program.stdin)
                told = self._told()
            if told[b"rredcot.exit"] != b"0":
                return told, None
            with pa.ipc.open_stream(self._program.stdout) as stream:
                return told, stream.read_all()
        except (OSError, pa.ArrowInvalid) as error:
            try:
                code = self._program.wait(2)
            except subprocess.TimeoutExpired:  # it is alive: the rows were at fault
                raise error from None
            self._listener.join(2)
            raise ended(code, self._fatal) from None

    def _told(self):
        """What the next stream says, which has no rows."""
        self._program.stdin.flush()
        with pyarrow().ipc.open_stream(self._program.stdout) as stream:
            stream.read_all()
            return stream.schema.metadata

    def close(self):
        self._end()
        self._folder.cleanup()

    def kill(self):
        self._program.kill()
        self.close()


def _listen(stderr, fatal):
    """Hands on what it says, and keeps what it says last."""
    for line in stderr:
        fatal.update(tell(line.decode("utf8", "replace")) or {})


def _end(program):
    """It ends when there is no request left; a moment later it is ended."""
    try:
        program.stdin.close()
    except OSError:
        pass
    try:
        program.wait(5)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
    for pipe in (program.stdout, program.stderr):
        pipe.close()
