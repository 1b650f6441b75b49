# frozen_string_literal: true

require 'dalli'
require 'json'
require 'minitest/autorun'
require 'stringio'
require 'tmpdir'
require 'ngx_sendfile'

require_relative 'support/servers'

ENV['APP_ENV'] = 'test'
Dalli.logger = Logger.new(IO::NULL)

# A test with a configuration of its own.
class GemTest < Minitest::Test
  def setup
    @log = StringIO.new
    log = Logger.new(@log)
    configuration = NgxSendfile::Configuration.new
    configuration.logger = log
    NgxSendfile.instance_variable_set(:@publisher, NgxSendfile::Publisher.new(configuration.freeze))
  end

  def configure(&block)
    NgxSendfile.configure(&block)
  end

  # It raises +error+ with all of +words+ in the message.
  def assert_refused(error, *words, &block)
    raised = assert_raises(error, &block)
    assert_kind_of NgxSendfile::Error, raised
    words.each { |word| assert_includes raised.message, word }
    raised
  end

  def memcached
    Servers.memcached
  end
end
