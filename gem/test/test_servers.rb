# frozen_string_literal: true

require_relative 'helper'
require 'dalli'

# Several servers: the keys are where Dalli, and so nginx's distribution dalli,
# looks for them.
class TestServers < GemTest
  def setup
    super
    @servers = Array.new(3) { Servers::Memcached.new }
  end

  def teardown
    @servers.each(&:stop)
  end

  def addresses
    @servers.map.with_index { |server, n| n == 2 ? "#{server.address}:2" : server.address }
  end

  def numbers
    (0...200).to_a
  end

  def publish_all
    configure { |c| c.memcached = addresses }
    numbers.each { |n| NgxSendfile.publish(n, "a/#{n}") }
  end

  def test_keys_are_where_dalli_has_them
    publish_all
    dalli = Dalli::Client.new(addresses)
    numbers.each { |n| assert_equal "a/#{n}", dalli.get(n.to_s, raw: true) }
  end

  def test_each_key_is_at_one_server
    publish_all
    counts = @servers.map { |server| numbers.count { |n| server.stored(n) } }
    assert_equal 200, counts.sum
    counts.each { |count| assert_operator count, :>, 10 }
  end

  def published?(id)
    NgxSendfile.publish(id, 'a')
  rescue NgxSendfile::StoreError
    false
  end

  def test_options_of_dalli
    configure do |c|
      c.memcached = addresses
      c.dalli_options = { failover: false, socket_failure_delay: nil }
    end
    @servers.first.stop
    assert_includes(10..190, numbers.count { |n| published?(n) })
  end
end
