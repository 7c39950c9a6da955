// Why the values of a trace do not rest on mates though they were to: status codes of `--estimator siblings`.

/** No group, or no mate of known reward that goes on from the same prompt by another completion: the values are the calibrated ones. */
export const NO_MATE = 'siblings:no-mate';
/** The same where no mate's tail is likely at any state of the trace. */
export const NO_FIT = 'siblings:no-fit';
/** Both. */
export const MATELESS: readonly string[] = [NO_MATE, NO_FIT];
