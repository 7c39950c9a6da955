"""The gradients of lab/truth against autograd, and its figures against what they are made to be: `python3 -m unittest lab/test_truth.py`."""
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "truth"))
try:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    import engines
    import gradient
except ImportError as missing:
    torch, why = None, str(missing)
else:
    why = ""


@unittest.skipIf(torch is None, f"needs PyTorch, transformers and safetensors: {why}")
class Gradients(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        torch.manual_seed(1)
        shape = {"vocab_size": 60, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
        self.model = Qwen2ForCausalLM(Qwen2Config(**shape, tie_word_embeddings=True)).float()
        for weight in self.model.parameters():
            torch.nn.init.normal_(weight, std=0.2)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model.save_pretrained(folder.name)
        self.sampler = engines.Torch(folder.name, "cpu", rows=64)
        self.policies = [gradient.Policy(folder.name, layers=layers, dtype=torch.float32) for layers in (2, 3)]
        self.prompt, self.completions = [1, 2, 3, 4, 5, 6], [[7, 8, 9], [10], [12, 13, 14, 15, 16]]

    def exact(self, layers, weights):
        """By autograd through the whole model, a trace at a time."""
        self.model.zero_grad()
        chosen = []
        for tokens in self.completions:
            logp = self.model(torch.tensor([self.prompt + tokens])).logits[0, len(self.prompt) - 1:-1].log_softmax(-1)
            chosen.append(logp.gather(1, torch.tensor(tokens)[:, None])[:, 0])
        (torch.cat(chosen) * weights).sum().backward()
        parts = []
        for layer in self.model.model.layers[-layers:]:
            own, mlp = layer.self_attn, layer.mlp
            for maps in ([own.q_proj, own.k_proj, own.v_proj], [own.o_proj], [mlp.gate_proj, mlp.up_proj], [mlp.down_proj]):
                parts.append(torch.cat([each.weight.grad for each in maps]).flatten())
        return torch.cat(parts), torch.cat(chosen).detach()

    def test_whole_and_sketched(self):
        weights = torch.randn(6, 9)
        for policy, layers, known in zip([*self.policies, *self.policies], (2, 3, 2, 3), (0, 0, 3, 3)):
            expected, logprobs = map(torch.stack, zip(*(self.exact(layers, row) for row in weights)))
            if known:
                policy.remember(self.prompt[:known])
            states, pulls, found = policy.read(self.prompt, self.completions)
            torch.testing.assert_close(found, logprobs[0], atol=1e-5, rtol=0)
            whole = gradient.gradients(policy, states, pulls, weights, "whole")
            self.assertLess(float((whole - expected).norm() / expected.norm()), 1e-5)
            sketched = gradient.gradients(policy, states, pulls, weights)
            unit = lambda rows: rows / rows.norm(dim=1, keepdim=True)
            self.assertLess(float((unit(sketched) @ unit(sketched).T - unit(whole) @ unit(whole).T).abs().max()), 0.1)
            # a LoRA's: of each map's gradient, behind an A and two blocks before it, drawn in the order of the maps
            draw, at, expected = torch.Generator().manual_seed(gradient.SEED), 0, []
            for a, out in policy.tape:
                width, high = a.shape[1], out.shape[1]
                down, up = (torch.randn(n, rows, generator=draw) for n, rows in ((width, 8), (high, 16)))
                own = whole[:, at:at + high * width].view(-1, high, width) @ down
                expected.append((up.T @ own).flatten(1) / (8 * 2**0.25 * width**0.5))
                at += high * width
            lora = gradient.gradients(policy, states, pulls, weights, "lora")
            torch.testing.assert_close(lora, torch.cat(expected, 1), atol=1e-4, rtol=1e-3)

    def test_samples(self):
        """All but without chance, prefixes that lend each other keys, of which some end early, go on as each does by itself."""
        draw = np.random.default_rng(1)
        for stop in range(10):
            whole = draw.integers(0, 60, 25).tolist()
            prefixes, limits = [whole, whole[:9], [*whole, 7, 8], [3, 4, 5]], [12, 40, 3, 33]
            expected = []
            for ids, limit in zip(prefixes, limits):
                own = []
                while len(own) < limit and stop not in own:
                    own.append(int(self.model(torch.tensor([ids + own])).logits[0, -1].argmax()))
                expected.append([own] * 3)
            self.assertEqual(self.sampler.sample(prefixes, 3, limits, 1e-6, {stop}), expected)
        told = self.sampler.sample([self.prompt], 4000, [1], 1.0, set())[0]
        expected = self.model(torch.tensor([self.prompt])).logits[0, -1].softmax(-1)
        self.assertLess(float((torch.bincount(torch.tensor(told)[:, 0], minlength=60) / 4000 - expected).abs().max()), 0.03)

    def test_weights(self):
        p, draw = [np.array([0.9, 0.2, 0.6]), np.array([0.9, 0.8])], np.random.default_rng(1)
        arms = gradient.weights_of(["a", "b"], p, {"x": {"a": [0.5, 0.25, 0.25], "b": [0, 1]}}, {}, {"truth": {"a": [1, 0, 0], "b": [0.5, 0.5]}}, draw)
        told = {name: [list(map(float, trace)) for trace in arm] for name, arm in arms.items()}
        self.assertEqual(told["x"], [[1.5, 0.75, 0.75], [0, 2]])
        self.assertEqual(told["unlikely tokens"], [[0, 3, 0], [1, 1]])
        self.assertEqual(told["first third"], [[3, 0, 0], [2, 0]])
        self.assertEqual(told["pair: truth"], [[3, 0, 0], [1, 1]])
        self.assertEqual([sum(trace) for trace in told["shuffled"]], [3, 2])
        np.testing.assert_allclose(gradient.advantages([1, 0, 0, 1]), [0.866, -0.866, -0.866, 0.866], atol=1e-3)

    def test_figures(self):
        """An arm whose mean is twice as large beside the same noise is worth four groups; one that leans elsewhere has its own limit."""
        draw, size = np.random.default_rng(1), 1000
        unit = lambda: (lambda x: x / np.linalg.norm(x))(draw.normal(size=size))
        mean, aside, found = unit(), unit(), {}
        for n in range(240):
            noise = 6 * draw.normal(size=size) / size**0.5
            found[str(n)] = {"plain": mean + noise, "twice": 2 * mean + noise, "aside": mean + aside + noise}
        family = gradient.Family(found, {name: {name: 1} for name in ("plain", "twice", "aside")})
        once = np.ones(240, int)
        cosine = family.cosines(once, 8, ["plain", "twice"], draw, 20)
        line = np.array([family.cosines(once, many, ["plain"], draw, 20)[0] for many in (1, 2, 4, 8, 16, 32)])
        plain, twice = gradient.worth(np.array([1, 2, 4, 8, 16, 32]), line, cosine, 1 / family.noise) / 8
        self.assertAlmostEqual(plain, 1, delta=0.1)
        self.assertAlmostEqual(twice, 4, delta=0.6)
        self.assertAlmostEqual(family.limit(once, "twice")[0], 1, delta=0.05)
        self.assertAlmostEqual(family.limit(once, "aside")[0], 0.5**0.5, delta=0.08)
        # a resample has another level by chance, and none by its copies
        again = [family.cosines(np.bincount(draw.integers(0, 240, 240), minlength=240), 8, ["plain"], draw, 5)[0] for _ in range(40)]
        self.assertAlmostEqual(float(np.mean(again)), cosine[0], delta=0.02)


if __name__ == "__main__":
    unittest.main()
