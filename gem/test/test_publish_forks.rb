# frozen_string_literal: true

require_relative 'helper'

# What unicorn and Puma do with preload_app: the connection is made, then come
# the workers.
class TestPublishForks < GemTest
  def in_child(&block)
    read, write = IO.pipe
    pid = fork do
      write.write(result(&block))
      write.close
      exit!(0)
    end
    write.close
    [pid, read]
  end

  def result
    yield
    'good'
  rescue StandardError => e
    e.full_message
  end

  def assert_good(child)
    pid, read = child
    assert_equal 'good', read.read
    Process.wait(pid)
  end

  def publish_many(prefix)
    200.times { |n| NgxSendfile.publish("#{prefix}:#{n}", "#{prefix}/#{n}") }
    200.times { |n| raise "#{prefix} #{n}" unless NgxSendfile.unpublish("#{prefix}:#{n}") }
  end

  def test_parent_and_children_write_at_once
    configure { |c| c.memcached = memcached.address }
    NgxSendfile.publish('before', 'a')
    children = Array.new(3) { |n| in_child { publish_many("child#{n}") } }
    publish_many('parent')
    children.each { |child| assert_good(child) }
  end

  def test_each_child_has_a_connection_of_its_own
    server = Servers::Memcached.new
    configure { |c| c.memcached = server.address }
    NgxSendfile.publish('before', 'a')
    before = server.connections
    2.times { |n| assert_good(in_child { NgxSendfile.publish("c#{n}", 'a') }) }
    NgxSendfile.publish('after', 'a')
    assert_equal 3, server.connections - before
  ensure
    server&.stop
  end

  def test_a_fork_while_another_thread_writes
    configure { |c| c.memcached = memcached.address }
    stop = false
    thread = Thread.new { NgxSendfile.publish('busy', 'a') until stop }
    5.times { |n| assert_good(in_child { publish_many("fork#{n}") }) }
  ensure
    stop = true
    thread&.join
  end
end
