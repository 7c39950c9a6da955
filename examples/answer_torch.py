"""The engine `torch` of answer.py: any causal model that transformers opens, on a GPU or the CPU. A trace is computed once.

What goes on from its exits is computed behind its cache: in one forward pass, where a mask lets each branch see the trace up to its
exit, and itself; or, where layers have a state in place of attention, one by one, behind a copy of the cache at the exit. Both are
compared with plain passes before the first answer, and what does not agree is not used.
"""
import copy
import inspect
import sys
import zlib

import torch
import transformers

CHUNK = 1024  # tokens of a forward pass: bounds its mask (CHUNK, trace + CHUNK) and its logits (CHUNK, vocabulary)


class Engine:
    window = 1  # question, and those of the same trace

    def __init__(self, model, dtype, more):
        self.name = f"torch {torch.__version__}, transformers {transformers.__version__}"
        self.model = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=dtype, **more).eval()
        if torch.cuda.is_available() and "device_map" not in more:
            self.model.to("cuda")
        self.model.generation_config = transformers.GenerationConfig()  # the checkpoint's may have a temperature
        self.config = self.model.config.get_text_config()
        self.vocabulary = self.model.get_input_embeddings().weight.shape[0]
        self.longest = getattr(self.config, "max_position_embeddings", float("inf"))
        # transformers 5.24 calls it cache, 5.19 does not yet
        self.cache = "cache" if "cache" in inspect.signature(self.model.forward).parameters else "past_key_values"
        self.way, self.computed = None, 0

    @torch.inference_mode()
    def answer(self, asked):
        self.way = self.way or self.chosen(asked[0])
        found = {q.id: self.draw(q) for q in asked if q.samples}
        found |= {q.id: self.plain(q) for q in asked if q.start and (q.fresh or self.way == "plain")}
        found |= self.together([q for q in asked if q.id not in found], self.way == "packed")
        return [found[q.id] for q in asked]

    def chosen(self, q):
        """The first way that agrees with plain passes on a trace, and on what goes on from two places in it."""
        ids = q.ids[: 2 * CHUNK]
        asked = [q._replace(id="", ids=ids, shared=len(ids), start=1)]
        for n, cut in enumerate((len(ids) // 3, len(ids) // 2)):
            asked.append(q._replace(id=f"{n}", ids=ids[:cut] + ids[-16:], shared=cut, start=max(1, cut + n)))
        plain = [torch.tensor(self.plain(q)["logprobs"]) for q in asked]
        for way in ("packed", "cached"):
            try:
                found = self.together(asked, way == "packed")
                off = max((torch.tensor(found[q.id]["logprobs"]) - logprobs).abs().mean() for q, logprobs in zip(asked, plain))
            except Exception as error:  # each model has its own way to say that it cannot
                print(f"answer.py: not {way}: {error!r}", file=sys.stderr)
                continue
            print(f"answer.py: {way}, {off:.2g} nats a token off plain passes", file=sys.stderr)
            if off < (1e-4 if self.model.dtype == torch.float32 else 0.1):
                return way
        return "plain"

    def plain(self, q):
        return said(q, self.forward(q.ids[:-1], follows(q), use_cache=False)[0], 0)

    def together(self, asked, packed):
        """Answers by id: one pass over the trace, in chunks, and what goes on from it behind its cache."""
        # a branch begins with the token that predicts the first of what it is asked
        cut = {q.id: min(q.shared, q.start - 1) for q in asked if q.shared < len(q.ids)}
        whole, branches = [q for q in asked if q.id not in cut], [q for q in asked if q.id in cut]
        trace = max((q.ids[: q.shared] for q in asked), key=len, default=[])
        length = max([len(q.ids) - 1 for q in whole] + list(cut.values()), default=0)
        follow = {row: token for q in whole for row, token in follows(q).items()}
        cache, at, rows, found = transformers.DynamicCache() if packed else None, 0, {}, {}
        for stop in sorted({*range(CHUNK, length, CHUNK), length, *([] if packed else cut.values())}):
            here = {row - at: follow[row] for row in range(at, stop) if row in follow}
            if stop > at:
                new, cache = self.forward(trace[at:stop], here, cache)
                rows |= zip([at + row for row in here], new)
            for q in (q for q in branches if cut[q.id] == stop and not packed):
                new, _ = self.forward(q.ids[stop:-1], follows(q, stop), copy.deepcopy(cache))
                found[q.id] = said(q, new, stop)
            at = stop
        found |= {q.id: said(q, [rows[row] for row in follows(q)], 0) for q in whole}
        while packed and branches:
            found |= self.pack(branches, cut, cache, length)
        return found

    def pack(self, branches, cut, cache, length):
        """Answers by id to as many branches as a chunk holds, side by side under a mask; they are taken off the list."""
        taken, ids, follow, places = [], [], {}, []
        while branches and (not ids or len(ids) + len(branches[0].ids) - cut[branches[0].id] <= CHUNK):
            q = branches.pop(0)
            follow |= follows(q, cut[q.id] - len(ids))
            places += [(len(taken), cut[q.id], place) for place in range(cut[q.id], len(q.ids) - 1)]
            ids += q.ids[cut[q.id] : -1]
            taken.append(q)
        owner, end, place = torch.tensor(places, device=self.model.device).T[:, :, None]  # (n, 1) each
        past, width = torch.arange(length, device=self.model.device), getattr(self.config, "sliding_window", None)
        seen = {"full_attention": torch.cat((past < end, (owner == owner.T) & (place.T <= place)), 1)}  # (n, length + n)
        seen["sliding_attention"] = seen["full_attention"] & (place - torch.cat((past, place[:, 0])) < (width or length + len(ids)))
        kinds = set(getattr(self.config, "layer_types", None) or ["sliding_attention" if width else "full_attention"])
        zero = torch.zeros((), dtype=self.model.dtype, device=self.model.device)
        masks = {kind: torch.where(seen[kind], zero, torch.finfo(zero.dtype).min)[None, None] for kind in kinds}
        mask = masks if len(kinds) > 1 else masks.popitem()[1]
        new, _ = self.forward(ids, follow, copy.deepcopy(cache), position_ids=place.T, attention_mask=mask)
        return {q.id: said(q, [new.pop(0) for _ in q.ids[q.start :]], cut[q.id]) for q in taken}

    def forward(self, ids, follow, cache=None, use_cache=True, **more):
        """(log p of the token that follows, entropy) at the rows of `follow`, and the cache behind the ids."""
        rows = torch.tensor(list(follow) or [0], device=self.model.device)
        more |= {self.cache: cache} if use_cache else {}
        out = self.model(torch.tensor([ids], device=self.model.device), use_cache=use_cache, logits_to_keep=rows, **more)
        self.computed += len(ids)
        tokens, found = torch.tensor(list(follow.values()) or [0], device=out.logits.device), []
        for logits, token in zip(out.logits[0].split(256), tokens.split(256)):
            logprobs = logits.float().log_softmax(-1)
            found += zip(logprobs.gather(-1, token[:, None])[:, 0].tolist(), torch.special.entr(logprobs.exp()).sum(-1).tolist())
        return found[: len(follow)], getattr(out, self.cache, None)

    def draw(self, q):
        """Samples at T = 1, the same whenever they are asked."""
        torch.manual_seed(zlib.crc32(q.id.encode()))
        ids = torch.tensor([q.ids] * q.samples, device=self.model.device)
        stops = {"eos_token_id": q.stop, "pad_token_id": q.stop[0]} if q.stop else {}
        how = transformers.GenerationConfig(do_sample=True, top_k=0, max_new_tokens=q.max_tokens, **stops)
        drawn = self.model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=how)[:, len(q.ids) :].tolist()
        self.computed += ids.numel() + sum(map(len, drawn))
        return {"ids": [row[: next((n + 1 for n, token in enumerate(row) if token in q.stop), None)] for row in drawn]}


def follows(q, at=0):
    """{row: the token that follows it} of what is asked, where row 0 is token `at`."""
    return {i - 1 - at: q.ids[i] for i in range(q.start, len(q.ids))}


def said(q, rows, cached):
    logprobs, entropies = ([round(row[n], 6) for row in rows] for n in (0, 1))
    return {"logprobs": logprobs, **({"entropies": entropies} if q.top else {}), "cached": cached}
