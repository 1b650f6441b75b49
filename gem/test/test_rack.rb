# frozen_string_literal: true

require_relative 'helper'
require 'pathname'
require 'rack/builder'
require 'rack/lint'
require 'rack/mock'
require 'rack/sendfile'

# NgxSendfile.send_file in a Rack application.
class RackTest < GemTest
  def setup
    super
    @folder = Dir.mktmpdir
    @file = File.join(@folder, '100% 見積?.pdf')
    File.binwrite(@file, '0123456789')
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def app(path = @file, **options)
    ->(env) { NgxSendfile.send_file(env, path, **options) }
  end

  # Through Rack's own checker.
  def get(path = @file, method: 'GET', env: {}, wrap: [], **options)
    stack = Rack::Builder.new do
      use Rack::Lint
      wrap.each { |arguments| use(*arguments) }
    end
    stack.run(app(path, **options))
    Rack::MockRequest.new(stack).request(method, '/', env)
  end
end

# With nginx in front.
class TestRackXSendfile < RackTest
  def setup
    super
    configure { |c| c.x_sendfile = true }
  end

  def test_the_path_is_raw_and_the_body_empty
    answer = get
    assert_equal [200, '', @file], [answer.status, answer.body, answer['X-Sendfile']]
    assert_equal '0', answer['Content-Length']
    assert_equal 'application/pdf', answer['Content-Type']
    %w[X-Accel-Expires Cache-Control Content-Disposition].each { |name| assert_nil answer[name] }
  end

  def test_learn
    answer = get(learn: 600, headers: { 'Cache-Control' => 'private' })
    assert_equal %w[600 private], [answer['X-Accel-Expires'], answer['Cache-Control']]
    [nil, false].each { |never| assert_nil get(learn: never)['X-Accel-Expires'] }
    assert_refused(NgxSendfile::InvalidOption, 'write learn:') { get(learn: '600') }
  end

  def test_fields
    answer = get(name: 'a"b/見 .txt', type: 'text/x', disposition: :attachment)
    assert_equal 'text/x', answer['Content-Type']
    assert_equal "attachment; filename=\"a\\\"b__ .txt\"; filename*=UTF-8''a%22b_%E8%A6%8B%20.txt",
                 answer['Content-Disposition']
    assert_equal 'inline; filename="b.txt"', get(name: 'b.txt')['Content-Disposition']
    assert_equal 'text/plain', get(name: 'b.txt')['Content-Type']
    assert_equal 'attachment', get(disposition: 'attachment')['Content-Disposition']
  end

  def test_every_byte_of_a_name_is_encoded
    name = (0x20..0x7e).map(&:chr).join.delete('/\\')
    encoded = get(name: "#{name}é")['Content-Disposition'][/UTF-8''(.*)/, 1]
    assert_match(/\A[A-Za-z0-9!\#$&+.^_`|~%-]+\z/, encoded)
    assert_equal "#{name}é", URI.decode_www_form_component(encoded.gsub('+', '%2B'))
  end

  def test_nonsense
    assert_refused(NgxSendfile::InvalidRecord, 'inline') { get(disposition: 'download') }
    assert_refused(NgxSendfile::InvalidRecord, 'no :filename') { get(filename: 'a') }
    assert_refused(NgxSendfile::InvalidRecord, 'control byte') { get(name: "a\r\nb") }
  end

  def test_paths_that_are_refused
    { 'docs/7.pdf' => 'is a relative path: write an absolute one', '' => 'is no path', nil => 'is no path',
      "/a\nX: y" => 'control byte', "/a\0" => 'control byte', '/a/../b' => '".."', '/..' => '".."',
      '/a ' => 'ends with a space', '~/a' => 'is a relative path' }.each do |path, words|
      assert_refused(NgxSendfile::InvalidOption, words) { get(path) }
    end
  end

  def test_paths_that_are_cleaned
    assert_equal '/a/b..c/~', get('/a//./b..c/~')['X-Sendfile']
    assert_equal '/a', get(Pathname('//a'))['X-Sendfile']
    assert_equal "/a\xFF".b, get("/a\xFF")['X-Sendfile'].b
  end

  def test_a_file_that_only_nginx_has
    assert_equal([200, '/srv/elsewhere'], get('/srv/elsewhere').then { |answer| [answer.status, answer['X-Sendfile']] })
  end

  def test_a_type_that_rack_does_not_know_is_left_to_nginx
    assert_nil get('/a.unknown')['Content-Type']
  end

  def test_rack_sendfile_around_it_changes_nothing
    answer = get(wrap: [[Rack::Sendfile, 'X-Sendfile']], learn: 5)
    assert_equal [@file, '5', ''], [answer['X-Sendfile'], answer['X-Accel-Expires'], answer.body]
  end

  def test_the_arguments_are_left_alone
    headers = { 'Vary' => 'Accept' }.freeze
    get(@file.dup.freeze, headers: headers, learn: 5)
    assert_equal({ 'Vary' => 'Accept' }, headers)
  end

  def test_head
    assert_equal([200, @file], get(method: 'HEAD').then { |answer| [answer.status, answer['X-Sendfile']] })
  end
end

# Without.
class TestRackFile < RackTest
  def test_the_file_is_the_body
    answer = get(learn: 600, name: 'a.txt')
    assert_equal [200, '0123456789', nil], [answer.status, answer.body, answer['X-Sendfile']]
    assert_equal(['10', '600', 'text/plain'], %w[Content-Length X-Accel-Expires Content-Type].map { |n| answer[n] })
    assert_equal 'inline; filename="a.txt"', answer['Content-Disposition']
  end

  def test_ranges_and_conditions
    part = get(env: { 'HTTP_RANGE' => 'bytes=2-4' })
    assert_equal [206, '234', 'bytes 2-4/10'], [part.status, part.body, part['Content-Range']]
    same = get(env: { 'HTTP_IF_MODIFIED_SINCE' => part['Last-Modified'] }, learn: 5)
    assert_equal [304, '', nil], [same.status, same.body, same['X-Accel-Expires']]
    assert_equal 416, get(env: { 'HTTP_RANGE' => 'bytes=20-' }).status
  end

  def test_several_ranges
    answer = get(env: { 'HTTP_RANGE' => 'bytes=0-1,4-5' }, type: 'text/x')
    assert_equal 206, answer.status
    assert_match(%r{\Amultipart/byteranges}, answer['Content-Type'])
  end

  def test_head
    answer = get(method: 'HEAD')
    assert_equal [200, '', '10'], [answer.status, answer.body, answer['Content-Length']]
  end

  def test_what_is_not_there_is_not_kept
    ["#{@file}x", @folder].each do |path|
      answer = get(path, learn: 600)
      assert_equal [404, nil, "File not found\n"], [answer.status, answer['X-Accel-Expires'], answer.body]
    end
  end

  def test_an_unknown_type
    file = File.join(@folder, 'a.unknown')
    File.write(file, 'a')
    assert_equal 'application/octet-stream', get(file)['Content-Type']
  end

  def test_the_same_paths_are_refused
    assert_refused(NgxSendfile::InvalidOption, 'is a relative path') { get('a') }
    assert_refused(NgxSendfile::InvalidOption, '".."') { get("#{@folder}/../a") }
  end

  def test_rack_sendfile_around_it
    answer = get(wrap: [[Rack::Sendfile, 'X-Sendfile']], learn: 5, name: 'a')
    assert_equal [@file, '5', '', '0'],
                 [answer['X-Sendfile'], answer['X-Accel-Expires'], answer.body, answer['Content-Length']]
  end
end

# Which of the two.
class TestRackMode < RackTest
  def x_sendfile?(env = {})
    !get(env: env)['X-Sendfile'].nil?
  end

  def with_env(values)
    old = values.keys.to_h { |name| [name, ENV.fetch(name, nil)] }
    ENV.update(values)
    yield
  ensure
    ENV.update(old)
  end

  def test_production
    refute x_sendfile?
    with_env('APP_ENV' => 'production') { assert x_sendfile? }
    with_env('APP_ENV' => nil, 'RACK_ENV' => 'production') { assert x_sendfile? }
    with_env('APP_ENV' => nil, 'RACK_ENV' => nil, 'RAILS_ENV' => 'production') { assert x_sendfile? }
    with_env('APP_ENV' => nil, 'RACK_ENV' => 'development', 'RAILS_ENV' => 'production') { refute x_sendfile? }
    with_env('APP_ENV' => nil, 'RACK_ENV' => nil, 'RAILS_ENV' => nil) { refute x_sendfile? }
  end

  def test_the_configuration_wins_over_production
    configure { |c| c.x_sendfile = false }
    with_env('APP_ENV' => 'production') { refute x_sendfile? }
    configure { |c| c.x_sendfile = true }
    assert x_sendfile?
  end

  def test_the_server_says_so
    assert x_sendfile?('sendfile.type' => 'x-sendfile')
    configure { |c| c.x_sendfile = true }
    refute x_sendfile?('sendfile.type' => 'X-Accel-Redirect')
  end

  def test_a_client_has_no_say
    refute x_sendfile?('HTTP_X_SENDFILE_TYPE' => 'X-Sendfile', 'HTTP_SENDFILE_TYPE' => 'X-Sendfile')
  end
end

# Rack 3 wants lower case, and has a Hash for it.
class TestRack3 < RackTest
  # As that of Rack 3, as far as it is used.
  class Headers < Hash
    def []=(name, value)
      super(name.downcase, value)
    end

    def merge!(other)
      other.each { |name, value| self[name] = value }
      self
    end
  end

  def setup
    super
    Rack.const_set(:Headers, Headers)
  end

  def teardown
    Rack.send(:remove_const, :Headers)
    super
  end

  def assert_lower_case(x_sendfile, *others)
    configure { |c| c.x_sendfile = x_sendfile }
    _, headers, = app(learn: 5, name: 'a.pdf', headers: { 'Vary' => 'a' }).call(Rack::MockRequest.env_for('/'))
    expected = %w[content-disposition content-length content-type vary x-accel-expires] + others
    assert_equal expected.sort, headers.keys.sort
  end

  def test_with_nginx
    assert_lower_case(true, 'x-sendfile')
  end

  def test_the_file
    assert_lower_case(false, 'last-modified')
  end
end
