# frozen_string_literal: true

require_relative 'helper'
require_relative 'support/fake_nginx'

# Purges of what nginx has learned for a URL.
class TestPurgeLearned < GemTest
  include FakeNginx::Use

  def test_a_url_is_percent_encoded
    with_nginx(200, 200) do |nginx|
      configure do |c|
        c.key = 'doc:'
        c.purge_url = nginx.url('/status/')
      end
      assert NgxSendfile.purge(url: 'https://a.example:8443/b%20c?d=é&e')
      assert NgxSendfile.purge(url: URI('http://a?b'))
      assert_equal(%w[https%3A%2F%2Fa%2Eexample%3A8443%2Fb%2520c%3Fd%3D%C3%A9%26e http%3A%2F%2Fa%2F%3Fb],
                   nginx.requests.map { |head| head[%r{\ADELETE /status/cache\?url=(\S+) HTTP/1.1\r\n}, 1] })
    end
  end

  def test_what_is_no_url
    with_nginx do |nginx|
      configure { |c| c.purge_url = nginx.url }
      ['', '/documents/7', 'www.example.com/7', 'http:///7', 'http://:80/7', 'http://a/b c', 'http://a/b#c',
       'http://me:secret@a/b', "http://a/b\n", 7].each do |url|
        error = assert_refused(NgxSendfile::InvalidOption, 'write all of it') { NgxSendfile.purge(url: url) }
        refute_includes error.message, 'secret'
      end
      assert_empty nginx.requests
    end
  end

  def test_an_id_or_a_url
    assert_refused(NgxSendfile::InvalidOption, 'the one or the other') { NgxSendfile.purge(7, url: 'http://a/7') }
    assert_refused(NgxSendfile::InvalidKey, 'the ID is nil') { NgxSendfile.purge }
  end
end
