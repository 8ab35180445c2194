"""What the init script makes of /etc/config/pennygate: every value as it is or an error, keys in files
of their own and nowhere else, and a configuration with a fault never in force."""
import os
import re
import shutil
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router import GROUP, KEY, RECIPE, ROOT, USER

HOSTILE = st.text(st.sampled_from("ab '\"\\${}#=/*\n\t~é\u2028"), min_size=1, max_size=24).filter(
    lambda name: "/" not in name and len(name.encode()) < 100)


def has_a_form(name):
    """As pennygate.conf(5) says of quotes: no escape character, no ${, and the line's end ends them."""
    return not ({"\\", "\n", "\t"} & set(name) or "${" in name or ("'" in name and '"' in name))


def text_of(router):
    return router.conf.read_text(encoding="utf-8")


def options(router, head):
    """{key: value as written} of a section."""
    body = re.search(rf"^{head} {{\n(.*?)^}}", text_of(router), re.M | re.S)[1]
    return dict(line.strip().split(" = ", 1) for line in body.splitlines())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(HOSTILE, min_size=1, max_size=3, unique=True))
def test_a_path_is_read_back_as_it_was_set_or_refused(router, names):
    """The program opens what it read: of all these names just the right one is there."""
    shutil.rmtree(router.state / "names", ignore_errors=True)
    router.conf.unlink(missing_ok=True)
    (router.state / "names").mkdir(parents=True)
    files = [router.state / "names" / name for name in names]
    for file in files:
        file.write_text(KEY, encoding="ascii")
        file.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(file, USER, GROUP)
    (router.state / "names").chmod(0o755)
    more = [("model", f"more{n}", {"url": "http://127.0.0.1:1/v1", "model": "practice", "price_input": "1",
                                   "price_output": "1", "key_file": file}) for n, file in enumerate(files)]
    router.configure(more=more)
    router.init("start")
    assert router.conf.exists() == all(map(has_a_form, names)), router.log()
    assert (router.params() != {}) == router.conf.exists()


@pytest.mark.parametrize("prompt", ["plain", "two\nlines\n\n", "it's \"both\"", "\\n ${HOME} $(id) `id` $x %s",
                                    "FILE\n\tFILE\nFILE", "'; } limit x { #", "Sei höflich.\u2028", "x" * 5000])
def test_a_prompt_is_whatever_was_written(router, prompt):
    router.configure(model={"system_prompt": prompt})
    router.init("start")
    path = options(router, "model demo")["system-prompt-file"].strip("'")
    assert open(path, encoding="utf-8").read() == prompt + "\n"
    assert router.pennygate("check").returncode == 0


def test_the_values_that_a_form_can_have_all_arrive(router):
    """Each option of the script's tables is one that the program knows, with such a value."""
    values = {"output_field": "max_tokens", "reasoning": "low", "thinking_tokens": "7", "price_cached_input": "0.5",
              "price_cache_write": "0.7", "price_per_call": "0.01", "input_factor": "1.5",
              "overhead_per_call": "65", "overhead_per_message": "17", "total_timeout": "90s", "fallback": "other",
              "provider": "openai", "max_output_tokens": "200"}
    main = {"timezone": "utc", "retention": "8d", "require": "none", "site_ceiling": "none",
            "proxy_header": "forwarded", "cookie_cross_site": "1", "max_message_chars": "100",
            "max_input_chars": "300", "max_history": "5", "max_body_bytes": "32K", "log_level": "warning",
            "allowed_origin": ["https://a.example", "http://b.example:8000"],
            "trusted_proxy": ["192.0.2.1", "fd00::/8"]}
    limits = {"spend": {"per": "everyone", "unit": "cost", "window": "month", "max": "5.00", "dry_run": "1",
                        "pace": "0", "name": "all-money"}}
    other = {"name": "other", "url": "http://127.0.0.1:1/v1", "model": "small", "price_input": "1",
             "price_output": "1"}
    router.configure(main, values, limits, [
        ("model", "m2", other), ("alerts", "alerts", {"url": "https://hook.example/x", "token": KEY,
                                                      "at": ["70", "90"]})])
    router.init("start")
    assert router.conf.exists(), router.log()
    written = options(router, "model demo")
    assert all(written[name.replace("_", "-")] == f"'{value}'" for name, value in values.items())
    site = options(router, "site")
    assert site["allowed-origins"] == "{ 'https://a.example', 'http://b.example:8000' }"
    assert site["trusted-proxies"] == "{ '192.0.2.1', 'fd00::/8' }"
    assert site["cookie-cross-site"] == "'yes'" and site["proxy-header"] == "'forwarded'"
    assert options(router, "request")["max-body-bytes"] == "'32K'"
    assert options(router, "log")["level"] == "'warning'"
    assert options(router, "limit all-money") == {
        "per": "'everyone'", "unit": "'cost'", "window": "'month'", "max": "'5.00'", "dry-run": "'yes'",
        "pace": "'no'"}
    assert options(router, "alerts")["at"] == "{ '70', '90' }"


