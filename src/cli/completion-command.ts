// `rredcot completion`: prints a script that completes in a shell whatever commands and flags are declared.
import type { Command, Option } from 'commander';
import { oneOf } from '../flag-values.js';
import { declared, firstSentence } from './declare.js';

/** Adds the command, which knows all others when it is run. */
export function addCompletionCommand(program: Command): void {
  // zsh reads the functions of bash, once it is told how
  const asBash = 'autoload -U +X compinit && compinit -u\nautoload -U +X bashcompinit && bashcompinit\n';
  const scripts = { bash, zsh: (steps: Step[]) => `${asBash}${bash(steps)}`, fish };
  program
    .command('completion')
    .summary('a script that completes commands and flags in a shell')
    .description('Prints a script that completes commands, flags and the names that flags take.')
    .argument('<shell>', 'bash|zsh|fish')
    .addHelpText('after', '\nExample:\n  rredcot completion bash > rredcot.bash\n')
    .action(async (shell: string) => {
      for (const command of program.commands) await declared(command);
      process.stdout.write(scripts[oneOf('shell', shell, ['bash', 'zsh', 'fish'])](stepsOf(program)));
    });
}

/** What may follow the command words typed so far: further commands, words of an argument, flags. */
type Step = [path: string, commands: readonly Command[], words: string[], flags: readonly Option[]];

function stepsOf(command: Command, path = ''): Step[] {
  const words = command.registeredArguments.flatMap(({ description }) => wordsIn(description));
  const flags = command.createHelp().visibleOptions(command);
  const further = command.commands.flatMap((each) => stepsOf(each, `${path} ${each.name()}`.trim()));
  return [[path, command.commands, words, flags], ...further];
}

/** Of `auto|cpu (slow)|cuda:<n>` those that can be typed as they stand. */
function wordsIn(description: string): string[] {
  const bare = description.replaceAll(/ \([^()]*\)/g, '');
  const list = /(?:^|[\s:])([\w-]+(?::?<\w+>)?(?:\|[\w-]*(?::?<\w+>)?)+)/.exec(bare)?.[1]?.split('|') ?? [];
  return list.filter((word) => /^[\w-]+$/.test(word));
}

const namesOf = ({ short, long }: Option) => [short, long].filter((name) => name != null);

/** As one word of all three shells: descriptions need no quotes of their own. */
const quoted = (text: string) => `'${text.replaceAll("'", '’').replaceAll('\\', '')}'`;

function bash(steps: readonly Step[]): string {
  const values = steps.flatMap(([path, , , flags]) => {
    const typed = (flag: Option) => namesOf(flag).map((name) => quoted(`${path} ${name}`));
    const known = ({ description }: Option) => quoted(wordsIn(description).join(' '));
    return flags.flatMap((each) =>
      each.required ? `${typed(each).join('|')}) known=${known(each)} ;;` : [],
    );
  });
  const others = steps.map(([path, commands, words, flags]) => {
    const known = [...commands.map((each) => each.name()), ...words, ...flags.flatMap(namesOf)];
    return `${quoted(path)}' '*) known=${quoted(known.join(' '))} ;;`;
  });
  // a list that is of flags alone is not meant where a file may stand
  return `# completes rredcot: source this script
_rredcot() {
  local typed=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} command='' known='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command \${COMP_WORDS[i]}" in
    ${steps.flatMap(([path, commands]) => commands.map((each) => quoted(`${path} ${each.name()}`))).join('|')})
      command="\${command:+$command }\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$command $before" in
    ${[...values, ...others.reverse()].join('\n    ')}
  esac
  if [[ -z $known || ( $known == -* && $typed != -* ) ]]; then COMPREPLY=($(compgen -f -- "$typed"))
  else COMPREPLY=($(compgen -W "$known" -- "$typed")); fi
}
complete -o filenames -F _rredcot rredcot
`;
}

function fish(steps: readonly Step[]): string {
  const told = (text: string) => `-d ${quoted(firstSentence(text))}`;
  const lines = steps.flatMap(([path, commands, words, flags]) => {
    const typed = path.split(' ').map((word) => `__fish_seen_subcommand_from ${word}`);
    const names = commands.map((each) => each.name()).join(' ');
    const place = [...typed, ...(names === '' ? [] : [`not __fish_seen_subcommand_from ${names}`])].join(
      '; and ',
    );
    const further = commands.map((each) => `-a ${each.name()} ${told(each.summary() || each.description())}`);
    const argument = words.length > 0 ? `-a ${quoted(words.join(' '))}` : '-F';
    const flagged = flags.map((flag) => {
      const spelt = namesOf(flag).map((name) => name.replace(/^--/, '-l ').replace(/^-(?=\w$)/, '-s '));
      const values = wordsIn(flag.description);
      const takes = values.length > 0 ? `-x -a ${quoted(values.join(' '))}` : '-r -F';
      return `${spelt.join(' ')} ${flag.required ? takes : ''} ${told(flag.description)}`;
    });
    const all = [...further, ...(names === '' ? [argument] : []), ...flagged];
    const when = quoted(path === '' ? '__fish_use_subcommand' : place);
    return all.map((each) => `complete -c rredcot -n ${when} ${each}`);
  });
  return `${['complete -c rredcot -f', ...lines].join('\n')}\n`;
}
