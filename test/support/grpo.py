"""Checks of lab/grpo that need PyTorch; prints what it found as JSON."""
import itertools
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lab" / "grpo"))
import numpy as np  # noqa: E402
import torch  # noqa: E402
import arms  # noqa: E402
import faults  # noqa: E402
import gradient  # noqa: E402
import groups  # noqa: E402
import reference  # noqa: E402
import stage0  # noqa: E402
import stage0_within  # noqa: E402
import truth  # noqa: E402
import without  # noqa: E402
from groups import advantages, centred, sample_groups  # noqa: E402
from setting import Density  # noqa: E402
import checkpoint  # noqa: E402
import reach  # noqa: E402
import task  # noqa: E402
from model import Llama  # noqa: E402
from tool import Tool  # noqa: E402

torch.set_num_threads(1)


def tiny():
    torch.manual_seed(1)
    model = Llama({"vocab_size": 259, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
                   "num_key_value_heads": 1, "head_dim": 8, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}).double()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3)
    return model


def rows_of(completions, rewards):
    return [{"prompt_ids": task.encode("start 1\n"), "completion_ids": task.encode(text), "reward": reward} for text, reward in zip(completions, rewards)]


def gradients():
    """The gradient against differences of the loss written out token by token, a direction at random; padding and order must not matter."""
    model = tiny()
    rows = rows_of(["ab\n", "a much longer one\n", "c\n", "dd\n"], [1, 0, 0, 1])
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=len(r["completion_ids"])) for r in rows]

    def loss():
        total = 0.0
        with torch.no_grad():
            for row, weight in zip(rows, weights):
                ids = row["prompt_ids"] + row["completion_ids"]
                for at, w in enumerate(weight, len(row["prompt_ids"])):
                    seen = torch.tensor([ids[:at]])
                    hidden = model(seen, torch.arange(at)[None], gradient.causal(at).double())
                    total -= w * float(torch.log_softmax(model.logits(hidden)[0, -1], -1)[ids[at]])
        return total

    found = gradient.accumulate(model, rows, weights)
    flat = gradient.flat(model)
    direction, start = rng.normal(size=flat.size), [p.detach().clone() for p in model.parameters()]

    def moved(by):
        at = 0
        for p, old in zip(model.parameters(), start):
            p.data = old + by * torch.from_numpy(direction[at:at + old.numel()].reshape(old.shape))
            at += old.numel()
        return loss()

    step = 1e-6
    with torch.no_grad():  # the policy's entropy, a trace at a time and token by token
        summed = 0.0
        for row in rows:
            ids, logits = gradient.outputs(model, [row])
            p = torch.softmax(logits[0, len(row["prompt_ids"]) - 1:], -1)
            summed -= sum(float(q * torch.log(q)) for q in p.flatten())
    entropy = [gradient.entropy(model, rows), summed / sum(len(r["completion_ids"]) for r in rows)]
    return {"entropy": entropy, "loss": found, "by_hand": moved(0), "slope": float(flat @ direction), "difference": (moved(step) - moved(-step)) / (2 * step)}


def grpo():
    rows = rows_of(["a\n", "bb\n", "c\n", "d\n"] * 2, [1, 0, 0, 1, 1, 1, 1, 1])
    found = advantages(rows, 4)
    return {"advantages": found, "centred": centred(rows, 4), "uniform": [a.tolist() for a in arms.uniform(rows[:2], [0.5, -0.5])]}


