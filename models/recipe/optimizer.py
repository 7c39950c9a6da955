"""Muon for the matrices of a model's layers, AdamW for all else."""
import torch


def orthogonal(g):
    """Newton-Schulz: g [N,R,C] to about the nearest orthogonal matrices (Muon)."""
    wide = g.shape[1] <= g.shape[2]
    x = g if wide else g.transpose(1, 2)
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(5):
        a = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x if wide else x.transpose(1, 2)


class Muon:
    """Momentum, orthogonalised, for matrices; matrices of one shape go together."""

    def __init__(self, matrices, momentum=0.95, decay=0.01):
        self.momentum, self.decay, self.shapes = momentum, decay, {}
        for p in matrices:
            self.shapes.setdefault(p.shape, []).append(p)
        self.velocity = {shape: torch.zeros(len(ps), *shape) for shape, ps in self.shapes.items()}

    @torch.no_grad()
    def step(self, rate):
        for shape, ps in self.shapes.items():
            gradient = torch.stack([p.grad for p in ps])
            v = self.velocity[shape].lerp_(gradient, 1 - self.momentum)
            update = orthogonal(gradient.lerp(v, self.momentum))
            for p, u in zip(ps, update):
                p.mul_(1 - rate * self.decay).sub_(u, alpha=rate * max(1, shape[0] / shape[1]) ** 0.5)


class Optimizer:
    """Both for one model; embeddings and heads are AdamW's."""

    def __init__(self, model, heads=()):
        named = list(model.named_parameters())
        is_inner = {name: p.dim() == 2 and not any(part in name for part in ("embed", *heads)) for name, p in named}
        self.model, self.muon = model, Muon([p for name, p in named if is_inner[name]])
        self.adam = torch.optim.AdamW([p for name, p in named if not is_inner[name]], betas=(0.9, 0.95), weight_decay=0.0)

    def step(self, muon_rate, adam_rate):
        """One step along the gradients, which are set to nothing."""
        self.muon.step(muon_rate)
        self.adam.param_groups[0]["lr"] = adam_rate
        self.adam.step()
        self.model.zero_grad(set_to_none=True)
