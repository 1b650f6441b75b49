# frozen_string_literal: true

# Boots a Rails application in a process of its own, in the order that the
# arguments name, asks it for some paths, and prints what it said as JSON.
#
# usage: rails_app.rb STEP... -- PATH...

require 'fileutils'
require 'json'
require 'logger'
require 'tmpdir'

# What can be done before the application is initialized, in any order.
STEPS = {
  'gem' => -> { require 'ngx_sendfile' },
  'railtie' => -> { require 'ngx_sendfile/railtie' },
  'rails' => -> { require 'rails' },
  'controllers' => -> { require 'action_controller/railtie' },
  'records' => -> { require 'active_record/railtie' },
  'application' => -> { make_application },
  'redirect' => -> { Rails.application.config.action_dispatch.x_sendfile_header = 'X-Accel-Redirect' },
  'none' => -> { Rails.application.config.action_dispatch.x_sendfile_header = nil },
  'initializer' => lambda do
    Rails.application.initializer('theirs') { |app| app.config.action_dispatch.x_sendfile_header = 'X-Theirs' }
  end
}.freeze

FILE = File.join(Dir.mktmpdir, 'a%b 見?.txt')
File.write(FILE, 'text')
at_exit { FileUtils.rm_rf(File.dirname(FILE)) }

# The actions of both controllers.
module Actions
  def plain
    send_file FILE, disposition: 'inline'
  end

  def learn
    send_file FILE, learn: 10.minutes
  end

  def never
    send_file FILE, learn: nil
  end

  def public
    expires_in 5.minutes, public: true
    send_file FILE, learn: 60
  end

  def string
    send_file FILE, learn: '600'
  end

  def negative
    send_file FILE, learn: -1
  end

  def missing
    send_file "#{FILE}x", learn: 600
  rescue ActionController::MissingFile
    head :not_found
  end

  def error
    send_file FILE, status: 503, learn: 600
  end

  def text
    render plain: 'text'
  end
end

def make_application
  Object.const_set(:TestApplication, Class.new(Rails::Application))
  configure_application(TestApplication.config)
  TestApplication.instance
end

def configure_application(config)
  config.root = File.dirname(FILE)
  config.eager_load = false
  config.secret_key_base = 'a' * 64
  config.logger = Logger.new(IO::NULL)
  config.hosts.clear
  config.session_store :cookie_store, key: '_session'
end

def define_controllers
  { FilesController: ActionController::Base, ApiController: ActionController::API }.each do |name, base|
    Object.const_set(name, Class.new(base) { include Actions })
  end
  Rails.application.routes.draw do
    get 'files/:action', controller: 'files'
    get 'api/:action', controller: 'api'
  end
end

def ask(path)
  env = Rack::MockRequest.env_for("http://localhost#{path}")
  Rails.application.env_config['action_dispatch.show_exceptions'] = false
  status, headers, body = Rails.application.call(env)
  text = +''
  body.each { |part| text << part }
  { status: status, headers: headers.to_h, body: text }
rescue StandardError => e
  { error: e.class.name, message: e.message }
end

steps, _, paths = ARGV.slice_when { |a, b| [a, b].include?('--') }.to_a
steps.each { |step| STEPS.fetch(step).call }
Rails.application.initialize!
told = { answers: [] }
if defined?(ActionController)
  define_controllers
  told[:header] = Rails.application.config.action_dispatch.x_sendfile_header
  told[:actions] = FilesController.action_methods.to_a
  told[:answers] = Array(paths).map { |path| ask(path) }
end
told[:file] = FILE
puts JSON.generate(told)