def exact():
    """Exact values against all that can happen, counted out; and against drawn chains."""
    puzzle = Density("sparse", {"*": 0.3, "+": 0.0, "-": 0.0})
    rng, off = random.Random(2), []
    for _ in range(40):
        problem = puzzle.draw_problem(rng, rng.choice(puzzle.FAMILIES))
        if sum(operator == "*" for operator, _ in problem.operations) > 2:
            continue  # all fates of three would take long
        total = 0.0
        places = [i for i, (operator, _) in enumerate(problem.operations) if operator == "*"]
        # each `*`: right, or wrong by 1..9 and mended or not
        for fate in itertools.product([(0, False), *((d, m) for d in range(1, 10) for m in (True, False))], repeat=len(places)):
            odds, made, state = 1.0, {}, problem.start
            for index, (operator, operand) in enumerate(problem.operations):
                right = task.compute(state, operator, operand)
                shift, mended = fate[places.index(index)] if index in places else (0, False)
                if index in places:
                    odds *= 0.7 if shift == 0 else 0.3 / 9 * (0.35 if mended else 0.65)
                if shift:
                    made[index] = ((right + shift) % 10, mended)
                state = right if shift == 0 or mended else (right + shift) % 10
            total += odds * (task.write_chain(problem, made).answer == task.true_answer(problem))
        off.append(abs(truth.Exact(problem, puzzle.wrong, 0.35).values([])[0] - total))
    drawn = {0: [], 1: []}
    for _ in range(3000):
        problem = puzzle.draw_problem(rng, rng.choice(puzzle.FAMILIES))
        chain = puzzle.draw_chain(rng, problem)
        ids = task.encode(task.completion_text(chain))
        lines, ends = truth.lines_of(ids)
        assert tuple(lines) == chain.lines
        assert [task.decode(ids[:end]) for end in ends] == ["<think>\n" + "".join(lines[:n + 1]) for n in range(len(lines))]
        value = rng.choice(truth.Exact(problem, puzzle.wrong, 0.35).values(lines))
        drawn[int(value > 0.7)].append((value, chain.answer == task.true_answer(problem)))
    lines = ["a: 1*2=3 top 3\n", "ok.\n", "wait, a: 1*2=2 top 2\n", "b: 2+2=5 top 5\n"]
    assert truth.lines_of([*task.encode("<think>\n"), 255, 10, *task.encode("</think>\n")])[1] == [4]  # a byte that is no UTF-8
    assert truth.lines_of(task.encode("<think>\nok.\n</think>\nok.\n</think>\n")) is None
    return {"off": max(off), "drawn": [np.mean(drawn[k], 0).tolist() for k in (0, 1)], "mistakes": truth.mistakes(lines),
            "oracle": arms.known_mistakes({"reward": 0}, lines), "oracle_right": arms.known_mistakes({"reward": 1}, lines),
            "decisions": arms.known_decisions({"reward": 0}, lines), "decisions_right": arms.known_decisions({"reward": 1}, lines)}


def references(folder):
    """What stage0 says of stored references: one that is whole, and others that are not what was asked for."""
    model = pathlib.Path(folder) / "weights"
    model.write_bytes(b"some")
    path = f"{folder}/reference.npy"
    np.save(path, np.array([[3.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, 3.0]], np.float32))

    def told(loss="grpo", density="sparse"):
        try:
            return [*stage0.reference_of(path, density, model, loss)[:2]]
        except SystemExit as error:
            return str(error)

    unfinished = told()
    pathlib.Path(path + ".json").write_text(json.dumps(reference.identity("sparse", model, 4)))
    found = [told(), told("return"), told(density="dense")]
    model.write_bytes(b"other")
    return {"unfinished": unfinished, "whole": found[0], "others": [*found[1:], told()]}


def shuffled():
    scored = [{"id": str(n), "segments": [{"kind": "thought", "end": 3 * k + 3, "delta": d, "value": v} for k, (d, v) in enumerate([(0.1, 0.35), (-0.2, 0.15), (0.4, 0.55), (0.2, 0.75)])]
               + [{"kind": "answer", "end": 15, "delta": 0, "value": None}]} for n in range(30)]
    return [[ends, np.diff(values).tolist(), values[0], values[-1]] for ends, values in arms.shuffled_values(scored, 1).values()]


