# frozen_string_literal: true

require_relative 'helper'
require_relative 'support/models'
require 'open3'
require 'rack/builder'
require 'rack/mock'

# Each block of the README is run, with paths and servers of the tests.
class TestReadme < GemTest
  README = File.read(File.expand_path('../README.md', __dir__))
  BLOCKS = README.scan(/<!-- test: (\w+) -->\n```\w+\n(.*?)^```$/m).to_h.freeze

  def setup
    super
    @files = Dir.mktmpdir
    FileUtils.mkdir(File.join(@files, 'docs'))
    %w[7.pdf docs/7.pdf docs/8.pdf].each { |name| File.write(File.join(@files, name), name) }
  end

  def teardown
    FileUtils.rm_rf(@files)
  end

  def block(name)
    BLOCKS.fetch(name).gsub('/srv/app/files', @files).gsub('127.0.0.1:11211', memcached.address)
  end

  def run_block(name)
    TOPLEVEL_BINDING.dup.eval(block(name), "README.md #{name}")
  end

  def test_all_blocks_of_ruby_have_a_name
    assert_equal README.scan(/^```ruby$/).size, BLOCKS.size - 1
  end

  def test_sign
    ENV['LINKS_KEY'] = '7f' * 32
    assert_match %r{\Ahttps://www.example.com/file/7\?dl=1&expires=\d+&signature=[\w-]{43}\z}, run_block('sign')
  ensure
    ENV.delete('LINKS_KEY')
  end

  def test_blobs
    refute NgxSendfile.config.active_storage
    run_block('blobs')
    assert NgxSendfile.config.active_storage
  end

  def test_rack
    app = Rack::Builder.new_from_string(block('rack'))
    answer = Rack::MockRequest.new(app).get('/')
    assert_equal ['7.pdf', '600'], [answer.body, answer['X-Accel-Expires']]
    run_block('x_sendfile')
    assert_equal File.join(@files, '7.pdf'), Rack::MockRequest.new(app).get('/')['X-Sendfile']
  end

  def test_sinatra
    run_block('sinatra')
    answer = Rack::MockRequest.new(Object.const_get(:Files)).get('/file/7')
    assert_equal ['7.pdf', '600'], [answer.body, answer['X-Accel-Expires']]
  ensure
    Object.send(:remove_const, :Files)
  end

  def test_publish_with_its_nginx
    nginx = Servers::Nginx.new(memcached, block('nginx').sub(/^ *proxy_pass.*\n/, ''))
    eval_configure(nginx)
    run_block('publish')
    answers = [7, 8].map { |id| nginx.get("/file/#{id}") }
    assert_equal(%w[404 200], answers.map(&:code))
    assert_match(/\Aattachment/, answers.last['Content-Disposition'])
  ensure
    nginx&.stop
  end

  def eval_configure(nginx)
    text = block('configure').sub('http://127.0.0.1:8081/sendfile-status', nginx.url)
    TOPLEVEL_BINDING.dup.eval(text)
    assert_equal [nginx.url], NgxSendfile.config.purge_url.map(&:to_s)
  end

  # Has the README's model, and what it calls.
  module Models
  end

  def model
    Models.module_eval(block('model'))
    Models::Document.class_eval do
      alias_attribute(:file_path, :path)
      def public?
        !secret
      end
    end
    Models::Document
  end

  def test_model
    configure { |c| c.memcached = memcached.address }
    document = model.create!(path: 'docs/7.pdf', title: 'a.pdf')
    assert_equal '{"path":"docs/7.pdf","name":"a.pdf","type":"application/pdf"}',
                 memcached.stored(document.id)[:bytes]
    document.update!(secret: true)
    assert_nil memcached.stored(document.id)
  end

  def test_import
    configure { |c| c.memcached = memcached.address }
    Document.delete_all
    document = Document.create!(path: 'a')
    run_block('import')
    assert_nil memcached.stored(document.id)
  end

  def test_rails
    app = File.join(__dir__, 'support/rails_readme.rb')
    out, error, status = Open3.capture3(RbConfig.ruby, '-I', File.expand_path('../lib', __dir__), app,
                                        block('development'), block('rails'), File.join(@files, '7.pdf'))
    assert status.success?, error
    assert_equal [200, '7.pdf', '600', nil], JSON.parse(out.lines.last)
  end

  def test_gemfile
    assert_equal "gem 'ngx_sendfile'", BLOCKS.fetch('gemfile').lines.last.chomp
  end
end
