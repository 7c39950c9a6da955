"""TRL's and verl's distillation on stored tokens and what a stored teacher says of them: TRL's by examples/trl_distillation.py, verl's loss by itself."""
import runpy
import subprocess

import pytest

pytest.importorskip("trl.experimental.server_distillation")
import pyarrow.parquet  # noqa: E402
import torch  # noqa: E402
from conftest import CHECKOUT, POLICY  # noqa: E402
from datasets import Dataset  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402
from trl.experimental.server_distillation import ServerDistillationConfig  # noqa: E402
from verl.trainer.distillation.losses import distillation_loss  # noqa: E402
from verl.utils import tensordict_utils as tu  # noqa: E402
from verl.workers.config import ActorConfig, DistillationConfig, DistillationLossConfig  # noqa: E402

from rredcot import _node  # noqa: E402


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """Sixteen rows of two groups of the bundled traces, with the prover as their teacher."""
    folder = tmp_path_factory.mktemp("taught")
    prover, path = CHECKOUT / "models/prover", folder / "taught.parquet"
    for words in (
        ["policy", "build", prover, "-o", folder / "teacher", "--exit-template", prover / "exit_template.json"],
        ["score", CHECKOUT / "fixtures/chains.jsonl", "--limit", "16", "--estimator", "distill", "--teacher", folder / "teacher", "-o", path],
    ):
        subprocess.run(_node.command(list(map(str, words))), env=_node.environment(), check=True)
    return path


@pytest.fixture
def example(taught, monkeypatch):
    monkeypatch.chdir(taught.parent)
    return runpy.run_path(CHECKOUT / "examples/trl_distillation.py")


def test_trls_loss_is_that_of_the_stored_teacher(example, tmp_path):
    rows = example["ROWS"]
    prompts = [row["prompt"] for row in rows[:1] + rows[8:9]]  # one of each group
    args = ServerDistillationConfig(
        str(tmp_path), teacher_model_server_url="stored", beta=1.0, loss_top_k=1, use_cpu=True, bf16=False, report_to="none",
        max_steps=2, per_device_train_batch_size=2, logging_steps=1, learning_rate=0.0, save_strategy="no",
    )
    trainer = example["Trainer"](str(POLICY), args, Dataset.from_list([{"prompt": prompt} for prompt in prompts]))
    trainer.train()
    found = [each["loss"] for each in trainer.state.log_history if "loss" in each]
    model = AutoModelForCausalLM.from_pretrained(POLICY, dtype=torch.float32)
    # traces come in turn, those of each prompt from the first on
    for loss, batch in zip(found, ([rows[0], rows[8]], [rows[1], rows[9]]), strict=True):
        terms = [term for row in batch for term in by_hand(model, row)]
        assert loss == pytest.approx(sum(terms) / len(terms), abs=1e-5)
    assert found[0] != pytest.approx(found[1], abs=1e-4)


@torch.no_grad()
def by_hand(model, row):
    """KL of two outcomes, this token or any other, of each token: what TRL makes of one log-probability."""
    ids = torch.tensor([row["prompt_ids"] + row["completion_ids"]])
    logp = model(ids).logits[0].log_softmax(-1)[len(row["prompt_ids"]) - 1 : -1]
    own = logp.gather(1, torch.tensor(row["completion_ids"])[:, None])[:, 0].double()
    its = torch.tensor(row["teacher_logprobs"]).double()
    other = [(-torch.expm1(each)).clamp_min(1e-30).log() for each in (own, its)]
    return (own.exp() * (own - its) + other[0].exp() * (other[0] - other[1])).tolist()


def nested(lists):
    return torch.nested.as_nested_tensor([torch.tensor(each) for each in lists], layout=torch.jagged)


def test_verls_loss_is_that_of_the_columns(taught):
    """With k1 and the policy's gradient it trains on `token_advantage` less `kl`."""
    rows = pyarrow.parquet.read_table(taught).to_pylist()[:4]

    def shifted(name):  # verl reads what is said of a token in the place before it
        return nested([[0.0] * (len(row["prompt_ids"]) - 1) + row[name] + [0.0] for row in rows])

    tokens = sum(len(row["completion_ids"]) for row in rows)
    data = TensorDict(
        {
            "prompts": nested([row["prompt_ids"] for row in rows]),
            "responses": nested([row["completion_ids"] for row in rows]),
            "response_mask": nested([[1] * len(row["completion_ids"]) for row in rows]),
            "old_log_probs": nested([row["logprobs"] for row in rows]),
            "teacher_logprobs": shifted("teacher_logprobs"),
        },
        [len(rows)],
    )
    for name, value in {"dp_size": 1, "batch_num_tokens": tokens, "global_batch_size": len(rows)}.items():
        tu.assign_non_tensor_data(data, name, value)
    config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=4, loss_agg_mode="token-mean")
    own = DistillationConfig(distillation_loss=DistillationLossConfig(loss_mode="k1", use_policy_gradient=True, loss_max_clamp=None))
    log_probs = shifted("logprobs").requires_grad_()
    loss, _ = distillation_loss(config, own, {"log_probs": log_probs}, data)
    (gradient,) = torch.autograd.grad(loss, log_probs)
    # at the policy that wrote them the loss is -mean A, and its gradient -A/T in each place
    credit = [[a - kl for a, kl in zip(row["token_advantage"], row["kl"], strict=True)] for row in rows]
    assert loss.item() == pytest.approx(-sum(map(sum, credit)) / tokens, abs=1e-5)
    for row, of_row, found in zip(rows, credit, gradient.unbind(), strict=True):
        begin = len(row["prompt_ids"]) - 1
        assert found[begin:-1].tolist() == pytest.approx([-each / tokens for each in of_row], abs=1e-6)
