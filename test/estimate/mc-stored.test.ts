// What verify says of a row of `mc`: values, deviations and shares beside each other, and beside the samples that were kept.
import { describe, expect, it } from 'vitest';
import { faultsOf } from '../support/faults.js';

/** Says nothing of samples without a verdict. */
const CONFIG = {
  ...{ estimator: 'mc', rule: 'share', residual: 'uniform', within: 'uniform', baseline: 'auto' },
  keepSamples: true,
};

const VALUES = Float32Array.of(0.75, 0.5);
const UTILITIES = [
  [1, 1, 1, 0],
  [1, 0, null, 1],
];
const ROW = {
  status: 'ok',
  value_sd: Float32Array.of(0.21650635, 0.25),
  lost_fraction: [0, 0.25],
  samples: UTILITIES.flatMap((own, exit) => own.map((utility) => ({ exit, utility }))),
};

function faults(change: Readonly<Record<string, unknown>>, values = VALUES, config = CONFIG): string {
  const segment = { start: 0, end: 4, char_start: 0, char_end: 4, kind: 'thought', value: values[1] };
  return faultsOf({ value_start: values[0], segments: [segment], ...ROW, ...change }, config);
}

describe('a row of mc', () => {
  const dropped = { value_sd: [0.21650635, 0.27216553], lost_fraction: [0, 0.25] };
  it('passes as it was written, whatever a sample without a verdict counts', () => {
    expect(faults({})).toBe('');
    expect(faults(dropped, Float32Array.of(0.75, 2 / 3))).toBe('');
    expect(faults({ samples: undefined })).toBe('');
    // unless the configuration says it
    expect(faults({}, VALUES, { ...CONFIG, mcUnfinished: 'drop' } as typeof CONFIG)).toMatch(
      /from its samples/,
    );
  });

  it.each([
    [{ value_sd: [0.2, 0.25] }, /value_sd\[0\] is 0\.2\d*, from its samples it is 0\.216/],
    [{ lost_fraction: [0.25, 0.25] }, /lost_fraction\[0\] is 0\.25, from its samples it is 0$/],
    [{ samples: ROW.samples.slice(1) }, /samples has 3 of exit 0, expected 4/],
    [
      { samples: ROW.samples.map((s, i) => (i ? s : { exit: 0, utility: 0 })) },
      /value_start is 0\.75, from its samples/,
    ],
    // without samples
    [{ samples: undefined, value_sd: [0.44, 0.25] }, /value_sd\[0\] is 0\.4\d*, expected 0 to 0\.433/],
    [{ samples: undefined, value_sd: [-0.1, 0] }, /value_sd\[0\] is -0\.1/],
    [{ samples: undefined, value_sd: [0.1] }, /value_sd has 1 entries, expected 2/],
    [{ samples: undefined, lost_fraction: [0, 1.5] }, /lost_fraction\[1\] is 1\.5/],
    [{ samples: undefined, lost_fraction: [0, 0.5] }, /status is ok, and the largest lost_fraction is 0\.5/],
    [{ samples: undefined, status: 'mc:lost' }, /status is mc:lost, and the largest lost_fraction is 0\.25/],
  ])('%o is told', (change, expected) => {
    expect(faults(change)).toMatch(expected);
  });

  it('has values between 0 and 1', () => {
    expect(faults({ samples: undefined }, Float32Array.of(1.25, 0.5))).toMatch(/exit 0 is 1\.25/);
  });
});
