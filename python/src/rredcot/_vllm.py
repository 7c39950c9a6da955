"""The engine `vllm` of rredcot.answer, in its process: what questions have in common is computed once, by the prefix cache."""
import os

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
import vllm


class Engine:
    window = 1024  # questions that it gets at a time

    def __init__(self, model, dtype, more):
        # log p at T = 1 whatever the checkpoint's own defaults are, and any number of the largest
        same = {"skip_tokenizer_init": True, "logprobs_mode": "raw_logprobs", "generation_config": "vllm", "max_logprobs": -1}
        self.llm = vllm.LLM(model, dtype=dtype, enable_prefix_caching=True, **same, **more)
        config = self.llm.llm_engine.model_config
        self.name = f"vllm {vllm.__version__}"
        self.vocabulary, self.longest, self.computed = config.get_vocab_size(), config.max_model_len, 0

    def __call__(self, asked):
        # equal questions are asked once: the second one would find its own tokens in the cache, where no log p is
        keys = [q.id if q.fresh or q.samples else (tuple(q.ids), q.start, q.top) for q in asked]
        unique = {key: q for key, q in zip(keys, asked) if key != q.id}
        found = dict(zip(unique, self.scored(unique.values())))
        found |= {q.id: self.scored([q])[0] for q in asked if q.fresh}
        drawn = [q for q in asked if q.samples]
        how = [{"n": q.samples, "max_tokens": q.max_tokens, "temperature": 1, "stop_token_ids": q.stop} for q in drawn]
        for q, r in zip(drawn, self.generate([q.ids for q in drawn], how)):
            found[q.id] = {"ids": [list(sample.token_ids) for sample in r.outputs]}
        return [dict(found[key]) for key in keys]

    def scored(self, asked):
        how = [{"prompt_logprobs": q.top, "skip_reading_prefix_cache": bool(q.fresh), "flat_logprobs": True} for q in asked]
        found = []
        for q, r in zip(asked, self.generate([q.ids for q in asked], how)):
            cached = r.num_cached_tokens or 0
            # token i has a row where i > cached; other rows are not there, or hold anything, and are asked one by one
            missing = range(q.start, cached + 1)
            forced = [{"allowed_token_ids": [q.ids[i]], "logprobs": q.top} for i in missing]
            rows = [one.outputs[0].logprobs[0] for one in self.generate([q.ids[:i] for i in missing], forced)]
            rows += [r.prompt_logprobs[i - len(q.ids)] for i in range(q.start + len(missing), len(q.ids))]
            top = [sorted((one.logprob for one in row.values()), reverse=True)[: q.top] for row in rows]
            logprobs = [row[i].logprob for row, i in zip(rows, q.ids[q.start :])]
            found.append({"logprobs": logprobs, **({"top": top} if q.top else {})})
        return found

    def generate(self, prompts, how):
        params = [vllm.SamplingParams(**{"max_tokens": 1, "temperature": 0, "detokenize": False, **one}) for one in how]
        found = self.llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False) if prompts else []
        for ids, r in zip(prompts, found):
            if r.prompt_token_ids != ids:
                raise SystemExit(f"rredcot.answer: vLLM took {len(r.prompt_token_ids)} token ids in place of {len(ids)}")
            self.computed += len(ids) - (r.num_cached_tokens or 0)
        return found
