"""OpenRLHF with an advantage for every token: its own times σ·T, after baselines and whitening.

    RREDCOT='{"policy": "./policy"}' python -m rredcot.openrlhf <arguments of openrlhf.cli.train_ppo_ray>

RREDCOT holds the policy's folder and flags of `rredcot score`; the label is the right answer. With '{"scored": "/path/scored.parquet"}'
nothing is generated: the prompts are a file with a row for each group, the label (--data.label_key) is its `group`, and
--rollout.n_samples_per_prompt its size.
"""
import functools
import itertools
import os
import runpy
import sys

from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from openrlhf.utils.agent import AgentExecutorBase

from rredcot._credit import Stored, of_environment, tokens_of, weigh
from rredcot._scored import by_group

plain = RemoteExperienceMaker.compute_advantages_and_returns


def compute_advantages_and_returns(self, experiences):
    experiences = plain(self, experiences)
    for each in experiences:
        tokens = tokens_of(each.sequences, each.attention_mask, each.action_mask)
        each.advantages = weigh(of_environment(), tokens, each.action_mask, each.advantages, each.labels)
    return experiences


class AgentExecutor(AgentExecutorBase):
    """Gives the stored traces of a group in turn. One engine serves all samples of a prompt."""

    def __init__(self):
        self.traces = {group: itertools.cycle(rows) for group, rows in by_group(of_environment().rows).items()}

    async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=None):
        if label not in self.traces:
            raise ValueError(f"label {label!r} is no group of {of_environment().place}: --data.label_key must name the column `group`")
        row = next(self.traces[label])
        before, tokens = len(row["prompt_ids"]), row["prompt_ids"] + row["completion_ids"]
        nothing = dict.fromkeys(("images", "mm_train_inputs"))
        told = {"prompt": prompt, "label": label, "reward": row["reward"], "scores": row["reward"], "extra_logs": {}, "truncated": False}
        logprobs = [0.0] * before + row["logprobs"]
        return {**told, **nothing, "observation_tokens": tokens, "action_ranges": [(before, len(tokens))], "rollout_log_probs": logprobs}


def install():
    RemoteExperienceMaker.compute_advantages_and_returns = compute_advantages_and_returns


def in_every_worker(init):
    """`ray.init` after which every worker has our advantages, since any of them may compute them; what OpenRLHF gives stays."""

    @functools.wraps(init)
    def hooked(*args, runtime_env=None, **options):
        given = runtime_env or {}
        own = {"worker_process_setup_hook": "rredcot.openrlhf.install", "env_vars": {**given.get("env_vars", {}), "RREDCOT": os.environ["RREDCOT"]}}
        return init(*args, runtime_env={**given, **own}, **options)

    return hooked


if __name__ == "__main__":
    import ray

    if isinstance(of_environment(), Stored):  # a bad file ends the program here, not in a worker
        sys.argv += ["--train.agent_func_path", os.path.abspath(__file__)]
    ray.init = in_every_worker(ray.init)
    runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")
