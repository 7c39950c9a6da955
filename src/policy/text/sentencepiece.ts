// SentencePiece tokenizers as tokenizer.json spells them: ▁ is a space, <0x0A> is a byte, a space comes before a text.

interface TokenizerStep {
  readonly type?: string;
  readonly decoders?: readonly TokenizerStep[];
  readonly normalizers?: readonly TokenizerStep[];
  readonly pattern?: { readonly String?: string };
  readonly content?: string;
  readonly prepend?: string;
  readonly replacement?: string;
  readonly start?: number;
  readonly stop?: number;
}

export type TokenizerSpec = Record<string, unknown>;

const SPACE = '▁'; // U+2581

/** Whether tokens of the tokenizer spell their text byte by byte under {@link pieceBytes}. */
export function isSentencePiece(spec: TokenizerSpec): boolean {
  const model = (spec.model ?? {}) as { byte_fallback?: boolean };
  const decoders = stepsOf(spec.decoder, 'decoders');
  return (
    model.byte_fallback === true &&
    decoders.some(({ type }) => type === 'Replace' || type === 'Metaspace') &&
    decoders.every(isSpaceDecoder) &&
    stepsOf(spec.normalizer, 'normalizers').every(isSpaceNormalizer) &&
    stepsOf(spec.pre_tokenizer, 'pretokenizers').every(
      ({ type, replacement }) => type === 'Metaspace' && (replacement ?? SPACE) === SPACE,
    )
  );
}

/** The same tokenizer for a text that continues a sequence: no space is put before it. */
export function withoutPrefixSpace(spec: TokenizerSpec): TokenizerSpec {
  const normalizers = stepsOf(spec.normalizer, 'normalizers').filter(({ type }) => type !== 'Prepend');
  const [metaspace] = stepsOf(spec.pre_tokenizer, 'pretokenizers');
  return {
    ...spec,
    normalizer: normalizers.length === 0 ? null : { type: 'Sequence', normalizers },
    pre_tokenizer:
      metaspace === undefined ? null : { ...metaspace, prepend_scheme: 'never', add_prefix_space: false },
  };
}

/** UTF-8 bytes of a piece that is no added token. */
export function pieceBytes(piece: string): Uint8Array {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(piece)?.[1];
  if (byte !== undefined) return Uint8Array.of(Number.parseInt(byte, 16));
  return Buffer.from(piece.replaceAll(SPACE, ' '));
}

function isSpaceDecoder({ type, pattern, content, replacement, start, stop }: TokenizerStep): boolean {
  if (type === 'Replace') return pattern?.String === SPACE && content === ' ';
  if (type === 'Metaspace') return (replacement ?? SPACE) === SPACE;
  // the space before a text is taken off again where a whole text is decoded; pieces are ours to decode
  if (type === 'Strip') return content === ' ' && (start ?? 0) <= 1 && (stop ?? 0) === 0;
  return type === 'ByteFallback' || type === 'Fuse';
}

function isSpaceNormalizer({ type, pattern, content, prepend }: TokenizerStep): boolean {
  if (type === 'Prepend') return prepend === SPACE;
  return type === 'Replace' && pattern?.String === ' ' && content === SPACE;
}

/** The steps of a tokenizer's part, which may be a sequence of them. */
export function stepsOf(
  value: unknown,
  list: 'decoders' | 'normalizers' | 'pretokenizers',
): readonly TokenizerStep[] {
  const step = (value ?? null) as (TokenizerStep & Record<string, unknown>) | null;
  if (step === null) return [];
  return step.type === 'Sequence' ? ((step[list] as readonly TokenizerStep[] | undefined) ?? []) : [step];
}