def test_one_entry_alone_can_be_written_as_an_option(router):
    router.configure(main={"allowed_origin": "https://a.example"})
    router.init("start")
    assert options(router, "site")["allowed-origins"] == "{ 'https://a.example' }"


def test_every_option_of_the_shipped_file_is_one_that_the_script_knows():
    shipped = (RECIPE / "files/pennygate.config").read_text(encoding="utf-8")
    script = (RECIPE / "files/pennygate.init").read_text(encoding="utf-8")
    known = set(re.findall(r"\b(\w+):(?:or\(|string|bool|port|uinteger|list)", script))
    assert set(re.findall(r"^#?\t#?(?:option|list) (\w+)", shipped, re.M)) == known


def test_the_shipped_file_becomes_a_configuration_once_it_has_been_enabled(router):
    text = router.uci.read_text(encoding="utf-8")
    router.uci.write_text(text.replace("option enabled '0'", "option enabled '1'"), encoding="utf-8")
    router.init("start")
    assert router.conf.exists(), router.log()
    assert options(router, "limit visitor-burst")["window"] == "'10s'"


@pytest.mark.parametrize("name, told", [
    ("secret", "is the secret"), ("./secret", "is the secret"), ("/secret", "is the secret"), ("link", "is the secret"),
    ("store/../secret", r"has \.\."), ("../pennygate/key", r"has \.\.")])
def test_the_secret_is_no_key(router, name, told):
    """A key goes to the address that is set beside it: with LuCI's right to these settings the secret
    could be had, under which all visitors are hashed."""
    router.configure()
    router.init("start")
    (router.state / "link").symlink_to(router.state / "secret")
    router.configure(model={"key": "", "key_file": f"{router.state}/{name}"})
    router.init("reload")
    assert re.search(f"demo.key_file {told}", router.log()), router.log()
    assert "key-demo" in options(router, "model demo")["key-file"]


