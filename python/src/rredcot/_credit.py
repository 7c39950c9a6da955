"""σ·T for the traces of a trainer's batch: of what it has just sampled, or of what was scored before.

Both are called with rows {prompt_ids, completion_ids, advantage} (and reference, completion_mask), and give for each the weights of
its completion's tokens, by which the trainer multiplies that advantage: mean 1 over the tokens that the policy wrote.
"""
import functools
import json
import os
import time

import numpy as np

from rredcot._errors import log, rejects
from rredcot._rows import is_path
from rredcot._scored import scored_rows
from rredcot._scorer import Scorer

# of rules, these read how large a return is on the reward's scale; of an advantage there is the sign
ON_SCALE = ("rudder", "signed")
OURS = ("baseline", "reward_range", "method", "max_rejects", "preset", "columns", "drop")


def weights_of(sigma, mask=None, place="a trace"):
    """σ·T (T): of uniform σ exactly 1. Raises ValueError for what does not sum to 1."""
    sigma = np.asarray(sigma, dtype=np.float64)
    total = sigma.sum()
    if not abs(total - 1) <= 1e-3 * max(1, np.abs(sigma).sum()):  # nor a NaN
        raise ValueError(f"{place}: σ sums to {total:.6g}, expected 1")
    # the sum is 1 up to float32
    return (sigma * (len(sigma) if mask is None else sum(mask)) / total).astype(np.float32)


class Live:
    """Scores what was sampled a moment ago. What a trace's group tells is in its advantage already: a row needs no group, and a group
    may be spread over processes. Where the advantage is 0 nothing is asked, and where a row is rejected its weights are 1, as told.

    policy, answerer, flags: as of rredcot.Scorer
    """

    def __init__(self, policy=None, answerer=None, **flags):
        wrong = [name for name in OURS if name in flags]
        wrong += [f"sigma={rule}" for rule in str(flags.get("sigma", "")).split(",") if rule in ON_SCALE]
        if wrong:
            raise ValueError(f"{', '.join(wrong)}: the trainer has the returns, of which σ sees the sign: score before training instead")
        flags["map"] = {"reward": "outcome", **flags.get("map", {})}
        kept = {"columns": ["sigma", "status"], "drop": ["prompt_ids", "completion_ids", "outcome"], "max_rejects": "100%"}
        self._scorer = Scorer(policy, answerer=answerer, baseline=0.5, reward_range="0,1", preset="tokens", **kept, **flags)
        self.told = {}

    def __call__(self, rows):
        began = time.perf_counter()
        asked = [
            {**{name: value for name, value in row.items() if name != "advantage"}, "id": str(n), "outcome": float(row["advantage"] > 0)}
            for n, row in enumerate(rows)
            if row["advantage"] != 0 and len(row["completion_ids"]) > 0
        ]
        weights = [np.ones(len(row["completion_ids"]), dtype=np.float32) for row in rows]
        left, uniform = {}, 0
        if asked:
            table = self._scorer(asked)
            for name, sigma, status in zip(*(table[column].to_pylist() for column in ("id", "sigma", "status"))):
                weights[int(name)] = weights_of(sigma, rows[int(name)].get("completion_mask"), f"row {name} of the batch")
                uniform += "uniform:" in status
            left = {row["id"]: f"{row['code']}: {row['reason']}" for row in rejects(table).to_pylist()}
        self.told = {"scored": len(asked) - len(left), "rejected": len(left), "uniform": uniform, "seconds": time.perf_counter() - began}
        for name, why in list(left.items())[:1]:
            log.warning("%d of %d traces keep one advantage for all their tokens; row %s of the batch: %s", len(left), len(rows), name, why)
        return weights


