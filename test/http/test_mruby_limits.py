"""Ruby's limits: no script harms more than its own request."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from lib.nginx import Nginx
from lib.ruby import content, load_ruby, quoted
from lib.site import Site
from lib.wait import wait_until

WELL = content('Nginx.rputs "well"', "/well")

# for tests of another limit, whatever the machine
PATIENT = "mruby_time_limit 1h;"


@pytest.fixture
def ruby(site: Site) -> Site:
    """A site with the module for Ruby."""
    load_ruby(site)
    return site


def assert_well(nginx: Nginx) -> None:
    """Check that the one worker that there was still serves."""
    before = nginx.workers()
    assert nginx.get("/well").body == b"well"
    assert nginx.workers() == before


ENDLESS = {
    "loop": "loop { }",
    "while": "while true; end",
    "until": "until false do end",
    "rescue": "begin; while true; end; rescue Exception; retry; end",
    "rescue-around": """
        while true
          begin
            while true; end
          rescue Exception => e
            1
          ensure
            while true; end
          end
        end
    """,
    "deep-rescue": """
        def f(n)
          begin
            n == 0 ? loop { } : f(n - 1)
          rescue Exception
            loop { }
          ensure
            loop { }
          end
        end
        f(50)
    """,
    "catch": "catch(:x) { loop { catch(:y) { throw :y } } }",
    "fiber": "f = Fiber.new { loop { Fiber.yield 1 } }; loop { f.resume }",
    "fiber-inside": "Fiber.new { while true; end }.resume",
    "enumerator": "e = [1].cycle; loop { e.next }",
    "sort": "a = (1..300).to_a; loop { a.sort { |x, y| y <=> x } }",
    "send": "loop { 1.send(:+, 1) }",
    "define": "loop { Object.define_method(:zz) { 1 } }",
    "symbols": "i = 0; loop { i += 1; i % 100 }",
    "method-missing": """
        class Ghost
          def method_missing(name, *args)
            while true; end
          end
        end
        Ghost.new.boo
    """,
    "to-s": """
        class Endless
          def to_s
            while true; end
          end
        end
        Nginx.rputs Endless.new
    """,
    "hash": """
        class Key
          def hash
            while true; end
          end
        end
        many = {}
        30.times { |i| many[i] = i }
        many[Key.new] = 1
    """,
    "output": "loop { Nginx.rputs '' }",
    "headers": "h = Nginx::Headers_out.new; loop { h['X-A']; }",
}


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS)
def test_endless(ruby: Site, code: str) -> None:
    """It ends with 500 and a line that says where, as often as it is asked for."""
    nginx = ruby.start(
        f"{PATIENT} mruby_limits instructions=200000;" + content(code) + WELL
    )
    for _ in range(3):
        assert nginx.get("/ruby").status == 500
        assert_well(nginx)
    lines = [s for s in nginx.errors() if "mruby:" in s]
    assert len(lines) == 3
    for line in lines:
        assert re.search(
            r"Nginx::LimitExceeded: more than 200000 instructions, at \S+:\d+", line
        )


def test_endless_message(ruby: Site) -> None:
    """An exception whose own message never ends is cut short as well."""
    code = """
        class Sly < StandardError
          def message
            loop { }
          end
          def backtrace
            loop { }
          end
        end
        raise Sly
    """
    nginx = ruby.start(content(code) + WELL)
    assert nginx.get("/ruby").status == 500
    nginx.wait_for_log("mruby: .*: Sly: ")
    assert_well(nginx)


GREEDY = {
    "string": 'x = "a" * 1000; while true; x = x + x; end',
    "append": 'x = ""; while true; x << "aaaaaaaaaaaaaaaaaaaaaaaa"; end',
    "at-once": '"a" * 1_000_000_000',
    "array": "a = []; while true; a << [1, 2, 3]; end",
    "array-at-once": "Array.new(1_000_000_000)",
    "hash": "h = {}; i = 0; while true; h[i] = i; i += 1; end",
    "global": '$a ||= []; while true; $a << "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"; end',
    "closures": "a = []; while true; b = 1; a << proc { b }; end",
    "classes": "a = []; while true; a << Class.new; end",
    "fibers": "a = []; while true; f = Fiber.new { Fiber.yield }; f.resume; a << f; end",
    "sprintf": 'sprintf("%0900000000d", 1)',
    "pack": '["a"].pack("a900000000")',
    "range": "(1..1_000_000_000).to_a",
    "ljust": '"a".ljust(900_000_000)',
    "exceptions": "a = []; while true; begin; raise 'x'; rescue => e; a << e; end; end",
    "output": 'while true; Nginx.rputs "x" * 10_000; end',
    "headers": """
        i = 0
        while true
          i += 1
          Nginx::Headers_out.new["X-#{i}"] = "v" * 10_000
        end
    """,
}


@pytest.mark.parametrize("code", GREEDY.values(), ids=GREEDY)
def test_greedy(ruby: Site, code: str) -> None:
    """A script that wants all of the memory gets an error, again and again."""
    nginx = ruby.start(
        f"{PATIENT} mruby_limits instructions=100000000 memory=1m;"
        + content(code)
        + WELL
    )
    for _ in range(3):
        assert nginx.get("/ruby").status == 500
        assert_well(nginx)
    lines = [s for s in nginx.errors() if "mruby:" in s]
    assert len(lines) == 3
    for line in lines:
        assert re.search(
            r"NoMemoryError: more than 1048576 bytes, at \S+nginx\.conf:\d+"
            r"|LimitExceeded: more than 1048576 bytes of output, at \S+nginx\.conf:\d+"
            r"|(Range|Argument)Error: .*, at \S+nginx\.conf:\d+",
            line,
        ), line


SYMBOLS = """
    a = Nginx::Request.new.args
    Nginx::Var.new.arg_n.to_i.times { |i| "symbol #{a} #{i}".to_sym }
    Nginx.rputs $n = ($n || 0) + 1