def inside():
    """Values beyond 0 and 1 after shuffling; weights shuffled inside segments; what a constant a step and norm 1 a step make of made gradients."""
    thought = [{"kind": "thought", "end": k + 1, "delta": d, "value": v} for k, (d, v) in enumerate([(0.6, 0.9), (-0.8, 0.1), (0.7, 0.8), (0.1, 0.9)])]
    beyond = [arms.shuffled_values([{"id": str(n), "segments": thought}], 1)[str(n)][1] for n in range(30)]
    row = {"id": "p3/1", "sigma": [float(n) for n in range(10)], "segments": [{"end": 4}, {"end": 9}]}
    moved = [arms.shuffled_inside([row, None], seed) for seed in range(20)]
    rng = np.random.default_rng(4)
    wide = rng.normal(size=(16, 30))
    wide[8:] *= 5  # the second step is five times as large, and so is its gain
    direction = np.eye(30)[0]
    gains = {name: np.repeat([2.0, 10.0], 64) for name in stage0_within.SIZED}
    block = {name: stage0.products({name: wide}, [direction])[0][name] for name in stage0_within.SIZED}
    moving = np.arange(128) % 2 == 0
    gains["uniform"][1::2] = 99  # traces without an advantage do not count
    gains["share calibrated"][1::2] = 99
    by = stage0_within.sized(block, gains, moving)
    told = stage0_within.sizes([block], [gains], [moving])["share calibrated"]
    first, second = wide[:8].sum(0), wide[8:].sum(0)
    expected = {"constant": first / 2 + second / 10, "norm": first / np.linalg.norm(first) + second / np.linalg.norm(second)}
    pairs = {name: [float(by[f"share calibrated, {kind}"][0].sum()), float(made[0]), float(by[f"share calibrated, {kind}"][1].sum()), float(made @ made)]
             for name, kind in {"constant": "a constant a step", "norm": "norm 1 a step"}.items() for made in [expected[name]]}
    return {"beyond": beyond, "moved": [[m[0]["sigma"].tolist(), m[1]] for m in moved], "pairs": pairs, "told": told,
            "step_norms": [float(np.linalg.norm(first)), float(np.linalg.norm(second))]}


def through_the_tool(folder):
    """The oracle's credit of sampled traces, as `score` gives it: its mass on wrong lines, its sign, and its sum."""
    puzzle = Density("sparse")
    model = checkpoint.load(Llama(), stage0.RECIPE.parents[1] / "lab" / "grpo" / "weak-sparse.safetensors")
    rng = random.Random(1)
    drawn = [puzzle.draw_problem(rng, rng.choice(puzzle.FAMILIES)) for _ in range(6)]
    rows = sample_groups(puzzle, model, drawn, 4, torch.Generator().manual_seed(1))
    tool = Tool(folder)
    tool.build(model)
    scale = [a / len(rows) for a in advantages(rows, 4)]
    scored = tool.score(arms.with_values(rows, arms.known_mistakes), ["--estimator", "given", "--segmenter", "given"])
    found = arms.weighted(rows, scored, scale)
    masses = []
    for row, weight, a in zip(rows, found, scale):
        read = truth.lines_of(row["completion_ids"])
        if row["reward"] or not a or not read or not truth.mistakes(read[0]):
            continue
        starts = [0, *read[1]]  # the first segment has `<think>` in it
        masses.append(sum(weight[starts[k]:read[1][k]].sum() for k in truth.mistakes(read[0])) / a)
    moving = [i for i, a in enumerate(scale) if a]
    tool.warnings.clear()
    tool.score([{**row, "reward": 1.0} for row in rows], [])  # nothing to share out
    try:
        tool.run("score", "nowhere.jsonl", "--log-json")
    except RuntimeError as error:
        refused = str(error)
    return {"warned": tool.warnings, "refused": refused, "wrong": len(masses), "mass": float(np.mean(masses)), "rejected": sum(row is None for row in scored),
            "scale": [scale[i] for i in moving], "sums": [float(found[i].sum()) for i in moving],
            "signs": [float(np.sign(found[i].min()) if found[i].min() * found[i].max() > 0 else 0) for i in moving]}


def figures():
    """Made gradients with known cosine and noise: an arm with a quarter of the noise needs a quarter of the groups."""
    rng, size, groups = np.random.default_rng(3), 400, 64
    truth_ = np.zeros(size)
    truth_[0] = 1.0
    side = np.roll(truth_, 1)
    blocks = []
    for _ in range(12):
        made = {"uniform": truth_ + rng.normal(size=(groups, size)), "quiet": truth_ + 0.5 * rng.normal(size=(groups, size)), "wrong": -truth_ + rng.normal(size=(groups, size)),
                "biased": truth_ + side + 0.5 * rng.normal(size=(groups, size))}
        blocks.append(stage0.products(made, [truth_])[0])
    return stage0.figures(blocks)


