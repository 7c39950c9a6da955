"""Correlations of credits inside traces, agreement with truth and labels, and intervals over groups."""
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, rankdata

LASTS = [0.25, 0.5, 0.75, 1]
OUTCOMES = ["all", "right", "wrong"]
RESAMPLES = 1000
FEW_GROUPS, FEW_SEGMENTS = 10, 30
# a change of the truth of at least so much has to have the right sign
LARGE = 0.2


@dataclass
class Table:
    """Credits per segment of n traces; trace i has segments offsets[i] to offsets[i + 1]."""

    offsets: np.ndarray
    rewards: np.ndarray
    groups: np.ndarray  # number of a trace's group, from 0
    first_wrong: np.ndarray  # -1 where no segment is wrong, -2 where nobody has said
    credits: dict  # name -> (N), NaN where there is none


def random_stream(seed, n):
    """n numbers below 2^32 (mulberry32), the same as the TypeScript program drew for its tables."""
    mask, steps = np.uint64(0xFFFFFFFF), np.arange(1, n + 1, dtype=np.uint64)
    state = (np.uint64(seed) + steps * np.uint64(0x6D2B79F5)) & mask
    t = ((state ^ (state >> np.uint64(15))) * (state | np.uint64(1))) & mask
    t ^= (t + (((t ^ (t >> np.uint64(7))) * (t | np.uint64(61))) & mask)) & mask
    return (t ^ (t >> np.uint64(14))) & mask


def drawn(seed, times, of):
    """(times, of) whole numbers below `of`."""
    return (random_stream(seed, times * of) / 2**32 * of).astype(int).reshape(times, of)


@dataclass
class Figure:
    """A figure made of sums over traces: `value` of the (…, m) sums of `terms` (n, m)."""

    terms: np.ndarray
    value: object
    p: float = np.nan
    chance: float = np.nan
    n_traces: int = 0
    n_segments: object = None
    notes: tuple = ()

    def told(self, groups, seed):
        """The value, and 2.5 and 97.5 percent of resamples of whole groups."""
        units = groups.max() + 1
        sums = np.zeros((units, self.terms.shape[1]))
        np.add.at(sums, groups, self.terms)
        draws = drawn(seed, RESAMPLES, units)
        weights = np.zeros((RESAMPLES, units))
        np.add.at(weights, (np.arange(RESAMPLES)[:, None], draws), 1)
        with np.errstate(all="ignore"):
            value, found = self.value(self.terms.sum(0)), self.value(weights @ sums)
        found = found[~np.isnan(found)]
        counting = len(set(groups[(self.terms != 0).any(1)]))
        is_known = counting >= 2 and len(found) > RESAMPLES / 2
        low, high = np.quantile(found, [0.025, 0.975]) if is_known else (np.nan, np.nan)
        notes = [*self.notes, *(["none"] if np.isnan(value) else [])]
        return {
            "value": value, "low": low, "high": high, "p": self.p, "chance": self.chance,
            "n_traces": self.n_traces, "n_segments": self.n_segments, "notes": ";".join(notes),
        }


def ratio(sums):
    """cross / sqrt(own x · own y); NaN where either side is constant."""
    cross, x, y = np.moveaxis(sums, -1, 0)
    found = np.clip(cross / np.sqrt(x * y), -1, 1)
    return np.where((x > 0) & (y > 0), found, np.nan)


def centred(x):
    return np.zeros(len(x)) if (x == x[0]).all() else x - x.mean()


def pearson(x, y):
    """Σ uv, Σ u², Σ v² of a trace, and the variance of the first over permutations (Hoeffding 1951)."""
    if len(x) < 2:
        return 0, 0, 0, 0
    u, v = centred(x), centred(y)
    return u @ v, u @ u, v @ v, (u @ u) * (v @ v) / (len(x) - 1)


def spearman(x, y):
    """The same of ranks over their number: a trace counts by its length, not by its cube."""
    return pearson(rankdata(x) / max(len(x), 1), rankdata(y) / max(len(y), 1))


