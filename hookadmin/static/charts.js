// charts.js draws the charts of a page with uPlot. The data is in the attribute data-plot, beside a
// table that says the same. Colours come from the style sheet; each part also has a pattern or a dash.
(() => {
  'use strict';

  const drawn = new Map(); // drawings by their element
  const wholeHeight = 180;

  // colour resolves a colour of the style sheet.
  function colour(name) {
    const probe = document.createElement('span');
    probe.style.color = `var(--${name})`;
    probe.hidden = true;
    document.body.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  }

  const tones = { good: 'good', bad: 'bad', warn: 'warn', wait: 'wait', busy: 'busy', calm: 'edge' };
  const patterns = {
    duplicate: '/', skipped: '/', reopened: '\\', handshake: '.', malformed: '|', failed: '-', dead: '-', unavailable: 'x', refused: 'x', retry: '\\',
  };
  const swatches = { '': '■', '/': '▨', '\\': '▧', '.': '▒', x: '▩', '-': '▤', '|': '▥' };

  // hatch returns a fill for a part: its colour, with the pattern that tells it from others.
  function hatch(context, tone, kind) {
    const ink = colour(tones[tone] ?? 'accent');
    if (kind === '') return ink;
    const tile = document.createElement('canvas');
    tile.width = tile.height = 6;
    const draw = tile.getContext('2d');
    draw.fillStyle = ink;
    draw.globalAlpha = 0.45;
    draw.fillRect(0, 0, 6, 6);
    draw.globalAlpha = 1;
    draw.strokeStyle = ink;
    draw.lineWidth = 1.5;
    draw.beginPath();
    if (kind === '/' || kind === 'x') { draw.moveTo(-1, 7); draw.lineTo(7, -1); }
    if (kind === '\\' || kind === 'x') { draw.moveTo(-1, -1); draw.lineTo(7, 7); }
    if (kind === '|') { draw.moveTo(3, 0); draw.lineTo(3, 6); }
    if (kind === '-') { draw.moveTo(0, 3); draw.lineTo(6, 3); }
    draw.stroke();
    if (kind === '.') draw.fillRect(2, 2, 2, 2);
    return context.createPattern(tile, 'repeat');
  }

  const short = (n) => {
    const size = Math.abs(n);
    if (size >= 1e6) return +(size / 1e6).toPrecision(3) + 'M';
    if (size >= 1e4) return +(size / 1e3).toPrecision(3) + 'k';
    return String(Math.round(size * 100) / 100);
  };

  const age = (seconds) => {
    for (const [length, name] of [[86400, ' d'], [3600, ' h'], [60, ' min']]) {
      if (seconds >= length) return +(seconds / length).toPrecision(2) + name;
    }
    return Math.round(seconds) + ' s';
  };

  function clock(seconds, span) {
    const at = new Date(seconds * 1000);
    const local = hookonce.prefs.times === 'local';
    const two = (n) => String(n).padStart(2, '0');
    const [month, day, hour, minute] = local
      ? [at.getMonth(), at.getDate(), at.getHours(), at.getMinutes()]
      : [at.getUTCMonth(), at.getUTCDate(), at.getUTCHours(), at.getUTCMinutes()];
    const date = two(month + 1) + '-' + two(day);
    if (span >= 86400) return date;
    return (span >= 3600 ? date + ' ' : '') + two(hour) + ':' + two(minute);
  }

  // select follows a drag over a chart: the page shows that span.
  function select(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const time = (x) => new Date(Math.round(plot.posToVal(x, 'x')) * 1000).toISOString().slice(0, 19) + 'Z';
    const to = new URL(location.href);
    to.searchParams.set('since', time(left));
    to.searchParams.set('until', time(left + width));
    location.assign(to);
  }

  function frame(data, width) {
    const quiet = colour('quiet');
    const line = colour('line');
    const font = '12px system-ui, sans-serif';
    const axis = (more) => ({ stroke: quiet, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, ...more });
    return {
      width, height: wholeHeight, legend: { show: false }, padding: [8, 18, 0, 0],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false } },
      scales: { x: { time: true, range: (_, min, max) => [min - data.span / 2, max + data.span / 2] } },
      axes: [axis({ size: 30, values: (_, all) => all.map((at) => clock(at, data.span)), space: data.span >= 3600 && data.span < 86400 ? 96 : 60 }),
        axis({ size: 56, values: (_, all) => all.map(short) })],
      axis,
      hooks: { setSelect: [select] },
    };
  }

  // stack draws bars upon each other. A bar reaches down to the axis, so the highest sums come first.
  function stack(data, width) {
    const options = frame(data, width);
    const above = data.series.filter((s) => !s.below);
    const below = data.series.filter((s) => s.below);
    const columns = [];
    const parts = [];
    const pile = (list, sign) => {
      let sums = data.at.map(() => 0);
      const piled = list.map((s) => { sums = sums.map((sum, i) => sum + sign * s.values[i]); return [s, sums]; });
      for (const [s, values] of piled.reverse()) {
        parts.push(s);
        columns.push(values);
      }
    };
    pile(above, 1);
    pile(below, -1);
    const bars = uPlot.paths.bars({ size: [0.82, 40], gap: 1 });
    const ground = colour('surface');
    const fills = new Map();
    options.series = [{}, ...parts.map((s) => ({
      label: s.name, paths: bars, stroke: ground, width: 0, points: { show: false },
      fill: (plot) => {
        if (!fills.has(s)) fills.set(s, hatch(plot.ctx, s.tone, patterns[s.name] ?? ''));
        return fills.get(s);
      },
    }))];
    // A pattern lets lower bars through: paint the ground first.
    const underlaid = parts.flatMap((s, i) => [{ ...options.series[i + 1], fill: ground }, options.series[i + 1]]);
    options.series = [{}, ...underlaid];
    // A flood below the axis would flatten the bars above it: cut it, and say so.
    const highest = Math.max(0, ...columns.flat());
    const lowest = Math.min(0, ...columns.flat());
    const cut = highest > 0 && lowest < -8 * highest;
    options.scales.y = { range: () => [(cut ? -2 * highest : lowest) * 1.05, Math.max(highest, 1) * 1.05] };
    const name = (s) => s.name + (s.below && cut ? ` (cut: up to ${short(Math.max(...s.values))})` : '');
    return [options, [data.at, ...columns.flatMap((c) => [c, c])], data.series.map((s) => [swatches[patterns[s.name] ?? ''], s.tone, name(s)])];
  }

  // classes draws a row for each class: a heat map over time.
  function heat(data, width) {
    const options = frame(data, width);
    const rows = data.series.length;
    const most = Math.max(1, ...data.series.flatMap((s) => s.values));
    options.series = [{}, { paths: () => null, points: { show: false } }];
    options.scales.y = { range: () => [0, rows] };
    options.axes[1] = options.axis({
      size: 84, splits: () => data.series.map((_, i) => i + 0.5).filter((_, i) => i % 2 === 0),
      values: (_, all) => all.map((y) => data.series[Math.floor(y)].name), grid: { show: false },
    });
    options.height = 215;
    const ink = colour('accent');
    options.hooks.draw = [(plot) => {
      const { ctx } = plot;
      ctx.save();
      ctx.fillStyle = ink;
      data.series.forEach((s, row) => s.values.forEach((n, i) => {
        if (n === 0) return;
        const x = plot.valToPos(data.at[i] - data.span / 2, 'x', true);
        const right = plot.valToPos(data.at[i] + data.span / 2, 'x', true);
        const y = plot.valToPos(row + 1, 'y', true);
        ctx.globalAlpha = 0.2 + 0.8 * Math.log1p(n) / Math.log1p(most);
        ctx.fillRect(x, y + 0.5, Math.max(right - x - 1, 1), plot.valToPos(row, 'y', true) - y - 1);
      }));
      ctx.restore();
      for (const mark of data.marks ?? []) {
        dashed(plot, (y) => [plot.bbox.left, y, plot.bbox.left + plot.bbox.width, y], plot.valToPos(mark.at, 'y', true), mark.name);
      }
    }];
    return [options, [data.at, data.at.map(() => 0)], []];
  }

  // dashed draws a limit with its name.
  function dashed(plot, ends, at, name) {
    const { ctx } = plot;
    const scale = devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour('bad');
    ctx.lineWidth = 1.5 * scale;
    ctx.setLineDash([6 * scale, 4 * scale]);
    const [x, y, toX, toY] = ends(at);
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(toX, toY);
    ctx.stroke();
    ctx.font = `${12 * scale}px system-ui, sans-serif`;
    const long = ctx.measureText(name).width;
    if (x === toX) {
      const left = x + long + 8 * scale > plot.bbox.left + plot.bbox.width;
      ctx.textAlign = left ? 'right' : 'left';
      ctx.fillText(name, x + (left ? -5 : 5) * scale, plot.bbox.top + 12 * scale);
    } else {
      ctx.textAlign = 'right';
      ctx.fillText(name, toX - 4 * scale, y - 7 * scale);
    }
    ctx.restore();
  }

  function histogram(data, width) {
    const options = frame({ span: 1 }, width);
    const values = data.series.map((s) => s.values[0]);
    options.scales.x = { time: false, range: () => [0, values.length] };
    options.scales.y = { range: (_, min, max) => [0, Math.max(max, 1) * 1.15] };
    const each = Math.ceil(values.length * 74 / width);
    options.axes[0] = options.axis({
      size: 30, splits: () => values.map((_, i) => i + 0.5).filter((_, i) => i % each === 0), grid: { show: false },
      values: (_, all) => all.map((x) => data.series[Math.floor(x)].name),
    });
    options.cursor = { drag: { x: false, y: false }, points: { show: false } };
    options.series = [{}, {
      paths: uPlot.paths.bars({ size: [0.8, 60] }), stroke: colour('wait'), width: 1, points: { show: false },
      fill: (plot) => hatch(plot.ctx, 'wait', '\\'),
    }];
    options.hooks = { draw: [(plot) => {
      for (const mark of data.marks ?? []) {
        dashed(plot, (x) => [x, plot.bbox.top, x, plot.bbox.top + plot.bbox.height], plot.valToPos(mark.at, 'x', true), mark.name);
      }
    }] };
    return [options, [values.map((_, i) => i + 0.5), values], []];
  }

  function lines(data, width) {
    const options = frame(data, width);
    options.scales.y = { range: (_, min, max) => [0, Math.max(max, 1) * 1.1] };
    options.scales.age = { range: (_, min, max) => [0, Math.max(max, 1) * 1.1] };
    options.series = [{}, ...data.series.map((s) => ({
      label: s.name, scale: s.right ? 'age' : 'y', stroke: colour(tones[s.tone] ?? 'accent'), width: 2, dash: s.right ? [6, 4] : undefined,
      points: { show: data.at.length < 3 }, paths: uPlot.paths.stepped({ align: 1 }),
    }))];
    if (data.series.some((s) => s.right)) {
      options.axes.push(options.axis({ scale: 'age', side: 1, size: 60, grid: { show: false }, values: (_, all) => all.map(age) }));
    }
    return [options, [data.at, ...data.series.map((s) => s.values)], data.series.map((s) => [s.right ? '╌' : '━', s.tone, s.name])];
  }

  const kinds = { stack, heat, lines, histogram };

  // tell shows the values under the pointer.
  function tell(place, data) {
    return (plot) => {
      const i = plot.cursor.idx;
      if (i == null || plot.cursor.left < 0) { place.textContent = ''; return; }
      let parts;
      if (data.kind === 'histogram') parts = [data.series[i].name + ': ' + data.series[i].values[0].toLocaleString('en')];
      else {
        parts = data.series.filter((s) => s.values[i] > 0)
          .map((s) => s.name + ' ' + (s.right ? age(s.values[i]) : s.values[i].toLocaleString('en')));
        parts.unshift(clock(data.at[i], Math.min(data.span, 3600)));
      }
      place.textContent = parts.join(' · ');
    };
  }

  function draw(element) {
    const data = JSON.parse(element.dataset.plot);
    drawn.get(element)?.destroy();
    element.hidden = false;
    element.replaceChildren();
    const width = Math.max(element.clientWidth, 200);
    const [options, columns, legend] = kinds[data.kind](data, width);
    const told = document.createElement('p');
    told.className = 'told';
    if (legend.length > 0) {
      const list = document.createElement('ul');
      list.className = 'legend';
      for (const [mark, tone, name] of legend) {
        const item = document.createElement('li');
        const swatch = document.createElement('span');
        swatch.className = 'swatch tone-' + tone;
        swatch.textContent = mark;
        swatch.setAttribute('aria-hidden', 'true');
        item.append(swatch, ' ' + name);
        list.append(item);
      }
      element.append(list);
    }
    (options.hooks.setCursor ??= []).push(tell(told, data));
    delete options.axis;
    const plot = new uPlot(options, columns, element);
    plot.root.setAttribute('aria-hidden', 'true'); // the table says the same
    element.append(told);
    drawn.set(element, plot);
  }

  function drawAll() {
    for (const element of drawn.keys()) {
      if (!element.isConnected) {
        drawn.get(element).destroy();
        drawn.delete(element);
      }
    }
    for (const element of document.querySelectorAll('[data-plot]')) draw(element);
  }

  let wait;
  addEventListener('resize', () => { clearTimeout(wait); wait = setTimeout(drawAll, 150); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
  document.addEventListener('hookonce:colours', () => { if (document.readyState !== 'loading') drawAll(); });
  document.addEventListener('hookonce:fresh', drawAll);
  document.addEventListener('hookonce:times', drawAll);
  document.addEventListener('DOMContentLoaded', drawAll);
})();
