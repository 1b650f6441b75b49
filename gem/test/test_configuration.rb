# frozen_string_literal: true

require_relative 'helper'
require 'pathname'

# NgxSendfile.configure
class TestConfiguration < GemTest
  def config
    NgxSendfile.config
  end

  def refused(*words, &block)
    assert_refused(NgxSendfile::InvalidOption, *words) { configure(&block) }
  end

  def test_defaults
    assert_equal ['127.0.0.1:11211'], config.memcached
    assert_equal '7', NgxSendfile::Publisher.new(config).key(7)
    assert_nil config.root
    assert_empty config.purge_url
    refute config.raise_errors
  end

  def test_what_is_not_set_stays
    configure { |c| c.key = 'a:' }
    configure { |c| c.root = '/srv' }
    assert_equal ['a:', '/srv'], [config.key, config.root]
  end

  def test_an_error_leaves_all_as_it_was
    refused('no URL') do |c|
      c.key = 'a:'
      c.purge_url = 'nonsense'
    end
    assert_equal '', config.key
  end

  def test_it_cannot_be_changed_by_the_way
    assert_raises(FrozenError) { config.root = '/srv' }
  end

  def test_servers
    configure { |c| c.memcached = %w[a:1 b:2:3 /run/m.sock memcached://c:4 memcached:/run/n.sock [::1]:5 d] }
    assert_equal %w[a:1 b:2:3 /run/m.sock c:4 /run/n.sock [::1]:5 d], config.memcached
    refused('has no server') { |c| c.memcached = [] }
    ['', 'http://a:1', 'a b', 'a/b'].each { |name| refused('is no server') { |c| c.memcached = name } }
  end

  def test_root
    configure { |c| c.root = Pathname('/srv/files/') }
    assert_equal '/srv/files', config.root
    refused('is not absolute') { |c| c.root = 'files' }
  end

  def test_purge_url
    configure { |c| c.purge_url = %w[http://a/s https://u:p@b:1/s/] }
    assert_equal 2, config.purge_url.size
    ['a/s', 'ftp://a', 'http://a/s?b', 'http://a/ b'].each do |url|
      refused('is no URL of nginx') { |c| c.purge_url = url }
    end
  end

  # uri, a default gem, has said nil of http:///s, and "" since 0.12.3: here
  # are both in each version that knows the empty one.
  def test_a_purge_url_without_a_host
    %w[http:///s http:/s http:s http:// http://:80/s https://u:p@/s].each do |url|
      refused('is no URL of nginx') { |c| c.purge_url = url }
    end
  end

  def test_purge_timeout
    configure { |c| c.purge_timeout = 0.5 }
    assert_in_delta 0.5, config.purge_timeout
    [nil, 0, -1, '2', 1i].each { |value| refused('is no time', 'write seconds') { |c| c.purge_timeout = value } }
  end

  def test_key
    publisher = NgxSendfile::Publisher
    configure { |c| c.key = ->(id) { "file:#{id}:v1" } }
    assert_equal 'file:7:v1', publisher.new(config).key(7)
    refused('makes no key') { |c| c.key = 7 }
  end

  def test_what_is_no_key
    publisher = NgxSendfile::Publisher.new(config)
    { nil => 'is nil', '' => 'is empty', 'a b' => 'a space', "a\n" => 'a control byte', "\x7F" => 'a control byte',
      'é' * 126 => '252 bytes' }.each do |id, words|
      assert_refused(NgxSendfile::InvalidKey, words) { publisher.key(id) }
    end
    assert_equal 250, publisher.key('é' * 125).bytesize
  end

  def test_a_namespace_of_dalli_is_refused
    refused('namespace', 'c.key') { |c| c.dalli_options = { 'namespace' => 'a' } }
  end

  def test_the_version_is_that_of_the_module
    assert_includes File.read(File.join(Servers::ROOT, 'cli/src/sendfilectl/__init__.py')),
                    "__version__ = \"#{NgxSendfile::VERSION}\""
    assert_includes File.read(File.join(Servers::ROOT, 'CHANGELOG.md')), "## #{NgxSendfile::VERSION}"
  end
end
