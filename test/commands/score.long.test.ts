// As score.test.ts, with more traces against the oracle, from all of the fixtures.
import { describeAgainstOracle } from '../support/oracle-comparison.js';

describeAgainstOracle({ everyGroup: 1, traces: 48, others: 6 });
