"""Who answers in the place of a policy's graph, in this process: `rredcot.Scorer(text, answerer=Model(model))`.

An answerer is called with a list of questions about token ids, and returns an answer for each: a dict as a line of answers in
docs/engines.md, without its id. Its `name` goes into the metadata of the scored table. The policy's folder then holds only tokenizer
and templates (`rredcot policy build <checkpoint> -o <folder> --tokenizer-only`).
"""
from __future__ import annotations

import itertools
import json
from collections import namedtuple
from typing import Any

# log p of ids[start:] is asked, each given all before it; with `top`, entropies too. Questions of one `base` begin with the same ids,
# `shared` of them. Where start is 0, `samples` of what follows are asked.
Question = namedtuple("Question", "id ids base shared start top samples")


def questions(lines):
    """The questions of JSON lines, each with all its token ids."""
    bases = {}
    for said in map(json.loads, lines):
        ids, base, shared = said["token_ids"], said["id"], len(said["token_ids"])
        if "prefix" in said:
            base, shared = said["prefix"]["of"], said["prefix"]["length"]
            ids = bases[base][:shared] + ids
        else:
            bases[base] = ids
        if "from" in said or "samples" in said:
            yield Question(said["id"], ids, base, shared, *(said.get(name, 0) for name in ("from", "top", "samples")))


class Model:
    """A causal language model of transformers, as it is now: a trainer's own, with the weights of this step.

    tokens       of a forward pass, padding and all: by default as many as have a gigabyte of logits
    temperature  by which logits are divided, as a trainer does whose samples were drawn with it

    A trace and all that is asked behind its exits are one row of a forward pass, where a mask lets each branch see the trace up to its
    exit. The first batch is compared with plain passes, which are taken from then on where that does not agree (layers with a state, or
    attention without masks). Draws no samples: not for `estimator="mc"`.
    """

    def __init__(self, model: Any, *, tokens: int | None = None, temperature: float = 1.0) -> None:
        import torch
        import transformers

        self.model, self.temperature = model, temperature
        self.tokens = tokens or 2**28 // model.get_input_embeddings().weight.shape[0]
        self.name = f"torch {torch.__version__}, transformers {transformers.__version__}"
        config = model.config.get_text_config()
        kinds = set(getattr(config, "layer_types", None) or ["sliding" if getattr(config, "sliding_window", None) else "full_attention"])
        self._longest = float("inf") if kinds == {"full_attention"} else getattr(config, "sliding_window", None) or 0
        self._is_packed: bool | None = None

    def __call__(self, asked: list[Question]) -> list[dict[str, Any]]:
        import torch

        was, _ = self.model.training, self.model.eval()
        try:
            with torch.no_grad():
                scored = [q for q in asked if not q.samples]
                found = self._found(scored)
        finally:
            self.model.train(was)
        return [found.get(q.id, {"error": f"{self.name} draws no samples"}) for q in asked]

    def _found(self, asked):
        plain = [_Row([q]) for q in asked]
        if self._is_packed is False:
            return self._answers(plain)
        packed = [_Row(list(same)) for _, same in itertools.groupby(asked, lambda q: q.base)]
        if self._is_packed is None and packed:
            tried = max(packed, key=lambda row: len(row.asked)).asked[:8]
            self._is_packed = self._agrees(tried)
            return self._found(asked)
        kept = [row for row in packed if len(row.ids) <= self._longest]
        long = [_Row([q]) for row in packed if len(row.ids) > self._longest for q in row.asked]
        return {**self._answers(kept), **self._answers(long)}

    def _agrees(self, asked):
        try:
            packed, plain = self._answers([_Row(asked)]), self._answers([_Row([q]) for q in asked])
        except Exception:  # each model has its own way to say that it takes no such mask
            return False
        pairs = [(a, b) for q in asked for a, b in zip(packed[q.id]["logprobs"], plain[q.id]["logprobs"])]
        off = sum(abs(a - b) for a, b in pairs) / max(1, len(pairs))
        return off < (1e-4 if next(self.model.parameters()).element_size() == 4 else 0.1)

    def _answers(self, rows):
        """By id. Rows of like length share a forward pass."""
        found, batch = {}, []
        for row in sorted(rows, key=lambda row: len(row.ids)):
            if batch and (len(batch) + 1) * len(row.ids) > self.tokens:
                found |= self._forward(batch)
                batch = []
            batch.append(row)
        return found | self._forward(batch) if batch else found

    def _forward(self, rows):
        import torch

        width, device = max(len(row.ids) for row in rows), self.model.get_input_embeddings().weight.device
        ids, places = (torch.zeros(len(rows), width, dtype=torch.long, device=device) for _ in range(2))
        # who sees whom: padding sees itself, or its attention would be no number
        seen = torch.eye(width, dtype=torch.bool, device=device).repeat(len(rows), 1, 1)
        for n, row in enumerate(rows):
            length = len(row.ids)
            ids[n, :length], places[n, :length] = (torch.tensor(each, device=device) for each in (row.ids, row.places))
            seen[n, :length, :length] = row.seen(device)
        is_plain = all(row.is_plain for row in rows)
        zero = torch.zeros((), dtype=self.model.get_input_embeddings().weight.dtype, device=device)
        mask = (places.new_tensor([[at < len(row.ids) for at in range(width)] for row in rows]) if is_plain else
                torch.where(seen, zero, torch.finfo(zero.dtype).min)[:, None])
        keep = torch.tensor(sorted({at for row in rows for at in row.asked_at()}), device=device)
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=places, use_cache=False, logits_to_keep=keep)
        where = {at: k for k, at in enumerate(keep.tolist())}
        return {id: answer for n, row in enumerate(rows) for id, answer in row.answers(out.logits[n], where, self.temperature)}


