// Lines or points by name in, one chart as SVG out.

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

const PANEL = 340;
/** More of a group are thinned to about so many. */
const DOTS = 500;

/**
 * Points in panels side by side, their groups in colours.
 * @param x, y {label, low, high, ticks}; what lies outside is drawn at the edge
 * @param panels {name, groups: {name, points: [x, y][]}[]}
 */
export function scatter({ title, x, y, panels }) {
  const width = LEFT + panels.length * PANEL;
  const held = (v, { low, high }) => (Math.min(high, Math.max(low, v)) - low) / (high - low);
  const up = (v) => TOP + 24 + (1 - held(v, y)) * (HEIGHT - TOP - 24 - BOTTOM);
  const drawn = panels.map(({ name, groups }, n) => {
    const left = LEFT + n * PANEL;
    const across = (v) => left + held(v, x) * (PANEL - 30);
    const grid = y.ticks.map(
      (v) =>
        `<line x1="${left}" x2="${left + PANEL - 30}" y1="${up(v)}" y2="${up(v)}" stroke="#ddd"/>${n === 0 ? `<text x="${LEFT - 8}" y="${up(v) + 4}" text-anchor="end">${v}</text>` : ''}`,
    );
    const ticks = x.ticks.map(
      (v) => `<text x="${across(v).toFixed(1)}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${v}</text>`,
    );
    const dots = groups.map(({ points }, g) => {
      const every = Math.max(1, Math.ceil(points.length / DOTS));
      const own = points.filter(([u, v], i) => i % every === 0 && Number.isFinite(u) && Number.isFinite(v));
      const circles = own.map(
        ([u, v]) => `<circle cx="${across(u).toFixed(1)}" cy="${up(v).toFixed(1)}" r="2"/>`,
      );
      return `<g fill="${COLOURS[g]}" fill-opacity="0.45">${circles.join('')}</g>`;
    });
    return [`<text x="${left}" y="${TOP + 8}">${escaped(name)}</text>`, ...grid, ...ticks, ...dots].join(
      '\n',
    );
  });
  const keys = panels[0].groups.map(
    ({ name }, g) =>
      `<circle cx="${LEFT + 8 + g * 130}" cy="${HEIGHT - 16}" r="4" fill="${COLOURS[g]}"/><text x="${LEFT + 18 + g * 130}" y="${HEIGHT - 12}">${escaped(name)}</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${HEIGHT}" font-family="sans-serif" font-size="12">
<title>${escaped(title)}</title>
<rect width="100%" height="100%" fill="#fff"/>
<text x="${LEFT}" y="22" font-size="14">${escaped(title)}</text>
${drawn.join('\n')}
${keys.join('\n')}
<text x="${width - 30}" y="${HEIGHT - 12}" text-anchor="end">${escaped(x.label)}</text>
<text x="16" y="${(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" transform="rotate(-90 16 ${(TOP + HEIGHT - BOTTOM) / 2})">${escaped(y.label)}</text>
</svg>
`;
}