"""


def test_symbols_at_once(ruby: Site) -> None:
    """mruby keeps each symbol for good: there is an end to them."""
    nginx = ruby.start(
        f"{PATIENT} mruby_limits instructions=100000000;" + content(SYMBOLS) + WELL
    )
    for _ in range(3):
        assert nginx.get("/ruby?n=20000").status == 500
        assert_well(nginx)
    assert (
        sum("LimitExceeded: more than 10000 symbols" in s for s in nginx.errors()) == 3
    )


def test_symbols_little_by_little(ruby: Site) -> None:
    """A new VM comes before the end, and no request fails."""
    nginx = ruby.start(PATIENT + content(SYMBOLS))
    counts = [int(nginx.get(f"/ruby?n=1000&x={x}").body) for x in range(8)]
    assert counts == [1, 2, 3, 4, 5, 1, 2, 3] or counts == [1, 2, 3, 4, 5, 6, 1, 2]
    nginx.wait_for_log("a new VM, since scripts have made many symbols")
    assert not nginx.errors()


def test_search_for_a_long_string(ruby: Site) -> None:
    """It takes the sum of the lengths, not their product."""
    code = """
        a = "a" * 2_000_000
        b = "a" * 1_000_000 + "b"
        Nginx.rputs [a.index(b), a.include?(b), (a + "b").index(b)].inspect
    """
    nginx = ruby.start(f"{PATIENT} mruby_limits memory=32m;" + content(code) + WELL)
    assert nginx.get("/ruby").body == b"[nil, false, 1000000]"
    assert_well(nginx)


def test_garbage_near_the_limit(ruby: Site) -> None:
    """A script that keeps nearly all it may is not left to collect for ever."""
    code = """
        a = []
        begin
          3000.times { |i| a << "x" * 280 }
          1_000_000.times { "y" * 20_000 }
        rescue NoMemoryError
          1
        end
    """
    nginx = ruby.start(
        f"{PATIENT} mruby_limits instructions=100000000 memory=1m;"
        + content(code)
        + WELL
    )
    assert nginx.get("/ruby").status in (200, 500)
    assert_well(nginx)


def test_greedy_with_rescue(ruby: Site) -> None:
    """A rescue of everything does not go on after memory ran out."""
    code = """
        a = []
        while true
          begin
            while true
              a << "x" * 1000
            end
          rescue Exception
            1
          end
        end
    """
    nginx = ruby.start("mruby_limits memory=1m;" + content(code) + WELL)
    for _ in range(3):
        assert nginx.get("/ruby").status == 500
        assert_well(nginx)


BUSY = """
    class Thing < StandardError
      attr_accessor :a
      def method_missing(name, *rest, **more, &block)
        block ? block.call(name, *rest) : super
      end
    end
    Point = Struct.new(:x, :y) unless Object.const_defined?(:Point)
    keep = []
    n = 0
    loop do
      n += 1
      begin
        t = Thing.new("thing %05d %s" % [n, "é" * (n % 9)])
        t.a = { n => [n.to_s * 3, "k#{n % 50}".to_sym, 1.5 * n, (n..n + 3)] }
        keep << t << Point.new(n, keep.last.inspect[0, 60]) << proc { t }
        keep << t.call_me(1, 2) { |*all| all.reverse.map(&:to_s).join("-") }
        f = Fiber.new { |x| Fiber.yield(x + 1); raise t }
        keep << f.resume(n)
        f.resume
      rescue Thing => e
        keep << e.backtrace.to_a << e.message.upcase.split("").sort.join.tr("a-y", "b-z")
      ensure
        keep << [n, n.to_f].pack("Nd").unpack("C*").each_slice(2).to_a
      end
      keep << keep.each_with_index.first(3).to_h { |x, i| [i, x.class.name] }
      keep << Set.new([n, n + 1, :a]) << (catch(:done) { throw :done, n.to_s(2) })
    end
