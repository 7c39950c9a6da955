// Writes a script that completes the program's commands and flags in bash, zsh or fish.

/** A flag; `value` is what it takes: nothing, one of some words, or a text or file. */
export interface CompletedFlag {
  readonly names: readonly string[];
  readonly what: string;
  readonly value: 'none' | 'file' | readonly string[];
}

/** A command by its words: `score`, `policy build`. */
export interface CompletedCommand {
  readonly name: string;
  readonly what: string;
  /** what its argument may be; empty where that is a file */
  readonly words: readonly string[];
  readonly flags: readonly CompletedFlag[];
}

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

export function completionScript(shell: Shell, commands: readonly CompletedCommand[]): string {
  return { bash, zsh, fish }[shell](commands);
}

/** As one word of all three shells: descriptions need no quotes of their own. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", '’').replaceAll('\\', '')}'`;
}

/** First words, and behind each of those of two words its second ones. */
function wordsOf(commands: readonly CompletedCommand[]) {
  const first = [...new Set(commands.map(({ name }) => name.split(' ')[0] as string))];
  const second = new Map<string, string[]>();
  for (const { name } of commands) {
    const [word = '', next] = name.split(' ');
    if (next !== undefined) second.set(word, [...(second.get(word) ?? []), next]);
  }
  return { first, second };
}

/** Lines of a `case` of bash and zsh: what follows a command, and a flag of it. */
function cases(commands: readonly CompletedCommand[]): { flags: string[]; values: string[] } {
  const flags = commands.map(
    ({ name, flags: own }) =>
      `    ${quoted(name)}) flags=${quoted(own.flatMap(({ names }) => names).join(' '))} ;;`,
  );
  const values = commands.flatMap(({ name, words, flags: own }) => [
    // the word before an argument is the command's last one
    ...(words.length === 0
      ? []
      : [`    ${quoted(`${name} ${name.split(' ').at(-1)}`)}) values=${quoted(words.join(' '))} ;;`]),
    ...own.flatMap(({ names, value }) =>
      value === 'none'
        ? []
        : [
            `    ${names.map((flag) => quoted(`${name} ${flag}`)).join('|')}) ${value === 'file' ? 'files=1' : `values=${quoted(value.join(' '))}`} ;;`,
          ],
    ),
  ]);
  return { flags, values };
}

function bash(commands: readonly CompletedCommand[]): string {
  const { first, second } = wordsOf(commands);
  const { flags, values } = cases(commands);
  const seconds = Array.from(second, ([word, next]) => `    ${word}) words=${quoted(next.join(' '))} ;;`);
  return `# completes rredcot in bash: source <(rredcot completion bash)
_rredcot() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}
  local command='' words=${quoted(first.join(' '))} flags='' values='' files='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case \${COMP_WORDS[i]} in
      -*) continue ;;
    esac
    if [[ -z $command ]]; then
      command=\${COMP_WORDS[i]} words=''
      case $command in
    ${seconds.join('\n    ').trim()}
      esac
    elif [[ -n $words ]]; then
      command="$command \${COMP_WORDS[i]}" words=''
    fi
  done
  case $command in
${flags.join('\n')}
  esac
  case "$command $previous" in
${values.join('\n')}
  esac
  if [[ -n $values && $current != -* ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$current"))
  elif [[ -n $files ]]; then
    COMPREPLY=($(compgen -f -- "$current"))
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
  elif [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}
complete -o filenames -F _rredcot rredcot
`;
}

// zsh reads the functions of bash, once it is told how
function zsh(commands: readonly CompletedCommand[]): string {
  const script = bash(commands).split('\n').slice(1).join('\n');
  return `# completes rredcot in zsh: source <(rredcot completion zsh)
autoload -U +X compinit && compinit -u
autoload -U +X bashcompinit && bashcompinit
${script}`;
}

function fish(commands: readonly CompletedCommand[]): string {
  const { first, second } = wordsOf(commands);
  const lines = ['# completes rredcot in fish: rredcot completion fish | source', 'complete -c rredcot -f'];
  for (const word of first) {
    const what = commands.find(({ name }) => name === word)?.what ?? `${word} …`;
    lines.push(`complete -c rredcot -n __fish_use_subcommand -a ${word} -d ${quoted(what)}`);
  }
  for (const [word, next] of second)
    for (const each of next) {
      const what = commands.find(({ name }) => name === `${word} ${each}`)?.what ?? each;
      const seen = `__fish_seen_subcommand_from ${word}; and not __fish_seen_subcommand_from ${next.join(' ')}`;
      lines.push(`complete -c rredcot -n ${quoted(seen)} -a ${each} -d ${quoted(what)}`);
    }
  for (const { name, words, flags } of commands) {
    const seen = name
      .split(' ')
      .map((word) => `__fish_seen_subcommand_from ${word}`)
      .join('; and ');
    lines.push(
      `complete -c rredcot -n ${quoted(seen)} ${words.length === 0 ? '-F' : `-a ${quoted(words.join(' '))}`}`,
    );
    for (const { names, what, value } of flags) {
      const spelt = names.map((flag) =>
        flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`,
      );
      const takes = value === 'none' ? '' : value === 'file' ? ' -r -F' : ` -x -a ${quoted(value.join(' '))}`;
      lines.push(`complete -c rredcot -n ${quoted(seen)} ${spelt.join(' ')}${takes} -d ${quoted(what)}`);
    }
  }
  return `${lines.join('\n')}\n`;
}