class Stored:
    """Finds what was scored before by the ids of prompt and completion."""

    def __init__(self, scored):
        self.place = os.fspath(scored) if is_path(scored) else "the scored table"
        self.rows = scored_rows(scored)
        self._weights = {}
        for row in self.rows:
            ids, place = (*row["prompt_ids"], *row["completion_ids"]), f"{self.place}: {row.get('id')}"
            own = weights_of(row["sigma"], row.get("completion_mask"), place)
            if not np.allclose(self._weights.setdefault(ids, own), own, atol=1e-2):
                raise ValueError(f"{place}: the same tokens were scored before with another σ, as of another reward: leave one of them out")
        self.told = {}

    def __call__(self, rows):
        found = [self._weights.get((*row["prompt_ids"], *row["completion_ids"])) for row in rows]
        for n, weights in enumerate(found):
            if weights is None:
                raise ValueError(f"row {n} of the batch: its {len(rows[n]['completion_ids'])} tokens are none of {self.place}: cut, or tokenized again")
        return found


def one_of(advantages):
    """The advantage of a trace, of those of its tokens. Raises ValueError where each has its own."""
    if len(advantages) and (advantages != advantages[0]).any():
        raise ValueError("each token has an advantage of its own: σ shares out one a trace, as of the estimator grpo, without a KL term in the rewards")
    return advantages[0].item() if len(advantages) else 0.0


def cut(ids, wrote):
    """Prompt, completion, and which of this the policy wrote: from its first token to its last."""
    places = [n for n, own in enumerate(wrote) if own]
    start, end = (places[0], places[-1] + 1) if places else (len(ids), len(ids))
    return ids[:start], ids[start:end], [int(own) for own in wrote[start:end]]


def tokens_of(ids, seen, acted):
    """The same of padded rows (B, L). `acted` (B, A) marks what the policy wrote, and ends where they end."""
    for row, mask, own in zip(ids, seen.bool(), acted.bool()):
        wrote = mask.new_zeros(len(mask))
        wrote[len(mask) - len(own) :] = own
        yield cut(row[mask].tolist(), wrote[mask].tolist())


def row_of(prompt, completion, wrote, advantages, **more):
    """A trace as `Live` and `Stored` are called with: the advantages are those of its tokens."""
    return {"prompt_ids": prompt, "completion_ids": completion, "completion_mask": wrote, "advantage": one_of(advantages), **more}


def spread(advantages, weights, mask):
    """Advantages (B, L) times the weights of each row where the mask has its tokens, 0 elsewhere."""
    import torch

    placed = torch.zeros_like(advantages)
    for i, own in enumerate(weights):
        placed[i, mask[i].bool()] = torch.from_numpy(own).to(placed)
    return advantages * placed


def weigh(credit, tokens, acted, advantages, references=None):
    """Advantages (B, A) times σ·T where `acted` (B, A) marks what the policy wrote, 0 elsewhere. `tokens` as tokens_of gives them."""
    rows = []
    for i, each in enumerate(tokens):
        # what was scored before needs no advantage
        own = advantages[i][acted[i].bool()] if isinstance(credit, Live) else ()
        rows.append(row_of(*each, own, **({} if references is None else {"reference": references[i]})))
    return spread(advantages, [own[np.array(row["completion_mask"], dtype=bool)] for row, own in zip(rows, credit(rows))], acted)


@functools.lru_cache
def of_environment(name="RREDCOT"):
    """As the variable says, for trainers that are started by a command: {"scored": "scored.parquet"}, or {"policy": "./policy", …flags}."""
    found = os.environ.get(name, "{}")
    try:
        said = json.loads(found)
    except ValueError:
        said = None
    # without a name it would be the bundled policy, a toy
    if not isinstance(said, dict) or sum(isinstance(said.get(key), str) for key in ("scored", "policy")) != 1:
        raise ValueError(f'{name}: found {found!r}, expected {{"policy": "<folder>", …}} or {{"scored": "<file>"}}')
    said.pop("reference", None)
    return Stored(said["scored"]) if "scored" in said else Live(**said)


def reference_name():
    """The column that has the right answer, of a hook that finds it there."""
    return json.loads(os.environ.get("RREDCOT", "{}")).get("reference", "answer")
