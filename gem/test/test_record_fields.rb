# frozen_string_literal: true

require_relative 'helper'
require 'active_support'
require 'active_support/time'

# What a record says beside the path.
class TestRecordFields < GemTest
  NOW = 2_000_000_000

  def record(path, **options)
    NgxSendfile::Record.new(path, **options)
  end

  def json(path, **options)
    JSON.parse(record(path, **options).to_s)
  end

  def refused(*words, path: 'a', **options)
    assert_refused(NgxSendfile::InvalidRecord, *words) { record(path, **options) }
  end

  def test_all_fields
    assert_equal(
      { 'path' => 'docs/7.pdf', 'name' => '見積書 2026.pdf', 'type' => 'application/pdf',
        'disposition' => 'attachment', 'headers' => { 'cache-control' => 'max-age=60' }, 'expires' => NOW },
      json('docs/7.pdf', name: '見積書 2026.pdf', type: 'application/pdf', disposition: :attachment,
                         headers: { 'cache-control' => 'max-age=60' }, expires: NOW)
    )
  end

  def test_nil_and_empty_fields_are_left_away
    assert_equal 'a', record('a', name: nil, type: '', headers: {}, disposition: nil, expires: nil).to_s
  end

  def test_a_name_of_another_encoding_becomes_utf8
    assert_equal 'é', json('a', name: 'é'.encode('ISO-8859-1'))['name']
    assert_equal '日', json('a', name: '日'.b)['name']
  end

  def test_what_is_no_field
    refused('no :filename', 'name:', filename: 'a')
    refused('"inline" or "attachment"', disposition: 'download')
    refused('control byte', name: "a\nb")
    refused('control byte', type: "text/plain\r\nX: y")
    refused('not UTF-8', name: "a\xFF")
  end

  def test_a_path_beside_a_name_must_be_utf8
    refused('not UTF-8', 'the path alone', path: "a\xFF", name: 'b')
  end

  def test_what_is_no_header
    refused('"Set-Cookie" is not sent', headers: { 'Set-Cookie' => 'a=b' })
    refused('is not sent', headers: { "Vary\n" => 'a' })
    refused('is not sent', headers: { "ETag\xFF" => 'a' })
    refused('control byte', headers: { 'Vary' => "a\r\nX: y" })
    refused('no text', headers: { 'Vary' => ['a'] })
    refused('no text', headers: { 'Vary' => nil })
    refused('are the same', headers: { 'Vary' => 'a', 'vary' => 'b' })
    refused('no Hash', headers: 'Vary: a')
    refused('33 headers', headers: (1..33).to_h { |n| ["Access-Control-#{n}", 'a'] })
  end

  def test_headers_that_are_sent
    all = NgxSendfile::RecordHeaders::NAMES.to_h { |name| [name.downcase, "a\tb"] }
    assert_equal all, json('a', headers: all)['headers']
    assert_equal({ 'Access-Control-Max-Age' => '60' }, json('a', headers: { 'Access-Control-Max-Age': 60 })['headers'])
  end

  def test_times
    time = Time.at(NOW)
    [NOW, NOW.to_f, time, time.utc.to_datetime, time.in_time_zone('Asia/Tokyo')].each do |value|
      assert_equal NOW, json('a', expires: value)['expires']
    end
  end

  def test_a_duration
    assert_in_delta Time.now.to_i + 600, json('a', expires: 10.minutes)['expires'], 2
  end

  def test_what_is_no_time
    [600, -1, '2030-01-01', :soon, Float::INFINITY, Float::NAN, 253_402_300_800, 1i].each do |time|
      refused('is no time', 'Time.now + 600', expires: time)
    end
  end

  def test_seconds_for_memcached
    assert_nil record('a').seconds_left
    assert_equal 60, record('a', expires: NOW).seconds_left(Time.at(NOW - 60))
    assert_nil record('a', expires: 2**31).seconds_left
    assert_equal 1, record('a', expires: NOW).seconds_left(Time.at(NOW))
  end

  def test_expired
    assert record('a', expires: NOW).expired?(Time.at(NOW))
    refute record('a', expires: NOW).expired?(Time.at(NOW - 1))
  end

  def test_size
    assert_equal 65_536, record('a', type: 'x' * (65_536 - 22)).to_s.bytesize
    refused('65537 bytes', type: 'x' * (65_536 - 21))
  end
end
