'use strict';
'require view';
'require dom';
'require poll';
'require rpc';
'require ui';

/*
 * What the owner wants to know, from `pennygate stats --json` and `pennygate check` by way of
 * rpcd. Security: children of E() are always lists. LuCI makes a text node of a string in a list,
 * but HTML of one that stands alone, and names of limits and words of the program must stay text.
 */

const SECONDS = 10;
const DAYS_LISTED = 14;
const NEARLY = 80; /* percent of a budget, as the program's first alert */

const callStatus = rpc.declare({ object: 'luci.pennygate', method: 'status' });
const callPause = rpc.declare({ object: 'luci.pennygate', method: 'pause' });
const callResume = rpc.declare({ object: 'luci.pennygate', method: 'resume' });

/* ---- words and figures ---- */

const subjects = {
	everyone: _('everyone together'),
	anonymous: _('all anonymous callers together'),
	bypass: _('your own calls')
};

const units = {
	calls: _('calls'),
	tokens: _('tokens'),
	cost: _('cost'),
	concurrent: _('calls at once')
};

const windows = {
	hour: _('in an hour'),
	day: _('in a day'),
	month: _('in a month')
};

const deliveries = {
	none: _('shown here only'),
	waits: _('not yet delivered'),
	delivered: _('delivered'),
	given_up: _('given up')
};

const events = {
	threshold: _('a limit was reached'),
	upstream_refused: _('the model API refuses us: key, credit or rate'),
	breaker_open: _('the model API fails and is left alone'),
	bound_exceeded: _('a call used more than was reserved'),
	meter_unavailable: _('the store could not be written')
};

/* What stands for a word of the program; the word itself, if it is a new one. */
function named(words, word, otherwise) {
	if (Object.prototype.hasOwnProperty.call(words, word))
		return words[word];
	return otherwise || String(word);
}

function grouped(n) {
	return String(n).replace(/\B(?=(\d{3})+$)/g, ',');
}

/* Whole numbers throughout: of billionths of a dollar a sum of $9,000,000 is still exact. */
function money(nano) {
	const dollars = Math.floor(nano / 1e9);
	const rest = String(nano % 1e9).padStart(9, '0').replace(/0{1,7}$/, '');

	return '$' + grouped(dollars) + '.' + rest;
}

function amount(unit, n) {
	if (n === null || n === undefined)
		return '-';
	return unit === 'cost' ? money(n) : grouped(n);
}

function bytes(n) {
	return n < 1048576 ? grouped(Math.floor(n / 1024)) + ' KiB'
		: grouped(Math.floor(n / 1048576)) + '.' + Math.floor(n % 1048576 * 10 / 1048576) + ' MiB';
}

function span(ms) {
	const parts = [ [ 86400, 'd' ], [ 3600, 'h' ], [ 60, 'min' ], [ 1, 's' ] ];
	let left = Math.floor(ms / 1000);
	const shown = [];

	for (const [ seconds, name ] of parts) {
		const n = Math.floor(left / seconds);

		left %= seconds;
		if (n > 0 || shown.length > 0)
			shown.push(n + ' ' + name);
		if (shown.length === 2)
			break;
	}
	return shown.filter((text) => !text.startsWith('0 ')).join(' ') || _('under a second');
}

function share(part, whole) {
	return part >= whole ? 100 : Math.floor(part * 100 / whole);
}

function refusedOf(day) {
	return Object.values(day.refused || {}).reduce((sum, n) => sum + n, 0);
}

/* ---- what it is drawn with ---- */

function section(title, children) {
	return E('div', { 'class': 'cbi-section' }, [ E('h3', {}, [ title ]) ].concat(children));
}

function para(text) {
	return E('p', {}, [ text ]);
}

function table(heads, rows) {
	const titles = E('tr', { 'class': 'tr table-titles' },
		heads.map((head) => E('th', { 'class': 'th' }, [ head ])));

	return E('table', { 'class': 'table' }, [ titles ].concat(rows.map((cells) =>
		E('tr', { 'class': 'tr' }, cells.map((cell, i) =>
			E('td', { 'class': 'td left', 'data-title': heads[i] }, [].concat(cell)))))));
}

/* Of a name and what is said of it: nothing needs a title there, also where rows are stacked. */
function pairs(rows) {
	return E('table', { 'class': 'table' }, rows.map((row) => E('tr', { 'class': 'tr' }, [
		E('td', { 'class': 'td left', 'width': '25%' }, [ row[0] ]),
		E('td', { 'class': 'td left' }, [].concat(row[1])) ])));
}

