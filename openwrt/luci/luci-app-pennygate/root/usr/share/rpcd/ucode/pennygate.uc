'use strict';

/*
 * What the LuCI app may ask of the program: its figures, its verdict, pause and resume.
 *
 * Security: rpcd's file plugin runs the program from a list of words, all of them written here,
 * with no shell between; it ends it when it takes longer than rpcd's timeout or prints more than
 * that plugin holds. No method takes an argument, so nothing a browser sends comes near a command.
 * Nothing is called that waits: rpcd would not answer the file plugin's call to itself.
 */

import { readfile } from 'fs';
import { connect } from 'ubus';
import { cursor } from 'uci';

const PROGRAM = '/usr/sbin/pennygate';

/* What the init script could not do when it was called last, if there was anything. */
const ERRORS = '/var/run/pennygate/errors';
const ERRORS_MAX = 4096;

const bus = connect();

/* Calls back with an answer, or null if there was none; what rpcd wants returned, so that it
 * waits for the call back. */
function ask(object, method, args, done) {
	const sent = bus?.defer(object, method, args, function(code, answer) {
		done(code == 0 ? answer : null);
	});

	if (!sent)
		done(null);
	return sent;
}

function run(words, done) {
	return ask('file', 'exec', { command: PROGRAM, params: words }, function(answer) {
		done({
			code: answer?.code ?? -1,
			stdout: answer?.stdout ?? '',
			stderr: answer?.stderr ?? ''
		});
	});
}

/* Of the configuration only what no secret is in, so that who may see the figures sees no key. */
function service_of(services) {
	const instances = services?.pennygate?.instances ?? {};
	const uci = cursor();

	return {
		enabled: index([ '1', 'on', 'true', 'yes', 'enabled' ], uci.get('pennygate', 'main', 'enabled')) >= 0,
		server: uci.get('pennygate', 'main', 'server') ?? 'lighttpd',
		running: length(filter(values(instances), (instance) => instance.running)) > 0,
		errors: readfile(ERRORS, ERRORS_MAX) ?? ''
	};
}

function status(request) {
	return ask('service', 'list', { name: 'pennygate' }, function(services) {
		run([ 'stats', '--json' ], function(stats) {
			run([ 'check' ], function(check) {
				request.reply({ service: service_of(services), stats, check });
			});
		});
	});
}

function pause(request) {
	return run([ 'pause' ], (done) => request.reply(done));
}

function resume(request) {
	return run([ 'resume' ], (done) => request.reply(done));
}

return {
	'luci.pennygate': {
		status: { call: status },
		pause: { call: pause },
		resume: { call: resume }
	}
};
