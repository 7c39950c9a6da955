// The script of a page that `rredcot report` or `compare --report` writes: views, theme, search, and the pages of traces. Texts go into the page as text alone.
/* global uPlot, DecompressionStream */
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId('data').textContent);
  /** records of traces by number, as they were asked for */
  const records = new Map();
  let plots = [];
  let shown = null;

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  // as src/report/trace-record.ts writes numbers in a terminal
  function number(x) {
    if (x === null || x === undefined) return '–';
    return x.toFixed(Math.abs(x) >= 100 ? 1 : 3).replace('-', '−');
  }

  function signed(x) {
    return x === null || x === undefined ? '–' : `${x < 0 ? '' : '+'}${number(x)}`;
  }

  // ---------------------------------------------------------------- theme

  const THEMES = ['as the system', 'light', 'dark'];
  let theme = 0;
  byId('theme').addEventListener('click', () => {
    theme = (theme + 1) % THEMES.length;
    byId('theme').textContent = `Theme: ${THEMES[theme]}`;
    if (theme === 0) document.documentElement.removeAttribute('data-theme');
    else document.documentElement.setAttribute('data-theme', THEMES[theme]);
    redraw();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);

  // ---------------------------------------------------------------- views

  const views = [...document.querySelectorAll('.view')];

  function route() {
    const place = location.hash.slice(1) || (views[0]?.id ?? '');
    const trace = /^trace-(\d+)$/.exec(place);
    const view = trace ? 'traces' : place;
    if (!views.some(({ id }) => id === view)) return;
    for (const each of views) each.hidden = each.id !== view;
    for (const link of document.querySelectorAll('nav a')) {
      if (link.hash === `#${view}`) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    if (trace) showTrace(Number(trace[1]));
    else window.scrollTo(0, 0);
  }
  window.addEventListener('hashchange', route);

  // ---------------------------------------------------------------- records

  async function record(n) {
    if (!records.has(n)) {
      const bytes = Uint8Array.from(atob(data.traces[n]), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
      records.set(n, await new Response(stream).json());
    }
    return records.get(n);
  }

  // ---------------------------------------------------------------- search and filter

  const list = byId('list');
  const items = list === null ? [] : [...list.children];
  let asked = 0;

  async function filter() {
    const turn = ++asked;
    const words = byId('search').value.toLowerCase();
    const kind = byId('kind').value;
    const found = [];
    for (const item of items) {
      const fits = kind === '' || item.dataset.kinds.split(' ').includes(kind);
      if (fits && (words === '' || (await textOf(Number(item.dataset.n))).includes(words))) found.push(item);
      // somebody has typed on
      if (turn !== asked) return;
    }
    const order = byId('order').value;
    const sign = order === 'rise' ? -1 : 1;
    found.sort((a, b) => sign * (Number(a.dataset[order]) - Number(b.dataset[order])));
    list.replaceChildren(...found);
    byId('found').textContent = found.length === 1 ? '1 trace' : `${found.length} traces`;
  }

  async function textOf(n) {
    const { id, prompt, references, segments } = await record(n);
    return [id, prompt, ...references, segments.map(({ text }) => text).join('')].join('\n').toLowerCase();
  }

  if (list !== null) {
    byId('filters').addEventListener('submit', (event) => event.preventDefault());
    for (const id of ['search', 'kind', 'order']) byId(id).addEventListener('input', filter);
  }

  // ---------------------------------------------------------------- a trace

  async function showTrace(n) {
    if (!(n in data.traces)) return;
    for (const item of items) {
      const link = item.firstElementChild;
      if (Number(item.dataset.n) === n) link.setAttribute('aria-current', 'true');
      else link.removeAttribute('aria-current');
    }
    const trace = await record(n);
    shown = { n, trace, credit: 0 };
    draw(true);
  }

  function redraw() {
    if (shown !== null) draw(false);
  }

  function draw(isNew) {
    const { trace } = shown;
    for (const plot of plots) plot.destroy();
    plots = [];
    const heading = element('h2', { tabindex: '-1' }, trace.id);
    byId('trace').replaceChildren(heading, facts(trace), ...steps(), ...about(trace), ...credits(trace));
    if (isNew) heading.focus();
    drawPlots(trace);
  }

  function steps() {
    const order = [...list.children].map((item) => Number(item.dataset.n));
    const at = order.indexOf(shown.n);
    const link = (text, n) =>
      n === undefined ? null : element('a', { href: `#trace-${n}`, class: 'step' }, text);
    const links = [link('← previous', at < 0 ? undefined : order[at - 1]), link('next →', order[at + 1])];
    return [element('p', { class: 'steps' }, ...links)];
  }

  function facts(trace) {
    const pairs = [
      ['row', String(trace.row)],
      ['group', trace.group ?? '–'],
      ['reward', number(trace.reward)],
      ['baseline', number(trace.baseline)],
      [trace.status.includes('tokens:bytes') ? 'bytes' : 'tokens', String(trace.tokens)],
      ['status', trace.status],
    ];
    const list = element('dl', { class: 'facts' });
    for (const [name, text] of pairs)
      list.append(element('div', {}, element('dt', {}, name), element('dd', {}, text)));
    return list;
  }

  function about(trace) {
    const folded = (name, text, isOpen) => {
      const made = element(
        'details',
        {},
        element('summary', {}, name),
        element('pre', { tabindex: '0' }, text),
      );
      made.open = isOpen;
      return text === '' ? null : made;
    };
    return [
      folded('Prompt', trace.prompt, trace.prompt.length < 600),
      element(
        'div',
        { class: 'answers' },
        folded('Reference', trace.references.join('\n'), true),
        folded('Its own answer', trace.answer, true),
      ),
    ].filter((each) => each !== null);
  }

  function credits(trace) {
    const many = trace.credits.length > 1;
    const panel = element(
      'p',
      { id: 'segment', role: 'status' },
      'Arrow keys, or the pointer, tell of a segment.',
    );
    const texts = trace.credits.map((name, c) =>
      element(
        'div',
        { class: 'method' },
        ...(many ? [element('h3', {}, `σ by ${name}`)] : []),
        segmentsOf(trace, c, panel),
      ),
    );
    return [
      element('h3', {}, 'Text'),
      legend(trace),
      panel,
      element('div', { class: many ? 'methods' : 'method-alone' }, ...texts),
      element('h3', {}, 'Turns'),
      turns(trace),
      element('h3', {}, `${data.valueName} after each segment`),
      element('div', { id: 'values', class: 'plot' }),
      element('h3', {}, 'Entropy and σ·T by token'),
      element('div', { id: 'tokens', class: 'plot' }),
      table(trace),
    ];
  }

  function legend(trace) {
    const words = trace.isLowered
      ? 'The reward is below its baseline: what takes σ is made less likely.'
      : 'The reward is at its baseline or above: what takes σ is made more likely.';
    return element(
      'p',
      { class: 'legend' },
      `${words} `,
      element('span', { class: 'key' }, element('span', { class: 'seg p3' }, 'blue'), ' more likely'),
      element('span', { class: 'key' }, element('span', { class: 'seg m3' }, 'orange'), ' less likely'),
      'Each step of the shade doubles σ·T; at 1, uniform, there is none. ',
      ...(trace.segments.some(({ shown }) => shown)
        ? [
            element(
              'span',
              { class: 'key' },
              element('span', { class: 'seg shown' }, 'faint'),
              ' shown to the policy',
            ),
          ]
        : []),
    );
  }

  function toneOf(shade) {
    return shade === 0 ? '' : `${shade < 0 ? 'm' : 'p'}${Math.abs(shade)}`;
  }

  function segmentsOf(trace, c, panel) {
    const options = trace.segments.map((segment, k) => {
      const option = element('span', {
        role: 'option',
        id: `s-${c}-${k}`,
        class: `seg ${segment.shown ? 'shown' : toneOf(segment.shade[c])}`,
        'aria-selected': 'false',
      });
      option.append(segment.text === '' ? '(no text)' : segment.text);
      return option;
    });
    const box = element(
      'div',
      { role: 'listbox', tabindex: '0', class: 'text', 'aria-label': `segments, σ by ${trace.credits[c]}` },
      ...options,
    );
    let current = -1;
    const choose = (k) => {
      if (k < 0 || k >= options.length) return;
      options[current]?.setAttribute('aria-selected', 'false');
      current = k;
      options[k].setAttribute('aria-selected', 'true');
      box.setAttribute('aria-activedescendant', options[k].id);
      panel.textContent = told(trace, c, k);
    };
    const KEYS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    box.addEventListener('keydown', (event) => {
      const to =
        event.key in KEYS
          ? Math.max(0, current + KEYS[event.key])
          : { Home: 0, End: options.length - 1 }[event.key];
      if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      choose(to);
      options[to]?.scrollIntoView({ block: 'nearest' });
    });
    box.addEventListener('focus', () => choose(Math.max(0, current)));
    for (const [k, option] of options.entries()) option.addEventListener('pointerenter', () => choose(k));
    return box;
  }

  function told(trace, c, k) {
    const { from, to, answer, shown, value, delta, entropy, sigma, weight } = trace.segments[k];
    if (shown)
      return `segment ${k + 1} of ${trace.segments.length} · tokens ${from} to ${to} · shown to the policy`;
    const before = trace.segments.slice(0, k).findLast((other) => !other.shown)?.value ?? trace.start;
    const parts = [
      `segment ${k + 1} of ${trace.segments.length}${answer ? ', the answer' : ''}`,
      from === null ? null : `tokens ${from} to ${to}`,
      answer ? null : `${data.valueName} ${number(before)} → ${number(value)} (${signed(delta)})`,
      `σ ${signed(sigma[c])}`,
      `σ·T ${number(weight[c])}`,
      entropy === null ? null : `entropy ${number(entropy)} nats`,
    ];
    return parts.filter((part) => part !== null).join(' · ');
  }

  function turns(trace) {
    const rows = [
      ...trace.decisive.map((turn) => ['raised', turn]),
      ...trace.harmful.map((turn) => ['lowered', turn]),
    ];
    if (rows.length === 0) return element('p', {}, 'No segment moved the value: the trace is flat.');
    const body = rows.map(([word, { segment, change, sigma, weight }]) =>
      element(
        'tr',
        {},
        element('th', { scope: 'row' }, `${segment + 1}`),
        element('td', {}, `${word} ${signed(change)}`),
        element('td', {}, signed(sigma)),
        element('td', {}, number(weight)),
        element('td', { class: 'quote' }, excerpt(trace.segments[segment].text)),
      ),
    );
    return tableOf(['segment', `change of ${data.valueName}`, 'σ', 'σ·T', 'text'], body);
  }

  function excerpt(text) {
    const line = text.trim().replace(/\s+/g, ' ');
    return line.length > 160 ? `${line.slice(0, 159)}…` : line;
  }

  function table(trace) {
    const names = trace.credits;
    const body = trace.segments.map(({ from, to, answer, shown, value, delta, entropy, sigma, weight }, k) =>
      element(
        'tr',
        {},
        element('th', { scope: 'row' }, answer ? 'answer' : shown ? 'shown' : `${k + 1}`),
        ...[from === null ? '–' : `${from}–${to}`, number(value), signed(delta), number(entropy)].map(
          (cell) => element('td', {}, cell),
        ),
        ...names.flatMap((_, c) => [
          element('td', {}, signed(sigma[c])),
          element('td', {}, number(weight[c])),
        ]),
      ),
    );
    const heads = names.flatMap((name) => [`σ ${name}`, 'σ·T']);
    const made = tableOf(['segment', 'tokens', data.valueName, 'Δ', 'entropy', ...heads], body);
    return element('details', {}, element('summary', {}, 'All segments as a table'), made);
  }

  function tableOf(heads, rows) {
    const head = element(
      'tr',
      {},
      ...heads.map((text) => element('th', { scope: 'col', class: text === 'text' ? 'quote' : '' }, text)),
    );
    const made = element('table', {}, element('thead', {}, head), element('tbody', {}, ...rows));
    return element('div', { class: 'wide', tabindex: '0', role: 'group', 'aria-label': 'table' }, made);
  }

  // ---------------------------------------------------------------- plots

  function drawPlots(trace) {
    if (trace.tokens === 0) return;
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = {
      stroke: color('--text'),
      grid: { stroke: color('--line') },
      ticks: { stroke: color('--line') },
    };
    const width = Math.max(280, byId('trace').clientWidth - 4);
    const sync = uPlot.sync('trace');
    const common = (id, series, scales, height, label) => {
      const box = byId(id);
      box.setAttribute('role', 'img');
      box.setAttribute('aria-label', label);
      const axes = [
        { ...axis, label: 'token' },
        axis,
        ...(scales.w ? [{ ...axis, scale: 'w', side: 1, grid: { show: false } }] : []),
      ];
      const options = {
        width,
        height,
        scales: { x: { time: false }, ...scales },
        axes,
        cursor: { sync: { key: sync.key } },
        // a piece of the line
        legend: { markers: { width: 0, fill: (plot, n) => plot.series[n].stroke(plot, n) } },
      };
      return (values) =>
        plots.push(new uPlot({ ...options, series: [{ label: 'token' }, ...series] }, values, box));
    };
    const stepped = uPlot.paths.stepped({ align: -1 });
    const thoughts = trace.segments.filter(
      ({ answer, value, to }) => !answer && to !== null && value !== null,
    );
    const places = [0, ...thoughts.map(({ to }) => to)];
    const values = [trace.start, ...thoughts.map(({ value }) => value)];
    const isShare = values.every((value) => value >= 0 && value <= 1);
    const curve = {
      label: data.valueName,
      stroke: color('--one'),
      width: 2,
      paths: stepped,
      points: { show: true },
    };
    const range = isShare ? { y: { range: [0, 1] } } : { y: {} };
    common(
      'values',
      [curve],
      range,
      180,
      `${data.valueName} at each exit point: ${values.map((v) => number(v)).join(', ')}`,
    )([places, values]);
    const { each, entropy, weights } = trace.line;
    const tokens = Array.from(
      { length: Math.max(entropy?.length ?? 0, weights[0]?.length ?? 0) },
      (_, k) => k * each,
    );
    const tones = ['--plus', '--minus', '--one', '--text'];
    const series = [
      ...(entropy === null
        ? []
        : [
            {
              label: each > 1 ? `entropy, highest of ${each} tokens` : 'entropy',
              stroke: color('--faint'),
              scale: 'y',
            },
          ]),
      ...weights.map((_, c) => ({
        label: `σ·T ${trace.credits[c]}`,
        stroke: color(tones[c % tones.length]),
        width: 2,
        scale: 'w',
      })),
    ];
    const label =
      'entropy of each token in nats, and its weight σ·T; the table under it has the sums by segment';
    common(
      'tokens',
      series,
      { y: {}, w: {} },
      220,
      label,
    )([tokens, ...(entropy === null ? [] : [entropy]), ...weights]);
  }

  let resizing;
  window.addEventListener('resize', () => {
    clearTimeout(resizing);
    resizing = setTimeout(redraw, 150);
  });

  route();
})();
