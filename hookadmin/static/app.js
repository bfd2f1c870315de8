// app.js adds to pages that work without it: colours and times as the reader likes them, copying, keys,
// and fresh rows. It runs in the head, so that stored colours apply before the first paint.
(() => {
  'use strict';

  const page = document.documentElement;
  page.classList.add('js');

  // Preferences stay in this browser. A browser that stores nothing has the defaults.
  const remember = {
    get(name) { try { return localStorage.getItem('hookonce.' + name); } catch { return null; } },
    set(name, value) { try { localStorage.setItem('hookonce.' + name, value); } catch { /* stays for this page */ } },
  };
  const prefs = { theme: remember.get('theme') ?? 'system', times: remember.get('times') ?? 'relative', keys: remember.get('keys') ?? 'on' };
  const prefer = (name, value) => { prefs[name] = value; remember.set(name, value); };
  const next = (list, value) => list[(list.indexOf(value) + 1) % list.length];
  const byId = (id) => document.getElementById(id);

  // Colours

  const themes = ['system', 'light', 'dark'];
  if (!themes.includes(prefs.theme)) prefs.theme = 'system';

  function paint() {
    if (prefs.theme === 'system') delete page.dataset.theme;
    else page.dataset.theme = prefs.theme;
    const label = byId('theme')?.querySelector('span');
    if (label) label.textContent = 'Colours: ' + (prefs.theme === 'system' ? 'as the system' : prefs.theme);
    document.dispatchEvent(new Event('hookonce:colours'));
  }
  paint();

  function switchTheme() {
    prefer('theme', next(themes, prefs.theme));
    paint();
    announce('Colours: ' + prefs.theme);
  }

  // Times

  const modes = ['relative', 'utc', 'local'];
  if (!modes.includes(prefs.times)) prefs.times = 'relative';
  const units = [['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]];
  const two = (n) => String(n).padStart(2, '0');

  function relative(at) {
    const seconds = (Date.now() - at) / 1000;
    for (const [name, length] of units) {
      const n = Math.floor(Math.abs(seconds) / length);
      if (n < 1) continue;
      const text = n + ' ' + name + (n === 1 ? '' : 's');
      return seconds < 0 ? 'in ' + text : text + ' ago';
    }
    return 'now';
  }

  function utc(at) {
    const iso = at.toISOString();
    return [iso.slice(0, 10), iso.slice(11, 19) + ' UTC'];
  }

  function local(at) {
    const zone = -at.getTimezoneOffset();
    const offset = (zone < 0 ? '−' : '+') + two(Math.floor(Math.abs(zone) / 60)) + ':' + two(Math.abs(zone) % 60);
    return [at.getFullYear() + '-' + two(at.getMonth() + 1) + '-' + two(at.getDate()),
      two(at.getHours()) + ':' + two(at.getMinutes()) + ':' + two(at.getSeconds()) + ' ' + offset];
  }

  function showTimes(within = document) {
    for (const element of within.querySelectorAll('time[datetime]')) {
      const at = new Date(element.getAttribute('datetime'));
      if (Number.isNaN(at.getTime())) continue;
      const [date, clock] = prefs.times === 'local' ? local(at) : utc(at);
      let text = date + ' ' + clock;
      if (element.classList.contains('exact')) {
        element.title = prefs.times === 'local' ? utc(at).join(' ') : local(at).join(' ');
      } else {
        element.title = utc(at).join(' ') + ' · ' + local(at).join(' ');
        if (prefs.times === 'relative') text = relative(at);
      }
      if (element.textContent !== text) element.textContent = text;
    }
    const label = byId('times')?.querySelector('span');
    if (label) label.textContent = { relative: 'Relative', utc: 'UTC', local: 'Local' }[prefs.times];
  }

  function switchTimes() {
    prefer('times', next(modes, prefs.times));
    showTimes();
    document.dispatchEvent(new Event('hookonce:times'));
    announce({ relative: 'Relative times', utc: 'Times in UTC', local: 'Local times' }[prefs.times]);
  }

  // Messages for screen readers

  function announce(text) {
    const place = byId('announce');
    if (place) place.textContent = text;
  }

  // Copying. A button with data-copy copies the text of that attribute, or of the code beside it.

  async function copy(text, button) {
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      done = false; // plain HTTP to another machine: the browser offers no clipboard
      if (button?.previousElementSibling) getSelection().selectAllChildren(button.previousElementSibling);
    }
    const said = done ? 'Copied' : 'Selected: press Ctrl+C';
    announce(said);
    const label = button?.querySelector('span');
    if (!label) return;
    label.dataset.was ??= label.textContent;
    label.textContent = said;
    clearTimeout(button.timer);
    button.timer = setTimeout(() => { label.textContent = label.dataset.was; }, 2000);
  }

  const textOf = (button) => button.dataset.copy || button.previousElementSibling.textContent;

  // prepare adds what needs JavaScript to new content.
  function prepare(within = document) {
    showTimes(within);
    for (const element of within.querySelectorAll('[data-copy][hidden], .tools > [hidden]')) element.hidden = false;
  }

  document.addEventListener('click', (event) => {
    const button = event.target.closest?.('[data-copy]');
    if (button) copy(textOf(button), button);
  });

  // Fresh content: the page is asked for again, and its content is put in place of the old, so that
  // rows that stay keep their place, their open parts and their selection.

  // ask returns the page as it is now.
  async function ask() {
    const answer = await fetch(location.href, { headers: { Accept: 'text/html' }, credentials: 'same-origin' });
    if (answer.redirected) { location.reload(); throw new Error('the session ended'); }
    if (!answer.ok) throw new Error(answer.status);
    return new DOMParser().parseFromString(await answer.text(), 'text/html');
  }

  async function refresh() {
    const main = byId('main');
    const fresh = await ask();
    document.title = fresh.title; // another one after an error
    Idiomorph.morph(main, fresh.getElementById('main'), {
      ignoreActiveValue: true,
      callbacks: {
        beforeNodeMorphed: (old, made) => {
          if (old instanceof HTMLDetailsElement && old.open) made.open = true;
          if (old instanceof HTMLInputElement && old.type === 'checkbox') made.checked = old.checked;
          // A drawing is made by charts.js from the data of its element.
          if (old instanceof Element && old.hasAttribute('data-plot')) {
            old.dataset.plot = made.dataset.plot;
            return false;
          }
          return true;
        },
      },
    });
    prepare();
    document.dispatchEvent(new Event('hookonce:fresh'));
  }

  function stayFresh() {
    const main = byId('main');
    if (!('live' in main.dataset)) return;
    const every = Number(main.dataset.every ?? 0) * 1000;
    const items = (main.dataset.liveOn ?? '').split(' ').filter(Boolean);
    const bar = byId('fresh');
    const button = byId('pause');
    const announced = new Set(); // the rows that waiting counts, by their data-row
    let paused = false, waiting = 0, stream = null, timer = null, busy = false;

    // Nothing moves under the pointer, under an open dialog or in a form that is being filled in.
    const inUse = () => main.querySelector('tbody:hover, form:focus-within, .plot:hover') !== null ||
      document.querySelector('dialog[open]') !== null || !getSelection().isCollapsed;

    async function again(asked) {
      if (busy || (!asked && (paused || inUse()))) return;
      busy = true;
      try {
        await refresh();
        if (Number(main.dataset.every ?? 0) * 1000 !== every) { location.reload(); return; } // the database went away, or came back
        waiting = 0;
        announced.clear();
        show();
      } catch {
        announce('The page could not be refreshed.');
      } finally {
        busy = false;
      }
    }

    function show() {
      const place = byId('fresh');
      if (!place) return;
      place.hidden = waiting === 0;
      place.querySelector('span').textContent = waiting > 999 ? '999+' : String(waiting);
    }

    const rowsOf = (content) => new Set([...content.querySelectorAll('[data-row]')].map((element) => element.dataset.row));

    // rowOf is the data-row that a row of the stream has on its page.
    function rowOf(row) {
      if (row.kind === 'refused') return row.error_id;
      return row.kind === 'attempt' ? 'm/' + row.message_id : 'e/' + encodeURIComponent(row.source) + '/' + row.event_id;
    }

    function wait(n) {
      waiting = n;
      show();
      clearTimeout(wait.later);
      wait.later = setTimeout(() => announce(waiting + ' new'), 2000);
    }

    function told(event, outcome) {
      let row;
      try { row = JSON.parse(event.data); } catch { return; }
      if (outcome && row.outcome !== outcome) return;
      if (main.dataset.liveSource && row.source !== main.dataset.liveSource) return;
      if (main.dataset.liveType && row.type !== main.dataset.liveType) return;
      const key = rowOf(row);
      if (announced.has(key) || rowsOf(main).has(key)) return; // it is streamed up to a second after it is listed
      announced.add(key);
      wait(waiting + (row.count ?? 1));
    }

    // compare announces the rows that came between the making of the page and the opening of its stream.
    async function compare() {
      try {
        const shown = rowsOf(main);
        const missing = [...rowsOf(await ask())].filter((key) => !shown.has(key));
        for (const key of missing) announced.add(key);
        if (missing.length > waiting) wait(missing.length);
      } catch { /* the stream goes on, and the next refresh shows them */ }
    }

    function start() {
      if (paused || document.hidden) return;
      if (every > 0 && timer === null) timer = setInterval(() => again(false), every);
      if (items.length > 0 && stream === null) {
        stream = new EventSource(document.body.dataset.root + 'api/v1/stream');
        for (const item of items) {
          const [kind, outcome] = item.split(':');
          stream.addEventListener(kind, (event) => told(event, outcome));
        }
        stream.addEventListener('open', compare);
        stream.addEventListener('reload', compare);
      }
    }

    function stop() {
      clearInterval(timer);
      timer = null;
      stream?.close();
      stream = null;
    }

    function pause() {
      paused = !paused;
      button.setAttribute('aria-pressed', String(paused));
      button.querySelector('span').textContent = paused ? 'Frozen' : 'Freeze';
      button.title = paused ? 'Nothing on this page changes. Press to go on (p)' : 'Stop refreshing this page (p)';
      announce(paused ? 'Stopped: nothing on this page changes' : 'Live again');
      if (paused) stop();
      else { start(); again(true); }
    }

    button?.addEventListener('click', pause);
    bar?.addEventListener('click', (event) => { if (event.target.closest('button')) again(true); });
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) stop();
      else { start(); if (every > 0) again(false); }
    });
    addEventListener('pagehide', stop);
    start();
  }

  // Keys

  let going = false; // after "g"
  let row = null;

  const rows = () => [...document.querySelectorAll('main [data-row], main tbody tr:has([data-open])')]
    .filter((element) => element.offsetParent !== null);

  function move(by) {
    const all = rows();
    if (all.length === 0) return;
    const now = all.indexOf(row);
    row?.classList.remove('at');
    row = all[now < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(now + by, 0), all.length - 1)];
    row.classList.add('at');
    row.scrollIntoView({ block: 'nearest' });
    (row.querySelector('[data-open]') ?? row.querySelector('a'))?.focus({ preventScroll: true });
  }

  const here = (selector) => (row?.isConnected ? row.querySelector(selector) : null) ?? document.querySelector('main ' + selector);

  function open() {
    const target = row?.querySelector('[data-open]') ?? row?.querySelector('a');
    if (target instanceof HTMLDetailsElement) target.open = !target.open;
    else target?.click();
  }

  function copyID() {
    const button = here('[data-key-y]');
    if (button) { button.click(); return; }
    const id = here('[data-id]')?.dataset.id ?? here('.id')?.textContent;
    if (id) copy(id, null);
  }

  function select() {
    const box = row?.querySelector('input[type="checkbox"]');
    if (box) box.click();
  }

  const keys = {
    '/': () => byId('search')?.focus(),
    g: () => { going = true; setTimeout(() => { going = false; }, 1500); },
    j: () => move(1),
    k: () => move(-1),
    x: select,
    a: () => here('[data-select-page]')?.click(),
    r: () => here('[data-key-r]')?.click(),
    p: () => byId('pause')?.click(),
    c: () => here('[data-key-c]')?.click(),
    y: copyID,
    '[': () => document.querySelector('[data-newer]')?.click(),
    ']': () => document.querySelector('[data-older]')?.click(),
    u: switchTimes,
    t: switchTheme,
    '?': () => byId('help')?.showModal(),
  };

  function press(event) {
    const at = event.target;
    if (event.key === 'Escape' && at instanceof HTMLElement && at.matches('input, select, textarea')) { at.blur(); return; }
    if (prefs.keys !== 'on' || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (at instanceof HTMLElement && (at.matches('input:not([type="checkbox"], [type="radio"]), select, textarea') || at.isContentEditable)) return;
    if (document.querySelector('dialog[open]')) return;
    if (going) {
      going = false;
      const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    if (event.key === 'Enter') {
      if (row?.isConnected && !at.closest?.('a, button, summary, input')) { event.preventDefault(); open(); }
      return;
    }
    const act = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
    if (act) { event.preventDefault(); act(); }
  }

  document.addEventListener('keydown', press);

  document.addEventListener('DOMContentLoaded', () => {
    prepare();
    paint();
    document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    byId('theme')?.addEventListener('click', switchTheme);
    byId('times')?.addEventListener('click', switchTimes);
    byId('keys')?.addEventListener('click', () => byId('help').showModal());
    const box = byId('keys-on');
    if (box) {
      box.checked = prefs.keys === 'on';
      box.addEventListener('change', () => prefer('keys', box.checked ? 'on' : 'off'));
    }
    stayFresh();
    setInterval(() => { if (prefs.times === 'relative' && !document.hidden) showTimes(); }, 10_000);
  });

  window.hookonce = { prefs };
})();
