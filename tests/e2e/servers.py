"""Pennygate behind every web server, with the configurations of platform/ as an owner pastes them:
only paths and, where a test is about that, the mount are put in their place, and what they say of
accounts is taken in. Around them stands a site that compresses whatever it can, as many do.

`WEB` are the modes. What differs between servers are attributes of their classes: see Pasted.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from harness import GROUP, MODES, ROOT, SERVERS, USER, Server

LIGHTTPD = tuple(f"lighttpd-{mode}" for mode in MODES)
WEB = (*LIGHTTPD, "apache-proxy", "apache-cgid", "nginx", "caddy", "uhttpd")
PROGRAM = "/usr/local/sbin/pennygate"
HASH_OF_WORD = "$2a$04$qo20IFG5KJaFFThjo0PJeuVy1cBrlwfdAVFxdcy5ws.UI2sfS6936"  # by bcrypt at its least cost
SOCKET = "/run/pennygate-web/pennygate.sock"


def program_of(mode):
    """The web server's own program."""
    return {"lighttpd": "lighttpd", "apache": "apache2", "nginx": "nginx", "caddy": "caddy",
            "uhttpd": sys.executable}[mode.partition("-")[0]]


def why_not(mode):
    """Why this mode cannot run here; None if it can."""
    if not shutil.which(program_of(mode), path=os.environ.get("PATH", "") + ":/usr/sbin"):
        return f"{program_of(mode)} is not installed (tests/packages.sh servers)"
    if mode == "apache-fcgid" and not (Apache.MODULES / "mod_fcgid.so").exists():
        return "libapache2-mod-fcgid is not installed (tests/packages.sh servers)"
    return None


def without_comments(text, *beginnings):
    """The lines that begin so, with their comment sign taken away."""
    for beginning in beginnings:
        assert f"#{beginning}" in text, beginning
        text = text.replace(f"#{beginning}", beginning)
    return text


class Pasted(Server):
    """A web server with a file of platform/. `mount` is the path that it is mounted at in place of
    the file's, "" for the root; with `unsplit` what divides the path is taken out of the file;
    `changes` are pairs of what the file has and what stands there instead; with `owners`, as
    {name: word}, the server asks for the owner's pages as its files say."""

    file = None
    divides = ()  # what does so, as regular expressions
    forwards = True  # X-Forwarded-For arrives
    own_headers = True  # so do those that only we know
    leaving_seen_after = 0  # how many more pieces have been sent before a caller's leaving shows
    kills = False  # the program is killed then

    def __init__(self, site, mode, mount=None, unsplit=False, changes=(), owners=None, **options):
        self.mount = self.mount if mount is None else mount
        self.owners = owners or {}
        self.unsplit, self.changes = unsplit, changes
        super().__init__(site, mode, **options)

    def page(self, name, text):
        """A page of the site that pennygate is mounted in."""
        path = self.directory / name
        path.write_text(text, encoding="ascii")
        path.chmod(0o644)

    def is_external(self):
        return True

    def pasted(self, *changes):
        """The file with this test's mount, paths and changes."""
        text = (ROOT / "platform" / self.file).read_text(encoding="utf-8")
        if self.is_external():
            assert SOCKET in text
        for pattern in self.divides if self.unsplit else ():
            text, n = re.subn(pattern, "", text)
            assert n, pattern
        text = self.remount(text.replace(SOCKET, str(self.site.socket)))
        for shown, real in (*self.changes, *changes):
            assert shown in text, f"{self.file} no longer has {shown}"
            text = text.replace(shown, str(real))
        return text

    def remount(self, text):
        """As the file's head says how to mount elsewhere."""
        return text.replace("/ai", self.mount or "/")

    def accounts_file(self, name, users):
        """{name: word} as a file of `name:hash`."""
        path = self.directory / name
        lines = [user + ":" + subprocess.run(["openssl", "passwd", "-apr1", word], capture_output=True,
                                             text=True, check=True).stdout
                 for user, word in users.items()]
        path.write_text("".join(lines), encoding="ascii")
        self.site.own(path)
        return path

    def owners_conf(self, file):
        """The file of platform/ that asks for the owner's pages, with this test's mount."""
        if not self.owners:
            return ""
        text = (ROOT / "platform" / file).read_text(encoding="utf-8")
        shown = re.search(r"/etc/\w+/owners(?=\"?$)", text, re.M)[0]
        return text.replace(shown, str(self.accounts_file("owners", self.owners))).replace("/ai", self.mount)

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return path


