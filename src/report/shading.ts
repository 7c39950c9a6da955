// Shades as a terminal shows them: blue and orange, which colour-blind readers tell apart, in as many colours as it has.

/** Bits of colour: 1 is none, 4 are 16 colours, 8 are 256, 24 all. */
export type Depth = 1 | 4 | 8 | 24;

interface Terminal {
  readonly isTTY?: boolean;
  getColorDepth?(env?: object): number;
}

/** What a stream takes: nothing where it is no terminal or somebody said no (https://no-color.org). */
export function depthOf(stream: Terminal): Depth {
  const { NO_COLOR: isRefused, ...env } = process.env;
  if (stream.isTTY !== true || isRefused || env.TERM === 'dumb') return 1;
  // Node takes an empty NO_COLOR for a refusal, which it is not
  const depth = stream.getColorDepth?.(env) ?? 4;
  return depth >= 24 ? 24 : depth >= 8 ? 8 : depth >= 4 ? 4 : 1;
}

/** Background and text of each step, for above 0 and below. */
const TRUE_COLOUR = {
  plus: ['209;229;240', '146;197;222', '99;163;205', '33;102;172', '8;60;120'],
  minus: ['254;224;182', '253;184;99', '230;145;56', '179;88;6', '127;59;8'],
} as const;
const OF_256 = { plus: [195, 153, 74, 25, 18], minus: [223, 215, 208, 130, 94] } as const;
/** from this step on the text is light */
const LIGHT = 4;

/** A text with its shade; steps of {@link shadeOf}. */
export function shaded(text: string, shade: number, depth: Depth): string {
  if (shade === 0 || depth === 1 || text === '') return text;
  const side = shade > 0 ? 'plus' : 'minus';
  const step = Math.abs(shade);
  const isLight = step >= LIGHT;
  // of 16 colours: the text's own at first, then the background's
  const start =
    depth === 24
      ? `48;2;${TRUE_COLOUR[side][step - 1]};38;2;${isLight ? '255;255;255' : '0;0;0'}`
      : depth === 8
        ? `48;5;${OF_256[side][step - 1]};38;5;${isLight ? 231 : 16}`
        : step < 3
          ? `${shade > 0 ? 34 : 33}`
          : `${shade > 0 ? '44;97' : '43;30'}`;
  return `\u001b[${start}m${text}\u001b[0m`;
}

/** A text in blue where the sign is above 0, in orange below. */
export function tinted(text: string, sign: number, depth: Depth): string {
  if (sign === 0 || depth === 1) return text;
  const colour =
    depth === 24
      ? `38;2;${sign > 0 ? '67;147;195' : '224;130;20'}`
      : depth === 8
        ? `38;5;${sign > 0 ? 74 : 208}`
        : `${sign > 0 ? 34 : 33}`;
  return `\u001b[${colour}m${text}\u001b[0m`;
}
