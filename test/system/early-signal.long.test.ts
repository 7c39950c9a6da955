// As early-signal.test.ts, from the start to 2 s after it: 8 times, 200 times in `npm run torture`.
import { describeEarlySignal } from '../support/early-signal.js';

const TIMES = process.env.RREDCOT_TORTURE === undefined ? 8 : 200;
describeEarlySignal(Array.from({ length: TIMES }, (_, i) => (i * 2000) / TIMES));
