"""Random checkpoints of families of transformers: what plain passes say of traces and branches, and what rredcot.export makes of each.

    python export_families.py FOLDER [FAMILY …]   ->   FOLDER/<family>/{checkpoint,policy,truth.json} and {family: [code, text, files]}
"""
import contextlib
import io
import json
import pathlib
import random
import shutil
import sys

import safetensors.torch
import torch
import transformers

POLICY = pathlib.Path(__file__).resolve().parents[2] / "models/embedded"
VOCAB = 259
SHAPE = {"vocab_size": VOCAB, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "initializer_range": 0.2,
         "max_position_embeddings": 4096, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
HEADS = {**SHAPE, "intermediate_size": 96, "num_key_value_heads": 2, "head_dim": 16}
ONE = {**HEADS, "num_hidden_layers": 1}  # where all layers are alike: a graph's time is its layers'
NEAR = {**HEADS, "sliding_window": 40}
BOTH = {**NEAR, "layer_types": ["sliding_attention", "full_attention"], "query_pre_attn_scalar": 8}
LINEAR = {"linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
PICTURE = {"image_token_id": 7, "video_token_id": 6, "vision_start_token_id": 5, "vision_end_token_id": 4}
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]}}
QWEN = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 64}
SEES = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
FIT = {
    "SmolLM3": {**HEADS, "no_rope_layers": [1, 0]},
    "Olmo2": ONE,
    "Olmo3": NEAR,
    "Gemma2": {**BOTH, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 4.0},
    "Gemma3Text": BOTH,
    "Phi3": {**NEAR, "num_hidden_layers": 1},
    "Granite": {**ONE, "embedding_multiplier": 3.0, "logits_scaling": 2.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2},
    "Glm4": ONE,
    "Cohere2": {**NEAR, "logit_scale": 0.5},
    "GPTNeoX": {**SHAPE, "num_hidden_layers": 1, "intermediate_size": 96},
    "Gemma3": {"image_token_index": 7, "text_config": {**BOTH, "model_type": "gemma3_text"}, "vision_config": {**SEES, "model_type": "siglip_vision_model"}},
}
OWN = {  # of these `policy build` writes the graph of what reads
    "Qwen2_5_VL": {**PICTURE, "text_config": {**SHAPE, **ROPE, "intermediate_size": 96, "num_key_value_heads": 2}, "vision_config": QWEN},
    "Qwen3VL": {**PICTURE, "text_config": {**HEADS, **ROPE}, "vision_config": {**QWEN, "deepstack_visual_indexes": [0]}, "tie_word_embeddings": True},
    "Mistral3": {"image_token_index": 7, "text_config": {**NEAR, "model_type": "mistral"}, "vision_config": {**SEES, "model_type": "pixtral"}},
}
NOT = {
    "Mamba2": {**SHAPE, "num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 2},
    "Qwen3_5Text": {**HEADS, **LINEAR, "layer_types": ["linear_attention", "full_attention"]},
    "GptOss": {**NEAR, **EXPERTS, "num_hidden_layers": 1},
    "Lfm2": {**HEADS, "layer_types": ["conv", "full_attention"]},
    "Llama4Text": {**HEADS, **EXPERTS, "attention_chunk_size": 64, "intermediate_size_mlp": 96},
    "Bloom": {**SHAPE, "n_layer": 2, "n_head": 4},
    "Phi3 longrope": {**HEADS, "rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 8, "long_factor": [2.0] * 8,
                      "original_max_position_embeddings": 1024}},
    "Olmo2 in part": HEADS,
    "T5": {"vocab_size": VOCAB, "d_model": 32, "d_kv": 16, "num_layers": 1, "num_heads": 2, "d_ff": 32},
}
LENGTHS = (3, 200, 1500)


def made(family, settings, folder):
    torch.manual_seed(1)
    config = getattr(transformers, family.split()[0] + "Config")(**settings)
    kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    kind = transformers.AutoModelForImageTextToText if family in OWN else kind
    lm = kind.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    for name, weight in lm.named_parameters():  # sinks, norms and biases that do something
        if weight.ndim == 1:
            torch.nn.init.normal_(weight, 0.5, 0.3)
    lm.save_pretrained(folder)
    if family == "Olmo2 in part":
        weights = safetensors.torch.load_file(folder / "model.safetensors")
        del weights["model.layers.1.mlp.up_proj.weight"]
        safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    for name in ("tokenizer.json", "tokenizer_config.json", "exit_template.json"):
        shutil.copy(POLICY / name, folder)
    return lm


def plain(lm, ids):
    out = lm(input_ids=torch.tensor([ids]), use_cache=False, output_hidden_states=True)
    logp = out.logits[0].double().log_softmax(-1)[:-1]
    return -(logp.exp() * logp).sum(-1), logp.gather(1, torch.tensor(ids[1:])[:, None])[:, 0], out.hidden_states, logp


def truth(lm, length):
    draw = random.Random(length)
    ids = [draw.randrange(9, VOCAB) for _ in range(length)]
    entropies, logprobs, hidden, _ = plain(lm, ids)
    branches = []
    for n in range(12):
        exit = 1 + n * (length - 1) // 11
        own = [draw.randrange(9, VOCAB) for _ in range(70 if n == 1 else 2 + n)]
        first, also = 1 if n == 0 else 1 + n % 2, draw.randrange(9, VOCAB)
        _, all_of, _, rows = plain(lm, ids[:exit] + own)
        branches.append({"exit": exit, "ids": own, "scoredFrom": first, "also": also,
                         "logprobs": all_of[exit + first - 1 :].tolist() + [rows[-1, also].item()]})
    exits = [1, length // 2 + 1, length]
    states = {"exits": exits, "layers": [[each[0, at - 1].tolist() for at in exits] for each in hidden]}
    return {"ids": ids, "entropies": entropies.tolist(), "logprobs": logprobs.tolist(), "branches": branches, "states": states}


def exported(folder):
    """The code with which the program ends, and what it says."""
    from rredcot import export

    said = io.StringIO()
    checkpoint = folder / "checkpoint"
    sys.argv = ["export", str(checkpoint), "-o", str(folder / "policy"), "--exit-template", str(checkpoint / "exit_template.json")]
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            export.main()
        except SystemExit as end:
            return end.code, said.getvalue()
    return 0, said.getvalue()


def main(root, *named):
    found = {}
    for family, settings in {**FIT, **OWN, **NOT}.items():
        if named and family not in named:
            continue
        folder = root / family
        folder.mkdir()
        lm = made(family, settings, folder / "checkpoint")
        if family not in NOT:
            with torch.no_grad():
                (folder / "truth.json").write_text(json.dumps([truth(lm, length) for length in LENGTHS]))
        code, said = (0, "") if family in OWN else exported(folder)
        found[family] = [code, said, sorted(each.name for each in folder.iterdir())]
    print(json.dumps(found))


main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
