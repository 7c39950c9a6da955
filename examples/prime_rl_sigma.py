"""prime-rl: GRPO with each token's advantage times w = σ·T; `rredcot score` runs on every group as it is sampled.

NOT RUN END TO END. Written for prime-rl of August 2026 (commit 559b4477); hooks/prime-rl.json and hooks/verifiers.json have its names
and signatures, and `npm run hooks -- <checkout>` says what a newer one has changed. rredcot's tests run it on stand-ins made from
these records, with the real `rredcot score`.

    export RREDCOT_SCORE="rredcot score --policy ./policy"
    PYTHONPATH=examples python examples/prime_rl_sigma.py @ orchestrator.toml

replaces prime-rl's command `orchestrator`; start trainer and inference as usual. `algo.type = "grpo"` then selects the algorithm of
this file. The policy folder has the weights that training starts from: rebuild it from a checkpoint (`rredcot policy build`) when it
has fallen behind. Put other flags into RREDCOT_SCORE. RREDCOT_ANSWER names the task's answer field (default: `answer`). Traces of
several turns, and those that `score` rejects, keep one advantage for all tokens; a message says how many. prime-rl's loss is a mean
over all tokens of a batch: long traces keep their larger weight, and credit moves within a trace.
"""
import asyncio
import json
import os
import shlex
import sys

try:
    from prime_rl.orchestrator.algo import ALGORITHM_CLASSES, GRPOAlgorithm, assign_advantages
    from prime_rl.orchestrator.algo.base import iter_trainable_traces
except ImportError as error:
    raise SystemExit(f"prime_rl_sigma.py: {error}: run it in prime-rl's environment (written for commit 559b4477)") from None

# input and output formats, and the columns that are read
FLAGS = ["-", "--preset", "tokens", "--format", "jsonl", "--columns", "id,sigma", "--quiet", "-o", "-"]


def row_of(trace):
    """A row for `rredcot score`; None for a trace of several turns or branches."""
    nodes = trace.nodes
    mask = [sampled for node in nodes for sampled in node.mask]
    tokens = [token for node in nodes for token in node.token_ids]
    start = mask.index(True)
    if not all(mask[start:]) or any(node.parent != (n - 1 if n else None) for n, node in enumerate(nodes)):
        return None
    answer = getattr(trace.task.data, os.environ.get("RREDCOT_ANSWER", "answer"), None)
    row = {"id": trace.id, "group": "group", "prompt_ids": tokens[:start], "completion_ids": tokens[start:], "reward": trace.reward}
    return row if answer is None else {**row, "reference": answer}


async def sigmas_of(rows, mean):
    """σ by id, for the rows that `rredcot score` accepts; it reports the others on the orchestrator's stderr.

    `mean` is the mean reward of the whole group, which may have traces that are not among the rows.
    """
    if not rows:
        return {}
    command = shlex.split(os.environ.get("RREDCOT_SCORE", "rredcot score")) + FLAGS + ["--baseline", str(mean)]
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate("".join(json.dumps(row) + "\n" for row in rows).encode())
    # 65: too many rows were rejected, and stderr says why
    if process.returncode not in (0, 65):
        raise RuntimeError(f"{shlex.join(command)} ended with {process.returncode}")
    scored = [json.loads(line) for line in printed.splitlines()]
    return {row["id"]: row["sigma"] for row in scored}


class SigmaGRPO(ALGORITHM_CLASSES["grpo"]):
    """prime-rl's GRPO, with advantages weighted once a group is complete."""

    async def score_group(self, episodes):
        await super().score_group(episodes)
        traces = [trace for _, trace in iter_trainable_traces(episodes)]
        rows = {trace.id: row_of(trace) for trace in traces}
        mean = sum(trace.reward for trace in traces) / max(1, len(traces))
        sigmas = await sigmas_of([row for row in rows.values() if row is not None], mean)
        for trace in traces:
            if (sigma := sigmas.get(trace.id)) is not None:
                # prime-rl's advantages of the sampled tokens, in order
                plain = [advantage for node in trace.nodes for advantage in node.advantages or []]
                assign_advantages(trace, [advantage * s * len(sigma) for advantage, s in zip(plain, sigma, strict=True)])
        if left := len(traces) - len(sigmas):
            print(f"prime_rl_sigma.py: {left} of {len(traces)} traces keep one advantage for all their tokens", file=sys.stderr)


ALGORITHM_CLASSES["grpo"] = SigmaGRPO

if __name__ == "__main__":
    from prime_rl.entrypoints.orchestrator import main

    main()