def kendall(x, y):
    """τ_b; its variance with ties is Kendall's (Rank Correlation Methods, 1970, ch. 5)."""
    n = len(x)
    if n < 2:
        return 0, 0, 0, 0
    sign = lambda z: np.sign(z[None, :] - z[:, None])
    cross = (sign(x) * sign(y)).sum() / 2
    t, u = (np.unique(z, return_counts=True)[1] for z in (x, y))
    pairs = lambda m: m * (m - 1)
    triples = lambda m: m * (m - 1) * (m - 2)
    spread = lambda m: m * (m - 1) * (2 * m + 5)
    single = (spread(n) - spread(t).sum() - spread(u).sum()) / 18
    both = pairs(t).sum() * pairs(u).sum() / (2 * pairs(n))
    three = 0 if n < 3 else triples(t).sum() * triples(u).sum() / (9 * triples(n))
    own = [(pairs(n) - pairs(z).sum()) / 2 for z in (t, u)]
    return cross, *own, single + both + three


def pairs_of(table, a, b, last=1):
    """Of each trace the finite credits of both columns in the last share of its segments."""
    for start, end in zip(table.offsets, table.offsets[1:]):
        start = end - int(np.ceil(last * (end - start) - 1e-9))
        x, y = table.credits[a][start:end], table.credits[b][start:end]
        known = np.isfinite(x) & np.isfinite(y)
        yield x[known], y[known]


def is_in(outcome, rewards):
    return np.full(len(rewards), True) if outcome == "all" else (rewards > 0.5) == (outcome == "right")


def few_groups(groups):
    return ["few-groups"] if len(set(groups)) < FEW_GROUPS else []


def correlate(table, a, b, last=1):
    """(measure, outcome) -> Figure of all correlations of two credits."""
    pairs = list(pairs_of(table, a, b, last))
    sums = {of.__name__: np.array([of(x, y) for x, y in pairs]) for of in (pearson, spearman, kendall)}
    sizes = np.array([len(x) for x, _ in pairs])
    found = {}
    for outcome in OUTCOMES:
        # a reward that nobody knows is neither right nor wrong
        known = np.isfinite(table.rewards) | (outcome == "all")
        own = is_in(outcome, table.rewards) & known
        counting = own & (sizes > 1)
        common = {"n_traces": int(counting.sum()), "n_segments": int(sizes[counting].sum())}
        notes = few_groups(table.groups[counting])
        notes += ["few-segments"] if common["n_segments"] < FEW_SEGMENTS else []
        flat = (sums["pearson"][counting, 1:3] == 0).sum(0)
        all_pairs = (sizes[counting] * (sizes[counting] - 1) / 2).sum()
        notes += ["flat"] if counting.any() and flat.max() >= counting.sum() / 2 else []
        notes += ["ties"] if all_pairs > 0 and sums["kendall"][counting, 1:3].sum(0).min() <= all_pairs / 2 else []
        for name, each in sums.items():
            terms = np.where(own[:, None], each[:, :3], 0)
            variance = each[own, 3].sum()
            z = each[own, 0].sum() / np.sqrt(variance) if variance > 0 else np.nan
            found[name, outcome] = Figure(terms, ratio, p=2 * norm.sf(abs(z)), notes=tuple(notes), **common)
        for name, scale in (("pooled_pearson", lambda z: z), ("pooled_spearman", rankdata)):
            found[name, outcome] = Figure(
                pooled(pairs, own, scale), pooled_value, notes=(*notes, "pooled"), **common
            )
    return found


def pooled(pairs, own, scale):
    """(n, 6) what each trace adds to a correlation over all segments alike; ranks are those of the whole."""
    terms = np.zeros((len(pairs), 6))
    if not own.any():
        return terms
    sides = []
    for side in (0, 1):
        z = scale(np.concatenate([pair[side] for pair, is_own in zip(pairs, own) if is_own]))
        flat = len(z) == 0 or (z == z[0]).all()
        sides.append(np.zeros(len(z)) if flat else (z - z.mean()) / z.std())
    at = 0
    for i in np.flatnonzero(own):
        n = len(pairs[i][0])
        u, v = (side[at : at + n] for side in sides)
        terms[i] = [n, u.sum(), v.sum(), u @ u, v @ v, u @ v]
        at += n
    return terms


