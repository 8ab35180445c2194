// OpenAI's own client, driven by test_sdk.py: a job of JSON on each line of standard input, what
// came of it on a line of standard output. Run where node_modules is.
import { createRequire } from 'node:module';
import readline from 'node:readline';

const { OpenAI } = createRequire(process.cwd() + '/')('openai');

async function ask(client, job, signal, seen) {
  if (job.what === 'models') return (await client.models.list()).data.map((model) => model.id);
  const body = { model: 'demo', messages: [{ role: 'user', content: 'Why is the sea salt?' }], ...job.body };
  const answer = await client.chat.completions.create(body, { signal });
  if (!body.stream) return { text: answer.choices[0].message.content, model: answer.model, usage: answer.usage };
  for await (const chunk of answer) {
    seen.usage = chunk.usage;
    const text = chunk.choices[0] && chunk.choices[0].delta.content;
    if (text) seen.pieces.push({ ms: Date.now() - seen.begun, text });
    if (job.abortAfter && seen.pieces.length === job.abortAfter) seen.abort();
  }
  return null;
}

// Of an error the class, and what it knows.
function describe(error) {
  const { status, code, type, param, message } = error;
  const classes = Object.keys(OpenAI).filter((name) => name.endsWith('Error') && error.constructor === OpenAI[name]);
  return { class: classes[0] || error.name, status, code, type, param, message };
}

async function run(job) {
  const stop = new AbortController();
  const seen = { pieces: [], begun: Date.now(), abort: () => stop.abort(), usage: null };
  const result = {};
  if (job.abortMs) setTimeout(seen.abort, job.abortMs);
  try {
    const client = new OpenAI({ apiKey: 'any text', ...job.options });
    result.answer = await ask(client, job, stop.signal, seen);
  } catch (error) {
    result.error = describe(error);
  }
  return { ...result, pieces: seen.pieces, usage: seen.usage, aborted: stop.signal.aborted,
    ms: Date.now() - seen.begun };
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await run(JSON.parse(line))));
}