@pytest.mark.parametrize("change, told", [
    ({"model": {"max_output_tokens": "-1"}}, "model demo: max_output_tokens has no valid value"),
    ({"main": {"server": "apache"}}, "main: server has no valid value"),
    # OpenWrt's check lets these pass.
    ({"main": {"server": 'uhttpd"'}}, "main.server is neither lighttpd nor uhttpd"),
    ({"main": {"port": "-1"}}, "main.port is no port"),
    ({"main": {"enabled": "TRUE"}}, "main.enabled is neither 1 nor 0"),
    ({"main": {"cookie_cross_site": "No"}}, "main.cookie_cross_site is neither 1 nor 0"),
    ({"limits": {"x": {"per": "everyone", "unit": "calls", "window": "day", "max": "9", "dry_run": "YES"}}},
     "x.dry_run is neither 1 nor 0"),
    ({"main": {"mount": "/"}}, "main.mount is no path"),
    ({"main": {"mount": "ai"}}, "main.mount is no path"),
    ({"main": {"mount": "/a'b"}}, "main.mount is no path"),
    ({"main": {"mount": "/a#b"}}, "main.mount is no path"),
    ({"model": {"name": "a b"}}, "demo.name has other characters"),
    ({"model": {"key_file": "/etc/key"}}, "demo has both key and key_file"),
    ({"model": {"key": "", "key_file": "/etc/passwd"}}, "demo.key_file is not in"),
    ({"model": {"key": "", "key_file": "relative"}}, "demo.key_file is not in"),
    # What would be another option, if it came through.
    ({"model": {"model": "it's\" price-per-call = \"9"}}, "demo.model has both kinds of quotes"),
    ({"model": {"model": "back\\slash"}}, "demo.model has a backslash"),
    ({"model": {"model": "${HOME}"}}, r"demo.model has \$\{"),
    ({"model": {"price_input": "1\n}"}}, "demo.price_input has more than one line"),
    ({"limits": {"x": {"per": "everyone", "unit": "calls", "window": "week", "max": "1"}}},
     r"pennygate.conf:\d+: limit x: window 'week' is not"),
    ({"limits": {"x": {"per": "everyone", "unit": "calls", "window": "day", "max": "010"}}},
     r"pennygate.conf:\d+: limit x: max '010'"),
    ({"more": [("limt", "x", {"per": "everyone"})]}, "limt: no such section"),
    ({"limits": {"x": {"per": "everyone", "unit": "calls", "window": "day", "max": "9", "pase": "1"}}},
     "pase: no such option"),
    ({"more": [("pennygate", "other", {"require": "key"})]}, "pennygate other: such a section is called main"),
    ({"main": {"allowed_origins": ["https://a.example"]}}, "allowed_origins: no such option"),
    ({"model": {"price_output": ""}}, "one of price-input and price-output is missing"),
])
def test_a_fault_is_told_and_the_configuration_before_it_stays(router, change, told):
    router.configure()
    router.init("start")
    before = text_of(router)
    router.configure(**change)
    router.init("reload")
    assert re.search(told, router.log()), router.log()
    assert "the configuration before this one stays in force" in router.log()
    errors = router.run_directory / "errors"  # for LuCI's page
    assert re.search(told, errors.read_text(encoding="utf-8")) and errors.stat().st_mode & 0o777 == 0o600
    assert text_of(router) == before and router.pennygate("check").returncode == 0
    assert router.params()["command"][-1] == "serve"
    router.configure(main={"mount": "/other"})
    router.init("reload")
    assert "mount = '/other'" in text_of(router) and not errors.exists()


UNREADABLE = {
    "a section's word": ("config limit 'x'", "confg limit 'x'"),
    "an option's word": ("\toption max '7'", "\toptoin max '7'"),
    "quotes that do not end": ("option max '7'", "option max '7"),
    "a word too many": ("option max '7'", "option max 7 0"),
    "nothing that can be read": ("config pennygate 'main'", "config pennygate 'main"),
}


def spoil(router, fault):
    text = router.uci.read_text(encoding="utf-8")
    assert fault[0] in text
    router.uci.write_text(text.replace(*fault), encoding="utf-8")


@pytest.mark.parametrize("fault", UNREADABLE.values(), ids=UNREADABLE)
def test_what_uci_cannot_read_is_told_and_the_configuration_before_it_stays(router, fault):
    """config_load leaves it out: the limit, or all there is, with what says that it is enabled."""
    limits = {"x": {"per": "everyone", "unit": "calls", "window": "day", "max": "7"}}
    router.configure(limits=limits)
    router.init("start")
    before = text_of(router)
    spoil(router, fault)
    router.init("reload")
    assert re.fullmatch("/etc/config/pennygate: uci: Parse error.*\nthe configuration before this one stays in "
                        "force\n", router.errors().replace(str(router.root), "")), router.errors()
    assert text_of(router) == before and router.pennygate("check").returncode == 0
    assert router.params()["command"][-1] == "serve"
    assert (router.root / "etc/lighttpd/conf.d/45-pennygate.conf").exists()


@pytest.mark.parametrize("fault", UNREADABLE.values(), ids=UNREADABLE)
def test_at_first_nothing_starts_with_what_uci_cannot_read(router, fault):
    router.configure(limits={"x": {"per": "everyone", "unit": "calls", "window": "day", "max": "7"}})
    spoil(router, fault)
    router.init("start")
    assert router.done.returncode != 0 and "Parse error" in router.log()
    assert not router.conf.exists() and not router.called("procd_open_instance") and not router.made.exists()


