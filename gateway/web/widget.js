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
// It is served less indentation, empty lines, comments like this one, some blanks and ends of
// lines, and must be below 12 KB then: hence the short names, and a style without blanks.
(() => {
'use strict';

// ---- what it is told ----

const
  script = document.currentScript,
  told = script.dataset,
  base = new URL(told.endpoint || new URL('.', script.src), document.baseURI).href
    .replace(/\/?$/, '/'),
  credentials = 'cookies' in told ? 'include' : 'same-origin';

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

// A comma too many in an attribute must not take the widget away.
function attempt(name, act) {
  try {
    return act();
  } catch (error) {
    console.warn(`data-${name} ${told[name]}: ${error}`);
  }
}

// By error code. Apart from the others: no code of an error may fetch the name of a button.
const coded = { __proto__: null };

attempt('strings', () => {
  for (const [name, words] of Object.entries(JSON.parse(told.strings || '{}'))) {
    (name in text ? text : coded)[name] = '' + words;
  }
});

// ---- what is on the page ----

function make(tag, given, ...inside) {
  const made = document.createElement(tag);
  for (const name in given) made.setAttribute(name, given[name]);
  made.append(...inside);
  return made;
}

// The system's colours go together in light, dark and forced colours alike, and grey goes with both.
const STYLE = `
[hidden]{display:none!important}
*{box-sizing:border-box}
.box,.said,textarea,button{border:1px solid #777;border-radius:.5rem;background:Canvas;color:CanvasText;font:inherit}
.box{max-width:44rem;margin-inline:auto;padding:1rem;line-height:1.5;text-align:start;overflow-wrap:anywhere}
h2,p,ul,ol,pre,.said,::slotted(h1){margin:0 0 .5rem}
#own{margin:.5rem 0}
#own,textarea,.said>strong{display:block}
.talk{max-height:min(60vh,34rem);overflow:auto}
.said,pre,textarea{padding:.5rem}
.said>:last-child{margin:0}
.you{margin-inline-start:12%}
.you,pre,code{background:#8882}
ul,ol{padding:0 1.6em}
p,li,pre{white-space:pre-wrap;unicode-bidi:isolate}
label,.over{font-weight:bold}
textarea{width:100%;resize:vertical}
.row{display:flex;flex-wrap:wrap;align-items:center;gap:.5rem 1rem;margin-top:.5rem}
#left{margin-inline-end:auto}
button{min-height:2.75rem;padding:.25rem 1.25rem}
.send{background:CanvasText;color:Canvas}
:disabled{opacity:.5}
`;

const
  title = told.title ?? text.title,
  // Only what has ended is in the log, so that it is read out as a whole and not in pieces.
  log = make('div', { role: 'log', 'aria-live': 'polite' }),
  talk = make('div', { class: 'talk', role: 'group', 'aria-label': text.talk, tabindex: 0,
    lang: told.lang || document.documentElement.lang, hidden: '' }, log),
  note = make('p', { role: 'status', dir: 'auto' }),
  timer = make('p', { role: 'timer', dir: 'auto', hidden: '' }),
  retry = make('button', { hidden: '' }, text.retry),
  // The page's own text, until it is known that the model can be asked.
  slot = make('slot', { id: 'own' }),
  box = make('textarea', { id: 'box', rows: 3, 'aria-describedby': 'count left' }),
  count = make('span', { id: 'count', dir: 'ltr' }),
  left = make('span', { id: 'left' }),
  stop = make('button', { type: 'button' }, text.stop),
  send = make('button', { class: 'send' }, text.send),
  form = make('form', { hidden: '' }, make('label', { for: 'box' }, text.label), box,
    make('div', { class: 'row' }, count, left, stop, send)),
  // A page can have a heading of its own in it.
  head = make('slot', { name: 'title' }, title && make('h2', { dir: 'auto' }, title)),
  all = make('section', { class: 'box', dir: told.dir || '', lang: told.lang || 'en',
    'aria-label': title || text.label }, head, talk, note, timer, retry, slot, form),
  sheet = new CSSStyleSheet();
all.style.colorScheme = told.theme?.replace('auto', 'light dark') || '';
sheet.replaceSync(STYLE);

// From here on the page's own text is seen through the slot alone: what can fail has been done.
const
  attach = (host) => host.attachShadow({ mode: 'open' }),
  place = make('div'),
  // Without a target the next that is marked, and that no other widget has taken.
  root = attempt('target', () => attach(told.target ? document.querySelector(told.target)
    : [...document.querySelectorAll('[data-pennygate]')].find((one) => !one.shadowRoot) || place))
    || attach(place);
if (root.host === place) script.after(place);
root.adoptedStyleSheets = [sheet];
root.append(all);

// ---- how things stand ----

let
  caps = {},
  // {role, content} of what has been answered, oldest first.
  past = [],
  // AbortController of the answer that is coming.
  call,
  // Until /status says that there is more.
  shut,
  // When to look whether there is, as of Date.now(); 0: not at all.
  more,
  // Seconds, at least, until the next look.
  pace = 1,
  // Whether no question is left.
  spent;

const
  points = (raw) => [...raw].length,
  // Controls that turn text around serve to deceive here: each paragraph finds its own direction.
  // What should be text and is not, is none.
  plain = (raw) => (typeof raw === 'string' ? raw : '').replace(/[\r\u202a-\u202e\u2066-\u2069]/g, ''),
  // The same is not read out twice.
  say = (words, at = note) => { if (at.textContent !== words) at.textContent = words; };
// What a limit of seconds leaves is no news to a person: it is back before it is read.
const BURST_S = 60;
const leftAfter = (headers) => {
  const of = (name) => headers.get(name)?.match(/(?<=;[wr]=)\d+/g) ?? [];
  const windows = of('RateLimit-Policy');
  return Math.min(...of('RateLimit').filter((_, i) => windows[i] >= BURST_S));
};
const showLeft = (n) => {
  spent = n === 0;
  say(Number.isSafeInteger(n) && n >= 0 ? text.left.replace('{n}', n) : '', left);
};

// Everything that can be pressed, and the counter, from the variables above.
function show() {
  const
    focused = root.activeElement,
    most = Math.min(caps.max_message_chars, caps.max_input_chars),
    chars = points(box.value),
    over = chars > most;
  say(chars + '/' + most, count);
  count.className = over ? 'over' : '';
  box.ariaInvalid = over;
  // What is empty would be taken for left to right.
  box.dir = box.value && 'auto';
  if (!call && !shut) {
    if (over) say(text.over);
    else if (note.textContent === text.over) say('');
  }
  send.disabled = call || shut || over || !box.value.trim();
  stop.hidden = !call;
  retry.hidden = !shut;
  // What had the focus and is gone must not leave the keyboard nowhere.
  if (focused?.hidden || focused?.disabled) box.focus();
}

const DAY_S = 86400;

// A page can take the widget away: nobody would read on, and nobody could stop.
const here = () => root.host.isConnected;
const leave = () => call?.abort();

function tick() {
  if (!here()) {
    clearInterval(clock);
    leave();
    return;
  }
  const wait = Math.ceil((more - Date.now()) / 1000);
  if (!more || call || document.hidden) return;
  if (wait <= 0) return check();
  say(text.more.replace('{t}', wait < 2 * DAY_S
    ? (wait < 3600 ? '' : (wait / 3600 | 0) + ':') + new Date(wait * 1000).toISOString().slice(14, 19)
    : text.days.replace('{n}', Math.ceil(wait / DAY_S))), timer);
}

// What an answer that is none says: pennygate's error, or the web server's own page.
async function refusal(reply) {
  const { error } = await reply.json().catch(() => 0) || {};
  return { ...error, status: reply.status, wait: +reply.headers.get('Retry-After') };
}

// Says why not, and until when; with the page's own text, unless it is for a moment only or the
// request itself was at fault.
function refuse({ status, code, message, wait }) {
  code = plain(code);
  // No window is longer than a month: more is a mistake.
  wait = Number.isFinite(wait) ? Math.min(wait, 31 * DAY_S) : 0;
  say(coded[code] || plain(message).slice(0, 500) || text.trouble);
  shut = ![400, 413, 502, 504].includes(status);
  slot.hidden = !shut && status < 500 || /^(burst|concurrent|busy|stopping)/.test(code);
  // Of all others nobody knows when they end: it is looked at from time to time.
  timer.hidden = !(shut && wait > 0 && /^(?!concurrent).*_limit$|^upstream_paused/.test(code));
  more = shut ? Date.now() + Math.max(timer.hidden ? 0 : wait, pace) * 1000 : 0;
  tick();
  show();
}

const
  OFFLINE = { message: text.offline, status: 0 },
  CUT = { message: text.cut, status: 502 };

// Asks how things stand, which costs nothing.
async function check() {
  more = 0;
  pace = Math.min(pace * 2, 64);
  const reply = await fetch(base + 'status', { credentials, cache: 'no-store',
    signal: AbortSignal.timeout(15000) }).catch(() => 0);
  if (!reply) return refuse(OFFLINE);
  if (!reply.ok) return refuse({ ...await refusal(reply), status: 0 });
  try {
    const { input, limits, ...answer } = await reply.json();
    // Something else can be where pennygate should be: nothing is taken from it, or all.
    if (!(input.max_message_chars > 0 && input.max_input_chars > 0 && input.max_history > 0)) throw 0;
    const n = Math.min(...limits.map((limit) => limit.window_s < BURST_S ? 1 / 0 : limit.remaining));
    caps = input;
    showLeft(n);
    if (!answer.available) return refuse({ ...answer, status: 0, wait: answer.retry_after });
  } catch {
    return refuse({});
  }
  if (shut) say(text.again);
  shut = false;
  timer.hidden = true;
  pace = 1;
  slot.hidden = true;
  form.hidden = false;
  show();
}

// ---- an answer ----

// `code`, **strong**, *emphasis*, [a link](https://...), https://...
const INLINE =
  /`([^`]+)`|\*\*(.+?)\*\*|\*(?!\s)([^*]*[^*\s])\*|\[([^\][]+)\]\((https?:\/\/[^\s()]+)\)|https?:\/\/[^\s<>"`*]*[^\s<>"`*.,:;!?()\]]/gi;

function link(url, words) {
  const made = make('a', { href: url, title: url, target: '_blank',
    rel: 'noopener noreferrer nofollow ugc' }, words);
  // Words that look like an address must not be taken for another one than it is.
  if (/[.:]/.test(words) && !(words + '/').startsWith(made.origin + '/')) made.append(` (${made.host})`);
  return made;
}

function inline(into, raw) {
  let end = 0;
  for (const found of raw.matchAll(INLINE)) {
    const [whole, code, strong, em, label, url = whole] = found;
    into.append(raw.slice(end, found.index), code ? make('code', {}, code)
      : strong || em ? inline(make(strong ? 'strong' : 'em'), strong || em)
        : link(url, label || url));
    end = found.index + whole.length;
  }
  into.append(raw.slice(end));
  return into;
}

const ITEM = /^\s*(?:[-*+]|(\d{1,9})[.)])\s+(.+)/;

