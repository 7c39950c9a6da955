"""The graph that scores by a model of transformers: what src/model/onnx/exported.ts runs, written by `torch.onnx.export`.

A trace and its branches are one row of tokens, of which a table says who sees whom; attention goes by blocks of queries and the head by
blocks of rows, so that neither [S,S] nor [S,V] is ever held.
"""
import copy
import sys

import torch
import transformers
from torch._higher_order_ops.scan import scan
from transformers.modeling_outputs import BaseModelOutputWithPast

EVERY = 2**31


def text(lm):
    return lm.config.get_text_config()


def state_layers(lm):
    """As src/model/graph/scoring-graph.ts has them."""
    layers, shares = text(lm).num_hidden_layers, [0.6] if text(lm).hidden_size > 2048 else [0.6, 0.75]
    return sorted({min(layers - 1, int(share * layers + 0.5)) for share in shares})


def attend(module, query, key, value, attention_mask, **more):
    """A family's own attention (1, H, S, hd), a block of queries at a time. In the mask's place stands a table (1, n, C, 4), S = n·C:
    of each row its position, how many of the trace's tokens it sees, its branch (-1: the trace), and its window."""
    own = sys.modules[type(module).__module__].eager_attention_forward
    table = attention_mask[0]
    keys = table.flatten(0, 1)

    def block(carry, of):
        rows, q = of
        pos, sees, branch, window = (rows[:, k, None] for k in range(4))
        seen = ((keys[:, 2] < 0) & (keys[:, 0] < sees)) | ((keys[:, 2] == branch) & (keys[:, 0] <= pos))
        seen = seen & (pos - keys[:, 0] < window)
        mask = torch.zeros_like(seen, dtype=q.dtype).masked_fill(~seen, torch.finfo(q.dtype).min)[None, None]
        return carry.clone(), (own(module, q, key, value, mask, **more)[0],)

    (out,) = each(block, (table, query.unflatten(2, table.shape[:2]).permute(2, 0, 1, 3, 4)))  # [n,1,C,H,hd]
    return out.transpose(0, 1).flatten(1, 2), None


transformers.AttentionInterface.register("rredcot", attend)


def each(block, of):
    """What a block makes of each slice, stacked: a Scan of the graph."""
    if torch.compiler.is_exporting():
        return scan(block, torch.zeros(()), of)[1]
    return [torch.stack(one) for one in zip(*(block(torch.zeros(()), slices)[1] for slices in zip(*of)))]


class Rows(BaseModelOutputWithPast):
    """Rows as the output of layers, of which nothing else is known."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)


class Scores(torch.nn.Module):
    """What src/model/onnx/exported.ts runs."""

    def __init__(self, lm, form):
        super().__init__()
        lm.set_attn_implementation("rredcot")
        self.body, self.form, self.layers = lm.get_decoder(), form, state_layers(lm)
        self.window = getattr(text(lm), "sliding_window", None) or EVERY
        # what a family does behind its layers is left to its own forward pass, which is given their rows
        base = copy.copy(lm.base_model)
        base.forward = lambda *_, inputs_embeds=None, **__: Rows(last_hidden_state=inputs_embeds)
        self.head = copy.copy(lm)
        self.head._modules = {**lm._modules, lm.base_model_prefix: base}

    def forward(self, ids, pos, sees, branch, rows, targets, state_rows):
        full, near = (torch.stack([pos, sees, branch, torch.full_like(pos, far)], -1)[None] for far in (EVERY, self.window))
        mask = {"full": full, "near": near, "by layer": {"full_attention": full, "sliding_attention": near}}[self.form]
        out = self.body(input_ids=ids.flatten()[None], position_ids=pos.flatten()[None], attention_mask=mask, use_cache=False,
                        output_hidden_states=True)
        states = torch.cat([out.hidden_states[k][0].index_select(0, state_rows) for k in self.layers], -1)

        def block(carry, of):
            logits = self.head(inputs_embeds=out.last_hidden_state.index_select(1, of[0])).logits[0]
            logp = logits.float().log_softmax(-1)
            return carry.clone(), (-(logp.exp() * logp).sum(-1), logp.gather(1, of[1][:, None])[:, 0])

        return *each(block, (rows, targets)), states


def export(scores, path):
    n, C, m, D, k = (torch.export.Dim(name, min=2) for name in "nCmDk")
    some = [torch.arange(24).view(3, 8) for _ in range(4)] + [torch.arange(12).view(2, 6) for _ in range(2)] + [torch.arange(3)]
    with torch.no_grad():
        torch.onnx.export(scores, tuple(some), path, dynamo=True, external_data=True, verbose=False, opset_version=18,
                          dynamic_shapes=({0: n, 1: C},) * 4 + ({0: m, 1: D},) * 2 + ({0: k},),
                          input_names=("ids", "pos", "sees", "branch", "rows", "targets", "state_rows"),
                          output_names=("entropies", "logprobs", "states"))