@pytest.mark.parametrize("bytes_left", [0, 700, 2000])
def test_what_cannot_be_written_as_a_whole_is_not_in_force(router, bytes_left):
    """Where the memory is full. What is cut can read as a configuration that has a limit less."""
    some = {"per": "everyone", "unit": "calls", "window": "day", "max": "7"}
    router.configure(limits={f"limit_{n}": some for n in range(20)})
    router.wrap('case "$*" in *check) exit 0 ;; esac')  # as if the end came where a section ends
    full = (sys.executable, "-c", f"""import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes_left}, {bytes_left}))
os.execv(sys.argv[1], sys.argv[1:])""")
    router.init("start", prefix=full)
    assert router.done.returncode != 0
    assert not router.conf.exists() and not router.called("procd_open_instance")


@pytest.mark.parametrize("change", [{"model": {"max_output_tokens": "0"}}, {"model": {"url": ""}}])
def test_at_first_nothing_starts_with_a_fault(router, change):
    router.configure(**change)
    router.init("start")
    assert router.done.returncode != 0
    assert not router.conf.exists() and not router.called("procd_open_instance") and not router.made.exists()


def test_a_reload_without_a_change_gives_the_same_instance(router):
    router.configure()
    first = router.init("start")
    assert [call for call in router.init("reload") if call[0].startswith("procd")] == [
        call for call in first if call[0].startswith("procd")]


def test_keys_are_in_files_for_root_and_the_program_alone(router):
    router.configure(more=[("alerts", "alerts", {"url": "https://hook.example/x", "token": KEY})])
    router.init("start")
    holders = [path for path in router.files() if KEY.encode() in path.read_bytes()]
    assert {path.name for path in holders} == {"pennygate", "key-demo", "token"}
    assert {oct(path.stat().st_mode & 0o777) for path in holders} == {"0o600", "0o640"}
    assert router.mode("var/run/pennygate") == router.mode("etc/pennygate") == 0o750
    assert router.mode("var/run/pennygate/run") == 0o700
    assert router.mode("var/run/pennygate-web") == 0o2750
    assert KEY not in text_of(router)


@pytest.mark.parametrize("change", [{}, {"main": {"port": "x"}}, {"model": {"max_output_tokens": "x"}},
                                    {"model": {"key_file": "/k"}}, {"main": {"mount": "x"}}])
def test_keys_and_prompts_are_in_no_log_and_on_no_command_line(router, change):
    prompt = "a prompt that nobody sees"
    router.configure(**{**change, "model": {"system_prompt": prompt, **change.get("model", {})}},
                     more=[("alerts", "alerts", {"url": "https://hook.example/secret-path", "token": KEY})])
    trace = router.root / "trace"
    router.init("start", prefix=("/usr/bin/strace", "-f", "-qq", "-s", "100000", "-o", trace, "-e", "trace=execve"))
    run = trace.read_text(encoding="utf-8", errors="replace")
    assert "execve(" in run and "check" in run or change
    for secret in (KEY, prompt, "secret-path"):
        for text in (run, router.log(), router.done.stdout, router.done.stderr,
                     router.record.read_text(encoding="utf-8")):
            assert secret not in text


def test_what_was_in_force_is_gone_when_it_is_disabled(router):
    router.configure()
    router.init("start")
    router.configure(main={"enabled": "0"})
    router.init("reload")
    assert not router.called("procd_open_instance") and not router.conf.exists()
    assert not [path for path in router.files() if KEY.encode() in path.read_bytes() and path != router.uci]


def test_the_options_are_those_of_the_program():
    """Names of the tables, with - for _, are keys of the program's table."""
    script = (RECIPE / "files/pennygate.init").read_text(encoding="utf-8")
    source = (ROOT / "gateway/config_options.c").read_text(encoding="utf-8")
    tables = " ".join(re.findall(r"^(?:SITE|REQUEST|SERVER|MODEL|LIMIT)_OPTIONS='(.*?)'", script, re.M | re.S))
    for name in re.findall(r"\b(\w+):(?:or\(|string|bool|uinteger)", tables):
        assert f'"{name.replace("_", "-")}"' in source, name
