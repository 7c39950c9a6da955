"""What samples: vLLM, or Qwen2 in plain PyTorch, where the samples of a prefix share its keys and values: 53,000 tokens a second on an H100."""
import math
import time

import torch
import torch.nn.functional as F


class Vllm:
    def __init__(self, model, longest=2048):
        import os
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "4")
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        import vllm
        self.vllm = vllm
        self.llm = vllm.LLM(model=model, dtype="bfloat16", max_model_len=longest, enforce_eager=True, max_num_seqs=256, seed=int(time.time()))

    def sample(self, prefixes, m, limits, temperature, stops, **_):
        params = [self.vllm.SamplingParams(n=m, temperature=temperature, max_tokens=limit, stop_token_ids=list(stops)) for limit in limits]
        found = self.llm.generate([{"prompt_token_ids": list(ids)} for ids in prefixes], params, use_tqdm=False)
        return [[list(sample.token_ids) for sample in one.outputs] for one in found]


class Torch:
    """Weights (bfloat16; float32 on a CPU, which has no products of theirs) of a checkpoint of the family qwen2 whose embeddings are tied."""

    def __init__(self, model, device="cuda", rows=8192):
        import json
        from safetensors.torch import load_file
        c = json.load(open(f"{model}/config.json"))
        w = load_file(f"{model}/model.safetensors", device=device)
        if device == "cpu":
            w = {name: weight.float() for name, weight in w.items()}
        assert c["model_type"] == "qwen2" and c["tie_word_embeddings"]
        self.device, self.rows, self.eps = device, rows, c["rms_norm_eps"]
        self.heads, self.kv = c["num_attention_heads"], c["num_key_value_heads"]
        self.size = c["hidden_size"] // self.heads
        self.embed, self.norm = w["model.embed_tokens.weight"], w["model.norm.weight"]
        self.layers = []
        for n in range(c["num_hidden_layers"]):
            at = lambda name: w[f"model.layers.{n}.{name}"]
            join = lambda kind: torch.cat([at(f"self_attn.{p}_proj.{kind}") for p in "qkv"])
            self.layers.append((at("input_layernorm.weight"), join("weight"), join("bias"), at("self_attn.o_proj.weight"), at("post_attention_layernorm.weight"),
                                torch.cat([at("mlp.gate_proj.weight"), at("mlp.up_proj.weight")]), at("mlp.down_proj.weight")))
        self.inverse = 1 / c["rope_parameters"]["rope_theta"] ** (torch.arange(0, self.size, 2, device=device).float() / self.size)
        self.fast = device == "cuda" and self.agrees()

    # -- parts of a layer: x (rows, width), places (rows,)

    def rms(self, x, weight):
        return F.rms_norm(x.float(), (x.shape[-1],), eps=self.eps).to(x.dtype) * weight

    def turn(self, x, places):
        """x (rows, heads, size), turned by place."""
        angle = places[:, None].float() * self.inverse
        cos, sin = (torch.cat([f(angle)] * 2, -1)[:, None].to(x.dtype) for f in (torch.cos, torch.sin))
        half = self.size // 2
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    def qkv(self, layer, x, places):
        q, k, v = F.linear(self.rms(x, layer[0]), layer[1], layer[2]).split([self.heads * self.size, self.kv * self.size, self.kv * self.size], -1)
        rows = lambda y: y.view(len(x), -1, self.size)
        return self.turn(rows(q), places), self.turn(rows(k), places), rows(v)

    def rest(self, layer, x, attended):
        x = x + F.linear(attended.reshape(len(x), -1), layer[3])
        gate, up = F.linear(self.rms(x, layer[4]), layer[5]).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, layer[6])

    def logits(self, x):
        """(rows, vocabulary) in float32."""
        x = self.rms(x, self.norm)
        if self.fast:
            return torch.mm(x, self.embed.T, out_dtype=torch.float32)
        return F.linear(x, self.embed).float()

    def attend(self, q, k, v, bias, fast=None):
        """(out, log of the sum) of q (b, kv, n, size) over k, v (b, kv, t, size); bias (b or 1, 1, 1, t), t a multiple of 8."""
        if self.fast if fast is None else fast:
            bias = bias.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
            out, lse, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, bias, True)
            return out, lse[..., : q.shape[2]]
        scores = q.float() @ k.float().transpose(-1, -2) / math.sqrt(self.size) + bias.float()
        lse = scores.logsumexp(-1)
        return ((scores - lse[..., None]).exp() @ v.float()).to(q.dtype), lse

    def agrees(self):
        """Whether what is fast here gives what plain arithmetic gives."""
        try:
            g = torch.Generator(self.device).manual_seed(1)
            draw = lambda *shape: torch.randn(*shape, device=self.device, generator=g).bfloat16()
            q, k, v = draw(3, 2, 21, 64), draw(3, 2, 40, 64), draw(3, 2, 40, 64)
            bias = torch.where(torch.arange(40, device=self.device) < torch.tensor([[40], [17], [8]], device=self.device), 0.0, float("-inf"))[:, None, None].bfloat16()
            off = [(a.float() - b.float()).abs().max().item() for a, b in zip(self.attend(q, k, v, bias, True), self.attend(q, k, v, bias, False))]
            torch.mm(q[0, 0], q[0, 1].T.contiguous(), out_dtype=torch.float32)
            print("fast attention is off by", off, flush=True)
            return max(off) < 0.03
        except Exception as error:
            print("no fast attention:", repr(error)[:300], flush=True)
            return False

    # -- a forward pass over whole lists of tokens

    @torch.inference_mode()
    def prefill(self, lists, keep):
        """Hidden states (b, t, width) of lists padded at their right; keep(layer, k, v) gets keys and values (b, kv, t, size)."""
        t = -(-max(map(len, lists)) // 8) * 8
        ids = torch.tensor([[*ids, *[0] * (t - len(ids))] for ids in lists], device=self.device)
        b, places = len(lists), torch.arange(t, device=self.device).repeat(len(lists))
        x = F.embedding(ids.flatten(), self.embed)
        for n, layer in enumerate(self.layers):
            q, k, v = (y.view(b, t, -1, self.size).transpose(1, 2) for y in self.qkv(layer, x, places))
            keep(n, k, v)
            k, v = (y.repeat_interleave(self.heads // self.kv, 1) for y in (k, v))
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = self.rest(layer, x, out.transpose(1, 2).reshape(b * t, -1))
        return x.view(b, t, -1)

    @torch.inference_mode()
    def entropies(self, ids, start, temperature):
        """Of each token ids[start:], in nats."""
        x = self.prefill([ids], lambda *_: None)[0, start - 1 : len(ids) - 1]
        logprobs = (self.logits(x) / temperature).log_softmax(-1)
        return torch.special.entr(logprobs.exp()).sum(-1).tolist()

    # -- sampling

    def sample(self, prefixes, m, limits, temperature, stops, until=math.inf):
        """m lists of new tokens of each prefix, in its place; None for those that `until` (time.time()) left no time for."""
        near = (lambda i: prefixes[i]) if self.device == "cpu" else lambda i: (limits[i] // 64, len(prefixes[i]))  # there, what is computed twice costs most
        found, order = [None] * len(prefixes), sorted(range(len(prefixes)), key=near)
        each = max(1, self.rows // m)
        for n in range(0, len(order), each):
            if time.time() > until:
                break
            wave = order[n : n + each]
            drawn = self.wave([prefixes[i] for i in wave], m, [limits[i] for i in wave], temperature, stops, until)
            for i, samples in zip(wave, drawn or []):
                found[i] = samples
        return found

    @torch.inference_mode()
    def wave(self, prefixes, m, limits, temperature, stops, until):
        p, t, device = len(prefixes), -(-max(map(len, prefixes)) // 8) * 8, self.device
        cache = [torch.zeros(2, p, self.kv, t, self.size, dtype=self.embed.dtype, device=device) for _ in self.layers]
        # what goes on as another does lends its keys and values to it
        lender = [max(range(p), key=lambda j: len(prefixes[j]) * (prefixes[j][: len(ids)] == ids)) for ids in prefixes]
        lenders, step = sorted(set(lender)), max(1, 32768 // t)
        last = torch.empty(p, self.embed.shape[1], dtype=self.embed.dtype, device=device)
        for at in range(0, len(lenders), step):
            part = lenders[at : at + step]
            to = [i for i in range(p) if lender[i] in part]
            of = [part.index(lender[i]) for i in to]

            def keep(n, k, v):
                cache[n][0, to, :, : k.shape[2]] = k[of]
                cache[n][1, to, :, : v.shape[2]] = v[of]
            last[to] = self.prefill([prefixes[j] for j in part], keep)[of, [len(prefixes[i]) - 1 for i in to]]
        lengths = torch.tensor([len(ids) for ids in prefixes], device=device)
        seen = torch.where(torch.arange(t, device=device) < lengths[:, None], 0.0, float("-inf")).to(self.embed.dtype)[:, None, None]
        longest, stop = -(-max(limits) // 8) * 8, torch.tensor(sorted(stops), device=device)
        room = 32
        own = [torch.zeros(2, p * m, self.kv, room, self.size, dtype=self.embed.dtype, device=device) for _ in self.layers]
        # row r of what is computed is sample name[r], of prefix of[r], and the slot[r]-th that is left of it
        name, of, slot = torch.arange(p * m, device=device), torch.arange(p, device=device).repeat_interleave(m), torch.arange(m, device=device).repeat(p)
        said = torch.zeros(p * m, longest, dtype=torch.int32, device=device)
        ends = torch.tensor(limits, device=device).repeat_interleave(m)
        done = torch.zeros(p * m, dtype=torch.bool, device=device)  # by name
        x = last.repeat_interleave(m, 0)
        for j in range(longest):
            token = self.draw(x, temperature)
            said[name, j] = token.int()
            done[name] |= torch.isin(token, stop) | (j + 1 >= ends[name])
            if j + 1 == longest:
                break
            if j % 8 == 7 or j + 1 == room:
                rows = (~done[name]).nonzero()[:, 0]
                if time.time() > until:
                    return None
                if len(rows) == 0:
                    break
                if len(rows) < 0.8 * len(name):
                    stay, of, left = of[rows].unique_consecutive(return_inverse=True, return_counts=True)
                    slot = torch.arange(len(rows), device=device) - (left.cumsum(0) - left)[of]
                    cache, lengths, seen = [c[:, stay] for c in cache], lengths[stay], seen[stay]
                    name, token, p, m = name[rows], token[rows], len(stay), int(left.max())
                    for n in range(len(own)):
                        own[n] = own[n][:, rows]
                if j + 1 == room:
                    room *= 2
                    for n in range(len(own)):
                        own[n] = torch.cat([own[n], torch.zeros_like(own[n])], 3)
            x = F.embedding(token, self.embed)
            places, mine = lengths[of] + j, torch.where(torch.arange(room, device=device) <= j, 0.0, float("-inf")).to(self.embed.dtype)[None, None, None]
            for n, layer in enumerate(self.layers):
                q, k, v = self.qkv(layer, x, places)
                own[n][0, :, :, j], own[n][1, :, :, j] = k, v
                q = q.view(len(x), self.kv, -1, self.size)  # query heads of a key's head
                g = q.shape[2]
                asked = q.new_zeros(p, m, self.kv, g, self.size)
                asked[of, slot] = q
                far, far_sum = self.attend(asked.transpose(1, 2).reshape(p, self.kv, m * g, self.size), *cache[n], seen)
                far = far.view(p, self.kv, m, g, self.size).transpose(1, 2)[of, slot]
                far_sum = far_sum.reshape(p, self.kv, m, g).transpose(1, 2)[of, slot]
                near, near_sum = self.attend(q, *own[n], mine)
                share = torch.sigmoid(far_sum - near_sum)[..., None].to(near.dtype)
                x = self.rest(layer, x, far * share + near * (1 - share))
        said, ends, stops = said.tolist(), ends.tolist(), set(stops)
        cut = lambda row, end: row[: next((n + 1 for n, token in enumerate(row[:end]) if token in stops), end)]
        samples = [cut(row, end) for row, end in zip(said, ends)]
        whole = len(limits)
        return [samples[i * len(samples) // whole : (i + 1) * len(samples) // whole] for i in range(whole)]

    def draw(self, x, temperature):
        """A token for each row, of softmax(logits / temperature)."""
        drawn = []
        for rows in x.split(2048 if self.device == "cuda" else 64):
            logits = self.logits(rows).div_(temperature)
            if self.device == "cpu":  # one number a row, since noise of all tokens costs as much as a layer there
                heaped = logits.softmax(-1).cumsum(-1, dtype=torch.float64)
                aim = torch.rand(len(rows), 1, dtype=torch.float64) * heaped[:, -1:]
                drawn.append(torch.searchsorted(heaped, aim, right=True)[:, 0].clamp_(max=logits.shape[1] - 1))
                continue
            drawn.append(logits.sub_(torch.empty_like(logits).exponential_().log_()).argmax(-1))
        return torch.cat(drawn)
