# frozen_string_literal: true

require_relative 'helper'

# Links for http_sendfile_signature hmac.
class TestSign < GemTest
  VECTORS = File.expand_path('../../test/vectors/signatures.tsv', __dir__)
  KEY = (0..31).map { |byte| format('%02x', byte) }.join

  def rows
    names, *rows = File.readlines(VECTORS, chomp: true).map { |line| line.split("\t", -1) }
    rows.map { |row| names.zip(row).to_h }.select { |row| row['scheme'] == 'hmac' }
  end

  def test_the_links_that_nginx_takes
    assert_equal 4, rows.size
    rows.each do |row|
      unsigned = row['value'].sub(/[?&]expires=.*/, '')
      assert_equal row['uri'], NgxSendfile.sign(unsigned, key: row['key'], **options(row)), row['case']
    end
  end

  def options(row)
    at = row['until']
    { expires_at: at.empty? ? nil : Time.at(at.to_i),
      address: row['parameters'] == 'address' ? '127.0.0.1' : nil }
  end

  def test_the_key_of_the_configuration
    configure { |c| c.signing_key = KEY }
    assert_equal NgxSendfile.sign('/a', key: KEY), NgxSendfile.sign('/a')
    refute_equal NgxSendfile.sign('/a'), NgxSendfile.sign('/a', key: 'ff' * 32)
  end

  def test_expires_in
    before = Time.now.to_i
    link = NgxSendfile.sign('/a?b=1', key: KEY, expires_in: 3600)
    seconds = link[%r{\A/a\?b=1&expires=(\d+)&signature=[\w-]{43}\z}, 1].to_i
    assert_includes (before + 3600)..(Time.now.to_i + 3600), seconds
  end

  def test_scheme_and_host_are_not_signed
    link = NgxSendfile.sign('https://www.example.com/a', key: KEY)
    assert_equal "https://www.example.com#{NgxSendfile.sign('/a', key: KEY)}", link
    assert_equal "https://h#{NgxSendfile.sign('/', key: KEY)}", NgxSendfile.sign('https://h', key: KEY)
  end

  def test_arguments_that_are_there_already
    assert_refused(NgxSendfile::InvalidOption, '"signature" already') { NgxSendfile.sign('/a?signature=x', key: KEY) }
    assert_refused(NgxSendfile::InvalidOption, '"expires" already') do
      NgxSendfile.sign('/a?expires=1', key: KEY, expires_in: 5)
    end
  end

  def test_urls_that_no_client_sends
    ['', 'a', '/a b', '/é', '/a#b', "/a\n", nil, 'ftp://h/'].each do |url|
      assert_refused(NgxSendfile::InvalidOption, 'is none that a client asks for') { NgxSendfile.sign(url, key: KEY) }
    end
  end

  def test_times_that_are_none
    [-5, 'never', Object.new].each do |at|
      assert_refused(NgxSendfile::InvalidOption, 'is no time') { NgxSendfile.sign('/a', key: KEY, expires_at: at) }
    end
    assert_refused(NgxSendfile::InvalidOption, 'is no time') { NgxSendfile.sign('/a', key: KEY, expires_in: 'x') }
    assert_refused(NgxSendfile::InvalidOption, 'say the same') do
      NgxSendfile.sign('/a', key: KEY, expires_in: 5, expires_at: Time.now)
    end
  end

  def test_no_key
    assert_refused(NgxSendfile::InvalidOption, 'set c.signing_key') { NgxSendfile.sign('/a') }
    ['', 'x', 'abc', '0g', "ff\n", 255].each do |key|
      error = assert_refused(NgxSendfile::InvalidOption, 'signing_key is no key in hex') do
        configure { |c| c.signing_key = key }
      end
      refute_includes error.message, 'abc'
    end
  end

  def test_the_key_is_not_shown
    configure { |c| c.signing_key = KEY }
    refute_includes NgxSendfile.config.inspect, KEY
    refute_includes NgxSendfile::SignedLink.new(KEY).inspect, [KEY].pack('H*').inspect
  end
end