"""


def test_memory_that_runs_out_anywhere(ruby: Site) -> None:
    """Whatever mruby is doing just then, the worker goes on."""
    sizes = [64 * 1024 + 1531 * n for n in range(90)]
    nginx = ruby.start(
        "".join(
            f"location /m{n} {{ {PATIENT} mruby_limits memory={size};"
            f" mruby_content_handler_code '{quoted(BUSY)}'; }}"
            for n, size in enumerate(sizes)
        )
        + WELL
    )
    for n in range(len(sizes)):
        assert nginx.get(f"/m{n}").status == 500
    assert_well(nginx)
    lines = [s for s in nginx.errors() if "mruby:" in s]
    assert len(lines) == len(sizes)
    assert sum("NoMemoryError: more than" in s for s in lines) > len(sizes) * 0.8


DEEP = {
    "method": "def f(n); f(n + 1); end; f(0)",
    "block": "def g(&b); b.call { g(&b) }; g(&b); end; g { |&c| c }",
    "proc": "f = proc { |g| g.call(g) }; f.call(f)",
    "to-s": "class T; def to_s; Nginx.rputs self; end; end; Nginx.rputs T.new",
    "inspect": "a = []; 20000.times { a = [a] }; a.inspect",
    "flatten": "a = []; 20000.times { a = [a] }; a.flatten",
    "equal": "a = []; b = []; 9000.times { a = [a]; b = [b] }; a == b",
    "hash-of-self": "a = []; a << a; a.hash; f = proc { f.call }; f.call",
    "method-missing": "class M; def method_missing(n, *a); nope2; end; end; M.new.x",
    "fiber": "def f; Fiber.new { f }.resume; end; f",
}


# few instructions, or none, and each takes a while

LONG = {
    "hash": 's = "a" * 3_000_000; loop { s.hash }',
    "search": 's = "a" * 3_000_000; loop { s.include?("b") }',
    "upcase": 's = "a" * 3_000_000; loop { s.upcase }',
    "sort": "a = Array.new(100_000) { |i| i.to_s * 20 }; loop { a.sort }",
    "rindex": 's = "a" * 3_000_000; s.rindex("b" + "a" * 1_500_000, -1)'
    ' while s.rindex("a" * 1_500_000 + "b", -1).nil?',
    "tr": 's = "a" * 3_000_000; loop { s.tr("b" * 65_000, "c") }',
    "tr-of-many-parts": 's = "a" * 99_000; t = "b-c" * 30_000; loop { s.tr(t, "d") }',
    "sample": "Array.new(200_000, 1).sample(200_000)",
    "index": 'a = Array.new(400_000, "x"); loop { a.index("y") }',
    "equal-structs": """
        pair = Struct.new(:x, :y)
        a = b = 1
        40.times { a = pair.new(a, a); b = pair.new(b, b) }
        a == b
    """,
    "rescue": """
        s = "a" * 3_000_000
        begin
          loop { s.hash }
        rescue Exception
          retry
        ensure
          loop { s.hash }
        end
    """,
}


def seconds_of(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("code", LONG.values(), ids=LONG)
def test_time(ruby: Site, code: str) -> None:
    """A script ends after 100 ms, whatever the methods that it calls take."""
    nginx = ruby.start(
        "mruby_limits instructions=1000000000 memory=64m;" + content(code) + WELL
    )
    (pid,) = nginx.workers()
    before = seconds_of(pid)
    for _ in range(3):
        assert nginx.get("/ruby").status == 500
        assert_well(nginx)
    # a sanitizer makes a single call of these ten times as long
    most = 3.0 if ruby.flavour.name != "asan" else 15.0
    assert seconds_of(pid) - before < 3 * most
    lines = [s for s in nginx.errors() if "mruby:" in s]
    assert len(lines) == 3
    for line in lines:
        assert re.search(
            r"Nginx::LimitExceeded: more than 100 ms, at \S+nginx\.conf:\d+", line
        )


@pytest.mark.parametrize(
    "code",
    [
        "[] * 4611686018427387903",
        "1.5 << 4611686018427387903",
        "-1.5 << 4611686018427387903",
        "0.0 << 4611686018427387903",
        "(0.0 / 0.0) << 4611686018427387903",
        '"" * 4611686018427387903',
    ],
)
def test_call_without_end(ruby: Site, code: str) -> None:
    """A method of mruby's that went on for years comes back at once."""
    nginx = ruby.start(content(f"begin; {code}; rescue FloatDomainError; 1; end"))
    assert nginx.get("/ruby").status == 200