// A message on the page.
function bubble(kind, who, ...inside) {
  return make('div', { class: 'said ' + kind }, make('strong', {}, who), ...inside);
}

// Writes an answer that comes in pieces. What has ended is written once; the line that has not is
// taken back, and written anew. The longer that takes the less often: the page must stay quick.
function writer() {
  const said = bubble('', text.model);
  let
    // The line that has not ended, and what is not yet shown.
    rest = '',
    // The paragraph, list or code that the next line goes on with.
    block,
    // About how many characters are in it.
    size,
    // Within ```.
    fence,
    // What the last line has become.
    last,
    undo = () => {},
    later,
    pause;

  // Not without end: what a browser does for the directions in a block grows with its square.
  function open(tag, more, start) {
    if (block?.localName === tag && (size += more) < 4000) return;
    size = more;
    block = make(tag, { dir: 'auto', ...start && { start } });
    said.append(block);
  }

  function line(raw) {
    const [, number, words] = !fence && ITEM.exec(raw) || [];
    last = null;
    if (/^\s*```/.test(raw)) {
      block = null;
      fence = !fence;
      if (fence) open('pre', 0);
    } else if (!fence && !raw.trim()) {
      block = null;
    } else {
      open(fence ? 'pre' : !words ? 'p' : number ? 'ol' : 'ul', words ? 20 : 20 + raw.length, number);
      last = words ? make('li', { dir: 'auto' }) : make('span', {}, block.firstChild ? '\n' : '');
      if (fence) last.append(raw);
      else inline(last, words || raw.replace(/^#{1,6}\s+(.+)/, '**$1**'));
      block.append(last);
    }
  }

  function paint() {
    const
      begun = Date.now(),
      follows = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 40,
      lines = rest.replace(/[^\n]{2000}/gu, '$&\n').split('\n');
    undo();
    rest = lines.pop();
    lines.forEach(line);
    const before = [block, fence, size];
    last = null;
    if (rest) line(rest);
    undo = () => {
      last?.remove();
      if (block !== before[0]) block?.remove();
      [block, fence, size] = before;
    };
    later = 0;
    if (!said.parentNode) talk.append(said);
    if (follows) talk.scrollTop = 1e9;
    pause = Math.max(50, 9 * (Date.now() - begun));
  }

  return {
    add(piece) {
      rest += piece;
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
function within(words) {
  const sent = [...past, { role: 'user', content: words }];
  while (sent[1] && (sent.length > caps.max_history
    || points(sent.map((one) => one.content).join('')) > caps.max_input_chars)) {
    sent.splice(0, 2);
  }
  return sent;
}

// How much of an answer is taken, in UTF-16 units, some 16000 tokens, where hundreds are usual: what
// goes on has run away, and the page would stand still over it.
const MOST = 65536;

// Asks, and hands on the text of the answer. Returns what is to be said of its end; throws what
// refuse() takes, or an error of the network.
async function answer(sent, add) {
  const reply = await fetch(base + 'v1/chat/completions', { method: 'POST', credentials,
    headers: { 'Content-Type': 'application/json' }, signal: call.signal,
    body: JSON.stringify({ model: told.model, messages: sent, stream: true }) })
    .catch(() => { throw OFFLINE; });
  showLeft(leftAfter(reply.headers));
  if (!reply.ok) throw await refusal(reply);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let
    why = '',
    room = MOST,
    // The line of the stream that has not ended.
    rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done || !here()) throw CUT;
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
      why = { __proto__: null, length: text.length, content_filter: text.filter }[end] || why;
      const piece = plain(delta?.content);
      add(piece.slice(0, room));
      // Lines are the dearest to paint.
      room -= piece.length + 9 * (piece.split('\n').length - 1);
      if (room < 0) throw CUT;
    }
  }
}

async function ask() {
  const
    words = box.value,
    sent = within(words),
    asked = bubble('you', text.you, make('p', { dir: 'auto' }, plain(words)));
  let
    whole = '',
    ending = '',
    trouble,
    shown;
  call = new AbortController();
  log.append(asked);
  talk.hidden = false;
  talk.scrollTop = 1e9;
  box.value = '';
  slot.hidden = true;
  say(text.coming);
  show();
  try {
    ending = await answer(sent, (piece) => {
      if (!whole) {
        piece = piece.trimStart();
        if (!piece) return;
        say('');
        shown = writer();
      }
      shown.add(piece);
      whole += piece;
    });
    if (!whole) ending += ' ' + text.empty;
  } catch (error) {
    if (call.signal.aborted) ending = text.stopped;
    else trouble = 'status' in error ? error : CUT;
  }
  // What has not been read to its end must not be paid for.
  call.abort();
  call = null;
  shown?.end();
  if (whole) {
    past = [...sent, { role: 'assistant', content: whole }];
  } else {
    // What was not answered is not part of the conversation: back into the box.
    asked.remove();
    box.value = words + (box.value && '\n' + box.value);
  }
  talk.hidden = !log.firstChild;
  say(ending);
  show();
  if (trouble) refuse(trouble);
  else if (spent) check();
}

// ---- what a person does ----

form.onsubmit = (e) => {
  e.preventDefault();
  if (send.disabled) return;
  box.focus();
  ask();
};
box.oninput = show;
all.onkeydown = (e) => {
  // While words are composed the keys belong to them; Safari tells by 229 alone.
  if (e.isComposing || e.keyCode === 229) return;
  if (e.key === 'Escape') leave();
  if (e.key !== 'Enter' || e.shiftKey || e.target !== box) return;
  e.preventDefault();
  form.requestSubmit();
};
stop.onclick = leave;
retry.onclick = () => {
  say('');
  check();
};
addEventListener('online', () => shut && here() && check());
addEventListener('pagehide', leave);
const clock = setInterval(tick, 1000);
check();
})();