class Lighttpd(Pasted):
    def __init__(self, site, mode, **options):
        self.way = mode.removeprefix("lighttpd-")
        self.file = f"lighttpd/{self.way}.conf"
        super().__init__(site, mode, **options)

    def is_external(self):
        return self.way == "external"

    def remount(self, text):
        if not self.mount:
            text = text.replace('"^/ai(/|$)"', '"^/"')
            return text.replace('( "/ai" =>', '( "" =>' if self.way == "cgi" else '( "/" =>')
        return text.replace("/ai", self.mount)

    def configuration(self, stream):
        environment = f'"PENNYGATE_CONFIG" => "{self.site.config}"'
        changes = []
        if self.way == "cgi":
            program = self.directory / "bin/pennygate"
            program.parent.mkdir()
            shutil.copy(self.site.program, program)
            changes = [(f'"{PROGRAM}"', f'"{program}"')]
        elif self.way == "spawned":
            changes = [(f'"{PROGRAM}"', f'"{self.site.program}"'),
                       ("/run/lighttpd/pennygate.sock", self.directory / "fcgi.sock"),
                       ('( "PATH" ),', f'( "PATH" ), "bin-environment" => ( {environment} ),')]
        user = f'server.username = "{USER}"\nserver.groupname = "{GROUP}"\n' if GROUP else ""
        return f'''
server.port = {self.port}
server.bind = "127.0.0.1"
server.document-root = "{self.directory}"
server.errorlog = "{self.log_path}"
{user}
{self.accounts()}
{self.owners_conf("lighttpd/dashboard.conf")}
server.modules += ("mod_setenv", "mod_deflate")
deflate.mimetypes = ("text/", "application/json")
deflate.allowed-encodings = ("gzip")
setenv.set-environment = ( {environment} )
''' + self.pasted(*changes)


class Apache(Pasted):
    MODULES = pathlib.Path("/usr/lib/apache2/modules")
    leaving_seen_after = 2
    divides = (r"    ProxyFCGISetEnvIf.*\n",)

    def __init__(self, site, mode, **options):
        self.way = mode.removeprefix("apache-")
        self.file = {"proxy": "apache/proxy.conf", "cgid": "apache/cgi.conf", "cgi": "apache/cgi.conf",
                     "fcgid": "apache/fcgid.conf"}[self.way]
        super().__init__(site, mode, **options)

    def is_external(self):
        return self.way == "proxy"

    def remount(self, text):
        if self.mount:
            return text.replace('"/ai"', f'"{self.mount}"').replace("m#^/ai(", f"m#^{self.mount}(")
        for shown, real in ((f'ScriptAlias "/ai" "{PROGRAM}"', f'ScriptAlias "/" "{PROGRAM}/"'),
                            ("fcgi://pennygate", "fcgi://pennygate/"), ("m#^/ai(", "m#^("),
                            ('SCRIPT_NAME "/ai"', 'SCRIPT_NAME ""'), ('"/ai"', '"/"')):
            text = text.replace(shown, real)
        return text

    def start_web(self, stream):
        changes = [] if self.is_external() else [(PROGRAM, self.site.program)]
        text = self.pasted(*changes)
        if self.site.users:
            text = without_comments(text.replace("/etc/apache2/members", str(self.accounts_file("members", self.site.users))),
                                    "AuthType", "AuthName", "AuthUserFile", "Require")
            text = text.replace("    Require all granted\n", "")
        if GROUP:
            text = f"User {USER}\nGroup {GROUP}\n" + text
        modules = ["mpm_prefork" if self.way == "cgi" else "mpm_event", "authn_core", "authz_core", "authn_file", "authz_user", "auth_basic",
                   "alias", "env", "filter", "deflate", "reqtimeout",
                   *{"proxy": ["proxy", "proxy_fcgi"], "cgid": ["cgid"], "cgi": ["cgi"],
                     "fcgid": ["fcgid"]}[self.way]]
        path = self.write("apache.conf", "".join(
            f"LoadModule {name}_module {self.MODULES}/mod_{name}.so\n" for name in modules) + f'''
ServerName 127.0.0.1
Listen 127.0.0.1:{self.port}
ServerRoot "{self.directory}"
DocumentRoot "{self.directory}"
DefaultRuntimeDir "{self.directory}"
PidFile "{self.directory}/pid"
ErrorLog "{self.log_path}"
Timeout 300
<IfModule mpm_event_module>
StartServers 1
ServerLimit 2
ThreadsPerChild 25
MaxRequestWorkers 50
</IfModule>
RequestReadTimeout header=20-40,minrate=500
RequestReadTimeout body=10,minrate=500
AddOutputFilterByType DEFLATE text/event-stream application/json
SetEnv PENNYGATE_CONFIG "{self.site.config}"
<IfModule mod_cgid.c>
ScriptSock "{self.directory}/cgisock"
</IfModule>
<IfModule mod_fcgid.c>
FcgidIPCDir "{self.directory}"
FcgidProcessTableFile "{self.directory}/table"
FcgidInitialEnv PENNYGATE_CONFIG "{self.site.config}"
</IfModule>
<Directory />
AllowOverride None
Require all denied
</Directory>
<Directory "{self.directory}">
Require all granted
</Directory>
''' + text + self.owners_conf("apache/dashboard.conf"))
        # In a session of its own: with mpm_prefork it ends its whole process group.
        return self._popen("/usr/sbin/apache2", "-D", "FOREGROUND", "-f", path, LD_PRELOAD=None,
                           options={"start_new_session": True})

    def ready(self):
        """mod_cgid's daemon makes a socket, and only then gives it to the user."""
        sockets = list(self.directory.glob("cgisock*"))
        return super().ready() and (self.way != "cgid" or [one.owner() for one in sockets] == [USER])


