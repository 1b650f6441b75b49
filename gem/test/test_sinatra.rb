# frozen_string_literal: true

require_relative 'helper'
require 'fileutils'
require 'rack/mock'
require 'sinatra/base'

# helpers NgxSendfile::Sinatra
class TestSinatra < GemTest
  FOLDER = Dir.mktmpdir
  FILE = File.join(FOLDER, 'a%b.txt')
  File.write(FILE, 'text')
  FileUtils.mkdir_p(File.join(FOLDER, 'public'))
  File.write(File.join(FOLDER, 'public/static.txt'), 'static')
  Minitest.after_run { FileUtils.rm_rf(FOLDER) }

  # Routes for each way to call it.
  class App < Sinatra::Base
    helpers NgxSendfile::Sinatra
    set :environment, :test
    set :raise_errors, true
    set :show_exceptions, false
    set :static, true
    set :public_folder, File.join(FOLDER, 'public')

    get('/plain') { send_file FILE }
    get('/learn') { send_file FILE, learn: 600 }
    get('/named') { send_file FILE, filename: '見.pdf', type: :json, learn: nil }
    get('/inline') { send_file FILE, disposition: :inline, last_modified: Time.at(1_000_000_000) }
    get('/bytes') { send_file "#{FOLDER}/\xFF", filename: '見.pdf' }
    get('/relative') { send_file 'a.txt' }
    get('/nonsense') { send_file FILE, learn: -1 }
    get('/missing') { send_file "#{FILE}x", learn: 600 }
    get('/error') { send_file FILE, status: 503, learn: 600 }
    get('/private') { cache_control(:private) && send_file(FILE, learn: 600) }
  end

  def get(path, env = {})
    Rack::MockRequest.new(App).get(path, env)
  end

  def with_nginx
    configure { |c| c.x_sendfile = true }
  end

  def test_without_nginx_it_is_as_ever
    answer = get('/plain')
    assert_equal ['text', nil, nil], [answer.body, answer['X-Sendfile'], answer['X-Accel-Expires']]
    assert_equal 206, get('/plain', 'HTTP_RANGE' => 'bytes=1-2').status
    assert_equal(%w[text 600], get('/learn').then { |learn| [learn.body, learn['X-Accel-Expires']] })
  end

  def test_with_nginx
    with_nginx
    answer = get('/plain')
    assert_equal [200, '', FILE], [answer.status, answer.body, answer['X-Sendfile']]
    assert_equal ['text/plain;charset=utf-8', nil], [answer['Content-Type'], answer['X-Accel-Expires']]
    assert_equal([FILE, '600'], get('/learn').then { |learn| [learn['X-Sendfile'], learn['X-Accel-Expires']] })
  end

  def test_the_other_headers_are_those_of_sinatra
    names = %w[Content-Type Content-Disposition Cache-Control]
    paths = %w[/plain /learn /named /inline /private]
    plain = paths.map { |path| get(path) }
    with_nginx
    paths.zip(plain).each do |path, before|
      after = get(path)
      names.each { |name| before[name].nil? ? assert_nil(after[name]) : assert_equal(before[name], after[name]) }
    end
  end

  def test_a_path_that_is_not_utf8_beside_a_name_that_is
    with_nginx
    answer = get('/bytes')
    assert_equal "#{FOLDER}/\xFF".b, answer['X-Sendfile']
    assert_equal([Encoding::BINARY] * 2, %w[X-Sendfile Content-Disposition].map { |name| answer[name].encoding })
  end

  def test_last_modified
    with_nginx
    date = 'Sun, 09 Sep 2001 01:46:40 GMT'
    assert_equal date, get('/inline')['Last-Modified']
    assert_equal 304, get('/inline', 'HTTP_IF_MODIFIED_SINCE' => date).status
  end

  def test_errors
    [false, true].each do |value|
      configure { |c| c.x_sendfile = value }
      assert_refused(NgxSendfile::InvalidOption, 'is a relative path: write') { get('/relative') }
      assert_refused(NgxSendfile::InvalidOption, 'write learn:') { get('/nonsense') }
    end
  end

  def test_what_is_not_there_is_not_kept
    answer = get('/missing')
    assert_equal [404, nil], [answer.status, answer['X-Accel-Expires']]
  end

  def test_an_error_page_has_a_body
    with_nginx
    answer = get('/error')
    assert_equal [503, 'text', nil, nil],
                 [answer.status, answer.body, answer['X-Sendfile'], answer['X-Accel-Expires']]
  end

  def test_the_public_folder_is_left_alone
    with_nginx
    assert_equal(['static', nil], get('/static.txt').then { |answer| [answer.body, answer['X-Sendfile']] })
  end

  def test_send_file_is_sinatras_outside
    assert_equal Sinatra::Helpers, Sinatra::Base.instance_method(:send_file).owner
  end
end
