"""torchrl's GRPOLoss takes an advantage for every token as it is: with A·σ·T its loss and gradient are eq. 11's, by hand."""
import pytest

pytest.importorskip("torchrl")
import torch  # noqa: E402
from conftest import POLICY  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from torchrl.modules.llm import TransformersWrapper  # noqa: E402
from torchrl.objectives.llm import GRPOLoss  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

import rredcot  # noqa: E402

CLIP = 0.2


def plain(model, ids, seen):
    """Log-probabilities (B, L - 1) of what follows each token."""
    places = (seen.long().cumsum(-1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=seen.long(), position_ids=places).logits[:, :-1]
    return logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]


@pytest.mark.parametrize("moved", [0.0, 0.3])
def test_loss_and_gradient_are_equation_11(moved, scored, rows):
    """On the policy that sampled, and on one that has moved away, where ratios are clipped."""
    import pyarrow.parquet

    rows, table = rows[6:10], pyarrow.parquet.read_table(scored)
    tokenizer, model = AutoTokenizer.from_pretrained(POLICY), AutoModelForCausalLM.from_pretrained(POLICY, dtype=torch.float64)
    tokenizer.padding_side = "left"
    wrapped = TransformersWrapper(model, tokenizer=tokenizer, input_mode="tokens", generate=False, pad_output=True, return_log_probs=True)
    length = max(len(row["prompt_ids"] + row["completion_ids"]) for row in rows)
    ids = torch.full((len(rows), length), tokenizer.pad_token_id)
    seen, acts = (torch.zeros(len(rows), length, dtype=torch.bool) for _ in range(2))
    for i, row in enumerate(rows):
        whole, own = row["prompt_ids"] + row["completion_ids"], len(row["completion_ids"])
        ids[i, -len(whole) :], seen[i, -len(whole) :], acts[i, -own:] = torch.tensor(whole), True, True
    values = torch.tensor([1.5 if row["reward"] else -0.5 for row in rows])
    weights = rredcot.sigma_weights(table, {"id": [row["id"] for row in rows], "completion_ids": ids, "completion_mask": acts})
    batch = TensorDict(
        {
            "tokens": TensorDict({name: ids for name in ("full", "response", "prompt")}, [len(rows)]),
            "masks": TensorDict({"all_attention_mask": seen, "all_assistant_mask": acts}, [len(rows)]),
            "advantage": (values[:, None] * weights)[..., None],
        },
        [len(rows)],
    )
    with torch.no_grad():
        old = plain(model, ids, seen)
        batch["log_probs", "full"] = wrapped(batch.clone())["log_probs", "full"]
        torch.manual_seed(0)
        for parameter in model.parameters():
            parameter += moved * parameter.std() * torch.randn_like(parameter)
    loss = GRPOLoss(wrapped, entropy_bonus=False, masking_strategy="rlhf", aggregation="prompt_mean", clip_epsilon=CLIP)
    found = loss(batch).loss_objective.sum()
    found.backward()
    gradient = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    new, hand, clipped = plain(model, ids, seen), 0.0, 0
    for i, row in enumerate(rows):
        own = len(row["sigma"])
        ratio, gain = (new[i, -own:] - old[i, -own:]).exp(), values[i] * torch.tensor(row["sigma"], dtype=torch.float64)
        hand = hand - torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).sum() / len(rows)
        clipped += ((ratio - 1).abs() > CLIP).sum().item()
    hand.backward()
    assert found.item() == pytest.approx(hand.item(), abs=1e-5)
    largest = max(parameter.grad.abs().max() for parameter in model.parameters())
    assert max((one - parameter.grad).abs().max() for one, parameter in zip(gradient, model.parameters())) < 1e-4 * largest
    assert largest > 1e-3 and (clipped > 0) == (moved > 0)
