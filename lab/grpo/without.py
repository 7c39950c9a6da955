"""Arms of Stage 0 on the task whose reward is a test: values that need no reference, each with even weights inside a segment and by entropy."""
import arms
from setting import reach

COLUMNS = ("sigma", "sigma_gain", "segments")
WITHIN = {"": ["--within", "uniform"], ", entropy": ["--within", "entropy"], ", entropy, even .8": ["--within", "entropy", "--mix", "0.8"]}


def credits(tool, rows, problems, seed, keep):
    """Hands each arm's scored rows to `keep(name, rows)`. `share calibrated` is fitted to what the policy says when asked, `share thought` to the thought alone."""

    def shares(name, path, *flags):
        for mark, within in WITHIN.items():
            keep(f"share {name}{mark}", tool.redistribute(rows, path, [*flags, *within], COLUMNS))

    paths = {}
    for name, flags in {
        "surprise": ["--estimator", "surprise"],
        "ask": ["--estimator", "ask"],
        "peer": ["--estimator", "posterior", "--hint", "peer"],
        "outcomes": ["--estimator", "siblings", "--calibration", "none"],
    }.items():
        paths[name], _ = tool.score_to(rows, flags, name)
        shares(name, paths[name])
    for rule in ("entropy", "surprise"):
        keep(rule, tool.redistribute(rows, paths["surprise"], ["--sigma", rule], COLUMNS))
    # cross-fitted: no trace's values saw a reward of its own group
    calibrations = {}
    for name, base in (("calibrated", "ask"), ("thought", "surprise")):
        calibrations[name] = tool.calibrate([paths[base]], f"{name}.json")
        paths[name], _ = tool.score_to(rows, ["--estimator", "calibrated", "--calibration", calibrations[name]], name)
        shares(name, paths[name])
    shares("calibrated scaled", paths["calibrated"], "--steps", "scaled")
    siblings, _ = tool.score_to(rows, ["--estimator", "siblings", "--calibration", calibrations["thought"]], "siblings")
    shares("siblings", siblings)
    scored = tool.redistribute(rows, paths["calibrated"], WITHIN[", entropy"], COLUMNS)
    keep("weights shuffled inside", arms.shuffled_inside(scored, seed))
    given = ["--estimator", "given", "--segmenter", "given", *WITHIN[", entropy"]]  # so that the policy reads the traces
    shuffled, _ = tool.score_to(arms.with_shuffled(rows, scored, seed), given, "shuffled")
    shares("values shuffled", shuffled)
    oracle, _ = tool.score_to(arms.with_values(rows, lambda row, lines: known_mistake(row, len(lines), problems)), given, "oracle")
    shares("oracle", oracle)


def known_mistake(row, lines, problems):
    """The value falls at the first line that is wrong and stays so, and moves nowhere on a right trace: [lines + 1]."""
    wrong = None if row["reward"] else reach.first_mistake(problems[row["group"]], row["completion"])
    if wrong is None:
        return [0.5] * (lines + 1)
    return [float(at <= wrong) for at in range(lines + 1)]