/* Nothing, if there are none. */
function items(texts) {
	return texts.length === 0 ? [] : [ E('ul', {}, texts.map((text) => E('li', {}, [ text ]))) ];
}

function badge(bad, text) {
	return E('span', { 'class': bad ? 'label warning' : 'label success' }, [ text ]);
}

function bar(percent) {
	return E('div', { 'class': 'cbi-progressbar', 'title': percent + ' %' },
		[ E('div', { 'style': 'width:' + percent + '%' }) ]);
}

/* ---- what was answered ---- */

/* The figures, or null: a program that was ended because it took too long has printed half. */
function figuresOf(answer) {
	try {
		return answer.stats.code === 0 ? JSON.parse(answer.stats.stdout) : null;
	} catch (e) {
		return null;
	}
}

/*
 * Of what `pennygate check` prints its faults and notes, each of a line that begins with the
 * word and of those that are indented below it, and its last line, which is the verdict.
 */
function verdictOf(check) {
	const found = { faults: [], notes: [], last: '', known: false };
	const lines = String(check.stdout || '').split('\n').filter((line) => line.trim() !== '');
	let list = null;

	for (const line of lines) {
		const head = line.match(/^(FAULT|note) +(.*)$/);

		if (head) {
			list = head[1] === 'FAULT' ? found.faults : found.notes;
			list.push(head[2]);
		} else if (list && /^ {12}/.test(line)) {
			list.push(list.pop() + ' ' + line.trim());
		} else {
			list = null;
		}
	}
	found.last = lines.length > 0 ? lines[lines.length - 1] : '';
	found.known = /^\d+ faults?\b/.test(found.last);
	if (!found.known)
		found.last = String(check.stderr || '').trim() || _('pennygate check did not come to an end');
	return found;
}

/* ---- state ---- */

function serviceRow(service) {
	if (!service.enabled)
		return [ badge(true, _('disabled')), ' ', _('Give it a model and switch it on in the settings.') ];
	if (service.server === 'uhttpd')
		return [ badge(false, _('enabled')), ' ', _('uhttpd starts it for each request.') ];
	if (!service.running)
		return [ badge(true, _('not running')), ' ', _('The system log says why: logread -e pennygate') ];
	return [ badge(false, _('running')) ];
}

function checkRow(check) {
	const verdict = verdictOf(check);
	const bad = !verdict.known || verdict.faults.length > 0;

	return [ badge(bad, bad ? _('fault') : _('ok')), ' ', verdict.last ]
		.concat(items(verdict.faults.concat(verdict.notes)));
}

/* The program cannot tell of a change that was refused: what it goes by is what was before. */
function errorsRow(errors) {
	return [ badge(true, _('fault')), ' ', _('The settings are not all in force.') ]
		.concat(items(errors));
}

function callsRow(stats, button) {
	return [ badge(stats.paused, stats.paused ? _('paused') : _('ok')), ' ',
		stats.paused ? _('Nobody is admitted until it is resumed.')
			: _('Callers are admitted as far as the limits allow.'), ' ', button(stats.paused) ];
}

function modelsRow(stats) {
	const broken = stats.models.filter((model) => model.breaker_open);

	if (broken.length === 0)
		return [ badge(false, _('ok')), ' ', _('All are in use.') ];
	return [ badge(true, _('left alone')), ' ', broken.map((model) =>
		_('%s for %s, because its API fails or refuses').format(model.name,
			span(model.breaker_wait_ms))).join('; ') ];
}

function storeRow(stats) {
	const used = stats.store.used_bytes, size = stats.store.size_bytes;
	const filling = used > size / 4 * 3;
	const words = [ badge(filling, filling ? _('nearly full') : _('ok')), ' ',
		_('%s in use: %s of %s').format(share(used, size) + ' %', bytes(used), bytes(size)) ];

	return filling ? words.concat([ ' ', _('When it is full, nobody is admitted.') ]) : words;
}

function clockRow(stats) {
	const ahead = stats.clock.ahead_s;

	if (ahead === 0)
		return [ badge(false, _('ok')), ' ', _("The store's time is that of the clock.") ];
	return [ badge(true, _('ahead')), ' ',
		_('The store is ahead of the clock by %s, so windows end later.').format(span(ahead * 1000)), ' ',
		_('If the clock is right, "pennygate clock reset" mends it.') ];
}

