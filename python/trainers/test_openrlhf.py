"""OpenRLHF's own `compute_advantages_and_returns` on its Experiences, with our weights behind it, and the traces that it is given in replay."""
import asyncio
import copy
import json
import types

import pytest

pytest.importorskip("openrlhf")
import ray  # noqa: E402
import torch  # noqa: E402
from conftest import POLICY, absent  # noqa: E402

absent("flash_attn", "flash_attn.bert_padding", "flash_attn.utils", "flash_attn.utils.distributed", "vllm", "vllm.inputs", "vllm.utils")
from openrlhf.trainer.ppo_utils.experience import Experience  # noqa: E402
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker  # noqa: E402
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator  # noqa: E402
from openrlhf.trainer.ray.vllm_engine import _load_agent_executor  # noqa: E402

import rredcot.openrlhf  # noqa: E402


def maker(estimator):
    spaces = lambda said: types.SimpleNamespace(**{name: spaces(each) if isinstance(each, dict) else each for name, each in said.items()})  # noqa: E731
    own = object.__new__(RemoteExperienceMaker)
    advantage = {"estimator": estimator, "gamma": 1.0, "lambd": 1.0, "no_std_norm": False}
    reward = dict.fromkeys(("clip_range", "overlong_buffer_len", "stop_properly_penalty_coef"))
    own.strategy = spaces({"args": {"rollout": {"n_samples_per_prompt": 8}, "algo": {"advantage": advantage}, "reward": reward, "data": {"max_len": 999}}})
    own.args, own.advantage_estimator, own.kl_ctl = own.strategy.args, estimator, spaces({"value": 0.0})
    return own


def experiences(rows):
    """Of 4 and 12 traces, from what our executor answers, as OpenRLHF makes and pads them."""
    executor, generator = _load_agent_executor(rredcot.openrlhf.__file__), object.__new__(SamplesGenerator)
    for part in (range(4), range(4, 16)):
        own = []
        for n in part:
            response = asyncio.run(executor.execute("p", rows[n]["group"], None, 999, None, None))
            assert response["observation_tokens"] == rows[n]["prompt_ids"] + rows[n]["completion_ids"]
            own.append(generator._process_response_into_experience({**response, "label": rows[n]["answer"]}, max_len=999))
            own[-1].index = [n]
            assert own[-1].rollout_log_probs[own[-1].action_mask.bool()].tolist() == pytest.approx(rows[n]["logprobs"])
        one = Experience.concat_experiences(own, 0)
        one.kl = torch.zeros(one.action_mask.shape)
        yield one


@pytest.mark.parametrize("kind", ["stored", "live"])
@pytest.mark.parametrize("estimator", ["reinforce", "reinforce_baseline", "dr_grpo", "group_norm", "rloo", "flash_reinforce"])
def test_advantages_are_its_own_times_the_weights(kind, estimator, scored, rows, monkeypatch):
    monkeypatch.setenv("RREDCOT", json.dumps({"scored": str(scored)}))
    rredcot.openrlhf.of_environment.cache_clear()
    own, made = maker(estimator), list(experiences(rows))
    plain = rredcot.openrlhf.plain(own, copy.deepcopy(made))
    if kind == "live":
        monkeypatch.setenv("RREDCOT", json.dumps({"policy": str(POLICY), "threads": 1}))
        rredcot.openrlhf.of_environment.cache_clear()
    monkeypatch.setattr(RemoteExperienceMaker, "compute_advantages_and_returns", rredcot.openrlhf.plain)
    rredcot.openrlhf.install()
    found = own.compute_advantages_and_returns(made)
    moved = 0
    for one, before in zip(found, plain):
        for i, n in enumerate(one.index):
            acts = one.action_mask[i].bool()
            value, sigma = before.advantages[i][acts], rows[n]["sigma"]
            # live, σ is of the sign of the advantage, which whitening of a batch may turn
            same = kind == "stored" or (value[0] > 0) == (rows[n]["reward"] > 0.5)
            if same:
                hand = value * torch.tensor(sigma) * len(sigma)
                assert one.advantages[i][acts].tolist() == pytest.approx(hand.tolist(), abs=1e-4)
                moved = max(moved, (hand - value).abs().max().item())
            assert one.advantages[i][acts].mean().item() == pytest.approx(value[0].item(), abs=1e-4)
            assert (one.advantages[i][~acts] == 0).all()
    assert moved > 0.1


def test_another_label_is_named(scored, monkeypatch):
    monkeypatch.setenv("RREDCOT", json.dumps({"scored": str(scored)}))
    rredcot.openrlhf.of_environment.cache_clear()
    executor = rredcot.openrlhf.AgentExecutor()
    with pytest.raises(ValueError, match="is no group of .*scored.parquet"):
        asyncio.run(executor.execute("p", "none such", None, 999, None, None))


def test_every_worker_has_it_and_what_openrlhf_gives_ray(monkeypatch):
    monkeypatch.setenv("RREDCOT", "{}")
    given = []
    monkeypatch.setattr(ray, "init", lambda **options: given.append(options["runtime_env"]))
    rredcot.openrlhf.in_every_worker(ray.init)(runtime_env={"env_vars": {"NCCL_DEBUG": "WARN"}})
    assert given == [{"env_vars": {"NCCL_DEBUG": "WARN", "RREDCOT": "{}"}, "worker_process_setup_hook": "rredcot.openrlhf.install"}]
