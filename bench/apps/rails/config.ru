# frozen_string_literal: true

# A minimal Rails 6.1 application that sends files, in production mode, with
# Rails' own stack of middleware and without a database:
#
#     /                 nothing, to see that it runs
#     /download/PATH    the file PATH below BENCH_FILES
#     /file/ID          the file whose path memcached has for ID
#
# BENCH_SENDFILE_HEADER names the header that tells the server in front which
# file to send; without it Rails sends the file. BENCH_LEARN is how many seconds
# nginx may remember the answer.

require 'action_controller/railtie'
require 'dalli'
require 'logger'

FILES = ENV.fetch('BENCH_FILES')
LEARN = ENV['BENCH_LEARN']
# A server that was slow once is asked again soon.
STORE = ENV['BENCH_MEMCACHED'] &&
        Dalli::Client.new(ENV['BENCH_MEMCACHED'], socket_timeout: 5, down_retry_delay: 1)

class BenchApplication < Rails::Application
  config.root = __dir__
  # as in the config/environments/production.rb that Rails generates
  config.cache_classes = true
  config.eager_load = true
  config.consider_all_requests_local = false
  config.action_controller.perform_caching = true
  config.public_file_server.enabled = false
  config.secret_key_base = 'only for the benchmark'
  config.log_level = :warn
  config.logger = Logger.new($stderr)
  config.action_dispatch.x_sendfile_header = ENV['BENCH_SENDFILE_HEADER']
  config.session_store :cookie_store, key: '_bench_session'
end

class FileController < ActionController::Base
  def up
    head :no_content
  end

  def download
    deliver params[:path]
  end

  def serve
    path = STORE.get(params[:id])
    return head(:not_found) if path.nil?

    deliver path
  end

  private

  def deliver(path)
    response.headers['X-Accel-Expires'] = LEARN if LEARN
    send_file File.join(FILES, path), disposition: 'inline'
  end
end

BenchApplication.initialize!
BenchApplication.routes.draw do
  root to: 'file#up'
  get 'download/*path', to: 'file#download', format: false
  get 'file/:id', to: 'file#serve', format: false
end

run BenchApplication
