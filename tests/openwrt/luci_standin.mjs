/*
 * A stand-in for what LuCI and rpcd give to the LuCI app, made to show what it does with it: no
 * browser, no router. Reads a JSON object from standard input, prints one.
 *
 *   view     a view's file: it is rendered; `answers` are what its rpc methods return, `uci` is the
 *            configuration, and each of `steps` is "poll" or a button's text, to be pressed.
 *            `readonly`: whoever is asking has no right to change anything.
 *   backend  the ucode file: `method` is called, and rpcd's `file exec` really runs its program,
 *            with `replace` put in the place of the words that it names. The file keeps to what
 *            ucode and JavaScript have in common.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const input = JSON.parse(readFileSync(0, 'utf8'));

String.prototype.format = function(...args) {
	return this.replace(/%[sd%]/g, (spec) => spec === '%%' ? '%' : String(args.shift()));
};

/* ---- the page ---- */

const seen = { html: [], strings: [], calls: [], notes: [], polls: [], writes: [], maps: [] };

/*
 * As LuCI does it: of a list each string becomes a text node, and a list within it one, too; a
 * string that stands alone becomes HTML, which is noted.
 */
function fill(node, children) {
	if (children === undefined || children === null)
		return node;
	if (!Array.isArray(children)) {
		if (typeof children === 'object')
			node.kids.push(children);
		else
			seen.html.push(String(children));
		return node;
	}
	for (const child of children)
		if (child && typeof child === 'object' && child.tag)
			node.kids.push(child);
		else if (Array.isArray(child))
			throw new Error('a list in a list of children: ' + JSON.stringify(child));
		else if (child !== null && child !== undefined)
			node.kids.push(String(child));
	return node;
}

function E(tag, attrs, children) {
	return fill({ tag, attrs, kids: [] }, children);
}

function text(node) {
	return typeof node === 'string' ? node : node.kids.map(text).join('');
}

function buttons(node) {
	if (typeof node === 'string')
		return [];
	return (node.tag === 'button' ? [ node ] : []).concat(...node.kids.map(buttons));
}

function rowsOf(node) {
	if (typeof node === 'string')
		return [];
	return (node.tag === 'tr' ? [ node.kids.map(text) ] : []).concat(...node.kids.map(rowsOf));
}

function attributes(node) {
	if (typeof node === 'string')
		return [];
	return Object.entries(node.attrs || {}).filter(([ , value ]) => typeof value === 'string')
		.concat(...node.kids.map(attributes));
}

function translate(string) {
	seen.strings.push(string);
	return string;
}

/* ---- the form ---- */

class Option {
	constructor(section, name, title, help) {
		Object.assign(this, { section, name, title, help, choices: [] });
	}
	value(key) { this.choices.push(key); }
	depends() { this.dependent = true; }
	load(id) { return uci.get(this.section.config, id, this.ucioption || this.name); }
	cfgvalue(id) { return this.load(id); }
	renderWidget(id, index, value) { return { value, placeholder: this.placeholder }; }
}

class Section {
	constructor(config, type, title, help) {
		Object.assign(this, { config, type, title, help, options: [] });
	}
	tab() {}
	formvalue(id, name) { return (input.form || {})[name]; }
	option(kind, name, title, help) {
		const option = new kind(this, name, title, help);

		this.options.push(option);
		return option;
	}
	taboption(tab, ...rest) { return this.option(...rest); }
}

class NamedSection extends Section {}
class TypedSection extends Section {
	handleAdd(event, name) { seen.writes.push([ name, '.type', this.type ]); }
}
class GridSection extends TypedSection {}

class FormMap {
	constructor(config) {
		Object.assign(this, { config, sections: [] });
		seen.maps.push(this);
	}
	section(kind, ...rest) {
		const section = new kind(this.config, ...(kind === NamedSection ? rest.slice(1) : rest));

		section.kind = kind.name;
		this.sections.push(section);
		return section;
	}
	render() { return Promise.resolve(E('div', {}, [])); }
}

const kinds = [ 'Value', 'Flag', 'ListValue', 'DynamicList', 'TextValue' ];
const form = { Map: FormMap, NamedSection, TypedSection, GridSection };

for (const kind of kinds)
	form[kind] = class extends Option {
		get kind() { return kind; }
	};

/* A checkbox knows but one word for yes, and what else there is is none to it. */
form.Flag.prototype.enabled = '1';
form.Flag.prototype.disabled = '0';
form.Flag.prototype.renderWidget = function(id, index, value) {
	return { value, checked: value === this.enabled };
};

/* `input.uci`: {section: {".type", options}}. */
const uci = {
	load: () => Promise.resolve(),
	get: (config, id, name) => {
		const section = (input.uci || {})[id];

		return section && name ? section[name] : section;
	},
	set: (config, id, name, value) => seen.writes.push([ id, name, value ]),
	unset: (config, id, name) => seen.writes.push([ id, name, null ]),
	sections: (config, type) => Object.entries(input.uci || {})
		.filter(([ , section ]) => section['.type'] === type)
		.map(([ id, section ]) => ({ '.name': id, ...section }))
};