def test_tr(ruby: Site) -> None:
    """It translates as it did before it was made fast."""
    code = """
        Nginx.rputs ["hello".tr("el", "ip"), "hello".tr("aeiou", "*"),
          "hello".tr("aeiou", "AA*"), "hello".tr("a-y", "b-z"), "hello".tr("l", ""),
          "hello".tr("^aeiou", "*"), "hello".tr_s("l", "r"), "hello".tr_s("el", "*"),
          "hello".tr_s("el", "hx"), "a-b".tr("a\\-", "x"), "".tr("a", "b"),
          "abcdef".tr("a-cx-zd-f", "1-34-67-9")].join(" ")
    """
    nginx = ruby.start(content(code))
    expected = "hippo h*ll* hAll* ifmmp heo *e**o hero h*o hhxo"
    assert nginx.get("/ruby").text.startswith(expected)


def test_time_limit_is_inherited(ruby: Site) -> None:
    """From http and server, by itself."""
    code = 's = "a" * 3_000_000; loop { s.hash }'
    nginx = ruby.start(
        content(code, "/a")
        + content(code, "/b").replace("{ ", "{ mruby_time_limit 30ms; ", 1),
        http="mruby_limits instructions=1000000000; mruby_time_limit 20ms;",
    )
    assert nginx.get("/a").status == nginx.get("/b").status == 500
    first, second = nginx.errors()
    assert "more than 20 ms" in first
    assert "more than 30 ms" in second


def test_time_of_a_message(ruby: Site) -> None:
    """An exception that takes its time to say what it is gets none."""
    code = """
        class Sly < StandardError
          def message
            s = "a" * 3_000_000
            loop { s.hash }
          end
        end
        raise Sly
    """
    nginx = ruby.start(content(code) + WELL)
    (pid,) = nginx.workers()
    before = seconds_of(pid)
    assert nginx.get("/ruby").status == 500
    nginx.wait_for_log("mruby: .*: Sly: ")
    assert seconds_of(pid) - before < 10
    assert_well(nginx)


