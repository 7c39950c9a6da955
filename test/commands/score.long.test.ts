// As score.test.ts, with more traces against the oracle.
import { describeAgainstOracle } from '../support/oracle-comparison.js';

describeAgainstOracle(8, 9, 2);
