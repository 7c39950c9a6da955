// The flags and help of `rredcot calibrate`.
import type { Command } from 'commander';
import type { ExitCode } from '../errors.js';

interface CalibrateFlags {
  readonly output: string;
  readonly features?: string;
  readonly quiet: boolean;
  readonly logJson: boolean;
}

/** Adds the command; it reports its exit code, and throws what goes wrong. */
export function addCalibrateCommand(
  program: Command,
  signal: AbortSignal,
  done: (code: ExitCode) => void,
): void {
  program
    .command('calibrate')
    .summary("fit a value on the reward's scale to scored traces")
    .description(
      "Fits the calibrated value to the rewards of scored traces: a logistic regression on v̂ and on the thought's surprise so far, cross-fitted by group. score and redistribute take it with --estimator calibrated.",
    )
    .argument('<scored...>', 'scored .parquet, .arrow or .jsonl files, run folders, merged folders')
    .requiredOption('-o, --output <file>', 'the calibration, a JSON file')
    .option(
      '--features <column,…>',
      "columns of the files with a number for each state, which V looks at besides: K + 1, K, or another run's segments; lowest:<column> is the lowest so far (docs/calibration.md)",
    )
    .option('--quiet', 'errors only', false)
    .option('--log-json', 'log records as JSON lines on stderr', false)
    .addHelpText('after', '\nExample:\n  rredcot calibrate scored.parquet -o calibration.json\n')
    .action(async (scored: string[], { output, features, quiet, logJson }: CalibrateFlags) => {
      const { calibrate } = await import('../commands/calibrate.js');
      const { openLog } = await import('../report/log.js');
      const { parseFeatures } = await import('../estimate/calibrated/columns.js');
      const further = features === undefined ? [] : parseFeatures(features);
      done(await calibrate(scored, { output, further, signal }, openLog({ quiet, json: logJson })));
    });
}
