# frozen_string_literal: true

require_relative 'helper'
require 'active_support'
require 'active_support/core_ext/string/output_safety'

# The cases of records that nginx and sendfilectl have as well: test/vectors.
class TestRecordCases < GemTest
  FILE = File.expand_path('../../test/vectors/records.tsv', __dir__)
  CASES = 212
  DECODED = %w[path type name disposition expires headers].freeze

  # The bytes of a field: %0a is a byte, %{9 a} nine times "a".
  def self.unescape(field)
    field.b.gsub(/%\{(\d+) ([^}]*)\}|%(\h\h)/n) do
      match = Regexp.last_match
      match[3] ? [match[3]].pack('H*') : match[2] * match[1].to_i
    end
  end

  HEAD, *ROWS = File.read(FILE, encoding: 'UTF-8').split("\n").map { |line| line.split("\t", -1) }
  TABLE = ROWS.map { |row| HEAD.zip(row).to_h }.freeze

  TABLE.each do |row|
    define_method("test_#{row['case'].tr(' ', '_')}") do
      verdict, words = row['gem'].split(' ', 2)
      value = self.class.unescape(row['value'])
      case verdict
      when 'writes' then writes(value, words, row)
      when 'refuses' then refuses(value, words)
      when 'Marshal' then marshal(value, words)
      when '-' then cannot(value)
      else flunk "#{row['gem']}: no such verdict"
      end
    end
  end

  def test_the_table_is_whole
    assert_equal CASES, TABLE.size
  end

  def test_the_white_list_is_that_of_nginx
    headers = TABLE.find { |row| row['case'] == 'the white-list' }['headers']
    names = self.class.unescape(headers).split("\n").map { |line| line[/\A[^:]+/] }
    assert_equal names, NgxSendfile::RecordHeaders::NAMES
  end

  private

  # With the path and the fields that a value is made of.
  def record(value)
    return NgxSendfile::Record.new(value).to_s unless value.start_with?('{')

    fields = parse(value)
    path = fields.delete('path')
    NgxSendfile::Record.new(path, **fields.transform_keys(&:to_sym)).to_s
  end

  def writes(value, bytes, row)
    written = record(value)
    return assert_equal self.class.unescape(bytes), written.b if bytes

    assert_equal 'takes', row['nginx']
    assert_equal DECODED.to_h { |name| [name, self.class.unescape(row[name])] }, decoded(written)
  end

  # What nginx makes of a value that the gem has written.
  def decoded(written)
    found = written.start_with?('{') ? JSON.parse(written) : { 'path' => written }
    found['disposition'] ||= 'inline' if found.key?('name')
    found['headers'] = found.fetch('headers', {}).map { |name, value| "#{name}: #{value}" }.join("\n")
    DECODED.to_h { |name| [name, found[name].to_s.b] }
  end

  def refuses(value, words)
    assert_refused(NgxSendfile::InvalidRecord, *words.split(' … ')) { record(value) }
  end

  def marshal(value, name)
    object = unmarshal(value)
    assert_equal name, object.class.name
    assert_equal value, Marshal.dump(object)
  end

  def cannot(value)
    written = again { value.start_with?('{') ? JSON.generate(parse(value)).b : Marshal.dump(unmarshal(value)) }
    refute_equal value, written
  end

  def parse(value)
    JSON.parse(value.dup.force_encoding(Encoding::UTF_8))
  end

  def unmarshal(value)
    Marshal.load(value) # rubocop:disable Security/MarshalLoad -- of the table
  end

  # What is read and written again, nil if it cannot be.
  def again
    yield
  rescue ArgumentError, EncodingError, JSON::JSONError
    nil
  end
end