def behind_unsure():
    """A trace of four lines of which two were unsure, one that cannot be read, and one that the tool turned down: where they are cut, and what values their lines get."""
    lines = ["a: 1*2=2 top 2\n", "ok.\n", "hm.\n", "b: 2+2=4 top 4\n"]
    ids = task.encode("<think>\n" + "".join(lines) + "</think>\nanswer: 4\n")
    ends = truth.lines_of(ids)[1]
    logprobs = np.full(len(ids), -1e-3)
    logprobs[ends[0]] = logprobs[ends[2] + 1] = np.log(0.7)  # in the second line, and in the fourth
    rows = [{"completion_ids": ids, "reward": 1}, {"completion_ids": ids[:9], "reward": 0}, {"completion_ids": ids, "reward": 0}]
    cut, holds = arms.behind_unsure(rows, [{"logprobs": logprobs.tolist()}, {"logprobs": logprobs[:9].tolist()}, None])
    sampled = [{"value_start": 0.5, "segments": [{"kind": "thought", "value": 0.25}, {"kind": "thought", "value": 0.75}, {"kind": "answer", "value": None}]}, None, None]
    found = arms.carried(rows, holds, sampled)
    return {"ends": ends, "cut": [row["segment_ends"] for row in cut], "found": [[row["segment_ends"], row["values"]] for row in found], "tokens": len(ids)}


def single():
    """Problems and chains of the task of one step."""
    puzzle, rng = Density("single"), random.Random(3)
    problems = puzzle.held_out(400)
    chains = [puzzle.draw_chain(rng, problem) for problem in problems]
    right = np.mean([chain.answer == task.true_answer(problem) for problem, chain in zip(problems, chains)])
    return {"lines": sorted({len(chain.lines) for chain in chains}), "families": sorted({p.family for p in problems}), "right": float(right), "farther": list(puzzle.farther(1)),
            "of_others": [sorted(kind for kind in Density(name).farther(1)) for name in ("dense", "sparse")]}


def counted():
    """Lines and faults of four written traces: right, wrong by an operation, wrong by another fault, and one that has no end."""
    right = "<think>\na: 1*2=2 top 2\nok.\nhm.\nb: 2+2=4 top 4\n</think>\nanswer: 4\n"
    rows = [(right, 1), (right.replace("1*2=2", "1*2=3").replace("top 2", "top 3"), 0), (right.replace("answer: 4", "answer: 5"), 0), ("<think>\nok.\n", 0)]
    return faults.counts([{"completion_ids": task.encode(text), "reward": reward} for text, reward in rows])


def tested():
    """On the task with a test: rows without an answer, rewarded by it, and the oracle's values of a right and a wrong trace."""
    problem, prompt = reach.Problem(0, (("+", 2), ("*", 2), ("-", 5))), task.encode("from 0 by +2 *2 -5\n")
    texts = [f"<think>\n3 steps.\na: 0+2=2\nb: 2*2={b}\nc: {b}+2={b + 2}\n</think>\nanswer: a+2 b*2 c+2={b + 2}\n" for b in (4, 5)]
    rows = [groups.row(reach, problem, "p0", n, prompt, prompt + task.encode(text)) for n, text in enumerate(texts)]
    return {"answers": sum("answer" in row for row in rows), "rewards": [row["reward"] for row in rows], "oracle": [without.known_mistake(row, 4, {"p0": problem}) for row in rows]}


print(json.dumps({"tested": tested(), "unsure": behind_unsure(), "single": single(), "counted": counted(), "references": references(sys.argv[1]), "gradients": gradients(), "grpo": grpo(), "exact": exact(), "shuffled": shuffled(), "inside": inside(), "through_the_tool": through_the_tool(sys.argv[1]), "figures": figures()}))
