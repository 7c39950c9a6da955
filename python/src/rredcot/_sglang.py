"""The engine `sglang` of rredcot.answer, in its process: what questions have in common is computed once, by the radix cache."""
import sglang
import transformers


class Engine:
    window = 1024  # questions that it gets at a time

    def __init__(self, model, dtype, more):
        self.engine = sglang.Engine(model_path=model, dtype=dtype, skip_tokenizer_init=True, **more)
        config = transformers.AutoConfig.from_pretrained(model).get_text_config()
        self.name, self.computed = f"sglang {sglang.__version__}", 0
        self.vocabulary, self.longest = config.vocab_size, more.get("context_length") or config.max_position_embeddings

    def __call__(self, asked):
        """Traces first, which leaves them in the cache; then what goes on from their exits; then what is fresh, each alone."""
        known = [q for q in asked if q.start and not q.fresh]
        whole, exits = [q for q in known if q.shared == len(q.ids)], [q for q in known if q.shared < len(q.ids)]
        found = {}
        for some in filter(None, (whole, exits, *([q] for q in asked if q.fresh))):
            # nothing behind logprob_start_len comes from the cache; the first row is None
            starts, how = [0 if q.fresh else q.start - 1 for q in some], [{"max_new_tokens": 0}] * len(some)
            more = {"return_logprob": True, "logprob_start_len": starts, "top_logprobs_num": [q.top for q in some]}
            for q, r in zip(some, self.generate([q.ids for q in some], how, **more)):
                meta, behind = r["meta_info"], slice(q.start - len(q.ids), None)
                found[q.id] = {"logprobs": [row[0] for row in meta["input_token_logprobs"][behind]]}
                if q.top:
                    found[q.id]["top"] = [[one[0] for one in row] for row in meta["input_top_logprobs"][behind]]
        drawn = [q for q in asked for _ in range(q.samples)]
        how = [{"max_new_tokens": q.max_tokens, "stop_token_ids": q.stop} for q in drawn]
        for q, r in zip(drawn, self.generate([q.ids for q in drawn], how)):
            found.setdefault(q.id, {"ids": []})["ids"].append(list(r["output_ids"]))
        return [found[q.id] for q in asked]

    def generate(self, prompts, how, **more):
        how = [{"temperature": 1, **one} for one in how]
        found = self.engine.generate(input_ids=prompts, sampling_params=how, **more) if prompts else []
        self.computed += sum(len(ids) - r["meta_info"]["cached_tokens"] for ids, r in zip(prompts, found))
        return found
