// The commands of the documentation run: the pages that docs.long.test.ts leaves out.
import { DOCS } from '../support/documentation.js';
import { itRuns } from '../support/documentation-pages.js';

itRuns(DOCS.filter((_, n) => n % 2 === 1));