def test_time_is_the_workers_own(ruby: Site) -> None:
    """A worker that had to wait for a processor has used up none of it."""
    limit = 1.5
    nginx = ruby.start(
        f"mruby_limits instructions=1000000000; mruby_time_limit {limit * 1000:.0f}ms;"
        + content(
            "Nginx.log Nginx::LOG_ERR, 'began'; 800_000.times { };"
            " Nginx.log Nginx::LOG_ERR, 'ended'; Nginx.rputs 'done'"
        )
    )
    (pid,) = nginx.workers()
    with nginx.connect() as connection:
        connection.send_request("GET", "/ruby")
        nginx.wait_for_log("began")
        os.kill(pid, signal.SIGSTOP)
        stopped = time.monotonic()
        try:
            wait_until(
                lambda: time.monotonic() - stopped > limit + 0.1, what="the limit"
            )
        finally:
            os.kill(pid, signal.SIGCONT)
        assert connection.read_response().body == b"done"


AT_A_LIMIT = {
    "instructions": ("loop { }", "more than 30000 instructions"),
    "time": ('s = "a" * 3_000_000; loop { s.hash }', "more than 100 ms"),
    "memory": ('"a" * 9_000_000', "more than 8388608 bytes"),
    "output": (
        's = "a" * 1_000_000; 9.times { Nginx.rputs s }',
        "bytes of output",
    ),
    "symbols": ('20_000.times { |i| "#{i}s".to_sym }', "more than 10000 symbols"),
    "stack": ("def f; f; end; f", "SystemStackError"),
    "rescued-time": (
        's = "a" * 3_000_000; begin; loop { s.hash }; rescue Exception; 1; end',
        "more than 100 ms",
    ),
    "rescued-stack": ("def f; f; end; begin; f; rescue SystemStackError; 1; end", ""),
}


@pytest.mark.parametrize("name", AT_A_LIMIT)
def test_vm_that_reached_a_limit_is_thrown_away(ruby: Site, name: str) -> None:
    """Nothing that such a script has done is seen by a later one."""
    code, message = AT_A_LIMIT[name]
    limits = {
        "instructions": "instructions=30000",
        "symbols": f"instructions=100000000; {PATIENT[:-1]}",
    }.get(name, "instructions=100000000")
    nginx = ruby.start(
        f"mruby_limits {limits};"
        + content(f"$left = 1; GC.disable; class String; def left; end; end; {code}")
        + content(
            'Nginx.rputs [$left, GC.disable, "".respond_to?(:left)].inspect', "/later"
        )
        + WELL
    )
    pids = nginx.workers()
    for _ in range(2):
        nginx.get("/ruby")
        assert nginx.get("/later").body == b"[nil, false, false]"
    assert nginx.workers() == pids
    said = [s for s in nginx.errors() if "mruby:" in s]
    assert len(said) == (2 if message else 0)
    assert all(message in line for line in said)
    log = (ruby.directory / "logs" / "error.log").read_text()
    assert len(re.findall(r"\[warn\] .* mruby: a new VM, since a script r", log)) == 2


@pytest.mark.parametrize("rescued", [True, False])
def test_init_script_that_went_too_deep(ruby: Site, rescued: bool) -> None:
    """The VM that it has left is thrown away by nobody."""
    deep = "begin; f; rescue SystemStackError; 1; end" if rescued else "f"
    nginx = ruby.start(
        content("Nginx.rputs $n += 1"),
        http=f"mruby_init_code 'GC.disable; $n = 0; def f; f; end; {deep}';",
    )
    assert [nginx.get("/ruby").body for _ in range(3)] == [b"1", b"2", b"3"]


def test_place_of_a_stack_that_was_full(ruby: Site) -> None:
    """Each SystemStackError says its own, not that of the one before."""
    nginx = ruby.start(
        content("\ndef first\n  first\nend\nfirst\n", "/a")
        + content(
            "\ndef second\n  second\nend\n"
            "begin\n  second\nrescue SystemStackError => e\n"
            "  Nginx.rputs e.backtrace[0]\nend\n",
            "/b",
        )
    )
    for _ in range(2):
        assert nginx.get("/a").status == 500
        assert nginx.get("/b").text.endswith(":in second")
    assert all(":in first" in line for line in nginx.errors())


