// As early-signal.test.ts, 200 times from the start to 2 s after it.
import { describeEarlySignal } from '../support/early-signal.js';

describeEarlySignal(Array.from({ length: 200 }, (_, i) => 10 * i));
