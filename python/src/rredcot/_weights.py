"""σ of a scored table in a trainer's padded batch."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def sigma_weights(
    table: pa.Table, batch: Any, *, mask: str = "completion_mask", ids: str = "completion_ids", key: str = "id", by_gain: bool = False
) -> Any:
    """Weights σ·T (B, L), by which a trainer multiplies its advantages: mean 1 over the tokens of each trace, 0 elsewhere.

    table    scored rows, in any order: `sigma`, `completion_ids`, and `id` where the batch has one
    batch    mapping with the mask (B, L) of the completions' tokens and their ids (B, L), wherever in a row they stand, as tensors,
             arrays or lists; with `key` (B) too, it is taken to find a row, else its tokens are
    by_gain  divides by the mean of the column `sigma_gain`, so that weights on uncertain tokens make no larger gradient

    Uniform σ gives 1 at every token of a completion, which is the trainer's own loss. Returns what the mask is: a tensor on its device,
    or an array. Raises ValueError naming the row: not in the table, there twice with another σ, cut or tokenized again since.
    """
    import numpy as np

    from rredcot._credit import weights_of

    given = batch[mask]
    isin = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given).astype(bool)
    tokens = batch[ids]
    tokens = np.asarray(tokens.detach().cpu() if hasattr(tokens, "detach") else tokens)
    if isin.shape != tokens.shape:
        raise ValueError(f"{mask} is {isin.shape} and {ids} {tokens.shape}, expected the same")
    names = None if key not in batch else [str(name) for name in batch[key]]
    rows = _rows(table, names is not None)
    weights = np.zeros(isin.shape, dtype=np.float32)
    gains = []
    for i in range(len(isin)):
        own = tuple(tokens[i, isin[i]].tolist())
        place = f"row {i} of the batch" + ("" if names is None else f", id {names[i]!r}")
        completion, sigma, gain = _found(rows, own if names is None else names[i], place)
        if completion != own:
            raise ValueError(f"{place}: its {len(own)} tokens are not the {len(completion)} that were scored: cut, or tokenized again")
        weights[i, isin[i]] = weights_of(sigma, place=place)
        gains.append(1.0 if gain is None else gain)
    if by_gain:
        weights /= np.float32(np.mean(gains))
    if hasattr(given, "detach"):
        import torch

        return torch.from_numpy(weights).to(given.device)
    return weights


def _rows(table, by_name):
    """By id, or by the completion's tokens: the completions, σ and gains of the rows that are called so."""
    wanted = ["completion_ids", "sigma", *(["id"] if by_name else [])]
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        raise ValueError(f"the table has no {', '.join(missing)}, expected one of rredcot.score")
    rows: dict[Any, list[Any]] = {}
    for row in table.select([name for name in (*wanted, "sigma_gain") if name in table.column_names]).to_pylist():
        if row["sigma"] is not None:
            ids = tuple(row["completion_ids"])
            rows.setdefault(str(row["id"]) if by_name else ids, []).append((ids, row["sigma"], row.get("sigma_gain")))
    return rows


def _found(rows, name, place):
    found = rows.get(name)
    if found is None:
        raise ValueError(f"{place}: is not among the scored rows")
    if any(other != found[0][1] for _, other, _ in found):
        raise ValueError(f"{place}: {len(found)} scored rows are called so, with another σ: give the batch ids that tell them apart")
    return found[0]
