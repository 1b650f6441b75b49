# frozen_string_literal: true

require_relative 'helper'

# With a memcached.
class PublishTest < GemTest
  def setup
    super
    configure { |c| c.memcached = memcached.address }
  end

  def key
    "#{name}:#{object_id}"
  end

  def with_memcached
    server = Servers::Memcached.new
    yield server
  ensure
    server&.stop
  end
end

# publish and unpublish
class TestPublish < PublishTest
  def test_a_path_is_stored_as_it_is
    path = "写真/#{'a' * 4000}.jpg"
    assert_equal true, NgxSendfile.publish(key, path)
    assert_equal({ flags: 0, bytes: path.b }, memcached.stored(key))
    assert_equal(-1, memcached.seconds_left(key))
  end

  def test_what_is_long_is_not_compressed
    NgxSendfile.publish(key, 'a', type: "text/#{'x' * 60_000}")
    stored = memcached.stored(key)
    assert_equal 0, stored[:flags]
    assert_equal 'a', JSON.parse(stored[:bytes])['path']
  end

  def test_fields_are_stored_as_json
    NgxSendfile.publish(key, 'docs/7.pdf', name: '見積書.pdf')
    assert_equal '{"path":"docs/7.pdf","name":"見積書.pdf"}'.b, memcached.stored(key)[:bytes]
    assert_equal 0, memcached.stored(key)[:flags]
  end

  def test_memcached_forgets_what_has_expired
    { Time.now + 100 => 90..101, Time.now + (90 * 86_400) => 7_700_000..7_776_001,
      Time.utc(9999) => [-1] }.each do |time, left|
      NgxSendfile.publish(key, 'a', expires: time)
      assert_includes left, memcached.seconds_left(key)
    end
  end

  def test_what_has_expired_is_withdrawn
    NgxSendfile.publish(key, 'a')
    NgxSendfile.publish(key, 'a', expires: Time.now - 1)
    assert_nil memcached.stored(key)
  end

  def test_unpublish
    NgxSendfile.publish(key, 'a')
    assert_equal true, NgxSendfile.unpublish(key)
    assert_nil memcached.stored(key)
    assert_equal false, NgxSendfile.unpublish(key)
  end

  def test_a_prefix_and_numbers
    configure { |c| c.key = 'file:' }
    NgxSendfile.publish(7, 'a')
    assert_equal 'a', memcached.stored('file:7')[:bytes]
    NgxSendfile.unpublish('7')
    assert_nil memcached.stored('file:7')
  end

  def test_keys_beyond_ascii_and_of_full_length
    ["日本:#{object_id}", 'é' * 125].each do |id|
      NgxSendfile.publish(id, 'a')
      assert_equal 'a', memcached.stored(id.b)[:bytes]
    end
  end

  def test_an_invalid_record_changes_nothing
    NgxSendfile.publish(key, 'a')
    assert_refused(NgxSendfile::InvalidRecord, '".."') { NgxSendfile.publish(key, '../b') }
    assert_equal 'a', memcached.stored(key)[:bytes]
  end
end

# What goes wrong.
class TestPublishFaults < PublishTest
  def test_nobody_there
    configure { |c| c.memcached = "127.0.0.1:#{Servers.free_port}" }
    assert_refused(NgxSendfile::StoreError, 'cannot write the key "a"', '127.0.0.1') { NgxSendfile.publish('a', 'b') }
    assert_refused(NgxSendfile::StoreError, 'cannot delete the key "a"') { NgxSendfile.unpublish('a') }
  end

  def test_a_memcached_that_goes_away
    with_memcached do |server|
      configure { |c| c.memcached = server.address }
      assert_equal true, NgxSendfile.publish('a', 'b')
      server.stop
      assert_refused(NgxSendfile::StoreError, 'cannot') { NgxSendfile.publish('a', 'b') }
    end
  end

  def test_a_memcached_that_hangs_and_wakes
    with_memcached do |server|
      configure { |c| c.memcached = server.address }
      NgxSendfile.publish('a', '1')
      server.pause { assert_refused(NgxSendfile::StoreError, 'cannot') { NgxSendfile.publish('a', '2') } }
      Servers.wait('second write') { published?('a', '3') }
      assert_equal '3', server.stored('a')[:bytes]
    end
  end

  def published?(id, path)
    NgxSendfile.publish(id, path)
  rescue NgxSendfile::StoreError
    false
  end
end

# As in Puma.
class TestPublishThreads < PublishTest
  def test_the_threads_of_a_server
    Array.new(8) { |thread| Thread.new { 100.times { |n| write("#{key}:#{thread}:#{n}", n) } } }.each(&:join)
    8.times do |thread|
      assert_equal 'a/98', memcached.stored("#{key}:#{thread}:98")[:bytes]
      assert_nil memcached.stored("#{key}:#{thread}:99")
    end
  end

  # What has an odd number is withdrawn again.
  def write(id, number)
    NgxSendfile.publish(id, "a/#{number}")
    raise "no #{id}" if number.odd? && !NgxSendfile.unpublish(id)
  end

  def test_threads_share_a_connection
    with_memcached do |server|
      configure { |c| c.memcached = server.address }
      Array.new(8) { |n| Thread.new { NgxSendfile.publish("t#{n}", 'a') } }.each(&:join)
      # counted here: memcached counts in threads of its own, sooner or later
      assert_equal 1, open_to(server.port)
    end
  end

  def open_to(port)
    ObjectSpace.each_object(TCPSocket).count { |s| connected_to?(s, port) }
  end

  # A connect that failed leaves an object that never was a stream, until the
  # collector comes.
  def connected_to?(socket, port)
    !socket.closed? && socket.remote_address.ip_port == port
  rescue IOError, Errno::ENOTCONN
    false
  end
end