class Nginx(Pasted):
    file = "nginx/pennygate.conf"
    divides = (r"    fastcgi_split_path_info.*\n",)

    def remount(self, text):
        if not self.mount:
            return text.replace("^~ /ai/ {", "/ {").replace("^(/ai)(/.*)$", "^()(/.*)$")
        return text.replace("/ai", self.mount)

    def start_web(self, stream):
        text = self.pasted()
        if self.site.users:
            file = self.accounts_file("members", self.site.users)
            text = without_comments(text, 'auth_basic           "', "auth_basic_user_file /etc/nginx/members",
                                    "fastcgi_param REMOTE_USER $remote").replace("/etc/nginx/members", str(file))
        if self.owners:
            file = self.accounts_file("owners", self.owners)
            text = without_comments(text, "set", "if", "    set", "}", "auth_basic           $",
                                    "auth_basic_user_file /etc/nginx/owners",
                                    "fastcgi_param REMOTE_USER $pennygate").replace("/etc/nginx/owners", str(file))
        self.page("theirs.html", "a page of the site")
        user = f"user {USER} {GROUP};" if GROUP else ""
        temporary = "".join(f"{kind}_temp_path {self.directory}/{kind};\n" for kind in (
            "client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        path = self.write("nginx.conf", f'''
{user}
worker_processes 1;
pid {self.directory}/pid;
error_log {self.log_path};
events {{ worker_connections 512; }}
http {{
{temporary}
access_log off;
gzip on;
gzip_types *;
gzip_proxied any;
gzip_min_length 1;
server {{
listen 127.0.0.1:{self.port};
root {self.directory};
error_page 400 401 403 404 405 413 415 429 500 502 503 504 /theirs.html;
fastcgi_intercept_errors on;
{text}
}}
}}
''')
        return self._popen("/usr/sbin/nginx", "-p", self.directory, "-c", path, "-g", "daemon off;",
                           LD_PRELOAD=None)


class Caddy(Pasted):
    file = "caddy/pennygate.caddy"
    divides = (r"(?<=handle)_path", r"env SCRIPT_NAME .*")
    forwards = False
    leaving_seen_after = 4

    def remount(self, text):
        if not self.mount:
            return text.replace(" /ai/* {", " /* {").replace("SCRIPT_NAME /ai", 'SCRIPT_NAME ""')
        return text.replace("/ai", self.mount)

    def start_web(self, stream):
        text = self.pasted()
        if self.owners:
            before, inside = re.findall(r"`(@owner path .*?|basicauth @owner \{)`", text)
            text = text.replace("\t#basicauth {", f"\t{before}\n\t#{inside}")
        users = self.site.users or self.owners
        if users:
            assert users == {"ann": "word"}
            text = without_comments(text.replace("ann HASH", f"ann {HASH_OF_WORD}"), "basicauth ", "	ann ", "}")
        path = self.write("Caddyfile", f'''{{
	admin off
	auto_https off
	grace_period 1s
}}
http://127.0.0.1:{self.port} {{
	bind 127.0.0.1
	root * {self.directory}
	encode gzip
	file_server
{text}
}}
''')
        as_user = {"user": USER, "group": GROUP, "extra_groups": []} if GROUP else {}
        return self._popen("caddy", "run", "--adapter", "caddyfile", "--config", path, options=as_user,
                           HOME=str(self.directory), LD_PRELOAD=None)


class Uhttpd(Pasted):
    """The stand-in of uhttpd.py, which reads the file of platform/ for its options."""

    file = "uhttpd/pennygate.uci"
    mount = "/cgi-bin/pennygate"
    forwards = own_headers = False
    kills = True

    def is_external(self):
        return False

    def start_web(self, stream):
        home = self.directory / "www"
        path = self.write("uhttpd", self.pasted(("/usr/share/pennygate/www", home)))
        program = home / self.mount[1:]
        program.parent.mkdir(parents=True)
        exports = " ".join(f"{name}='{value}'" for name, value in {
            **self.site.environment(), "PENNYGATE_CONFIG": self.site.config}.items())
        program.write_text(f"#!/bin/sh\n{exports} exec {self.site.program}\n", encoding="ascii")
        program.chmod(0o755)
        more = [f"{name}:{word}" for name, word in self.site.users.items()]
        as_user = {"user": USER, "group": GROUP, "extra_groups": []} if GROUP else {}
        return self._popen(sys.executable, ROOT / "tests/e2e/uhttpd.py", path, str(self.port), *more,
                           options=as_user, LD_PRELOAD=None)

    def remount(self, text):
        return text


SERVERS.update(dict.fromkeys(LIGHTTPD, Lighttpd))
SERVERS.update({mode: Apache for mode in ("apache-proxy", "apache-cgid", "apache-cgi", "apache-fcgid")})
SERVERS.update(nginx=Nginx, caddy=Caddy, uhttpd=Uhttpd)