def test_garbage_is_collected_after_a_script_that_disabled_it(ruby: Site) -> None:
    """How it is collected is for one script to say, and for the init scripts."""
    nginx = ruby.start(
        content(
            "Nginx.rputs [GC.disable, GC.interval_ratio, GC.step_ratio].inspect;"
            " GC.interval_ratio = 9999; GC.step_ratio = 1"
        )
        + content("GC.generational_mode = true", "/mode"),
        http="mruby_init_code 'GC.interval_ratio = 150';",
    )
    first = nginx.get("/ruby").body
    assert first == b"[false, 150, 200]"
    assert nginx.get("/ruby").body == first
    assert nginx.get("/mode").status == 500


@pytest.mark.parametrize("code", DEEP.values(), ids=DEEP)
def test_deep(ruby: Site, code: str) -> None:
    """Recursion ends in an exception, or ends; never the worker."""
    nginx = ruby.start(content(code) + WELL)
    for _ in range(3):
        assert nginx.get("/ruby").status in (200, 500)
        assert_well(nginx)


def test_limit_in_set_and_access(ruby: Site) -> None:
    """Each kind of handler has the limits of its location."""
    nginx = ruby.start(
        """
        location /a { mruby_set_code $x 'loop { }'; return 200; }
        location /b { mruby_access_handler_code 'loop { }'; return 200; }
        location /c { mruby_access_handler_code 'loop { }'; }
        """
        + WELL
    )
    assert nginx.get("/a").status == 500
    assert nginx.get("/c").status == 500
    assert_well(nginx)


def test_limits_are_inherited(ruby: Site) -> None:
    """From http and server, each of the two by itself."""
    code = quoted("300.times { }; Nginx.rputs 'x' * 150_000")
    nginx = ruby.start(
        f"""
        location /a {{ mruby_content_handler_code '{code}'; }}
        location /b {{
            mruby_limits instructions=100000;
            mruby_content_handler_code '{code}';
        }}
        location /c {{
            mruby_limits instructions=100000 memory=1m;
            mruby_content_handler_code '{code}';
        }}
        """,
        http="mruby_limits instructions=200; mruby_limits memory=100k;",
    )
    assert nginx.get("/a").status == 500
    assert nginx.get("/b").status == 500
    assert nginx.get("/c").status == 200
    said = " ".join(nginx.errors())
    assert "more than 200 instructions" in said
    assert "more than 102400 bytes" in said


def test_each_request_has_its_own(ruby: Site) -> None:
    """What one has used up, the next one has anew."""
    nginx = ruby.start(
        "mruby_limits instructions=50000 memory=1m;"
        + content("1000.times { 'x' * 500 }; Nginx.rputs 'done'")
    )
    for _ in range(60):
        assert nginx.get("/ruby").body == b"done"
    assert not nginx.errors()


def test_new_vm_runs_init_again(ruby: Site) -> None:
    """After memory ran out globals are those of init, and workers the same."""
    nginx = ruby.start(
        content("$kept = 'x' * 600_000; $more = 'y' * 600_000")
        + content("Nginx.rputs $n += 1", "/n"),
        http="mruby_init_code '$n = 10'; mruby_limits memory=1m;",
    )
    assert nginx.get("/n").body == b"11"
    pids = nginx.workers()
    assert nginx.get("/ruby").status == 500
    nginx.wait_for_log(r"\[warn\] .*mruby: a new VM, since a script ran out of memory")
    assert nginx.get("/n").body == b"11"
    assert nginx.workers() == pids


def test_exception_is_a_500_and_one_line(ruby: Site) -> None:
    """500 and one line: class, message, backtrace with file and line."""
    code = '\ndef deeper\n  raise ArgumentError, "no\\nway"\nend\ndeeper\n'
    nginx = ruby.start(content(code) + WELL)
    assert nginx.get("/ruby").status == 500
    line = nginx.wait_for_log("mruby:")
    conf = re.escape(str(ruby.directory / "nginx.conf"))
    match = re.search(
        rf"ArgumentError: no way, at {conf}:(\d+):in deeper, {conf}:(\d+), client", line
    )
    assert match, line
    text = nginx.conf.read_text().splitlines()
    assert "raise ArgumentError" in text[int(match[1]) - 1]
    assert text[int(match[2]) - 1] == "deeper"
    assert_well(nginx)


