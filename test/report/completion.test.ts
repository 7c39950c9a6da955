// The scripts that complete: every command and flag is in them, and quotes of descriptions end nothing.
import { describe, expect, it } from 'vitest';
import { type CompletedCommand, completionScript, SHELLS } from '../../dist/report/completion.js';

const COMMANDS: CompletedCommand[] = [
  {
    name: 'score',
    what: "the run's σ",
    words: [],
    flags: [
      { names: ['-o', '--output'], what: 'where', value: 'file' },
      { names: ['--bank'], what: 'references', value: ['row', 'group'] },
      { names: ['--quiet'], what: 'less', value: 'none' },
    ],
  },
  { name: 'completion', what: 'a script', words: ['bash', 'zsh'], flags: [] },
  {
    name: 'policy build',
    what: 'graphs',
    words: [],
    flags: [{ names: ['--help'], what: 'help', value: 'none' }],
  },
  { name: 'policy info', what: 'what it is', words: [], flags: [] },
];

describe('a completion script', () => {
  it.each(SHELLS)('of %s names commands, flags and values, and has no open quote', (shell) => {
    const script = completionScript(shell, COMMANDS);
    for (const word of [
      'score',
      'policy',
      'build',
      'info',
      'output',
      'bank',
      'row group',
      'bash zsh',
      'quiet',
    ])
      expect(script).toContain(word);
    for (const line of script.split('\n')) expect((line.match(/'/g)?.length ?? 0) % 2, line).toBe(0);
  });
});
