// What `verify` has to say of one place.

/** Something that is not as it should be. */
export interface Finding {
  readonly file: string;
  /** 0-based row of that file; undefined where the file as a whole is meant */
  readonly row?: number;
  readonly text: string;
}
