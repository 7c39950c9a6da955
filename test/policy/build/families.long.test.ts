/** As families.test.ts: the combinations of family, weight type and rope type whose pairs that file has met. */
import { describeFamilies } from '../../support/family-checks.js';

describeFamilies('the others');