def pooled_value(sums):
    n, u, v, uu, vv, uv = np.moveaxis(sums, -1, 0)
    spread = lambda square, of: np.where(square - of * of / n > 1e-12 * square, square - of * of / n, 0)
    return ratio(np.stack([uv - u * v / n, spread(uu, u), spread(vv, v)], -1))


def share(table, parts, by_segment=False):
    """A mean of (sum, count, what guessing gives) over traces."""
    terms = np.array(parts, dtype=float)
    counts = terms[:, 1] > 0
    total = terms.sum(0)
    return Figure(
        terms, lambda sums: sums[..., 0] / sums[..., 1],
        chance=total[2] / total[1] if total[1] > 0 else np.nan, n_traces=int(counts.sum()),
        n_segments=int(total[1]) if by_segment and total[1] > 0 else None,
        notes=tuple(few_groups(table.groups[counts])),
    )


def lowest(x):
    return np.flatnonzero(x == x.min())


def sign_of_large(table, truth, credit):
    """Share of the truth's large changes that the credit has the sign of."""
    parts = []
    for x, y in pairs_of(table, truth, credit):
        large = np.abs(x) >= LARGE
        hits = (np.sign(x) == np.sign(y))[large].sum()
        parts.append((hits, large.sum(), large.sum() / 2))
    return share(table, parts, by_segment=True)


def worst_segment(table, truth, credit):
    """Share of wrong traces whose segment of lowest credit is the truth's."""
    parts = []
    for (x, y), reward in zip(pairs_of(table, truth, credit), table.rewards):
        if not reward <= 0.5 or len(x) < 2 or (x == x[0]).all():
            parts.append((0, 0, 0))
            continue
        a, b = lowest(x), lowest(y)
        parts.append((len(np.intersect1d(a, b)) / (len(a) * len(b)), 1, 1 / len(x)))
    return share(table, parts)


def first_wrong(table, credit):
    """How often the first wrong segment has the least credit, or less than another one of its trace."""
    hits, auc = [], []
    for start, end, wrong in zip(table.offsets, table.offsets[1:], table.first_wrong):
        x = table.credits[credit][start:end]
        if not (wrong >= 0 and len(x) > 1 and np.isfinite(x).all()):
            hits.append((0, 0, 0))
            auc.append((0, 0, 0))
            continue
        low, others = lowest(x), np.delete(x, wrong)
        hits.append((1 / len(low) if wrong in low else 0, 1, 1 / len(x)))
        auc.append((((x[wrong] < others) + 0.5 * (x[wrong] == others)).mean(), 1, 0.5))
    return {"auc": share(table, auc), "hit_at_1": share(table, hits)}


def ceiling_at(r):
    """The root of Spearman and Brown's 2r/(1 + r): no credit can be expected to pass it."""
    return np.sqrt(np.clip(2 * r / (1 + r), 0, 1))


def ceiling(halves):
    return Figure(
        halves.terms, lambda sums: ceiling_at(halves.value(sums)), notes=halves.notes,
        n_traces=halves.n_traces, n_segments=halves.n_segments,
    )


def share_of_ceiling(figure, halves):
    """A correlation divided by the ceiling of the same traces; of exact truth, whose ceiling is 1, itself."""
    if halves is None:
        return figure
    m = figure.terms.shape[1]

    def value(sums):
        top = ceiling_at(halves.value(sums[..., m:]))
        return np.where(top > 0, figure.value(sums[..., :m]) / top, np.nan)

    return Figure(
        np.hstack([figure.terms, halves.terms]), value, notes=figure.notes,
        n_traces=figure.n_traces, n_segments=figure.n_segments,
    )
