"""Who answers in the place of a policy's graph, in this process: `rredcot.Scorer(text, answerer=Model(model))`.

An answerer is called with a list of questions about token ids, and returns an answer for each: a dict as a line of answers in
docs/engines.md, without its id. Its `name` goes into the metadata of the scored table. The policy's folder then holds only tokenizer
and templates (`rredcot policy build <checkpoint> -o <folder> --tokenizer-only`).
"""
from __future__ import annotations

import copy
import inspect
import itertools
import zlib
from typing import Any

import torch
import transformers

from rredcot._errors import log
from rredcot._questions import Question


class Model:
    """A causal language model of transformers, as it is now: a trainer's own, with the weights of this step.

    tokens       of a forward pass, padding and all: by default 2,048, or as many as have a gigabyte of logits
    temperature  by which logits are divided, as a trainer does whose samples were drawn with it

    A trace is computed once. All that is asked behind its exits stands in its row, where a mask lets each branch see the trace up to its
    exit; or, where layers have a state in place of attention, behind a copy of the cache at the exit. Both are compared with plain
    passes before the first answer, and what does not agree is not used.
    """

    def __init__(self, model: Any, *, tokens: int | None = None, temperature: float = 1.0) -> None:
        self.model, self.temperature = model, temperature
        self.config = model.config.get_text_config()
        self.vocabulary = model.get_input_embeddings().weight.shape[0]
        self.tokens = tokens or min(2**28 // self.vocabulary, 2048)
        self.name = f"torch {torch.__version__}, transformers {transformers.__version__}"
        # transformers 5.24 calls it cache, 5.19 does not yet
        self._cache = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        self.way, self.computed = None, 0

    def __call__(self, asked: list[Question]) -> list[dict[str, Any]]:
        was, _ = self.model.training, self.model.eval()
        try:
            with torch.no_grad():
                found = {q.id: self._drawn(q) for q in asked if q.samples}
                scored = [q for q in asked if not q.samples]
                if scored and self.way is None:
                    self.way = self._chosen(scored[0])
                found |= self._found([q for q in scored if q.fresh], "plain")
                found |= self._found([q for q in scored if not q.fresh], self.way)
        finally:
            self.model.train(was)
        return [found[q.id] for q in asked]

    def _chosen(self, q):
        """The first way that agrees with plain passes on a trace, and on what goes on from two places in it."""
        ids = q.ids[: 2 * self.tokens]
        asked = [q._replace(id="", ids=ids, base="", shared=len(ids), start=1)]
        for n, cut in enumerate((len(ids) // 3, len(ids) // 2)):
            asked.append(q._replace(id=f"{n}", ids=ids[:cut] + ids[-16:], base="", shared=cut, start=max(1, cut + n)))
        plain = self._found(asked, "plain")
        for way in ("packed", "cached"):
            try:
                found = self._found(asked, way)
            except Exception as error:  # each model has its own way to say that it cannot
                log.info("not %s: %r", way, error)
                continue
            pairs = [[abs(a - b) for a, b in zip(found[q.id]["logprobs"], plain[q.id]["logprobs"])] for q in asked]
            off = max((sum(each) / len(each) for each in pairs if each), default=0.0)
            log.info("%s: %.2g nats a token off plain passes", way, off)
            if off < (1e-4 if self.model.get_input_embeddings().weight.element_size() >= 4 else 0.1):
                return way
        return "plain"

    def _found(self, asked, way):
        """Answers by id. Rows of like length share a forward pass."""
        rows = [_Row([q]) for q in asked] if way == "plain" else [_Row(list(same)) for _, same in itertools.groupby(asked, lambda q: q.base)]
        found, batch = {}, []
        for row in sorted(rows, key=lambda row: len(row.ids)):
            if way == "cached":
                self._behind(row)
                continue
            if batch and (len(batch) + 1) * len(row.ids) > self.tokens:
                self._together(batch, way)
                batch = []
            batch.append(row)
        if batch:
            self._together(batch, way)
        for row in rows:
            found |= row.answers()
        return found

    def _together(self, rows, way):
        """Fills rows in one pass; or one long row in several, a part behind the cache of those before."""
        width, device = max(len(row.ids) for row in rows), self.model.get_input_embeddings().weight.device
        # padding is a branch of its own, or its attention would be no number
        ids, places, sees, owner = torch.zeros(4, len(rows), width, dtype=torch.long, device=device)
        owner[:] = -2 - torch.arange(width, device=device)
        for n, row in enumerate(rows):
            for whole, own in zip((ids, places, sees, owner), (row.ids, row.places, row.sees, row.owner)):
                whole[n, : len(own)] = torch.tensor(own, device=device)
        if way == "plain":
            lengths = torch.tensor([[len(row.ids)] for row in rows], device=device)
            self._fill(rows, 0, ids, False, attention_mask=(torch.arange(width, device=device) < lengths).long())
            return
        cache = transformers.DynamicCache() if width > self.tokens else False
        for at in range(0, width, self.tokens):
            end = min(at + self.tokens, width)
            there, whose = places[:, None, :end], owner[:, None, :end]
            here, mine, bound = (each[:, at:end, None] for each in (places, owner, sees))
            seen = ((whose == -1) & (there < bound)) | ((whose == mine) & (there <= here))
            cache = self._fill(rows, at, ids[:, at:end], cache, attention_mask=self._masks(seen, here - there), position_ids=places[:, at:end])

    def _masks(self, seen, distance):
        """Who sees whom (B, n, m) as a mask for each kind of layer."""
        window = getattr(self.config, "sliding_window", None)
        kinds = set(getattr(self.config, "layer_types", None) or ["sliding_attention" if window else "full_attention"])
        dtype = self.model.get_input_embeddings().weight.dtype
        zero, least = torch.zeros((), dtype=dtype, device=seen.device), torch.finfo(dtype).min
        by_kind = {"full_attention": seen, "sliding_attention": seen & (distance < window) if window else seen}
        masks = {kind: torch.where(by_kind[kind], zero, least)[:, None] for kind in kinds}
        return masks if len(kinds) > 1 else masks.popitem()[1]

    def _behind(self, row):
        """Fills a row by its trace in parts, and each branch behind a copy of the cache at its exit."""
        length, cache, at, device = len(row.trace), None, 0, self.model.get_input_embeddings().weight.device
        for stop in sorted({*range(self.tokens, length, self.tokens), length, *(cut for _, cut, _ in row.branches)}):
            if stop > at:
                cache = self._fill([row], at, torch.tensor([row.ids[at:stop]], device=device), cache)
            for ids, _, start in (each for each in row.branches if each[1] == stop):
                self._fill([row], start, torch.tensor([ids], device=device), copy.deepcopy(cache))
            at = stop

    def _fill(self, rows, at, ids, cache, **more):
        """One forward pass over ids (B, n), which stand at `at` in the rows; (log p of what follows, entropy) into them. Returns the cache."""
        keep = sorted({place for row in rows for place in row.follow if at <= place < at + ids.shape[1]})
        more |= {} if cache is False else {self._cache: cache}
        keeps = torch.tensor([place - at for place in keep] or [0], device=ids.device)
        out = self.model(input_ids=ids, use_cache=cache is not False, logits_to_keep=keeps, **more)
        self.computed += ids.numel()
        for row, logits in zip(rows, out.logits):
            own = [(k, place) for k, place in enumerate(keep) if place in row.follow]
            for some in (own[n : n + 256] for n in range(0, len(own), 256)):
                logprobs = (logits[[k for k, _ in some]].float() / self.temperature).log_softmax(-1)
                tokens = torch.tensor([row.follow[place] for _, place in some], device=logits.device)
                pairs = zip(logprobs.gather(-1, tokens[:, None])[:, 0].tolist(), torch.special.entr(logprobs.exp()).sum(-1).tolist())
                row.values |= zip([place for _, place in some], pairs)
        return False if cache is False else getattr(out, self._cache)

    def _drawn(self, q):
        """Samples, the same whenever they are asked."""
        device = self.model.get_input_embeddings().weight.device
        ids = torch.tensor([q.ids] * q.samples, device=device)
        stops = {"eos_token_id": q.stop, "pad_token_id": q.stop[0]} if q.stop else {}
        how = transformers.GenerationConfig(do_sample=True, top_k=0, temperature=self.temperature, max_new_tokens=q.max_tokens, **stops)
        own, self.model.generation_config = self.model.generation_config, transformers.GenerationConfig()  # the checkpoint's may have others
        try:
            with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
                torch.manual_seed(zlib.crc32(q.id.encode()))
                drawn = self.model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=how)[:, len(q.ids) :].tolist()
        finally:
            self.model.generation_config = own
        self.computed += ids.numel() + sum(map(len, drawn))
        return {"ids": [row[: next((n + 1 for n, token in enumerate(row) if token in q.stop), None)] for row in drawn]}


class _Row:
    """Questions of one trace: its tokens, then those of each branch, which begins with the token that predicts the first one asked."""

    def __init__(self, asked):
        self.asked, self.follow, self.values, self.at, self.branches = asked, {}, {}, {}, []
        # alone it is one sequence
        cuts = {q.id: min(q.shared, q.start - 1) for q in asked if q.shared < len(q.ids)} if len(asked) > 1 else {}
        length = max([len(q.ids) - 1 for q in asked if q.id not in cuts] + list(cuts.values()))
        self.trace = max((q.ids if q.id not in cuts else q.ids[: q.shared] for q in asked), key=len)[:length]
        self.ids, self.places, self.sees, self.owner = list(self.trace), list(range(length)), [0] * length, [-1] * length
        for n, q in enumerate(asked):
            start, cut = 0, 0
            if q.id in cuts:
                start, cut = len(self.ids), cuts[q.id]
                ids = q.ids[cut:-1]
                self.branches.append((ids, cut, start))
                self.ids += ids
                self.places += range(cut, cut + len(ids))
                self.sees += [cut] * len(ids)
                self.owner += [n] * len(ids)
            self.at[q.id] = [start + i - 1 - cut for i in range(q.start, len(q.ids))]
            self.follow |= zip(self.at[q.id], q.ids[q.start :])

    def answers(self):
        """By id."""
        for q in self.asked:
            found = [self.values[at] for at in self.at[q.id]]
            yield q.id, {"logprobs": [each[0] for each in found], **({"entropies": [each[1] for each in found]} if q.top else {})}
