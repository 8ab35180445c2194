'use strict';
'require view';
'require form';
'require uci';
'require ui';

/*
 * /etc/config/pennygate: the options of pennygate.conf(5), with _ in place of -. What is refused
 * here is what is plainly wrong; the last word has `pennygate check`, which the init script asks
 * before anything is used. Security: no field has the key that is kept. It is no secret before who
 * may open this page, since LuCI gives the whole configuration to the browser.
 */

const CONFIG = 'pennygate';
const COUNT = /^(0|[1-9][0-9]*)$/;
const COUNT_MAX = 1000000000000000;

/* Words for yes in a configuration, also those that this form does not write itself. */
const YES = [ '1', 'on', 'true', 'yes', 'enabled' ];

/* ---- what is valid ---- */

/* An empty value is the option's default; whether it may be empty is for the form to say. */
function matching(pattern, message) {
	return (id, value) => value === '' || pattern.test(value) ? true : message;
}

const validTime = matching(/^[1-9][0-9]*[smhd]$/, _('A number and one of s, m, h, d, such as 30d'));
const validSize = matching(/^[1-9][0-9]*[KMG]?$/, _('Bytes, or a number with K, M or G, such as 64K'));
const validMoney = matching(/^\$?(0|[1-9][0-9]*)(\.[0-9]{1,9})?$/, _('Dollars, such as 0.15'));
const validUrl = matching(/^https?:\/\/[^\s'"\\\/]+[^\s'"\\]*$/, _('An address that begins with http:// or https://'));
const validOrigin = matching(/^https?:\/\/[^\s'"\\\/*]+$/, _('Scheme and host without a path, such as https://www.example.org'));
const validKeyFile = matching(/^\/etc\/pennygate\/(?!secret$)[^\s'"\\]+$/, _('A file in /etc/pennygate, such as /etc/pennygate/key'));
const validPath = matching(/^\/[^\s'"\\]*$/, _('A path that begins with /'));
const validMount = matching(/^(\/[A-Za-z0-9._~-]+)+$/, _('A path such as /ai'));
const validWord = matching(/^[^\s'"\\]+$/, _('Without blanks, quotes and backslashes'));
const validFactor = matching(/^([1-3](\.[0-9]{1,3})?|4(\.0{1,3})?)$/, _('From 1 to 4, with at most three decimals'));
const validLimitName = matching(/^[A-Za-z0-9_-]{1,31}$/, _('At most 31 letters, digits, - and _'));
const validAlias = matching(/^[A-Za-z0-9._-]{1,31}$/, _('At most 31 letters, digits, dots, - and _'));
const validWindow = matching(/^(hour|day|month|[1-9][0-9]*[smhd])$/, _('hour, day, month, or a time such as 10s'));

/* LuCI's own datatype range takes fractions and leading zeros, which the program does not. */
function whole(least, most) {
	return (id, value) => value === ''
		|| COUNT.test(value) && Number(value) >= least && Number(value) <= most ? true
		: _('A whole number from %s to %s').format(least, most);
}

/* Of money with cents, of all else a whole number: what it counts decides. */
function validMax(id, value) {
	const unit = this.section.formvalue(id, 'unit');

	if (value === 'unlimited')
		return true;
	if (unit === 'cost')
		return validMoney(id, value);
	return COUNT.test(value) && Number(value) <= COUNT_MAX ? true
		: _('A whole number, or the word unlimited');
}

/* ---- options of some kinds ---- */

/* Adds an option, on a tab if the section has such, with what is said of it besides. */
function add(at, kind, name, title, help, more) {
	const option = at.tab ? at.section.taboption(at.tab, kind, name, title, help)
		: at.section.option(kind, name, title, help);

	return Object.assign(option, more);
}

function choose(at, name, title, help, choices, more) {
	const option = add(at, form.ListValue, name, title, help,
		Object.assign({ default: choices[0][0] }, more));

	choices.forEach((choice) => option.value(choice[0], choice[1]));
	return option;
}

/* A yes in any of its words is a yes: what is shown as a no would be saved as one. */
function flag(at, name, title, help, more) {
	return add(at, form.Flag, name, title, help, Object.assign({
		load: function(id) {
			const value = form.Flag.prototype.load.apply(this, arguments);

			return YES.includes(value) ? this.enabled : value && this.disabled;
		}
	}, more));
}

function answer(at, name, title, help, more) {
	return flag(at, name, title, help,
		Object.assign({ enabled: 'yes', disabled: 'no', default: 'no' }, more));
}

/* What is written puts an end to the option that would stand for the same. */
function instead(key, other) {
	return (id, value) => {
		if (other)
			uci.unset(CONFIG, id, other);
		return uci.set(CONFIG, id, key, value);
	};
}

/* A secret: what is typed replaces what is kept, an empty field leaves it as it is. */
function secret(at, name, key, other, title, help) {
	return add(at, form.Value, name, title, help, {
		ucioption: key,
		password: true,
		retain: true,
		cfgvalue: () => null,
		write: instead(key, other),
		remove: () => null,
		renderWidget: function(id) {
			this.placeholder = uci.get(CONFIG, id, key)
				? _('kept; type another one to replace it') : _('none');
			return form.Value.prototype.renderWidget.apply(this, arguments);
		}
	});
}

/* What a section is called: by its option, else by itself, if that is not LuCI's invention. */
function nameOf(id) {
	const section = uci.get(CONFIG, id);

	if (!section)
		return null;
	return section.name || (section['.anonymous'] ? null : id);
}

/* ---- the sections ---- */

function generalOptions(section) {
	const at = { section: section, tab: 'general' };

	section.tab('general', _('General'));
	flag(at, 'enabled', _('Enabled'),
		_('Give the model below its key before you switch this on.'), { rmempty: false });
	choose(at, 'server', _('Web server'),
		_('Which web server hands the requests on.'),
		[ [ 'lighttpd', _('lighttpd: a service that answers many callers at once') ],
		  [ 'uhttpd', _('uhttpd: a program started for each request') ] ]);
	add(at, form.Value, 'mount', _('Path'),
		_('The path below which lighttpd has it, such as /ai.'),
		{ placeholder: '/ai', validate: validMount, retain: true }).depends('server', 'lighttpd');
	add(at, form.Value, 'port', _('Port'),
		_("The port on which uhttpd answers for it; the path is /cgi-bin/pennygate there."),
		{ placeholder: '8080', validate: whole(1, 65535), retain: true }).depends('server', 'uhttpd');
	choose(at, 'profile', _('Size of the machine'),
		_('How many calls run at once, and how large the store and its buffers are.'),
		[ [ 'router', _('router: 16 MB of flash, 128 MB of memory') ],
		  [ 'board', _('board: a single-board computer') ],
		  [ 'vps', _('vps: a rented server') ] ]);
	choose(at, 'durability', _('Durability'),
		_('Commit writes each reservation to the flash before the model is called. Lease works in memory and writes hourly: for flash that cannot hold the store (jffs2) or should not be worn; after a loss of power what was leased counts as spent. A store stays with what it was made with.'),
		[ [ 'auto', _('auto: commit where the file system can, otherwise lease') ],
		  [ 'commit', _('commit') ], [ 'lease', _('lease') ] ]);
	choose(at, 'timezone', _('Time zone'), _('Where days and months begin.'),
		[ [ 'utc', _('UTC') ], [ 'local', _("the router's, as it was when the store was made") ] ]);
	add(at, form.Value, 'retention', _('Counters are kept for'),
		_('How long the counters of ended days are kept, from 1d to 400d.'),
		{ placeholder: '7d', validate: validTime });
	choose(at, 'log_level', _('Log'), _('Info writes a line for each request. No line has a prompt or a key in it.'),
		[ [ 'info', _('info') ], [ 'warning', _('warning') ], [ 'error', _('error') ] ]);
}

function callerOptions(section) {
	const at = { section: section, tab: 'callers' };

	section.tab('callers', _('Callers'));
	choose(at, 'site_ceiling', _('Limit for everyone'),
		_('Whether there must be a limit for everyone over a day or a month. Without one, nothing says what a day can cost.'),
		[ [ 'required', _('required') ], [ 'none', _('I mean to go without') ] ]);
	choose(at, 'require', _('What a caller must show'), _('Keys are issued by "pennygate keys add"; accounts are those for which the web server asks.'),
		[ [ 'none', _('nothing') ], [ 'key', _('a key') ], [ 'account', _('an account') ] ]);
	add(at, form.DynamicList, 'allowed_origin', _('Pages on other hosts'),
		_('Web pages on other hosts that may ask, each by scheme, host and port. Pages of the same host need no entry.'),
		{ placeholder: 'https://www.example.org', validate: validOrigin });
	answer(at, 'cookie_cross_site', _("Visitors' cookie on other sites"),
		_('Needed for limits per visitor if those pages are on another site; over https alone.'));
	add(at, form.DynamicList, 'trusted_proxy', _('Trusted proxies'),
		_('Proxies in front of the web server that are believed when they say for whom they ask, by address or prefix. Whoever is named here can choose the address by which it is counted.'),
		{ placeholder: '192.0.2.7', datatype: 'or(ipaddr("nomask"),cidr)' });
	choose(at, 'proxy_header', _('Header of the proxies'), _('The header in which they say it.'),
		[ [ 'x-forwarded-for', 'X-Forwarded-For' ], [ 'forwarded', 'Forwarded' ] ]);
}

function requestOptions(section) {
	const at = { section: section, tab: 'request' };

	section.tab('request', _('Requests'));
	add(at, form.Value, 'max_message_chars', _('Characters of a message'),
		_('Of the newest message at most.'), { placeholder: '2000', validate: whole(1, 1048576) });
	add(at, form.Value, 'max_input_chars', _('Characters of a conversation'),
		_('Of all messages that are sent on at most.'), { placeholder: '8000', validate: whole(1, 1048576) });
	add(at, form.Value, 'max_history', _('Messages of a conversation'),
		_('So many are sent on, the newest ones.'), { placeholder: '10', validate: whole(1, 1024) });
	add(at, form.Value, 'max_body_bytes', _('Size of a request'),
		_('From 1K to 1M.'), { placeholder: '64K', validate: validSize });
}

function modelOptions(section) {
	const at = { section: section };

	add(at, form.Value, 'name', _('Alias'),
		_("What callers ask for; without one the section's own name. They never see the real name."),
		{ validate: validAlias });
	choose(at, 'provider', _('Dialect'), _('What the API speaks.'),
		[ [ 'openai', _('openai: chat completions, as most APIs') ], [ 'anthropic', _('anthropic: messages') ] ]);
	const url = add(at, form.Value, 'url', _('Address of the API'),
		_('Its base, to which /chat/completions or /messages is added.'),
		{ rmempty: false, validate: validUrl });
	[ 'https://api.openai.com/v1', 'https://api.anthropic.com/v1' ].forEach((known) => url.value(known));
	add(at, form.Value, 'model', _('Model'), _("The model's name there."),
		{ rmempty: false, validate: validWord });
	secret(at, 'key', 'key', 'key_file', _('Key'),
		_('The API key. This page does not show it again. Set a limit at the provider, too.'));
	add(at, form.Value, 'key_file', _('File with the key'),
		_('In place of the key: a file in /etc/pennygate that holds it and nothing else, and that the user pennygate can read.'),
		{ placeholder: '/etc/pennygate/key', validate: validKeyFile, write: instead('key_file', 'key') });
	add(at, form.Value, 'max_output_tokens', _('Longest answer'),
		_('In tokens, whatever the caller asks for. What a model thinks can come out of this as well.'),
		{ placeholder: '300', validate: whole(1, 65536) });
	choose(at, 'output_field', _('Name of that cap'), _('What this API calls the cap on the answer; many other than OpenAI only know max_tokens.'),
		[ [ 'max_completion_tokens', 'max_completion_tokens' ], [ 'max_tokens', 'max_tokens' ] ]);
	priceOptions(at);
	add(at, form.TextValue, 'system_prompt', _('System prompt'),
		_('Sent before each conversation, and paid for each time.'), { rows: 5 });
	choose(at, 'reasoning', _('Thinking'),
		_('How hard the model is told to think before it answers. What it thinks is paid for.'),
		[ [ 'as-is', _('say nothing of it') ], [ 'none', _('not at all') ], [ 'low', _('low') ],
		  [ 'medium', _('medium') ], [ 'high', _('high') ] ]);
	add(at, form.Value, 'thinking_tokens', _('Tokens of thinking'),
		_('Output tokens that can be billed beyond the longest answer.'),
		{ placeholder: '0', validate: whole(0, 1048576) });
	overheadOptions(at);
	add(at, form.Value, 'ca_file', _('Certificates'),
		_("Certificates to trust instead of the system's, in PEM form."), { validate: validPath });
	add(at, form.Value, 'total_timeout', _('Longest call'), _('From 1s to 15m.'),
		{ placeholder: '120s', validate: validTime });
	const fallback = add(at, form.Value, 'fallback', _('Fallback'),
		_('The model that is asked instead while this one does not work.'), { validate: validAlias });
	uci.sections(CONFIG, 'model').forEach((model) => fallback.value(model.name || model['.name']));
}

/* LuCI would make a model of a section of that name, whatever it is: of `main`, say. */
function addModel(ev, name) {
	if (uci.get(CONFIG, name)) {
		ui.addNotification(null, E('p', {}, [ _('There is a section of that name.') ]), 'danger');
		return null;
	}
	return form.TypedSection.prototype.handleAdd.apply(this, arguments);
}

function priceOptions(at) {
	[
		[ 'price_input', _('Price of input'),
			_("Dollars per million tokens, from the provider's list. Needed for limits of cost; 0 means that it is free.") ],
		[ 'price_output', _('Price of output'), _('Dollars per million tokens.') ],
		[ 'price_cached_input', _('Price of cached input'),
			_("Dollars per million tokens that the provider had in its cache; without it the price of input.") ],
		[ 'price_cache_write', _('Price of writing the cache'),
			_('Dollars per million tokens that the provider writes to its cache; without it the price of input.') ],
		[ 'price_per_call', _('Price of a call'), _('Dollars per call, beside its tokens.') ]
	].forEach((price) => add(at, form.Value, price[0], price[1], price[2], { validate: validMoney }));
}

function overheadOptions(at) {
	add(at, form.Value, 'input_factor', _('Tokens of a byte'),
		_('How many tokens a byte of text can become at most; 1 is safe for all that is known.'),
		{ placeholder: '1', validate: validFactor });
	add(at, form.Value, 'overhead_per_call', _('Extra tokens of a call'),
		_('Input tokens that the provider adds to each call.'),
		{ placeholder: '64', validate: whole(0, 65536) });
	add(at, form.Value, 'overhead_per_message', _('Extra tokens of a message'),
		_('Input tokens that the provider adds to each message.'),
		{ placeholder: '16', validate: whole(0, 4096) });
}

function limitOptions(section) {
	const at = { section: section };

	add(at, form.Value, 'name', _('Name'), _('visitor-day, visitor-burst, visitor-at-once and site-day replace the limits of these names.'),
		{ rmempty: false, validate: validLimitName, cfgvalue: nameOf });
	choose(at, 'per', _('Per'), _('Whose use is counted together.'),
		[ [ 'address', _('address') ], [ 'visitor', _('visitor (a cookie)') ], [ 'account', _('account') ],
		  [ 'key', _('key') ], [ 'anonymous', _('all anonymous callers') ], [ 'everyone', _('everyone') ] ]);
	choose(at, 'unit', _('Counts'), _('What is counted. Cost needs the prices of all models.'),
		[ [ 'calls', _('calls') ], [ 'tokens', _('tokens') ], [ 'cost', _('cost in dollars') ],
		  [ 'concurrent', _('calls at once') ] ]);
	const window = add(at, form.Value, 'window', _('In'),
		_('A calendar hour, day or month, or any interval such as 10s or 30d.'),
		{ rmempty: false, validate: validWindow });
	[ [ 'hour', _('an hour') ], [ 'day', _('a day') ], [ 'month', _('a month') ] ].forEach((choice) =>
		window.value(choice[0], choice[1]));
	[ 'calls', 'tokens', 'cost' ].forEach((unit) => window.depends('unit', unit));
	add(at, form.Value, 'max', _('At most'), _('0 admits nothing; the word unlimited counts and never refuses.'),
		{ rmempty: false, validate: validMax });
	answer(at, 'dry_run', _('Dry run'), _('It refuses nothing, and the program tells how many calls it would have refused.'),
		{ modalonly: true });
	answer(at, 'pace', _('Evenly'), _('What is admitted is released evenly over the hour, day or month, for everyone or anonymous callers: a crowd in the morning does not close the site until midnight.'),
		{ modalonly: true });
}

function alertOptions(section) {
	const at = { section: section };

	add(at, form.Value, 'url', _('Address'),
		_('Where alerts are posted as JSON. Without one they are shown on the status page alone. Many services put a secret into it.'),
		{ password: true, validate: validUrl });
	secret(at, '_token', 'token', null, _('Token'), _('Sent along as bearer token. This page does not show it again.'));
	add(at, form.DynamicList, 'at', _('At'),
		_('At which percentages of a limit for everyone or anonymous callers, ascending.'),
		{ validate: whole(1, 100) });
}

return view.extend({
	load: function() {
		return uci.load('pennygate');
	},

	render: function() {
		const map = new form.Map('pennygate', _('Pennygate'),
			_('A page can ask a model until its budget is spent, and no longer. A change is checked before it is used: if it has a fault, what ran goes on as it was, and the status page says why.'));
		const main = map.section(form.NamedSection, 'main', 'pennygate', _('Site'));

		generalOptions(main);
		callerOptions(main);
		requestOptions(main);

		const models = map.section(form.TypedSection, 'model', _('Models'),
			_('The model APIs that callers may ask; the first is the default.'));

		Object.assign(models, { anonymous: false, addremove: true, handleAdd: addModel });
		modelOptions(models);

		const limits = map.section(form.GridSection, 'limit', _('Limits'),
			_('A call is admitted only if every limit still has room for the most that it can use. visitor-day (40 calls), visitor-burst (10 in 10s), visitor-at-once (2) and site-day (600 calls) hold even if they are deleted here.'));

		Object.assign(limits, { anonymous: true, addremove: true, sortable: true, nodescriptions: true });
		limitOptions(limits);

		alertOptions(map.section(form.NamedSection, 'alerts', 'alerts', _('Alerts')));
		return map.render();
	}
});
