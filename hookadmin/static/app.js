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

  document.addEventListener('DOMContentLoaded', () => {
    prepare();
    paint();
    byId('theme')?.addEventListener('click', switchTheme);
    byId('times')?.addEventListener('click', switchTimes);
    setInterval(() => { if (prefs.times === 'relative' && !document.hidden) showTimes(); }, 10_000);
  });

  window.hookonce = { prefs, prefer, byId, announce, copy, textOf, prepare, switchTheme, switchTimes };
})();
