# frozen_string_literal: true

# The application of ../rails in one file, with the gem ngx_sendfile: it names
# files by X-Sendfile without a setting.

require "action_controller/railtie"
require "ngx_sendfile"

# How often the application was asked.
class CountRequests
  def initialize(app)
    @app = app
  end

  def call(env)
    line = "#{env['REQUEST_METHOD']} #{env['REQUEST_URI']}\n"
    File.write(ENV.fetch("APP_COUNT"), line, mode: "a")
    @app.call(env)
  end
end

class Archive < Rails::Application
  config.load_defaults 6.1
  config.root = __dir__
  config.eager_load = true
  config.hosts.clear
  config.secret_key_base = "the secret of a test " * 4
  config.session_store :cookie_store, key: "_archive_session"
  config.logger = ActiveSupport::Logger.new($stdout)
  config.log_level = :info
  config.middleware.insert_before 0, CountRequests

  routes.append do
    get "/files/:id", to: "files#show"
    get "/download/:id", to: "files#download"
    get "/public/:id", to: "files#public"
    get "/mine/:id", to: "files#mine"
  end
end

class FilesController < ActionController::Base
  FOLDER = ENV.fetch("APP_FILES")

  def show
    send_file path, disposition: "inline"
  end

  def download
    send_file path
  end

  # The same for everybody: nginx may answer by itself for ten minutes.
  def public
    send_file path, disposition: "inline", learn: 10.minutes
  end

  # Only for who is logged in: the session is a cookie.
  def mine
    session[:visits] = session.fetch(:visits, 0) + 1
    send_file path, disposition: "inline", learn: 10.minutes
  end

  private

  # In real life this asks a model.
  def path
    catalog = JSON.parse(File.read(File.join(FOLDER, "catalog.json")))
    row = catalog.fetch(params[:id]) { raise ActionController::RoutingError, "no such file" }
    File.join(FOLDER, row["path"])
  end
end

Rails.application.initialize!
run Rails.application
