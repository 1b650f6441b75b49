# frozen_string_literal: true

require_relative 'helper'
require 'open3'

# Active Storage's blobs, in an application that is booted for it.
class TestActiveStorage < GemTest
  APP = File.join(__dir__, 'support/rails_blobs.rb')
  LIB = File.expand_path('../lib', __dir__)

  def boot(switch, *steps)
    out, error, status = Open3.capture3(RbConfig.ruby, '-I', LIB, APP, memcached.address, switch, *steps)
    assert status.success?, error
    told = JSON.parse(out.lines.last)
    records = told['seen'].map { |text| text && JSON.parse(text) }
    [told['key'], records]
  end

  def test_published_after_the_commit
    key, (created, html, rolled_back, gone, back, purged) = boot('on', *%w[create html rollback gone back purge])
    path = "#{key[0, 2]}/#{key[2, 2]}/#{key}"
    assert_equal({ 'path' => path, 'name' => 'a-b- c.png', 'type' => 'image/png', 'disposition' => 'inline' }, created)
    assert_equal %w[application/octet-stream attachment], html.values_at('type', 'disposition')
    assert_equal html, rolled_back
    # of a service that is not there any more, and then of one that is
    assert_nil gone
    assert_equal html, back
    assert_nil purged
  end

  def test_only_if_said
    NgxSendfile.configure { |c| c.memcached = memcached.address }
    NgxSendfile.unpublish(NgxSendfile::Key.new('activestorage:1'))
    assert_equal [nil, nil], boot('off', 'create', 'html').last
  end
end

# A key that is one already.
class TestKey < GemTest
  def setup
    super
    configure { |c| c.memcached = memcached.address }
    configure { |c| c.key = 'file:' }
    @key = NgxSendfile::Key.new('activestorage:7')
  end

  def test_without_prefix
    NgxSendfile.publish(@key, 'a')
    assert_equal 'a', memcached.stored('activestorage:7')[:bytes]
    assert_nil memcached.stored('file:activestorage:7')
    assert NgxSendfile.unpublish(@key)
  end

  def test_rules_of_a_key
    key = NgxSendfile::Key.new('a b')
    assert_refused(NgxSendfile::InvalidKey, 'write it without') { NgxSendfile.publish(key, 'a') }
  end
end
