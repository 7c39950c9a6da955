// Lines by name in, one chart as SVG out.

const [WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM] = [760, 400, 60, 44, 200, 52];
const COLOURS = [
  ...['#4477aa', '#ee6677', '#228833', '#ccbb44', '#66ccee', '#aa3377', '#888888', '#000000'],
  ...['#dd8800', '#004488', '#997700', '#44bb99', '#bb5566'],
];
const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/**
 * @param x, y {label, ticks, low, high}; x.ticks are [position, text]
 * @param lines {name, points: [x, y][], isDashed?}; what lies outside of y is drawn at its edge
 */
export function chart({ title, x, y, lines }) {
  const across = (v) => LEFT + ((v - x.low) / (x.high - x.low)) * (WIDTH - LEFT - RIGHT);
  const up = (v) =>
    TOP + ((y.high - Math.min(y.high, Math.max(y.low, v))) / (y.high - y.low)) * (HEIGHT - TOP - BOTTOM);
  const grid = y.ticks.map(
    (v) =>
      `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${up(v)}" y2="${up(v)}" stroke="#ddd"/><text x="${LEFT - 8}" y="${up(v) + 4}" text-anchor="end">${v}</text>`,
  );
  const ticks = x.ticks.map(
    ([v, text]) =>
      `<text x="${across(v).toFixed(1)}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${text}</text>`,
  );
  const drawn = lines.map(({ name, points, isDashed }, n) => {
    const style = `stroke="${COLOURS[n % COLOURS.length]}" stroke-width="2"${isDashed ? ' stroke-dasharray="5 4"' : ''}`;
    const path = points
      .filter(([, v]) => Number.isFinite(v))
      .map(([u, v]) => `${across(u).toFixed(1)},${up(v).toFixed(1)}`)
      .join(' ');
    const at = TOP + 8 + n * 20;
    return `<polyline points="${path}" fill="none" ${style}/>
<line x1="${WIDTH - RIGHT + 16}" x2="${WIDTH - RIGHT + 40}" y1="${at}" y2="${at}" ${style}/>
<text x="${WIDTH - RIGHT + 46}" y="${at + 4}">${escaped(name)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" font-family="sans-serif" font-size="12">
<title>${escaped(title)}</title>
<rect width="100%" height="100%" fill="#fff"/>
<text x="${LEFT}" y="22" font-size="14">${escaped(title)}</text>
${grid.join('\n')}
${ticks.join('\n')}
<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 12}" text-anchor="middle">${escaped(x.label)}</text>
<text x="16" y="${(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" transform="rotate(-90 16 ${(TOP + HEIGHT - BOTTOM) / 2})">${escaped(y.label)}</text>
${drawn.join('\n')}
</svg>
`;
}