class _Row:
    """Questions of one trace: its tokens, then those of each branch, which begins with the token that predicts the first one asked."""

    def __init__(self, asked):
        self.asked = asked
        self.cuts = [min(q.shared, q.start - 1) if q.shared < len(q.ids) else len(q.ids) - 1 for q in asked]
        longest = max(asked, key=lambda q: min(q.shared, len(q.ids)))
        self.trace = longest.ids[: max(self.cuts)]
        if len(asked) == 1:  # alone it is one sequence
            self.trace, self.cuts = asked[0].ids[:-1], [len(asked[0].ids) - 1]
        self.ids, self.places, self.starts = list(self.trace), list(range(len(self.trace))), []
        for q, cut in zip(asked, self.cuts):
            self.starts.append(len(self.ids))
            self.ids += q.ids[cut:-1]
            self.places += range(cut, len(q.ids) - 1)
        self.is_plain = len(self.ids) == len(self.trace)

    def seen(self, device):
        """(n, n): the trace sees what is before; a branch the trace up to its exit, and itself up to each token."""
        import torch

        n = len(self.ids)
        seen = torch.ones(n, n, dtype=torch.bool, device=device).tril()
        for q, cut, start in zip(self.asked, self.cuts, self.starts):
            end = start + len(q.ids) - 1 - cut
            seen[start:end, cut:start] = False
        return seen

    def at(self, q, cut, start):
        """Of each token asked about, where the one before it stands in the row."""
        return [place if place < cut else start + place - cut for place in range(q.start - 1, len(q.ids) - 1)]

    def asked_at(self):
        return [at for each in zip(self.asked, self.cuts, self.starts) for at in self.at(*each)]

    def answers(self, logits, where, temperature):
        import torch

        for q, cut, start in zip(self.asked, self.cuts, self.starts):
            rows = [where[at] for at in self.at(q, cut, start)]
            logprobs, entropies = [], []
            for at in range(0, len(rows), 256):
                all_of = (logits[rows[at : at + 256]].float() / temperature).log_softmax(-1)
                tokens = torch.tensor(q.ids[q.start + at :][: len(all_of)], device=logits.device)
                logprobs += all_of.gather(-1, tokens[:, None])[:, 0].tolist()
                if q.top:
                    entropies += torch.special.entr(all_of.exp()).sum(-1).tolist()
            yield q.id, {"logprobs": logprobs, **({"entropies": entropies} if q.top else {})}
