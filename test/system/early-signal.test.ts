// Node opens its debugger to all users of a machine at SIGUSR1, which is what schedulers send: never here.
import { describeEarlySignal } from '../support/early-signal.js';

describeEarlySignal([10, 60, 200, 500]);
