// The flags of the commands as Python types, from the program's own declarations: node python/flags.mjs > python/src/rredcot/_flags.py
import { Command } from 'commander';

/** What Python gives and takes by itself, what a run of files has, and what the functions name themselves. */
const NOT_FOR_PYTHON =
  /^--(output|format|overwrite|shard|rows-per-part|partition|time-limit|quiet|log-json|stream|help|policy|no-policy|max-rejects)$/;

/** Types of values by what stands in the angle brackets of a flag. */
const TYPES = [
  [/^(n|k|m)$/, 'int'],
  [/^(f|p|x|w|nats|seconds)$/, 'float'],
  [/^(file|folder)$/, 'Union[str, PathLike]'],
  [/,…|^\w+,\w+/, 'Union[str, Sequence[Any]]'],
  [/^(name|address|cmd|how|column)$/, 'str'],
];

async function declared(name) {
  const commands =
    name === 'score' || name === 'segment'
      ? await import('../dist/cli/score-command.js')
      : await import('../dist/cli/scored-commands.js');
  const command = new Command(name);
  await commands[name](command, { argv: [], interruption: {}, done() {} });
  return command.options.filter(({ long }) => !NOT_FOR_PYTHON.test(long));
}

function typeOf({ long, flags, description }) {
  const [, value] = /<(.*)>/.exec(flags) ?? [];
  if (value === undefined) return 'bool';
  if (flags.endsWith('x')) return 'str';
  if (/=/.test(value)) return 'Union[str, Mapping[str, Any]]';
  if (long === '--calibration') return 'Union[str, PathLike, Mapping[str, Any]]';
  // a choice of names, and of nothing else, at the beginning of what is said of it or behind a colon
  const [, names] = /(?:^|: )([\w-]+(?:\|[\w-]+)+)(?=[ ;]|:(?!<)|$)(?! in )/.exec(description) ?? [];
  const isChoice = /^<(name|how|where|what|source)>$/.test(`<${value}>`) && names !== undefined;
  if (isChoice) {
    const choice = `Literal[${names
      .split('|')
      .map((each) => `"${each}"`)
      .join(', ')}]`;
    // a module of the user's own is one too
    return long === '--estimator' ? `Union[${choice}, str]` : choice;
  }
  return TYPES.find(([pattern]) => pattern.test(value))?.[1] ?? 'Union[str, float]';
}

async function flagsText() {
  const score = await declared('score');
  const segment = await declared('segment');
  const cut = new Set(segment.map(({ long }) => long));
  const classes = [
    ['SegmentFlags', 'TypedDict', segment],
    ['ScoreFlags', 'SegmentFlags', score.filter(({ long }) => !cut.has(long))],
    ['RedistributeFlags', 'TypedDict', await declared('redistribute')],
    ['CalibrateFlags', 'TypedDict', await declared('calibrate')],
  ];
  const texts = classes.map(([name, base, options]) => {
    const lines = options.map((option) => {
      const attribute = option.long.slice(2).replaceAll('-', '_');
      const said = option.description.replaceAll('\\', '\\\\').replaceAll('"', "'");
      return `    ${attribute}: ${typeOf(option)}\n    """${said}"""\n`;
    });
    return `class ${name}(${base}, total=False):\n${lines.join('')}`;
  });
  const head = `# Made by flags.mjs from the program's declarations.
from os import PathLike
from typing import Any, Literal, Mapping, Sequence, TypedDict, Union

`;
  return `${head}\n${texts.join('\n\n')}`;
}

process.stdout.write(await flagsText());
