import { describeAgainstOracle } from '../support/oracle-comparison.js';

describeAgainstOracle({ everyGroup: 8, traces: 9, others: 2 });
