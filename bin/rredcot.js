#!/usr/bin/env node
// Starts the command line: everything else is in dist/program/. A signal that comes before that has loaded ends the program too.

const SIGNALS = ['SIGUSR1', 'SIGTERM', 'SIGINT', 'SIGHUP'];
const INTERRUPTED = 75;

function endEarly() {
  process.stderr.write('rredcot: interrupted\n');
  process.exit(INTERRUPTED);
}

// at SIGUSR1 Node opens its debugger to everybody on the machine, for as long as nobody listens to the signal
for (const name of SIGNALS) process.on(name, endEarly);
await endWhereDebuggerOpened();
const { main } = await import('../dist/program/program.js');
await endWhereDebuggerOpened();
const ended = main(process.argv); // listens to the signals from its first statement on
for (const name of SIGNALS) process.off(name, endEarly);
process.exitCode = await ended;

/** A SIGUSR1 that came before the first statement has reached Node: what it opened is closed, and the signal obeyed. */
async function endWhereDebuggerOpened() {
  const { close, url } = await import('node:inspector');
  if (url() === undefined || wantsDebugger()) return;
  close();
  endEarly();
}

function wantsDebugger() {
  return [...process.execArgv, process.env.NODE_OPTIONS ?? ''].some((flags) => flags.includes('--inspect'));
}
