// The widget: a box in which a visitor asks the model, put into any page by one script tag.
//
//   <div id="ask">The site's own text, shown when the model cannot be asked</div>
//   <script src="/ai/widget.js" data-target="#ask" data-title="Ask the library" defer></script>
//
// README has its data- attributes, pennygate-api(7) the other side of its requests.
//
// Security: what the model says is hostile. It reaches the page as text nodes alone, inside of
// elements made by name; nothing here writes HTML, and only http and https become links. Of a
// Content-Security-Policy it needs script-src and connect-src for its own address, no more: the
// style is a sheet made in the shadow tree. Nothing is asked twice by itself: that costs money.
//
// It is served as it stands, less indentation, empty lines and comments like this one, and must
// be below 12 KB then: hence the short names, and a style without blanks.
(() => {
'use strict';

// ---- what it is told ----

const script = document.currentScript;
const told = script.dataset;
const endpoint = new URL(told.endpoint || '.', told.endpoint ? document.baseURI : script.src)
  .href.replace(/\/?$/, '/');
const credentials = 'cookies' in told ? 'include' : 'same-origin';

// Without a prototype, since the codes of errors are looked up in it too.
const text = {
  __proto__: null,
  title: 'Ask a question',
  label: 'Your question',
  talk: 'Conversation',
  you: 'You',
  model: 'Answer',
  send: 'Send',
  stop: 'Stop',
  retry: 'Try again',
  coming: 'Waiting for the answer …',
  left: 'Questions left: {n}',
  more: 'You can ask again in {t}.',
  days: '{n} days',
  again: 'You can ask again.',
  over: 'That is too long to be sent.',
  stopped: 'Stopped.',
  cut: 'The answer broke off.',
  length: 'The answer has reached its greatest length.',
  filter: 'A filter has ended the answer.',
  empty: 'The model gave no answer.',
  offline: 'The site cannot be reached. Please check your connection.',
  trouble: 'The model cannot be asked at the moment.',
};
Object.assign(text, JSON.parse(told.strings || '{}'));

// ---- what is on the page ----

function make(tag, attributes, ...inside) {
  const element = document.createElement(tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  element.append(...inside);
  return element;
}

// The system's colours go together in light, dark and forced colours alike.
const STYLE = `
[hidden]{display:none!important}
*{box-sizing:border-box}
.box,.said,textarea,button{border:1px solid color-mix(in srgb,CanvasText 50%,Canvas);border-radius:.5rem}
.box,textarea,button{background:Canvas;color:CanvasText}
.box{max-width:44rem;margin-inline:auto;padding:1rem;line-height:1.5;text-align:start;overflow-wrap:anywhere}
.light{color-scheme:light}
.dark{color-scheme:dark}
.auto{color-scheme:light dark}
h2,p,ul,ol,pre,.said{margin:0 0 .5rem}
.talk{max-height:min(60vh,34rem);overflow:auto}
.said{padding:.5rem .75rem}
.said>:last-child{margin:0}
.you{margin-inline-start:12%}
.you,pre,code{background:color-mix(in srgb,CanvasText 8%,Canvas)}
.who{display:block}
ul,ol{padding:0 1.6em}
p,li,pre{white-space:pre-wrap;unicode-bidi:isolate}
pre{padding:.5rem}
label,.over{font-weight:bold}
textarea{display:block;width:100%;padding:.5rem;resize:vertical}
textarea,button{font:inherit}
.row{display:flex;flex-wrap:wrap;align-items:center;gap:.5rem 1rem;margin-top:.5rem}
#left{margin-inline-end:auto}
button{min-height:2.75rem;padding:.25rem 1.25rem}
.send{background:CanvasText;color:Canvas}
:disabled{opacity:.5}
`;

const title = told.title ?? text.title;
// Only what has ended is in the log, so that it is read out as a whole and not in pieces.
const log = make('div', { role: 'log', 'aria-live': 'polite' });
const talk = make('div', { class: 'talk', role: 'group', 'aria-label': text.talk, tabindex: 0,
  lang: told.lang || document.documentElement.lang, hidden: '' }, log);
const note = make('p', { role: 'status', dir: 'auto' });
const timer = make('p', { role: 'timer', dir: 'auto' });
const retry = make('button', { type: 'button', hidden: '' }, text.retry);
// The page's own text, until it is known that the model can be asked.
const slot = make('slot');
const box = make('textarea', { id: 'box', rows: 3, dir: 'auto', 'aria-describedby': 'count left' });
const count = make('span', { id: 'count', dir: 'ltr' });
const left = make('span', { id: 'left' });
const stop = make('button', { type: 'button' }, text.stop);
const send = make('button', { class: 'send' }, text.send);
const form = make('form', { hidden: '' }, make('label', { for: 'box' }, text.label), box,
  make('div', { class: 'row' }, count, left, stop, send));
const all = make('section', { class: 'box ' + (told.theme || ''), dir: told.dir || '',
  lang: told.lang || 'en', 'aria-label': title || text.label },
title && make('h2', { dir: 'auto' }, title), talk, note, timer, retry, slot, form);
const sheet = new CSSStyleSheet();
sheet.replaceSync(STYLE);

// From here on the page's own text is seen through the slot alone: what can fail has been done.
let host = document.querySelector(told.target || '[data-pennygate]');
if (!host) script.after(host = make('div'));
const root = host.attachShadow({ mode: 'open' });
root.adoptedStyleSheets = [sheet];
root.append(all);

// ---- how things stand ----

let caps = {};
// {role, content} of what has been answered, oldest first.
let past = [];
// AbortController of the answer that is coming.
let running = null;
// Until /status says that there is more.
let blocked = false;
// When that is, as of Date.now(); 0: not known.
let more = 0;
// Seconds, at least, until the next look.
let patience = 1;

const points = (string) => [...string].length;
const say = (words) => { note.textContent = words; };
// What a limit of seconds leaves is no news to a person: it is back before it is read.
const BURST_S = 60;
const leftAfter = (headers) => {
  const of = (name) => (headers.get(name)?.match(/;[wr]=\d+/g) ?? []).map((value) => value.slice(3));
  const windows = of('RateLimit-Policy');
  return Math.min(...of('RateLimit').filter((_, i) => windows[i] >= BURST_S));
};
const showLeft = (n) => { left.textContent = n < Infinity ? text.left.replace('{n}', n) : ''; };

// Everything that can be pressed, and the counter, from the variables above.
function show() {
  const focused = root.activeElement;
  const most = Math.min(caps.max_message_chars, caps.max_input_chars);
  const over = points(box.value) > most;
  count.textContent = points(box.value) + '/' + most;
  count.className = over ? 'over' : '';
  box.ariaInvalid = over;
  if (!running && !blocked) {
    if (over) say(text.over);
    else if (note.textContent === text.over) say('');
  }
  send.disabled = running || blocked || over || !box.value.trim();
  stop.hidden = !running;
  retry.hidden = !blocked;
  timer.hidden = !more;
  // What had the focus and is gone must not leave the keyboard nowhere.
  if (focused?.hidden || focused?.disabled) box.focus();
}

function tick() {
  const seconds = Math.ceil((more - Date.now()) / 1000);
  if (!more || running) return;
  if (seconds <= 0) return check();
  timer.textContent = text.more.replace('{t}', seconds < 86400
    ? new Date(seconds * 1000).toISOString().slice(seconds < 3600 ? 14 : 11, 19)
    : text.days.replace('{n}', Math.ceil(seconds / 86400)));
}

// What an answer that is none says: pennygate's error, or the web server's own page.
async function refusal(response) {
  const { error } = await response.json().catch(() => 0) || {};
  return { ...error, status: response.status, wait: response.headers.get('Retry-After') };
}

// Says why not, and until when; with the page's own text, unless it is for a moment only or the
// request itself was at fault.
function refuse({ status, code, message, wait }) {
  const asker = status === 400 || status === 413;
  say(text[code] || message || text.trouble);
  blocked = !asker && status !== 502 && status !== 504;
  more = blocked && wait > 0 ? Date.now() + Math.max(wait, patience) * 1000 : 0;
  slot.hidden = asker || /^(burst|concurrent|busy|stopping)/.test(code);
  tick();
  show();
}

// Asks how things stand, which costs nothing.
async function check() {
  more = 0;
  say('');
  patience = Math.min(patience * 2, 64);
  try {
    const response = await fetch(endpoint + 'status', { credentials, cache: 'no-store',
      signal: AbortSignal.timeout(15000) });
    if (!response.ok) return refuse({ ...await refusal(response), status: 0 });
    const answer = await response.json();
    caps = answer.input;
    showLeft(Math.min(...answer.limits.map((limit) => limit.window_s < BURST_S ? 1 / 0 : limit.remaining)));
    if (!answer.available) return refuse({ ...answer, wait: answer.retry_after });
  } catch {
    return refuse({ code: 'offline' });
  }
  if (blocked) say(text.again);
  blocked = false;
  patience = 1;
  slot.hidden = true;
  form.hidden = false;
  show();
}

// ---- an answer ----

// Controls that turn text around serve to deceive here: each paragraph finds its own direction.
const plain = (string) => string.replace(/[\r\u202a-\u202e\u2066-\u2069]/g, '');

// `code`, **strong**, *emphasis*, [a link](https://...), https://...
const INLINE = new RegExp('`([^`]+)`|\\*\\*(.+?)\\*\\*|\\*(?!\\s)([^*]*[^*\\s])\\*|\\[([^\\][]+)\\]' +
  '\\((https?://[^\\s()]+)\\)|https?://[^\\s<>"`*]*[^\\s<>"`*.,:;!?()\\]]', 'gi');

function inline(into, string) {
  let end = 0;
  for (const found of string.matchAll(INLINE)) {
    const [whole, code, strong, em, label, url = whole] = found;
    into.append(string.slice(end, found.index), code ? make('code', {}, code)
      : strong || em ? inline(make(strong ? 'strong' : 'em'), strong || em)
        : make('a', { href: url, title: url, target: '_blank',
          rel: 'noopener noreferrer nofollow ugc' }, label || url));
    end = found.index + whole.length;
  }
  into.append(string.slice(end));
  return into;
}

const ITEM = /^\s*(?:[-*+]|(\d{1,9})[.)])\s+(.+)/;

// A message on the page.
function bubble(kind, who, ...inside) {
  return make('div', { class: 'said ' + kind }, make('strong', { class: 'who' }, who), ...inside);
}

// Writes an answer that comes in pieces. What has ended is written once; the line that has not is
// taken back, and written anew. The longer that takes the less often: the page must stay quick.
function writer() {
  const said = bubble('', text.model);
  // The line that has not ended, and what is not yet shown.
  let rest = '';
  // The paragraph, list or code that the next line goes on with.
  let block = null;
  // How many lines are in it.
  let size = 0;
  // Within ```.
  let fence = false;
  // What the last line has become.
  let written = null;
  let undo = () => {};
  let later = 0;
  let pause = 0;

  // Not without end: to find its direction, a browser may look through all of a block each time.
  function open(tag, start) {
    if (block?.localName === tag && ++size % 200) return;
    size = 0;
    block = make(tag, { dir: 'auto', ...start && { start } });
    said.append(block);
  }

  function line(string) {
    const [, number, words] = !fence && ITEM.exec(string) || [];
    written = null;
    if (/^\s*```/.test(string)) {
      block = null;
      fence = !fence;
      if (fence) open('pre');
    } else if (!fence && !string.trim()) {
      block = null;
    } else {
      open(fence ? 'pre' : !words ? 'p' : number ? 'ol' : 'ul', number);
      written = words ? make('li', { dir: 'auto' }) : make('span', {}, block.firstChild ? '\n' : '');
      if (fence) written.append(string);
      else inline(written, words || string.replace(/^#{1,6}\s+(.+)/, '**$1**'));
      block.append(written);
    }
  }

  function paint() {
    const begun = Date.now();
    const follows = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 40;
    const lines = rest.split('\n');
    undo();
    rest = lines.pop();
    lines.forEach(line);
    const before = [block, fence, size];
    written = null;
    if (rest) line(rest);
    undo = () => {
      written?.remove();
      if (block !== before[0]) block?.remove();
      [block, fence, size] = before;
    };
    later = 0;
    if (!said.parentNode) talk.append(said);
    if (follows) talk.scrollTop = talk.scrollHeight;
    pause = Math.max(50, 9 * (Date.now() - begun));
  }

  return {
    add(piece) {
      rest += plain(piece);
      later ||= setTimeout(paint, pause);
    },
    end() {
      clearTimeout(later);
      paint();
      log.append(said);
    },
  };
}

// As much of what has been said as the caps have room for: the oldest go first, in pairs.
function within(question) {
  const messages = [...past, { role: 'user', content: question }];
  while (messages.length > 1 && (messages.length > caps.max_history
    || points(messages.map((one) => one.content).join('')) > caps.max_input_chars)) {
    messages.splice(0, 2);
  }
  return messages;
}

const CUT = { status: 502, code: 'cut' };

// Asks, and hands on the text of the answer. Returns what is to be said of its end; throws what
// refuse() takes, or an error of the network.
async function answer(messages, add) {
  const response = await fetch(endpoint + 'v1/chat/completions', { method: 'POST', credentials,
    headers: { 'Content-Type': 'application/json' }, signal: running.signal,
    body: JSON.stringify({ model: told.model, messages, stream: true }) });
  showLeft(leftAfter(response.headers));
  if (!response.ok) throw await refusal(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let why = '';
  // The line of the stream that has not ended.
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw CUT;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      // Others are comments, and the ends of events.
      if (!line.startsWith('data:')) continue;
      const data = line.slice(5).trim();
      if (data === '[DONE]') return why;
      const { error, choices } = JSON.parse(data);
      if (error) throw { ...error, status: 502 };
      const { delta, finish_reason: end } = choices?.[0] || {};
      why = { length: text.length, content_filter: text.filter }[end] || why;
      if (delta?.content) add(delta.content);
    }
  }
}

async function ask() {
  const question = box.value;
  const messages = within(question);
  const asked = bubble('you', text.you, make('p', { dir: 'auto' }, plain(question)));
  let whole = '';
  let ending = '';
  let trouble = null;
  let shown = null;
  running = new AbortController();
  log.append(asked);
  talk.hidden = false;
  talk.scrollTop = talk.scrollHeight;
  box.value = '';
  slot.hidden = true;
  say(text.coming);
  show();
  try {
    ending = await answer(messages, (piece) => {
      if (!whole) say('');
      shown ||= writer();
      shown.add(piece);
      whole += piece;
    });
    if (!whole) ending += ' ' + text.empty;
  } catch (error) {
    if (running.signal.aborted) ending = text.stopped;
    else trouble = error.status ? error : whole ? CUT : { code: 'offline' };
  }
  // What has not been read to its end must not be paid for.
  running.abort();
  running = null;
  shown?.end();
  if (whole) {
    past = [...messages, { role: 'assistant', content: whole }];
  } else {
    // What was not answered is not part of the conversation: back into the box.
    asked.remove();
    box.value = question + (box.value && '\n' + box.value);
  }
  talk.hidden = !log.firstChild;
  say(ending);
  show();
  if (trouble) refuse(trouble);
  else if (left.textContent === text.left.replace('{n}', 0)) check();
}

// ---- what a person does ----

form.onsubmit = (event) => {
  event.preventDefault();
  if (send.disabled) return;
  box.focus();
  ask();
};
box.oninput = show;
all.onkeydown = (event) => {
  // While words are composed the keys belong to them; Safari tells by 229 alone.
  if (event.isComposing || event.keyCode === 229) return;
  if (event.key === 'Escape') running?.abort();
  if (event.key !== 'Enter' || event.shiftKey || event.target !== box) return;
  event.preventDefault();
  form.requestSubmit();
};
stop.onclick = () => running?.abort();
retry.onclick = check;
addEventListener('online', () => blocked && check());
addEventListener('pagehide', () => running?.abort());
setInterval(tick, 1000);
check();
})();
