# frozen_string_literal: true

require_relative 'helper'
require_relative 'support/fake_nginx'

# What is sent to nginx.
class TestPurge < GemTest
  include FakeNginx::Use

  def test_the_key_is_percent_encoded
    with_nginx(200, 200) do |nginx|
      configure { |c| c.purge_url = nginx.url('/status/') }
      NgxSendfile.purge('a/b?c%é-.')
      NgxSendfile.purge_all
      assert_equal(['DELETE /status/cache/a%2Fb%3Fc%25%C3%A9%2D%2E HTTP/1.1', 'DELETE /status/cache HTTP/1.1'],
                   nginx.requests.map { |head| head.lines.first.chomp })
    end
  end

  def test_the_prefix_is_part_of_the_key
    with_nginx(200) do |nginx|
      configure do |c|
        c.key = 'doc:'
        c.purge_url = nginx.url
      end
      NgxSendfile.purge(7)
      assert_includes nginx.requests.first, ' /status/cache/doc%3A7 '
    end
  end

  def test_all_are_asked_though_one_fails
    with_nginx(404) do |bad|
      with_nginx(200) do |good|
        configure { |c| c.purge_url = [bad.url, good.url] }
        error = assert_refused(NgxSendfile::PurgeError, '404', 'http_sendfile_status write') { NgxSendfile.purge(1) }
        assert_equal 1, good.requests.size
        refute_includes error.message, good.url
      end
    end
  end

  def test_nobody_there
    configure { |c| c.purge_url = "http://127.0.0.1:#{Servers.free_port}/s" }
    assert_refused(NgxSendfile::PurgeError, 'cannot purge http://127.0.0.1', '/s/cache/1') { NgxSendfile.purge(1) }
  end

  def test_one_that_hangs
    with_nginx(nil) do |nginx|
      configure do |c|
        c.purge_url = nginx.url
        c.purge_timeout = 0.2
      end
      assert_refused(NgxSendfile::PurgeError, 'Timeout') { NgxSendfile.purge(1) }
    end
  end

  def test_a_password_is_sent_and_not_shown
    with_nginx(401) do |nginx|
      configure { |c| c.purge_url = nginx.url.sub('//', '//us%40er:sec+ret@') }
      error = assert_refused(NgxSendfile::PurgeError, '401') { NgxSendfile.purge(1) }
      assert_includes nginx.requests.first, "Basic #{['us@er:sec+ret'].pack('m0')}"
      refute_includes error.message, 'sec'
    end
  end

  def test_no_proxy_of_the_environment
    with_nginx(200) do |nginx|
      ENV['http_proxy'] = "http://127.0.0.1:#{Servers.free_port}"
      configure { |c| c.purge_url = nginx.url }
      assert NgxSendfile.purge(1)
    ensure
      ENV.delete('http_proxy')
    end
  end

  def test_a_key_that_leads_elsewhere
    with_nginx do |nginx|
      configure { |c| c.purge_url = nginx.url }
      %w[.. ../.. a/../b .].each do |key|
        assert_refused(NgxSendfile::PurgeError, 'purge_all') { NgxSendfile.purge(key) }
      end
      assert_empty nginx.requests
    end
  end

  def test_without_a_url
    assert NgxSendfile.purge(1)
    assert NgxSendfile.purge(url: 'http://a/1')
    assert NgxSendfile.purge_all
  end
end
