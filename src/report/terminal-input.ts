// What a command says that would otherwise wait for a terminal's input without a word.

/** undefined where nobody has to be told. @param paths of the inputs, `-` for stdin */
export function terminalNotice(
  paths: readonly string[],
  stdin: { readonly isTTY?: boolean } = process.stdin,
): string | undefined {
  if (stdin.isTTY !== true || !paths.includes('-')) return undefined;
  return 'waits for rows from this terminal, to be ended with Ctrl-D; a file is named behind the command';
}
