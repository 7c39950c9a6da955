// What `verify` has to say of one place, and of all of them line by line.

/** Something that is not as it should be. */
export interface Finding {
  readonly file: string;
  /** 0-based row of that file; undefined where the file as a whole is meant */
  readonly row?: number;
  readonly text: string;
}

/** A file with more findings than this is told to be so: one cause has many effects. */
const MAX_FINDINGS_A_FILE = 20;

/** Prints findings, and stops to do so for a file with too many. */
export class Findings {
  total = 0;
  private readonly byFile = new Map<string, number>();

  constructor(private readonly print: (line: string) => void) {}

  add({ file, row, text }: Finding): void {
    this.total++;
    const n = (this.byFile.get(file) ?? 0) + 1;
    this.byFile.set(file, n);
    if (n > MAX_FINDINGS_A_FILE + 1) return;
    const place = row === undefined ? file : `${file}: row ${row}`;
    this.print(n > MAX_FINDINGS_A_FILE ? `${file}: and more` : `${place}: ${text}`);
  }
}