function state(answer, stats, button) {
	const rows = [
		[ _('Service'), serviceRow(answer.service) ],
		[ _('Configuration and store'), checkRow(answer.check) ]
	];

	const errors = String(answer.service.errors || '').split('\n').filter((line) => line !== '');

	if (errors.length > 0)
		rows.push([ _('Settings'), errorsRow(errors) ]);
	if (stats)
		rows.push([ _('Calls'), callsRow(stats, button) ],
			[ _('Models'), modelsRow(stats) ],
			[ _('Store'), storeRow(stats) ],
			[ _('Clock'), clockRow(stats) ],
			[ _('Calls under way'), grouped(stats.open_streams) ],
			[ _('Alerts to be delivered'), grouped(stats.alerts_waiting) ]);
	return section(_('State'), [ pairs(rows) ]);
}

/* ---- budgets ---- */

function standing(limit) {
	if (limit.max === null)
		return null;
	if (limit.used >= limit.max)
		return limit.unit === 'concurrent' ? _('all taken') : _('spent');
	if (limit.pace && limit.used >= limit.released)
		return _('held back by its pace');
	return share(limit.used, limit.max) >= NEARLY ? _('nearly spent') : null;
}

function what(limit) {
	const words = [ named(units, limit.unit) ];

	if (limit.unit !== 'concurrent')
		words.push(named(windows, limit.window, _('in any %s').format(limit.window)));
	words.push(named(subjects, limit.per));
	if (limit.dry_run)
		words.push(_('dry run: refuses nothing'));
	return words.join(', ');
}

function useOf(limit) {
	const how = standing(limit);
	const max = limit.max === null ? _('no maximum') : amount(limit.unit, limit.max);
	const text = limit.unit === 'concurrent' || limit.reserved === 0
		? _('%s of %s').format(amount(limit.unit, limit.used), max)
		: _('%s of %s, of which %s reserved for calls under way').format(
			amount(limit.unit, limit.used), max, amount(limit.unit, limit.reserved));
	const shown = [ text ];

	if (limit.max !== null)
		shown.unshift(bar(share(limit.used, limit.max)));
	if (limit.pace && limit.max !== null)
		shown.push('; ', _('%s released so far').format(amount(limit.unit, limit.released)));
	if (how)
		shown.push(' ', badge(true, how));
	return shown;
}

function budgets(stats) {
	if (stats.limits.length === 0)
		return section(_('Budgets now'), [ para(_('No limit is shared by all callers.')) ]);
	return section(_('Budgets now'), [ table([ _('Limit'), _('What'), _('Used'), _('More in') ],
		stats.limits.map((limit) => [ E('strong', {}, [ limit.name ]), what(limit), useOf(limit),
			limit.frees_ms > 0 ? span(limit.frees_ms) : '-' ])) ]);
}

/* ---- alerts ---- */

function alertText(alert) {
	const name = alert.limit || alert.model;
	const words = named(events, alert.event) + (alert.percent ? ': ' + alert.percent + ' %' : '');

	return name ? [ E('strong', {}, [ name ]), ' ', words ] : words;
}

function alerts(stats) {
	if (stats.alerts.length === 0)
		return section(_('Last alerts'), [ para(_('There were none.')) ]);
	return section(_('Last alerts'), [ table([ _('Time'), _('What'), _('Delivery') ],
		stats.alerts.map((alert) => [ alert.time.replace('T', ' ').replace('Z', ' UTC'),
			alertText(alert), named(deliveries, alert.delivery) ])) ]);
}

/* ---- days ---- */

const unused = { admitted: 0, refused: {}, tokens_in: 0, tokens_out: 0, cost_nano: 0,
	upstream_errors: 0 };

/* Every day that was asked for, the oldest first: those without use are not in the figures. */
function daysOf(stats) {
	const known = {};
	const days = [];
	const end = Date.parse(stats.today);

	for (const day of stats.days)
		known[day.day] = day;
	for (let at = Date.parse(stats.first_day); at <= end; at += 86400000) {
		const name = new Date(at).toISOString().slice(0, 10);

		days.push(known[name] || Object.assign({ day: name }, unused));
	}
	return days;
}

/* One call of a thousand is to be seen, too. */
function part(n, top, colour) {
	const height = n > 0 ? Math.max(1, share(n, top)) : 0;

	return E('div', { 'style': 'height:' + height + '%;background:' + colour });
}

