# frozen_string_literal: true

require_relative 'helper'
require 'pathname'

# The path of a record, and what is refused.
class TestRecordPath < GemTest
  def record(path, **options)
    NgxSendfile::Record.new(path, **options)
  end

  def refused(*words, path: 'a', **options)
    assert_refused(NgxSendfile::InvalidRecord, *words) { record(path, **options) }
  end

  def test_a_path_alone_is_its_bytes
    ['29/7887.jpg', '100%.pdf', 'a b', 'what?#', '見積書.pdf', '😀', '.hidden', '...', 'a..b'].each do |path|
      assert_equal path.b, record(path).to_s.b
    end
  end

  def test_bytes_that_are_not_utf8_stay_as_they_are
    assert_equal "a\xFFb".b, record("a\xFFb").to_s.b
    assert_equal "\x83\x65".b, record((+"\x83\x65").force_encoding('Shift_JIS')).to_s.b
  end

  def test_a_path_with_a_brace_is_json
    assert_equal '{"path":"{a}"}', record('{a}').to_s
  end

  def test_a_pathname
    assert_equal 'a/b', record(Pathname('a/b')).to_s
  end

  def test_frozen_strings_are_left_alone
    path = +"\u00e9"
    path.freeze
    record(path, name: path)
    assert_equal Encoding::UTF_8, path.encoding
  end

  def test_what_is_no_path
    { '' => 'is empty', nil => 'is empty', '/etc/passwd' => 'starts with "/"', 'a/' => 'ends with "/"',
      '../a' => '".."', 'a/../b' => '".."', '..' => '".."', './a' => '"."', 'a/.' => '"."', 'a//b' => '"//"',
      "a\n" => 'control byte', "a\0b" => 'control byte', "a\x7F" => 'control byte',
      'a' * 4097 => '4096' }.each do |path, words|
      error = refused(words, path: path)
      assert_match(/write /, error.message)
      assert_operator error.message.bytesize, :<, 300
    end
    assert_equal 4096, record('a' * 4096).to_s.bytesize
  end

  def test_a_path_below_the_root_is_made_relative
    assert_equal 'a/b', record('/srv/files/a/b', root: '/srv/files').to_s
    assert_equal 'a/b', record('a/b', root: '/srv/files').to_s
    assert_equal 'a', record('/a', root: '/').to_s
    assert_equal '日'.b, record('/srv/写/日', root: '/srv/写').to_s.b
  end

  def test_a_path_beside_the_root
    ['/srv/files-private/a', '/srv/file', '/srv/files', '/a'].each do |path|
      refused('is not below the root "/srv/files"', path: path, root: '/srv/files')
    end
    refused('".."', path: '/srv/files/../secret', root: '/srv/files')
    refused('starts with "/"', path: '/srv/files//a', root: '/srv/files')
    refused('is empty', path: '/srv/files/', root: '/srv/files')
  end
end
