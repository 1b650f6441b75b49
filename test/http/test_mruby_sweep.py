"""Ruby's classes of mruby: nothing that a script does with them ends a worker."""

from __future__ import annotations

import pytest

from lib.nginx import Nginx
from lib.ruby import content, load_ruby
from lib.site import Site

WELL = content('Nginx.rputs "well"', "/well")


@pytest.fixture
def ruby(site: Site) -> Site:
    """A site with the module for Ruby."""
    load_ruby(site)
    return site


def assert_well(nginx: Nginx, pids: list[int]) -> None:
    """Check that the worker is the one that there was, and serves."""
    assert nginx.get("/well").body == b"well"
    assert nginx.workers() == pids


@pytest.mark.parametrize(
    "code",
    [
        "Proc.allocate.call",
        "Class.new(Proc).allocate.call",
        "Class.new(Proc) { def self.new; allocate; end }.new.call",
        "class Sly < Proc; def self.make; allocate; end; end; Sly.make.yield",
        "Class.allocate.new",
        "Class.new(Class.allocate)",
        "NilClass.allocate",
        "Integer.allocate",
        "Symbol.allocate",
        "Object.new.singleton_class.allocate",
    ],
)
def test_no_unfinished_object(ruby: Site, code: str) -> None:
    """What mruby takes for finished cannot be had unfinished."""
    nginx = ruby.start(content(code) + WELL)
    pids = nginx.workers()
    assert nginx.get("/ruby").status == 500
    assert "TypeError" in nginx.wait_for_log("mruby: .*Error")
    assert_well(nginx, pids)


def test_string_that_is_not_initialized(ruby: Site) -> None:
    """It is an empty one, of its class."""
    code = """
        made = [String.allocate, Class.new(String).allocate]
        made.each { |s| s[""] = ""; s.prepend("a"); s << "b" }
        Nginx.rputs made.inspect
        Nginx.rputs made[1].class.superclass
    """
    nginx = ruby.start(content(code))
    assert nginx.get("/ruby").body == b'["ab", "ab"]String'


def test_bytes_of_negative_length(ruby: Site) -> None:
    """It raises, and gives away nothing of the worker's memory."""
    nginx = ruby.start(content("Nginx.rputs Random.new.bytes(-1).inspect"))
    assert nginx.get("/ruby").status == 500
    assert "ArgumentError: negative" in nginx.wait_for_log("mruby: .*Error")


# Calls the methods of one receiver, that of the number ?n=, from the one of the
# number ?from= on, with each list of arguments and each block. The header X-At
# says how far it came before it reached a limit, which ends it.
SWEEP = """
    def walk(found, m)
      return found if found.include?(m)
      found << m
      names = begin
        m.constants
      rescue NotImplementedError
        []
      end
      names.each do |name|
        inner = m.const_get(name)
        walk(found, inner) if inner.is_a?(Module)
      end
      found
    end

    receivers = []
    walk([], Object).each do |m|
      receivers << [m.to_s, proc { m }]
      next unless m.is_a?(Class)
      receivers << ["#{m}.allocate", proc { m.allocate }]
      receivers << ["subclass of #{m}", proc { Class.new(m).allocate }]
    end

    pair = Struct.new(:a, :b)
    receivers += {
      "string" => proc { "abc" }, "long" => proc { "abcd" * 50 },
      "array" => proc { [3, 1, 2] }, "hash" => proc { { 1 => 2, :a => "b" } },
      "range" => proc { 1..4 }, "struct" => proc { pair },
      "pair" => proc { pair.new(1, 2) }, "raw pair" => proc { pair.allocate },
      "time" => proc { Time.at(0) }, "int" => proc { 5 }, "float" => proc { 1.5 },
      "nan" => proc { 0.0 / 0.0 }, "inf" => proc { 1.0 / 0.0 }, "nil" => proc { nil },
      "true" => proc { true }, "sym" => proc { :abc }, "rnd" => proc { Random.new(1) },
      "set" => proc { Set.new([1, 2]) }, "error" => proc { RuntimeError.new("x") },
      "fiber" => proc { Fiber.new { |x| Fiber.yield x; 2 } },
      "enum" => proc { [1, 2].each }, "lazy" => proc { [1, 2].lazy.map { |x| x } },
      "proc" => proc { proc { |a| a } }, "to_proc" => proc { :upcase.to_proc },
      "lambda" => proc { lambda { |a, b = 1, *c, d: 2, **e, &f| a } },
      "singleton" => proc { "x".singleton_class },
      "class" => proc { Class.new(Array) }
    }.to_a

    label, make = receivers[Nginx::Var.new.arg_n.to_i]

    lists = [
      [], [0], [:self], ["a"], [:a], [nil], [1, 2], [:self, :self], [Object, :x],
      ["a", 2], [[1], {}], [-1], [1.5], [1.0 / 0.0], ["%s%d%c%p%f%x"], [2..3],
      [2..3, "zz"], [Object.new, 1], [:a, 1], [{ 1 => 2 }], [Proc, Class],
      [Class.new(String)], ["C*"], [nil, nil], [String], [Comparable, :a],
      [1 << 40], [(1 << 62) - 1]
    ]
    blocks = [
      nil, proc { |*x| x }, proc { raise "x" }, proc { break 1 },
      proc { |a| a.is_a?(Array) || a.is_a?(String) || a.is_a?(Hash) ? a.clear : 1 }
    ]

    receiver = names = nil
    begin
      receiver = make.call
      names = receiver.methods
    rescue Exception
      names = []
    end

    # what all have is looked at once
    unless ["Object", "Object.allocate"].include?(label)
      names -= Module === receiver ? Object.methods : Object.new.methods
    end
    names = (names + [:initialize, :initialize_copy, :inherited]).uniq

    # another answer, lines of the log that look like alerts, and what the sweep
    # itself is made of
    names -= [:return, :redirect, :send_header, :status_code=, :log, :errlogger,
              :loop, :freeze]

    out = Nginx::Headers_out.new
    from = Nginx::Var.new.arg_from.to_i

    names.each_with_index do |name, i|
      next if i < from
      out["X-At"] = i.to_s
      lists.each do |list|
        blocks.each do |block|
          begin
            x = make.call
            y = x.__send__(name, *list.map { |a| a == :self ? x : a }, &block)
            [x, y].each { |z| z.inspect; z.dup.inspect; z.clone.inspect; z.hash }
          rescue Exception
            1
          end
        end
      end
    end

    GC.start
    out["X-Done"] = label.to_s

    # a limit, so that the next receiver finds a new VM
    deeper = proc { deeper.call }
    begin
      deeper.call
    rescue SystemStackError
      1
    end
"""


SHARDS = 8


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_method_of_every_class(ruby: Site, shard: int) -> None:
    """None ends the worker, of whatever object and with whatever arguments."""
    # what is put out goes to the log
    ruby.variables["LOG_LEVEL"] = "error"
    nginx = ruby.start(
        "mruby_time_limit 2s; mruby_limits instructions=3000000 memory=16m;"
        + content(SWEEP)
        + WELL
    )
    pids = nginx.workers()
    swept: list[str] = []
    start = 0
    while True:
        number = shard + len(swept) * SHARDS
        answer = nginx.get(f"/ruby?n={number}&from={start}")
        if answer.status == 500:
            at = answer.all("X-At")
            assert at, nginx.errors()[-1]
            start = int(at[0]) + 1
            continue
        assert answer.status == 200, nginx.errors()[-1:]
        label = answer.header("X-Done")
        if not label:
            break
        swept.append(label)
        start = 0
    assert len(swept) > 20, swept
    assert_well(nginx, pids)
