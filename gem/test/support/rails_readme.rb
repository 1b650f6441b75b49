# frozen_string_literal: true

# Boots a Rails application with the README's two blocks, and prints the
# answer's status, body and headers as JSON.
#
# usage: rails_readme.rb CONFIG CONTROLLER FILE

require 'action_controller/railtie'
require 'json'
require 'ngx_sendfile'

CONFIG, CONTROLLER, FILE = ARGV

# The smallest there is.
class TestApplication < Rails::Application
  config.root = File.dirname(FILE)
  config.eager_load = false
  config.secret_key_base = 'a' * 64
  config.logger = Logger.new(IO::NULL)
  config.hosts.clear
  class_eval(CONFIG)
end

# What the controller calls.
module Picture
  def self.path_of(_id)
    FILE
  end
end

TestApplication.initialize!
TOPLEVEL_BINDING.eval(CONTROLLER)
Rails.application.routes.draw { get 'pictures/:id', to: 'pictures#show' }

status, headers, body = Rails.application.call(Rack::MockRequest.env_for('http://localhost/pictures/7'))
text = +''
body.each { |part| text << part }
puts JSON.generate([status, text, headers['X-Accel-Expires'], headers['X-Sendfile']])