function chart(days) {
	const heights = days.map((day) => day.admitted + refusedOf(day));
	const top = Math.max(1, ...heights);

	return E('div', { 'style': 'display:flex;gap:1px;height:8em;border-bottom:1px solid currentColor',
		'role': 'img', 'aria-label': _('Calls by day; the table has the figures') },
		days.map((day) => E('div', {
			'style': 'flex:1;display:flex;flex-direction:column;justify-content:flex-end',
			'title': _('%s: %s admitted, %s refused').format(day.day, grouped(day.admitted),
				grouped(refusedOf(day)))
		}, [ part(refusedOf(day), top, '#c44'), part(day.admitted, top, '#47a') ])));
}

function colour(name, text) {
	return E('span', { 'style': 'margin-right:1.5em' }, [
		E('span', { 'style': 'display:inline-block;width:.8em;height:.8em;background:' + name }),
		' ', text ]);
}

function daysSection(stats) {
	const days = daysOf(stats);
	const rows = days.slice(-DAYS_LISTED).reverse().map((day) => [
		day.day, grouped(day.admitted), grouped(refusedOf(day)),
		grouped(day.tokens_in), grouped(day.tokens_out), amount('cost', day.cost_nano),
		grouped(day.upstream_errors) ]);

	return section(_('Use by day'), [
		E('p', {}, [ colour('#47a', _('admitted')), colour('#c44', _('refused by limits')) ]),
		chart(days),
		E('p', { 'style': 'display:flex;justify-content:space-between' },
			[ E('small', {}, [ stats.first_day ]), E('small', {}, [ stats.today + ' ' + stats.zone ]) ]),
		table([ _('Day'), _('Admitted'), _('Refused by limits'), _('Tokens in'), _('Tokens out'),
			_('Cost'), _('Errors of the model API') ], rows)
	]);
}

/* ---- without figures ---- */

function warning(children) {
	return E('div', { 'class': 'alert-message warning' }, children);
}

function without(answer) {
	const said = String(answer.stats.stderr || '').trim();

	if (!answer.service.enabled)
		return warning([ para(_('There are no figures, because Pennygate is not enabled.')),
			para(_('In the settings give it a model with its key and switch it on. It makes its store when it is first started.')) ]);
	return warning([ para(_('There are no figures, and nobody is admitted as long as this is so:')),
		E('pre', {}, [ said || _('pennygate stats did not come to an end') ]),
		para(_('A store that was lost is not made anew by itself, because that would be a fresh budget: put a copy back, or make a new one with "pennygate init".')),
		para(_('The system log says more: logread -e pennygate')) ]);
}

return view.extend({
	load: function() {
		return L.resolveDefault(callStatus(), null);
	},

	toggle: function(paused) {
		return (paused ? callResume() : callPause()).then((done) => {
			if (!done || done.code !== 0)
				throw new Error((done && done.stderr) || _('rpcd has refused this, or not answered'));
			return this.refresh();
		}).catch((e) => {
			ui.addNotification(null, E('p', {}, [ e.message ]), 'danger');
		});
	},

	button: function(paused) {
		return E('button', {
			'class': 'btn cbi-button ' + (paused ? 'cbi-button-positive' : 'cbi-button-negative'),
			'click': ui.createHandlerFn(this, 'toggle', paused),
			'disabled': L.hasViewPermission() ? null : ''
		}, [ paused ? _('Resume') : _('Pause') ]);
	},

	parts: function(answer) {
		const usable = answer && answer.service && answer.stats && answer.check;
		const stats = usable ? figuresOf(answer) : null;

		if (!usable)
			return [ warning([ para(_('rpcd has not answered: is its service running?')) ]) ];
		if (!stats)
			return [ without(answer), state(answer, null, null) ];
		return [ state(answer, stats, this.button.bind(this)), budgets(stats), alerts(stats),
			daysSection(stats) ];
	},

	refresh: function() {
		return this.load().then((answer) => dom.content(this.place, this.parts(answer)));
	},

	render: function(answer) {
		this.place = E('div', {}, this.parts(answer));
		poll.add(this.refresh.bind(this), SECONDS);
		return E('div', { 'class': 'cbi-map' }, [
			E('h2', {}, [ _('Pennygate') ]),
			E('div', { 'class': 'cbi-map-descr' },
				[ _('The budgets in front of the model API, and what was used of them.') ]),
			this.place
		]);
	},

	handleSaveApply: null,
	handleSave: null,
	handleReset: null
});
