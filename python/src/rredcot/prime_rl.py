"""prime-rl's GRPO with an advantage for every token: its own times σ·T, of each group as it is sampled.

    RREDCOT='{"policy": "./policy"}' python -m rredcot.prime_rl @ orchestrator.toml

replaces its command `orchestrator`, for `algo.type = "grpo"`. RREDCOT holds the policy's folder, which is read again when it has changed,
flags of `rredcot score`, and the field of a task that is the right answer, `"reference": "answer"` if not given; or {"scored":
"scored.parquet"}. A trace that branches keeps one advantage for all its tokens. The loss is a mean over all tokens of a batch.
"""
import asyncio

import numpy as np
from prime_rl.orchestrator.algo import ALGORITHM_CLASSES, assign_advantages
from prime_rl.orchestrator.algo.base import iter_trainable_traces

from rredcot._credit import cut, of_environment, reference_name, row_of


class Credit(ALGORITHM_CLASSES["grpo"]):
    async def score_group(self, episodes):
        await super().score_group(episodes)
        found = [(trace, scored_as(trace)) for _, trace in iter_trainable_traces(episodes)]
        found = [(trace, row) for trace, row in found if row is not None]
        credit = of_environment()
        for (trace, row), weights in zip(found, await asyncio.to_thread(credit, [row for _, row in found])):
            wrote = [weight for weight, sampled in zip(weights, row["completion_mask"]) if sampled]
            assign_advantages(trace, [row["advantage"] * weight for weight in wrote])


def scored_as(trace):
    """A trace as the scorer takes it; None for one that branches."""
    if any(node.parent != (n - 1 if n else None) for n, node in enumerate(trace.nodes)):
        return None
    ids, wrote = ([each for node in trace.nodes for each in getattr(node, name)] for name in ("token_ids", "mask"))
    advantages = np.array([each for node in trace.nodes for each in node.advantages or []])
    return row_of(*cut(ids, wrote), advantages, reference=getattr(trace.task.data, reference_name(), None))


ALGORITHM_CLASSES["grpo"] = Credit

if __name__ == "__main__":
    from prime_rl.entrypoints.orchestrator import main

    main()