/* What the form shows of each option of each section that is there. */
function shown(map) {
	return map.sections.flatMap((section) => uci.sections(map.config, section.type).flatMap((kept) =>
		section.options.map((option) => {
			const id = kept['.name'];

			return { id, name: option.name, ...option.renderWidget(id, 0, option.cfgvalue(id)) };
		})));
}

function described(map) {
	return { config: map.config, shown: shown(map), sections: map.sections.map((section) => ({
		kind: section.kind, type: section.type, title: section.title, help: section.help,
		options: section.options.map((option) => ({ kind: option.kind,
			name: option.ucioption || option.name, title: option.title, help: option.help,
			password: option.password === true, choices: option.choices,
			kept: !option.dependent || option.retain === true,
			datatype: option.datatype || null }))
	})) };
}

function optionOf(type, name) {
	return seen.maps[0].sections.find((section) => section.type === type).options
		.find((option) => option.name === name);
}

/* What becomes of the configuration if these are entered. */
function written(entries) {
	for (const [ type, name, value ] of entries)
		optionOf(type, name)[value === '' ? 'remove' : 'write']('x', value);
	return seen.writes;
}

function added(entries) {
	for (const [ type, name ] of entries)
		seen.maps[0].sections.find((section) => section.type === type).handleAdd({}, name);
}

/* ---- a view ---- */

const modules = {
	view: { extend: (object) => object },
	dom: { content: (node, children) => { node.kids = []; return fill(node, children); } },
	poll: { add: (f, seconds) => seen.polls.push({ f, seconds }) },
	rpc: { declare: ({ object, method }) => () => {
		const answer = input.answers[method];

		seen.calls.push([ object, method ]);
		return answer === 'reject' ? Promise.reject(new Error('access denied'))
			: Promise.resolve(Array.isArray(answer) ? answer.shift() : answer);
	} },
	ui: {
		createHandlerFn: (self, name, ...args) => () => self[name](...args),
		addNotification: (title, node) => seen.notes.push(text(node))
	},
	form, uci
};
const L = {
	resolveDefault: (promise, otherwise) => Promise.resolve(promise).catch(() => otherwise),
	hasViewPermission: () => !input.readonly
};

async function runView() {
	const source = readFileSync(input.view, 'utf8');
	const names = [ ...source.matchAll(/^'require (\w+)'/gm) ].map((match) => match[1]);
	const view = new Function('E', '_', 'L', ...names, source)(E, translate, L,
		...names.map((name) => modules[name]));
	const page = await view.render(await view.load());

	for (const step of input.steps || [])
		if (step === 'poll')
			await seen.polls[0].f();
		else
			await buttons(page).find((button) => text(button) === step).attrs.click();
	added(input.add || []);
	return {
		text: text(page), rows: rowsOf(page), attributes: attributes(page),
		buttons: buttons(page).map(text), html: seen.html, strings: seen.strings, calls: seen.calls,
		notes: seen.notes, polls: seen.polls.map((poll) => poll.seconds),
		maps: seen.maps.map(described),
		footer: [ view.handleSave, view.handleSaveApply, view.handleReset ],
		verdicts: (input.validate || []).map(([ type, name, value ]) =>
			optionOf(type, name).validate('x', value)),
		writes: written(input.write || [])
	};
}

/* ---- the backend ---- */

function runProgram(words) {
	const done = spawnSync(words[0], words.slice(1), { encoding: 'utf8', timeout: 60000 });

	return { code: done.status, stdout: done.stdout, stderr: done.stderr };
}

/* rpcd's own objects, each later than the call, as ubus does it. */
function deferring(object, method, args, done) {
	const key = object + ' ' + method;

	seen.calls.push([ key, args ]);
	if ((input.lost || []).includes(key))
		return null;
	setImmediate(() => {
		if (key === 'file exec')
			done(0, runProgram([ args.command, ...args.params ].map((word) => input.replace[word] || word)));
		else
			done(input.services ? 0 : 4, input.services);
	});
	return { deferred: true };
}

function runBackend() {
	const source = readFileSync(input.backend, 'utf8').replace(/^import .*$/gm, '');
	const given = {
		connect: () => ({ defer: deferring }),
		cursor: () => ({ get: (config, id, name) => uci.get(config, id, name) }),
		readfile: (path, most) => (input.files || {})[path]?.slice(0, most) ?? null,
		index: (list, item) => list.indexOf(item),
		length: (list) => list.length,
		filter: (list, f) => list.filter(f),
		values: (object) => Object.values(object)
	};
	const signature = new Function(...Object.keys(given), source)(...Object.values(given));

	return new Promise((resolve) => {
		const reply = (answer) => resolve({ answer, calls: seen.calls,
			methods: Object.fromEntries(Object.entries(signature).map(([ name, methods ]) =>
				[ name, Object.entries(methods).map(([ method, { args } ]) => [ method, args || null ]) ])) });

		signature['luci.pennygate'][input.method].call({ reply });
	});
}

console.log(JSON.stringify(await (input.view ? runView() : runBackend())));
