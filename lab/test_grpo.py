"""The training proof by hand: gradients, advantages, exact values, statistics, and a run of a few steps: `python3 -m unittest lab/test_grpo.py`."""
import itertools
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

LAB = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(LAB / "grpo"))
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


class Proof(unittest.TestCase):
    def folder(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        return made.name

    def test_gradients(self):
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
        self.assertAlmostEqual(found, moved(0), delta=1e-5)
        self.assertAlmostEqual(float(flat @ direction), (moved(step) - moved(-step)) / (2 * step), delta=1e-5)
        self.assertAlmostEqual(gradient.entropy(model, rows), summed / sum(len(r["completion_ids"]) for r in rows), 5)

    def test_grpo(self):
        """Advantages are GRPO's, and plain GRPO gives each token its trace's by the trace's length."""
        rows = rows_of(["a\n", "bb\n", "c\n", "d\n"] * 2, [1, 0, 0, 1, 1, 1, 1, 1])
        a = 0.5 / (1 / math.sqrt(3) + 1e-4)
        np.testing.assert_allclose(advantages(rows, 4), [a, -a, -a, a, 0, 0, 0, 0], atol=1e-12)
        np.testing.assert_array_equal(centred(rows, 4), [0.5, -0.5, -0.5, 0.5, 0, 0, 0, 0])
        for found, expected in zip(arms.uniform(rows[:2], [0.5, -0.5]), ([1 / 4] * 2, [-1 / 6] * 3)):
            np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_exact(self):
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
        self.assertLess(max(off), 1e-12)
        for value, reward in (np.mean(drawn[k], 0) for k in (0, 1)):
            self.assertAlmostEqual(value, reward, delta=0.06)
        # the oracle moves at mistakes that stay, and nowhere on a right trace
        self.assertEqual(truth.mistakes(lines), [3])
        self.assertEqual(list(arms.known_mistakes({"reward": 0}, lines)), [1, 1, 1, 1, 0])
        self.assertEqual(len(set(arms.known_mistakes({"reward": 1}, lines))), 1)
        # the oracle of decisions: right traces rise at the two lines with `*`
        self.assertEqual(list(arms.known_decisions({"reward": 0}, lines)), [1, 1, 1, 1, 0])
        self.assertEqual(list(arms.known_decisions({"reward": 1}, lines)), [0, 0.5, 0.5, 1, 1])

    def test_references(self):
        """What stage0 says of stored references: one that is whole, and others that are not what was asked for."""
        folder = self.folder()
        model = pathlib.Path(folder) / "weights"
        model.write_bytes(b"some")
        path = f"{folder}/reference.npy"
        np.save(path, np.array([[3.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, 3.0]], np.float32))

        def told(loss="grpo", density="sparse"):
            try:
                return [*stage0.reference_of(path, density, model, loss)[:2]]
            except SystemExit as error:
                return str(error)

        self.assertIn("found a reference of None, expected", told())
        pathlib.Path(path + ".json").write_text(json.dumps(reference.identity("sparse", model, 4)))
        whole, *others = told(), told("return"), told(density="dense")
        # rows 0, 2 and 1, 3: their means point the same way
        self.assertEqual(whole[0], 256)
        self.assertAlmostEqual(whole[1], 1, 12)
        model.write_bytes(b"other")
        for said in [*others, told()]:
            self.assertRegex(said, r"found a reference of \{.*: make it with reference\.py")

    def test_shuffled(self):
        """Shuffled values keep the ends, the differences and the sum, in another order."""
        scored = [{"id": str(n), "segments": [{"kind": "thought", "end": 3 * k + 3, "delta": d, "value": v} for k, (d, v) in enumerate([(0.1, 0.35), (-0.2, 0.15), (0.4, 0.55), (0.2, 0.75)])]
                   + [{"kind": "answer", "end": 15, "delta": 0, "value": None}]} for n in range(30)]
        orders = set()
        for ends, values in arms.shuffled_values(scored, 1).values():
            self.assertEqual(list(ends), [3, 6, 9, 12])
            self.assertAlmostEqual(values[-1] - values[0], 0.5, 12)
            np.testing.assert_allclose(sorted(np.diff(values)), [-0.2, 0.1, 0.2, 0.4], atol=1e-12)
            orders.add(tuple(np.diff(values).round(1)))
        self.assertGreater(len(orders), 8)

    def test_beyond(self):
        """Shuffled values that left 0 to 1 are brought back, their differences in proportion."""
        thought = [{"kind": "thought", "end": k + 1, "delta": d, "value": v} for k, (d, v) in enumerate([(0.6, 0.9), (-0.8, 0.1), (0.7, 0.8), (0.1, 0.9)])]
        beyond = [arms.shuffled_values([{"id": str(n), "segments": thought}], 1)[str(n)][1] for n in range(30)]
        orders = set()
        for found in beyond:
            self.assertTrue(all(0 <= value <= 1 for value in found))
            unit = np.diff(found).sum() / 0.6
            np.testing.assert_array_equal(sorted(np.round(10 * np.diff(found) / unit)), [-8, 1, 6, 7])
            orders.add(round(float(unit), 3))
        self.assertGreater(len(orders), 1)

    def test_inside(self):
        """Weights shuffled inside stay in their segments; what is behind the last one stays."""
        row = {"id": "p3/1", "sigma": [float(n) for n in range(10)], "segments": [{"end": 4}, {"end": 9}]}
        moved = [arms.shuffled_inside([row, None], seed) for seed in range(20)]
        orders = set()
        for found, rejected in moved:
            sigma = found["sigma"].tolist()
            self.assertIsNone(rejected)
            self.assertEqual([sorted(sigma[:4]), sorted(sigma[4:9]), sigma[9]], [[0, 1, 2, 3], [4, 5, 6, 7, 8], 9])
            orders.add(tuple(sigma))
        self.assertGreater(len(orders), 15)

    def test_sizes(self):
        """A step is divided by its mean gain over traces that have an advantage, or by its own norm."""
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
        for kind, name in {"constant": "a constant a step", "norm": "norm 1 a step"}.items():
            along, square = (float(part.sum()) for part in by[f"share calibrated, {name}"])
            self.assertAlmostEqual(along, expected[kind][0], 8)
            self.assertAlmostEqual(square, expected[kind] @ expected[kind], 8)
        self.assertEqual([told["gain_mean"], told["norm"]], [6, 1])
        self.assertAlmostEqual(told["step_norm"], (np.linalg.norm(first) + np.linalg.norm(second)) / 2, 8)

    def test_figures(self):
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
        found = stage0.figures(blocks)
        # signal 1, noise s·√size in a group's gradient: cos = 1 / √(1 + s²·size / groups)
        self.assertAlmostEqual(found["uniform"]["cosine"], 1 / math.sqrt(1 + 400 / 64), delta=0.05)
        self.assertAlmostEqual(found["quiet"]["cosine"], 1 / math.sqrt(1 + 100 / 64), delta=0.05)
        self.assertGreater(found["quiet"]["gain_interval"][0], 0.15)
        self.assertLess(found["wrong"]["gain"], -0.5)
        # as little noise as quiet, but off by as much as it is right: the limit is cos 45°, and more groups stop helping
        self.assertAlmostEqual(found["biased"]["limit"], math.sqrt(0.5), delta=0.05)

    def test_behind_unsure(self):
        """A trace of four lines of which two were unsure, one that cannot be read, and one that the tool rejected: where they are cut, and what values their lines get."""
        lines = ["a: 1*2=2 top 2\n", "ok.\n", "hm.\n", "b: 2+2=4 top 4\n"]
        ids = task.encode("<think>\n" + "".join(lines) + "</think>\nanswer: 4\n")
        ends = truth.lines_of(ids)[1]
        logprobs = np.full(len(ids), -1e-3)
        logprobs[ends[0]] = logprobs[ends[2] + 1] = np.log(0.7)  # in the second line, and in the fourth
        rows = [{"completion_ids": ids, "reward": 1}, {"completion_ids": ids[:9], "reward": 0}, {"completion_ids": ids, "reward": 0}]
        places = arms.behind_unsure(rows, [{"logprobs": logprobs.tolist()}, {"logprobs": logprobs[:9].tolist()}, None])
        self.assertEqual([cut for _, cut, _ in places], [[ends[1], ends[3]], [], []])
        flat = [dict(zip(("segment_ends", "values"), arms.flat(row))) for row in rows[1:]]
        found = arms.carried([{"segment_ends": [ends[1], ends[3]], "values": [0.5, 0.25, 0.75]}, *flat], places)
        # nothing moves where nothing is known
        expected = [[ends, [0.5, 0.5, 0.25, 0.25, 0.75]], [[9], [0, 0]], [[len(ids)], [0, 0]]]
        self.assertEqual([[row["segment_ends"], list(row["values"])] for row in found], expected)

    def test_single(self):
        """A problem of one step has one line, right as often as no operation goes wrong."""
        puzzle, rng = Density("single"), random.Random(3)
        problems = puzzle.held_out(400)
        chains = [puzzle.draw_chain(rng, problem) for problem in problems]
        right = np.mean([chain.answer == task.true_answer(problem) for problem, chain in zip(problems, chains)])
        self.assertEqual([{len(chain.lines) for chain in chains}, {p.family for p in problems}], [{1}, {"top"}])
        self.assertAlmostEqual(float(right), 0.6, delta=0.08)
        self.assertEqual([list(puzzle.farther(1)), *(sorted(Density(name).farther(1)) for name in ("dense", "sparse"))], [[], *[["longer", "others"]] * 2])

    def test_counted(self):
        """Lines and faults of four written traces: right, wrong by an operation, wrong by another fault, and one that has no end."""
        right = "<think>\na: 1*2=2 top 2\nok.\nhm.\nb: 2+2=4 top 4\n</think>\nanswer: 4\n"
        rows = [(right, 1), (right.replace("1*2=2", "1*2=3").replace("top 2", "top 3"), 0), (right.replace("answer: 4", "answer: 5"), 0), ("<think>\nok.\n", 0)]
        found = faults.counts([{"completion_ids": task.encode(text), "reward": reward} for text, reward in rows])
        expected = {"right": 1, "readable": 3, "operations": 6, "wrong_operations": 1, "fillers": 6, "mistake_known": 1, "mistake_unknown": 1}
        self.assertEqual(dict(found), expected)

    def test_tested(self):
        """The task with a test has no answers, and its oracle falls at the first line that stays wrong."""
        problem, prompt = reach.Problem(0, (("+", 2), ("*", 2), ("-", 5))), task.encode("from 0 by +2 *2 -5\n")
        texts = [f"<think>\n3 steps.\na: 0+2=2\nb: 2*2={b}\nc: {b}+2={b + 2}\n</think>\nanswer: a+2 b*2 c+2={b + 2}\n" for b in (4, 5)]
        rows = [groups.row(reach, problem, "p0", n, prompt, prompt + task.encode(text)) for n, text in enumerate(texts)]
        self.assertFalse(any("answer" in row for row in rows))
        self.assertEqual([row["reward"] for row in rows], [1, 0])
        found = [list(without.known_mistake(row, 4, {"p0": problem})) for row in rows]
        self.assertEqual(found, [[0.5] * 5, [1, 1, 1, 0, 0]])

    def test_through_the_tool(self):
        """The oracle's credit of sampled traces, as `score` gives it: its mass on wrong lines, its sign, and its sum."""
        puzzle = Density("sparse")
        model = checkpoint.load(Llama(), stage0.RECIPE.parents[1] / "lab" / "grpo" / "weak-sparse.safetensors")
        rng = random.Random(1)
        drawn = [puzzle.draw_problem(rng, rng.choice(puzzle.FAMILIES)) for _ in range(6)]
        rows = sample_groups(puzzle, model, drawn, 4, torch.Generator().manual_seed(1))
        tool = Tool(self.folder())
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
        self.assertGreater(len(masses), 3)
        # λ = .1 is spread over all tokens
        self.assertTrue(0.9 < np.mean(masses) < 0.98)
        self.assertNotIn(None, scored)
        for weight, a in zip(found, scale):
            if a:
                self.assertAlmostEqual(float(weight.sum()), a, 6)
                self.assertTrue((np.sign(weight) == np.sign(a)).all())
        # warnings come through, and what the tool says of a failure is the error
        tool.warnings.clear()
        tool.score([{**row, "reward": 1.0} for row in rows], [])  # nothing to share out
        self.assertEqual(len(tool.warnings), 1)
        self.assertRegex(tool.warnings[0], "^σ is uniform in 24 of 24 traces")
        with self.assertRaisesRegex(RuntimeError, r"(?s)exit 2.*nowhere\.jsonl: cannot be read"):
            tool.run("score", "nowhere.jsonl", "--log-json")

    def test_sweep(self):
        """A sweep of some steps is whole, is kept, and its table stands; a step along the gradient lowers the loss."""
        folder = self.folder()
        arguments = ["--arms", "uniform,share calibrated", "--seeds", "1", "--steps", "2", "--problems", "6", "--copies", "4", "--look", "1", "--held-out", "24", "--check", "--work", folder]

        def sweep(*more):
            return subprocess.run([sys.executable, LAB / "train_proof.py", *arguments, *more], capture_output=True, encoding="utf-8")

        def records(path):
            return [json.loads(line) for line in path.read_text().splitlines()]

        run = sweep()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"(?m)^share calibrated,end,0\.\d")
        (made,) = pathlib.Path(folder).iterdir()
        log = made / "share-calibrated-1.jsonl"
        steps = [record for record in records(log) if "reward" in record]
        self.assertEqual(len(steps), 2)
        for step in steps:
            self.assertLess(step["loss_after"], step["loss"])
            self.assertGreater(step["seconds"]["tool"], 0.5)
            self.assertEqual(sum(step["statuses"].values()), 24)
        self.assertEqual([record["step"] for record in records(log) if record.get("of") == 24], [1, 2])
        # nothing is run again
        again = sweep()
        self.assertEqual([again.stdout, again.stderr], [run.stdout, ""])
        # a gradient that is cut to nothing moves nothing
        self.assertIn("clip was None, and is 1e-12", sweep("--clip", "1e-12").stderr)
        still = pathlib.Path(self.folder())
        clipped = sweep("--clip", "1e-12", "--arms", "uniform", "--work", str(still))
        self.assertEqual(clipped.returncode, 0, clipped.stderr)
        moves = [record for record in records(still / made.name / "uniform-1.jsonl") if "loss" in record]
        self.assertEqual(len(moves), 2)
        for move in moves:
            self.assertLess(abs(move["loss_after"] - move["loss"]), 1e-6)
            self.assertGreater(move["norm"], 0.01)
        # another sweep's run, another arm's under this name, and one that is not whole
        plain = made / "uniform-1.jsonl"
        whole = plain.read_text()
        last = next(n for n, line in enumerate(whole.split("\n")) if '"step": 2, "tokens"' in line and "held_out" in line)
        for text, why in (
            (whole.replace('"steps": 2', '"steps": 3'), "steps was 3, and is 2"),
            (log.read_text(), "arm was share calibrated, and is uniform"),
            ("\n".join(whole.split("\n")[:last]), "has no look at step 2"),
        ):
            plain.write_text(text)
            refused = sweep()
            self.assertEqual(refused.returncode, 1)
            self.assertIn(why, refused.stderr)
        self.assertRegex(sweep("--arms", "nope").stderr, "no such arm: nope; try some of uniform,")


if __name__ == "__main__":
    unittest.main()