def test_exception_in_a_file(ruby: Site) -> None:
    """The backtrace has the file's own name and lines."""
    path = ruby.directory / "a.rb"
    path.write_text("x = 1\n\nnil.upcase\n")
    path.chmod(0o644)
    nginx = ruby.start(f"location /a {{ mruby_content_handler {path}; }}")
    assert nginx.get("/a").status == 500
    line = nginx.wait_for_log("NoMethodError")
    assert f"mruby: {path}: NoMethodError: " in line
    assert f", at {path}:3, client" in line


@pytest.mark.parametrize(
    "name",
    ["File", "IO", "Dir", "Socket", "TCPSocket", "Process", "ObjectSpace", "ENV"],
)
def test_no_way_out(ruby: Site, name: str) -> None:
    """Neither files nor sockets nor processes."""
    nginx = ruby.start(content(f"Nginx.rputs Object.const_defined?(:{name})"))
    assert nginx.get("/ruby").body == b"false"


@pytest.mark.parametrize(
    "call",
    [
        *("eval('1')", "`id`", "system('id')", "exec('id')", "fork", "exit", "exit!"),
        *("abort", "sleep 1", "open('/etc/passwd')", "require 'x'", "load 'x'"),
        *("binding", "instance_eval('1')", "Object.class_eval('1')", "gets"),
    ],
)
def test_no_such_method(ruby: Site, call: str) -> None:
    """What would leave the VM, or stop the worker, is not there."""
    nginx = ruby.start(content(call) + WELL)
    assert nginx.get("/ruby").status == 500
    assert_well(nginx)


def memory_of(pid: int) -> int:
    """Return a process's resident memory in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert match
    return int(match[1])


SOAK = """
    r = Nginx::Request.new
    list = (1..20).map { |i| "#{i}: #{r.args} #{r.headers_in['Host']}" }
    r.headers_out["X-Soak"] = list.size.to_s
    Nginx.rputs list.join("\\n")
    Nginx.rputs r.var.request_uri
"""


def test_soak(ruby: Site) -> None:
    """No growth over many requests, good ones and bad ones.

    The longer run, of 1,000,000 requests, is NGX_SOAK=1000000.
    """
    total = int(os.environ.get("NGX_SOAK", "6000"))
    nginx = ruby.start(
        "keepalive_requests 1000000000; access_log off;"
        "mruby_limits instructions=20000;"
        + content(SOAK)
        + content("Nginx.return 404; f = proc { |x| x }; f.call(1)", "/none")
        + content("raise 'x' * 100 unless Nginx::Request.new.args.empty?", "/bad")
        + content("loop { }", "/loop"),
        main="",
    )
    (pid,) = nginx.workers()

    def run(count: int) -> None:
        with nginx.connect() as connection:
            for n in range(count):
                path = "/none" if n % 3 == 0 else f"/ruby?n={n}"
                connection.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                connection.read_response()

    run(total // 4)
    for path in ("/bad?1", "/loop"):
        nginx.get(path)
    before = memory_of(pid)
    run(total)
    for path in ("/bad?1", "/loop") * 10:
        assert nginx.get(path).status == 500
    after = memory_of(pid)
    print(f"resident {before} KiB, after {total} requests {after} KiB")
    # AddressSanitizer keeps what is freed
    assert after < before + (1024 if ruby.flavour.name != "asan" else 300 * 1024)
    assert nginx.workers() == [pid]


def test_reloads_leave_nothing_in_the_master(ruby: Site) -> None:
    """The master's memory is the same after many readings of the configuration."""
    scripts = "".join(content(SOAK, f"/s{n}") for n in range(20))
    nginx = ruby.start(scripts, http="mruby_init_code '$x = 1';")
    sizes = []
    for _ in range(12):
        nginx.reload()
        sizes.append(memory_of(nginx.pid))
    if ruby.flavour.name == "asan":
        return
    assert sizes[-1] < sizes[3] + 256, sizes


def test_killed_worker_has_a_successor(ruby: Site) -> None:
    """A worker that is killed leaves nothing behind that the next one misses."""
    nginx = ruby.start(content("Nginx.rputs 'x'"))
    nginx.allow_log("exited on signal 9")
    (pid,) = nginx.workers()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: nginx.workers() not in ([], [pid]), what="a new worker")
    assert nginx.get("/ruby").body == b"x"
