"""OpenRLHF: policy gradients on scored traces, each token's advantage times w = σ·T.

NOT RUN END TO END. Written for OpenRLHF 0.11.0 (commit 3c3be623, August 2026); hooks/openrlhf.json has its names and signatures, and
`npm run hooks -- <checkout>` says what a newer OpenRLHF has changed. rredcot's tests run it on stand-ins made from that record.

    rredcot score traces.jsonl --policy ./policy -o scored.jsonl
    export PYTHONPATH=examples RREDCOT_SCORED=$PWD/scored.jsonl
    python examples/openrlhf_sigma.py --train.agent_func_path examples/openrlhf_sigma.py \\
        --data.input_key prompt --data.label_key group --algo.advantage.estimator dr_grpo …

with the arguments of openrlhf.cli.train_ppo_ray, a prompt set with one row per group, and --rollout.n_samples_per_prompt set to the
group's size. Nothing is generated: the agent gives OpenRLHF the stored completions. w is applied last, after baselines and whitening:
before it, whitening's shift of the mean would break Σσ = 1; in the rewards, σ would be summed into returns.
"""
import functools
import os
import runpy
from collections import defaultdict, deque

try:
    from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
    from openrlhf.utils.agent import AgentExecutorBase
except ImportError as error:
    raise SystemExit(f"openrlhf_sigma.py: {error}: pip install openrlhf[vllm] (written after 0.11.0)") from None

from scored_rows import scored_rows
from sigma_weights import sigma_weights


@functools.lru_cache(maxsize=None)
def scored():
    """The scored traces with a known reward."""
    return scored_rows(os.environ["RREDCOT_SCORED"], ("group",))


@functools.lru_cache(maxsize=None)
def sigma_of_tokens():
    """σ by the token ids of prompt and completion, the only key that an Experience keeps."""
    return {tuple(row["prompt_ids"] + row["completion_ids"]): row["sigma"] for row in scored()}


def weight_experience(experience, sigmas_by_tokens):
    """Multiplies `advantages` (B, A) by w. A starts at the prompt's second token; `action_mask` marks the completion."""
    kept = experience.attention_mask.bool()
    ids = [tuple(row[at].tolist()) for row, at in zip(experience.sequences, kept)]
    missing = [i for i, tokens in enumerate(ids) if tokens not in sigmas_by_tokens]
    if missing:
        raise ValueError(f"{len(missing)} of {len(ids)} traces are not among the scored ones, or were truncated: raise --data.max_len")
    weights = sigma_weights([sigmas_by_tokens[tokens] for tokens in ids], experience.action_mask)
    experience.advantages = experience.advantages * weights.to(experience.advantages)
    return experience


def install():
    """Runs in every Ray worker, since any of them may compute the advantages."""
    plain = RemoteExperienceMaker.compute_advantages_and_returns

    def compute_advantages_and_returns(self, experiences):
        return [weight_experience(e, sigma_of_tokens()) for e in plain(self, experiences)]

    RemoteExperienceMaker.compute_advantages_and_returns = compute_advantages_and_returns


class AgentExecutor(AgentExecutorBase):
    """Cycles through the stored traces of a group; the label is the group. One engine serves all samples of a prompt."""

    def __init__(self):
        self.traces = defaultdict(deque)
        for row in scored():
            self.traces[row["group"]].append(row)

    async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=None):
        if label not in self.traces:
            raise ValueError(f"label {label!r} is not a group of {os.environ['RREDCOT_SCORED']}: --data.label_key must name the column `group`")
        traces = self.traces[label]
        row = traces[0]
        traces.rotate(-1)
        before = len(row["prompt_ids"])
        tokens = row["prompt_ids"] + row["completion_ids"]
        return {
            "prompt": prompt,
            "label": label,
            "images": None,
            "mm_train_inputs": None,
            "observation_tokens": tokens,
            "action_ranges": [(before, len(tokens))],
            "rollout_log_probs": [0.0] * before + row["logprobs"],
            "truncated": False,
            "reward": row["reward"],
            "scores": row["reward"],
            "extra_logs": {},
        }


def in_every_worker(init):
    """`ray.init` that also runs `install` in every worker; OpenRLHF's own arguments stay as they are."""

    @functools.wraps(init)
    def hooked(*args, runtime_env=None, **options):
        hook = {"worker_process_setup_hook": "openrlhf_sigma.install"}
        return init(*args, runtime_env={**(runtime_env or {}), **hook}, **options)

    return hooked


if __name__ == "__main__":
    import ray

    scored()  # a bad file ends the program here, not in a worker
    ray.init = in_every_worker(ray.init)
    runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")
