// A chat page for pennygate: sends what has been said, shows the answer as it arrives, and says
// in plain words why there is none. No library, nothing inline: works under
// Content-Security-Policy: default-src 'self'.
const talk = document.getElementById('talk');
const status = document.getElementById('status');
const form = document.getElementById('ask');
const question = document.getElementById('question');
const send = document.getElementById('send');
const stop = document.getElementById('stop');
const said = []; // {role, content}, oldest first
let running = null; // AbortController of the answer that is coming

function show(role, text) {
  const box = document.createElement('div');
  const who = document.createElement('strong');
  const words = document.createElement('span');
  box.className = 'said ' + role;
  who.textContent = role === 'user' ? 'You' : 'Model';
  words.textContent = text;
  box.append(who, words);
  talk.append(box);
  return words;
}

function tell(text, trouble) {
  status.textContent = text;
  status.className = trouble ? 'trouble' : '';
}

function span(seconds) {
  const [n, unit] = seconds < 90 ? [seconds, 'second']
    : seconds < 5400 ? [seconds / 60, 'minute'] : [seconds / 3600, 'hour'];
  return Math.ceil(n) + ' ' + unit + (Math.ceil(n) === 1 ? '' : 's');
}

// The error's own message if the answer has one; it says to wait, we say how long.
async function trouble(response) {
  const seconds = Number(response.headers.get('Retry-After'));
  let message = 'The model cannot be asked right now.';
  try {
    message = (await response.json()).error.message || message;
  } catch { /* not from pennygate: the web server's own error page */ }
  return response.status === 429 && seconds > 0
    ? message.replace(/\.$/, '') + ' (in ' + span(seconds) + ').' : message;
}

// The data of each event of a stream.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith('data: ')) yield line.slice(6);
    }
  }
}

async function answer(response, words) {
  for await (const data of events(response)) {
    if (data === '[DONE]') {
      if (!words.textContent) throw new Error('The model has given an empty answer.');
      return;
    }
    const event = JSON.parse(data);
    if (event.error) throw new Error(event.error.message);
    const choice = event.choices && event.choices[0];
    if (!choice) continue;
    words.textContent += choice.delta.content || '';
    if (choice.finish_reason === 'length') tell('The answer was cut at its greatest length.', false);
  }
  throw new Error('The answer broke off.');
}

async function ask() {
  const text = question.value;
  running = new AbortController();
  said.push({ role: 'user', content: text });
  const asked = show('user', text);
  question.value = '';
  tell('Asking …', false);
  send.disabled = true;
  stop.hidden = false;
  let words = null;
  try {
    const response = await fetch(talk.dataset.api + '/chat/completions', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ messages: said, stream: true }),
      signal: running.signal,
    });
    if (!response.ok) throw new Error(await trouble(response));
    tell('', false);
    words = show('assistant', '');
    await answer(response, words);
  } catch (error) {
    tell(error.name === 'AbortError' ? 'Stopped.' : error.message, error.name !== 'AbortError');
  }
  if (words && words.textContent) {
    said.push({ role: 'assistant', content: words.textContent });
  } else { // what was not answered is not part of the conversation: back into the box
    said.pop();
    question.value = [text, question.value].filter(Boolean).join('\n');
    asked.parentNode.remove();
    if (words) words.parentNode.remove();
  }
  running = null;
  send.disabled = false;
  stop.hidden = true;
  question.focus();
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  if (!running && question.value.trim()) ask();
});
stop.addEventListener('click', () => { if (running) running.abort(); });
question.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey) {
    event.preventDefault();
    form.requestSubmit();
  }
});
